//! Chooses one line of a list on the terminal: with fzf if it is installed, otherwise by number.

use std::io::{IsTerminal, Read, Write};
use std::process::{Command, Stdio};

use crate::client::edit_line;
use crate::client::signals::SignalPipes;
use crate::client::styled_line::wrap_text;
use crate::client::terminal::{self, ControllingTty, wait_for_program};
use crate::client::text_format::cut;
use crate::error::{Error, ErrorContext, ErrorKind, Result};

/// Number of lines to choose from without fzf.
const MAX_NUMBERED: usize = 20;
/// fzf exits with these codes when nothing was chosen: no match, and Esc or Ctrl-C.
const NOTHING_CHOSEN: [i32; 2] = [1, 130];

/// Returns whether there is a terminal to choose on.
pub fn possible() -> bool {
    std::io::stdout().is_terminal() && ControllingTty::open().is_ok()
}

/// Returns the index of the line that the user chose. The lines have passed the text sink.
///
/// # Errors
/// The terminal is lost, or fzf failed.
pub fn pick(heading: &str, lines: &[String], action: &str) -> Result<Option<usize>> {
    match run_fzf(heading, lines, action)? {
        Some(chosen) => Ok(chosen),
        None => ask_number(heading, lines, action),
    }
}

/// Lets fzf choose. `None` if it is not installed.
fn run_fzf(heading: &str, lines: &[String], action: &str) -> Result<Option<Option<usize>>> {
    // While fzf runs, Ctrl-C belongs to it.
    let _signals = SignalPipes::catch()?;
    let spawned = Command::new("fzf")
        // Behind the user's own options, which may show a preview or read colours and commands from the lines.
        .args(["--no-multi", "--no-ansi", "--preview=", "--no-sort"])
        .args(["--height=40%", "--reverse", "--header-lines=1"])
        // The number before each line is its index, and is not shown.
        .args(["--delimiter=\t", "--with-nth=2.."])
        .arg(format!("--prompt={action}> "))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut fzf = match spawned {
        Err(_) => return Ok(None),
        Ok(fzf) => fzf,
    };
    let mut input = format!("\t{heading}\n");
    for (at, line) in lines.iter().enumerate() {
        input.push_str(&format!("{at}\t{}\n", line.replace(['\n', '\t'], " ")));
    }
    if let Some(mut stdin) = fzf.stdin.take() {
        // fzf may end before it has read everything.
        let _ = stdin.write_all(input.as_bytes());
    }
    let mut chosen = String::new();
    if let Some(mut stdout) = fzf.stdout.take() {
        let read = stdout.read_to_string(&mut chosen);
        read.context(|| "cannot read the output of fzf".into())?;
    }
    match wait_for_program(&fzf)? {
        0 => {
            let number = chosen.split('\t').next().unwrap_or_default();
            Ok(Some(number.parse().ok()))
        }
        code if NOTHING_CHOSEN.contains(&code) => Ok(Some(None)),
        code => Err(Error::runtime(format!("fzf failed with exit code {code}"))
            .hint("give the id of the session instead; see: llm :sessions")),
    }
}

fn ask_number(heading: &str, lines: &[String], action: &str) -> Result<Option<usize>> {
    let has_more = lines.len() > MAX_NUMBERED;
    let lines = &lines[..lines.len().min(MAX_NUMBERED)];
    let tty = ControllingTty::open()?;
    let width = terminal::size(&tty.file).0;
    let mut text = cut(&format!("    {heading}"), width) + "\n";
    for (at, line) in lines.iter().enumerate() {
        text.push_str(&cut(&format!("{:>2}  {line}", at + 1), width));
        text.push('\n');
    }
    if has_more {
        text.push_str("    older ones are named by their id: llm :sessions --limit 100\n");
    }
    let question = format!("{text}Number of the session to {action} (Enter: none): ");
    loop {
        let typed = ask(&question)?;
        match typed.trim() {
            "" => return Ok(None),
            number => match number.parse::<usize>() {
                Ok(n) if (1..=lines.len()).contains(&n) => return Ok(Some(n - 1)),
                _ => continue,
            },
        }
    }
}

/// Asks a question that only yes confirms, with the keys for it.
///
/// # Errors
/// As [`ask`].
pub fn confirms(question: &str) -> Result<bool> {
    let answer = ask(&format!("{question} [y/N], then Enter: "))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Asks for a line on the controlling terminal. Ctrl-D counts as an empty line. The question has passed the text sink.
///
/// # Errors
/// There is no terminal, or Ctrl-C was pressed.
pub fn ask(question: &str) -> Result<String> {
    let tty = ControllingTty::open().map_err(|_| {
        Error::new(ErrorKind::Approval, "there is no terminal to ask on")
            .hint("in a script, use --yes with the id")
    })?;
    let keys = tty.raw_keys()?;
    (&tty.file)
        .write_all(wrap_text(question, terminal::size(&tty.file).0, 2).as_bytes())
        .context(|| "cannot write to the terminal".into())?;
    Ok(edit_line::read(&tty, &keys, true)?.unwrap_or_default())
}
