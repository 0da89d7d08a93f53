//! A prompt, its attachments and its context.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ShellId;

/// One prompt with its context.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AskRequest {
    /// The client's shell, where the plugin is loaded.
    pub shell: Option<ShellId>,
    /// The session the prompt is added to.
    pub session: SessionChoice,
    /// A model name from the config, for this prompt only.
    pub model: Option<String>,
    /// The words the person typed.
    pub text: String,
    /// stdin and files.
    pub attachments: Vec<Attachment>,
    /// Attached images, as `(MIME type, base64)`.
    #[serde(default)]
    pub images: Vec<(String, Arc<str>)>,
    /// The working directory.
    pub cwd: String,
    /// Start time of the client's command line, milliseconds since 1970, as the plugin measured it.
    #[serde(default)]
    pub started_ms: Option<u64>,
    /// Purpose of the request.
    #[serde(default)]
    pub purpose: AskPurpose,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
    /// The prompt pack, or `none`.
    #[serde(default)]
    pub pack: Option<String>,
    /// The tools to offer, as in `--tools`.
    #[serde(default)]
    pub tools: Option<String>,
    /// Ask the provider for the model's reasoning.
    #[serde(default)]
    pub think: bool,
    /// MCP resources to attach, as `alias:uri`.
    #[serde(default)]
    pub resources: Vec<String>,
    /// Reply with [`AskAccepted`](super::AskAccepted) immediately; the turn continues without a client.
    #[serde(default)]
    pub background: bool,
    /// The client has a terminal to ask questions on.
    #[serde(default)]
    pub can_answer: bool,
    /// The client's terminal, `pts/3`, for messages on other terminals.
    #[serde(default)]
    pub tty: Option<String>,
    /// The variables of the client that identify its terminal.
    #[serde(default)]
    pub terminal: BTreeMap<String, String>,
    /// The command line of the client as it was typed, to find it on the screen.
    #[serde(default)]
    pub line: Option<String>,
    /// Whether the output of the last command is sent too.
    #[serde(default)]
    pub output: OutputChoice,
    /// An approved command has ended, and its output goes to the model: nobody typed this prompt.
    #[serde(default)]
    pub follows: bool,
    /// The prompt was submitted over HTTP in a driven shell, or follows from one that was.
    #[serde(default)]
    pub submitted: bool,
    /// The variables of the client's shell with which commands of the tool `shell` run.
    #[serde(default)]
    pub work_env: BTreeMap<String, String>,
    /// Directories in which the built-in tools may work too, from this prompt of the session on.
    #[serde(default)]
    pub add_dirs: Vec<String>,
    /// Typed at a terminal: a line names the parts of the context that are sent for the first time.
    #[serde(default)]
    pub tells_context: bool,
}

/// Whether the output of the user's last command is sent with a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputChoice {
    /// If the command failed, or the words refer to it.
    #[default]
    Auto,
    /// Yes, as far as it can be read.
    Always,
    /// No.
    Never,
}

/// Purpose of a request to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskPurpose {
    /// An answer to a prompt of a session.
    #[default]
    Prompt,
    /// One command for the words, outside of any session.
    Command,
    /// An explanation of the command in the words, which failed, and a corrected one, outside of any session.
    Fix {
        /// Its exit code.
        exit: i32,
    },
    /// A summary of the older part of a session, which replaces that part in later requests. The words are ignored.
    Compaction,
}

impl AskPurpose {
    /// Returns whether the answer is one command, which belongs to no session.
    pub fn is_single_command(self) -> bool {
        matches!(self, AskPurpose::Command | AskPurpose::Fix { .. })
    }
}

/// The session a prompt is added to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChoice {
    /// The shell's own session; without a shell, a new one.
    #[default]
    Shell,
    /// A new session, which becomes the shell's own.
    New,
    /// The session last used in any shell.
    Continue,
    /// The session with this unique part in its id, which becomes the shell's own.
    Attach(String),
}

/// A text attached to a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// `stdin` or the file's name.
    pub name: String,
    /// The text; bytes that are not UTF-8 are U+FFFD.
    pub text: String,
}
