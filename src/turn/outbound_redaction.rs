//! Removes secrets from everything that is sent to a model.
//!
//! Records are redacted when they are written. This covers text that is in no record (instructions, tools, prompts for a
//! single command), journals of earlier versions, and secrets that were learned after a record was written.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex};

use crate::chat::{AssistantMessage, ChatMessage, ToolCall, ToolDefinition, ToolResult};
use crate::safety::redact::global_redactor;
use crate::session::lock;

/// Cache of texts without secrets. A conversation and its tools are sent again with each prompt; a clean text is scanned
/// again only after another secret was learned.
static CLEAN: LazyLock<CleanTexts> = LazyLock::new(CleanTexts::default);

/// Maximum number of cached texts, at eight bytes each.
const MAX_CLEAN_TEXTS: usize = 1 << 16;

/// Hashes of texts without secrets. The hash is keyed with random keys of this process, so that an attacker cannot
/// construct a collision between a clean text and one with a secret.
#[derive(Debug, Default)]
struct CleanTexts {
    keys: RandomState,
    known: Mutex<CleanState>,
}

#[derive(Debug, Default)]
struct CleanState {
    /// Number of values the redactor knew when the texts were scanned.
    learned: u64,
    texts: HashSet<u64>,
}

impl CleanTexts {
    /// Returns the redacted text, or `None` if it has no secret. The caller reads `learned` before the scan, so that a
    /// value learned meanwhile invalidates the result.
    fn redact(
        &self,
        learned: u64,
        text: &str,
        redact: fn(&str) -> Cow<'_, str>,
        json: bool,
    ) -> Option<String> {
        let hash = self.keys.hash_one((json, text));
        {
            let mut known = lock(&self.known);
            if known.learned != learned {
                *known = CleanState {
                    learned,
                    texts: HashSet::new(),
                };
            }
            if known.texts.contains(&hash) {
                return None;
            }
        }
        if let Cow::Owned(text) = redact(text) {
            return Some(text);
        }
        let mut known = lock(&self.known);
        if known.learned == learned {
            if known.texts.len() >= MAX_CLEAN_TEXTS {
                known.texts.clear();
            }
            known.texts.insert(hash);
        }
        None
    }

    fn text(&self, learned: u64, text: &str) -> Option<String> {
        self.redact(learned, text, |text| global_redactor().redact(text), false)
    }

    fn json(&self, learned: u64, text: &str) -> Option<String> {
        self.redact(
            learned,
            text,
            |text| global_redactor().redact_json(text),
            true,
        )
    }
}

/// Returns the messages without secrets.
pub fn messages(messages: &[ChatMessage]) -> Cow<'_, [ChatMessage]> {
    let learned = global_redactor().value_count();
    each(messages, |message| match message {
        ChatMessage::System(text) => CLEAN.text(learned, text).map(ChatMessage::System),
        ChatMessage::User(text, images) => CLEAN
            .text(learned, text)
            .map(|text| ChatMessage::User(text, images.clone())),
        ChatMessage::Assistant(answer) => {
            let new = CLEAN.text(learned, &answer.text);
            let new_calls = each(&answer.calls, |call| {
                let arguments = CLEAN.json(learned, &call.arguments)?;
                Some(ToolCall {
                    arguments,
                    ..call.clone()
                })
            });
            // Its provider refuses an edited answer.
            let native = answer.native.as_ref();
            let is_edited = native.is_some_and(|n| CLEAN.json(learned, &n.items).is_some());
            let any = new.is_some() || matches!(new_calls, Cow::Owned(_)) || is_edited;
            any.then(|| {
                ChatMessage::Assistant(AssistantMessage {
                    text: new.unwrap_or_else(|| answer.text.clone()),
                    calls: new_calls.into_owned(),
                    native: native.filter(|_| !is_edited).cloned(),
                })
            })
        }
        ChatMessage::Tool(result) => CLEAN.text(learned, &result.text).map(|text| {
            ChatMessage::Tool(ToolResult {
                text,
                ..result.clone()
            })
        }),
    })
}

/// Returns the tools without secrets.
pub fn tools(tools: &[ToolDefinition]) -> Cow<'_, [ToolDefinition]> {
    let learned = global_redactor().value_count();
    each(tools, |tool| {
        let description = CLEAN.text(learned, &tool.description);
        let schema = CLEAN.json(learned, &tool.schema);
        (description.is_some() || schema.is_some()).then(|| ToolDefinition {
            description: description.unwrap_or_else(|| tool.description.clone()),
            schema: schema.unwrap_or_else(|| tool.schema.clone()),
            ..tool.clone()
        })
    })
}

/// Applies `change` to all items. Copies only if an item changes, since a conversation can be long.
fn each<T: Clone>(all: &[T], change: impl Fn(&T) -> Option<T>) -> Cow<'_, [T]> {
    let mut out = Cow::Borrowed(all);
    for (at, one) in all.iter().enumerate() {
        if let Some(new) = change(one) {
            out.to_mut()[at] = new;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = concat!("glpat-", "q7Rk2ZpL9vXw3TbN5mHs");

    #[test]
    fn secrets_are_redacted_and_other_text_is_unchanged() {
        let call = |arguments: String| ToolCall {
            arguments,
            ..ToolCall::default()
        };
        let result = |text: String| ToolResult {
            text,
            ..ToolResult::default()
        };
        let talk = |secret: &str| {
            vec![
                ChatMessage::System(format!("be {secret}")),
                ChatMessage::user("plain"),
                ChatMessage::Assistant(AssistantMessage {
                    text: secret.into(),
                    calls: vec![call(format!("{{\"a\":\"{secret}\"}}"))],
                    native: None,
                }),
                ChatMessage::Tool(result(format!("x\n{secret}"))),
            ]
        };
        let mark = "[REDACTED:gitlab-token]";
        assert_eq!(messages(&talk(TOKEN)).into_owned(), talk(mark));
        assert!(matches!(messages(&talk("nothing")), Cow::Borrowed(_)));
    }

    #[test]
    fn a_clean_text_is_scanned_again_after_a_value_was_learned() {
        let value = "kuhTmx4wRpVz81";
        let talk = [
            ChatMessage::System(format!("the word is {value}")),
            ChatMessage::Tool(ToolResult {
                text: format!("a\n{value}\n"),
                ..ToolResult::default()
            }),
        ];
        let offered = [ToolDefinition {
            description: format!("says {value}"),
            schema: format!("{{\"default\":\"{value}\"}}"),
            ..ToolDefinition::default()
        }];
        for _ in 0..2 {
            assert!(matches!(messages(&talk), Cow::Borrowed(_)));
            assert!(matches!(tools(&offered), Cow::Borrowed(_)));
        }
        global_redactor().add_secret("learned-later", value);
        let text = format!("{:?} {:?}", messages(&talk), tools(&offered));
        assert!(!text.contains(value), "{text}");
        assert_eq!(text.matches("[REDACTED:learned-later]").count(), 4);
    }

    #[test]
    fn a_clean_text_is_scanned_once() {
        static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        fn redact(text: &str) -> Cow<'_, str> {
            ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match text.strip_prefix("secret") {
                Some(rest) => Cow::Owned(rest.to_owned()),
                None => Cow::Borrowed(text),
            }
        }
        let clean = CleanTexts::default();
        let asked = |learned, text, json| {
            let before = ASKED.load(std::sync::atomic::Ordering::Relaxed);
            let new = clean.redact(learned, text, redact, json);
            let after = ASKED.load(std::sync::atomic::Ordering::Relaxed);
            (new, after - before)
        };
        assert_eq!(asked(1, "plain", false), (None, 1));
        assert_eq!(asked(1, "plain", false), (None, 0));
        assert_eq!(asked(1, "plain", true), (None, 1));
        assert_eq!(asked(2, "plain", false), (None, 1));
        // A text with a secret is not cached.
        assert_eq!(asked(2, "secret x", false), (Some(" x".into()), 1));
        assert_eq!(asked(2, "secret x", false), (Some(" x".into()), 1));
    }
}
