//! Serves the requests about the policy: list and explain the rules in force, revoke grants and rules.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command_explanation::{command_reason, explain_command};
use crate::chat::{DataSensitivity, OperationClass, ToolCall, ToolDefinition};
use crate::config::origin::{EffectiveSetting, SettingOrigin};
use crate::config::resolve::resolve_with_origins;
use crate::config::{self, Config, ConfigOverrides};
use crate::error::{Error, Result};
use crate::history::journal::now_ms;
use crate::history::record::{PolicyChange, RecordBody, RecordIds};
use crate::protocol::policy::{
    GrantInfo, PolicyExplanation, PolicyInForce, PolicyRequest, ReportedStanding, RevokedGrant,
    RuleInfo, RuleReport,
};
use crate::protocol::{self, kind};
use crate::requests::mcp;
use crate::safety::policy::{
    self, BUILTIN_SERVER, BuiltinAction, HELPER_SERVER, PolicyRule, RuleEffect, RuleStanding,
    RuleSubject, ToolGrant,
};
use crate::services::client_handle::ClientHandle;
use crate::services::{SharedServices, mcp_startup, tool_history};
use crate::session::conversation::{Session, SharedSession};
use crate::session::lock;
use crate::turn::call_context::{CallContext, ToolExposure};
use crate::turn::gate::CallGate;
use crate::turn::outcome::CallEnd;
use crate::turn::rules_in_force::{self, RequestContext};
use crate::turn::work_scope::{self, WorkShell};

/// Serves one request about the policy. Returns the reply frame.
///
/// # Errors
/// The configuration is wrong, or the named item does not exist.
pub async fn serve(
    services: &SharedServices,
    client: &ClientHandle,
    request: PolicyRequest,
    request_context: RequestContext,
) -> Result<Vec<u8>> {
    let overrides = ConfigOverrides::from_map(&request_context.overrides)?;
    let mut config = services.models.config(&overrides)?;
    let notices = rules_in_force::apply(&mut config, &request_context.cwd).await?;
    match request {
        PolicyRequest::List => {
            let listed = list(services, &config, notices)?;
            protocol::json_frame(kind::REPLY, &listed)
        }
        PolicyRequest::Revoke { name } => {
            let revoked = revoke(services, client, &config, name).await?;
            protocol::json_frame(kind::REPLY, &revoked)
        }
        PolicyRequest::ExplainCommand { command } => {
            let places = places(services)?;
            let paths = &services.paths;
            let mut explained = explain_command(&command, &config, paths, &request_context).await;
            explained.decided_by = placed(&places, &explained.decided_by);
            explained.notices = notices;
            protocol::json_frame(kind::REPLY, &explained)
        }
        PolicyRequest::Explain {
            name,
            arguments,
            operation,
            sensitivity,
        } => {
            let own = BuiltinAction::ALL
                .into_iter()
                .find(|own| own.as_str() == name);
            let mut explained = match own {
                Some(own) => explain_own(own, &config),
                None => {
                    let call = ExplainedCall {
                        name,
                        arguments,
                        operation,
                        sensitivity,
                    };
                    explain(services, client, &config, call, &request_context).await?
                }
            };
            let places = places(services)?;
            for one in &mut explained.considered {
                one.source = placed(&places, &one.source);
            }
            explained.notices = notices;
            protocol::json_frame(kind::REPLY, &explained)
        }
    }
}

/// Maps the key of each rule in the user's file to `file:line: key`.
fn places(services: &SharedServices) -> Result<BTreeMap<String, String>> {
    let file = config::read_file(&services.paths)?;
    let path = file.path.as_deref().map(|p| p.display().to_string());
    let (_, settings) = resolve_with_origins(&file, &ConfigOverrides::default())?;
    let place = |s: EffectiveSetting| match (s.origin, &path) {
        (SettingOrigin::File(line), Some(path)) => {
            Some((s.key.clone(), format!("{path}:{line}: {}", s.key)))
        }
        _ => None,
    };
    Ok(settings.into_iter().filter_map(place).collect())
}

fn placed(places: &BTreeMap<String, String>, source: &str) -> String {
    places
        .get(source)
        .cloned()
        .unwrap_or_else(|| source.to_owned())
}

fn list(services: &SharedServices, config: &Config, notices: Vec<String>) -> Result<PolicyInForce> {
    let (rules, places) = (&config.policy, places(services)?);
    let info = |subject: String, effect: RuleEffect, source: &str, project: bool| RuleInfo {
        subject,
        effect,
        source: placed(&places, source),
        project,
    };
    let own = rules.list.iter().map(|rule| (rule, false));
    let mut all: Vec<(&PolicyRule, bool)> =
        own.chain(rules.project.iter().map(|r| (r, true))).collect();
    all.sort_by_key(|(rule, _)| std::cmp::Reverse(rule.effect));
    let of_rule = |(rule, project): (&PolicyRule, bool)| {
        info(rule.subject.to_string(), rule.effect, &rule.source, project)
    };
    let default = &rules.default;
    let of_grant = |(session, grant): (SharedSession, ToolGrant)| GrantInfo {
        subject: grant.subject(),
        id: grant.id,
        session: session.id.clone(),
        granted_ms: grant.granted_ms,
        expires_ms: grant.expires_ms,
    };
    let mut grants: Vec<GrantInfo> = grants(services).map(of_grant).collect();
    // Ids are UUIDv7, so this sorts by time.
    grants.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(PolicyInForce {
        default: info("default".to_owned(), default.effect, &default.source, false),
        rules: all.into_iter().map(of_rule).collect(),
        grants,
        notices,
    })
}

/// Returns the unexpired grants and their sessions.
fn grants(services: &SharedServices) -> impl Iterator<Item = (SharedSession, ToolGrant)> {
    let now = now_ms();
    services
        .sessions
        .open()
        .into_iter()
        .flat_map(move |session| {
            let given = lock(&session.grants).list().to_vec();
            let holds = given
                .into_iter()
                .filter(move |grant| now < grant.expires_ms);
            holds.map(move |grant| (session.clone(), grant))
        })
}

/// Records that all grants end with the daemon.
pub fn lapse(services: &SharedServices) {
    let record_ids = RecordIds {
        user: services.user.clone(),
        ..RecordIds::default()
    };
    for (session, grant) in grants(services) {
        let body = RecordBody::Policy {
            change: PolicyChange::Lapsed,
            what: grant.description(),
            grant: Some(grant.id),
            why: Some("the daemon ended".to_owned()),
        };
        if let Err(e) = session.record(&record_ids, body) {
            tracing::warn!("{}", e.message);
        }
    }
}

/// Revokes the named grants and the rule of that name. If either remained, the next call would run without a question.
async fn revoke(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    name: String,
) -> Result<Vec<RevokedGrant>> {
    let is_id = !name.is_empty() && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let is_named = |grant: &ToolGrant| match is_id {
        true => grant.id.contains(&name),
        false => grant.subject() == name,
    };
    let found: Vec<_> = grants(services)
        .filter(|(_, grant)| is_named(grant))
        .collect();
    if is_id && found.len() != 1 {
        let message = match found.len() {
            0 => format!("no grant has the id {name}"),
            n => format!("{n} grants have {name} in their id"),
        };
        return Err(Error::usage(message).hint("see them with: aish-helper policy list"));
    }
    let record_ids = &client.record_ids;
    let mut revoked = Vec::new();
    let mut recorded = Ok(());
    for (session, grant) in found {
        // Expired or revoked meanwhile.
        if !lock(&session.grants).revoke(&grant.id) {
            continue;
        }
        let body = taken_back(grant.description(), Some(grant.id.clone()), None);
        recorded = recorded.and(session.record_written(record_ids, body).await);
        revoked.push(RevokedGrant {
            subject: grant.description(),
            grant: Some(grant.id),
        });
    }
    let ruled = config.policy.list.iter();
    let ruled = ruled.filter(|rule| rule.subject.to_string() == name);
    let sources: Vec<&str> = ruled.map(|rule| rule.source.as_str()).collect();
    if !is_id && (revoked.is_empty() || !sources.is_empty()) {
        let (paths, rule) = (services.paths.clone(), name.clone());
        // On another thread: it waits for the lock of the file.
        let removed = tokio::task::spawn_blocking(move || config::remove_rule(&paths, &rule)).await;
        removed.map_err(|e| Error::runtime(format!("cannot change the configuration: {e}")))??;
        let body = taken_back(name.clone(), None, Some(sources.join(", ")));
        recorded = recorded.and(services.audit_log.record_written(record_ids, body).await);
        revoked.push(RevokedGrant {
            subject: name,
            grant: None,
        });
    }
    recorded.map_err(|e| {
        let message = format!(
            "revoked, but the record could not be written: {}",
            e.message
        );
        Error::runtime(message)
    })?;
    Ok(revoked)
}

fn taken_back(what: String, grant: Option<String>, why: Option<String>) -> RecordBody {
    RecordBody::Policy {
        change: PolicyChange::Revoked,
        what,
        grant,
        why,
    }
}

/// A call to explain.
struct ExplainedCall {
    name: String,
    arguments: String,
    operation: Option<OperationClass>,
    sensitivity: Option<DataSensitivity>,
}

/// Evaluates the gate as if the call were made now.
async fn explain(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    explained_call: ExplainedCall,
    request_context: &RequestContext,
) -> Result<PolicyExplanation> {
    let Some((alias, tool)) = explained_call.name.split_once([':', '.']) else {
        let message = format!(
            "not a tool name: {}; write SERVER:TOOL",
            explained_call.name
        );
        let hint = "or ask about shell, fs.write or network; see the tools with: llm :mcp tools";
        return Err(Error::usage(message).hint(hint));
    };
    mcp_startup::refresh_for(services, client, config).await?;
    let outside = Session::outside(services.audit_log.log());
    let name = format!("{alias}.{tool}");
    let mut request_context = request_context.clone();
    let is_own = matches!(alias, BUILTIN_SERVER | HELPER_SERVER);
    if is_own {
        let shell = WorkShell {
            cwd: &request_context.cwd,
            env: &BTreeMap::new(),
            overrides: &request_context.overrides,
        };
        let work = work_scope::offer_all(services, &outside, config, shell, true).await?;
        request_context.work = Some(work);
    } else {
        mcp::ready(services, client, config, Some(alias)).await?;
    }
    let request_context = &request_context;
    let catalog = tool_history::catalog(services, Duration::ZERO).await;
    let offered: &[ToolDefinition] = match &request_context.work {
        Some(work) => &work.offered,
        None => &catalog.tools,
    };
    // Built-in tools have no prefix.
    let listed = if alias == BUILTIN_SERVER { tool } else { &name };
    let found = offered.iter().find(|found| found.name == listed);
    let found = found.ok_or_else(|| mcp::no_such_tool(listed, offered))?;
    let shell = request_context.shell.as_ref();
    let session = match shell.and_then(|shell| services.sessions.session_for_shell(shell)) {
        Some(id) => services.sessions.get(&id).await.ok(),
        None => None,
    };
    let session = session.unwrap_or(outside);
    let ask = async |call: ToolCall, exposure: ToolExposure| {
        let context = CallContext {
            services,
            session: &session,
            config,
            request: request_context,
            catalog: &catalog,
            exposure,
            takes_images: true,
            feed: &client.feed,
            record_ids: client.record_ids.clone(),
        };
        CallGate::new(context, &[call]).explain(0).await
    };
    let call = |name: &str, arguments: String| ToolCall {
        id: String::new(),
        name: name.to_owned(),
        arguments,
        extra: None,
    };
    let plain = policy::canonical_arguments(&explained_call.arguments)
        .map_err(|_| Error::usage("the arguments are not a JSON object"))?;
    let mut rejected = None;
    let mut explained = Err(CallEnd::NoSuchTool);
    if explained_call.operation.is_some() || explained_call.sensitivity.is_some() {
        let of_tool = found.annotations.operation();
        let variant = explained_call.operation.unwrap_or(of_tool);
        let mut intent = serde_json::json!({ "operation_type": variant.as_str() });
        if let Some(sensitivity) = explained_call.sensitivity {
            intent["data_sensitivity"] = sensitivity.as_str().into();
        }
        let arguments = serde_json::json!({ "name": name, "args_json": plain, "intent": intent });
        let strict = config.intent_declaration.strict_server_validation;
        let through = call(variant.call_tool_name(), arguments.to_string());
        explained = ask(through, ToolExposure::Split { strict }).await;
        if let Err(CallEnd::Rejected(why) | CallEnd::Unread(why)) = &explained {
            rejected = Some(why.clone());
        }
    }
    let explained = match explained {
        Ok(explained) => Ok(explained),
        Err(_) => {
            ask(
                call(&found.name, plain.clone()),
                ToolExposure::Direct { reads_on: false },
            )
            .await
        }
    };
    let explained = explained.map_err(|end| match end {
        CallEnd::Rejected(why) | CallEnd::Unread(why) => Error::usage(why),
        _ => Error::runtime("the server was disconnected"),
    })?;
    let of_command = match alias == BUILTIN_SERVER && tool == "shell" {
        true => command_reason(&plain, explained.operation, &request_context.cwd).await,
        false => None,
    };
    Ok(PolicyExplanation {
        name: format!("{alias}:{tool}"),
        effect: explained.effect,
        decided_by: explained.decided_by,
        operation: Some(explained.operation),
        operation_reason: of_command.unwrap_or_else(|| explained.operation_reason.to_owned()),
        rejected,
        considered: explained.considered.into_iter().map(considered).collect(),
        notices: Vec::new(),
    })
}

fn considered(one: policy::ConsideredRule) -> RuleReport {
    let (standing, reason) = match one.standing {
        RuleStanding::Decides => (ReportedStanding::Decides, None),
        RuleStanding::Overruled => (ReportedStanding::Overruled, None),
        RuleStanding::Inactive(reason) => (ReportedStanding::Inactive, Some(reason)),
    };
    RuleReport {
        subject: one.subject,
        effect: one.effect,
        source: one.source,
        grant: one.grant,
        standing,
        reason,
    }
}

/// Explains the decision on an action of aish itself.
fn explain_own(own: BuiltinAction, config: &Config) -> PolicyExplanation {
    let rules = &config.policy;
    let (because, word, source) = match own {
        BuiltinAction::Shell => {
            let word = match config.shell.confirm_cmd {
                true => RuleEffect::Ask,
                false => RuleEffect::Allow,
            };
            let because = "a command proposed by a model runs in your shell";
            (because, word, "shell.confirm_cmd")
        }
        BuiltinAction::FsRead => {
            let because = "a built-in tool reads a file; the question names the directory";
            (because, rules.default.effect, rules.default.source.as_str())
        }
        BuiltinAction::FsWrite => {
            let because = "aish writes to your configuration when you tell it to";
            (because, RuleEffect::Allow, "no rule covers it")
        }
        BuiltinAction::Network => {
            let because =
                "aish connects to a server that is not in your configuration when you tell it to";
            (because, RuleEffect::Allow, "no rule covers it")
        }
    };
    let decides = rules.rule_for_action(own);
    let all = rules.list.iter().chain(&rules.project);
    let mut all: Vec<&PolicyRule> = all
        .filter(|r| r.subject == RuleSubject::Action(own))
        .collect();
    all.sort_by_key(|rule| std::cmp::Reverse(rule.effect));
    let standing = |decides: bool| match decides {
        true => ReportedStanding::Decides,
        false => ReportedStanding::Overruled,
    };
    let one = |subject: String, effect: RuleEffect, source: &str, this: bool| RuleReport {
        subject,
        effect,
        source: source.to_owned(),
        grant: None,
        standing: standing(this),
        reason: None,
    };
    let mut considered: Vec<RuleReport> = all
        .into_iter()
        .map(|rule| {
            let this = decides.is_some_and(|d| std::ptr::eq(d, rule));
            let mut one = one(own.as_str().to_owned(), rule.effect, &rule.source, this);
            if own != BuiltinAction::Shell && rule.effect == RuleEffect::Ask {
                one.standing = ReportedStanding::Inactive;
                one.reason = Some("it is about tools".to_owned());
            }
            one
        })
        .collect();
    considered.push(one("default".to_owned(), word, source, decides.is_none()));
    let (word, by) = decides.map_or((word, source), |rule| (rule.effect, rule.source.as_str()));
    PolicyExplanation {
        name: own.as_str().to_owned(),
        effect: word,
        decided_by: by.to_owned(),
        operation: None,
        operation_reason: because.to_owned(),
        rejected: None,
        considered,
        notices: Vec::new(),
    }
}
