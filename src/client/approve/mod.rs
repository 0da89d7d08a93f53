//! May this tool be called? Asked on the person's terminal; what is shown is what is sent.
//!
//! A long text must have been read to its end before it can be approved, edited arguments are shown again
//! before they can be, and keys that were typed before the question stood count for nothing.

pub mod arguments;
mod editor;
pub mod pager;

use std::path::Path;

use serde_json::{Map, Value};

use self::arguments::lines;
use super::asking::{Answered, Asking, Happened, Key, Over, Typed};
use super::frame::{Bit, Ink, Line, bit, bits, columns, fold};
use crate::protocol::tools::{Question, ToolInfo, Verdict};
use crate::safety::alike;
use crate::safety::policy::canonical;
use crate::safety::text::one_line;

/// No wider, on a wide terminal: what belongs together is to be seen together.
const WIDEST: usize = 96;

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
    let mut seen = false;
    'anew: loop {
        for line in head(question, edited, asking.size.0) {
            asking.line(if line.first { "┌" } else { "│" }, &line.bits)?;
        }
        let short = lines(&arguments, asking.width(), false);
        let room = asking.size.1.saturating_sub(6).max(1);
        let shown = short.lines.len().min(room);
        for line in &short.lines[..shown] {
            asking.line("│", line)?;
        }
        if shown < short.lines.len() {
            let more = format!("… {} more lines, ↓ to read all", short.lines.len() - shown);
            asking.line("│", &vec![bit(more, Ink::Dim)])?;
        }
        seen |= short.whole && shown == short.lines.len();
        loop {
            keys(asking)?;
            let key = match asking.answer()? {
                Happened::Key(key) => key,
                Happened::Changed => {
                    asking.say("\n")?;
                    continue 'anew;
                }
            };
            let whole = |width: usize| lines(&arguments, width, true).lines;
            let verdict = match key {
                Key::Byte(b'y' | b'Y') => (Verdict::Once, "yes".to_string()),
                Key::Byte(b'a' | b'A') => (Verdict::Tool, "always for this session".to_string()),
                Key::Byte(b's' | b'S') => {
                    let word = format!("server for this session: {}", reach(question));
                    (Verdict::Reads, word)
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
                            (arguments, edited, seen) = (new, true, false);
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
                    pager::read(asking, &|width| details(question, width))?;
                    continue;
                }
                Key::Down | Key::Up | Key::Byte(b' ' | b'j' | b'k') => {
                    asking.say("\n")?;
                    seen |= pager::read(asking, &whole)?;
                    continue;
                }
                _ => {
                    say_line(asking, "\nthat is none of the keys; [?] explains them")?;
                    continue;
                }
            };
            let asks = !matches!(verdict.0, Verdict::No { .. });
            if asks && !seen {
                say_line(asking, "\nnot yet: read the arguments to their end first")?;
                seen |= pager::read(asking, &whole)?;
                continue;
            }
            asking.say(&format!("{}\n", verdict.1))?;
            return Ok((verdict.0, arguments));
        }
    }
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

/// The line of the keys.
fn keys(asking: &Asking<'_>) -> Answered<()> {
    const WIDE: [&str; 8] = [
        "run?",
        "[y]es ",
        "[n]o ",
        "[a]lways for this session ",
        "[s]erver for this session ",
        "[e]dit ",
        "[d]eny and tell the model why ",
        "[?]",
    ];
    // In fewer words, where the line would not hold them.
    const SHORT: [&str; 8] = [
        "run?",
        "[y]es ",
        "[n]o ",
        "[a]lways this session ",
        "[s]erver this session ",
        "[e]dit ",
        "[d]eny, say why ",
        "[?]",
    ];
    let wide = 1 + WIDE.iter().map(|key| 1 + key.len()).sum::<usize>();
    let words = if wide + 2 <= asking.size.0 {
        WIDE
    } else {
        SHORT
    };
    let mut out = asking.dim("└");
    let mut column = 1;
    for key in words {
        if column > 2 && column + 1 + key.trim_end().len() > asking.size.0.saturating_sub(2) {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        out.push_str(key);
        column += 1 + key.len();
    }
    out.push(' ');
    asking.say(&out)
}

/// A line of the head.
struct Head {
    bits: Line,
    first: bool,
}

/// What is to be called, and what its server says about it.
fn head(question: &Question, edited: bool, width: usize) -> Vec<Head> {
    let tool = &question.tool;
    let room = width.min(WIDEST).saturating_sub(2).max(1);
    let mut line = vec![bit(alike::name(&tool.name), Ink::Bold)];
    if question.of > 1 {
        line.push(bit(
            format!("  {} of {}", question.number, question.of),
            Ink::Dim,
        ));
    }
    if edited {
        line.push(bit("  edited", Ink::Dim));
    }
    let about = vec![bit(
        format!("{} · server {}", says(tool), alike::name(&tool.server)),
        Ink::Dim,
    )];
    let pad = room
        .checked_sub(columns(&line) + columns(&about))
        .filter(|pad| *pad > 1);
    let lines = match pad {
        Some(pad) => {
            line.push(bit(" ".repeat(pad), Ink::Plain));
            line.extend(about);
            fold(&line, room, 2)
        }
        None => {
            let mut lines = fold(&line, room, 2);
            lines.extend(fold(&about, room, 2));
            lines
        }
    };
    lines
        .into_iter()
        .enumerate()
        .map(|(n, bits)| Head {
            bits,
            first: n == 0,
        })
        .collect()
}

/// What the server says about a tool. Who says that it does no harm, and is not trusted, has that said.
fn says(tool: &ToolInfo) -> String {
    let both = tool.read_only == Some(true) && tool.destructive == Some(true);
    let does = match tool.read_only {
        Some(true) if !both => "reads",
        None => "writes?",
        _ => "writes",
    };
    let harm = match tool.destructive {
        Some(true) => " · destructive? yes",
        Some(false) => " · destructive? no",
        None if does == "reads" => "",
        None => " · destructive? unknown",
    };
    let claims = does == "reads" || tool.destructive == Some(false);
    let word = match claims && !tool.trusted {
        true => " (its word)",
        false => "",
    };
    format!("{does}{harm}{word}")
}

/// What the server's tools are, all of which would be allowed.
fn reach(question: &Question) -> String {
    let (total, writing) = question.server_tools;
    let word = match question.tool.trusted || writing == total {
        true => "",
        false => " (its word)",
    };
    let tools = if total == 1 {
        "1 tool".to_string()
    } else {
        format!("all {total} tools")
    };
    match writing {
        0 => format!("{tools}, which only read{word}"),
        n if n == total => format!("{tools}, which may write"),
        n => format!("{tools}, {n} of them may write{word}"),
    }
}

/// What the keys do, and all that is known about the tool.
fn details(question: &Question, width: usize) -> Vec<Line> {
    let tool = &question.tool;
    let mut lines = Vec::new();
    let mut put = |name: &str, text: &str| {
        for (n, part) in text.lines().enumerate() {
            let name = if n == 0 { name } else { "" };
            let mut line: Vec<Bit> = vec![bit(format!("{name:<17}"), Ink::Name)];
            line.extend(bits(alike::pieces(part), Ink::Plain));
            lines.extend(fold(&line, width, 17));
        }
    };
    let all = format!(
        "yes, and in this session to {} of this server",
        reach(question)
    );
    for (key, does) in [
        ("y", "yes, this once, with these arguments"),
        ("n, Enter", "no"),
        (
            "a",
            "yes, and in this session to this tool, whatever its arguments",
        ),
        ("s", &all),
        ("e", "edit the arguments, then be asked again"),
        ("d", "no, and the model is told why"),
        ("↓", "read the arguments to their end"),
        ("Ctrl-C", "no, and the turn ends"),
    ] {
        put(key, does);
    }
    put("server", &format!("{} at {}", tool.server, question.target));
    put("title", tool.title.as_deref().unwrap_or("none"));
    for (name, word) in tool.says() {
        put(name, word);
    }
    put(
        "description",
        match tool.description.as_str() {
            "" => "none",
            text => text,
        },
    );
    lines.push(vec![bit("schema", Ink::Name)]);
    lines.extend(arguments::json(&tool.schema.to_string(), width));
    lines
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
    let editor = crate::config::programs::editor();
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
