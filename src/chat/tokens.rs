//! Estimates how many tokens a model counts for a text. Pure.
//!
//! Every provider has its own tokenizer. The classes of characters below have the weights of OpenAI's `o200k_base`, which a
//! test compares; the ratio to what a model really counts is learned from its answers.

use super::{ChatMessage, ToolDefinition};

/// Ratio of real to estimated tokens before a model has reported any: more than the tokenizers that are known need.
pub const FIRST_RATIO: f64 = 1.35;

/// Overhead of a message or a tool definition.
const FRAME: f64 = 8.0;

/// Estimated tokens of an image: about the most that providers count for one.
const IMAGE: f64 = 1500.0;

/// Estimates the tokens of a text.
pub fn text_tokens(text: &str) -> f64 {
    let mut tokens = 0.0;
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next() {
        let class = Class::of(first);
        let mut run = Run::default();
        run.add(first);
        while let Some(next) = chars.next_if(|next| Class::of(*next) == class) {
            run.add(next);
        }
        tokens += match class {
            Class::Word => run.words + run.dense_extra(),
            // A single space belongs to the word behind it.
            Class::Space => f64::from(u8::from(run.length > 1)),
            Class::LineBreak => 1.0,
            Class::Punctuation => (run.length as f64 / 2.0).max(1.0),
            Class::Other => run.other,
        };
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
                text_tokens(&c.id)
                    + text_tokens(&c.name)
                    + text_tokens(&c.arguments)
                    + extra
                    + FRAME
            })
            .sum(),
        _ => 0.0,
    };
    let images = match message {
        ChatMessage::Tool(result) => result.images.len(),
        ChatMessage::User(_, images) => images.len(),
        _ => 0,
    };
    text_tokens(message.text()) + FRAME + calls + images as f64 * IMAGE
}

/// Estimates the tokens of a tool's definition.
pub fn tool_tokens(tool: &ToolDefinition) -> f64 {
    text_tokens(&tool.name) + text_tokens(&tool.description) + text_tokens(&tool.schema) + FRAME
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
enum Part {
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
    part: Part,
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
            'a'..='z' => Part::Lower,
            'A'..='Z' => Part::Upper,
            '0'..='9' => Part::Digits,
            _ => {
                self.other += other_tokens(c);
                return;
            }
        };
        self.has_digits |= part == Part::Digits;
        self.has_letters |= part != Part::Digits;
        // A capital begins a word: `Word` is one part.
        let continues = part == self.part
            || (part == Part::Lower && self.part == Part::Upper && self.part_length == 1);
        if !continues {
            self.parts += 1;
            self.part_length = 0;
        }
        self.part = part;
        self.part_length += 1;
        let n = self.part_length;
        self.words += match part {
            _ if n == 1 => 1.0,
            Part::Lower | Part::None => 0.2 * f64::from(u8::from(n > 5)),
            Part::Upper => 0.35 * f64::from(u8::from(n > 2)),
            Part::Digits => f64::from(u8::from(n % 3 == 1)),
        };
    }

    /// What a word needs in addition if it is no word, but an id, a hash or encoded bytes.
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
    use super::*;

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
