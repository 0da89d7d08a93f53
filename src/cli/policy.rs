//! `aish-helper policy list|revoke|explain`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::args::Policy;
use super::call;
use super::mcp::{note, table};
use super::session::{short, span};
use super::{columns, print, print_json};
use crate::client::connect;
use crate::client::frame::{Ink, Line, bit, fold};
use crate::client::tools::cut;
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::policy::{
    Considered, Explanation, GrantInfo, InForce, PolicyRequest, Revoked, RuleInfo,
};
use crate::protocol::{Request, ShellId};
use crate::safety::text::one_line;

/// The most that is shown of a name, and of where a rule stands.
const NAME: usize = 80;
const SOURCE: usize = 1000;

/// Does what was asked.
///
/// # Errors
/// The configuration is wrong, or there is no such thing.
pub fn run(paths: &Paths, command: Policy) -> Result<()> {
    match command {
        Policy::List { json } => list(paths, json),
        Policy::Revoke { name, json } => {
            let revoked: Vec<Revoked> = ask(paths, PolicyRequest::Revoke { name }, None)?;
            if json {
                return print_json(&revoked);
            }
            let line = |r: &Revoked| format!("taken back: {}\n", one_line(&r.what, NAME));
            print(&revoked.iter().map(line).collect::<String>())
        }
        Policy::Explain {
            name,
            json_args,
            intent_type,
            sensitivity,
            shell,
            json,
        } => {
            let request = PolicyRequest::Explain {
                name,
                arguments: call::arguments(json_args)?,
                operation: intent_type,
                sensitivity,
            };
            let explained: Explanation = ask(paths, request, shell)?;
            match json {
                true => print_json(&explained),
                false => {
                    explained.notices.iter().for_each(|line| note(line));
                    print(&page(&explained))
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
        cwd: call::cwd(),
        shell,
        overrides: env_overrides()?,
    };
    connect::to_daemon(paths, &request)?.reply()
}

fn list(paths: &Paths, json: bool) -> Result<()> {
    let all: InForce = ask(paths, PolicyRequest::List, None)?;
    if json {
        return print_json(&all);
    }
    all.notices.iter().for_each(|line| note(line));
    let row = |rule: &RuleInfo| {
        [
            rule.says.clone(),
            one_line(&rule.what, NAME),
            one_line(&rule.source, SOURCE),
        ]
    };
    let rules = all.rules.iter().chain([&all.default]);
    let rows: Vec<[String; 3]> = rules.map(row).collect();
    let head = ["says", "about", "where"].map(String::from);
    let mut out = wrapped(table([&head].into_iter().chain(&rows), None, cut));
    if !all.grants.is_empty() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let row = |grant: &GrantInfo| {
            [
                short(&grant.id).to_owned(),
                short(&grant.session).to_owned(),
                format!("{} ago", span(now.saturating_sub(grant.at_ms))),
                format!("in {}", span(grant.until_ms.saturating_sub(now))),
                one_line(&grant.what, NAME),
            ]
        };
        let rows: Vec<[String; 5]> = all.grants.iter().map(row).collect();
        let head = [
            "id",
            "conversation",
            "given",
            "expires",
            "allowed at a prompt",
        ];
        let head = head.map(String::from);
        let grants = table([&head].into_iter().chain(&rows), columns(), cut).concat();
        out.push_str(&format!("\n{grants}"));
    }
    print(&out)
}

/// Lines that go on below, indented, where a terminal is too narrow: their ends are what was asked for.
fn wrapped(lines: Vec<String>) -> String {
    let Some(width) = columns() else {
        return lines.concat();
    };
    let text = |line: Line| line.into_iter().map(|b| b.text).chain(["\n".to_owned()]);
    let below = lines
        .iter()
        .flat_map(|line| fold(&[bit(line.trim_end(), Ink::Plain)], width, 4));
    below.flat_map(text).collect()
}

fn page(explained: &Explanation) -> String {
    let name = one_line(&explained.name, NAME);
    let is = match explained.says.as_str() {
        "allow" => "is allowed",
        "deny" => "is denied",
        _ => "is asked about",
    };
    let by = one_line(&explained.by, SOURCE);
    let mut out = match &explained.rejected {
        Some(why) => {
            let why = one_line(why, SOURCE);
            format!("{name} is rejected: {why}\nwhat it declares aside, it {is}: {by}\n")
        }
        None => format!("{name} {is}: {by}\n"),
    };
    let because = &explained.because;
    match &explained.operation {
        Some(operation) => out.push_str(&format!("taken for {operation}: {because}\n\n")),
        None => out.push_str(&format!("{because}\n\n")),
    }
    let row = |one: &Considered| {
        let source = one_line(&one.source, SOURCE);
        let standing = match one.standing.as_str() {
            "idle" => "-",
            other => other,
        };
        [
            standing.to_owned(),
            one.says.clone(),
            one_line(&one.what, NAME),
            match &one.why {
                Some(why) => format!("{source} ({})", one_line(why, SOURCE)),
                None => source,
            },
        ]
    };
    let rows: Vec<[String; 4]> = explained.considered.iter().map(row).collect();
    out.push_str(&wrapped(table(rows.iter(), None, cut)));
    out
}
