//! Calls that running calls make: each passes its own gate, with the rules, questions and records of every call.

use super::CallGate;
use crate::chat::ToolCall;
use crate::history::record::RecordBody;
use crate::safety::policy;
use crate::tools::results;
use crate::tools::source::{NestedAnswer, NestedRequest, NestedResult};
use crate::turn::call_context::{CallContext, ToolExposure};
use crate::turn::nested_call::NestedCall;
use crate::turn::outcome::{CallEnd, CallOutcome};
use crate::turn::tool_execution::{self, AllowedCall};

/// Runs allowed calls, and makes the calls that they make.
pub(super) async fn run(
    context: &CallContext<'_>,
    allowed: Vec<AllowedCall<'_>>,
) -> Vec<CallOutcome> {
    let nest = |request| make(context, request);
    tool_execution::run(context, allowed, &nest).await
}

/// Makes a call and sends its result to the calling tool call.
fn make<'a>(context: &'a CallContext<'_>, request: NestedRequest) -> NestedCall<'a> {
    Box::pin(async move {
        let NestedRequest {
            name,
            arguments,
            blocked,
            reply,
        } = request;
        let (result, stops) = call(context, &name, &arguments, blocked).await;
        // It may have been cancelled meanwhile.
        let _ = reply.send(result);
        stops
    })
}

/// Returns the result for the calling tool call, and whether the user stopped the turn.
async fn call(
    context: &CallContext<'_>,
    name: &str,
    arguments: &str,
    blocked: Option<String>,
) -> (NestedResult, bool) {
    let Ok(arguments) = policy::canonical_arguments(arguments) else {
        return (Err("the arguments are not a JSON object".to_owned()), false);
    };
    let calls = [ToolCall {
        id: uuid::Uuid::now_v7().to_string(),
        name: name.to_owned(),
        arguments,
        extra: None,
    }];
    // The calling tool call gets the whole result; the record is truncated as for a model.
    let mut whole = context.config.clone();
    whole.mcp.max_result_bytes = results::MAX_RESULT_BYTES;
    let inner = CallContext {
        services: context.services,
        session: context.session,
        config: &whole,
        request: context.request,
        catalog: context.catalog,
        exposure: ToolExposure::Direct { reads_on: false },
        takes_images: context.takes_images,
        feed: context.feed,
        record_ids: context.record_ids.clone(),
    };
    let mut gate = CallGate::new(inner, &calls);
    gate.blocked = blocked;
    let made = gate.make(0).await;
    let [called] = &calls;
    let Some(made) = made.into_iter().next() else {
        return (Err("the call was not made".to_owned()), false);
    };
    let stops = matches!(made.outcome, CallEnd::Stopped | CallEnd::Interrupted);
    let mut outcome = made.outcome;
    let mut result = None;
    if let CallEnd::Said { text, is_error, .. } = &mut outcome {
        let kept = results::truncate(text, context.config.mcp.max_result_bytes, None);
        result = Some(Ok(NestedAnswer {
            text: std::mem::replace(text, kept),
            is_error: *is_error,
        }));
    }
    let record = outcome.record(called, made.ms, made.account);
    // Without a result: the text that the model would read.
    let result = result.unwrap_or_else(|| match &record {
        RecordBody::Tool { text, error, .. } => Err(error.as_ref().unwrap_or(text).clone()),
        _ => Err("the call was not made".to_owned()),
    });
    let session = context.session;
    let recorded = session.record_written(&context.record_ids, record).await;
    (recorded.map_err(|e| e.message).and(result), stops)
}
