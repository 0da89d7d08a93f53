//! `aish-helper session copy`: the last answer goes to the clipboard, through a program or the terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{last_answer, print};
use crate::client::terminal::ControllingTty;
use crate::client::text_format::grouped;
use crate::config::preferences;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::ShellId;
use crate::safety::text::prose;

/// Most bytes sent to the terminal. Many terminals ignore an OSC 52 sequence of more than 100,000 characters.
const MAX_OSC_52: usize = 74_994;

/// Copies the text of the last answer.
///
/// # Errors
/// There is no answer, or neither a program nor the terminal takes it.
pub fn copy_last(paths: &Paths, shell: Option<ShellId>) -> Result<()> {
    let records = last_answer::fetch_last(paths, shell)?;
    let texts = records.iter().filter(|r| r["type"] == "assistant");
    let texts: Vec<&str> = texts.filter_map(|r| r["text"].as_str()).collect();
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return Err(Error::usage("no answer yet").hint("try: llm why is the sky blue?"));
    }
    // Exactly the shown text is copied: a pasted escape sequence could run something.
    let text = prose(text.trim_end());
    let place = match preferences::clipboard_programs()
        .iter()
        .find(|command| run(command, &text))
    {
        Some(command) => command[0],
        None => {
            send_to_terminal(&text)?;
            "the terminal (OSC 52)"
        }
    };
    let characters = grouped(text.chars().count() as u64);
    print(&format!(
        "copied the last answer with {place}: {characters} characters\n"
    ))
}

/// Gives the text to a clipboard program; `false` if it is not installed or fails.
fn run(command: &[&str], text: &str) -> bool {
    let spawned = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        // These programs leave a process behind that owns the clipboard; it must not hold the terminal.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut program) = spawned else {
        return false;
    };
    let written = program
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(text.as_bytes()));
    let ended = program.wait();
    written.is_some_and(|w| w.is_ok()) && ended.is_ok_and(|status| status.success())
}

/// Sends the text to the terminal's clipboard.
fn send_to_terminal(text: &str) -> Result<()> {
    const HINT: &str = "install wl-copy, xclip or pbcopy, or see the text with: llm :last";
    if text.len() > MAX_OSC_52 {
        return Err(Error::usage("the answer is too long for the terminal's clipboard").hint(HINT));
    }
    let tty = ControllingTty::open().map_err(|_| {
        Error::runtime("no clipboard program works, and there is no terminal").hint(HINT)
    })?;
    (&tty.file)
        .write_all(format!("\x1b]52;c;{}\x07", STANDARD.encode(text)).as_bytes())
        .context(|| "cannot write to the terminal".into())
}
