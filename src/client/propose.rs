//! The question about a proposed command, asked on the person's terminal.
//!
//! What is shown is what runs. A command longer than the screen must be read to
//! its end before it can be accepted, and keys typed before the question count for nothing.

use std::io::{IsTerminal, Write};

use super::connect;
use super::frame::{Ink, Line, bit, paint, wrap};
use super::terminal::{self, INTERRUPT, Tty};
use crate::config::env_overrides;
use crate::error::{Context, Error, Kind, Result};
use crate::paths::Paths;
use crate::protocol::{Choice, Decided, Proposal, Request, ShellId};
use crate::safety::text::{Shown, one_line, strict, strict_pieces};

/// The most that is shown of where a rule stands.
const RULE: usize = 1000;

/// What the zsh function is told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it; `terminal`: with the terminal for itself.
    Run {
        /// The proposal.
        token: String,
        /// The command, exactly as shown.
        command: String,
        /// Its output is not captured.
        terminal: bool,
    },
    /// Let the person edit it, then ask again.
    Edit(String, String),
    /// Put it in the edit buffer.
    Insert(String, String),
    /// It was refused; the next one may come.
    No(String),
    /// It and the rest were refused.
    Quit,
    /// Nothing waits.
    None,
}

impl Verdict {
    /// What goes to the zsh function: a line of words, and the command where there is one.
    pub fn lines(&self) -> String {
        match self {
            Verdict::Run {
                token,
                command,
                terminal,
            } => {
                format!(
                    "run {token} {}\n{command}",
                    if *terminal { "terminal" } else { "capture" }
                )
            }
            Verdict::Edit(token, command) => format!("edit {token}\n{command}"),
            Verdict::Insert(token, command) => format!("insert {token}\n{command}"),
            Verdict::No(token) => format!("no {token}"),
            Verdict::Quit => "quit".to_string(),
            Verdict::None => "none".to_string(),
        }
    }
}

/// Asks about the next proposal of a shell, or about it as the person has edited it.
///
/// # Errors
/// There is no terminal (exit code 4), or the daemon could not record the answer.
pub fn propose(
    paths: &Paths,
    shell: &ShellId,
    cwd: &str,
    edited: Option<(String, String)>,
) -> Result<Verdict> {
    let overrides = env_overrides()?;
    let request = Request::NextProposal {
        shell: shell.clone(),
        cwd: cwd.to_string(),
        overrides: overrides.clone(),
    };
    let Some(proposal) = connect::request::<Option<Proposal>>(paths, &request)? else {
        return Ok(Verdict::None);
    };
    if let Some(rule) = &proposal.denied {
        let command = strict(&proposal.command);
        let rule = one_line(rule, RULE);
        let line = format!("[aish] not offered, since {rule} says deny: {command}\n");
        // There is nowhere else to say that stderr is closed.
        let _ = std::io::stderr().write_all(line.as_bytes());
        return Ok(Verdict::No(proposal.token));
    }
    let (command, fresh) = match edited {
        Some((token, text)) if token == proposal.token => (text, false),
        Some(_) => return Err(Error::runtime("this proposal is no longer waiting")),
        None => (proposal.command.clone(), true),
    };
    let token = proposal.token.clone();
    let asked = proposal.confirm || !fresh;
    let decide = |choice| -> Result<Decided> {
        let request = Request::Decide {
            shell: shell.clone(),
            token: token.clone(),
            choice,
            command: command.clone(),
            cwd: cwd.to_string(),
            asked,
            overrides: overrides.clone(),
        };
        connect::request(paths, &request)
    };
    let key = if command.trim().is_empty() {
        Key::No
    } else if asked {
        match question(&proposal, &command) {
            // Ctrl-C is the word on the rest of them too.
            Err(e) if e.kind == Kind::Interrupted => {
                decide(Choice::Quit)?;
                return Err(e);
            }
            key => key?,
        }
    } else {
        // A rule of the person's allows it, or confirm_cmd = false; without a terminal nothing is run all the same.
        Tty::open()?;
        Key::Yes
    };
    Ok(match key {
        Key::Yes => {
            let decided = decide(Choice::Run)?;
            Verdict::Run {
                token,
                command,
                terminal: decided.terminal,
            }
        }
        Key::Edit => Verdict::Edit(token, command),
        Key::Insert => {
            decide(Choice::Insert)?;
            Verdict::Insert(token, command)
        }
        Key::No => {
            decide(Choice::No)?;
            Verdict::No(token)
        }
        Key::Quit => {
            decide(Choice::Quit)?;
            Verdict::Quit
        }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Yes,
    Edit,
    Insert,
    No,
    Quit,
}

/// Draws the question and waits for its answer.
fn question(proposal: &Proposal, command: &str) -> Result<Key> {
    let tty = Tty::open()?;
    let color = tty.file.is_terminal() && terminal::colors(&tty.file);
    let (width, height) = terminal::size(&tty.file);
    let say = |text: &[u8]| {
        (&tty.file)
            .write_all(text)
            .context(|| "cannot write to the terminal".into())
    };
    let (bold, dim, plain) = if color {
        ("\x1b[1m", "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    };

    let mut head = format!("{dim}┌{plain} {bold}run this command?{plain}");
    if proposal.of > 1 {
        head.push_str(&format!(
            "{dim}  {} of {}{plain}",
            proposal.number, proposal.of
        ));
    }
    say(format!("{head}\n").as_bytes())?;

    let lines = lines(command, width.saturating_sub(2));
    let page = height.saturating_sub(4).max(1);
    let mut keys = tty.keys()?;
    let mut shown = 0;
    loop {
        for line in lines.iter().skip(shown).take(page) {
            let mut out = format!("{dim}│{plain} ");
            paint(line, color, &mut out);
            out.push('\n');
            say(out.as_bytes())?;
        }
        shown = (shown + page).min(lines.len());
        let left = lines.len() - shown;
        if left == 0 {
            break;
        }
        say(format!("{dim}└{plain} {left} more lines: [space] read on  [n]o  [q]uit ").as_bytes())?;
        if keys.settle()? {
            return interrupted(&say);
        }
        loop {
            match keys.read()? {
                b' ' | b'j' | b'f' => break,
                b'n' | b'N' | b'\n' | b'\r' => {
                    say(b"no\n")?;
                    return Ok(Key::No);
                }
                b'q' | b'Q' | 4 => {
                    say(b"quit\n")?;
                    return Ok(Key::Quit);
                }
                INTERRUPT => return interrupted(&say),
                _ => {}
            }
        }
        say(b"\n")?;
    }
    say(
        format!("{dim}└{plain} [y]es run  [e]dit  [i]nsert in the prompt  [n]o  [q]uit ")
            .as_bytes(),
    )?;
    if keys.settle()? {
        return interrupted(&say);
    }
    loop {
        let (key, word) = match keys.read()? {
            b'y' | b'Y' => (Key::Yes, "yes"),
            b'e' | b'E' => (Key::Edit, "edit"),
            b'i' | b'I' => (Key::Insert, "insert"),
            // Enter alone is no: it is the key that is pressed without reading.
            b'n' | b'N' | b'\n' | b'\r' => (Key::No, "no"),
            b'q' | b'Q' | 4 => (Key::Quit, "quit"),
            INTERRUPT => return interrupted(&say),
            _ => continue,
        };
        say(format!("{word}\n").as_bytes())?;
        return Ok(key);
    }
}

fn interrupted(say: &dyn Fn(&[u8]) -> Result<()>) -> Result<Key> {
    say(b"\n")?;
    Err(Error::new(
        Kind::Interrupted,
        "interrupted; nothing was run",
    ))
}

/// The command in lines of `width` columns; a newline in it is marked and then also breaks the line.
fn lines(command: &str, width: usize) -> Vec<Line> {
    let mut bits = Vec::new();
    for piece in strict_pieces(command) {
        match piece {
            Shown::Text(text) => bits.push(bit(text, Ink::Bold)),
            Shown::Mark(mark) => {
                let end = mark.contains("\\n");
                bits.push(bit(mark, Ink::Mark));
                bits.extend(end.then(|| bit("\n", Ink::Plain)));
            }
        }
    }
    wrap(&bits, width, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_is_marked_and_ends_a_line() {
        let text: Vec<String> = lines("a\nb\n", 80)
            .iter()
            .map(|l| l.iter().map(|b| b.text.as_str()).collect())
            .collect();
        assert_eq!(text, ["a‹\\n›", "b‹\\n›"]);
    }

    #[test]
    fn a_verdict_carries_the_command_untouched() {
        let verdict = Verdict::Run {
            token: "t".into(),
            command: "echo  'a\nb'".into(),
            terminal: false,
        };
        assert_eq!(verdict.lines(), "run t capture\necho  'a\nb'");
    }
}
