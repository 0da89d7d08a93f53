//! Reads a long text on the terminal, one page at a time.
//!
//! Pages stay in the scrollback: the pager never repaints a line of the text, so the text cannot hide a part of itself.

use super::{PromptInput, PromptKey, PromptResult, TerminalPrompt};
use crate::client::styled_line::StyledLine;

/// The keys of a pager beside those that turn pages.
pub struct PagerKeys<'a, T> {
    /// The line of keys, in full and for a narrow terminal.
    pub hints: [&'a str; 2],
    /// Lines of the terminal that the pages leave free.
    pub reserved_rows: usize,
    /// Leaving is an answer: keys pressed before the page was visible do not count.
    pub leaving_answers: bool,
    /// Returns the result and the word to echo for a key that leaves the pager.
    pub leave: &'a dyn Fn(PromptKey) -> Option<(T, &'static str)>,
}

/// How the pager ended.
#[derive(Debug, PartialEq, Eq)]
pub enum PagerEnd<T> {
    /// The last line was shown.
    ReadToEnd,
    /// A key left the pager before.
    Left(T),
}

/// Shows the text that `lines` lays out for a width. Returns whether its last line was shown.
///
/// # Errors
/// The question ended.
pub fn read(
    prompt: &mut TerminalPrompt<'_>,
    lines: &dyn Fn(usize) -> Vec<StyledLine>,
) -> PromptResult<bool> {
    let leave = |key| {
        let quits = matches!(key, PromptKey::Byte(b'q' | b'Q' | b'n' | b'\r' | b'\n' | 4));
        quits.then_some(((), ""))
    };
    let keys = PagerKeys {
        hints: [
            "more lines: [space] read on  [k] back  [G] to the end  [q] quit reading ",
            "more: [space] [k] [G] [q] ",
        ],
        reserved_rows: 3,
        leaving_answers: false,
        leave: &leave,
    };
    Ok(read_or_leave(prompt, lines, &keys)? == PagerEnd::ReadToEnd)
}

/// Shows the text that `lines` lays out for a width, until its end or until a key of `keys` leaves.
///
/// # Errors
/// The question ended.
pub fn read_or_leave<T>(
    prompt: &mut TerminalPrompt<'_>,
    lines: &dyn Fn(usize) -> Vec<StyledLine>,
    keys: &PagerKeys<'_, T>,
) -> PromptResult<PagerEnd<T>> {
    'layout: loop {
        let lines = lines(prompt.width());
        let page = prompt.size.1.saturating_sub(keys.reserved_rows).max(1);
        let mut top = 0;
        let mut to_the_end = false;
        loop {
            let end = match to_the_end {
                true => lines.len(),
                false => (top + page).min(lines.len()),
            };
            for line in &lines[top..end] {
                prompt.frame_line("│", line)?;
            }
            if end == lines.len() {
                return Ok(PagerEnd::ReadToEnd);
            }
            let hint = |hint: &str| format!("{} {hint}", lines.len() - end);
            let wide = hint(keys.hints[0]);
            let hint = match wide.len() + 2 < prompt.size.0 {
                true => wide,
                false => hint(keys.hints[1]),
            };
            prompt.write(&format!("{} {hint}", prompt.dim("└")))?;
            loop {
                let input = match keys.leaving_answers {
                    true => prompt.answer_key()?,
                    false => prompt.key()?,
                };
                let key = match input {
                    PromptInput::Redraw => {
                        prompt.write("\n")?;
                        continue 'layout;
                    }
                    PromptInput::Key(key) => key,
                };
                if let Some((result, word)) = (keys.leave)(key) {
                    prompt.write(&format!("{word}\n"))?;
                    return Ok(PagerEnd::Left(result));
                }
                match key {
                    PromptKey::Down | PromptKey::Byte(b' ' | b'j' | b'f') => top = end,
                    // The rest follows line by line, so that no line is skipped.
                    PromptKey::End | PromptKey::Byte(b'G') => (top, to_the_end) = (end, true),
                    PromptKey::Up | PromptKey::Byte(b'k' | b'b') => top = top.saturating_sub(page),
                    _ => continue,
                }
                break;
            }
            // The line of keys is our own and gives way to the text.
            prompt.write("\r\x1b[K")?;
        }
    }
}
