//! Tools that the person has not seen yet, whole and in few lines: what each does, in its server's words, and
//! what it takes.

use serde_json::Value;

use super::frame::{Ink, Line, bit, bits, fold};
use super::operation::{marked, of_tool, says};
use crate::protocol::tools::{NewTools, ToolInfo};
use crate::safety::alike;

/// No wider: prose is read in columns.
const WIDEST: usize = 100;
/// So many words of a choice are named.
const CHOICES: usize = 6;

/// The lines, in so many columns.
pub fn lines(news: &NewTools, width: usize) -> Vec<Line> {
    let width = width.min(WIDEST);
    let server = alike::name(&news.server);
    let s = if news.tools.len() == 1 { "" } else { "s" };
    let head = match news.first {
        true => format!("new server {server}, {} tool{s}", news.tools.len()),
        false => format!("{} new tool{s} of server {server}", news.tools.len()),
    };
    let mut lines = Vec::new();
    let mut put = |sign: &str, hang: usize, line: Line| {
        for (n, part) in fold(&line, width.saturating_sub(4).max(1), hang)
            .into_iter()
            .enumerate()
        {
            let sign = if n == 0 { sign } else { "│" };
            let mut whole = vec![bit(format!("  {sign} "), Ink::Dim)];
            whole.extend(part);
            lines.push(whole);
        }
    };
    let mut line = vec![bit(head, Ink::Bold), bit(" · at ", Ink::Dim)];
    line.extend(bits(alike::pieces(&news.target), Ink::Dim));
    put("┌", 2, line);
    for tool in &news.tools {
        let short = tool.name.strip_prefix(&format!("{}.", tool.server));
        let name = vec![
            marked(of_tool(tool)),
            bit(" ", Ink::Plain),
            bit(alike::name(short.unwrap_or(&tool.name)), Ink::Bold),
            bit(format!("  server {}", says(tool)), Ink::Dim),
        ];
        put("│", 4, name);
        for mut part in prose(&tool.description).into_iter().filter(|l| l.len() > 1) {
            part.insert(0, bit("  ", Ink::Plain));
            put("│", 2, part);
        }
        for part in parameters(tool) {
            put("│", 9, part);
        }
    }
    let again = format!("shown once; again: aish-helper mcp tools {server}");
    put("└", 2, vec![bit(again, Ink::Dim)]);
    lines
}

/// What a server says, a line a line of it, without the empty ones at its ends. How far a line is indented says
/// something; that it is so by a screen's width does not.
pub fn prose(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for line in text.trim().lines() {
        let words = line.trim_start_matches([' ', '\t']).trim_end();
        let indent = (line.len() - line.trim_start_matches([' ', '\t']).len()).min(4);
        let mut shown = vec![bit(" ".repeat(indent), Ink::Plain)];
        shown.extend(bits(alike::pieces(words), Ink::Plain));
        lines.push(shown);
    }
    lines
}

/// What a tool takes: first what must be given. A line for each that the server says something about, and one for
/// all that it says nothing about.
fn parameters(tool: &ToolInfo) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let none = serde_json::Map::new();
    let properties = tool.schema["properties"].as_object().unwrap_or(&none);
    let required = tool.schema["required"].as_array();
    let must = |name: &str| required.is_some_and(|all| all.iter().any(|r| r == name));
    for (needed, word) in [(true, "needs"), (false, "takes")] {
        let mut silent = Line::new();
        for (name, schema) in properties.iter().filter(|(name, _)| must(name) == needed) {
            let mut shown: Line = bits(alike::pieces(name), Ink::Name).collect();
            shown.push(bit(" ", Ink::Plain));
            shown.extend(bits(alike::pieces(&kind(schema, 0)), Ink::Plain));
            match schema["description"].as_str().map(str::trim) {
                None | Some("") => {
                    if !silent.is_empty() {
                        silent.push(bit(", ", Ink::Plain));
                    }
                    silent.extend(shown);
                }
                Some(text) => {
                    shown.push(bit("  ", Ink::Plain));
                    let words: Vec<&str> = text.split_whitespace().collect();
                    shown.extend(bits(alike::pieces(&words.join(" ")), Ink::Dim));
                    lines.push(labelled(word, shown));
                }
            }
        }
        if !silent.is_empty() {
            lines.push(labelled(word, silent));
        }
    }
    let told = properties.values().filter(|p| p["description"].is_string());
    if descriptions(&tool.schema, 0) > told.count() {
        let more = format!(
            "more in its schema: aish-helper mcp tool {}",
            alike::name(&tool.name)
        );
        lines.push(vec![bit(format!("  {more}"), Ink::Dim)]);
    }
    lines
}

fn labelled(word: &str, rest: Line) -> Line {
    let mut line = vec![bit(format!("  {word}  "), Ink::Dim)];
    line.extend(rest);
    line
}

/// How deep a schema is looked into.
const DEPTH: usize = 4;

/// The type of a value in a word, or in a few.
fn kind(schema: &Value, depth: usize) -> String {
    if depth > DEPTH {
        return "…".to_string();
    }
    let one_of = |all: Vec<String>| -> String {
        let mut words: Vec<String> = all.iter().take(CHOICES).cloned().collect();
        if all.len() > CHOICES {
            words.push("…".to_string());
        }
        words.join("|")
    };
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(values) = schema["enum"].as_array() {
        return one_of(values.iter().map(word).collect());
    }
    if let Some(value) = schema.get("const") {
        return word(value);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(kinds) = schema[key].as_array() {
            return one_of(kinds.iter().map(|k| kind(k, depth + 1)).collect());
        }
    }
    match &schema["type"] {
        Value::Array(types) => one_of(types.iter().map(word).collect()),
        Value::String(t) if t == "array" => match schema.get("items") {
            Some(items) => format!("{}[]", kind(items, depth + 1)),
            None => "array".to_string(),
        },
        Value::String(t) if t == "object" => match schema["properties"].as_object() {
            Some(inner) if !inner.is_empty() => {
                let fields = inner.iter();
                let fields: Vec<String> = fields
                    .map(|(name, of)| format!("{name} {}", kind(of, depth + 1)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            _ => t.clone(),
        },
        Value::String(t) => t.clone(),
        _ => "any".to_string(),
    }
}

/// How many descriptions a schema holds.
fn descriptions(schema: &Value, depth: usize) -> usize {
    match schema {
        _ if depth > 32 => 1,
        Value::Array(all) => all.iter().map(|v| descriptions(v, depth + 1)).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value {
                Value::String(_) => usize::from(key == "description"),
                value => descriptions(value, depth + 1),
            })
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str, description: &str, schema: Value) -> ToolInfo {
        ToolInfo {
            name: format!("git.{name}"),
            server: "git".into(),
            title: None,
            description: description.into(),
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
            trusted: false,
            schema,
        }
    }

    fn shown(news: &NewTools, width: usize) -> Vec<String> {
        let text = |l: &Line| l.iter().map(|b| b.text.as_str()).collect::<String>();
        let lines: Vec<String> = lines(news, width).iter().map(text).collect();
        for line in &lines {
            assert!(
                unicode_width::UnicodeWidthStr::width(line.as_str()) < width,
                "{line}"
            );
        }
        lines
    }

    #[test]
    fn a_tool_is_whole_and_in_few_lines() {
        let schema = json!({"type": "object", "required": ["repo", "files"], "properties": {
            "repo": {"type": "string"},
            "files": {"type": "array", "items": {"type": "string"}},
            "mode": {"enum": ["soft", "mixed", "hard"], "description": "How\n  much goes"},
            "depth": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "author": {"type": "object", "properties": {"name": {"type": "string"}}},
            "x": {},
        }});
        let mut reset = tool("reset", "Resets.\n\n    Args:\n\tall\n", schema);
        reset.destructive = Some(true);
        let mut log = tool("log", "", json!({"type": "object"}));
        (log.read_only, log.trusted) = (Some(true), true);
        let news = NewTools {
            server: "git".into(),
            target: "uvx mcp-server-git".into(),
            first: true,
            tools: vec![reset, log],
        };
        assert_eq!(
            shown(&news, 80),
            [
                "  ┌ new server git, 2 tools · at uvx mcp-server-git",
                "  │ ! reset  server says: destructive",
                "  │   Resets.",
                "  │       Args:",
                "  │    all",
                "  │   needs  repo string, files string[]",
                "  │   takes  mode soft|mixed|hard  How much goes",
                "  │   takes  depth integer|null, author {name string}, x any",
                "  │ r log  server says: only reads, trusted",
                "  └ shown once; again: aish-helper mcp tools git",
            ]
        );
    }

    #[test]
    fn what_is_hostile_is_seen() {
        let schema = json!({"properties": {"p\u{430}th": {"type": "str\u{1b}[2J",
            "items": {"description": "deep"}}}});
        let mut evil = tool("rm\u{200b}", "\u{1b}]0;x\u{7}\r\u{202e}", schema);
        (evil.read_only, evil.destructive) = (Some(true), None);
        let news = NewTools {
            server: "git".into(),
            target: "https://x/\u{1b}[2J".into(),
            first: false,
            tools: vec![evil],
        };
        assert_eq!(
            shown(&news, 80),
            [
                "  ┌ 1 new tool of server git · at https://x/‹\\x1b›[2J",
                "  │ w rm‹U+200B›  server says: only reads, not trusted",
                "  │   ‹\\x1b›]0;x‹\\x07›‹\\r›‹\\u{202e}›",
                "  │   takes  p‹U+0430›th str‹\\x1b›[2J",
                "  │   more in its schema: aish-helper mcp tool git.rm‹U+200B›",
                "  └ shown once; again: aish-helper mcp tools git",
            ]
        );
    }
}
