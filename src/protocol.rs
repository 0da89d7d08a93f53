//! What client and daemon say to each other on the unix socket.
//!
//! A frame is a little-endian `u32` (the length of what follows), one byte (the
//! kind) and a body: raw UTF-8 for text, JSON for all else. Text is the hot
//! path, so it is neither quoted nor parsed. The client sends [`Hello`] and its
//! [`Request`] in one write; the daemon answers with its own `Hello` first.

mod frame;
pub mod policy;
pub mod tools;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::frame::{Decoder, HEADER, MAX_FRAME, json_frame, parse, parse_header, text_frame};
use crate::error::{Error, Kind};

/// Grows when the frames change in a way that the other side cannot ignore.
pub const PROTOCOL: u32 = 3;

/// The kind byte of a frame.
pub mod kind {
    /// Both ways: [`super::Hello`].
    pub const HELLO: u8 = b'H';
    /// Client: [`super::Request`].
    pub const REQUEST: u8 = b'R';
    /// Client: stop the turn; no body.
    pub const CANCEL: u8 = b'C';
    /// Client: a map of the environment variables that were asked for by [`super::Event::NeedEnv`].
    pub const ENV: u8 = b'E';
    /// Client (capture): [`super::Captured`].
    pub const CAPTURED: u8 = b'O';
    /// Client: [`super::tools::Reaction`] to [`super::Event::Confirm`] or [`super::Event::Elicit`].
    pub const REACTION: u8 = b'A';
    /// Daemon: a part of the answer, raw UTF-8, not yet made safe for a terminal.
    pub const TEXT: u8 = b'T';
    /// Daemon: [`super::Event`].
    pub const EVENT: u8 = b'V';
    /// Daemon: the reply to a request, its last frame.
    pub const REPLY: u8 = b'D';
    /// Daemon: [`super::Failure`], instead of a reply.
    pub const FAILURE: u8 = b'F';
}

/// Who speaks. The daemon checks the protocol before it looks at the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The sender's version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// The daemon is older than the client and will serve it no more: it ends as
    /// soon as its turns have, and the client then starts a new one.
    #[serde(default)]
    pub leaving: bool,
    /// The client only looks: an older daemon stays, and answers as well as it can.
    #[serde(default)]
    pub looks: bool,
}

impl Hello {
    /// This binary's hello.
    pub fn ours() -> Hello {
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_string(),
            leaving: false,
            looks: false,
        }
    }

    /// Whether the sender's version is newer than `than` (numerically, part by part).
    pub fn is_newer(&self, than: &str) -> bool {
        version_parts(&self.version) > version_parts(than)
    }
}

fn version_parts(version: &str) -> Vec<u64> {
    version
        .split(['.', '-', '+'])
        .map_while(|part| part.parse().ok())
        .collect()
}

/// What a client wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// One prompt. Answered by text frames, events and [`Answer`].
    Ask(Box<Ask>),
    /// How the daemon is: [`Status`].
    Status {
        /// The shell whose model is meant.
        shell: Option<String>,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// End the daemon: `{}` once it has begun to.
    Stop {
        /// Do not wait for running turns.
        now: bool,
    },
    /// The sessions, newest first: [`Vec<SessionInfo>`].
    Sessions {
        /// At most so many.
        limit: usize,
    },
    /// The turns of a session: [`Transcript`].
    Transcript {
        /// Its id or a unique part of it; `None` is the shell's own.
        session: Option<String>,
        /// The shell that asks.
        shell: Option<String>,
        /// Only the last so many records.
        limit: Option<usize>,
        /// Without what was sent along with the prompts.
        #[serde(default)]
        brief: bool,
    },
    /// A fresh session for a shell: [`SessionInfo`].
    NewSession {
        /// The shell.
        shell: String,
    },
    /// The model of a shell's session from now on: `{}`.
    UseModel {
        /// The shell.
        shell: String,
        /// A name of the config.
        model: String,
    },
    /// The models: [`Vec<ModelInfo>`].
    Models {
        /// The shell whose choice is marked.
        shell: Option<String>,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// The next proposal nobody has decided: [`Option<Proposal>`].
    NextProposal {
        /// The shell whose answer made it.
        shell: String,
        /// The working directory.
        cwd: String,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// The person's word on a proposal: [`Decided`].
    Decide {
        /// The shell.
        shell: String,
        /// The proposal.
        token: String,
        /// What the person chose.
        choice: Choice,
        /// The command as shown, which is what will run. Differs from the proposal after an edit.
        command: String,
        /// The working directory.
        cwd: String,
        /// The person was asked.
        asked: bool,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// The pump of an approved command: it gets [`Event::Finish`] at its end, and then sends a CAPTURED frame.
    Capture {
        /// The shell.
        shell: String,
        /// The proposal.
        token: String,
    },
    /// A call of a tool by hand. Answered by events and [`tools::Called`].
    Call(Box<tools::ByHand>),
    /// Something about MCP servers.
    Mcp {
        /// What.
        request: tools::McpRequest,
        /// The working directory.
        cwd: String,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// Something about the rules.
    Policy {
        /// What.
        request: policy::PolicyRequest,
        /// The working directory.
        cwd: String,
        /// The shell that asks.
        shell: Option<String>,
        /// `AISH_*` of the asking client.
        overrides: BTreeMap<String, String>,
    },
    /// An approved command has ended: `{}` once its output is recorded.
    ExecDone {
        /// The shell.
        shell: String,
        /// The proposal.
        token: String,
        /// Its exit code.
        exit: i32,
    },
}

/// One prompt and what belongs to it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ask {
    /// The shell that asks, where a plugin runs in it.
    pub shell: Option<String>,
    /// In which session.
    pub session: SessionChoice,
    /// A model of the config, for this prompt alone.
    pub model: Option<String>,
    /// What the person typed.
    pub text: String,
    /// stdin and files.
    pub attachments: Vec<Attachment>,
    /// The working directory.
    pub cwd: String,
    /// When the command line that asks was started, milliseconds since 1970, as the plugin knows it.
    #[serde(default)]
    pub started_ms: Option<u64>,
    /// Words to one command, outside of the conversation.
    pub command: bool,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
    /// Offer the model no tools.
    #[serde(default)]
    pub no_tools: bool,
    /// MCP resources to send along, `alias:uri`.
    #[serde(default)]
    pub resources: Vec<String>,
}

/// In which session a prompt goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChoice {
    /// The shell's own; without a shell, a fresh one.
    #[default]
    Shell,
    /// A fresh one, the shell's own from now on.
    New,
    /// The one last used, of whatever shell.
    Continue,
    /// The one whose id begins so, the shell's own from now on.
    Attach(String),
}

/// A text that goes along with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// `stdin` or the file's name.
    pub name: String,
    /// Its text; what was not UTF-8 is U+FFFD.
    pub text: String,
}

/// What happens while a request is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The turn has begun.
    Started {
        /// The session.
        session: String,
        /// The model's name in the config, or what was found.
        model: String,
    },
    /// A line for the person, in aish's own words (parts of it may be untrusted).
    Notice {
        /// One line.
        text: String,
    },
    /// The model proposes a command.
    Proposal {
        /// The command, exactly.
        command: String,
    },
    /// The daemon needs these variables of the client's environment (of a key): it answers with an ENV frame.
    NeedEnv {
        /// Names.
        names: Vec<String>,
    },
    /// To a pump: the command has ended.
    Finish,
    /// May this tool be called? The client answers with a REACTION frame.
    Confirm(Box<tools::Question>),
    /// A server asks the person something. The client answers with a REACTION frame.
    Elicit(Box<tools::Elicit>),
    /// Tools that the person has not seen yet; before the first call of one.
    NewTools(tools::NewTools),
    /// A tool is called now.
    ToolBegin(tools::Begin),
    /// How far a call has got.
    ToolProgress {
        /// One line.
        text: String,
    },
    /// A call has ended, or was not made.
    ToolEnd(tools::End),
    /// An event of a newer daemon, which an older client can do without.
    #[serde(other)]
    Unknown,
}

/// The reply to [`Request::Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The session it went to.
    pub session: String,
    /// The model as the provider names it.
    pub model: String,
    /// `stop`, `length`, `content_filter` or `interrupted`.
    pub finish: String,
    /// Tokens of the request, where the provider says.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, where the provider says.
    pub completion_tokens: Option<u64>,
    /// From the request to the last token.
    pub seconds: f64,
    /// US dollars, where the price is known.
    pub cost: Option<f64>,
    /// How many commands it proposes.
    pub proposals: usize,
}

/// Why a request was not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A word of [`Kind`].
    pub kind: String,
    /// What failed and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Nothing is configured and nothing was found: the client may guide the person.
    #[serde(default)]
    pub nothing_configured: bool,
}

impl From<&Error> for Failure {
    fn from(e: &Error) -> Failure {
        Failure {
            kind: e.kind.as_str().to_string(),
            message: e.message.clone(),
            hint: e.hint.clone(),
            nothing_configured: false,
        }
    }
}

impl From<Failure> for Error {
    fn from(f: Failure) -> Error {
        Error {
            kind: Kind::from_word(&f.kind),
            message: f.message,
            hint: f.hint,
            refused: false,
        }
    }
}

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Process id.
    pub pid: u32,
    /// Version of its binary.
    pub version: String,
    /// Seconds since it was ready.
    pub uptime_seconds: u64,
    /// Its socket.
    pub socket: String,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// The model a prompt would go to, or why none.
    pub model: Option<String>,
    /// Where that model is.
    pub endpoint: Option<String>,
    /// `answers`, or what is wrong with it.
    pub endpoint_state: Option<String>,
    /// Sessions in the journal.
    pub sessions: usize,
    /// Shells whose plugin has said hello and that still live.
    pub shells: usize,
    /// Turns running now.
    pub turns: usize,
    /// Size of the journal in bytes.
    pub journal_bytes: u64,
    /// The config file in force.
    pub config: Option<String>,
    /// The MCP servers; none is started for this.
    #[serde(default)]
    pub servers: Vec<tools::ServerInfo>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// When it was last used, milliseconds since 1970.
    pub updated_ms: u64,
    /// Prompts so far.
    pub prompts: usize,
    /// The first prompt's beginning.
    pub title: String,
}

/// A session's records, as they stand in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Transcript {
    /// The session.
    pub session: String,
    /// The journal's lines, parsed.
    pub records: Vec<serde_json::Value>,
}

/// A model in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Its name in the config.
    pub name: String,
    /// Its name at the provider.
    pub model: String,
    /// Where it is.
    pub base_url: String,
    /// Whether a prompt would go to it now.
    pub current: bool,
}

/// A command that the model proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Names it in all that follows.
    pub token: String,
    /// The command, exactly.
    pub command: String,
    /// Which it is, from 1.
    pub number: usize,
    /// How many the answer made.
    pub of: usize,
    /// Ask before it is run.
    pub confirm: bool,
    /// The rule that denies it: it was not offered, and waits no more.
    pub denied: Option<String>,
}

/// What a person says to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Run it in the shell.
    Run,
    /// Put it in the next edit buffer.
    Insert,
    /// Not this one.
    No,
    /// Not this one and none of the rest.
    Quit,
}

/// The daemon has recorded a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The command needs the terminal for itself: it runs there and its output is not captured.
    pub terminal: bool,
}

/// What a pump has seen of a command's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The first part of the output, or all of it.
    pub head: String,
    /// The last part, when something was left out between.
    pub tail: String,
    /// Bytes left out between.
    pub omitted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let v = |s: &str| Hello {
            version: s.into(),
            ..Hello::ours()
        };
        assert!(v("0.10.0").is_newer("0.9.9"));
        assert!(!v("0.9.0").is_newer("0.9.0"));
        assert!(!v("0.1.9").is_newer("0.2.0"));
    }
}
