//! The objects of recordings.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The recordings of a session's terminals.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordingList {
    /// The recordings, newest first.
    pub recordings: Vec<RecordingView>,
}

/// A recording of a terminal.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordingView {
    /// Its id.
    pub id: String,
    /// Time of its start in milliseconds since 1970.
    pub started_ms: u64,
    /// Its length in milliseconds.
    pub duration_ms: u64,
    /// Columns of the terminal at the start.
    pub cols: u16,
    /// Rows of the terminal at the start.
    pub rows: u16,
    /// How it was recorded.
    pub source: RecordingSourceWord,
    /// Whether it is still being recorded.
    pub is_recording: bool,
    /// The commands of the shell, in order.
    pub commands: Vec<RecordedCommandView>,
}

/// How a terminal was recorded: `relay`: by `aish-helper record`, or by a shell that it started; `tmux`: by tmux, from a pane;
/// `unknown`: by another version of aish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingSourceWord {
    /// By a relay between the terminal and the shell.
    Relay,
    /// By tmux.
    Tmux,
    /// By another version.
    Unknown,
}

/// A command in a recording.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordedCommandView {
    /// The command line, without secrets; absent if the history forgets it.
    pub text: Option<String>,
    /// When it began, in milliseconds since the start of the recording.
    pub start_ms: u64,
    /// How long it ran, in milliseconds; absent while it runs.
    pub duration_ms: Option<u64>,
    /// Its exit code.
    pub exit: Option<i32>,
}

/// Selects a recording.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecordingChoice {
    /// Id of the recording; by default the newest of the session.
    #[serde(default)]
    #[param(required = false, max_length = 64)]
    pub recording: Option<String>,
}
