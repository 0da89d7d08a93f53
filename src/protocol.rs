//! The frames that the client and the daemon exchange over the unix socket.
//!
//! A frame is a little-endian `u32` (the length of the rest), one byte (the frame kind) and a body: raw UTF-8
//! for text, JSON for everything else. Text is the hot path, so it is neither quoted nor parsed. The client
//! sends [`Hello`] and its [`Request`] in one write; the daemon sends its own `Hello` first.

mod ask;
mod changes;
mod event;
mod frame;
pub mod policy;
mod reply;
mod server;
mod share;
mod shell_id;
mod shown_effect;
pub mod tools;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::ask::{AskPurpose, AskRequest, Attachment, OutputChoice, SessionChoice};
pub use self::changes::{ChangedFile, ChangesAction, ChangesReply, ChangesRequest, FileOutcome};
pub use self::event::{Event, QuestionOutcome};
pub use self::frame::{
    FrameDecoder, HEADER, MAX_FRAME, MAX_HELLO_FRAME, json_frame, parse, parse_header, text_frame,
};
pub use self::reply::{
    AnswerSummary, AskAccepted, AvailableModel, CapturedOutput, CapturedText, ConfigDifference,
    Continuation, DaemonStatus, DecidingKey, DecisionReply, ModelInfo, PackText, Proposal,
    RequestFailure, RequestPreview, ServerModels, SessionInfo, SessionSetting, SettingName,
    ShownCost, TerminalOutput, Transcript,
};
pub use self::server::{ServerReply, ServerRequest, ServerStatus};
pub use self::share::{
    ShareOptions, SharePhase, SharePreview, ShareReply, ShareRequest, ShareSession, SharedPage,
};
pub use self::shell_id::ShellId;

/// The protocol version. Incremented when frames change in a way that the other side cannot ignore.
pub const PROTOCOL: u32 = 10;

/// Frame kinds: the byte after the length.
pub mod kind {
    /// Both ways: [`super::Hello`].
    pub const HELLO: u8 = b'H';
    /// Client: [`super::Request`].
    pub const REQUEST: u8 = b'R';
    /// Client: cancel the request; no body.
    pub const CANCEL: u8 = b'C';
    /// Client: a map with the environment variables named by [`super::Event::EnvRequested`].
    pub const ENV: u8 = b'E';
    /// Client (capture): [`super::CapturedOutput`].
    pub const CAPTURED: u8 = b'O';
    /// Client: [`super::tools::Reaction`], the answer to [`super::Event::ApprovalRequested`] or
    /// [`super::Event::ElicitationRequested`].
    pub const REACTION: u8 = b'A';
    /// Daemon: a part of the answer, raw UTF-8, not yet sanitized for a terminal.
    pub const TEXT: u8 = b'T';
    /// Daemon: [`super::Event`].
    pub const EVENT: u8 = b'V';
    /// Daemon: the reply to the request; the last frame.
    pub const REPLY: u8 = b'D';
    /// Daemon: [`super::RequestFailure`], instead of a reply.
    pub const FAILURE: u8 = b'F';
}

/// The first frame of each side. The daemon checks the protocol version before it reads the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The sender's version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// The daemon is older than the client and does not serve it: it exits when its turns have ended, and the
    /// client then starts a new daemon.
    #[serde(default)]
    pub leaving: bool,
    /// The client only reads state: an older daemon keeps running, and nothing is started for the request.
    #[serde(default, alias = "looks")]
    pub read_only: bool,
}

impl Hello {
    /// Returns the hello of this binary.
    pub fn current() -> Hello {
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_string(),
            leaving: false,
            read_only: false,
        }
    }

    /// Returns whether the sender's version is newer than `than`, compared numerically part by part.
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

/// A client's request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Sends one prompt. Answered by text frames, events and [`AnswerSummary`]; with `background` by [`AskAccepted`].
    Ask(Box<AskRequest>),
    /// Watches the running turn of a session, from its start. Answered as [`Request::Ask`] is; where no turn runs,
    /// by the last answer in the journal.
    Attach(AttachRequest),
    /// Returns what [`Request::Ask`] would send: [`RequestPreview`].
    Preview(Box<AskRequest>),
    /// Reports the daemon's state: [`DaemonStatus`].
    Status {
        /// The shell whose model is reported.
        shell: Option<ShellId>,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Shares a session, or removes or lists shares: [`ShareReply`].
    Share(ShareRequest),
    /// Starts, stops or describes the HTTP server: [`ServerReply`].
    Server(ServerRequest),
    /// Stops the daemon: `{}` once it has begun to stop.
    Stop {
        /// Do not wait for running turns.
        now: bool,
    },
    /// Lists the sessions, newest first: [`Vec<SessionInfo>`].
    Sessions {
        /// Maximum number of sessions.
        limit: usize,
        /// List only sessions in which one record contains all these words.
        #[serde(default)]
        search: Option<String>,
    },
    /// Makes a session the shell's own: [`SessionInfo`].
    ContinueSession {
        /// The shell.
        shell: ShellId,
        /// A unique part of the session's id; `None` is the session last used in any shell.
        session: Option<String>,
    },
    /// Gives a session a title: [`SessionInfo`].
    RenameSession {
        /// A unique part of the session's id; `None` is the shell's own session.
        session: Option<String>,
        /// The client's shell.
        shell: Option<ShellId>,
        /// The title.
        title: String,
    },
    /// Deletes a session that no turn uses: `{}`.
    DeleteSession {
        /// The session's id.
        session: String,
    },
    /// Returns the records of a session: [`Transcript`].
    Transcript {
        /// A unique part of the session's id; `None` is the shell's own session.
        session: Option<String>,
        /// The client's shell.
        shell: Option<ShellId>,
        /// Return only this many of the last records.
        limit: Option<usize>,
        /// Leave out the context that was sent with the prompts.
        #[serde(default)]
        brief: bool,
    },
    /// Starts a new session for a shell: [`SessionInfo`].
    NewSession {
        /// The shell.
        shell: ShellId,
    },
    /// Sets the model of a shell's session: `{}`.
    UseModel {
        /// The shell.
        shell: ShellId,
        /// A model name from the config.
        model: String,
    },
    /// Changes and returns the settings of a session: [`Vec<SessionSetting>`].
    SessionSettings(SettingsRequest),
    /// Shows or undoes the changes that tools made to files: [`ChangesReply`].
    Changes(ChangesRequest),
    /// Lists the models: [`Vec<ModelInfo>`].
    Models {
        /// The shell whose model is marked as current.
        shell: Option<ShellId>,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Asks the servers for their models: [`Vec<ServerModels>`].
    ServerModels {
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Returns the next undecided proposal: [`Option<Proposal>`].
    NextProposal {
        /// The shell the answer was given to.
        shell: ShellId,
        /// The working directory.
        cwd: String,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Counts the undecided proposals of the answer that the shell has shown last: [`usize`]. None of them is denied by that.
    CountProposals {
        /// The shell.
        shell: ShellId,
    },
    /// Decides on a proposal: [`DecisionReply`].
    Decide {
        /// The shell.
        shell: ShellId,
        /// The proposal.
        token: String,
        /// The person's choice.
        choice: CommandChoice,
        /// The command as shown, which is what runs. Differs from the proposal after an edit.
        command: String,
        /// The working directory.
        cwd: String,
        /// Whether the person was asked.
        asked: bool,
        /// The output goes back to the model when the command has ended: the other proposals of the answer no longer wait.
        #[serde(default)]
        continues: bool,
        /// The key that decided, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<u8>,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Registers the output pump of an approved command. The pump gets [`Event::CaptureFinish`] when the command has
    /// ended, and answers with a CAPTURED frame.
    Capture {
        /// The shell.
        shell: ShellId,
        /// The proposal.
        token: String,
        /// [`DecisionReply::nonce`].
        nonce: String,
    },
    /// Calls a tool for a person. Answered by events and [`tools::ManualCallResult`].
    Call(Box<tools::ManualCall>),
    /// A request about MCP servers.
    Mcp {
        /// The request.
        request: tools::McpRequest,
        /// The working directory.
        cwd: String,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// A request about the policy.
    Policy {
        /// The request.
        request: policy::PolicyRequest,
        /// The working directory.
        cwd: String,
        /// The client's shell.
        shell: Option<ShellId>,
        /// `AISH_*` of the client's environment.
        overrides: BTreeMap<String, String>,
    },
    /// Decides on [`RequestFailure::config_changes`]: `{}`. Needs a terminal.
    ConfirmConfig {
        /// [`ConfigDifference::digest`] of what was shown.
        digest: String,
        /// Use the changed configuration, or keep the stricter one until it changes again.
        accept: bool,
    },
    /// Approves the pack of [`RequestFailure::unapproved_pack`]: `{}`. Needs a terminal.
    ApprovePack {
        /// [`PackText::sha256`] of what was shown.
        sha256: String,
    },
    /// Returns the output of a command of the user, as the terminal still has it: [`TerminalOutput`].
    TerminalOutput {
        /// The shell; `None` is the one that ran a command last on the terminal of the client.
        shell: Option<ShellId>,
        /// The terminal of the client, `pts/3`.
        tty: Option<String>,
        /// The variables of the client that identify its terminal.
        terminal: BTreeMap<String, String>,
        /// The command to show, counted backwards: 1 is the last command.
        command: usize,
        /// The working directory.
        cwd: String,
        /// Words that the command line of the client contains, to find it on the screen.
        #[serde(default)]
        words: Option<String>,
    },
    /// Reports that an approved command has ended: `{}` once its output is recorded.
    ExecDone {
        /// The shell.
        shell: ShellId,
        /// The proposal.
        token: String,
        /// [`DecisionReply::nonce`].
        nonce: String,
        /// The command's exit code.
        exit: i32,
    },
}

/// Changes of the settings of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingsRequest {
    /// A unique part of the session's id; `None` is the shell's own session.
    pub session: Option<String>,
    /// The client's shell.
    pub shell: Option<ShellId>,
    /// The new values; `None` removes the setting.
    pub changes: BTreeMap<SettingName, Option<String>>,
    /// The working directory.
    pub cwd: String,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
}

/// Which turn to watch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AttachRequest {
    /// A unique prefix of the session's id; `None` is the shell's own session.
    pub session: Option<String>,
    /// The client's shell.
    pub shell: Option<ShellId>,
    /// The client has a terminal to ask questions on.
    pub can_answer: bool,
    /// The client's terminal, `pts/3`, for messages on other terminals.
    pub tty: Option<String>,
}

/// A person's decision on a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandChoice {
    /// Run it in the shell.
    Run,
    /// Put it in the next edit buffer.
    Insert,
    /// Ask first about [`Proposal::again`], a command of the user whose output is missing.
    Again,
    /// Decline this command.
    No,
    /// Decline this command and the remaining ones.
    Quit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let v = |s: &str| Hello {
            version: s.into(),
            ..Hello::current()
        };
        assert!(v("0.10.0").is_newer("0.9.9"));
        assert!(!v("0.9.0").is_newer("0.9.0"));
        assert!(!v("0.1.9").is_newer("0.2.0"));
    }
}
