//! Lines that surround an answer: proposed commands, the footer, and the events that an attached client follows.

use super::styled_line::wrapped;
use super::text_format::{cut, short_count, short_id};
use crate::chat::shown_prompt;
use crate::protocol::{AnswerSummary, ShownCost};
use crate::safety::budget::usd;
use crate::safety::text::{OwnedPiece, one_line, strict_pieces};

/// Returns the line that says which answer a client follows, or that it is the last one. The text is untrusted.
pub fn attached_line(session: &str, prompt: &str, running: bool) -> String {
    let session = short_id(session);
    let words: Vec<&str> = shown_prompt(prompt).split_whitespace().collect();
    let prompt = cut(&words.join(" "), 60);
    match running {
        true => format!(
            "session {session} is answering “{prompt}”; Ctrl-C stops the answer, Ctrl-\\ only leaves it"
        ),
        false => format!("the last answer of session {session}, to “{prompt}”"),
    }
}

/// Appends a command exactly; invisible characters are marked, in reverse video if `color` is set. A line of a command begins
/// a line, after `indent`.
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

/// Formats the footer: `model · 1.2 s · 12.4k in (9.1k cached) · 640 out · $0.0123 · session $0.31`.
/// Broken at spaces to at most `width` columns.
pub fn footer(answer: &AnswerSummary, width: usize) -> String {
    let mut parts = vec![
        one_line(&answer.model, 60),
        format!("{:.1} s", answer.seconds),
    ];
    parts.extend(usage_parts(answer));
    wrapped(&parts.join(" · "), width, 2).trim_end().to_owned()
}

/// Formats the usage and cost of an answer, the second part of the footer.
pub fn cost_line(answer: &AnswerSummary) -> String {
    usage_parts(answer).join(" · ")
}

fn usage_parts(answer: &AnswerSummary) -> Vec<String> {
    let mut parts = Vec::new();
    if let (Some(prompt), Some(completion)) = (answer.prompt_tokens, answer.completion_tokens) {
        let cached = match answer.cache_read_tokens {
            0 => String::new(),
            cached => format!(" ({} cached)", short_count(cached)),
        };
        parts.push(format!("{} in{cached}", short_count(prompt)));
        parts.push(format!("{} out", short_count(completion)));
    }
    if answer.show_cost != ShownCost::Nothing {
        let about = if answer.cost_estimated { "~" } else { "" };
        match answer.cost {
            Some(cost) => parts.push(format!("{about}{}", usd(cost))),
            None => parts.push("$?".to_owned()),
        }
        if let Some(session) = answer.session_cost {
            let more = if answer.session_cost_partial {
                " + ?"
            } else {
                ""
            };
            parts.push(format!("session {}{more}", session_usd(session)));
        }
    }
    parts
}

/// The sum of a session needs no fractions of a cent once it has cents.
fn session_usd(amount: f64) -> String {
    match amount >= 0.1 {
        true => format!("${amount:.2}"),
        false => usd(amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::FinishReason;

    #[test]
    fn a_prompt_that_nobody_typed_is_named_by_what_it_does() {
        let line = attached_line("0190", crate::chat::CONTINUED, false);
        assert!(line.ends_with("to “Continued with the output”"), "{line}");
    }

    #[test]
    fn the_footer_says_what_an_answer_used_and_cost() {
        let mut answer = AnswerSummary {
            session: String::new(),
            model: "m".to_owned(),
            finish: FinishReason::Stop,
            prompt_tokens: Some(12_400),
            completion_tokens: Some(640),
            cache_read_tokens: 9_100,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            seconds: 1.25,
            cost: Some(0.0123),
            cost_estimated: false,
            session_cost: Some(0.312),
            session_cost_partial: false,
            show_cost: ShownCost::OnTerminal,
            proposals: 0,
        };
        assert_eq!(
            footer(&answer, 80),
            "m · 1.2 s · 12.4k in (9.1k cached) · 640 out · $0.0123 · session $0.31"
        );
        answer.cost_estimated = true;
        answer.prompt_tokens = None;
        assert_eq!(cost_line(&answer), "~$0.0123 · session $0.31");
        answer.session_cost_partial = true;
        assert_eq!(cost_line(&answer), "~$0.0123 · session $0.31 + ?");
        (answer.cost, answer.session_cost) = (None, None);
        assert_eq!(cost_line(&answer), "$?");
        answer.show_cost = ShownCost::Nothing;
        assert_eq!(footer(&answer, 80), "m · 1.2 s");
        assert_eq!(short_count(999_949), "999.9k");
        assert_eq!(short_count(999_950), "1.0M");
    }
}
