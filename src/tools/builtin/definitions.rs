//! Names, schemas and descriptions of the built-in tools. They are sent with every request, so they are short. Pure.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::chat::{ToolAnnotations, ToolDefinition};
use crate::safety::policy::BUILTIN_IDENTITY;
use crate::tools::search::RESULT_LIMIT;

/// The alias of the built-in source.
pub const ALIAS: &str = "aish";
/// The tool that searches other tools.
pub const RETRIEVE_TOOLS: &str = "retrieve_tools";
/// The tool that pages through a truncated result.
pub const READ_RESULT: &str = "read_result";

/// Annotations of a tool that changes nothing and uses only data of the session.
const READ_ONLY: ToolAnnotations = ToolAnnotations {
    read_only: Some(true),
    destructive: Some(false),
    idempotent: Some(true),
    open_world: Some(false),
};

static DEFINITIONS: LazyLock<Arc<[ToolDefinition]>> =
    LazyLock::new(|| Arc::new([retrieve_tools_tool(), read_result_tool()]));

/// Returns the definitions of all built-in tools.
pub fn builtin_tools() -> &'static Arc<[ToolDefinition]> {
    &DEFINITIONS
}

/// Returns the built-in tool that the model calls `name`. MCP tools are named `alias.tool`, so the names cannot collide.
pub fn find_builtin(name: &str) -> Option<&'static ToolDefinition> {
    DEFINITIONS.iter().find(|tool| tool.name == name)
}

/// Returns the definition of `retrieve_tools`.
pub fn retrieve_tools_tool() -> ToolDefinition {
    builtin_tool(
        RETRIEVE_TOOLS,
        "Finds tools of the connected servers. Each comes with its inputSchema and with call_with, the tool to call it with.",
        &json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words"},
                "limit": {"type": "integer", "minimum": 1, "maximum": RESULT_LIMIT.1, "default": RESULT_LIMIT.0},
                "detail": {
                    "type": "string",
                    "enum": ["full", "brief"],
                    "description": "brief leaves out inputSchema",
                },
            },
            "required": ["query"],
        }),
        READ_ONLY,
    )
}

/// Returns the definition of `read_result`.
pub fn read_result_tool() -> ToolDefinition {
    builtin_tool(
        READ_RESULT,
        "Continues a truncated result; the result names the key and the next offset.",
        &json!({
            "type": "object",
            "properties": {
                "key": {"type": "string"},
                "offset": {"type": "integer", "minimum": 0, "description": "In bytes"},
                "limit": {"type": "integer", "minimum": 1},
            },
            "required": ["key"],
        }),
        READ_ONLY,
    )
}

/// Defines a built-in tool. The policy allows it without a question only if `annotations` say that it is read-only.
pub(super) fn builtin_tool(
    name: &str,
    description: &str,
    schema: &Value,
    annotations: ToolAnnotations,
) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        server: ALIAS.to_owned(),
        tool: name.to_owned(),
        title: None,
        description: description.to_owned(),
        schema: schema.to_string(),
        output_schema: None,
        annotations,
        trusted: true,
        identity: BUILTIN_IDENTITY.to_owned(),
    }
}
