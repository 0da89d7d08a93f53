//! Names, schemas and descriptions of the built-in tools. They are sent with every request, so they are short. Pure.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::chat::{ToolAnnotations, ToolDefinition};
use crate::safety::policy::{BUILTIN_IDENTITY, TERMINAL_OUTPUT_RULE};
use crate::tools::search::RESULT_LIMIT;

/// The alias of the built-in source.
pub const ALIAS: &str = "aish";
/// The tool that searches other tools.
pub const RETRIEVE_TOOLS: &str = "retrieve_tools";
/// The tool that pages through a truncated result.
pub const READ_RESULT: &str = "read_result";

/// The tool that reads the output of the user's commands.
pub const TERMINAL_OUTPUT: &str = "terminal_output";
/// Maximum number of lines that [`TERMINAL_OUTPUT`] returns, and how many it returns by default.
pub const OUTPUT_LINES: (u64, u64) = (2000, 200);

/// Annotations of a tool that changes nothing and uses only data of the session.
const READ_ONLY: ToolAnnotations = ToolAnnotations {
    read_only: Some(true),
    destructive: Some(false),
    idempotent: Some(true),
    open_world: Some(false),
};

static DEFINITIONS: LazyLock<Arc<[ToolDefinition]>> =
    LazyLock::new(|| Arc::new([retrieve_tools_tool(), read_result_tool()]));

static SHELL_DEFINITIONS: LazyLock<[ToolDefinition; 1]> =
    LazyLock::new(|| [terminal_output_tool()]);

/// Returns the built-in tools that read data of the shell. Rules apply to them.
pub fn shell_tools() -> &'static [ToolDefinition] {
    &*SHELL_DEFINITIONS
}

/// Returns the definitions of the tools of the source `aish`.
pub fn builtin_tools() -> &'static Arc<[ToolDefinition]> {
    &DEFINITIONS
}

/// Returns the built-in tool that the model calls `name`. MCP tools are named `alias.tool`, so the names cannot collide.
pub fn find_builtin(name: &str) -> Option<&'static ToolDefinition> {
    let mut all = DEFINITIONS.iter().chain(&*SHELL_DEFINITIONS);
    all.find(|tool| tool.name == name)
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

/// Returns the definition of `terminal_output`. It only reads, but it reads data of the user: rules apply to it.
pub fn terminal_output_tool() -> ToolDefinition {
    let (server, tool) = TERMINAL_OUTPUT_RULE;
    let definition = builtin_tool(
        TERMINAL_OUTPUT,
        "Reads the output of a command that the user ran in this shell, if it was not sent with the prompt. The user may be asked.",
        &json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 1,
                    "description": "1 is the last command, 2 the one before",
                },
                "lines": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": OUTPUT_LINES.0,
                    "default": OUTPUT_LINES.1,
                    "description": "Only this many of the last lines",
                },
            },
        }),
        READ_ONLY,
    );
    ToolDefinition {
        server: server.to_owned(),
        tool: tool.to_owned(),
        ..definition
    }
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
