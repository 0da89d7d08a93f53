//! The objects of driven shells.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The shells that can be driven.
#[derive(Debug, Serialize, ToSchema)]
pub struct DrivenShellList {
    /// The shells.
    pub shells: Vec<DrivenShellView>,
}

/// A shell in which the user has typed `llm :tui`.
#[derive(Debug, Serialize, ToSchema)]
pub struct DrivenShellView {
    /// Its id.
    pub shell_id: String,
    /// Its terminal device; absent until the shell has shown a prompt to this daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// The session that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its working directory; absent if the system does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether an action without `shell_id` goes to this shell.
    pub is_default: bool,
}

/// A text for a driven shell.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellText {
    /// The text, at most 16,384 bytes.
    #[schema(min_length = 1, max_length = 16384)]
    pub text: String,
    /// The shell; by default the one that ran a command last.
    #[serde(default)]
    #[schema(max_length = 64)]
    pub shell_id: Option<String>,
}

/// The shell that an action is for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellChoice {
    /// The shell; by default the one that ran a command last.
    #[serde(default)]
    #[schema(max_length = 64)]
    pub shell_id: Option<String>,
}

/// The shell that has performed an action.
#[derive(Debug, Serialize, ToSchema)]
pub struct PerformedAction {
    /// Its id.
    pub shell_id: String,
}
