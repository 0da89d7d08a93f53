//! The types of `events.jsonl` in a recording.
//!
//! Each line is a [`RecordingLine`]: one event with its time and its place in the file `output`. The first line is
//! [`RecordingEvent::Start`]. Readers ignore unknown kinds and fields, and a torn last line.

use serde::{Deserialize, Serialize};

use crate::protocol::ShellId;

/// Version of the format, in [`RecordingStart::version`].
pub const VERSION: u32 = 1;

/// Name of the file with the raw bytes that the terminal got, without aish's own marks.
pub const OUTPUT_FILE: &str = "output";

/// Name of the file with the events, one [`RecordingLine`] of JSON per line.
pub const EVENTS_FILE: &str = "events.jsonl";

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingLine {
    /// Microseconds since the start, by a monotonic clock; never decreasing.
    #[serde(default)]
    pub us: u64,
    /// Length of `output` when the event happened.
    #[serde(default)]
    pub offset: u64,
    /// The event.
    #[serde(flatten)]
    pub event: RecordingEvent,
}

/// An event in the recorded terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordingEvent {
    /// The recording began: the first line.
    Start(RecordingStart),
    /// The terminal got bytes: they are in `output` at the line's offset.
    Output {
        /// Number of bytes.
        bytes: u64,
    },
    /// The terminal has a new size.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// A program entered or left the alternate screen.
    AlternateScreen {
        /// Whether the alternate screen is shown from here on.
        on: bool,
    },
    /// Bytes were left out here. The line is where the gap ends.
    Gap {
        /// Why they were left out.
        reason: GapReason,
        /// Number of bytes that were left out.
        bytes: u64,
    },
    /// A command of the shell is about to run.
    CommandStart {
        /// `SHELL@STARTED_MS`, as in the journal.
        command_id: String,
        /// The command line; `None` if the history forgets it.
        text: Option<String>,
    },
    /// The command ended.
    CommandEnd {
        /// Same as in the [`RecordingEvent::CommandStart`].
        command_id: String,
        /// The command's exit code.
        exit: i32,
    },
    /// The shell is about to draw its prompt.
    Prompt,
    /// The recording ended.
    End {
        /// Exit code of the recorded command, if known.
        exit: Option<i32>,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// The first event of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingStart {
    /// [`VERSION`].
    pub version: u32,
    /// Id of the recording (UUIDv7), also the name of its directory.
    pub id: String,
    /// Start time, in milliseconds since 1970.
    pub ms: u64,
    /// Columns of the terminal.
    pub cols: u16,
    /// Rows of the terminal.
    pub rows: u16,
    /// `TERM`; empty if unset.
    #[serde(default)]
    pub term: String,
    /// The recorded shell, if known at the start.
    #[serde(default)]
    pub shell: Option<ShellId>,
    /// How the output was recorded.
    pub source: RecordingSource,
    /// The recorded terminal, `/dev/pts/3`.
    #[serde(default)]
    pub tty: String,
    /// The terminal that a relay runs in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub relay_tty: String,
    /// The command of `record -- COMMAND`.
    #[serde(default)]
    pub command: Option<Vec<String>>,
}

/// How output was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingSource {
    /// By the relay of `aish-helper record`.
    Relay,
    /// By a tmux `pipe-pane`.
    Tmux,
    /// By a later version.
    #[serde(other)]
    Unknown,
}

/// Why bytes were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The terminal did not echo input, as at a password prompt.
    EchoOff,
    /// The history forgets the command.
    NotInHistory,
    /// The disk was slower than the output.
    Dropped,
    /// The disk was full or could not be written.
    DiskFull,
    /// The recording reached its maximum size.
    Limit,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> RecordingLine {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn lines_have_the_agreed_form() {
        let line = |event| {
            let line = RecordingLine {
                us: 5,
                offset: 7,
                event,
            };
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(parsed(&text), line);
            text
        };
        assert_eq!(
            line(RecordingEvent::Gap {
                reason: GapReason::NotInHistory,
                bytes: 3
            }),
            r#"{"us":5,"offset":7,"type":"gap","reason":"not_in_history","bytes":3}"#
        );
        assert_eq!(
            line(RecordingEvent::CommandStart {
                command_id: "7-1@2".into(),
                text: None
            }),
            r#"{"us":5,"offset":7,"type":"command_start","command_id":"7-1@2","text":null}"#
        );
        assert_eq!(
            line(RecordingEvent::Prompt),
            r#"{"us":5,"offset":7,"type":"prompt"}"#
        );
    }

    #[test]
    fn unknown_kinds_and_fields_are_ignored() {
        let line = parsed(r#"{"us":1,"offset":2,"type":"bell","loud":true}"#);
        assert_eq!(line.event, RecordingEvent::Unknown);
        let line = parsed(r#"{"us":1,"offset":2,"type":"gap","reason":"war","bytes":9,"x":1}"#);
        assert_eq!(
            line.event,
            RecordingEvent::Gap {
                reason: GapReason::Unknown,
                bytes: 9
            }
        );
        let start =
            r#"{"type":"start","version":1,"id":"a","ms":1,"cols":80,"rows":24,"source":"relay"}"#;
        assert!(matches!(parsed(start).event, RecordingEvent::Start(_)));
    }
}
