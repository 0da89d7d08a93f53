//! The question about a tool call, asked on the user's terminal. The arguments that are shown are the arguments sent.
//!
//! Long arguments, and changes of a tool, must be read to the end before the call can be approved. Edited arguments are
//! shown again first, and keys typed before the question was visible do not count. An approval that outlives the
//! session takes two keys.

mod approval_keys;
pub mod layout;

use std::path::Path;

use unicode_width::UnicodeWidthStr;

use super::styled_line::{SpanStyle, fold, span};
use super::terminal_prompt::{
    EditedLine, PromptEnd, PromptInput, PromptKey, PromptResult, TerminalPrompt, end_column,
    key_fault, pager,
};
use super::{argument_lines, editor};
use crate::protocol::tools::{ApprovalRequest, ApprovalVerdict, NewTools};
use crate::safety::json_text;
use crate::safety::policy::canonical_arguments;
use crate::safety::text::one_line;

const CTRL_D: u8 = 4;

/// Asks about a call; `new_tools` were shown before it. Returns the verdict and the arguments as they were shown last.
///
/// # Errors
/// The question ended without an answer.
pub fn ask(
    prompt: &mut TerminalPrompt<'_>,
    question: &ApprovalRequest,
    new_tools: Option<&NewTools>,
    run_dir: &Path,
) -> PromptResult<(ApprovalVerdict, String)> {
    let mut edited = false;
    let result = prompt_loop(prompt, question, new_tools, run_dir, &mut edited);
    let result = result.map_err(|end| match end {
        // The other place has shown the arguments of the model.
        PromptEnd::AnsweredElsewhere(text) if edited => {
            PromptEnd::AnsweredElsewhere(format!("{text}; your edit was not used"))
        }
        end => end,
    });
    if let Err(end) = &result {
        prompt.write_end(end);
    }
    result
}

fn prompt_loop(
    prompt: &mut TerminalPrompt<'_>,
    question: &ApprovalRequest,
    new_tools: Option<&NewTools>,
    run_dir: &Path,
    edited: &mut bool,
) -> PromptResult<(ApprovalVerdict, String)> {
    let mut arguments = question.arguments.clone();
    // Edited text that is not a JSON object yet, so that the next edit continues from it.
    let mut draft = None;
    let mut progress = ReadProgress::default();
    'redraw: loop {
        draw(prompt, question, &arguments, *edited, &mut progress)?;
        let mut shows_keys = false;
        loop {
            let line = approval_keys::line(prompt, question);
            if !std::mem::take(&mut shows_keys) {
                prompt.write(&line)?;
            }
            let key = match prompt.answer_key()? {
                PromptInput::Key(key) => key,
                PromptInput::Redraw => {
                    // What was erased must be read again.
                    if prompt.make_room()? {
                        progress = ReadProgress::default();
                    }
                    continue 'redraw;
                }
            };
            // The part still to be read, or everything again.
            let with_changes = !progress.changes || progress.arguments;
            let full_text = |width: usize| {
                let mut all = match with_changes {
                    true => layout::changes(question, width),
                    false => Vec::new(),
                };
                if layout::shows_arguments(question) {
                    all.extend(argument_lines::lines(&arguments, width, true).lines);
                }
                all
            };
            let (verdict, word) = match key {
                PromptKey::Byte(b'y' | b'Y') => (ApprovalVerdict::Once, "yes".to_string()),
                PromptKey::Byte(byte @ (b't' | b'T' | b'r' | b'R' | b'A' | b'a')) => {
                    match approval_keys::lasting_verdict(byte, question) {
                        Ok(verdict) => verdict,
                        Err(reason) => {
                            prompt.report(&one_line(&reason, 300), &line)?;
                            shows_keys = true;
                            continue;
                        }
                    }
                }
                // Enter alone refuses: it is the key that is pressed without reading.
                PromptKey::Byte(b'n' | b'N' | b'\r' | b'\n' | CTRL_D) => {
                    (ApprovalVerdict::No { words: None }, "no".to_string())
                }
                PromptKey::Byte(b'd' | b'D') => {
                    prompt.write("deny\nwhy? (Enter: no reason, Esc: back)\n> ")?;
                    match prompt.edit_line("")? {
                        EditedLine::Accepted(words) => {
                            let words = Some(words.trim().to_string()).filter(|w| !w.is_empty());
                            return Ok((ApprovalVerdict::No { words }, arguments));
                        }
                        EditedLine::Cancelled => continue,
                    }
                }
                PromptKey::Byte(b'e' | b'E') => {
                    prompt.write("edit\n")?;
                    let text = draft.take().unwrap_or_else(|| pretty(&arguments));
                    match edit(prompt, run_dir, &text)? {
                        EditResult::Object(new)
                            if new != canonical_arguments(&arguments).unwrap_or_default() =>
                        {
                            (arguments, *edited, progress.arguments) = (new, true, false);
                            continue 'redraw;
                        }
                        EditResult::Object(_) => write_line(prompt, "nothing has changed")?,
                        EditResult::Invalid(text, reason) => {
                            draft = Some(text);
                            write_line(prompt, &reason)?;
                        }
                        EditResult::Failed(reason) => write_line(prompt, &reason)?,
                    }
                    continue 'redraw;
                }
                PromptKey::Byte(b'?') => {
                    prompt.write("?\n")?;
                    pager::read(prompt, &|width| layout::details(question, new_tools, width))?;
                    continue;
                }
                PromptKey::Down | PromptKey::Up | PromptKey::Byte(b' ' | b'j' | b'k') => {
                    prompt.write("\n")?;
                    progress.mark_read(pager::read(prompt, &full_text)?);
                    continue;
                }
                key => {
                    prompt.report(key_fault(key, question.effect.typed_yes), &line)?;
                    shows_keys = true;
                    continue;
                }
            };
            let approves = !matches!(verdict, ApprovalVerdict::No { .. });
            if approves && !(progress.changes && progress.arguments) {
                let unread = match progress.changes {
                    true => "the arguments to their end",
                    false => "what has changed, and the arguments, to the end",
                };
                write_line(prompt, &format!("\nnot yet: read {unread} first"))?;
                progress.mark_read(pager::read(prompt, &full_text)?);
                continue;
            }
            if approves && question.effect.typed_yes {
                if !prompt.at_line_start() {
                    prompt.write("\n")?;
                }
                let begun = match verdict {
                    ApprovalVerdict::Once => "y",
                    _ => "",
                };
                match type_yes(prompt, begun)? {
                    true => return Ok((verdict, arguments)),
                    false => continue,
                }
            }
            if verdict == ApprovalVerdict::Always {
                write_line(
                    prompt,
                    &format!("\n{}", approval_keys::always_effect(question)),
                )?;
                let keys = format!("{} {}", prompt.dim("└"), approval_keys::CONFIRM_ALWAYS);
                prompt.write(&keys)?;
                match prompt.answer_key()? {
                    PromptInput::Key(PromptKey::Byte(b'A')) => {}
                    PromptInput::Key(_) => {
                        prompt.write("back\n")?;
                        continue;
                    }
                    PromptInput::Redraw => {
                        if prompt.make_room()? {
                            progress = ReadProgress::default();
                        }
                        continue 'redraw;
                    }
                }
            }
            let needs_line = verdict != ApprovalVerdict::Always
                && !prompt.at_line_start()
                && prompt.size.0 < end_column(&line) + word.width();
            match needs_line {
                true => write_line(prompt, &format!("\n{word}"))?,
                false => prompt.write(&format!("{word}\n"))?,
            }
            return Ok((verdict, arguments));
        }
    }
}

/// Asks for the whole word "yes", so that a call that could hurt is never approved by one key. The line begins with `begun`, the key
/// that was pressed if it is the beginning of that word; who types the whole word after it has typed it.
pub(super) fn type_yes(prompt: &mut TerminalPrompt<'_>, begun: &str) -> PromptResult<bool> {
    prompt.write("type yes to run it (Esc: back)\n> ")?;
    match prompt.edit_line(begun)? {
        EditedLine::Accepted(text) => {
            let text = text.trim();
            let is_yes = text == "yes" || text.strip_prefix(begun) == Some("yes");
            if !is_yes {
                write_line(prompt, "not run: type the whole word yes")?;
            }
            Ok(is_yes)
        }
        EditedLine::Cancelled => Ok(false),
    }
}

/// What the user has seen to the end.
#[derive(Debug, Default)]
struct ReadProgress {
    changes: bool,
    arguments: bool,
}

impl ReadProgress {
    /// Records the result of the pager, which shows changes and arguments.
    fn mark_read(&mut self, to_the_end: bool) {
        self.changes |= to_the_end;
        self.arguments |= to_the_end;
    }
}

/// Draws as much of the question as the screen holds, without the line of keys.
fn draw(
    prompt: &TerminalPrompt<'_>,
    question: &ApprovalRequest,
    arguments: &str,
    edited: bool,
    progress: &mut ReadProgress,
) -> PromptResult<()> {
    let head = layout::head(question, edited, prompt.size.0);
    // Two lines for the keys, and some of the text above stays visible.
    let rows = prompt.size.1.saturating_sub(head.len() + 5).max(2);
    for (n, line) in head.iter().enumerate() {
        prompt.frame_line(if n == 0 { "┌" } else { "│" }, line)?;
    }
    let note_hidden = |hidden: usize, subject: &str| -> PromptResult<()> {
        let note = format!("… {hidden} more lines{subject}, ↓ to read all");
        prompt.frame_line("│", &vec![span(note, SpanStyle::Dim)])
    };
    let mut short = argument_lines::lines(arguments, prompt.width(), false);
    if !layout::shows_arguments(question) {
        (short.lines, short.complete) = (Vec::new(), true);
    }
    let changes = layout::changes(question, prompt.width());
    let change_rows = rows.saturating_sub(short.lines.len()).max(rows / 2);
    let visible = changes.len().min(change_rows);
    for line in &changes[..visible] {
        prompt.frame_line("│", line)?;
    }
    if visible < changes.len() {
        note_hidden(changes.len() - visible, " of what has changed")?;
    }
    progress.changes |= visible == changes.len();
    let rows = rows - visible;
    let visible = short.lines.len().min(rows.max(1));
    for line in &short.lines[..visible] {
        prompt.frame_line("│", line)?;
    }
    if visible < short.lines.len() {
        note_hidden(short.lines.len() - visible, "")?;
    }
    progress.arguments |= short.complete && visible == short.lines.len();
    Ok(())
}

/// Writes trusted text as separate lines; a leading newline ends the line of keys first.
fn write_line(prompt: &TerminalPrompt<'_>, text: &str) -> PromptResult<()> {
    let rest = text.strip_prefix('\n');
    if rest.is_some() && !prompt.at_line_start() {
        prompt.write("\n")?;
    }
    let text = rest.unwrap_or(text);
    let text = span(one_line(text, 300), SpanStyle::Dim);
    for line in fold(&[text], prompt.size.0, 0) {
        let text: String = line.into_iter().map(|span| span.text).collect();
        prompt.write(&format!("{}\n", prompt.dim(&text)))?;
    }
    Ok(())
}

/// Result of editing the arguments.
enum EditResult {
    /// A JSON object in canonical form.
    Object(String),
    /// Text that is not a JSON object, and why.
    Invalid(String, String),
    /// The editor failed, with the message.
    Failed(String),
}

fn edit(prompt: &mut TerminalPrompt<'_>, run_dir: &Path, text: &str) -> PromptResult<EditResult> {
    let editor = crate::config::preferences::editor();
    let edited = prompt.lend(|tty| editor::edit(tty, run_dir, &editor, "arguments.json", text))?;
    Ok(match edited {
        Err(e) => EditResult::Failed(format!("{}; the arguments are unchanged", e.message)),
        Ok(text) => match canonical_arguments(&text) {
            Ok(new) => EditResult::Object(new),
            Err(reason) => {
                let message = format!(
                    "not a JSON object: {reason}; the arguments are unchanged, [e] corrects the text"
                );
                EditResult::Invalid(text, message)
            }
        },
    })
}

fn pretty(arguments: &str) -> String {
    let map = json_text::parse_object(arguments);
    match map.and_then(|map| serde_json::to_string_pretty(&map)) {
        Ok(text) => json_text::with_numbers(&text).unwrap_or(text) + "\n",
        Err(_) => arguments.to_string(),
    }
}

/// Returns the verdict to send for a question that ended without an answer, if the daemon waits for one.
pub fn verdict_without_answer(end: &PromptEnd) -> Option<ApprovalVerdict> {
    match end {
        PromptEnd::Interrupted => Some(ApprovalVerdict::Stop),
        PromptEnd::NoTerminal(_) => Some(ApprovalVerdict::NoTerminal),
        PromptEnd::DaemonGone
        | PromptEnd::Withdrawn
        | PromptEnd::AnsweredElsewhere(_)
        | PromptEnd::ClosedBefore => None,
    }
}
