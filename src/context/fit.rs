//! Selects the part of a conversation that fits into the model's context window. Pure.

use crate::chat::{ChatMessage, ToolDefinition};

/// Marks where a result was truncated.
const TRUNCATED: &str = "\n[… left out to fit the model's window]";

/// Minimum length of a truncated result, in bytes.
const MIN_RESULT_BYTES: usize = 512;

/// Overhead of a message or a tool definition, in tokens.
const FRAME_TOKENS: usize = 8;

/// Returns the messages to send: the instructions, and as many of the latest messages as fit.
///
/// The conversation ends with what the model is to answer: the new prompt or the results of its calls. `window` is the
/// context size in tokens, minus `reserve` tokens for the answer and the size of `tools`. A token is
/// estimated as three bytes, which is conservative for prose and code alike. Each prompt is kept or dropped together
/// with everything that follows it, oldest first; the number of dropped prompts is returned. The last prompt always
/// stays; if it is too long by itself, its longest tool results are truncated, down to 512 bytes each. An image
/// counts as 1,500 tokens.
pub fn fit(
    system: String,
    mut conversation: Vec<ChatMessage>,
    tools: &[ToolDefinition],
    window: Option<u32>,
    reserve: u32,
) -> (Vec<ChatMessage>, usize) {
    let system = ChatMessage::System(system);
    let mut starts: Vec<usize> = (0..conversation.len())
        .filter(|at| *at == 0 || matches!(conversation[*at], ChatMessage::User(..)))
        .collect();
    let last = starts.pop().unwrap_or(0);
    let mut first = 0;
    let mut dropped = 0;
    let mut available = usize::MAX;
    if let Some(window) = window {
        let taken = reserve as usize
            + message_tokens(&system)
            + tools.iter().map(tool_tokens).sum::<usize>();
        available = (window as usize).saturating_sub(taken);
        let mut used: usize = conversation[last..].iter().map(message_tokens).sum();
        first = last;
        dropped = starts.len();
        for start in starts.into_iter().rev() {
            used += conversation[start..first]
                .iter()
                .map(message_tokens)
                .sum::<usize>();
            if used > available {
                break;
            }
            (first, dropped) = (start, dropped - 1);
        }
    }
    let mut messages = Vec::with_capacity(conversation.len() - first + 1);
    messages.push(system);
    messages.extend(conversation.drain(first..));
    if first == last {
        truncate_results(&mut messages[1..], available);
    }
    (messages, dropped)
}

/// Truncates the longest results until everything fits into `available` tokens, or none is longer than [`MIN_RESULT_BYTES`].
fn truncate_results(messages: &mut [ChatMessage], available: usize) {
    let used: usize = messages.iter().map(message_tokens).sum();
    if used <= available {
        return;
    }
    // Finds the largest limit for a single result with which everything fits.
    let (mut low, mut high) = (MIN_RESULT_BYTES, MIN_RESULT_BYTES);
    for message in messages.iter() {
        if let ChatMessage::Tool(result) = message {
            high = high.max(result.text.len());
        }
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let saved: usize = messages
            .iter()
            .map(|m| match m {
                ChatMessage::Tool(result) if result.text.len() > middle => {
                    result.text.len() / BYTES - middle / BYTES
                }
                _ => 0,
            })
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

/// Estimated tokens of an image: about the most that providers count for one.
const IMAGE_TOKENS: usize = 1500;

/// Bytes that count as one token.
const BYTES: usize = 3;

fn message_tokens(message: &ChatMessage) -> usize {
    let calls = match message {
        ChatMessage::Assistant(answer) => answer
            .calls
            .iter()
            .map(|c| {
                let extra = c.extra.as_ref().map_or(0, String::len);
                (c.id.len() + c.name.len() + c.arguments.len() + extra) / BYTES + FRAME_TOKENS
            })
            .sum(),
        _ => 0,
    };
    let images = match message {
        ChatMessage::Tool(result) => result.images.len() * IMAGE_TOKENS,
        ChatMessage::User(_, images) => images.len() * IMAGE_TOKENS,
        _ => 0,
    };
    message.text().len() / BYTES + FRAME_TOKENS + calls + images
}

fn tool_tokens(tool: &ToolDefinition) -> usize {
    (tool.name.len() + tool.description.len() + tool.schema.len()) / BYTES + FRAME_TOKENS
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

    fn all(messages: &[ChatMessage]) -> usize {
        messages.iter().map(message_tokens).sum()
    }

    #[test]
    fn the_oldest_prompts_are_dropped_with_their_answers() {
        let mut talk = vec![user(900), ChatMessage::assistant("A"), user(30)];
        talk.extend(round("a", 60));
        talk.extend([ChatMessage::assistant("B"), user(3)]);
        let fitted = |window| fit("s".into(), talk.clone(), &[], window, 50);
        let (messages, left_out) = fitted(Some(200));
        assert_eq!((messages.len(), left_out), (6, 1));
        assert_eq!(messages[1], user(30));
        let (messages, left_out) = fitted(Some(100));
        assert_eq!(
            (messages.len(), left_out),
            (2, 2),
            "the prompt always stays"
        );
        let (messages, left_out) = fitted(None);
        assert_eq!((messages.len(), left_out), (8, 0));
        let (messages, left_out) = fit("s".into(), vec![user(9000)], &[], Some(200), 50);
        assert_eq!((messages.len(), left_out), (2, 0));
        assert_eq!(messages[1], user(9000), "and is never cut");
        assert_eq!(fit("s".into(), Vec::new(), &[], Some(200), 50).0.len(), 1);
    }

    #[test]
    fn tool_definitions_count_against_the_window() {
        let talk = vec![user(30), ChatMessage::assistant("A"), user(3)];
        let tool = ToolDefinition {
            schema: "x".repeat(3000),
            ..ToolDefinition::default()
        };
        assert_eq!(fit("s".into(), talk.clone(), &[], Some(1000), 50).1, 0);
        assert_eq!(fit("s".into(), talk, &[tool], Some(1000), 50).1, 1);
    }

    #[test]
    fn the_longest_results_of_the_last_prompt_are_truncated() {
        let mut talk = vec![user(30)];
        for (id, bytes) in [("a", 100_000), ("b", 2_000), ("c", 30_000)] {
            talk.extend(round(id, bytes));
        }
        let lengths = |window| -> Vec<usize> {
            let (messages, left_out) = fit("s".into(), talk.clone(), &[], Some(window), 1000);
            assert_eq!((messages.len(), left_out), (8, 0));
            let fits = all(&messages) <= window as usize - 1000;
            let results = messages.iter().filter_map(|m| match m {
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
        assert_eq!(lengths(100_000), [100_000, 2_000, 30_000]);
        let [a, b, c] = lengths(30_000)[..] else {
            panic!()
        };
        assert!(a > 50_000 && a < 60_000, "no more than needed: {a}");
        assert_eq!((b, c), (2_000, 30_000));
        let [a, b, c] = lengths(11_000)[..] else {
            panic!()
        };
        assert!(a == c && a > 12_000 && b == 2_000, "{a} {b} {c}");
        let lengths = lengths(1_200);
        assert!(
            lengths.iter().all(|n| (500..=512).contains(n)),
            "{lengths:?}"
        );
    }

    #[test]
    fn a_truncated_result_keeps_its_beginning_and_a_note() {
        let mut talk = vec![user(3)];
        talk.extend(round("a", 9000));
        let (messages, _) = fit(String::new(), talk, &[], Some(1000), 0);
        let text = messages[3].text();
        assert!(
            text.starts_with("éé") && text.ends_with(TRUNCATED),
            "{text}"
        );
    }
}
