//! Estimates how many tokens a model counts for a text. Pure.
//!
//! Every provider has its own tokenizer. The classes of characters below have the weights of OpenAI's `o200k_base`, which a
//! test compares; the [`TokenScale`] to the tokens that a model really counts is learned from its answers.

mod image_size;
mod scale;

use self::image_size::image_size;
pub use self::scale::{FIRST_RATIO, TokenScale};
use super::{ChatMessage, Dialect, ImageContent, NativeAnswer, ToolDefinition};

/// Overhead of a message.
const FRAME: f64 = 4.0;
/// Overhead of a call, of which some providers keep the id.
const CALL_FRAME: f64 = 12.0;
/// Overhead of a call of Claude in addition.
const CLAUDE_CALL_FRAME: f64 = 25.0;
/// Overhead of a tool definition.
const TOOL_FRAME: f64 = 8.0;

/// Least and most estimated tokens of an image, and its pixels per token.
const IMAGE: (f64, f64, f64) = (80.0, 1600.0, 750.0);
/// Tokens of an image of any size of Gemini: from its third generation on, and before.
const GEMINI_IMAGE: (f64, f64) = (1100.0, 260.0);

/// Characters per token of reasoning that only its provider can read.
const SEALED_CHARS: f64 = 5.0;
/// Beginning of the encrypted reasoning of OpenAI, and the number of characters that it has without any reasoning.
const SEALED_FRAME: (&str, usize) = ("gAAAA", 800);
/// Characters per token of reasoning that is returned as text.
const READABLE_CHARS: f64 = 4.5;

/// Estimates the tokens of a text.
pub fn text_tokens(text: &str) -> f64 {
    let mut tokens = 0.0;
    let mut chars = text.chars().peekable();
    let mut before = Class::Other;
    while let Some(first) = chars.next() {
        let class = Class::of(first);
        let mut run = Run::default();
        run.add(first);
        while let Some(next) = chars.next_if(|next| Class::of(*next) == class) {
            run.add(next);
        }
        tokens += match class {
            Class::Word => run.words + run.dense_extra(),
            // A single space belongs to the word after it, but not to a number.
            Class::Space => {
                let is_digit = chars.peek().is_some_and(char::is_ascii_digit);
                f64::from(u8::from(run.length > 1 || is_digit))
            }
            // Punctuation takes the line breaks after it.
            Class::LineBreak => f64::from(u8::from(before != Class::Punctuation)),
            Class::Punctuation => (run.length as f64 / 3.0).max(1.0),
            Class::Other => run.other,
        };
        before = class;
    }
    tokens
}

/// Estimates the tokens of a message.
pub fn message_tokens(message: &ChatMessage) -> f64 {
    let calls = match message {
        ChatMessage::Assistant(answer) => answer
            .calls
            .iter()
            .map(|c| {
                let extra = c.extra.as_deref().map_or(0.0, text_tokens);
                text_tokens(&c.name) + text_tokens(&c.arguments) + extra + CALL_FRAME
            })
            .sum(),
        _ => 0.0,
    };
    let images: f64 = images(message).iter().map(image_tokens).sum();
    text_tokens(message.text()) + FRAME + calls + images
}

/// Estimates the tokens of each message of a request to this model.
///
/// Reasoning that is sent back counts until the next prompt: then providers drop it. Older models of Gemini never count it.
pub fn request_tokens(messages: &[ChatMessage], model: &str) -> Vec<f64> {
    let is_prompt = |message: &ChatMessage| matches!(message, ChatMessage::User(..));
    let last_prompt = messages.iter().rposition(is_prompt).unwrap_or(0);
    let is_old = model.contains("gemini-1") || model.contains("gemini-2");
    let (new, old) = GEMINI_IMAGE;
    let image = model
        .contains("gemini")
        .then_some(if is_old { old } else { new });
    let call_frame = if model.contains("claude") {
        CLAUDE_CALL_FRAME
    } else {
        0.0
    };
    let tokens = |(at, message): (usize, &ChatMessage)| {
        let mut tokens = message_tokens(message);
        if let ChatMessage::Assistant(answer) = message
            && let Some(native) = answer.native.as_deref()
            && at > last_prompt
            && !is_old
        {
            tokens += reasoning_tokens(native);
        }
        if let ChatMessage::Assistant(answer) = message {
            tokens += answer.calls.len() as f64 * call_frame;
        }
        if let Some(image) = image {
            let by_area = images(message).iter().map(image_tokens);
            tokens += by_area.map(|by_area| image - by_area).sum::<f64>();
        }
        tokens
    };
    messages.iter().enumerate().map(tokens).collect()
}

fn images(message: &ChatMessage) -> &[ImageContent] {
    match message {
        ChatMessage::Tool(result) => &result.images,
        ChatMessage::User(_, images) => images,
        _ => &[],
    }
}

/// Estimates the tokens of an image, which most providers count by its area, and scale down if it is large.
fn image_tokens(image: &ImageContent) -> f64 {
    let (least, most, pixels) = IMAGE;
    image_size(&image.data).map_or(most, |(width, height)| {
        (f64::from(width) * f64::from(height) / pixels).clamp(least, most)
    })
}

/// Estimates the tokens of the reasoning in an answer from its length: the form that counts is encrypted or signed.
fn reasoning_tokens(native: &NativeAnswer) -> f64 {
    let sealed = ["signature", "thoughtSignature", "encrypted_content", "data"];
    let sealed = sealed.iter().flat_map(|name| strings(&native.items, name));
    let (beginning, frame) = SEALED_FRAME;
    let lengths = sealed.map(|text| match text.starts_with(beginning) {
        true => text.len().saturating_sub(frame),
        false => text.len(),
    });
    let sealed = lengths.sum::<usize>() as f64 / SEALED_CHARS;
    let length = |name| strings(&native.items, name).map(str::len).sum::<usize>();
    // The same reasoning may be there twice, or readable beside its sealed form.
    let readable = match native.dialect {
        Dialect::Chat => length("reasoning").max(length("text") + length("summary")),
        _ => length("reasoning").max(length("thinking")),
    };
    sealed.max(readable as f64 / READABLE_CHARS)
}

/// Returns the strings of this name in a JSON text, as they are written.
fn strings<'a>(json: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let name = format!("\"{name}\":");
    let starts: Vec<usize> = json
        .match_indices(&name)
        .map(|(at, _)| at + name.len())
        .collect();
    starts.into_iter().filter_map(|start| {
        let text = json[start..].trim_start().strip_prefix('"')?;
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        text.get(..end?)
    })
}

/// Estimates the tokens of a tool's definition.
pub fn tool_tokens(tool: &ToolDefinition) -> f64 {
    text_tokens(&tool.name)
        + text_tokens(&tool.description)
        + text_tokens(&tool.schema)
        + TOOL_FRAME
}

/// Classes of characters that tokenizers split between.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Class {
    /// ASCII letters and digits.
    Word,
    Space,
    LineBreak,
    /// ASCII punctuation and control characters.
    Punctuation,
    /// Everything beyond ASCII.
    Other,
}

impl Class {
    fn of(c: char) -> Class {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
            ' ' | '\t' => Class::Space,
            '\n' | '\r' => Class::LineBreak,
            c if c.is_ascii() => Class::Punctuation,
            _ => Class::Other,
        }
    }
}

/// Kinds of the parts of a word.
#[derive(PartialEq, Eq, Clone, Copy, Default)]
enum WordPart {
    #[default]
    None,
    Lower,
    Upper,
    Digits,
}

/// Characters of one class.
#[derive(Default)]
struct Run {
    length: usize,
    /// Tokens of the parts so far.
    words: f64,
    part: WordPart,
    /// Characters of the last part.
    part_length: usize,
    parts: usize,
    has_digits: bool,
    has_letters: bool,
    other: f64,
}

impl Run {
    fn add(&mut self, c: char) {
        self.length += 1;
        let part = match c {
            'a'..='z' => WordPart::Lower,
            'A'..='Z' => WordPart::Upper,
            '0'..='9' => WordPart::Digits,
            _ => {
                self.other += other_tokens(c);
                return;
            }
        };
        self.has_digits |= part == WordPart::Digits;
        self.has_letters |= part != WordPart::Digits;
        // A capital begins a word: `Word` is one part.
        let continues = part == self.part
            || (part == WordPart::Lower && self.part == WordPart::Upper && self.part_length == 1);
        if !continues {
            self.parts += 1;
            self.part_length = 0;
        }
        self.part = part;
        self.part_length += 1;
        let n = self.part_length;
        self.words += match part {
            _ if n == 1 => 1.0,
            WordPart::Lower | WordPart::None => 0.2 * f64::from(u8::from(n > 7)),
            WordPart::Upper => 0.35 * f64::from(u8::from(n > 2)),
            WordPart::Digits => f64::from(u8::from(n % 3 == 1)),
        };
    }

    /// Additional tokens of a word that is an id, a hash or encoded bytes.
    fn dense_extra(&self) -> f64 {
        let is_mixed = self.has_digits && self.has_letters && self.length >= 8;
        if self.parts >= 4 || is_mixed {
            (self.length as f64 / 1.6 - self.words).max(0.0)
        } else {
            0.0
        }
    }
}

/// Tokens of a character beyond ASCII.
fn other_tokens(c: char) -> f64 {
    match u32::from(c) {
        // Latin and Greek.
        0..0x400 => 0.6,
        // Cyrillic and other alphabets.
        0x400..0x1000 => 0.4,
        // Frames, arrows, symbols.
        0x1000..0x3000 => 1.0,
        // Chinese, Japanese, Korean.
        0x3000..0xd800 => 0.9,
        _ => 1.5,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::chat::{AssistantMessage, ToolCall, ToolResult};

    /// A text, and its tokens by `o200k_base` and `cl100k_base`.
    #[derive(serde::Deserialize)]
    struct Sample {
        name: String,
        text: String,
        tokens: [f64; 2],
    }

    /// The samples were counted with the npm package `js-tiktoken` 1.0.21.
    #[test]
    fn every_kind_of_text_is_estimated() {
        let samples: Vec<Sample> =
            serde_json::from_str(include_str!("../../tests/fixtures/token_samples.json")).unwrap();
        assert!(samples.len() >= 15);
        for sample in samples {
            for real in sample.tokens {
                let ratio = text_tokens(&sample.text) / real;
                assert!((0.75..=1.85).contains(&ratio), "{}: {ratio}", sample.name);
                assert!(ratio * FIRST_RATIO >= 0.95, "{}: {ratio}", sample.name);
            }
        }
    }

    fn call(arguments: &str) -> ToolCall {
        ToolCall {
            id: "call_9fKq27LwZx40VbNe81TgRuYc".into(),
            name: "x.y".into(),
            arguments: arguments.into(),
            extra: None,
        }
    }

    /// A prompt, an answer with a call and this reasoning, and its result.
    fn round(items: &str) -> Vec<ChatMessage> {
        let native = NativeAnswer {
            dialect: Dialect::Responses,
            model: "m".into(),
            prefix_sha256: String::new(),
            items: items.into(),
        };
        let answer = AssistantMessage {
            text: String::new(),
            calls: vec![call("{}")],
            native: Some(Arc::new(native)),
        };
        let result = ToolResult::default();
        vec![
            ChatMessage::user("go on"),
            ChatMessage::Assistant(answer),
            ChatMessage::Tool(result),
        ]
    }

    fn sum(messages: &[ChatMessage], model: &str) -> f64 {
        request_tokens(messages, model).iter().sum()
    }

    #[test]
    fn reasoning_counts_until_the_next_prompt() {
        let none = sum(&round("[]"), "m");
        let signed = format!(
            r#"[{{"thinking": "a \"b\"", "signature": "{}"}}]"#,
            "x".repeat(500)
        );
        let signed = round(&signed);
        assert_eq!(sum(&signed, "m"), none + 100.0);
        assert_eq!(sum(&signed, "gemini-2.5-pro"), none);
        let later = |mut messages: Vec<ChatMessage>| {
            messages.push(ChatMessage::user("and then"));
            sum(&messages, "m")
        };
        assert_eq!(later(signed), later(round("[]")));
        // A part of the encrypted form is always there.
        let encrypted = |length: usize| {
            let text = format!("gAAAA{}", "x".repeat(length - 5));
            sum(
                &round(&format!(r#"[{{"encrypted_content":"{text}"}}]"#)),
                "m",
            ) - none
        };
        assert_eq!((encrypted(700), encrypted(1800)), (0.0, 200.0));
        let readable = r#"[{"reasoning":"\"nine\"ch","details":[]}]"#;
        assert!((sum(&round(readable), "m") - none - 10.0 / READABLE_CHARS).abs() < 1e-9);
        assert_eq!(sum(&round("[{\"signature\":\"never ends"), "m"), none);
        // A short seal does not hide long reasoning.
        let both = format!(
            r#"[{{"signature":"x","reasoning":"{}"}}]"#,
            "y".repeat(4500)
        );
        assert!((sum(&round(&both), "m") - none - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn calls_count_without_their_id_and_more_at_claude() {
        let tokens = |calls| message_tokens(&ChatMessage::calling("", calls));
        assert_eq!(tokens(vec![call("")]), FRAME + CALL_FRAME + 3.0);
        let round = round("[]");
        assert_eq!(
            sum(&round, "claude-x"),
            sum(&round, "m") + CLAUDE_CALL_FRAME
        );
    }

    #[test]
    fn images_count_by_their_area_except_at_gemini() {
        let gif = |width: u16, height: u16| {
            let size = [width.to_le_bytes(), height.to_le_bytes()].concat();
            let data = STANDARD.encode([b"GIF89a", &size[..], &[0; 20]].concat());
            let mime = "image/gif".into();
            let data = data.into();
            vec![ChatMessage::User(
                String::new(),
                vec![ImageContent { mime, data }],
            )]
        };
        let tokens = |width, height, model| sum(&gif(width, height), model) - FRAME;
        assert_eq!(tokens(750, 500, "m"), 500.0);
        assert_eq!((tokens(5, 5, "m"), tokens(4000, 3000, "m")), (80.0, 1600.0));
        assert_eq!(tokens(750, 500, "gemini-3-flash"), 1100.0);
        assert_eq!(tokens(750, 500, "google/gemini-2.5-pro"), 260.0);
        let unknown = ImageContent {
            mime: "image/x".into(),
            data: "aGk=".into(),
        };
        let unknown = ChatMessage::User(String::new(), vec![unknown]);
        assert_eq!(message_tokens(&unknown), FRAME + 1600.0);
    }

    #[test]
    fn nothing_has_no_tokens_and_more_has_more() {
        assert_eq!(text_tokens(""), 0.0);
        let text = "ls -la /tmp/aB3dE5fG7h ünïcödé 日本語\n";
        let mut last = 0.0;
        for (at, _) in text.char_indices().skip(1) {
            let now = text_tokens(&text[..at]);
            assert!(now >= last - 1.0, "{:?}", &text[..at]);
            last = now;
        }
    }
}
