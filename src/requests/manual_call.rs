//! A tool call from the command line (`aish-helper call`): same checks, gate and record as for a call of a model.

use serde_json::json;

use super::mcp;
use crate::chat::{CallStatus, OperationClass, ToolCall};
use crate::config::ConfigOverrides;
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::RecordBody;
use crate::protocol::tools::{ManualCall, ManualCallResult};
use crate::safety::policy::{self, BUILTIN_SERVER, HELPER_SERVER};
use crate::services::client_handle::ClientHandle;
use crate::services::{SharedServices, mcp_startup, tool_history};
use crate::session::conversation::Session;
use crate::tools::results;
use crate::turn::call_context::{CallContext, ToolExposure};
use crate::turn::gate::CallGate;
use crate::turn::outcome::CallEnd;
use crate::turn::rules_in_force::{self, RequestContext};
use crate::turn::work_scope::{self, WorkShell};

/// Maximum size of the result text, so that the reply fits a frame even after JSON escaping.
const MAX_REPLY_BYTES: usize = 7 << 20;

/// Makes the call.
///
/// # Errors
/// The configuration is invalid, or the server is unknown.
pub async fn call(
    services: &SharedServices,
    client: &ClientHandle,
    request: ManualCall,
) -> Result<ManualCallResult> {
    let _running = services.count_turn();
    let variant = request.operation;
    let mut config = services
        .models
        .config(&ConfigOverrides::from_map(&request.overrides)?)?;
    for text in rules_in_force::apply(&mut config, &request.cwd).await? {
        client.feed.notice(text);
    }
    mcp_startup::refresh_for(services, client, &config).await?;
    let session = Session::outside(services.audit_log.log());
    let mut work = None;
    match request.name.split_once([':', '.']) {
        Some((BUILTIN_SERVER | HELPER_SERVER, _)) => {
            let shell = WorkShell {
                cwd: &request.cwd,
                env: &request.work_env,
                overrides: &request.overrides,
            };
            let by_hand = request.tty.is_some();
            let offered = work_scope::offer_all(services, &session, &config, shell, by_hand);
            work = Some(offered.await?);
        }
        // Reports an unknown server here; other errors in the name are reported by the gate.
        Some((alias, _)) => mcp::ready(services, client, &config, Some(alias)).await?,
        None => {}
    }
    let catalog = tool_history::catalog(services, std::time::Duration::ZERO).await;
    // The built-in tools and helpers are not in the catalog.
    let has_tool = work.is_some()
        || request
            .name
            .split_once([':', '.'])
            .is_some_and(|(server, tool)| {
                let mut tools = catalog.tools.iter();
                tools.any(|known| known.server == server && known.tool == tool)
                    || catalog.unavailable.iter().any(|(alias, _)| alias == server)
            });
    let call = ToolCall {
        id: uuid::Uuid::now_v7().to_string(),
        name: variant.call_tool_name().to_owned(),
        arguments: arguments(variant, &request)?,
        extra: None,
    };
    let record_ids = client.record_ids.clone();
    // The user gets the whole result; the record is truncated as for a model.
    let mut whole = config.as_ref().clone();
    whole.mcp.max_result_bytes = results::MAX_RESULT_BYTES;
    let request = RequestContext {
        cwd: request.cwd,
        shell: None,
        overrides: request.overrides,
        pack: None,
        surroundings: Default::default(),
        terminal: None,
        work,
    };
    let context = CallContext {
        services,
        session: &session,
        config: &whole,
        request: &request,
        catalog: &catalog,
        exposure: ToolExposure::Split {
            strict: config.intent_declaration.strict_server_validation,
        },
        takes_images: true,
        feed: &client.feed,
        record_ids: record_ids.clone(),
    };
    let calls = [call];
    let used = CallGate::new(context, &calls).make(0).await;
    if let Some(work) = &request.work {
        let helpers = &work.scope.helpers;
        helpers.workers.end_session(&helpers.session).await;
    }
    let mut called = ManualCallResult {
        status: CallStatus::Interrupted,
        text: String::new(),
        why: None,
        kind: Some(ErrorKind::Interrupted),
        has_no_tool: !has_tool,
        id: String::new(),
    };
    for (mut used, call) in used.into_iter().zip(&calls) {
        called.status = match used.outcome {
            CallEnd::Stopped => CallStatus::Interrupted,
            _ => used.outcome.status(),
        };
        match &mut used.outcome {
            CallEnd::Said { text, .. } => {
                called.kind = None;
                let kept = results::truncate(text, config.mcp.max_result_bytes, None);
                called.text = std::mem::replace(text, kept);
            }
            other => {
                called.why = Some(why(other));
                called.kind = Some(fault(other));
            }
        }
        let record = used.outcome.record(call, used.ms, used.account);
        if let Err(e) = session.record_written(&record_ids, record).await {
            called.why.get_or_insert(e.message);
        }
    }
    let of_result = |body: &RecordBody| matches!(body, RecordBody::Tool { .. });
    called.id = session.with_records(|records| {
        let result = records.iter().rev().find(|r| of_result(&r.body));
        result.map(|r| r.id.clone()).unwrap_or_default()
    });
    called.text = results::truncate(&called.text, MAX_REPLY_BYTES, None);
    Ok(called)
}

/// Returns the arguments that a model would send for the same call.
fn arguments(variant: OperationClass, request: &ManualCall) -> Result<String> {
    let mut intent = json!({ "operation_type": variant.as_str() });
    if let Some(sensitivity) = &request.sensitivity {
        intent["data_sensitivity"] = json!(sensitivity);
    }
    if let Some(reason) = &request.reason {
        intent["reason"] = json!(reason);
    }
    let arguments =
        json!({ "name": request.name, "args_json": request.arguments, "intent": intent });
    policy::canonical_arguments(&arguments.to_string())
        .map_err(|_| Error::usage("the arguments are not a JSON object"))
}

/// Returns the error kind of a call without a result. Errors that a model could correct are usage errors.
fn fault(outcome: &CallEnd) -> ErrorKind {
    match outcome {
        CallEnd::Rejected(_) | CallEnd::Unread(_) | CallEnd::NoSuchTool | CallEnd::NoObject => {
            ErrorKind::Usage
        }
        CallEnd::Denied(_)
        | CallEnd::Blocked(_)
        | CallEnd::NoTerminal(_)
        | CallEnd::Unanswered(_) => ErrorKind::Approval,
        CallEnd::Stopped | CallEnd::Interrupted => ErrorKind::Interrupted,
        CallEnd::Failed(_) | CallEnd::Unrecorded(_) | CallEnd::TooDeep | CallEnd::Said { .. } => {
            ErrorKind::Runtime
        }
    }
}

/// Returns the reason for a missing result, for the user.
fn why(outcome: &CallEnd) -> String {
    match outcome {
        CallEnd::Failed(why) | CallEnd::Rejected(why) | CallEnd::Unread(why) => why.clone(),
        CallEnd::Unrecorded(why) => {
            format!("not called: the approval could not be recorded: {why}")
        }
        CallEnd::Blocked(rule) => format!("denied by the rule {rule}"),
        CallEnd::Unanswered(why) => why.clone(),
        CallEnd::NoTerminal(asks) => {
            format!("the call needs approval ({asks}), and there is no terminal to ask on")
        }
        CallEnd::Denied(_) | CallEnd::Stopped => "you denied the call".into(),
        CallEnd::NoSuchTool => "no such tool".into(),
        CallEnd::NoObject => "the arguments are not a JSON object".into(),
        CallEnd::TooDeep | CallEnd::Interrupted | CallEnd::Said { .. } => "interrupted".into(),
    }
}
