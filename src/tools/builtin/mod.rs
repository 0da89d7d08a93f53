//! The tool source `aish`: `retrieve_tools`, which searches the tools of all servers, and `read_result`, which pages
//! through a truncated result.
//!
//! Both are annotated as read-only, so the policy allows them without a question (see [`BUILTIN_IDENTITY`]). A built-in
//! tool that changes something is subject to the rules and to approval like a tool of a configured MCP server.

mod definitions;
mod helper_run;
mod perform;
mod prepare;
mod prepare_change;
mod prepare_shell;
mod prepared;
mod scope;
mod shell_run;
mod work_definitions;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::definitions::{
    ALIAS, OUTPUT_LINES, READ_RESULT, RETRIEVE_TOOLS, TERMINAL_OUTPUT, builtin_tools, find_builtin,
    read_result_tool, retrieve_tools_tool, shell_tools, terminal_output_tool,
};
pub use self::perform::perform;
pub use self::prepare::prepare;
pub use self::prepare_change::shown_difference;
pub use self::prepared::{PrepareError, PreparedCall, PreparedWork};
pub use self::scope::{
    HelperScope, HistorySearch, KeptCopies, OfferedWork, SearchFilter, ShellScope, WorkScope,
};
pub use self::shell_run::SHELL_SIZE;
pub use self::work_definitions::{
    PYTHON, READ_FILE, SHELL, TOOL_GROUPS, find_work_tool, tool_action, tool_group, work_tools,
};
use super::finder::ToolFinder;
use super::results::{ReadRequest, ResultStore};
use super::search::RetrieveRequest;
use super::source::{CallError, CallFuture, CallResult, SourceCall, ToolSource};
use crate::chat::ToolDefinition;
use crate::safety::policy::BUILTIN_IDENTITY;

/// The built-in tools as one session sees them. Cheap to create: everything large is shared.
#[derive(Debug)]
pub struct BuiltinSource {
    finder: Arc<ToolFinder>,
    results: Arc<ResultStore>,
    searchable: Arc<[ToolDefinition]>,
    session: String,
    page_bytes: usize,
}

impl BuiltinSource {
    /// Creates the source for one session. `searchable` are the tools that `retrieve_tools` ranks; `page_bytes` is
    /// the maximum size of one answer of `read_result`. Only results stored for `session` can be read.
    pub fn new(
        finder: Arc<ToolFinder>,
        results: Arc<ResultStore>,
        searchable: Arc<[ToolDefinition]>,
        session: impl Into<String>,
        page_bytes: usize,
    ) -> BuiltinSource {
        BuiltinSource {
            finder,
            results,
            searchable,
            session: session.into(),
            page_bytes,
        }
    }

    /// Runs the tool. The inner error is one that the model can fix, such as a wrong argument.
    async fn run(
        &self,
        tool: &str,
        arguments: &str,
        now_ms: u64,
    ) -> Result<Result<String, String>, CallError> {
        let failed = |e: String| CallError::Failed(e);
        let arguments: Map<String, Value> = serde_json::from_str(arguments)
            .map_err(|e| failed(format!("the arguments are not a JSON object: {e}")))?;
        match tool {
            RETRIEVE_TOOLS => match RetrieveRequest::parse(&arguments) {
                Ok(request) => {
                    let found = self.finder.retrieve(&self.searchable, request).await;
                    found
                        .map(|answer| Ok(answer.to_string()))
                        .map_err(|e| failed(e.message))
                }
                Err(reason) => Ok(Err(reason)),
            },
            READ_RESULT => match ReadRequest::parse(&arguments, self.page_bytes) {
                Ok(request) => {
                    let (results, session) = (self.results.clone(), self.session.clone());
                    let read = move || results.read(&session, &request, now_ms);
                    tokio::task::spawn_blocking(read)
                        .await
                        .map_err(|e| failed(format!("cannot read the result: {e}")))
                }
                Err(reason) => Ok(Err(reason)),
            },
            _ => Err(failed(format!("{ALIAS} has no tool {tool}"))),
        }
    }
}

impl ToolSource for BuiltinSource {
    fn alias(&self) -> &str {
        ALIAS
    }

    fn list(&self) -> Arc<[ToolDefinition]> {
        builtin_tools().clone()
    }

    fn call<'a>(&'a self, request: SourceCall<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let SourceCall {
                approved,
                call,
                now_ms,
                cancel,
                ..
            } = request;
            let is_builtin = call.server == ALIAS && call.identity == BUILTIN_IDENTITY;
            if !approved.covers(&call, now_ms) || !is_builtin {
                return Err(CallError::NotApproved);
            }
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(CallError::Interrupted),
                answer = self.run(call.tool, call.arguments, now_ms) => answer?,
            };
            let is_error = answer.is_err();
            let (Ok(text) | Err(text)) = answer;
            Ok(CallResult {
                bytes: text.len() as u64,
                text,
                is_error,
                ..CallResult::default()
            })
        })
    }
}

#[cfg(test)]
mod tests;
