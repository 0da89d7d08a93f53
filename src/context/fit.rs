//! Selects the part of a conversation that fits into the model's context window. Pure.

use crate::chat::tokens::{TokenScale, message_tokens, request_tokens, text_tokens, tool_tokens};
use crate::chat::{ChatMessage, ToolDefinition};

/// Marks where a result was truncated.
const TRUNCATED: &str = "\n[… left out to fit the model's window]";

/// Minimum length of a truncated result, in bytes.
const MIN_RESULT_BYTES: usize = 512;

/// Share of the available tokens that a cut leaves in use, so that the next prompts do not need another cut: each cut invalidates
/// the provider's cache.
const KEPT_SHARE: f64 = 0.7;

/// The limits that a request must fit into.
#[derive(Debug, Clone, Copy)]
pub struct WindowLimit<'a> {
    /// The model's name at its provider.
    pub model: &'a str,
    /// Size of the context window in tokens; `None` if it is unknown.
    pub window: Option<u32>,
    /// Tokens of the window that are left for the answer.
    pub reserve: u32,
    /// The tokens that the model counts for estimated ones.
    pub scale: TokenScale,
    /// Number of the oldest prompts that earlier requests of the session left out.
    pub dropped: usize,
    /// Number of messages at the start of the conversation that always stay: a summary.
    pub pinned: usize,
}

/// The messages of a request.
#[derive(Debug)]
pub struct FittedMessages {
    /// The instructions, and the latest messages.
    pub messages: Vec<ChatMessage>,
    /// Number of the oldest prompts that are left out.
    pub dropped: usize,
    /// Estimated tokens of messages and tools, before the model's scale.
    pub estimate: f64,
}

/// Returns the messages to send: the instructions, and as many of the latest messages as fit.
///
/// The conversation ends with the text that the model is to answer: the new prompt or the results of its calls. Each prompt is kept
/// or dropped together with everything that follows it, oldest first. The cut of the last request stays as long as
/// everything after it fits; a new cut leaves room for the next prompts. The last prompt always stays; if it is too
/// long by itself, its longest tool results are truncated, down to 512 bytes each.
pub fn fit(
    system: String,
    mut conversation: Vec<ChatMessage>,
    tools: &[ToolDefinition],
    limit: WindowLimit<'_>,
) -> FittedMessages {
    let system = ChatMessage::System(system);
    let pinned = limit.pinned.min(conversation.len());
    let starts: Vec<usize> = (pinned..conversation.len())
        .filter(|at| *at == pinned || matches!(conversation[*at], ChatMessage::User(..)))
        .collect();
    let last = starts.len().saturating_sub(1);
    let sizes = request_tokens(&conversation, limit.model);
    let fixed = message_tokens(&system)
        + tools.iter().map(tool_tokens).sum::<f64>()
        + sizes[..pinned].iter().sum::<f64>();
    let first_of = |dropped: usize| starts.get(dropped).copied().unwrap_or(pinned);
    let from = |dropped: usize| sizes[first_of(dropped)..].iter().sum::<f64>();
    let available = limit.window.map_or(f64::INFINITY, |window| {
        let tokens = f64::from(window.saturating_sub(limit.reserve));
        limit.scale.estimate(tokens) - fixed
    });
    let mut dropped = limit.dropped.min(last);
    if from(dropped) > available {
        let wanted = available * KEPT_SHARE;
        while dropped < last && from(dropped) > wanted {
            dropped += 1;
        }
    }
    let latest = conversation.split_off(first_of(dropped));
    let mut messages = Vec::with_capacity(pinned + latest.len() + 1);
    messages.push(system);
    messages.extend(conversation.drain(..pinned));
    messages.extend(latest);
    let latest = &mut messages[pinned + 1..];
    if dropped == last {
        truncate_results(latest, from(dropped), available);
    }
    let estimate = request_tokens(latest, limit.model).iter().sum::<f64>() + fixed;
    FittedMessages {
        messages,
        dropped,
        estimate,
    }
}

/// Truncates the longest results until everything fits into `available` tokens, or none is longer than [`MIN_RESULT_BYTES`].
/// Without that the messages need `used` tokens.
fn truncate_results(messages: &mut [ChatMessage], used: f64, available: f64) {
    if used <= available {
        return;
    }
    // Length and tokens of each result.
    let results: Vec<(usize, f64)> = messages
        .iter()
        .filter_map(|message| match message {
            ChatMessage::Tool(result) => Some((result.text.len(), text_tokens(&result.text))),
            _ => None,
        })
        .collect();
    let longest = results.iter().map(|(length, _)| *length).max();
    // Finds the largest limit for a single result with which everything fits.
    let (mut low, mut high) = (MIN_RESULT_BYTES, longest.unwrap_or(0).max(MIN_RESULT_BYTES));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let longer = results.iter().filter(|(length, _)| *length > middle);
        let saved: f64 = longer
            .map(|(length, tokens)| tokens * (1.0 - middle as f64 / *length as f64))
            .sum();
        if used - saved <= available {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    for message in messages {
        if let ChatMessage::Tool(result) = message
            && result.text.len() > low
        {
            let mut end = low - TRUNCATED.len();
            while !result.text.is_char_boundary(end) {
                end -= 1;
            }
            result.text.truncate(end);
            result.text.push_str(TRUNCATED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ToolCall, ToolResult};

    fn user(bytes: usize) -> ChatMessage {
        ChatMessage::user("u".repeat(bytes))
    }

    /// An answer with one call, and its result.
    fn round(id: &str, bytes: usize) -> [ChatMessage; 2] {
        let call = ToolCall {
            id: id.into(),
            name: "x.y".into(),
            arguments: "{}".into(),
            extra: None,
        };
        let result = ToolResult {
            id: id.into(),
            name: "x.y".into(),
            text: "é".repeat(bytes / 2),
            ..ToolResult::default()
        };
        [
            ChatMessage::calling(String::new(), vec![call]),
            ChatMessage::Tool(result),
        ]
    }

    fn all(messages: &[ChatMessage]) -> f64 {
        messages.iter().map(message_tokens).sum()
    }

    fn limit(window: Option<u32>, reserve: u32) -> WindowLimit<'static> {
        WindowLimit {
            model: "m",
            window,
            reserve,
            scale: TokenScale {
                ratio: 1.0,
                added: 0.0,
            },
            dropped: 0,
            pinned: 0,
        }
    }

    /// A conversation of this many prompts with answers, and a last prompt; each has about 100 tokens.
    fn talk(prompts: usize) -> Vec<ChatMessage> {
        let mut talk = Vec::new();
        for n in 0..prompts {
            talk.push(ChatMessage::user(format!("{n} {}", "word ".repeat(42))));
            talk.push(ChatMessage::assistant("word ".repeat(41)));
        }
        talk.push(ChatMessage::user("word ".repeat(92)));
        talk
    }

    fn fitted(prompts: usize, limit: WindowLimit<'_>) -> (usize, usize) {
        let fitted = fit("s".into(), talk(prompts), &[], limit);
        (fitted.messages.len(), fitted.dropped)
    }

    #[test]
    fn the_oldest_prompts_are_dropped_with_their_answers() {
        assert_eq!(fitted(3, limit(None, 50)), (8, 0));
        assert_eq!(fitted(3, limit(Some(1000), 50)), (8, 0));
        assert_eq!(fitted(3, limit(Some(400), 50)), (4, 2));
        assert_eq!(
            fitted(3, limit(Some(60), 50)),
            (2, 3),
            "the prompt always stays"
        );
        assert_eq!(fitted(0, limit(Some(60), 50)), (2, 0), "and is never cut");
        assert_eq!(
            fit("s".into(), Vec::new(), &[], limit(Some(200), 50))
                .messages
                .len(),
            1
        );
        // A model that counts twice as many tokens.
        let twice = TokenScale {
            ratio: 2.0,
            added: 0.0,
        };
        let twice = WindowLimit {
            scale: twice,
            ..limit(Some(800), 100)
        };
        assert_eq!(fitted(3, twice), (4, 2));
        // A provider that adds 600 tokens.
        let more = TokenScale {
            ratio: 1.0,
            added: 600.0,
        };
        let more = WindowLimit {
            scale: more,
            ..limit(Some(1000), 50)
        };
        assert_eq!(fitted(3, more), fitted(3, limit(Some(400), 50)));
    }

    #[test]
    fn a_cut_stays_until_the_rest_no_longer_fits() {
        let mut limit = limit(Some(1060), 50);
        let mut cuts = Vec::new();
        for prompts in 0..24 {
            let fitted = fit("s".into(), talk(prompts), &[], limit);
            assert!(fitted.estimate <= 1010.0, "{prompts}: {}", fitted.estimate);
            if fitted.dropped != limit.dropped {
                cuts.push(prompts);
            }
            limit.dropped = fitted.dropped;
        }
        // Room for nine; a cut leaves six, so that each is good for three more.
        assert!(
            cuts.windows(2).all(|pair| pair[1] - pair[0] >= 3),
            "{cuts:?}"
        );
        assert!((4..=6).contains(&cuts.len()), "{cuts:?}");
    }

    #[test]
    fn pinned_messages_stay_and_count() {
        let summary = ChatMessage::user("word ".repeat(92));
        let mut talk = talk(3);
        talk.splice(0..0, [summary.clone(), ChatMessage::assistant("yes")]);
        let pinned = |window| WindowLimit {
            pinned: 2,
            ..limit(Some(window), 50)
        };
        let whole = fit("s".into(), talk.clone(), &[], pinned(2000));
        assert_eq!((whole.messages.len(), whole.dropped), (10, 0));
        assert!((all(&whole.messages) - whole.estimate).abs() < 1e-6);
        let cut = fit("s".into(), talk.clone(), &[], pinned(500));
        assert_eq!(cut.dropped, 2);
        assert_eq!(cut.messages[1], summary);
        assert_eq!(cut.messages.len(), 6);
        assert!((all(&cut.messages) - cut.estimate).abs() < 1e-6);
        let least = fit("s".into(), talk, &[], pinned(60));
        assert_eq!((least.messages.len(), least.dropped), (4, 3));
    }

    #[test]
    fn tool_definitions_count_against_the_window() {
        let tool = ToolDefinition {
            schema: "word ".repeat(400),
            ..ToolDefinition::default()
        };
        let dropped = |tools: &[ToolDefinition]| {
            fit("s".into(), talk(1), tools, limit(Some(1000), 50)).dropped
        };
        assert_eq!(dropped(&[]), 0);
        assert_eq!(dropped(std::slice::from_ref(&tool)), 0);
        assert_eq!(dropped(&[tool.clone(), tool]), 1);
    }

    #[test]
    fn the_longest_results_of_the_last_prompt_are_truncated() {
        let mut talk = vec![user(30)];
        for (id, bytes) in [("a", 100_000), ("b", 2_000), ("c", 30_000)] {
            talk.extend(round(id, bytes));
        }
        let whole = fit("s".into(), talk.clone(), &[], limit(None, 0)).estimate;
        let lengths = |share: f64| -> Vec<usize> {
            let window = (whole * share) as u32 + 1000;
            let fitted = fit("s".into(), talk.clone(), &[], limit(Some(window), 1000));
            assert_eq!((fitted.messages.len(), fitted.dropped), (8, 0));
            // The note after a truncated result is not counted.
            let fits = all(&fitted.messages) <= f64::from(window) - 1000.0 + 40.0;
            let results = fitted.messages.iter().filter_map(|m| match m {
                ChatMessage::Tool(r) => Some(r.text.len()),
                _ => None,
            });
            let results: Vec<usize> = results.collect();
            assert!(
                fits || results.iter().all(|n| *n <= MIN_RESULT_BYTES),
                "{results:?}"
            );
            results
        };
        assert_eq!(lengths(1.1), [100_000, 2_000, 30_000]);
        let [a, b, c] = lengths(0.65)[..] else {
            panic!()
        };
        assert!(a > 50_000 && a < 60_000, "no more than needed: {a}");
        assert_eq!((b, c), (2_000, 30_000));
        let [a, b, c] = lengths(0.25)[..] else {
            panic!()
        };
        assert!(a == c && a > 12_000 && b == 2_000, "{a} {b} {c}");
        let lengths = lengths(0.001);
        assert!(
            lengths.iter().all(|n| (500..=512).contains(n)),
            "{lengths:?}"
        );
    }

    #[test]
    fn a_truncated_result_keeps_its_beginning_and_a_note() {
        let mut talk = vec![user(3)];
        talk.extend(round("a", 9000));
        let fitted = fit(String::new(), talk, &[], limit(Some(1000), 0));
        let text = fitted.messages[3].text();
        assert!(
            text.starts_with("éé") && text.ends_with(TRUNCATED),
            "{text}"
        );
    }
}
