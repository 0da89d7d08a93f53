//! Types of the operations on tools.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::events::{CallStatusWord, OperationWord};

/// The tools that can be called.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolList {
    /// The tools: the built-in ones as `aish.NAME`, Python helpers as `helper.NAME`, and those of the MCP servers.
    pub tools: Vec<ToolView>,
    /// The names of toolsets in the configuration.
    pub toolsets: Vec<String>,
    /// The names of prompt packs.
    pub prompts: Vec<String>,
}

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// `alias.tool`.
    pub name: String,
    /// What it does, in the words of its server.
    pub description: String,
    /// What a call does, as the policy sees it.
    #[schema(value_type = OperationWord)]
    pub operation: String,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub input_schema: serde_json::Value,
}

/// A tool call of a client.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCallRequest {
    /// The arguments: a JSON object.
    #[schema(value_type = Object)]
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// What the call does, by default `read`; a tool that does more is then rejected.
    #[serde(default)]
    #[schema(value_type = Option<OperationWord>)]
    pub operation: Option<String>,
    /// Why it is made, for the record and the question.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub reason: Option<String>,
    /// The session in whose directory the call works.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The absolute path of the directory in which the call works, instead of that of a session. A built-in tool or a helper
    /// needs one of the two; a tool of an MCP server works in your home directory without one.
    #[serde(default)]
    #[schema(max_length = 4096, pattern = r"^/[^\x00-\x1f\x7f-\x9f]*$")]
    pub cwd: Option<String>,
}

/// The result of a tool call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCallReply {
    /// How the call ended.
    #[schema(value_type = CallStatusWord)]
    pub status: String,
    /// The result.
    pub text: String,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Id of its record in the audit log.
    pub record_id: String,
}
