//! Parts of records.

use serde::{Deserialize, Serialize};

/// Sent to the model in place of the result of a call that was cancelled, or during which the daemon ended.
pub const INTERRUPTED: &str = "[no result: interrupted]";

use super::{RecordBody, names};
use crate::chat::{DataSensitivity, FinishReason, OperationClass};

/// A tool call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Id within the session.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// Arguments as sent by the model; not necessarily valid JSON.
    pub arguments: String,
    /// Data that the provider requires back with the call, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
}

/// Purpose of a call as declared by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedIntent {
    /// Operation class.
    #[serde(deserialize_with = "names::operation")]
    pub operation_type: OperationClass,
    /// Sensitivity of the data.
    #[serde(
        default,
        deserialize_with = "names::sensitivity",
        skip_serializing_if = "Option::is_none"
    )]
    pub data_sensitivity: Option<DataSensitivity>,
    /// Reason in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// The first part, or all.
    pub head: String,
    /// The last part, where bytes between were left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// Bytes left out between.
    #[serde(default)]
    pub omitted: u64,
}

/// The output of a command of the user that was sent with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOrigin {
    /// The command line.
    pub command: String,
    /// When the command started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Source of the output, such as `tmux`.
    pub source: String,
    /// The number of lines.
    pub lines: usize,
}

/// A file that a tool has read or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Its absolute path.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal; `None` for one that is gone.
    pub sha256: Option<String>,
    /// The model knows all of its text: it has read the file or written the whole of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
}

/// A prompt pack that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedPack {
    /// Its name.
    pub name: String,
    /// The version that it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 over its texts, in hexadecimal.
    pub sha256: String,
}

/// Annotations of a tool, in the names of the MCP specification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAnnotations {
    /// The tool changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may delete or overwrite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool reaches systems beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl RecordBody {
    /// Returns the command line of a command that the user ran.
    pub fn command_line(&self) -> Option<&str> {
        match self {
            RecordBody::ShellCommand { command, .. } => Some(command),
            _ => None,
        }
    }

    /// Whether it is an answer that came to its own end and was recorded whole: its last proposed command is complete.
    pub fn is_whole_answer(&self) -> bool {
        let RecordBody::Assistant {
            finish, omitted, ..
        } = self
        else {
            return false;
        };
        *finish == FinishReason::Stop && *omitted == 0
    }

    /// Whether an answer to the request of a compaction counts as the summary. One that was cancelled, is empty or ended in a
    /// tool call does not.
    pub fn is_usable_summary(&self) -> bool {
        let RecordBody::Assistant {
            text,
            calls,
            finish,
            ..
        } = self
        else {
            return false;
        };
        *finish == FinishReason::Stop && calls.is_empty() && !text.trim().is_empty()
    }
}
