//! Formats journal records for `session show` and `session last`: tool calls, approvals, results, policy changes.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::chat::OperationClass;
use crate::client::operation::mark;
use crate::client::text_format::{cut, grouped, time, untabbed};
use crate::safety::confusables;
use crate::safety::text::{one_line, prose};

/// Lines of a result shown in an excerpt.
const EXCERPT_LINES: usize = 5;
/// Maximum number of characters shown of a reason.
const MAX_REASON: usize = 100;

/// How much of the arguments and the result of a tool call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetailLevel {
    /// Everything.
    Full,
    /// The first lines, cut to this number of columns.
    Excerpt(usize),
}

/// Formats `[head text]`.
fn bracketed(head: &str, text: &str, detail: DetailLevel) -> String {
    let DetailLevel::Excerpt(width) = detail else {
        return format!("[{head} {}]\n", confusables::marked_text(text));
    };
    let available = width.saturating_sub(head.width() + 3).max(10);
    // Escapes only as much as can be shown.
    let start: String = text.chars().take(width + 1).collect();
    format!(
        "[{head} {}]\n",
        cut(&confusables::marked_text(&start), available)
    )
}

/// Formats the tool calls of an answer, one per line.
pub fn calls(answer: &Value, detail: DetailLevel) -> String {
    let calls = answer["calls"].as_array().into_iter().flatten();
    calls
        .map(|call| {
            let name = confusables::marked_name(call["name"].as_str().unwrap_or(""));
            let arguments = call["arguments"].as_str().unwrap_or("");
            bracketed(&format!("calls {name}"), arguments, detail)
        })
        .collect()
}

/// Formats the decision about a call, with the arguments as they were sent.
pub fn approval(record: &Value, detail: DetailLevel) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let decision = match text("decision") {
        "once" => "allowed once",
        "tool" => "allowed for this session",
        "reads" => "allowed with the reads of its server for this session",
        "always" => "allowed from now on",
        "denied" => "denied by a rule",
        // Written by earlier versions.
        "server" => "allowed with all of its server",
        "rule" => "allowed by",
        "no" => "denied",
        "stop" => "denied with Ctrl-C",
        "no_terminal" => "denied without a terminal",
        "timed_out" => "denied: nobody answered in time",
        "cancelled" => "cancelled before an answer",
        other => &one_line(other, 20),
    };
    let reason = match (text("decision"), text("reason")) {
        (_, "") | ("timed_out", _) => String::new(),
        ("rule", reason) => format!(" {}", one_line(reason, MAX_REASON)),
        (_, reason) => format!(": {}", one_line(reason, MAX_REASON)),
    };
    let name = tool_name(record);
    bracketed(
        &format!("{decision}{reason}: {name}"),
        text("arguments"),
        detail,
    )
}

/// Returns the name of the tool, prefixed with the mark of its operation if that is recorded.
fn tool_name(record: &Value) -> String {
    let name = confusables::marked_name(record["name"].as_str().unwrap_or(""));
    let operation = record["action"]["operation"].as_str();
    match operation.and_then(OperationClass::from_name) {
        None => name,
        Some(operation) => format!("{} {name}", mark(operation)),
    }
}

/// Formats the call variant and the declared intent.
fn declared_intent(act: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut words = Vec::from_iter(text(&act["variant"]));
    let intent = &act["intent"];
    if let Some(operation) = text(&intent["operation_type"]) {
        words.push(format!("declared {operation}"));
    }
    if let Some(sensitivity) = text(&intent["data_sensitivity"]) {
        words.push(format!("{sensitivity} data"));
    }
    words.extend(text(&intent["reason"]).map(|reason| format!("\"{reason}\"")));
    (!words.is_empty()).then(|| words.join(" · "))
}

/// Formats who allowed the call, or why it was not made.
fn decision_line(record: &Value, detail: DetailLevel) -> Option<String> {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    match (text("status"), text("decided_by"), text("reason")) {
        ("blocked" | "invalid_call", _, reason) if !reason.is_empty() => Some(reason.to_owned()),
        // An excerpt shows the approval record as a separate line.
        _ if detail != DetailLevel::Full => None,
        ("denied", _, "") => None,
        ("denied", _, reason) => Some(reason.to_owned()),
        (_, "person", _) => Some("allowed by you".to_owned()),
        (_, "rule", reason) => Some(format!("allowed by {reason}")),
        _ => None,
    }
}

/// Formats a change of a rule or a grant.
pub fn policy(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let change = match text("change") {
        "always" => "written to the configuration".to_owned(),
        other => one_line(other, 20),
    };
    let reason = match text("reason") {
        "" => String::new(),
        reason => format!(" ({})", one_line(reason, MAX_REASON)),
    };
    format!(
        "[policy, {change}: {}{reason}]\n",
        one_line(text("rule"), MAX_REASON)
    )
}

/// Formats a change of the connection to an MCP server.
pub fn server(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let mut line = format!(
        "[server {} {}",
        confusables::marked_name(text("alias")),
        match text("event") {
            "login" => "needs a login".to_owned(),
            other => one_line(other, 20),
        }
    );
    if text("event") == "connected" {
        let tools = record["tools"].as_u64().unwrap_or(0);
        let s = if tools == 1 { "" } else { "s" };
        line.push_str(&format!(": {tools} tool{s}"));
    }
    if !text("error").is_empty() {
        line.push_str(&format!(": {}", one_line(text("error"), MAX_REASON)));
    }
    line + "]\n"
}

/// Formats the result of a tool call in a frame.
pub fn tool(record: &Value, detail: DetailLevel) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("");
    let number = |key: &str| record[key].as_u64().unwrap_or(0);
    let status = text("status");
    let mut out = format!(
        "┌ {} · {}",
        tool_name(record),
        one_line(&status.replace('_', " "), 20)
    );
    if !matches!(status, "denied" | "blocked" | "invalid_call") {
        let (time, bytes) = (time(number("duration_ms")), grouped(number("bytes")));
        out.push_str(&format!(" · {time} · {bytes} bytes"));
    }
    out.push('\n');
    let notes = [
        declared_intent(&record["action"]),
        decision_line(record, detail),
    ];
    for line in notes.into_iter().flatten() {
        let line = format!("[{}]", confusables::marked_text(&line));
        out.push_str(&match detail {
            DetailLevel::Full => format!("│ {line}\n"),
            DetailLevel::Excerpt(width) => format!("│ {}\n", cut(&line, width.saturating_sub(2))),
        });
    }
    let lines: Vec<&str> = text("text").lines().collect();
    let shown = match detail {
        DetailLevel::Full => lines.len(),
        DetailLevel::Excerpt(_) => lines.len().min(EXCERPT_LINES),
    };
    for line in &lines[..shown] {
        let line = match detail {
            DetailLevel::Full => prose(line),
            DetailLevel::Excerpt(width) => {
                let start: String = line.chars().take(width).collect();
                cut(&untabbed(&prose(&start)), width.saturating_sub(2))
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
        assert_eq!(calls(&answer, DetailLevel::Excerpt(40)), cut);
        assert_eq!(
            calls(&answer, DetailLevel::Full),
            format!("[calls a.b {long}]\n")
        );
        let result = json!({"name": "a.b", "status": "success", "duration_ms": 200, "bytes": 1204,
            "text": format!("{long}\n\t2\n3\n4\n5\n6\n\u{1b}7\n")});
        assert_eq!(
            tool(&result, DetailLevel::Excerpt(40)),
            format!(
                "┌ a.b · success · 200 ms · 1,204 bytes\n│ {}…\n│         2\n│ 3\n│ 4\n│ 5\n\
                 │ … 2 more lines\n└\n",
                "x".repeat(37)
            )
        );
        assert!(tool(&result, DetailLevel::Full).ends_with("│ 6\n│ \\x1b7\n└\n"));
    }

    #[test]
    fn a_decision_says_whose_it_was() {
        let record = |decision: &str, why: &str| {
            let arguments = "{}";
            let record =
                json!({"name": "a.b", "decision": decision, "reason": why, "arguments": arguments});
            approval(&record, DetailLevel::Excerpt(80))
        };
        assert_eq!(record("once", ""), "[allowed once: a.b {}]\n");
        assert_eq!(
            record("rule", "mcp.auto_approve.\"a.*\""),
            "[allowed by mcp.auto_approve.\"a.*\": a.b {}]\n"
        );
        assert_eq!(record("no", "not\nso"), "[denied: not‹\\n›so: a.b {}]\n");
        assert_eq!(record("stop", ""), "[denied with Ctrl-C: a.b {}]\n");
        assert_eq!(
            record("timed_out", "nobody answered within 10m"),
            "[denied: nobody answered in time: a.b {}]\n"
        );
    }

    #[test]
    fn a_call_says_what_it_was_for_and_who_decided() {
        let call = json!({"name": "a.b", "status": "success", "duration_ms": 200, "bytes": 2, "text": "ok", "decided_by": "rule",
            "reason": "policy.rules.\"op:write\"", "action": {"server": "a", "tool": "b", "variant": "call_tool_write",
            "operation": "write", "intent": {"operation_type": "write", "data_sensitivity": "private",
            "reason": "to keep\u{1b}[2J it"}}});
        assert_eq!(
            tool(&call, DetailLevel::Full),
            "┌ w a.b · success · 200 ms · 2 bytes\n\
             │ [call_tool_write · declared write · private data · \"to keep‹\\x1b›[2J it\"]\n\
             │ [allowed by policy.rules.\"op:write\"]\n│ ok\n└\n"
        );
        assert_eq!(
            tool(&call, DetailLevel::Excerpt(40)),
            "┌ w a.b · success · 200 ms · 2 bytes\n\
             │ [call_tool_write · declared write · p…\n│ ok\n└\n"
        );
        let said = |status: &str, by: &str, why: &str, detail| {
            let mut call = call.clone();
            (call["status"], call["decided_by"], call["reason"]) =
                (json!(status), json!(by), json!(why));
            call["action"] = json!({"operation": "destructive"});
            call["text"] = json!("");
            tool(&call, detail)
        };
        let all = DetailLevel::Full;
        assert_eq!(
            said("success", "person", "", all),
            "┌ ! a.b · success · 200 ms · 2 bytes\n│ [allowed by you]\n└\n"
        );
        assert_eq!(said("denied", "person", "", all), "┌ ! a.b · denied\n└\n");
        assert_eq!(
            said("denied", "person", "not so", all),
            "┌ ! a.b · denied\n│ [not so]\n└\n"
        );
        for detail in [all, DetailLevel::Excerpt(80)] {
            assert_eq!(
                said("blocked", "", "intent.operation_type is required", detail),
                "┌ ! a.b · blocked\n│ [intent.operation_type is required]\n└\n"
            );
        }
    }

    #[test]
    fn what_changed_of_rules_and_servers_is_a_line() {
        let grant = json!({"change": "lapsed", "rule": "you, for this session: a.b", "reason": "the tool has changed"});
        assert_eq!(
            policy(&grant),
            "[policy, lapsed: you, for this session: a.b (the tool has changed)]\n"
        );
        let rule = json!({"change": "always", "rule": "\"a.b\" = \"allow\""});
        assert_eq!(
            policy(&rule),
            "[policy, written to the configuration: \"a.b\" = \"allow\"]\n"
        );
        let up = json!({"alias": "a", "event": "connected", "target": "x", "tools": 1});
        assert_eq!(server(&up), "[server a connected: 1 tool]\n");
        let failed =
            json!({"alias": "a\u{200b}", "event": "failed", "tools": 0, "error": "no\nsuch"});
        assert_eq!(server(&failed), "[server a‹U+200B› failed: no‹\\n›such]\n");
        let login = json!({"alias": "a", "event": "login", "tools": 0});
        assert_eq!(server(&login), "[server a needs a login]\n");
    }
}
