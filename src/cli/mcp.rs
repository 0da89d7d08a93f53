//! `aish-helper mcp list|tools|tool|connect|disconnect|resources|prompts|prompt`; the rest has rooms of its own.
//!
//! Everything that a server says of itself is untrusted: names and lines are cut to one line, and all of it
//! goes through the text sink.

use std::io::Write;

use serde::de::DeserializeOwned;
use unicode_width::UnicodeWidthStr;

use super::args::{Mcp, Of};
use super::call::cwd;
use super::{columns, mcp_import, mcp_login, print, print_json};
use crate::client::connect;
use crate::client::tools::cut;
use crate::config::env_overrides;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::Request;
use crate::protocol::tools::{
    McpRequest, PromptInfo, ResourceInfo, ServerInfo, ServerStatus, ToolInfo,
};
use crate::safety::text::{one_line, prose};

/// The most that is shown of a name, a description and an error.
const NAME: usize = 60;
const DESCRIPTION: usize = 100;
const ERROR: usize = 300;
const TARGET: usize = 1000;
/// The widest that a column of names gets; a longer one pushes its own line alone.
const COLUMN: usize = 36;

/// Does what was asked.
///
/// # Errors
/// There is no such thing, or a server fails.
pub fn run(paths: &Paths, command: Mcp) -> Result<()> {
    match command {
        Mcp::List(of) => list(paths, &of),
        Mcp::Tools { alias, of } => tools(paths, alias, &of),
        Mcp::Tool { name, json } => {
            let tool: ToolInfo = ask(paths, McpRequest::Tool { name })?;
            match json {
                true => print_json(&tool),
                false => print(&tool_page(&tool)),
            }
        }
        Mcp::Connect { url, alias, json } => {
            let server: ServerInfo = ask(paths, McpRequest::Connect { url, alias })?;
            if json {
                return print_json(&server);
            }
            print(&format!(
                "{} is connected: {}, {}\n",
                server.alias,
                one_line(server.version.as_deref().unwrap_or(&server.target), NAME),
                count(server.tools, "tool")
            ))
        }
        Mcp::Disconnect { alias, json } => {
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
        Mcp::Login { alias } => mcp_login::run(paths, &alias),
        Mcp::Logout { alias } => mcp_login::logout(paths, &alias),
        Mcp::Resources { alias, of } => resources(paths, alias, &of),
        Mcp::Prompts { alias, of } => prompts(paths, alias, &of),
        Mcp::Prompt {
            name,
            arguments,
            json,
        } => {
            let arguments = arguments.iter().map(|a| pair(a)).collect::<Result<_>>()?;
            let text: String = ask(paths, McpRequest::Prompt { name, arguments })?;
            match json {
                true => print_json(&serde_json::json!({"text": text})),
                false => print(&format!("{}\n", text.trim_end())),
            }
        }
        Mcp::Import { file, json } => mcp_import::run(paths, &file, json),
    }
}

fn request(request: McpRequest) -> Result<Request> {
    Ok(Request::Mcp {
        request,
        cwd: cwd(),
        overrides: env_overrides()?,
    })
}

/// Asks the daemon something about servers.
///
/// # Errors
/// There is no such thing, or a server fails.
pub(super) fn ask<T: DeserializeOwned>(paths: &Paths, what: McpRequest) -> Result<T> {
    connect::to_daemon(paths, &request(what)?)?.reply()
}

/// The names that the running daemon knows, a line each, for completion: nothing is started, and where
/// nothing is known nothing is said.
fn names<T: DeserializeOwned>(
    paths: &Paths,
    what: McpRequest,
    name: impl Fn(&T) -> String,
) -> Result<()> {
    let found: Vec<T> = match request(what).and_then(|r| connect::glance(paths, &r)) {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => Vec::new(),
    };
    let plain = |name: &String| {
        !name.is_empty() && !name.contains(char::is_whitespace) && one_line(name, 1000) == *name
    };
    let names: Vec<String> = found.iter().map(name).filter(plain).collect();
    print(&names.iter().map(|n| format!("{n}\n")).collect::<String>())
}

fn list(paths: &Paths, of: &Of) -> Result<()> {
    if of.names {
        return names(paths, McpRequest::List, |s: &ServerInfo| s.alias.clone());
    }
    let servers: Vec<ServerInfo> = ask(paths, McpRequest::List)?;
    if of.json {
        return print_json(&servers);
    }
    if servers.is_empty() {
        return print(
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
                one_line(s.version.as_deref().unwrap_or("-"), NAME),
                one_line(&s.target, TARGET),
            ]
        })
        .collect();
    let head = ["alias", "status", "tools", "version", "server"].map(String::from);
    let width = columns();
    let mut lines = table(std::iter::once(&head).chain(&rows), width, squeezed).into_iter();
    let mut out = lines.next().unwrap_or_default();
    for (server, line) in servers.iter().zip(lines) {
        out.push_str(&line);
        if let Some(error) = &server.error {
            out.push_str(&indented(&one_line(error, ERROR), width));
        }
        for hint in &server.hints {
            out.push_str(&format!("  {}\n", one_line(hint, ERROR)));
        }
        if server.status == ServerStatus::Login {
            let alias = &server.alias;
            out.push_str(&format!("  log in with: aish-helper mcp login {alias}\n"));
        }
    }
    print(&out)
}

/// Lines with columns that stand below each other. The last one is as long as it is, or made to fit into
/// `width` by `fit`, which is told how much room there is.
pub fn table<'r, const N: usize>(
    rows: impl Iterator<Item = &'r [String; N]>,
    width: Option<usize>,
    fit: fn(&str, usize) -> String,
) -> Vec<String> {
    let rows: Vec<&[String; N]> = rows.collect();
    let widest = |column: usize| {
        let lengths = rows.iter().map(|r| r[column].chars().count());
        lengths.filter(|n| *n <= COLUMN).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(widest).collect();
    let line = |row: &[String; N]| {
        let mut line: String = row[..N - 1]
            .iter()
            .zip(&widths)
            .map(|(c, w)| format!("{c:<w$}  "))
            .collect();
        match width {
            None => line.push_str(&row[N - 1]),
            Some(width) => {
                line.push_str(&fit(&row[N - 1], width.saturating_sub(line.width())));
                line = cut(&line, width);
            }
        }
        format!("{}\n", line.trim_end())
    };
    rows.into_iter().map(line).collect()
}

/// A command in so many columns: of long paths the end is what tells servers apart.
fn squeezed(target: &str, room: usize) -> String {
    let mut words: Vec<String> = target.split(' ').map(String::from).collect();
    let width = |words: &[String]| words.iter().map(|w| w.width() + 1).sum::<usize>();
    // Without what stands in front of it: `/a/b/c` and `…/b/c` are `…/c`.
    let shorter = |word: &str| {
        let path = word.strip_prefix("…").unwrap_or(word).strip_prefix('/')?;
        let (_, rest) = path.split_once('/')?;
        Some(format!("…/{rest}"))
    };
    while width(&words) > room + 1 {
        let paths = words.iter_mut().filter_map(|w| Some((shorter(w)?, w)));
        match paths.max_by_key(|(_, w)| w.width()) {
            Some((short, word)) => *word = short,
            None => break,
        }
    }
    cut(&words.join(" "), room)
}

/// A text below a line of the table, its words on as many lines as they need.
fn indented(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("  {text}\n");
    };
    let mut out = String::new();
    let mut line = " ".to_string();
    for word in text.split(' ') {
        if line.width() + 1 + word.width() > width && !line.trim().is_empty() {
            out.push_str(&format!("{line}\n"));
            line = "   ".to_string();
        }
        line.push_str(&format!(" {word}"));
    }
    format!("{out}{line}\n")
}

fn tools(paths: &Paths, alias: Option<String>, of: &Of) -> Result<()> {
    let request = McpRequest::Tools {
        alias: alias.clone(),
    };
    if of.names {
        return names(paths, request, |t: &ToolInfo| t.name.clone());
    }
    let tools: Vec<ToolInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&tools);
    }
    // One whose tools are missing here is not to be missed in silence. All have had their time.
    let servers: Option<Vec<ServerInfo>> =
        connect::glance(paths, &self::request(McpRequest::List)?)?;
    let meant = |s: &ServerInfo| alias.as_ref().is_none_or(|a| s.alias == *a);
    for server in servers.into_iter().flatten().filter(meant) {
        let why = match server.status {
            ServerStatus::Starting => Some("still starting".to_string()),
            status @ (ServerStatus::Failed | ServerStatus::Login) => {
                Some(server.error.unwrap_or_else(|| status.as_str().to_string()))
            }
            ServerStatus::Idle | ServerStatus::Ready | ServerStatus::Disabled => None,
        };
        if let Some(why) = why {
            note(&format!("without {}: {why}", server.alias));
        }
        for hint in server.hints {
            note(&format!("{}: {hint}", server.alias));
        }
    }
    if tools.is_empty() {
        return print("no tools; see the servers with: llm :mcp list\n");
    }
    let rows: Vec<[String; 3]> = tools
        .iter()
        .map(|t| {
            [
                one_line(&t.name, NAME),
                kind(t).to_string(),
                summary(&t.description),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}

/// Says a line beside what is printed.
pub(super) fn note(line: &str) {
    let line = format!("[aish] {}\n", one_line(line, ERROR));
    // There is nowhere else to say that stderr is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// What a tool's server says that it does, in a word.
pub(super) fn kind(tool: &ToolInfo) -> &'static str {
    match (tool.read_only, tool.destructive) {
        (_, Some(true)) => "destroys",
        (Some(true), _) => "reads",
        (Some(false), _) | (_, Some(false)) => "writes",
        (None, None) => "-",
    }
}

/// The first line that says something.
pub(super) fn summary(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty());
    one_line(line.unwrap_or_default(), DESCRIPTION)
}

fn tool_page(tool: &ToolInfo) -> String {
    let mut out = format!("{}\n", one_line(&tool.name, 200));
    if let Some(title) = &tool.title {
        out.push_str(&format!("{}\n", one_line(title, 200)));
    }
    // Indented, so that no line of it looks like one of ours.
    let indented = |text: &str| -> String {
        let text = prose(text);
        let lines = text.trim_end().lines().map(|l| format!("  {l}\n"));
        lines.collect()
    };
    if !tool.description.trim().is_empty() {
        out.push_str(&format!("\n{}", indented(&tool.description)));
    }
    out.push('\n');
    for (name, word) in tool.says() {
        out.push_str(&format!("{name:<16} {word}\n"));
    }
    let schema = serde_json::to_string_pretty(&tool.schema).unwrap_or_default();
    out.push_str(&format!(
        "\nschema of its arguments:\n{}",
        indented(&schema)
    ));
    out
}

fn resources(paths: &Paths, alias: Option<String>, of: &Of) -> Result<()> {
    let request = McpRequest::Resources { alias };
    let name = |r: &ResourceInfo| format!("{}:{}", r.server, r.uri);
    if of.names {
        return names(paths, request, name);
    }
    let resources: Vec<ResourceInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&resources);
    }
    if resources.is_empty() {
        return print("no resources; see the servers with: llm :mcp list\n");
    }
    let rows: Vec<[String; 3]> = resources
        .iter()
        .map(|r| {
            let about = r.description.as_deref().unwrap_or_default();
            let about = match about.trim() {
                "" => one_line(&r.name, DESCRIPTION),
                about => format!("{}: {}", one_line(&r.name, NAME), summary(about)),
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

fn prompts(paths: &Paths, alias: Option<String>, of: &Of) -> Result<()> {
    let request = McpRequest::Prompts { alias };
    if of.names {
        return names(paths, request, |p: &PromptInfo| p.name.clone());
    }
    let prompts: Vec<PromptInfo> = ask(paths, request)?;
    if of.json {
        return print_json(&prompts);
    }
    if prompts.is_empty() {
        return print("no prompts; see the servers with: llm :mcp list\n");
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
                one_line(&p.name, NAME),
                arguments.join(" "),
                summary(p.description.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    print(&table(rows.iter(), columns(), cut).concat())
}

/// `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(Error::usage(format!(
            "{text} is no argument of a prompt: it is KEY=VALUE"
        ))
        .hint("see what a prompt takes with: llm :mcp prompts")),
    }
}

/// `1 tool`, `2 tools`.
pub fn count(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
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
            operation: crate::chat::Operation::Write,
            schema: serde_json::json!({"type": "object", "title": "\u{202e}x"}),
        }
    }

    #[test]
    fn a_tool_page_has_all_and_nothing_of_it_passes_for_ours() {
        let page = tool_page(&tool(Some(true), None));
        assert_eq!(
            prose(&page),
            "a.b\nTitle\n\n  first\n  schema of its arguments:\n  \\x1b[31mred\n\n\
             only reads       yes\n\
             may destroy      not said\n\
             safe to repeat   not said\n\
             reaches outside  yes\n\
             trusted          no, this is its server's word alone\n\n\
             schema of its arguments:\n  {\n    \"type\": \"object\",\n    \"title\": \"\\u{202e}x\"\n  }\n"
        );
    }

    #[test]
    fn what_a_tool_does_is_one_word() {
        assert_eq!(kind(&tool(Some(true), None)), "reads");
        assert_eq!(kind(&tool(Some(true), Some(true))), "destroys");
        assert_eq!(kind(&tool(Some(false), Some(false))), "writes");
        assert_eq!(kind(&tool(None, None)), "-");
    }

    #[test]
    fn a_command_keeps_the_end_of_its_paths() {
        let target = "node /home/me/node_modules/server-filesystem/dist/index.js /tmp";
        for (room, shown) in [
            (80, target),
            (44, "node …/server-filesystem/dist/index.js /tmp"),
            (26, "node …/dist/index.js /tmp"),
            (20, "node …/index.js /tmp"),
            (12, "node …/inde…"),
        ] {
            assert_eq!(squeezed(target, room), shown);
        }
        assert_eq!(squeezed("https://mcp.example/a/b", 14), "https://mcp.e…");
    }

    #[test]
    fn an_error_is_wrapped_between_words() {
        assert_eq!(
            indented("cannot connect to x: refused", Some(20)),
            "  cannot connect to\n    x: refused\n"
        );
        assert_eq!(indented("a b", None), "  a b\n");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let row = |a: &str, b: &str| [a.to_string(), b.to_string()];
        let long = "x".repeat(COLUMN + 1);
        let rows = [row("a", "1"), row("bbb", "2"), row(&long, "3")];
        assert_eq!(
            table(rows.iter(), None, cut),
            ["a    1\n", "bbb  2\n", &format!("{long}  3\n")]
        );
        let rows = [row("a", "one two three"), row("bbb", "日本語日本語")];
        assert_eq!(
            table(rows.iter(), Some(12), cut),
            ["a    one tw…\n", "bbb  日本語…\n"]
        );
    }

    #[test]
    fn an_argument_has_a_name_and_a_value() {
        assert_eq!(pair("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
