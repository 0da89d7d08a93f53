//! `aish-helper tools`.

use super::args::Tools;
use super::mcp::{self, summary, table};
use super::{columns, print, print_json};
use crate::client::tools::cut;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::tools::{FoundTool, McpRequest};
use crate::safety::text::one_line;

/// The most that is shown of a name.
const NAME: usize = 80;

/// Does what was asked.
///
/// # Errors
/// The configuration is wrong, or a server fails.
pub fn run(paths: &Paths, command: Tools) -> Result<()> {
    let Tools::Search { query, limit, json } = command;
    let query = query.join(" ");
    let found: Vec<FoundTool> = mcp::ask(paths, McpRequest::Search { query, limit })?;
    if json {
        return print_json(&found);
    }
    if found.is_empty() {
        return print("no tool fits; ask in other words, or see them all with: llm :mcp tools\n");
    }
    let rows: Vec<[String; 4]> = found
        .iter()
        .map(|f| {
            let name = f.tool.name.replacen('.', ":", 1);
            [
                format!("{:.1}", f.score),
                one_line(&name, NAME),
                mcp::kind(&f.tool).to_string(),
                summary(&f.tool.description),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}
