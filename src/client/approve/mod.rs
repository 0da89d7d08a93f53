//! May this tool be called? Asked on the person's terminal; what is shown is what is sent.
//!
//! A long text must have been read to its end before it can be approved, and so must what has changed of a tool;
//! edited arguments are shown again before they can be, and keys that were typed before the question stood count
//! for nothing. A yes that outlives the session takes two keys.

pub mod arguments;
mod editor;
mod keys;
mod look;
pub mod pager;

use std::path::Path;

use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use self::arguments::lines;
use super::asking::{Answered, Asking, Happened, Key, Over, Typed};
use super::frame::{Ink, bit, fold};
use crate::protocol::tools::{Question, Verdict};
use crate::safety::policy::canonical;
use crate::safety::text::one_line;

/// Asks; what the person says, and the arguments as they were shown last.
///
/// # Errors
/// There was no answer.
pub fn ask(
    asking: &mut Asking<'_>,
    question: &Question,
    run: &Path,
) -> Answered<(Verdict, String)> {
    let result = stand(asking, question, run);
    if let Err(over) = &result {
        pager::ended(asking, over);
    }
    result
}

fn stand(asking: &mut Asking<'_>, question: &Question, run: &Path) -> Answered<(Verdict, String)> {
    let mut arguments = question.arguments.clone();
    // What was edited and is no object yet, so that it can be mended.
    let mut draft = None;
    let mut edited = false;
    let mut seen = Seen::default();
    'anew: loop {
        draw(asking, question, &arguments, edited, &mut seen)?;
        loop {
            let line = keys::line(asking, question);
            asking.say(&line)?;
            let key = match asking.answer()? {
                Happened::Key(key) => key,
                Happened::Changed => {
                    asking.say("\n")?;
                    continue 'anew;
                }
            };
            // What is still to be read, or all of it once more.
            let change = !seen.change || seen.arguments;
            let whole = |width: usize| {
                let mut all = match change {
                    true => look::changes(question, width),
                    false => Vec::new(),
                };
                all.extend(lines(&arguments, width, true).lines);
                all
            };
            let verdict = match key {
                Key::Byte(b'y' | b'Y') => (Verdict::Once, "yes".to_string()),
                Key::Byte(byte @ (b't' | b'T' | b'r' | b'R' | b'A' | b'a')) => {
                    match keys::beyond(byte, question) {
                        Ok(verdict) => verdict,
                        Err(why) => {
                            say_line(asking, &format!("\n{why}"))?;
                            continue;
                        }
                    }
                }
                // Enter alone is no: it is the key that is pressed without reading.
                Key::Byte(b'n' | b'N' | b'\r' | b'\n' | 4) => {
                    (Verdict::No { words: None }, "no".to_string())
                }
                Key::Byte(b'd' | b'D') => {
                    asking.say("deny\nwhy? (Enter: without words, Esc: back)\n> ")?;
                    match asking.typed("")? {
                        Typed::Line(words) => {
                            let words = Some(words.trim().to_string()).filter(|w| !w.is_empty());
                            return Ok((Verdict::No { words }, arguments));
                        }
                        Typed::None => continue,
                    }
                }
                Key::Byte(b'e' | b'E') => {
                    asking.say("edit\n")?;
                    let text = draft.take().unwrap_or_else(|| pretty(&arguments));
                    match edit(asking, run, &text)? {
                        Edited::As(new) if new != canonical(&arguments).unwrap_or_default() => {
                            (arguments, edited, seen.arguments) = (new, true, false);
                            continue 'anew;
                        }
                        Edited::As(_) => say_line(asking, "nothing has changed")?,
                        Edited::Broken(text, why) => {
                            draft = Some(text);
                            say_line(asking, &why)?;
                        }
                        Edited::Failed(why) => say_line(asking, &why)?,
                    }
                    continue 'anew;
                }
                Key::Byte(b'?') => {
                    asking.say("?\n")?;
                    pager::read(asking, &|width| look::details(question, width))?;
                    continue;
                }
                Key::Down | Key::Up | Key::Byte(b' ' | b'j' | b'k') => {
                    asking.say("\n")?;
                    seen.read(pager::read(asking, &whole)?);
                    continue;
                }
                _ => {
                    say_line(asking, "\nthat is none of the keys; [?] explains them")?;
                    continue;
                }
            };
            let asks = !matches!(verdict.0, Verdict::No { .. });
            if asks && !(seen.change && seen.arguments) {
                let what = match seen.change {
                    true => "the arguments to their end",
                    false => "what has changed, and the arguments, to the end",
                };
                say_line(asking, &format!("\nnot yet: read {what} first"))?;
                seen.read(pager::read(asking, &whole)?);
                continue;
            }
            if verdict.0 == Verdict::Always {
                say_line(asking, &format!("\n{}", keys::forever(question)))?;
                asking.say(&format!("{} {}", asking.dim("└"), keys::AGAIN))?;
                match asking.answer()? {
                    Happened::Key(Key::Byte(b'A')) => {}
                    Happened::Key(_) => {
                        asking.say("back\n")?;
                        continue;
                    }
                    Happened::Changed => {
                        asking.say("\n")?;
                        continue 'anew;
                    }
                }
            }
            match verdict.0 != Verdict::Always
                && asking.size.0 < keys::end(&line) + verdict.1.width()
            {
                true => say_line(asking, &format!("\n{}", verdict.1))?,
                false => asking.say(&format!("{}\n", verdict.1))?,
            }
            return Ok((verdict.0, arguments));
        }
    }
}

/// What the person has seen to its end.
#[derive(Debug, Default)]
struct Seen {
    change: bool,
    arguments: bool,
}

impl Seen {
    /// All was read, or not.
    fn read(&mut self, all: bool) {
        self.change |= all;
        self.arguments |= all;
    }
}

/// Draws the question, but for its keys: as much of it as the screen holds.
fn draw(
    asking: &Asking<'_>,
    question: &Question,
    arguments: &str,
    edited: bool,
    seen: &mut Seen,
) -> Answered<()> {
    let head = look::head(question, edited, asking.size.0);
    // The keys take two lines, and what stood there before is to be seen too.
    let room = asking.size.1.saturating_sub(head.len() + 5).max(2);
    for (n, line) in head.iter().enumerate() {
        asking.line(if n == 0 { "┌" } else { "│" }, line)?;
    }
    let more = |rest: usize, what: &str| -> Answered<()> {
        let more = format!("… {rest} more lines{what}, ↓ to read all");
        asking.line("│", &vec![bit(more, Ink::Dim)])
    };
    let short = lines(arguments, asking.width(), false);
    let change = look::changes(question, asking.width());
    let most = room.saturating_sub(short.lines.len()).max(room / 2);
    let shown = change.len().min(most);
    for line in &change[..shown] {
        asking.line("│", line)?;
    }
    if shown < change.len() {
        more(change.len() - shown, " of what has changed")?;
    }
    seen.change |= shown == change.len();
    let room = room - shown;
    let shown = short.lines.len().min(room.max(1));
    for line in &short.lines[..shown] {
        asking.line("│", line)?;
    }
    if shown < short.lines.len() {
        more(short.lines.len() - shown, "")?;
    }
    seen.arguments |= short.whole && shown == short.lines.len();
    Ok(())
}

/// A line in words of our own.
fn say_line(asking: &Asking<'_>, text: &str) -> Answered<()> {
    let (before, text) = match text.strip_prefix('\n') {
        Some(text) => ("\n", text),
        None => ("", text),
    };
    asking.say(before)?;
    for line in fold(&[bit(one_line(text, 300), Ink::Dim)], asking.size.0, 0) {
        let text: String = line.into_iter().map(|b| b.text).collect();
        asking.say(&format!("{}\n", asking.dim(&text)))?;
    }
    Ok(())
}

/// What came of an edit.
enum Edited {
    /// An object, in its canonical form.
    As(String),
    /// No object: the text, and why.
    Broken(String, String),
    /// The editor failed.
    Failed(String),
}

fn edit(asking: &mut Asking<'_>, run: &Path, text: &str) -> Answered<Edited> {
    let editor = crate::config::preferences::editor();
    let done = asking.lend(|tty| editor::edit(tty, run, &editor, text))?;
    Ok(match done {
        Err(e) => Edited::Failed(format!("{}; the arguments are as before", e.message)),
        Ok(text) => match canonical(&text) {
            Ok(new) => Edited::As(new),
            Err(why) => {
                let why = format!(
                    "that is no JSON object: {why}; the arguments are as before, [e] mends it"
                );
                Edited::Broken(text, why)
            }
        },
    })
}

fn pretty(arguments: &str) -> String {
    let map = serde_json::from_str::<Map<String, Value>>(arguments);
    match map.and_then(|map| serde_json::to_string_pretty(&map)) {
        Ok(text) => text + "\n",
        Err(_) => arguments.to_string(),
    }
}

/// How a question ended, where it had no answer.
pub fn verdict(over: &Over) -> Option<Verdict> {
    match over {
        Over::Stop => Some(Verdict::Stop),
        Over::NoTerminal(_) => Some(Verdict::NoTerminal),
        Over::Gone | Over::Withdrawn => None,
    }
}
