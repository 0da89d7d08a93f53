//! `aish-helper policy list|revoke|explain`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::args::PolicyCommand;
use super::call;
use super::mcp::print_notice;
use super::session::duration_text;
use super::table::table;
use super::{columns, print, print_json, print_wrapped};
use crate::chat::{DataSensitivity, OperationClass, RuleEffect};
use crate::client::connect;
use crate::client::styled_line::{self, SpanStyle, StyledLine, fold};
use crate::client::text_format::{cut, short_id};
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::policy::{
    CommandExplanation, GrantInfo, PolicyExplanation, PolicyInForce, PolicyRequest,
    ReportedStanding, RevokedGrant, RuleInfo, RuleReport,
};
use crate::protocol::{Request, ShellId};
use crate::safety::text::one_line;

/// Maximum number of characters shown of a name and of the source of a rule.
const MAX_NAME: usize = 80;
const MAX_SOURCE: usize = 1000;

/// Runs a `policy` subcommand.
///
/// # Errors
/// The configuration is invalid, or the tool, rule or grant is unknown.
pub fn run(paths: &Paths, command: PolicyCommand) -> Result<()> {
    match command {
        PolicyCommand::List { json } => list(paths, json),
        PolicyCommand::Revoke { name, json } => {
            let revoked: Vec<RevokedGrant> = ask(paths, PolicyRequest::Revoke { name }, None)?;
            if json {
                return print_json(&revoked);
            }
            let line = |r: &RevokedGrant| format!("revoked: {}\n", one_line(&r.subject, MAX_NAME));
            print(&revoked.iter().map(line).collect::<String>())
        }
        PolicyCommand::Explain {
            name,
            command,
            json_args,
            intent_type,
            sensitivity,
            shell,
            json,
        } => {
            if let Some(command) = command {
                return explain_command(paths, command, shell, json);
            }
            let request = PolicyRequest::Explain {
                // The parser requires it without a command.
                name: name.unwrap_or_default(),
                arguments: call::read_arguments(json_args)?,
                // The parser has checked the names.
                operation: intent_type.as_deref().and_then(OperationClass::from_name),
                sensitivity: sensitivity.as_deref().and_then(DataSensitivity::from_name),
            };
            let shell_is_known = shell.is_some();
            let explained: PolicyExplanation = ask(paths, request, shell)?;
            match json {
                true => print_json(&explained),
                false => {
                    explained.notices.iter().for_each(|line| print_notice(line));
                    let page = explanation_page(&explained);
                    print_wrapped(&(page + session_grants(paths, shell_is_known)?))
                }
            }
        }
    }
}

fn ask<T: DeserializeOwned>(
    paths: &Paths,
    request: PolicyRequest,
    shell: Option<ShellId>,
) -> Result<T> {
    let request = Request::Policy {
        request,
        cwd: call::current_directory(),
        shell,
        overrides: env_overrides()?,
    };
    connect::to_daemon(paths, &request)?.reply()
}

fn list(paths: &Paths, json: bool) -> Result<()> {
    let policy: PolicyInForce = ask(paths, PolicyRequest::List, None)?;
    if json {
        return print_json(&policy);
    }
    policy.notices.iter().for_each(|line| print_notice(line));
    let row = |rule: &RuleInfo| {
        [
            rule.effect.as_str().to_owned(),
            one_line(&rule.subject, MAX_NAME),
            one_line(&rule.source, MAX_SOURCE),
        ]
    };
    let rules = policy.rules.iter().chain([&policy.default]);
    let rows: Vec<[String; 3]> = rules.map(row).collect();
    let head = ["effect", "subject", "source"].map(String::from);
    let mut out = wrap_lines(table([&head].into_iter().chain(&rows), None, cut));
    if !policy.grants.is_empty() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let row = |grant: &GrantInfo| {
            [
                short_id(&grant.id).to_owned(),
                short_id(&grant.session).to_owned(),
                format!(
                    "{} ago",
                    duration_text(now.saturating_sub(grant.granted_ms))
                ),
                format!("in {}", duration_text(grant.expires_ms.saturating_sub(now))),
                one_line(&grant.subject, MAX_NAME),
            ]
        };
        let rows: Vec<[String; 5]> = policy.grants.iter().map(row).collect();
        let head = ["id", "session", "granted", "expires", "allowed at a prompt"];
        let head = head.map(String::from);
        let grants = table([&head].into_iter().chain(&rows), columns(), cut).concat();
        out.push_str(&format!("\n{grants}"));
    }
    print(&out)
}

/// Wraps lines to the terminal with indented continuations; nothing is cut, because the source is at the end.
fn wrap_lines(lines: Vec<String>) -> String {
    let Some(width) = columns() else {
        return lines.concat();
    };
    let text = |line: StyledLine| line.into_iter().map(|b| b.text).chain(["\n".to_owned()]);
    let wrapped = lines.iter().flat_map(|line| {
        fold(
            &[styled_line::span(line.trim_end(), SpanStyle::Plain)],
            width,
            4,
        )
    });
    wrapped.flat_map(text).collect()
}

/// Returns a line about the grants that an explanation without a shell does not count, if there are any.
fn session_grants(paths: &Paths, shell_is_known: bool) -> Result<&'static str> {
    let has_grants = || -> Result<bool> {
        let policy: PolicyInForce = ask(paths, PolicyRequest::List, None)?;
        Ok(!policy.grants.is_empty())
    };
    Ok(match !shell_is_known && has_grants()? {
        true => "grants of a session are not counted here; llm :policy explain counts them\n",
        false => "",
    })
}

fn explain_command(
    paths: &Paths,
    command: String,
    shell: Option<ShellId>,
    json: bool,
) -> Result<()> {
    let request = PolicyRequest::ExplainCommand { command };
    let explained: CommandExplanation = ask(paths, request, shell)?;
    if json {
        return print_json(&explained);
    }
    explained.notices.iter().for_each(|line| print_notice(line));
    let mut out = format!("{}\n", one_line(&explained.class, MAX_NAME));
    for reason in &explained.reasons {
        out.push_str(&format!("  {}\n", one_line(reason, MAX_SOURCE)));
    }
    let by = one_line(&explained.decided_by, MAX_SOURCE);
    out.push_str(&format!(
        "the command {}: {by}\n",
        verdict_words(explained.decision)
    ));
    print_wrapped(&out)
}

/// Returns the predicate that a decision gives the subject of a sentence.
fn verdict_words(effect: RuleEffect) -> &'static str {
    match effect {
        RuleEffect::Allow => "is allowed",
        RuleEffect::Deny => "is denied",
        RuleEffect::Ask => "needs your approval",
    }
}

fn explanation_page(explained: &PolicyExplanation) -> String {
    let name = one_line(&explained.name, MAX_NAME);
    let verdict = verdict_words(explained.effect);
    let by = one_line(&explained.decided_by, MAX_SOURCE);
    let mut out = match &explained.rejected {
        Some(reason) => {
            let reason = one_line(reason, MAX_SOURCE);
            format!(
                "{name} is rejected: {reason}\nwithout its declared intent it {verdict}: {by}\n"
            )
        }
        None => format!("{name} {verdict}: {by}\n"),
    };
    let reason = &explained.operation_reason;
    match &explained.operation {
        Some(operation) => {
            out.push_str(&format!("treated as {}: {reason}\n\n", operation.as_str()))
        }
        None => out.push_str(&format!("{reason}\n\n")),
    }
    let row = |rule: &RuleReport| {
        let source = one_line(&rule.source, MAX_SOURCE);
        let standing = match rule.standing {
            ReportedStanding::Inactive => "-",
            standing => standing.as_str(),
        };
        [
            standing.to_owned(),
            rule.effect.as_str().to_owned(),
            one_line(&rule.subject, MAX_NAME),
            match &rule.reason {
                Some(reason) => format!("{source} ({})", one_line(reason, MAX_SOURCE)),
                None => source,
            },
        ]
    };
    let rows: Vec<[String; 4]> = explained.considered.iter().map(row).collect();
    out.push_str(&wrap_lines(table(rows.iter(), None, cut)));
    out
}
