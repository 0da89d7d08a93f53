//! Text that is written into `config.toml`.

use std::path::Path;

use super::file::{self, FileFormat};
use super::table_reader::shown_key;

/// Returns a string as TOML.
pub fn toml_string(text: &str) -> String {
    // TOML's basic strings are those of JSON, except that DEL must be escaped too.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
}

/// Checks `body` as the lines of `[mcp.servers.ALIAS]`.
///
/// # Errors
/// The first fault, without its place.
pub(super) fn check_server(alias: &str, body: &str) -> Result<(), String> {
    let text = format!("[mcp.servers.{}]\n{body}\n", shown_key(alias));
    file::parse(&text, FileFormat::Toml, Path::new(""))
        .map(drop)
        .map_err(|problems| {
            let first = problems.first().map(|p| {
                let key = p.key.rsplit('.').next().unwrap_or_default();
                format!("{key} {}", p.message)
            });
            first.unwrap_or_default()
        })
}
