//! Records a pane of tmux: `aish-helper record-pane`, which tmux starts with the output of the pane as stdin.
//!
//! What is not read here grows in the server of tmux without bound, so this process always reads, whatever the disk does. It
//! does not know the daemon.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use rustix::termios::tcgetwinsize;

use super::connect;
use super::mark_nonce::NonceNotices;
use super::relay::reads_unseen;
use crate::error::Result;
use crate::protocol::ShellId;
use crate::recording::event::{GapReason, RecordingSource, RecordingStart, VERSION};
use crate::recording::marks::{Mark, MarkParser, OutputPart};
use crate::recording::recorder::{Recorder, now_ms};
use crate::recording::writer::RecordingWriter;

/// Size of the buffer of the output.
const OUTPUT: usize = 64 << 10;

/// A pane to record.
#[derive(Debug, Clone)]
pub struct RecordedPane {
    /// Directory of the recordings.
    pub recordings: PathBuf,
    /// Maximum size of the recording.
    pub max_bytes: u64,
    /// The shell that runs in the pane.
    pub shell: ShellId,
    /// The file of the notices for the shell.
    pub notice: PathBuf,
    /// The terminal of the pane.
    pub tty: PathBuf,
    /// `TERM` in the pane.
    pub term: String,
}

/// Records the pane until it is closed, its shell exits, or `is_off` says that panes are no longer recorded, which is asked for all
/// output.
///
/// # Errors
/// The recording cannot be created.
pub fn run(pane: &RecordedPane, is_off: &mut dyn FnMut() -> bool) -> Result<()> {
    // Sockets of the server of tmux must not stay open.
    connect::close_inherited();
    let mut size = pane_size(&pane.tty).unwrap_or((80, 24));
    let start = RecordingStart {
        version: VERSION,
        id: uuid::Uuid::now_v7().to_string(),
        ms: now_ms(),
        cols: size.0,
        rows: size.1,
        term: pane.term.clone(),
        shell: Some(pane.shell.clone()),
        source: RecordingSource::Tmux,
        tty: pane.tty.display().to_string(),
        relay_tty: String::new(),
        command: None,
    };
    let writer = RecordingWriter::create(&pane.recordings, &start, pane.max_bytes)?;
    let mut recorder = Recorder::start(writer)?;
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let mut parser = MarkParser::new(&nonce);
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; OUTPUT];
    // Before the first mark it is not known which commands the history forgets.
    let mut knows_commands = false;
    let mut left = false;
    // Shells that run in the first one.
    let mut others = 0_usize;
    let mut notices = NonceNotices::new(pane.notice.parent().map(Path::to_owned), nonce);
    notices.leave(&pane.shell);
    while !left {
        let length = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if is_off() {
            break;
        }
        let terminal = open_terminal(&pane.tty);
        if let Some(now) = terminal.as_ref().ok().and_then(size_of)
            && now != size
        {
            size = now;
            recorder.resize(size.0, size.1);
        }
        let is_secret = terminal.is_ok_and(|terminal| reads_unseen(&terminal));
        let bytes = buffer.get(..length).unwrap_or_default();
        parser.push(bytes, &mut |part| match part {
            OutputPart::Bytes(bytes) => {
                let left_out = match (knows_commands, is_secret) {
                    (false, _) => Some(GapReason::NotInHistory),
                    (_, true) => Some(GapReason::EchoOff),
                    _ => None,
                };
                recorder.output(bytes, left_out);
            }
            OutputPart::Mark(mark) => {
                match &mark {
                    Mark::Hello(shell) => {
                        others += usize::from(!notices.knows_process(shell));
                        notices.leave(shell);
                    }
                    Mark::Bye if others > 0 => others -= 1,
                    Mark::Bye => left = true,
                    _ => knows_commands = true,
                }
                recorder.mark(mark);
            }
        });
    }
    recorder.output(&parser.finish(), None);
    recorder.end(None, !left);
    if !left && open_terminal(&pane.tty).is_ok() {
        // The user has closed the pipe or has put another program in its place, which must not get marks; or panes are no longer
        // recorded.
        notices.withdraw();
    }
    Ok(())
}

/// Opens the terminal of the pane for a moment: kept open, it would not be closed when the shell exits.
fn open_terminal(tty: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(O_NOCTTY | O_NONBLOCK)
        .open(tty)
}

fn pane_size(tty: &Path) -> Option<(u16, u16)> {
    size_of(&open_terminal(tty).ok()?)
}

fn size_of(terminal: &File) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
