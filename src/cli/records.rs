//! Records of tools as a person reads them: what was called, who allowed it, what came of it.

use serde_json::Value;

use crate::client::approve::arguments::grouped;
use crate::client::tools::time;
use crate::safety::alike;
use crate::safety::text::{one_line, prose};

/// So much of a line is shown where not all is.
const LINE: usize = 100;
/// So many lines of a result are shown where not all are.
const LINES: usize = 5;

/// How much of what a tool was told and said is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Much {
    /// All of it.
    All,
    /// Lines that are cut, and the first of them.
    Begin,
}

impl Much {
    fn line(self, text: &str) -> String {
        match self {
            Much::All => alike::text(text),
            Much::Begin => alike::text(&cut(text)),
        }
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_string(),
    }
}

/// The calls of an answer, a line each.
pub fn calls(answer: &Value, much: Much) -> String {
    let calls = answer["calls"].as_array().into_iter().flatten();
    calls
        .map(|call| {
            let name = alike::name(call["name"].as_str().unwrap_or(""));
            let arguments = much.line(call["arguments"].as_str().unwrap_or(""));
            format!("[calls {name} {arguments}]\n")
        })
        .collect()
}

/// What was decided on a call, the arguments as they went out.
pub fn approval(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let said = match text("decision") {
        "once" => "allowed once",
        "tool" => "allowed for this session",
        "server" => "server allowed for this session",
        "rule" => "allowed by",
        "no" => "denied",
        "stop" => "denied with Ctrl-C",
        "no_terminal" => "denied without a terminal",
        other => &one_line(other, 20),
    };
    let why = match (text("decision"), text("why")) {
        (_, "") => String::new(),
        ("rule", why) => format!(" {}", one_line(why, LINE)),
        (_, why) => format!(": {}", one_line(why, LINE)),
    };
    format!(
        "[{said}{why}] {} {}\n",
        alike::name(text("name")),
        Much::Begin.line(text("arguments"))
    )
}

/// What a tool said, in a frame.
pub fn tool(record: &Value, much: Much) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let number = |key: &str| record[key].as_u64().unwrap_or(0);
    let status = text("status");
    let mut out = format!("┌ {} · {}", alike::name(text("name")), one_line(status, 20));
    if !matches!(status, "denied" | "skipped") {
        let (time, bytes) = (time(number("ms")), grouped(number("bytes")));
        out.push_str(&format!(" · {time} · {bytes} bytes"));
    }
    out.push('\n');
    let lines: Vec<&str> = text("text").lines().collect();
    let shown = match much {
        Much::All => lines.len(),
        Much::Begin => lines.len().min(LINES),
    };
    for line in &lines[..shown] {
        let line = match much {
            Much::All => prose(line),
            Much::Begin => prose(&cut(line)),
        };
        out.push_str(&format!("│ {line}\n"));
    }
    match lines.len() - shown {
        0 => {}
        1 => out.push_str("│ … 1 more line\n"),
        more => out.push_str(&format!("│ … {more} more lines\n")),
    }
    if !text("error").is_empty() {
        out.push_str(&format!("│ [{}]\n", one_line(text("error"), 1000)));
    }
    out.push_str("└\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let long = "x".repeat(200);
        let answer = json!({"calls": [{"name": "a.b", "arguments": long}]});
        let cut = format!("{}…", "x".repeat(LINE));
        assert_eq!(calls(&answer, Much::Begin), format!("[calls a.b {cut}]\n"));
        assert_eq!(calls(&answer, Much::All), format!("[calls a.b {long}]\n"));
        let lines = json!({"name": "a.b", "status": "success", "ms": 200, "bytes": 1204,
            "text": format!("{long}\n2\n3\n4\n5\n6\n\u{1b}7\n")});
        assert_eq!(
            tool(&lines, Much::Begin),
            format!(
                "┌ a.b · success · 0.2 s · 1,204 bytes\n│ {cut}\n│ 2\n│ 3\n│ 4\n│ 5\n│ … 2 more lines\n└\n"
            )
        );
        assert!(tool(&lines, Much::All).ends_with("│ 6\n│ \\x1b7\n└\n"));
    }

    #[test]
    fn a_decision_says_whose_it_was() {
        let record = |decision: &str, why: &str| {
            approval(&json!({"name": "a.b", "decision": decision, "why": why, "arguments": "{}"}))
        };
        assert_eq!(record("once", ""), "[allowed once] a.b {}\n");
        assert_eq!(
            record("rule", "mcp.auto_approve.\"a.*\""),
            "[allowed by mcp.auto_approve.\"a.*\"] a.b {}\n"
        );
        assert_eq!(record("no", "not\nso"), "[denied: not‹\\n›so] a.b {}\n");
        assert_eq!(record("stop", ""), "[denied with Ctrl-C] a.b {}\n");
    }
}
