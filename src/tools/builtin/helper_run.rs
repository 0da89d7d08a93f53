//! Calls of Python helpers, and code that calls them.

use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::prepared::{PrepareError, PreparedCall, PreparedWork, on_paths};
use super::scope::WorkScope;
use crate::python::call::{CallScope, HelperFault, HelperResult};
use crate::safety::policy::{BuiltinAction, HELPER_SERVER};
use crate::tools::source::{
    CallError, CallEvent, CallResult, NestedAnswer, NestedRequest, NestedResult,
};

/// Number of printed lines that wait to be shown; more are dropped.
const WAITING_LINES: usize = 256;

/// Prepares a call of a helper. Its process runs in the sandbox.
pub(super) fn helper(
    scope: &WorkScope,
    tool: &str,
    arguments: &str,
) -> Result<PreparedCall, PrepareError> {
    let Some(function) = scope.helpers.catalog.find(tool) else {
        return Err(PrepareError::from(format!("there is no tool {tool}")));
    };
    let has_network = function.record.network;
    let work = PreparedWork::Helper {
        function: function.clone(),
        arguments: arguments.to_owned(),
    };
    let mut prepared = in_workspace(scope, work);
    if has_network {
        prepared.action = Some(BuiltinAction::Network);
        prepared.statement = Some("the network".to_owned());
        // A grant for the helpers of this workspace is not about those that reach the network.
        prepared.workspace = None;
        if !function.record.read_only {
            prepared.reason = Some("it uses the network and may change files".to_owned());
        }
    }
    Ok(prepared)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonArguments {
    code: String,
}

/// Prepares a block of code. The question shows it whole.
pub(super) fn python(
    scope: &WorkScope,
    call: PythonArguments,
) -> Result<PreparedCall, PrepareError> {
    if call.code.trim().is_empty() {
        return Err(PrepareError::from("the code is empty".to_owned()));
    }
    let heading = ('@', "Python code".to_owned());
    let lines = call.code.split('\n').map(|line| (' ', line.to_owned()));
    let difference = [heading].into_iter().chain(lines).collect();
    let work = PreparedWork::Python(call.code);
    Ok(PreparedCall {
        difference,
        ..in_workspace(scope, work)
    })
}

/// Returns a prepared call of a process whose sandbox is open for the workspace.
fn in_workspace(scope: &WorkScope, work: PreparedWork) -> PreparedCall {
    let top = scope.workspace.top();
    PreparedCall {
        // Rules about files are about calls that say which files.
        action: None,
        files: Vec::new(),
        ..on_paths(scope, BuiltinAction::FsRead, &[&top], work)
    }
}

/// Makes a call of a helper, or runs code. Lines that are printed become progress.
pub(super) async fn run(
    scope: &Arc<WorkScope>,
    work: PreparedWork,
    events: &mpsc::Sender<CallEvent>,
    cancel: &CancellationToken,
) -> Result<CallResult, CallError> {
    let (progress, mut lines) = mpsc::channel(WAITING_LINES);
    let (calls, mut called) = mpsc::channel(1);
    let helpers = &scope.helpers;
    let directory = scope.workspace.cwd();
    let call_scope = CallScope {
        session: &helpers.session,
        directory,
        workspace: scope.workspace.roots().next().unwrap_or(directory),
        limit: None,
        progress: &progress,
        cancel,
    };
    let running = async {
        match work {
            PreparedWork::Helper {
                function,
                arguments,
            } => {
                let workers = &helpers.workers;
                workers.call(&function, &arguments, call_scope).await
            }
            PreparedWork::Python(code) => {
                let workers = &helpers.workers;
                let catalog = &helpers.catalog;
                workers.run_code(catalog, &code, call_scope, calls).await
            }
            _ => Err(HelperFault::Failed("not a call of a helper".to_owned())),
        }
    };
    tokio::pin!(running);
    // A slow watcher loses lines, it does not stop the helper.
    let show = |line: String| drop(events.try_send(CallEvent::Progress(line)));
    let ended = loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => show(line),
            Some(call) = called.recv() => {
                let (reply, answered) = oneshot::channel();
                let request = NestedRequest {
                    name: format!("{HELPER_SERVER}.{}", call.name),
                    arguments: call.arguments,
                    blocked: None,
                    reply,
                };
                tokio::spawn(async move {
                    if let Ok(result) = answered.await {
                        // The code may have ended meanwhile.
                        let _ = call.reply.send(code_result(result));
                    }
                });
                // Without a receiver the reply is dropped, which the code gets as an error.
                let _ = events.send(CallEvent::Nested(request)).await;
            }
            ended = &mut running => break ended,
        }
    };
    while let Ok(line) = lines.try_recv() {
        show(line);
    }
    match ended {
        Ok(result) => Ok(call_result(result)),
        Err(HelperFault::Interrupted) => Err(CallError::Interrupted),
        Err(HelperFault::Failed(reason)) => Err(CallError::Failed(reason)),
    }
}

/// Returns the result for the code: a failure raises an exception.
fn code_result(result: NestedResult) -> Result<String, String> {
    match result? {
        NestedAnswer {
            text,
            is_error: true,
        } => Err(text),
        NestedAnswer { text, .. } => Ok(text),
    }
}

fn call_result(result: HelperResult) -> CallResult {
    let HelperResult {
        text,
        is_error,
        images,
        notes,
    } = result;
    CallResult {
        bytes: text.len() as u64,
        text,
        is_error,
        images,
        // For the model as well.
        told: notes.clone(),
        notes,
        ..CallResult::default()
    }
}
