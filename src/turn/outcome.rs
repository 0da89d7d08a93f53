//! Outcome of a tool call: its record, the text for the model and the notice for the user.
//!
//! Pure. Error texts of a server are shown only to the user: for a call without a result the model gets a fixed text.

use crate::chat::{CallStatus, ImageContent, ToolCall};
use crate::context::NO_RESULT;
use crate::history::record::{
    Call, DecidedBy, INTERRUPTED, RecordBody, RecordedCall, RecordedFile,
};
use crate::safety::policy::{BUILTIN_SERVER, HELPER_SERVER};
use crate::safety::redact::global_redactor;
use crate::tools::source::KnownFile;
use crate::workspace::changes::FileDigest;

/// Maximum number of characters of a tool name and of a reason in a notice. Both can be text of the model.
const NAME_CHARS: usize = 80;
const WHY_CHARS: usize = 300;

/// Begin of the recorded reason of a call that nobody could be asked about; what asks follows.
const NO_TERMINAL: &str = "there is no terminal to ask on";

/// Outcome of one call.
#[derive(Debug)]
pub struct CallOutcome {
    /// Id of the call.
    pub id: String,
    /// How the call ended.
    pub outcome: CallEnd,
    /// Duration in milliseconds; 0 if the call was not made.
    pub ms: u64,
    /// The facts about the call.
    pub account: CallSummary,
}

/// Facts about a call other than its end; how many are known depends on where it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallSummary {
    /// `alias.tool`, if the model used another name.
    pub name: Option<String>,
    /// Tool, operation and intent.
    pub act: Option<RecordedCall>,
    /// The arguments that were sent, or would have been.
    pub arguments: Option<String>,
    /// Who allowed it.
    pub by: Option<DecidedBy>,
    /// The recorded reason: the deciding rule or the approval scope; after it, the warning if the intent contradicts the
    /// annotations.
    pub why: Option<String>,
}

/// How a call ended.
#[derive(Debug)]
pub enum CallEnd {
    /// The tool returned a result.
    Said {
        /// The text, truncated to the configured size.
        text: String,
        /// The tool reports an error.
        is_error: bool,
        /// Lines that the model reads below the text.
        told: Vec<String>,
        /// The images.
        images: Vec<ImageContent>,
        /// Size of the result before truncation.
        bytes: u64,
        /// SHA-256 of the text before truncation, in hexadecimal.
        digest: String,
        /// The arguments that were sent, if the user edited them.
        edited: Option<String>,
        /// The files that were read or changed.
        files: Vec<KnownFile>,
    },
    /// The call has no result. The reason is shown to the user and never sent to the model.
    Failed(String),
    /// Denied by the user, with an optional message for the model.
    Denied(Option<String>),
    /// Denied by the user, who also stopped the turn.
    Stopped,
    /// Denied by this rule.
    Blocked(String),
    /// The declared intent is invalid or contradicts the tool; the error for the model.
    Rejected(String),
    /// The target or its arguments are invalid; the error for the model.
    Unread(String),
    /// The call had to be asked about for this reason, and there was no terminal to ask on.
    NoTerminal(String),
    /// Nobody answered the question in time; the reason with the time limit.
    Unanswered(String),
    /// The arguments are not a JSON object.
    NoObject,
    /// No tool has this name.
    NoSuchTool,
    /// The turn reached its maximum number of rounds.
    TooDeep,
    /// Not called, because the approval could not be recorded.
    Unrecorded(String),
    /// Cancelled before or during the call, or during the question about it.
    Interrupted,
}

impl CallEnd {
    /// Returns the status for clients.
    pub fn status(&self) -> CallStatus {
        match self {
            CallEnd::Said {
                is_error: false, ..
            } => CallStatus::Success,
            CallEnd::Said { is_error: true, .. } => CallStatus::ToolError,
            CallEnd::Failed(_) => CallStatus::CallFailed,
            CallEnd::Denied(_) | CallEnd::Stopped => CallStatus::Denied,
            CallEnd::Blocked(_)
            | CallEnd::Rejected(_)
            | CallEnd::NoTerminal(_)
            | CallEnd::Unanswered(_)
            | CallEnd::Unrecorded(_) => CallStatus::Blocked,
            CallEnd::Unread(_) | CallEnd::NoObject | CallEnd::NoSuchTool | CallEnd::TooDeep => {
                CallStatus::InvalidCall
            }
            CallEnd::Interrupted => CallStatus::Interrupted,
        }
    }

    /// Returns the notice for the user about a call of `name`, unless another frame reports it. The client escapes it.
    pub fn notice(&self, name: &str) -> Option<String> {
        let name: String = global_redactor()
            .redact(name)
            .chars()
            .take(NAME_CHARS)
            .collect();
        let why = match self {
            CallEnd::NoSuchTool => {
                return Some(format!(
                    "the model asked for the tool {name}, which does not exist"
                ));
            }
            CallEnd::Failed(why) => why.clone(),
            CallEnd::NoObject => "not called: the arguments are not a JSON object".into(),
            CallEnd::Unrecorded(why) => {
                format!("not called: the approval could not be recorded: {why}")
            }
            _ => return None,
        };
        // Only tools of MCP servers have names with a server that is not aish itself.
        let server = name.split_once('.').map(|(server, _)| server);
        let is_own = server.is_none_or(|server| [BUILTIN_SERVER, HELPER_SERVER].contains(&server));
        let kind = if is_own { "tool" } else { "mcp" };
        Some(format!("{kind}: {name}: {why}"))
    }

    /// Returns the reason why the call was not made, in one line for the user; empty if another frame reports it.
    pub fn why_not(&self) -> String {
        match self {
            CallEnd::Rejected(why) | CallEnd::Unread(why) => global_redactor()
                .redact(why)
                .chars()
                .take(WHY_CHARS)
                .collect(),
            CallEnd::Blocked(rule) => rule.clone(),
            CallEnd::Unanswered(why) => why.clone(),
            _ => String::new(),
        }
    }

    /// Returns the record of `call`, with the text for the model; `ms` is the duration.
    pub fn record(self, call: &ToolCall, ms: u64, account: CallSummary) -> RecordBody {
        let status = self.status();
        let (mut pictures, mut size, mut failure) = (Vec::new(), 0, None);
        let (mut by, mut reason, mut sum) = (account.by, account.why, None);
        let mut known = Vec::new();
        let text = match self {
            CallEnd::Said {
                mut text,
                told,
                images,
                bytes,
                digest,
                edited,
                files,
                ..
            } => {
                sum = Some(digest);
                known = files.into_iter().filter_map(recorded_file).collect();
                pictures = images.into_iter().map(|i| (i.mime, i.data)).collect();
                size = bytes;
                for line in told {
                    text.push_str(&format!("\n[{line}]"));
                }
                match edited {
                    Some(sent) => format!("[the user changed the arguments to {sent}]\n{text}"),
                    None => text,
                }
            }
            CallEnd::Failed(why) => {
                failure = Some(why);
                NO_RESULT.into()
            }
            CallEnd::Denied(words) => {
                (by, reason) = (Some(DecidedBy::Person), words.clone());
                match words {
                    Some(words) => format!("[denied by the user] {words}"),
                    None => "[denied by the user]".into(),
                }
            }
            CallEnd::Stopped => {
                by = Some(DecidedBy::Person);
                "[denied by the user]".into()
            }
            CallEnd::Blocked(rule) => {
                let text = format!("[denied by the user's rule {rule}]");
                (by, reason) = (Some(DecidedBy::Rule), Some(rule));
                text
            }
            CallEnd::Rejected(why) | CallEnd::Unread(why) => {
                reason = Some(why.clone());
                why
            }
            CallEnd::NoTerminal(asks) => {
                reason = Some(format!("{NO_TERMINAL}: {asks}"));
                "[denied: there is no terminal to ask on]".into()
            }
            CallEnd::Unanswered(why) => {
                reason = Some(why.clone());
                format!("[denied: {why}]")
            }
            CallEnd::NoObject => "[not called: the arguments are not one whole JSON object]".into(),
            CallEnd::NoSuchTool => format!("[not called: there is no tool named {}]", call.name),
            CallEnd::TooDeep => "[no result: the tool-call depth limit was reached]".into(),
            CallEnd::Unrecorded(why) => {
                failure = Some(why);
                "[no result: the approval could not be recorded]".into()
            }
            CallEnd::Interrupted => INTERRUPTED.into(),
        };
        RecordBody::Tool {
            call: call.id.clone(),
            name: account.name.unwrap_or_else(|| call.name.clone()),
            status,
            text,
            images: pictures,
            error: failure,
            bytes: size,
            ms,
            act: account.act,
            arguments: account.arguments,
            by,
            why: reason,
            digest: sum,
            files: known,
        }
    }
}

/// Returns a known file as it is recorded; `None` if its path is not UTF-8.
fn recorded_file(file: KnownFile) -> Option<RecordedFile> {
    Some(RecordedFile {
        path: file.path.to_str()?.to_owned(),
        sha256: file.digest.map(|digest| FileDigest(digest).to_string()),
        read: file.is_read,
    })
}

/// Returns a call as it is recorded with its answer.
pub fn recorded(call: &ToolCall) -> Call {
    Call {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        extra: call.extra.clone(),
    }
}
