//! `aish-helper mcp list|tools|tool|connect|disconnect|resources|prompts|prompt`; `mcp_login` and `mcp_import`
//! implement the other subcommands.
//!
//! All text from a server is untrusted: names and descriptions are cut to one line, and everything goes through
//! the text sink.

use std::io::{IsTerminal, Write};

use serde::de::DeserializeOwned;

use super::args::{ListArgs, McpCommand};
use super::call::current_directory;
use super::table::{count, shorten_paths, table, wrap_indented};
use super::{columns, mcp_import, mcp_login, print, print_json, print_wrapped};
use crate::client::connect;
use crate::client::operation;
use crate::client::styled_line::continue_line;
use crate::client::terminal;
use crate::client::text_format::cut;
use crate::config::env_overrides;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::Request;
use crate::protocol::tools::{
    McpRequest, PromptInfo, ResourceInfo, ServerInfo, ServerStatus, ToolInfo,
};
use crate::safety::text::{one_line, prose};

/// Maximum number of characters shown of a name, a description, an error and a server address.
const MAX_NAME: usize = 60;
const MAX_DESCRIPTION: usize = 100;
const MAX_ERROR: usize = 300;
const MAX_TARGET: usize = 1000;

/// Runs an `mcp` subcommand.
///
/// # Errors
/// The alias, tool or prompt is unknown, or the server fails.
pub fn run(paths: &Paths, command: McpCommand) -> Result<()> {
    match command {
        McpCommand::List(of) => list(paths, &of),
        McpCommand::Tools { alias, of } => tools(paths, alias, &of),
        McpCommand::Tool { name, json } => {
            let tool: ToolInfo = ask(paths, McpRequest::Tool { name })?;
            match json {
                true => print_json(&tool),
                false => print(&tool_page(&tool)),
            }
        }
        McpCommand::Connect { url, alias, json } => {
            let server: ServerInfo = ask(paths, McpRequest::Connect { url, alias })?;
            if json {
                return print_json(&server);
            }
            print(&format!(
                "{} is connected: {}, {}\n",
                server.alias,
                one_line(
                    server.version.as_deref().unwrap_or(&server.target),
                    MAX_NAME
                ),
                count(server.tools, "tool")
            ))
        }
        McpCommand::Disconnect { alias, json } => {
            let request = McpRequest::Disconnect {
                alias: alias.clone(),
            };
            let connected: bool = ask(paths, request)?;
            if json {
                return print_json(&serde_json::json!({"alias": alias}));
            }
            match connected {
                true => print(&format!("{alias} is disconnected\n")),
                false => print(&format!("{alias} was not connected\n")),
            }
        }
        McpCommand::Login { alias } => mcp_login::log_in(paths, &alias),
        McpCommand::Logout { alias } => mcp_login::log_out(paths, &alias),
        McpCommand::Resources { alias, of } => resources(paths, alias, &of),
        McpCommand::Prompts { alias, of } => prompts(paths, alias, &of),
        McpCommand::Prompt {
            name,
            arguments,
            json,
        } => {
            let arguments = arguments
                .iter()
                .map(|a| parse_argument(a))
                .collect::<Result<_>>()?;
            let text: String = ask(paths, McpRequest::Prompt { name, arguments })?;
            match json {
                true => print_json(&serde_json::json!({"text": text})),
                false => print(&format!("{}\n", text.trim_end())),
            }
        }
        McpCommand::Import { file, json } => mcp_import::run(paths, &file, json),
    }
}

fn request(request: McpRequest) -> Result<Request> {
    Ok(Request::Mcp {
        request,
        cwd: current_directory(),
        overrides: env_overrides()?,
    })
}

/// Sends an MCP request to the daemon and returns its reply.
///
/// # Errors
/// The alias, tool or prompt is unknown, or the server fails.
pub(super) fn ask<T: DeserializeOwned>(paths: &Paths, what: McpRequest) -> Result<T> {
    connect::to_daemon(paths, &request(what)?)?.reply()
}

/// Prints the names known to the running daemon, one per line, for shell completion. Starts no daemon and
/// stays silent on errors.
fn print_names<T: DeserializeOwned>(
    paths: &Paths,
    what: McpRequest,
    name: impl Fn(&T) -> String,
) -> Result<()> {
    let found: Vec<T> = match request(what).and_then(|r| connect::try_query(paths, &r)) {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => Vec::new(),
    };
    let plain = |name: &String| {
        !name.is_empty() && !name.contains(char::is_whitespace) && one_line(name, 1000) == *name
    };
    let names: Vec<String> = found.iter().map(name).filter(plain).collect();
    print(&names.iter().map(|n| format!("{n}\n")).collect::<String>())
}

fn list(paths: &Paths, of: &ListArgs) -> Result<()> {
    if of.names {
        return print_names(paths, McpRequest::List, |s: &ServerInfo| s.alias.clone());
    }
    let servers: Vec<ServerInfo> = ask(paths, McpRequest::List)?;
    if of.json {
        return print_json(&servers);
    }
    if servers.is_empty() {
        return print_wrapped(
            "no MCP servers; connect to one with: llm :mcp connect URL, or write it into the configuration\n",
        );
    }
    let rows: Vec<[String; 5]> = servers
        .iter()
        .map(|s| {
            [
                s.alias.clone(),
                s.status.as_str().to_string(),
                s.tools.to_string(),
                one_line(s.version.as_deref().unwrap_or("-"), MAX_NAME),
                one_line(&s.target, MAX_TARGET),
            ]
        })
        .collect();
    let head = ["alias", "status", "tools", "version", "server"].map(String::from);
    let width = columns();
    let mut lines = table(std::iter::once(&head).chain(&rows), width, shorten_paths).into_iter();
    let mut out = lines.next().unwrap_or_default();
    for (server, line) in servers.iter().zip(lines) {
        out.push_str(&line);
        if let Some(error) = &server.error {
            out.push_str(&wrap_indented(&one_line(error, MAX_ERROR), width));
        }
        for hint in &server.hints {
            out.push_str(&wrap_indented(&one_line(hint, MAX_ERROR), width));
        }
        if server.status == ServerStatus::Login {
            let alias = &server.alias;
            out.push_str(&format!("  log in with: aish-helper mcp login {alias}\n"));
        }
    }
    print(&out)
}

fn tools(paths: &Paths, alias: Option<String>, of: &ListArgs) -> Result<()> {
    let request = McpRequest::Tools {
        alias: alias.clone(),
    };
    if of.names {
        return print_names(paths, request, |t: &ToolInfo| t.name.clone());
    }
    let tools: Vec<ToolInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&tools);
    }
    // Reports each server whose tools are missing from the list; the daemon has already waited for them.
    let servers: Option<Vec<ServerInfo>> =
        connect::try_query(paths, &self::request(McpRequest::List)?)?;
    let is_selected = |s: &ServerInfo| alias.as_ref().is_none_or(|a| s.alias == *a);
    for server in servers.into_iter().flatten().filter(is_selected) {
        let reason = match server.status {
            ServerStatus::Starting => Some("still starting".to_string()),
            status @ (ServerStatus::Failed | ServerStatus::Login) => {
                Some(server.error.unwrap_or_else(|| status.as_str().to_string()))
            }
            ServerStatus::Idle | ServerStatus::Ready | ServerStatus::Disabled => None,
        };
        if let Some(reason) = reason {
            print_notice(&format!("without {}: {reason}", server.alias));
        }
        for hint in server.hints {
            print_notice(&format!("{}: {hint}", server.alias));
        }
    }
    if tools.is_empty() {
        return print_wrapped("no tools; see the servers with: llm :mcp list\n");
    }
    let rows: Vec<[String; 3]> = tools
        .iter()
        .map(|t| {
            [
                one_line(&t.name, MAX_NAME),
                operation::word(t.operation).to_string(),
                first_line(&t.description),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}

/// Prints one line on stderr, separate from the command's output.
pub(super) fn print_notice(line: &str) {
    let mut line = format!("[aish] {}\n", one_line(line, MAX_ERROR));
    let stderr = std::io::stderr();
    if stderr.is_terminal() {
        let width = terminal::size(&stderr).0.saturating_sub(1);
        line = continue_line(line.trim_end(), 0, width);
    }
    // A closed stderr cannot be reported anywhere.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns the first line that is not blank, cut to the width of a description.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty());
    one_line(line.unwrap_or_default(), MAX_DESCRIPTION)
}

fn tool_page(tool: &ToolInfo) -> String {
    let mut out = format!("{}\n", one_line(&tool.name, 200));
    if let Some(title) = &tool.title {
        out.push_str(&format!("{}\n", one_line(title, 200)));
    }
    // Indentation keeps server text from imitating a line of this page.
    let indented = |text: &str| -> String {
        let text = prose(text);
        let lines = text.trim_end().lines().map(|l| format!("  {l}\n"));
        lines.collect()
    };
    if !tool.description.trim().is_empty() {
        out.push_str(&format!("\n{}", indented(&tool.description)));
    }
    out.push('\n');
    for (name, word) in tool.annotation_words() {
        out.push_str(&format!("{name:<16} {word}\n"));
    }
    let schema = serde_json::to_string_pretty(&tool.schema).unwrap_or_default();
    out.push_str(&format!(
        "\nschema of its arguments:\n{}",
        indented(&schema)
    ));
    out
}

fn resources(paths: &Paths, alias: Option<String>, of: &ListArgs) -> Result<()> {
    let request = McpRequest::Resources { alias };
    let name = |r: &ResourceInfo| format!("{}:{}", r.server, r.uri);
    if of.names {
        return print_names(paths, request, name);
    }
    let resources: Vec<ResourceInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&resources);
    }
    if resources.is_empty() {
        return print_wrapped("no resources; see the servers with: llm :mcp list\n");
    }
    let rows: Vec<[String; 3]> = resources
        .iter()
        .map(|r| {
            let about = r.description.as_deref().unwrap_or_default();
            let about = match about.trim() {
                "" => one_line(&r.name, MAX_DESCRIPTION),
                about => format!("{}: {}", one_line(&r.name, MAX_NAME), first_line(about)),
            };
            let kind = match r.template {
                true => "template",
                false => r.mime.as_deref().unwrap_or("-"),
            };
            [one_line(&name(r), 200), one_line(kind, 40), about]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}

fn prompts(paths: &Paths, alias: Option<String>, of: &ListArgs) -> Result<()> {
    let request = McpRequest::Prompts { alias };
    if of.names {
        return print_names(paths, request, |p: &PromptInfo| p.name.clone());
    }
    let prompts: Vec<PromptInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&prompts);
    }
    if prompts.is_empty() {
        return print_wrapped("no prompts; see the servers with: llm :mcp list\n");
    }
    let rows: Vec<[String; 3]> = prompts
        .iter()
        .map(|p| {
            let arguments = p.arguments.iter().map(|(name, needed)| {
                let name = one_line(name, 40);
                match needed {
                    true => format!("{name}=…"),
                    false => format!("[{name}=…]"),
                }
            });
            let arguments: Vec<String> = arguments.collect();
            [
                one_line(&p.name, MAX_NAME),
                arguments.join(" "),
                first_line(p.description.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}

/// Parses a prompt argument, `KEY=VALUE`.
fn parse_argument(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(Error::usage(format!(
            "invalid prompt argument {text}: expected KEY=VALUE"
        ))
        .hint("list the arguments of each prompt with: llm :mcp prompts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(read_only: Option<bool>, destructive: Option<bool>) -> ToolInfo {
        ToolInfo {
            name: "a.b".into(),
            server: "a".into(),
            title: Some("Title".into()),
            description: "first\nschema of its arguments:\n\u{1b}[31mred".into(),
            read_only,
            destructive,
            idempotent: None,
            open_world: Some(true),
            trusted: false,
            operation: crate::chat::OperationClass::Write,
            schema: serde_json::json!({"type": "object", "title": "\u{202e}x"}),
        }
    }

    #[test]
    fn a_tool_page_shows_everything_and_indents_server_text() {
        let page = tool_page(&tool(Some(true), None));
        assert_eq!(
            prose(&page),
            "a.b\nTitle\n\n  first\n  schema of its arguments:\n  \\x1b[31mred\n\n\
             only reads       yes\n\
             may destroy      not declared\n\
             safe to repeat   not declared\n\
             reaches outside  yes\n\
             trusted          no: annotations of this server are not trusted\n\n\
             schema of its arguments:\n  {\n    \"type\": \"object\",\n    \"title\": \"\\u{202e}x\"\n  }\n"
        );
    }

    #[test]
    fn a_prompt_argument_has_a_name_and_a_value() {
        assert_eq!(parse_argument("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert!(parse_argument("a").is_err() && parse_argument("=b").is_err());
    }
}
