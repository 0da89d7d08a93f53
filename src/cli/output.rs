//! `aish-helper output`: the output of a command of the shell, as aish would send it.

use std::io::Write;

use serde::Serialize;

use super::args::OutputArgs;
use super::call::current_directory;
use super::{print, print_json};
use crate::client::connect;
use crate::client::terminal::tty_name;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::{Paths, terminal_variables};
use crate::protocol::{Request, TerminalOutput};
use crate::safety::text::one_line;

/// Maximum number of characters of a command in a line.
const MAX_COMMAND: usize = 60;

/// How sure aish is of an output.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Certainty {
    /// It is all of the command's output that the terminal shows.
    Whole,
    /// It is the end of the command's output; the beginning is no longer there.
    End,
    /// Lines may be missing, or belong to a prompt.
    Part,
    /// There is none, or it cannot be told from that of other commands.
    None,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct OutputView<'a> {
    command: Option<&'a str>,
    exit: Option<i32>,
    cwd: Option<&'a str>,
    started_ms: Option<u64>,
    source: Option<&'a str>,
    certainty: Certainty,
    lines: usize,
    secrets_removed: usize,
    /// The terminal may have reported some characters wrongly.
    characters_lost: bool,
    omitted_bytes: u64,
    output: Option<String>,
    /// Why there is no output.
    reason: Option<&'a str>,
}

/// Shows the output of a command. Returns 1 if there is none.
///
/// # Errors
/// The daemon cannot be reached, or there is no output; with `--json`, the reason is printed instead.
pub fn run(paths: &Paths, args: OutputArgs) -> Result<u8> {
    let request = Request::TerminalOutput {
        shell: args.shell,
        tty: tty_name(),
        terminal: terminal_variables(),
        command: args.command.get(),
        cwd: current_directory(),
        words: Some(words()),
    };
    let output = match connect::request::<TerminalOutput>(paths, &request) {
        Ok(output) => output,
        Err(e) if args.json && e.kind != ErrorKind::Interrupted => {
            print_json(&without(&e))?;
            return Ok(1);
        }
        Err(e) => return Err(e),
    };
    if args.json {
        print_json(&view(&output))?;
        return Ok(0);
    }
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", summary(&output));
    print(&text(&output))?;
    Ok(0)
}

/// Returns the words of the command line, by which the daemon finds it on the screen.
fn words() -> String {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.display().to_string()).collect();
    words.join(" ")
}

fn view(output: &TerminalOutput) -> OutputView<'_> {
    OutputView {
        command: Some(&output.command),
        exit: Some(output.exit),
        cwd: Some(&output.cwd),
        started_ms: Some(output.started_ms),
        source: Some(&output.source),
        certainty: match (output.is_tail, output.is_partial) {
            (true, _) => Certainty::End,
            (false, true) => Certainty::Part,
            (false, false) => Certainty::Whole,
        },
        lines: output.lines,
        secrets_removed: output.secrets,
        characters_lost: output.is_lossy,
        omitted_bytes: output.omitted,
        output: Some(text(output)),
        reason: None,
    }
}

fn without(e: &Error) -> OutputView<'_> {
    OutputView {
        command: None,
        exit: None,
        cwd: None,
        started_ms: None,
        source: None,
        certainty: Certainty::None,
        lines: 0,
        secrets_removed: 0,
        characters_lost: false,
        omitted_bytes: 0,
        output: None,
        reason: Some(&e.message),
    }
}

/// Returns the line about the output.
fn summary(output: &TerminalOutput) -> String {
    let command = one_line(&output.command, MAX_COMMAND);
    let (exit, source) = (output.exit, &output.source);
    let lines = match output.lines {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    };
    let mut summary = format!("{command}: exit {exit}, {lines} from {source}");
    if output.is_tail {
        summary.push_str("; the beginning is no longer in the scrollback");
    }
    if output.is_partial {
        summary.push_str("; lines may be missing or belong to a prompt");
    }
    if output.is_lossy {
        summary.push_str(&format!("; {source} loses characters beyond Latin-1"));
    }
    summary
}

/// Returns the text, with a line in place of the omitted part.
fn text(output: &TerminalOutput) -> String {
    let mut text = output.head.clone();
    if output.omitted > 0 {
        text.push_str(&format!("\n[… {} bytes left out …]\n", output.omitted));
        text.push_str(&output.tail);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}
