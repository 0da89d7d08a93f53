//! `aish-helper mcp import`: adds the MCP servers of another client's JSON configuration to `config.toml`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::{print, print_json};
use crate::config::import::{self, ImportEntry, ImportedServer};
use crate::config::{self, ConfigOverrides};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// Maximum size of the imported file.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Maximum number of characters shown of a name in the imported file.
const MAX_NAME: usize = 60;

/// Adds the servers that are not configured yet, and reports those that cannot be imported.
///
/// # Errors
/// The file is not such a configuration, or `config.toml` cannot be read or written.
pub fn run(paths: &Paths, file: &Path, json: bool) -> Result<()> {
    let text = read(file)?;
    let config = config::load(paths, &ConfigOverrides::default())?;
    let is_configured = |alias: &str| config.mcp.servers.contains_key(alias);
    let imports = import::read(&text, is_configured).map_err(|reason| {
        Error::usage(format!("{}: {reason}", file.display()))
            .hint("give it the JSON file in which another client keeps its MCP servers")
    })?;
    let new: Vec<(String, String)> = imports
        .iter()
        .filter_map(|i| i.server.as_ref().ok())
        .map(|found| (found.alias.clone(), found.table.clone()))
        .collect();
    let written = match new.is_empty() {
        true => None,
        false => {
            super::model::check_may_write(paths)?;
            Some(config::add_servers(paths, &new)?)
        }
    };
    let written = written.map(|path| path.display().to_string());
    if json {
        let servers: Vec<_> = imports.iter().map(import_json).collect();
        return print_json(&json!({"file": written, "servers": servers}));
    }
    let mut out: String = imports.iter().map(import_lines).collect();
    out.push_str(&match &written {
        Some(path) => format!("written to {path}; list the servers with: llm :mcp list\n"),
        None => "nothing was added\n".to_string(),
    });
    if imports
        .iter()
        .flat_map(|i| &i.server)
        .any(|found| found.secret)
    {
        out.push_str("the file now contains secrets; only you can read it\n");
    }
    print(&out)
}

fn read(file: &Path) -> Result<String> {
    let unreadable =
        |reason: String| Error::usage(format!("cannot read {}: {reason}", file.display()));
    let open = File::open(file).map_err(|e| unreadable(e.to_string()))?;
    let mut text = String::new();
    open.take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|e| unreadable(e.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable("it is larger than 8 MiB".into()));
    }
    Ok(text)
}

fn import_json(imported: &ImportEntry) -> serde_json::Value {
    let name = &imported.name;
    match &imported.server {
        Ok(found) => json!({
            "name": name,
            "alias": found.alias,
            "variables": found.variables,
            "left_out": found.notes,
        }),
        Err(reason) => json!({"name": name, "alias": null, "skipped": reason}),
    }
}

/// Formats the result for one server.
fn import_lines(imported: &ImportEntry) -> String {
    let name = one_line(&imported.name, MAX_NAME);
    let ImportedServer {
        alias,
        variables,
        notes,
        ..
    } = match &imported.server {
        Ok(found) => found,
        Err(reason) => return format!("skipped {name}: {}\n", one_line(reason, 200)),
    };
    let mut out = match name == *alias {
        true => format!("added   {alias}\n"),
        false => format!("added   {alias} ({name})\n"),
    };
    if !variables.is_empty() {
        let list = variables.join(", $");
        out.push_str(&format!("        needs ${list} in the shell\n"));
    }
    if !notes.is_empty() {
        let list = one_line(&notes.join(", "), 200);
        out.push_str(&format!("        left out: {list}\n"));
    }
    out
}
