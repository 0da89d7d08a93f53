//! Names, schemas and descriptions of the built-in tools. They are sent with every request, so they are short. Pure.

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

/// Whether `name`, as the model calls it, is a built-in tool. MCP tools are named `alias.tool`, so the names cannot
/// collide.
pub fn is_builtin(name: &str) -> bool {
    matches!(name, RETRIEVE_TOOLS | READ_RESULT)
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
    )
}

fn builtin_tool(name: &str, description: &str, schema: &Value) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        server: ALIAS.to_owned(),
        tool: name.to_owned(),
        title: None,
        description: description.to_owned(),
        schema: schema.to_string(),
        annotations: ToolAnnotations {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
        },
        trusted: true,
        identity: BUILTIN_IDENTITY.to_owned(),
    }
}
