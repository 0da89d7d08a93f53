//! Lines that surround an answer: proposed commands, the footer, and what an attached client follows.

use super::text_format::{cut, short_id};
use crate::protocol::AnswerSummary;
use crate::safety::text::{OwnedPiece, one_line, strict_pieces};

/// Returns the line that says which answer a client follows, or that it is the last one. The text is untrusted.
pub fn attached_line(session: &str, prompt: &str, running: bool) -> String {
    let session = short_id(session);
    let words: Vec<&str> = prompt.split_whitespace().collect();
    let prompt = cut(&words.join(" "), 60);
    match running {
        true => format!(
            "session {session} is answering “{prompt}”; Ctrl-C stops the answer, Ctrl-\\ only leaves it"
        ),
        false => format!("the last answer of session {session}, to “{prompt}”"),
    }
}

/// Appends a command exactly; invisible characters are marked, in reverse video if `color` is set. A line of a command begins
/// a line, behind `indent`.
pub fn push_command(command: &str, indent: &str, color: bool, out: &mut Vec<u8>) {
    for (n, line) in command.split_inclusive('\n').enumerate() {
        if n > 0 {
            out.push(b'\n');
            out.extend_from_slice(indent.as_bytes());
        }
        for piece in strict_pieces(line) {
            match piece {
                OwnedPiece::Text(t) => push_styled(&t, "\x1b[1m", color, out),
                OwnedPiece::Mark(t) => push_styled(&t, "\x1b[7m", color, out),
            }
        }
    }
}

/// Appends safe text with the terminal attribute `on`.
fn push_styled(text: &str, on: &str, color: bool, out: &mut Vec<u8>) {
    let (on, off) = if color { (on, "\x1b[0m") } else { ("", "") };
    for part in [on, text, off] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Formats the footer: `model · 12 (9 cached) + 345 tokens · 1.2 s · $0.0031`.
pub fn footer(answer: &AnswerSummary) -> String {
    let mut parts = vec![one_line(&answer.model, 60)];
    if let (Some(prompt), Some(completion)) = (answer.prompt_tokens, answer.completion_tokens) {
        let cached = match answer.cache_read_tokens {
            0 => String::new(),
            cached => format!(" ({cached} cached)"),
        };
        parts.push(format!("{prompt}{cached} + {completion} tokens"));
    }
    parts.push(format!("{:.1} s", answer.seconds));
    if let Some(cost) = answer.cost {
        parts.push(if cost < 0.01 {
            format!("${cost:.5}")
        } else {
            format!("${cost:.2}")
        });
    }
    parts.join(" · ")
}
