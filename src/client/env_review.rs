//! The question about environment variables that changed after the first prompt of a shell: a project's `.env` must not
//! send prompts or keys elsewhere, run another program or lower what is asked. The plugin says what changed.

use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, StyledLine, fold, span};
use super::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::error::{Error, ErrorKind, Result};
use crate::safety::confusables::marked_pieces;
use crate::safety::redact::global_redactor;
use crate::safety::text::OwnedPiece;

const CTRL_D: u8 = 4;

/// Maximum length of a value in bytes. A longer one cannot be shown, and is not used.
const MAX_VALUE: usize = 2000;

/// A variable that changed; an empty value means an unset variable.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangedVariable {
    name: String,
    old: String,
    new: String,
}

impl ChangedVariable {
    /// Whether the new value only makes aish ask more or send less.
    fn tightens(&self) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        match &*self.name {
            "AISH_CONFIRM_CMD" => {
                ["1", "true", "yes", "on"].contains(&&*self.new.to_ascii_lowercase())
            }
            "AISH_CONTEXT_COMMANDS" => match (number(&self.old), number(&self.new)) {
                (_, Some(0)) => true,
                (Some(old), Some(new)) => new <= old,
                _ => false,
            },
            _ => false,
        }
    }
}

/// Which of the new values are to be used.
#[derive(Debug, Default)]
pub struct EnvReview {
    /// Names of the variables whose new values are to be used.
    pub accepted: Vec<String>,
    /// Lines for the user about values that are not used although nobody was asked.
    pub notices: Vec<String>,
}

impl EnvReview {
    fn refuse(&mut self, name: &str, reason: &str) {
        self.notices.push(format!(
            "{name} changed after the first prompt of this shell; the new value is not used: {reason}"
        ));
    }
}

/// Decides which new values are to be used, and asks the user if needed. `changes` holds name, old and new value of each, every
/// one ended by NUL.
///
/// # Errors
/// [`ErrorKind::Interrupted`] after Ctrl-C; `changes` is malformed.
pub fn review(changes: &[u8]) -> Result<EnvReview> {
    let malformed = || Error::usage("malformed list of variables");
    let text = String::from_utf8_lossy(changes);
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    let (changes, []) = fields.as_chunks::<3>() else {
        return Err(malformed());
    };
    let mut review = EnvReview::default();
    let mut open = Vec::new();
    for [name, old, new] in changes {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(malformed());
        }
        let change = ChangedVariable {
            name: (*name).to_owned(),
            old: (*old).to_owned(),
            new: (*new).to_owned(),
        };
        match change.tightens() {
            true => review.accepted.push(change.name),
            false if new.len() > MAX_VALUE => {
                review.refuse(name, "it is too long to be shown");
            }
            false => open.push(change),
        }
    }
    if open.is_empty() {
        return Ok(review);
    }
    let signals = SignalPipes::catch()?;
    let asked = TerminalPrompt::open(&signals, None).and_then(|mut prompt| {
        let answer = ask(&mut prompt, &open);
        if let Err(end) = &answer {
            prompt.write_end(end);
        }
        answer
    });
    match asked {
        Ok(true) => {
            let names = open.into_iter().map(|change| change.name);
            review.accepted.extend(names);
        }
        Ok(false) => {
            let kept = |change: &ChangedVariable| {
                format!("{} was changed; the new value is not used", change.name)
            };
            review.notices.extend(open.iter().map(kept));
        }
        Err(PromptEnd::NoTerminal(reason)) => {
            open.iter()
                .for_each(|change| review.refuse(&change.name, reason));
        }
        Err(_) => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
    }
    Ok(review)
}

/// Asks whether the new values are to be used.
fn ask(prompt: &mut TerminalPrompt<'_>, changes: &[ChangedVariable]) -> PromptResult<bool> {
    loop {
        let head = "these variables changed after the first prompt of this shell:";
        let head = fold(&[span(head, SpanStyle::Bold)], prompt.width(), 0);
        for (n, line) in head.iter().enumerate() {
            prompt.frame_line(if n == 0 { "┌" } else { "│" }, line)?;
        }
        for change in changes {
            for line in lines(change, prompt.width()) {
                prompt.frame_line("│", &line)?;
            }
        }
        let keys = "[y] use the new values  [n] keep the old values ";
        if let Some(answer) = prompt.choose(keys, &meaning)? {
            return Ok(answer);
        }
    }
}

/// Enter alone refuses: it is the key that is pressed without reading.
fn meaning(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "yes")),
        PromptKey::Byte(b'n' | b'N' | b'q' | b'\n' | b'\r' | CTRL_D) => Some((false, "no")),
        _ => None,
    }
}

/// Lays a change out: the name, the old value and the new one. Passwords in URLs are not shown.
fn lines(change: &ChangedVariable, width: usize) -> Vec<StyledLine> {
    let mut lines = vec![vec![span(change.name.clone(), SpanStyle::Plain)]];
    for (label, value) in [("old  ", &change.old), ("new  ", &change.new)] {
        let mut spans = vec![span(label, SpanStyle::Dim)];
        if value.is_empty() {
            spans.push(span("(unset)", SpanStyle::Dim));
        }
        for piece in marked_pieces(&global_redactor().redact(value)) {
            spans.push(match piece {
                OwnedPiece::Text(text) => span(text, SpanStyle::Bold),
                OwnedPiece::Mark(mark) => span(mark, SpanStyle::Mark),
            });
        }
        lines.extend(fold(&spans, width, 5));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tightens(name: &str, old: &str, new: &str) -> bool {
        let [name, old, new] = [name, old, new].map(str::to_owned);
        ChangedVariable { name, old, new }.tightens()
    }

    #[test]
    fn only_values_that_ask_more_or_send_less_tighten() {
        assert!(tightens("AISH_CONFIRM_CMD", "", "1"));
        assert!(tightens("AISH_CONFIRM_CMD", "0", "Yes"));
        assert!(!tightens("AISH_CONFIRM_CMD", "1", ""));
        assert!(!tightens("AISH_CONFIRM_CMD", "1", "0"));
        assert!(tightens("AISH_CONTEXT_COMMANDS", "", "0"));
        assert!(tightens("AISH_CONTEXT_COMMANDS", "10", "9"));
        assert!(!tightens("AISH_CONTEXT_COMMANDS", "10", "11"));
        // The configuration may say less.
        assert!(!tightens("AISH_CONTEXT_COMMANDS", "", "5"));
        assert!(!tightens("AISH_BASE_URL", "http://a", ""));
    }

    #[test]
    fn a_value_is_shown_without_hidden_characters_and_passwords() {
        let change = ChangedVariable {
            name: "HTTPS_PROXY".into(),
            old: String::new(),
            new: concat!("http://me:q7Rk2Z", "pL9vXw3TbN@proxy.example?\u{200b}").into(),
        };
        let text: Vec<String> = lines(&change, 80)
            .iter()
            .map(|line| line.iter().map(|s| s.text.as_str()).collect())
            .collect();
        assert_eq!(text[1], "old  (unset)");
        assert!(
            !text[2].contains("pL9vXw3TbN") && !text[2].contains('\u{200b}'),
            "{text:?}"
        );
        assert!(text[2].contains("proxy.example"), "{text:?}");
    }
}
