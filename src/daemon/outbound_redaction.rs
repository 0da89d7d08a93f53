//! What a model is sent, without secrets.
//!
//! Records have lost theirs when they were made. This is for what is in no record (instructions, tools, words to one
//! command), for the journals of earlier versions, and for values that were learned later.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex};

use crate::chat::{ChatMessage, ToolCall, ToolDefinition, ToolResult};
use crate::safety::redact::global_redactor;
use crate::session::lock;

/// A conversation is sent again with each prompt, and its tools too: what had no secret is not looked through again
/// until another value is learned.
static CLEAN: LazyLock<CleanTexts> = LazyLock::new(CleanTexts::default);

/// So many texts are remembered, in eight bytes each.
const MOST: usize = 1 << 16;

/// Texts that had no secret, by their hash. Its keys are of this process alone: nobody can make two texts that have the
/// same.
#[derive(Debug, Default)]
struct CleanTexts {
    keys: RandomState,
    known: Mutex<CleanState>,
}

#[derive(Debug, Default)]
struct CleanState {
    /// How many values the redactor knew then.
    learned: u64,
    texts: HashSet<u64>,
}

impl CleanTexts {
    /// The text without its secrets, if it has any. `learned` was asked for before.
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
            if known.texts.len() >= MOST {
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

/// The messages as they go out.
pub fn messages(messages: &[ChatMessage]) -> Cow<'_, [ChatMessage]> {
    let learned = global_redactor().value_count();
    each(messages, |message| match message {
        ChatMessage::System(text) => CLEAN.text(learned, text).map(ChatMessage::System),
        ChatMessage::User(text) => CLEAN.text(learned, text).map(ChatMessage::User),
        ChatMessage::Assistant(text, calls) => {
            let new = CLEAN.text(learned, text);
            let new_calls = each(calls, |call| {
                let arguments = CLEAN.json(learned, &call.arguments)?;
                Some(ToolCall {
                    arguments,
                    ..call.clone()
                })
            });
            let any = new.is_some() || matches!(new_calls, Cow::Owned(_));
            any.then(|| {
                let text = new.unwrap_or_else(|| text.clone());
                ChatMessage::Assistant(text, new_calls.into_owned())
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

/// The tools as they go out.
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

/// Copies only where there is something to change: a long conversation is sent again with each prompt.
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
    fn nothing_goes_out_with_a_secret_and_the_rest_as_it_is() {
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
                ChatMessage::User("plain".into()),
                ChatMessage::Assistant(
                    secret.into(),
                    vec![call(format!("{{\"a\":\"{secret}\"}}"))],
                ),
                ChatMessage::Tool(result(format!("x\n{secret}"))),
            ]
        };
        let mark = "[REDACTED:gitlab-token]";
        assert_eq!(messages(&talk(TOKEN)).into_owned(), talk(mark));
        assert!(matches!(messages(&talk("nothing")), Cow::Borrowed(_)));
    }

    #[test]
    fn what_was_clean_is_looked_through_again_when_a_value_is_learned() {
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
    fn a_text_is_looked_through_once() {
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
        // What has a secret has it still the next time.
        assert_eq!(asked(2, "secret x", false), (Some(" x".into()), 1));
        assert_eq!(asked(2, "secret x", false), (Some(" x".into()), 1));
    }
}
