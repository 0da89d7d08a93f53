//! The JSON of an open question for clients, and the answers that the page may give.
//!
//! The page shows `view`: the same facts as the question in a terminal, with the same stand-ins for characters that are
//! invisible or look like others. A person may approve only what the page shows exactly as it runs.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::chat::DataSensitivity;
use crate::protocol::tools::{ApprovalRequest, ToolDiffLine, UnseenTool};
use crate::safety::confusables::{marked_name, marked_text};
use crate::safety::policy::DEFAULT_RULE;
use crate::safety::redact::global_redactor;
use crate::session::feed::TurnEvent;

/// Deepest indentation of a line that is shown as it is. More could push its text out of sight.
const MAX_INDENT: usize = 60;

/// Which answers a paired browser may give to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleAnswers {
    /// It may approve.
    pub yes: bool,
    /// It may deny.
    pub no: bool,
    /// Why not all answers are possible.
    pub terminal_reason: Option<&'static str>,
}

/// Returns the JSON of an open question for clients.
pub fn question(event: &TurnEvent) -> Option<Value> {
    let (kind, id, digest, shown) = match event {
        TurnEvent::ApprovalRequested(request) => {
            ("approval", &request.id, &request.digest, shown(&**request)?)
        }
        TurnEvent::ElicitationRequested(prompt) => {
            ("elicitation", &prompt.id, &prompt.digest, shown(prompt)?)
        }
        _ => return None,
    };
    let view = match event {
        TurnEvent::ApprovalRequested(_) => {
            let redacted = serde_json::from_value::<ApprovalRequest>(shown.0.clone()).ok()?;
            view(&redacted)
        }
        _ => Value::Null,
    };
    let possible = possible(event, shown.1);
    let words = [(possible.yes, "yes"), (possible.no, "no")];
    let answers = words.iter().filter(|(can, _)| *can).map(|(_, word)| word);
    Some(json!({
        "question_id": id,
        "kind": kind,
        "digest": digest,
        "answers": answers.collect::<Vec<_>>(),
        "terminal_reason": possible.terminal_reason,
        "view": view,
        "shown": shown.0,
    }))
}

/// Returns which answers a paired browser may give now.
pub fn possible_answers(event: &TurnEvent) -> PossibleAnswers {
    let is_redacted = match event {
        TurnEvent::ApprovalRequested(request) => shown(&**request).is_none_or(|shown| shown.1),
        _ => true,
    };
    possible(event, is_redacted)
}

fn possible(event: &TurnEvent, is_redacted: bool) -> PossibleAnswers {
    let TurnEvent::ApprovalRequested(request) = event else {
        return PossibleAnswers {
            yes: false,
            no: false,
            terminal_reason: Some("the server asks for input"),
        };
    };
    let terminal_reason = if is_redacted {
        Some("it contains a secret, which the page does not show")
    } else if request.effect.typed_yes {
        Some("it could do harm, so the word yes must be typed")
    } else {
        None
    };
    PossibleAnswers {
        yes: terminal_reason.is_none(),
        no: true,
        terminal_reason,
    }
}

/// Returns a question without secrets, and whether it has any.
fn shown(question: &impl serde::Serialize) -> Option<(Value, bool)> {
    let mut shown = serde_json::to_value(question).ok()?;
    let mut is_redacted = false;
    // A secret may have several lines, each of which is a separate text there.
    for lines in ["/effect/difference", "/changes"] {
        if let Some(lines) = shown.pointer_mut(lines) {
            is_redacted |= redact_lines(lines);
        }
    }
    is_redacted |= global_redactor().redact_value(&mut shown);
    Some((shown, is_redacted))
}

/// Replaces the text of all lines of a difference by one note if the lines together contain a secret.
fn redact_lines(lines: &mut Value) -> bool {
    let texts = |lines: &Value| -> String {
        let lines = lines.as_array().into_iter().flatten();
        lines
            .filter_map(|line| line["text"].as_str())
            .map(|text| format!("{text}\n"))
            .collect()
    };
    let together = texts(lines);
    let Cow::Owned(_) = global_redactor().redact(&together) else {
        return false;
    };
    for line in lines.as_array_mut().into_iter().flatten() {
        line["text"] = json!("[REDACTED]");
    }
    true
}

/// Returns what the page shows, as names and texts without anything invisible.
fn view(request: &ApprovalRequest) -> Value {
    let mut facts: Vec<(&str, String)> = Vec::new();
    let mut put = |name: &'static str, text: Option<String>| {
        facts.extend(
            text.filter(|text| !text.is_empty())
                .map(|text| (name, text)),
        );
    };
    let marked = |text: &Option<String>| text.as_deref().map(marked_text);
    let effect = &request.effect;
    put("Danger", marked(&effect.danger));
    put("Warning", marked(&request.warning));
    let is_changed = !request.changes.is_empty();
    let news = match request.unseen {
        Some(UnseenTool::Server) => Some("the server was not used before, nor was this tool"),
        Some(UnseenTool::Tool) => Some("the tool was not used before"),
        None => None,
    };
    put("New", news.map(str::to_owned));
    let is_again = effect.is_second_run;
    put(
        "Second run",
        is_again.then(|| "outside of the sandbox".to_owned()),
    );
    put("On", marked(&effect.statement));
    put("In", marked(&effect.workspace));
    if let Some(intent) = &request.intent {
        let sensitivity = intent.data_sensitivity.map(DataSensitivity::as_str);
        let words = sensitivity.map_or_else(String::new, |word| format!(", {word} data"));
        let declared = format!("{}{words}", intent.operation_type.as_str());
        put("Declared by the model", Some(declared));
        put("Reason of the model", marked(&intent.reason));
    }
    // The danger is the stronger reason.
    let is_default = effect.danger.is_some() && request.why.starts_with(DEFAULT_RULE);
    put(
        "Asked because of",
        (!is_default).then(|| marked_text(&request.why)),
    );
    put("Server", Some(marked_text(&request.target)));
    put("The tool has changed", Some(difference(&request.changes)));
    if request.unseen.is_some() || is_changed {
        let tool = &request.tool;
        put(
            "Description by the server",
            Some(marked_lines(&tool.description)),
        );
        let words = tool
            .annotation_words()
            .map(|(name, word)| format!("{name}: {word}"));
        put("Declared by the server", Some(words.join("\n")));
    }
    put("Changes", Some(difference(&effect.difference)));
    let preview = request.preview.as_deref().map(marked_lines);
    put("Would send", preview);
    // A difference is clearer than the arguments, and is exactly the change that is made.
    if effect.difference.is_empty() {
        put("Arguments", Some(marked_text(&request.arguments)));
    }
    json!({
        "tool": marked_name(&request.tool.name),
        "operation": request.operation,
        "number": request.number,
        "of": request.of,
        "facts": facts,
    })
}

fn marked_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(marked_text).collect();
    lines.join("\n")
}

fn difference(lines: &[ToolDiffLine]) -> String {
    let lines: Vec<String> = lines.iter().map(difference_line).collect();
    lines.join("\n")
}

fn difference_line(line: &ToolDiffLine) -> String {
    let sign = match line.sign {
        sign @ ('+' | '-') => sign.to_string(),
        '@' => String::new(),
        _ => " ".to_owned(),
    };
    let text = line.text.trim_start_matches(' ');
    let indent = line.text.len() - text.len();
    match indent <= MAX_INDENT && !text.is_empty() {
        true => format!("{sign}{:indent$}{}", "", marked_text(text)),
        false => format!("{sign}{}", marked_text(&line.text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(changes: &Value) -> TurnEvent {
        let mut request = json!({
            "id": "q", "arguments": "{}", "target": "/usr/bin/fs", "number": 1, "of": 1,
            "tool": {
                "name": "fs.write", "server": "fs", "title": null, "description": "", "read_only": null,
                "destructive": null, "idempotent": null, "open_world": null, "trusted": false,
                "operation": "write", "schema": {},
            },
            "server_tools": [1, 1], "operation": "write", "intent": null, "why": "policy.default",
            "warning": null, "changes": [], "offers": [], "digest": "d",
        });
        for (pointer, value) in changes.as_object().unwrap() {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            request.pointer_mut(parent).unwrap()[name] = value.clone();
        }
        TurnEvent::ApprovalRequested(Box::new(serde_json::from_value(request).unwrap()))
    }

    fn effect(changes: &Value) -> Value {
        let mut effect = json!({ "workspace": null, "statement": null, "danger": null });
        for (name, value) in changes.as_object().unwrap() {
            effect[name] = value.clone();
        }
        json!({ "/effect": effect })
    }

    fn fact(question: &Value, name: &str) -> Option<String> {
        let facts = question["view"]["facts"].as_array().unwrap();
        let found = facts.iter().find(|fact| fact[0] == name)?;
        Some(found[1].as_str().unwrap().to_owned())
    }

    #[test]
    fn nothing_invisible_or_deceiving_is_shown_as_it_is() {
        let changes = json!({
            "/tool/name": "fs.wr\u{456}te",
            "/arguments": "{\"a\":\"\u{202e}x\u{200b} р\u{430}ypal\"}",
            "/target": "/usr/bin/fs   \u{1b}[2K",
        });
        let question = question(&asked(&changes)).unwrap();
        assert_eq!(question["view"]["tool"], "fs.wr‹U+0456›te");
        let arguments = fact(&question, "Arguments").unwrap();
        assert_eq!(
            arguments,
            "{\"a\":\"‹\\u{202e}›x‹\\u{200b}› ‹U+0440›‹U+0430›ypal\"}"
        );
        let server = fact(&question, "Server").unwrap();
        assert_eq!(server, "/usr/bin/fs‹3 spaces›‹\\x1b›[2K");
        assert_eq!(question["answers"], json!(["yes", "no"]));
    }

    #[test]
    fn a_difference_is_shown_in_place_of_the_arguments() {
        let lines = json!([
            { "sign": "@", "text": "a.py" },
            { "sign": "-", "text": "    return a" },
            { "sign": "+", "text": "    return \u{430}" },
            { "sign": " ", "text": format!("{}x", " ".repeat(61)) },
        ]);
        let question = question(&asked(&effect(&json!({ "difference": lines })))).unwrap();
        assert_eq!(fact(&question, "Arguments"), None);
        assert_eq!(
            fact(&question, "Changes").unwrap(),
            "a.py\n-    return a\n+    return ‹U+0430›\n ‹61 spaces›x"
        );
    }

    #[test]
    fn what_could_do_harm_is_approved_in_the_terminal_only() {
        let danger = json!({ "danger": "deletes files", "typed_yes": true });
        let event = asked(&effect(&danger));
        let possible = possible_answers(&event);
        assert!(!possible.yes && possible.no && possible.terminal_reason.is_some());
        let question = question(&event).unwrap();
        assert_eq!(question["answers"], json!(["no"]));
        assert_eq!(fact(&question, "Danger").unwrap(), "deletes files");
        // Of two reasons the stronger one is named.
        assert_eq!(fact(&question, "Asked because of"), None);
        let ordinary = super::question(&asked(&json!({}))).unwrap();
        assert_eq!(
            fact(&ordinary, "Asked because of").unwrap(),
            "policy.default"
        );
    }

    #[test]
    fn a_second_run_of_a_command_is_named() {
        let again = effect(&json!({ "is_second_run": true }));
        let question = question(&asked(&again)).unwrap();
        assert_eq!(
            fact(&question, "Second run").unwrap(),
            "outside of the sandbox"
        );
    }

    #[test]
    fn a_secret_in_the_lines_of_a_difference_is_found() {
        let secret = concat!("ghp_", "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX");
        let lines = json!([{ "sign": "+", "text": format!("token = {secret}") }]);
        for changes in [
            effect(&json!({ "difference": lines })),
            json!({ "/changes": lines }),
            json!({ "/preview": secret }),
            json!({ "/why": secret }),
        ] {
            let event = asked(&changes);
            assert!(!possible_answers(&event).yes, "{changes}");
            let question = question(&event).unwrap().to_string();
            assert!(!question.contains(secret), "{question}");
        }
    }
}
