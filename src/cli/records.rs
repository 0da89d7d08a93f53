//! Records of tools as a person reads them: what was called, who allowed it, what came of it.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::client::approve::arguments::grouped;
use crate::client::tools::{cut, time, untabbed};
use crate::safety::alike;
use crate::safety::text::{one_line, prose};

/// So many lines of a result are shown where not all are.
const LINES: usize = 5;
/// The most that is shown of a reason.
const WHY: usize = 100;

/// How much of what a tool was told and said is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Much {
    /// All of it.
    All,
    /// The first lines, cut to so many columns.
    Begin(usize),
}

/// `[head text]`
fn note(head: &str, text: &str, much: Much) -> String {
    let Much::Begin(width) = much else {
        return format!("[{head} {}]\n", alike::text(text));
    };
    let room = width.saturating_sub(head.width() + 3).max(10);
    // No more is laid out than can be shown.
    let begin: String = text.chars().take(width + 1).collect();
    format!("[{head} {}]\n", cut(&alike::text(&begin), room))
}

/// The calls of an answer, a line each.
pub fn calls(answer: &Value, much: Much) -> String {
    let calls = answer["calls"].as_array().into_iter().flatten();
    calls
        .map(|call| {
            let name = alike::name(call["name"].as_str().unwrap_or(""));
            let arguments = call["arguments"].as_str().unwrap_or("");
            note(&format!("calls {name}"), arguments, much)
        })
        .collect()
}

/// What was decided on a call, the arguments as they went out.
pub fn approval(record: &Value, much: Much) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let said = match text("decision") {
        "once" => "allowed once",
        "tool" => "allowed for this session",
        "reads" => "reads of the server allowed for this session",
        "always" => "tool allowed from now on",
        "denied" => "denied by a rule",
        "server" => "server allowed for this session",
        "rule" => "allowed by",
        "no" => "denied",
        "stop" => "denied with Ctrl-C",
        "no_terminal" => "denied without a terminal",
        other => &one_line(other, 20),
    };
    let why = match (text("decision"), text("why")) {
        (_, "") => String::new(),
        ("rule", why) => format!(" {}", one_line(why, WHY)),
        (_, why) => format!(": {}", one_line(why, WHY)),
    };
    let name = alike::name(text("name"));
    note(&format!("{said}{why}: {name}"), text("arguments"), much)
}

/// What a tool said, in a frame.
pub fn tool(record: &Value, much: Much) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let number = |key: &str| record[key].as_u64().unwrap_or(0);
    let status = text("status");
    let mut out = format!("┌ {} · {}", alike::name(text("name")), one_line(status, 20));
    if !matches!(status, "denied" | "blocked" | "skipped") {
        let (time, bytes) = (time(number("ms")), grouped(number("bytes")));
        out.push_str(&format!(" · {time} · {bytes} bytes"));
    }
    out.push('\n');
    let lines: Vec<&str> = text("text").lines().collect();
    let shown = match much {
        Much::All => lines.len(),
        Much::Begin(_) => lines.len().min(LINES),
    };
    for line in &lines[..shown] {
        let line = match much {
            Much::All => prose(line),
            Much::Begin(width) => {
                let begin: String = line.chars().take(width).collect();
                cut(&untabbed(&prose(&begin)), width.saturating_sub(2))
            }
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
        let cut = format!("[calls a.b {}…]\n", "x".repeat(27));
        assert_eq!(calls(&answer, Much::Begin(40)), cut);
        assert_eq!(calls(&answer, Much::All), format!("[calls a.b {long}]\n"));
        let result = json!({"name": "a.b", "status": "success", "ms": 200, "bytes": 1204,
            "text": format!("{long}\n\t2\n3\n4\n5\n6\n\u{1b}7\n")});
        assert_eq!(
            tool(&result, Much::Begin(40)),
            format!(
                "┌ a.b · success · 0.2 s · 1,204 bytes\n│ {}…\n│         2\n│ 3\n│ 4\n│ 5\n\
                 │ … 2 more lines\n└\n",
                "x".repeat(37)
            )
        );
        assert!(tool(&result, Much::All).ends_with("│ 6\n│ \\x1b7\n└\n"));
    }

    #[test]
    fn a_decision_says_whose_it_was() {
        let record = |decision: &str, why: &str| {
            let arguments = "{}";
            let record =
                json!({"name": "a.b", "decision": decision, "why": why, "arguments": arguments});
            approval(&record, Much::Begin(80))
        };
        assert_eq!(record("once", ""), "[allowed once: a.b {}]\n");
        assert_eq!(
            record("rule", "mcp.auto_approve.\"a.*\""),
            "[allowed by mcp.auto_approve.\"a.*\": a.b {}]\n"
        );
        assert_eq!(record("no", "not\nso"), "[denied: not‹\\n›so: a.b {}]\n");
        assert_eq!(record("stop", ""), "[denied with Ctrl-C: a.b {}]\n");
    }
}
