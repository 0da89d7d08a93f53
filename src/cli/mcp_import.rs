//! `aish-helper mcp import`: adds the servers of another client's configuration to `config.toml`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::call::cwd;
use super::{print, print_json};
use crate::config::import::{self, Found, Imported};
use crate::config::{self, Overrides};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// More than this is no configuration.
const MAX_BYTES: u64 = 8 << 20;
/// The most that is shown of a name of the other file.
const NAME: usize = 60;

/// Adds what can be taken and is not there, and says what could not.
///
/// # Errors
/// The file is no such configuration, or ours cannot be read or written.
pub fn run(paths: &Paths, file: &Path, json: bool) -> Result<()> {
    let text = read(file)?;
    let config = config::load(paths, &Overrides::default())?;
    let known = |alias: &str| config.mcp.servers.contains_key(alias);
    let all = import::read(&text, known).map_err(|why| {
        Error::usage(format!("{}: {why}", file.display()))
            .hint("give it the JSON file in which another client keeps its MCP servers")
    })?;
    let new: Vec<(String, String)> = all
        .iter()
        .filter_map(|i| i.server.as_ref().ok())
        .map(|found| (found.alias.clone(), found.table.clone()))
        .collect();
    let written = match new.is_empty() {
        true => None,
        false => {
            config::may_write(&config, Path::new(&cwd()))?;
            Some(config::add_servers(paths, &new)?)
        }
    };
    let written = written.map(|path| path.display().to_string());
    if json {
        let servers: Vec<_> = all.iter().map(entry).collect();
        return print_json(&json!({"file": written, "servers": servers}));
    }
    let mut out: String = all.iter().map(lines).collect();
    out.push_str(&match &written {
        Some(path) => format!("written to {path}; see them with: llm :mcp list\n"),
        None => "nothing was added\n".to_string(),
    });
    if all.iter().flat_map(|i| &i.server).any(|found| found.secret) {
        out.push_str("it holds secrets now, and only you can read it\n");
    }
    print(&out)
}

fn read(file: &Path) -> Result<String> {
    let cannot = |why: String| Error::usage(format!("cannot read {}: {why}", file.display()));
    let open = File::open(file).map_err(|e| cannot(e.to_string()))?;
    let mut text = String::new();
    open.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|e| cannot(e.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(cannot("it is larger than 8 MiB".into()));
    }
    Ok(text)
}

fn entry(imported: &Imported) -> serde_json::Value {
    let name = &imported.name;
    match &imported.server {
        Ok(found) => json!({
            "name": name,
            "alias": found.alias,
            "variables": found.variables,
            "left_out": found.notes,
        }),
        Err(why) => json!({"name": name, "alias": null, "skipped": why}),
    }
}

/// What became of one server.
fn lines(imported: &Imported) -> String {
    let name = one_line(&imported.name, NAME);
    let Found {
        alias,
        variables,
        notes,
        ..
    } = match &imported.server {
        Ok(found) => found,
        Err(why) => return format!("skipped {name}: {}\n", one_line(why, 200)),
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
