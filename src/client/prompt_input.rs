//! Input of a prompt: words, stdin and files.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use crate::error::{Error, ErrorContext, Result};
use crate::protocol::Attachment;

/// Most bytes of a prompt with its attachments.
const MAX_BYTES: u64 = 24 << 20;

/// Reads the prompt, from stdin if there are no words, and its attachments.
///
/// # Errors
/// The prompt is empty, or a file cannot be read as text.
pub fn read_prompt(words: &str, files: &[PathBuf]) -> Result<(String, Vec<Attachment>)> {
    let mut attachments = Vec::new();
    let mut left = MAX_BYTES;
    for path in files {
        let file = File::open(path)
            .map_err(|e| Error::usage(format!("cannot read {}: {e}", path.display())))?;
        let text = read_text(file, &path.display().to_string(), &mut left)?;
        attachments.push(Attachment {
            name: path.display().to_string(),
            text,
        });
    }
    let stdin = io::stdin();
    let mut text = words.to_string();
    if stdin.is_terminal() {
        if text.trim().is_empty() {
            text = read_typed_lines(&stdin)?;
        }
    } else if stdin_has_data() {
        let read = read_text(stdin.lock(), "stdin", &mut left)?;
        if text.trim().is_empty() {
            text = read;
        } else if !read.is_empty() {
            attachments.push(Attachment {
                name: "stdin".to_string(),
                text: read,
            });
        }
    }
    if text.trim().is_empty() {
        return Err(Error::usage("the prompt is empty").hint("try: llm why is the sky blue?"));
    }
    Ok((text, attachments))
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

fn read_text(reader: impl Read, name: &str, left: &mut u64) -> Result<String> {
    let mut bytes = Vec::new();
    reader
        .take(*left + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
    if bytes.len() as u64 > *left {
        return Err(Error::usage(format!(
            "{name} is too large: a prompt takes at most {} MB",
            MAX_BYTES >> 20
        ))
        .hint("attach the part that matters, for example with head or grep"));
    }
    *left -= bytes.len() as u64;
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return Err(Error::usage(format!("{name} is not text")).hint("attach a text file"));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Reads a prompt of several lines from the terminal.
fn read_typed_lines(stdin: &io::Stdin) -> Result<String> {
    let _ = writeln!(
        io::stderr(),
        "Your prompt; end it with Ctrl-D on a line of its own:"
    );
    let mut bytes = Vec::new();
    stdin
        .lock()
        .read_to_end(&mut bytes)
        .context(|| "cannot read the terminal".into())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
