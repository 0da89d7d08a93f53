//! The `mcpServers` that other clients keep in JSON, as servers of ours. Pure: a text goes in, lines for
//! `config.toml` come out, with what could not be taken said beside them.
//!
//! A value that names a variable is never filled in here: it stays the name of a variable.

use std::collections::BTreeSet;

use super::mcp::alias_like;
use super::table::shown_key;
use super::tree::{self, Entry, Value};
use super::{edit, rules, toml_string};

/// One server of the other file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What it is called there.
    pub name: String,
    /// What it is here, or why it cannot be taken.
    pub server: Result<Found, String>,
}

/// A server that can be added.
#[derive(Clone, PartialEq, Eq)]
pub struct Found {
    /// What it will be called here.
    pub alias: String,
    /// The lines of its table.
    pub table: String,
    /// The variables that the shell must have for it.
    pub variables: Vec<String>,
    /// What was not taken over, a few words each.
    pub notes: Vec<String>,
    /// Its table holds a token or another value that may be secret.
    pub secret: bool,
}

impl std::fmt::Debug for Found {
    /// Without the table, which may hold a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Found({}, {:?})", self.alias, self.notes)
    }
}

/// What a text of the other file stands for.
enum Text {
    Plain(String),
    /// A variable of the shell.
    Variable(String),
    /// Something that the other client asks its user for.
    Asked(String),
    /// A text with such things in its midst.
    Mixed,
}

/// Reads the JSON of another client: `mcpServers`, `servers`, or `mcp` with either in it. `known` says of
/// an alias that there is a server of it already, which stays as it is.
///
/// # Errors
/// It is no JSON, or there are no servers in it; in words that follow the file's name.
pub fn read(text: &str, known: impl Fn(&str) -> bool) -> Result<Vec<Imported>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = tree::parse_json(text).map_err(|e| format!("line {}: {}", e.line, e.message))?;
    let servers =
        servers(&root.value).ok_or("has no servers: neither mcpServers nor servers is in it")?;
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for entry in servers {
        let name = entry.key.clone();
        let own = alias_like(&name, |_| false);
        if known(&own) {
            let why = format!("there is a server {own} already");
            all.push(Imported {
                name,
                server: Err(why),
            });
            continue;
        }
        let alias = alias_like(&name, |a| known(a) || taken.contains(a));
        let server = server(&entry.node.value, &alias);
        if server.is_ok() {
            taken.insert(alias);
        }
        all.push(Imported { name, server });
    }
    Ok(all)
}

fn get<'t>(entries: &'t [Entry], key: &str) -> Option<&'t Value> {
    let entry = entries.iter().find(|e| e.key == key)?;
    Some(&entry.node.value)
}

fn servers(root: &Value) -> Option<&[Entry]> {
    let Value::Table(entries) = root else {
        return None;
    };
    let found = ["mcpServers", "servers"]
        .iter()
        .find_map(|key| match get(entries, key) {
            Some(Value::Table(servers)) => Some(servers.as_slice()),
            _ => None,
        });
    // The settings of an editor have them one table deeper.
    found.or_else(|| servers(get(entries, "mcp")?))
}

/// The text of a value that is one, or that others write as a number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Integer(n) => Some(n.to_string()),
        Value::Float(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

fn meaning(text: &str) -> Text {
    let trimmed = text.trim();
    if let Some(inner) = trimmed.strip_prefix("${").and_then(|t| t.strip_suffix('}')) {
        if let Some(asked) = inner.strip_prefix("input:") {
            return Text::Asked(variable_like(asked));
        }
        let name = inner.strip_prefix("env:").unwrap_or(inner);
        // `${NAME:-default}`: the variable is what is meant.
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        return match rules::variable_name(name) {
            Ok(()) if !name.is_empty() => Text::Variable(name.to_string()),
            _ => Text::Mixed,
        };
    }
    if let Some(name) = super::mcp::variable(trimmed) {
        return Text::Variable(name.to_string());
    }
    match text.contains("${") {
        true => Text::Mixed,
        false => Text::Plain(text.to_string()),
    }
}

/// `github-token` as a variable is called: `GITHUB_TOKEN`.
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

/// A table while it is written.
#[derive(Default)]
struct Draft {
    lines: Vec<String>,
    variables: Vec<String>,
    notes: Vec<String>,
    secret: bool,
}

fn server(value: &Value, alias: &str) -> Result<Found, String> {
    let Value::Table(entries) = value else {
        return Err("is no table".into());
    };
    let mut draft = Draft::default();
    let mut taken = vec!["type", "transport", "name", "description"];
    let kind = get(entries, "type").or(get(entries, "transport"));
    let kind = kind.and_then(text).unwrap_or_default().to_ascii_lowercase();
    let url = ["httpUrl", "serverUrl", "url"]
        .iter()
        .find_map(|key| Some((*key, get(entries, key).and_then(text)?)));
    if let Some((key, url)) = url {
        taken.extend([key, "headers"]);
        if kind == "sse" {
            return Err("speaks SSE alone, the transport of 2024, which aish does not".into());
        }
        if !matches!(meaning(&url), Text::Plain(_)) {
            return Err("has a variable in its url, which aish does not fill in".into());
        }
        draft.lines.push(format!("url = {}", toml_string(&url)));
        if let Some(headers) = get(entries, "headers") {
            draft.headers(headers);
        }
    } else {
        taken.extend(["command", "args", "env"]);
        draft.command(entries)?;
    }
    for (key, off) in [("disabled", true), ("enabled", false)] {
        if let Some(Value::Bool(set)) = get(entries, key) {
            taken.push(key);
            if *set == off {
                draft.lines.push("disabled = true".into());
            }
        }
    }
    let others = entries.iter().filter(|e| !taken.contains(&e.key.as_str()));
    draft.notes.extend(others.map(|e| shown_key(&e.key)));
    let table = draft.lines.join("\n");
    // What a rule of ours refuses is found before anything is written.
    edit::check_server(alias, &table)?;
    draft.variables.sort();
    draft.variables.dedup();
    Ok(Found {
        alias: alias.to_string(),
        table,
        variables: draft.variables,
        notes: draft.notes,
        secret: draft.secret,
    })
}

impl Draft {
    fn command(&mut self, entries: &[Entry]) -> Result<(), String> {
        let mut words = match get(entries, "command") {
            Some(Value::String(command)) => vec![command.clone()],
            Some(Value::Array(words)) => words.iter().filter_map(|w| text(&w.value)).collect(),
            _ => return Err("has neither a url nor a command".into()),
        };
        match get(entries, "args") {
            None => {}
            Some(Value::Array(args)) => words.extend(args.iter().filter_map(|a| text(&a.value))),
            Some(_) => return Err("has args that are no list".into()),
        }
        if words
            .iter()
            .any(|w| matches!(meaning(w), Text::Mixed | Text::Asked(_) | Text::Variable(_)))
        {
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
        let Some(Value::Table(env)) = get(entries, "env") else {
            return Ok(());
        };
        let mut pairs = Vec::new();
        for entry in env {
            let name = &entry.key;
            let value = match text(&entry.node.value).map(|t| meaning(&t)) {
                Some(Text::Plain(value)) if value.trim().is_empty() => continue,
                Some(Text::Plain(value)) => {
                    self.secret |= rules::is_secret_name(name);
                    value
                }
                Some(Text::Variable(variable)) => self.variable(variable),
                // What it would ask for is what the server finds under this name.
                Some(Text::Asked(_)) if rules::variable_name(name).is_ok() => {
                    self.variable(name.clone())
                }
                Some(Text::Asked(_) | Text::Mixed) | None => {
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

    fn headers(&mut self, headers: &Value) {
        let Value::Table(headers) = headers else {
            self.notes.push("headers".into());
            return;
        };
        let mut pairs = Vec::new();
        for entry in headers {
            let name = &entry.key;
            let value = text(&entry.node.value).unwrap_or_default();
            let bearer = value
                .get(..7)
                .filter(|b| b.eq_ignore_ascii_case("bearer "))
                .and(value.get(7..));
            if name.eq_ignore_ascii_case("authorization")
                && let Some(token) = bearer
            {
                match meaning(token) {
                    Text::Plain(token) => {
                        self.secret = true;
                        let token = toml_string(token.trim());
                        self.lines.push(format!("auth_token = {token}"));
                    }
                    Text::Variable(variable) | Text::Asked(variable) => {
                        self.lines
                            .push(format!("auth_env = {}", toml_string(&variable)));
                        self.variables.push(variable);
                    }
                    Text::Mixed => self.notes.push("headers.Authorization".into()),
                }
                continue;
            }
            match meaning(&value) {
                Text::Plain(value) if rules::server_header(name, &value).is_ok() => {
                    self.secret |= !rules::is_public_header(name);
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
