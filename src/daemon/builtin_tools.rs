//! The tools of our own that a model is offered beside those of servers: they look at what is here, so that nobody is
//! asked about them.

use std::time::Instant;

use serde_json::{Map, Value};

use super::call_context::CallContext;
use super::tool_execution::{self, elapsed};
use crate::chat::{OperationClass, ToolCall};
use crate::error::{Error, Result};
use crate::history::journal::now_ms;
use crate::protocol::tools::{CallFinished, CallStarted};
use crate::session::feed::TurnEvent;
use crate::tools::builtin::RETRIEVE_TOOLS;
use crate::tools::results::ReadRequest;
use crate::tools::search::RetrieveRequest;
use crate::turn::outcome::{CallEnd, CallOutcome, CallSummary};

/// Makes a call of one of them.
pub async fn call(context: &CallContext<'_>, call: &ToolCall) -> CallOutcome {
    let begun = Instant::now();
    let begin = CallStarted {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        rule: None,
        operation: OperationClass::Read,
        warning: None,
    };
    context.feed.push(TurnEvent::CallStarted(begin));
    let outcome = unless_cancelled(context, answer(context, call)).await;
    let ms = elapsed(begun);
    let bytes = match &outcome {
        CallEnd::Said { bytes, .. } => *bytes,
        _ => 0,
    };
    let end = CallFinished {
        id: call.id.clone(),
        name: call.name.clone(),
        status: outcome.status(),
        duration_ms: ms,
        bytes,
        head: String::new(),
        more: 0,
        notes: Vec::new(),
    };
    context.feed.push(TurnEvent::CallFinished(end));
    CallOutcome {
        id: call.id.clone(),
        outcome,
        ms,
        account: CallSummary {
            arguments: Some(call.arguments.clone()),
            ..CallSummary::default()
        },
    }
}

/// What the tool says; what is wrong with the call, it says too.
async fn answer(context: &CallContext<'_>, call: &ToolCall) -> CallEnd {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let said = match call.name.as_str() {
        RETRIEVE_TOOLS => match RetrieveRequest::parse(&arguments) {
            Ok(wanted) => retrieve(context, wanted).await.map(Ok),
            Err(why) => Ok(Err(why)),
        },
        _ => match ReadRequest::parse(&arguments, context.config.mcp.max_result_bytes) {
            Ok(reading) => read_on(context, reading).await,
            Err(why) => Ok(Err(why)),
        },
    };
    let (text, is_error) = match said {
        Ok(Ok(text)) => (text, false),
        Ok(Err(why)) => (why, true),
        Err(e) => return CallEnd::Failed(e.message),
    };
    CallEnd::Said {
        is_error,
        images: Vec::new(),
        bytes: text.len() as u64,
        digest: tool_execution::digest(&text),
        edited: None,
        text,
    }
}

/// The tools that fit; cut like any result, since each brings its schema.
async fn retrieve(context: &CallContext<'_>, wanted: RetrieveRequest) -> Result<String> {
    let finder = &context.daemon.finder;
    let found = finder.retrieve(&context.catalog.tools, wanted).await?;
    Ok(tool_execution::fit(context, found.to_string()).await?.0)
}

async fn read_on(
    context: &CallContext<'_>,
    reading: ReadRequest,
) -> Result<std::result::Result<String, String>> {
    let (results, session) = (context.daemon.results.clone(), context.session.id.clone());
    let read = move || results.read(&session, &reading, now_ms());
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|e| Error::runtime(format!("cannot read the result: {e}")))
}

/// Waits for the outcome, unless the turn is cancelled.
async fn unless_cancelled(
    context: &CallContext<'_>,
    work: impl Future<Output = CallEnd>,
) -> CallEnd {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = context.feed.cancel_token().cancelled() => CallEnd::Interrupted,
    }
}
