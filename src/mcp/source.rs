//! An MCP server as a [`ToolSource`].

use std::sync::Arc;

use rmcp::model::CallToolRequestParams;

use super::connection::RequestError;
use super::content;
use super::server::PooledServer;
use crate::chat::ToolDefinition;
use crate::config::mcp::ServerTransport;
use crate::safety::json_text;
use crate::safety::tool_diff::in_force;
use crate::tools::source::{CallError, CallFuture, SourceCall, ToolSource};

impl ToolSource for PooledServer {
    fn alias(&self) -> &str {
        &self.server.alias
    }

    fn list(&self) -> Arc<[ToolDefinition]> {
        self.ready_server()
            .map(|ready| ready.tools.clone())
            .unwrap_or_default()
    }

    fn call<'a>(&'a self, request: SourceCall<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let SourceCall {
                approved,
                call,
                now_ms,
                max_bytes,
                events,
                cancel,
            } = request;
            let failed = |reason: String| CallError::Failed(reason);
            let approved_annotations = approved.annotations();
            if !approved.covers(&call, now_ms) {
                return Err(CallError::NotApproved);
            }
            let ready = self.ready_server().map_err(failed)?;
            // The tools that the configuration allows are checked here too, not only where the model is given the tools.
            let Some(tool) = ready.tools.iter().find(|tool| tool.tool == call.tool) else {
                return Err(failed("the server has no tool of this name".into()));
            };
            // While the user reads the question, the alias may pass to another server and the tool may change its
            // meaning. Annotations that the server no longer sends stay in force.
            let in_force_now = in_force(approved_annotations, tool.annotations);
            if in_force_now != approved_annotations || tool.identity != call.identity {
                return Err(CallError::NotApproved);
            }
            // The body of a request over HTTP is written by rmcp, which does not know exact numbers.
            let is_http = matches!(self.server.transport, ServerTransport::Http { .. });
            let parsed = match is_http {
                true => match json_text::inexact_integer(call.arguments) {
                    Some(number) => {
                        return Err(failed(format!(
                            "the number {number} cannot be sent exactly over HTTP; send it as a string"
                        )));
                    }
                    None => serde_json::from_str(call.arguments),
                },
                false => json_text::parse_object(call.arguments),
            };
            let arguments =
                parsed.map_err(|e| failed(format!("the arguments are not a JSON object: {e}")))?;
            let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(arguments);
            let result = ready.call(params, self.server.timeout, events, cancel);
            match result.await {
                Ok(result) => Ok(content::call_result(call.server, result, max_bytes)),
                Err(RequestError::Interrupted) => Err(CallError::Interrupted),
                Err(RequestError::Failed(fault)) => {
                    Err(failed(fault.message_with_hint(&self.server)))
                }
            }
        })
    }
}
