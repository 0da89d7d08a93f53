//! `aish-helper tools search`.

use super::args::ToolsCommand;
use super::mcp::{self, first_line};
use super::table::table;
use super::{columns, print, print_json};
use crate::client::operation;
use crate::client::text_format::cut;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::tools::{FoundTool, McpRequest};
use crate::safety::text::one_line;

/// Maximum number of characters shown of a name.
const MAX_NAME: usize = 80;

/// Runs a `tools` subcommand.
///
/// # Errors
/// The configuration is invalid, or a server fails.
pub fn run(paths: &Paths, command: ToolsCommand) -> Result<()> {
    let ToolsCommand::Search { query, limit, json } = command;
    let query = query.join(" ");
    let found: Vec<FoundTool> = mcp::ask(paths, McpRequest::Search { query, limit })?;
    if json {
        return print_json(&found);
    }
    if found.is_empty() {
        return print("no tool matches; use other words, or list all tools with: llm :mcp tools\n");
    }
    let rows: Vec<[String; 4]> = found
        .iter()
        .map(|f| {
            let name = f.tool.name.replacen('.', ":", 1);
            [
                format!("{:.1}", f.score),
                one_line(&name, MAX_NAME),
                operation::word(f.tool.operation).to_string(),
                first_line(&f.tool.description),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}
