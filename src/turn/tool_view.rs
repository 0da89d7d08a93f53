//! Tools as clients see them.

use crate::chat::ToolDefinition;
use crate::protocol::tools::ToolInfo;
use crate::safety::policy::tool_operation;

/// Returns a tool as clients see it.
pub fn tool_info(tool: &ToolDefinition) -> ToolInfo {
    ToolInfo {
        name: tool.name.clone(),
        server: tool.server.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        read_only: tool.annotations.read_only,
        destructive: tool.annotations.destructive,
        idempotent: tool.annotations.idempotent,
        open_world: tool.annotations.open_world,
        trusted: tool.trusted,
        operation: tool_operation(tool.annotations, tool.trusted),
        schema: serde_json::from_str(&tool.schema).unwrap_or_default(),
    }
}
