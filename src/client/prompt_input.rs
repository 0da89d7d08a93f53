//! Input of a prompt: words, the editor, stdin and files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use super::attachments::{PromptAttachments, mentioned_files};
use super::editor;
use super::signals::{SignalPipes, drain};
use super::terminal::ControllingTty;
use crate::error::{Error, ErrorContext, ErrorKind, Result};

/// Where a prompt comes from.
#[derive(Debug)]
pub struct PromptSource<'a> {
    /// The words.
    pub words: &'a [OsString],
    /// Files to attach.
    pub files: &'a [PathBuf],
    /// The file behind the prompt, `< FILE`.
    pub input: Option<&'a Path>,
    /// The words are the prompt as typed, in one piece.
    pub unquoted: bool,
    /// The user edits the words first, in a file below this directory.
    pub edit_in: Option<&'a Path>,
    /// `@FILE` in what the user typed attaches the file.
    pub mentions: bool,
}

/// Reads the prompt, from stdin if there are no words, and its attachments.
///
/// # Errors
/// The prompt is empty, or a file cannot be attached.
pub fn read_prompt(source: &PromptSource<'_>) -> Result<(String, PromptAttachments)> {
    let mut attachments = PromptAttachments::new();
    for path in source.files {
        attachments.add(path)?;
    }
    let is_input = |path: &&Path| *path != Path::new("/dev/null");
    if let Some(path) = source.input.filter(is_input) {
        attachments.add_mentioned(path)?;
    }
    let words: Vec<_> = source.words.iter().map(|w| w.to_string_lossy()).collect();
    let mut text = words.join(" ");
    // A word with a blank was quoted or substituted, so its content may be that of a file: `llm "$(cat notes)"`.
    let typed = words
        .iter()
        .filter(|w| source.unquoted || !w.contains(char::is_whitespace));
    let mut typed = typed.map(|w| &**w).collect::<Vec<_>>().join(" ");
    let stdin = io::stdin();
    if let Some(run_dir) = source.edit_in {
        text = edit(run_dir, &text)?;
        typed.clone_from(&text);
    } else if stdin.is_terminal() && text.trim().is_empty() {
        text = read_typed_lines(&stdin)?;
        typed.clone_from(&text);
    }
    if !stdin.is_terminal() && stdin_has_data() {
        let read = attachments.read_text(stdin.lock(), "stdin")?;
        if text.trim().is_empty() && source.edit_in.is_none() {
            text = read;
        } else if !read.is_empty() {
            attachments.texts.push(crate::protocol::Attachment {
                name: "stdin".to_string(),
                text: read,
            });
        }
    }
    if text.trim().is_empty() {
        return Err(Error::usage("the prompt is empty").hint("try: llm why is the sky blue?"));
    }
    if source.mentions {
        for path in mentioned_files(&typed) {
            attachments.add_mentioned(&path)?;
        }
    }
    Ok((text, attachments))
}

/// Lets the user edit the prompt.
fn edit(run_dir: &Path, text: &str) -> Result<String> {
    let tty = ControllingTty::open().map_err(|_| {
        Error::usage("--edit needs a terminal").hint("give the prompt as words or on stdin")
    })?;
    let editor = crate::config::preferences::editor();
    // While the editor runs, Ctrl-C belongs to it.
    let _signals = SignalPipes::catch()?;
    editor::edit(&tty, run_dir, &editor, "prompt.md", text)
}

/// Reads a prompt from an inherited descriptor; the newline that zsh appends is not part of it.
///
/// # Errors
/// The descriptor is not open, or its text is too large.
pub fn read_descriptor(fd: u32) -> Result<String> {
    let name = format!("/dev/fd/{fd}");
    let file = File::open(&name).map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
    let mut text = PromptAttachments::new().read_text(file, "the prompt")?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Returns the command line as it was typed, from an inherited descriptor. Without one, it is looked for by its prompt.
pub fn read_line(fd: Option<u32>) -> Option<String> {
    let line = read_descriptor(fd?).ok()?;
    (!line.is_empty()).then_some(line)
}

/// Returns whether stdin is a file, pipe or socket. `/dev/null` and other devices are not input.
pub fn stdin_has_data() -> bool {
    let stdin = io::stdin();
    let Ok(file) = stdin.as_fd().try_clone_to_owned().map(File::from) else {
        return false;
    };
    file.metadata().is_ok_and(|m| {
        let kind = m.file_type();
        kind.is_file() || kind.is_fifo() || kind.is_socket()
    })
}

/// Reads a prompt of several lines from the terminal.
fn read_typed_lines(stdin: &io::Stdin) -> Result<String> {
    let _ = writeln!(
        io::stderr(),
        "Your prompt; end it with Ctrl-D on a line of its own:"
    );
    // Killed by SIGINT, this program would end the shell function that has started it with another exit code, on the typed line.
    let signals = SignalPipes::catch()?;
    let failed = || "cannot read the terminal".into();
    let input = stdin.as_fd().try_clone_to_owned().map(File::from);
    let mut input = input.context(failed)?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [signals.end.as_fd(), signals.stop.as_fd(), input.as_fd()].map(readable);
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            polled => polled.context(failed)?,
        };
        let [end, stop, typed] = fds.map(|fd| fd.any().unwrap_or(true));
        if end {
            // After the `^C` that the terminal has echoed.
            let _ = writeln!(io::stderr());
            return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        if stop {
            drain(&signals.stop);
            // Ctrl-Z. Returns after SIGCONT.
            let _ = raise(Signal::SIGSTOP);
        }
        if typed {
            match input.read(&mut buffer).context(failed)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                length => bytes.extend_from_slice(&buffer[..length]),
            }
        }
    }
}
