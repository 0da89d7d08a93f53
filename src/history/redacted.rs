//! Redacts records: every record passes through here before it is stored or written.

use serde_json::Value;

use super::record::{RecordBody, upgrade};
use crate::safety::redact::{Redactor, global_redactor};

/// Fields with ids, digests, images and fixed sets of values. A redaction mark would make them useless or unreadable.
const OPAQUE: &[&str] = &[
    "arguments_sha256",
    "call",
    "change",
    "choice",
    "data_sensitivity",
    "decided_by",
    "decision",
    "event",
    "extra",
    "finish",
    "id",
    "images",
    "operation",
    "operation_type",
    "result_sha256",
    "sha256",
    "status",
    "token",
    "type",
];

/// Returns the body without the secrets known now.
pub(super) fn body(body: RecordBody) -> RecordBody {
    let redactor = global_redactor();
    let Ok(mut value) = serde_json::to_value(&body) else {
        return RecordBody::Unknown;
    };
    match walk(redactor, &mut value) {
        // A redacted body still deserializes; if it did not, dropping it would be better than keeping a secret.
        true => serde_json::from_value(value).unwrap_or(RecordBody::Unknown),
        false => body,
    }
}

/// Gives a record that was read as plain JSON the current names, and removes the secrets known now: it may have been
/// written before they were known.
pub(super) fn value(value: &mut Value) {
    upgrade(value);
    walk(global_redactor(), value);
}

fn walk(redactor: &Redactor, value: &mut Value) -> bool {
    let Value::Object(fields) = value else {
        return match value {
            Value::Array(items) => items
                .iter_mut()
                .fold(false, |any, v| walk(redactor, v) | any),
            other => redactor.redact_value(other),
        };
    };
    let text = |name: &str| Some(fields.get(name)?.as_str()?.to_string());
    // The middle was omitted, and a secret may have been cut.
    if fields.get("omitted").and_then(Value::as_u64) > Some(0)
        && let (Some(head), Some(tail)) = (text("head"), text("tail"))
    {
        let (first, last) = redactor.redact_ends(&head, &tail);
        let any = first != head || last != tail;
        fields.insert("head".into(), first.into());
        fields.insert("tail".into(), last.into());
        return any;
    }
    fields.iter_mut().fold(false, |any, (name, value)| {
        any | match value {
            _ if OPAQUE.contains(&name.as_str()) => false,
            // Its provider refuses an edited answer, and an answer without it is valid.
            Value::Object(native) if name == "native" => {
                let items = native.get("items").and_then(Value::as_str);
                let is_clean = items.is_none_or(|items| redactor.redact_json(items) == items);
                if !is_clean {
                    *value = Value::Null;
                }
                !is_clean
            }
            Value::String(text) if name == "arguments" => match redactor.redact_json(text) {
                std::borrow::Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
                std::borrow::Cow::Borrowed(_) => false,
            },
            other => walk(redactor, other),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chat::{Dialect, FinishReason, NativeAnswer};
    use crate::history::record::{Call, CommandOutput, ServerEvent};

    const TOKEN: &str = concat!("ghp_", "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo");

    fn native(items: &str) -> Arc<NativeAnswer> {
        Arc::new(NativeAnswer {
            dialect: Dialect::Anthropic,
            model: "m".into(),
            prefix_sha256: "0".into(),
            items: items.into(),
        })
    }

    #[test]
    fn a_secret_that_equals_a_fixed_value_leaves_the_record_readable() {
        let value = serde_json::json!({
            "type": "tool", "call": "c", "name": "a.b", "status": "interrupted", "text": "interrupted",
            "bytes": 1, "duration_ms": 1, "decided_by": "person",
            "action": {"server": "a", "tool": "b", "operation": "destructive",
                "intent": {"operation_type": "destructive", "data_sensitivity": "internal"}},
        });
        let before: RecordBody = serde_json::from_value(value.clone()).unwrap();
        let mut redacted = value;
        let redactor = Redactor::default();
        for secret in ["interrupted", "destructive", "internal"] {
            redactor.add_secret("model-header", secret);
        }
        assert!(walk(&redactor, &mut redacted));
        let after: RecordBody = serde_json::from_value(redacted).unwrap();
        let (
            RecordBody::Tool {
                text, status, act, ..
            },
            RecordBody::Tool {
                status: was,
                act: did,
                ..
            },
        ) = (after, before)
        else {
            panic!("tool records")
        };
        assert!(text.starts_with("[REDACTED"), "{text}");
        assert_eq!((status, act), (was, did));
    }

    #[test]
    fn every_text_is_redacted_but_ids_and_extra_are_not() {
        let arguments = format!(r#"{{"header":"x\n{TOKEN}","b":1}}"#);
        let before = RecordBody::Assistant {
            text: format!("use {TOKEN}"),
            calls: vec![Call {
                id: "call_1".into(),
                name: "a.b".into(),
                arguments,
                extra: Some(format!("{{\"signature\":\"{TOKEN}\"}}")),
            }],
            native: Some(native(&format!(r#"[{{"text":"use {TOKEN}"}}]"#))),
            omitted: 0,
            model: "m".into(),
            finish: FinishReason::Stop,
            error: None,
            prompt_tokens: Some(1),
            completion_tokens: None,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            provider: None,
            cost: None,
            cost_estimated: false,
            refused: false,
            rejected: false,
            ms: 5,
        };
        let RecordBody::Assistant {
            text,
            calls,
            native: None,
            ms: 5,
            ..
        } = body(before.clone())
        else {
            panic!("another body");
        };
        assert_eq!(text, "use [REDACTED:github-token]");
        assert_eq!(
            calls[0].arguments,
            r#"{"header":"x\n[REDACTED:github-token]","b":1}"#
        );
        let RecordBody::Assistant { calls: were, .. } = before else {
            panic!("another body");
        };
        assert_eq!(
            (&calls[0].id, &calls[0].extra),
            (&were[0].id, &were[0].extra)
        );
    }

    #[test]
    fn both_halves_of_a_cut_secret_are_redacted() {
        let exec = |head: &str, tail: &str, omitted| RecordBody::CommandResult {
            token: "t".into(),
            command: format!("export GITHUB_TOKEN={TOKEN}"),
            exit: 0,
            ms: None,
            output: Some(CommandOutput {
                head: head.into(),
                tail: tail.into(),
                omitted,
            }),
            stderr: Some(CommandOutput {
                head: format!("stderr {head}"),
                tail: tail.into(),
                omitted,
            }),
        };
        assert_eq!(
            body(exec(
                &format!("x {}", &TOKEN[..20]),
                &format!("{} y", &TOKEN[18..]),
                9
            )),
            RecordBody::CommandResult {
                token: "t".into(),
                command: "export GITHUB_TOKEN=[REDACTED:github-token]".into(),
                exit: 0,
                ms: None,
                output: Some(CommandOutput {
                    head: "x [REDACTED:cut]".into(),
                    tail: "[REDACTED:cut] y".into(),
                    omitted: 9
                }),
                stderr: Some(CommandOutput {
                    head: "stderr x [REDACTED:cut]".into(),
                    tail: "[REDACTED:cut] y".into(),
                    omitted: 9
                }),
            }
        );
        let whole = exec("ghp_", "", 0);
        let RecordBody::CommandResult {
            output: Some(output),
            ..
        } = body(whole)
        else {
            panic!("another body");
        };
        assert_eq!(output.head, "ghp_");
    }

    #[test]
    fn a_body_without_secrets_is_unchanged() {
        let before = RecordBody::Server {
            alias: "a".into(),
            event: ServerEvent::Connected,
            target: "npx x".into(),
            version: None,
            tools: 3,
            error: None,
        };
        assert_eq!(body(before.clone()), before);
    }
}
