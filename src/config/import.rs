//! Imports the `mcpServers` of other MCP clients: converts their JSON to lines for `config.toml`, with notes on what could not
//! be imported.
//!
//! A reference to a variable stays a reference: its value is never written into the file.

use std::collections::BTreeSet;

use super::mcp::free_alias;
use super::syntax_tree::{self, SyntaxNode, SyntaxValue, TableEntry};
use super::table_reader::shown_key;
use super::toml_text::{check_server, toml_string};
use super::value_checks::{
    self, check_server_header, check_variable_name, is_public_header, is_secret_name,
};

/// A server of the imported file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportEntry {
    /// The name in the imported file.
    pub name: String,
    /// The server to add, or the reason why it cannot be imported.
    pub server: Result<ImportedServer, String>,
}

/// A server that can be added.
#[derive(Clone, PartialEq, Eq)]
pub struct ImportedServer {
    /// The alias that the server gets.
    pub alias: String,
    /// The lines of the table.
    pub table: String,
    /// The variables of the shell that the server needs.
    pub variables: Vec<String>,
    /// The settings that were not imported, a few words each.
    pub notes: Vec<String>,
    /// The table holds a token or another value that may be secret.
    pub secret: bool,
}

impl std::fmt::Debug for ImportedServer {
    /// Without the table, which may hold a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImportedServer({}, {:?})", self.alias, self.notes)
    }
}

/// A text of the imported file, by the references to variables in it.
enum ImportedText {
    Plain(String),
    /// A variable of the shell.
    Variable(String),
    /// An input that the other client prompts its user for.
    PromptedInput(String),
    /// A text that contains references to variables.
    Mixed,
}

/// Reads the JSON of another client: `mcpServers`, `servers`, or `mcp` with either in it. A server whose alias
/// `is_configured` is not imported.
///
/// # Errors
/// The text is not JSON or has no servers; a message that follows the name of the file.
pub fn read(text: &str, is_configured: impl Fn(&str) -> bool) -> Result<Vec<ImportEntry>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root =
        syntax_tree::parse_json(text).map_err(|e| format!("line {}: {}", e.line, e.message))?;
    let servers =
        servers(&root.value).ok_or("has no servers: neither mcpServers nor servers is in it")?;
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for entry in servers {
        let name = entry.key.clone();
        let plain_alias = free_alias(&name, |_| false);
        if is_configured(&plain_alias) {
            let reason = format!("a server named {plain_alias} already exists");
            all.push(ImportEntry {
                name,
                server: Err(reason),
            });
            continue;
        }
        let alias = free_alias(&name, |a| is_configured(a) || taken.contains(a));
        let server = server(&entry.node.value, &alias);
        if server.is_ok() {
            taken.insert(alias);
        }
        all.push(ImportEntry { name, server });
    }
    Ok(all)
}

fn get<'t>(entries: &'t [TableEntry], key: &str) -> Option<&'t SyntaxValue> {
    let entry = entries.iter().find(|e| e.key == key)?;
    Some(&entry.node.value)
}

fn servers(root: &SyntaxValue) -> Option<&[TableEntry]> {
    let SyntaxValue::Table(entries) = root else {
        return None;
    };
    let found = ["mcpServers", "servers"]
        .iter()
        .find_map(|key| match get(entries, key) {
            Some(SyntaxValue::Table(servers)) => Some(servers.as_slice()),
            _ => None,
        });
    // An editor nests them below `mcp` in its settings.
    found.or_else(|| servers(get(entries, "mcp")?))
}

/// Returns a scalar value as text.
fn text(value: &SyntaxValue) -> Option<String> {
    match value {
        SyntaxValue::String(s) => Some(s.clone()),
        SyntaxValue::Integer(n) => Some(n.to_string()),
        SyntaxValue::Float(n) => Some(n.to_string()),
        SyntaxValue::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// Returns the words of a list. A server with fewer arguments than were written would be another one.
fn texts(list: &[SyntaxNode], key: &str) -> Result<Vec<String>, String> {
    let words: Option<Vec<String>> = list.iter().map(|word| text(&word.value)).collect();
    words.ok_or_else(|| format!("has a value in its {key} that is not a text"))
}

fn classify_text(text: &str) -> ImportedText {
    let trimmed = text.trim();
    if let Some(inner) = trimmed.strip_prefix("${").and_then(|t| t.strip_suffix('}')) {
        if let Some(input) = inner.strip_prefix("input:") {
            return ImportedText::PromptedInput(variable_like(input));
        }
        let name = inner.strip_prefix("env:").unwrap_or(inner);
        // Of `${NAME:-default}` only the variable is imported.
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        return match check_variable_name(name) {
            Ok(()) if !name.is_empty() => ImportedText::Variable(name.to_string()),
            _ => ImportedText::Mixed,
        };
    }
    if let Some(name) = value_checks::variable_reference(trimmed) {
        return ImportedText::Variable(name.to_string());
    }
    match text.contains("${") {
        true => ImportedText::Mixed,
        false => ImportedText::Plain(text.to_string()),
    }
}

/// Returns a text in the form of a variable name: `GITHUB_TOKEN` for `github-token`.
fn variable_like(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_uppercase(),
            false => '_',
        })
        .take(100)
        .collect();
    match name.chars().next() {
        Some(c) if !c.is_ascii_digit() => name,
        _ => format!("TOKEN_{name}"),
    }
}

/// The table of a server while it is composed.
#[derive(Default)]
struct TableDraft {
    lines: Vec<String>,
    variables: Vec<String>,
    notes: Vec<String>,
    secret: bool,
}

fn server(value: &SyntaxValue, alias: &str) -> Result<ImportedServer, String> {
    let SyntaxValue::Table(entries) = value else {
        return Err("is not a table".into());
    };
    let mut draft = TableDraft::default();
    let mut known_keys = vec!["type", "transport", "name", "description"];
    let kind = get(entries, "type").or(get(entries, "transport"));
    let kind = kind.and_then(text).unwrap_or_default().to_ascii_lowercase();
    let url = ["httpUrl", "serverUrl", "url"]
        .iter()
        .find_map(|key| Some((*key, get(entries, key).and_then(text)?)));
    if let Some((key, url)) = url {
        known_keys.extend([key, "headers"]);
        if kind == "sse" {
            return Err("uses the SSE transport of 2024, which aish does not support".into());
        }
        if !matches!(classify_text(&url), ImportedText::Plain(_)) {
            return Err("has a variable in its url, which aish does not fill in".into());
        }
        draft.lines.push(format!("url = {}", toml_string(&url)));
        if let Some(headers) = get(entries, "headers") {
            draft.headers(headers);
        }
    } else {
        known_keys.extend(["command", "args", "env"]);
        draft.command(entries)?;
    }
    let mut is_disabled = false;
    for (key, off) in [("disabled", true), ("enabled", false)] {
        if let Some(SyntaxValue::Bool(set)) = get(entries, key) {
            known_keys.push(key);
            is_disabled |= *set == off;
        }
    }
    if is_disabled {
        draft.lines.push("disabled = true".into());
    }
    let unknown = entries
        .iter()
        .filter(|e| !known_keys.contains(&e.key.as_str()));
    draft.notes.extend(unknown.map(|e| shown_key(&e.key)));
    let table = draft.lines.join("\n");
    // A server that the configuration would refuse is reported before anything is written.
    check_server(alias, &table)?;
    draft.variables.sort();
    draft.variables.dedup();
    Ok(ImportedServer {
        alias: alias.to_string(),
        table,
        variables: draft.variables,
        notes: draft.notes,
        secret: draft.secret,
    })
}

impl TableDraft {
    fn command(&mut self, entries: &[TableEntry]) -> Result<(), String> {
        let mut words = match get(entries, "command") {
            Some(SyntaxValue::String(command)) => vec![command.clone()],
            Some(SyntaxValue::Array(words)) => texts(words, "command")?,
            _ => return Err("has neither a url nor a command".into()),
        };
        match get(entries, "args") {
            None => {}
            Some(SyntaxValue::Array(args)) => words.extend(texts(args, "args")?),
            Some(_) => return Err("has args that are not a list".into()),
        }
        if words.iter().any(|w| {
            matches!(
                classify_text(w),
                ImportedText::Mixed | ImportedText::PromptedInput(_) | ImportedText::Variable(_)
            )
        }) {
            return Err("has a variable in its command, which aish does not fill in".into());
        }
        let Some((command, args)) = words.split_first() else {
            return Err("has an empty command".into());
        };
        self.lines
            .push(format!("command = {}", toml_string(command)));
        if !args.is_empty() {
            let args: Vec<String> = args.iter().map(|a| toml_string(a)).collect();
            self.lines.push(format!("args = [{}]", args.join(", ")));
        }
        let env = match get(entries, "env") {
            None => return Ok(()),
            Some(SyntaxValue::Table(env)) => env,
            Some(_) => {
                self.notes.push("env".into());
                return Ok(());
            }
        };
        let mut pairs = Vec::new();
        for entry in env {
            let name = &entry.key;
            let value = match text(&entry.node.value).map(|t| classify_text(&t)) {
                Some(ImportedText::Plain(value)) if value.trim().is_empty() => continue,
                Some(ImportedText::Plain(value)) => {
                    self.secret |= is_secret_name(name);
                    value
                }
                Some(ImportedText::Variable(variable)) => self.variable(variable),
                // The server reads the requested input from the variable of this name.
                Some(ImportedText::PromptedInput(_)) if check_variable_name(name).is_ok() => {
                    self.variable(name.clone())
                }
                Some(ImportedText::PromptedInput(_) | ImportedText::Mixed) | None => {
                    self.notes.push(format!("env.{}", shown_key(name)));
                    continue;
                }
            };
            pairs.push(format!("{} = {}", shown_key(name), toml_string(&value)));
        }
        if !pairs.is_empty() {
            self.lines.push(format!("env = {{ {} }}", pairs.join(", ")));
        }
        Ok(())
    }

    fn variable(&mut self, name: String) -> String {
        let value = format!("${name}");
        self.variables.push(name);
        value
    }

    fn headers(&mut self, headers: &SyntaxValue) {
        let SyntaxValue::Table(headers) = headers else {
            self.notes.push("headers".into());
            return;
        };
        let mut pairs = Vec::new();
        for entry in headers {
            let name = &entry.key;
            let Some(value) = text(&entry.node.value) else {
                self.notes.push(format!("headers.{}", shown_key(name)));
                continue;
            };
            let bearer = value
                .get(..7)
                .filter(|b| b.eq_ignore_ascii_case("bearer "))
                .and(value.get(7..));
            if name.eq_ignore_ascii_case("authorization")
                && let Some(token) = bearer
            {
                match classify_text(token) {
                    ImportedText::Plain(token) => {
                        self.secret = true;
                        let token = toml_string(token.trim());
                        self.lines.push(format!("auth_token = {token}"));
                    }
                    ImportedText::Variable(variable) | ImportedText::PromptedInput(variable) => {
                        self.lines
                            .push(format!("auth_env = {}", toml_string(&variable)));
                        self.variables.push(variable);
                    }
                    ImportedText::Mixed => self.notes.push("headers.Authorization".into()),
                }
                continue;
            }
            match classify_text(&value) {
                ImportedText::Plain(value) if check_server_header(name, &value).is_ok() => {
                    self.secret |= !is_public_header(name);
                    pairs.push(format!("{} = {}", shown_key(name), toml_string(&value)));
                }
                _ => self.notes.push(format!("headers.{}", shown_key(name))),
            }
        }
        if !pairs.is_empty() {
            self.lines
                .push(format!("headers = {{ {} }}", pairs.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests;
