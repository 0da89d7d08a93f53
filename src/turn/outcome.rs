//! What becomes of a call: its record, what the model is told of it, and what the person is.
//!
//! Pure. What a server says when it fails is for the person alone: a call without a result has fixed
//! words for the model.

use crate::chat::{CallStatus, ImageContent, ToolCall};
use crate::context::{INTERRUPTED, NO_RESULT};
use crate::history::record::{RecordBody, RecordedCall};

/// The most that a notice shows of a tool's name, and of why it was not called, which the model may have made up.
const NAME_CHARS: usize = 80;
const WHY_CHARS: usize = 300;

/// What became of a call that was to be made.
#[derive(Debug)]
pub struct CallOutcome {
    /// The call.
    pub id: String,
    /// What became of it.
    pub outcome: CallEnd,
    /// How long it took, in milliseconds; 0 where it was not made.
    pub ms: u64,
    /// What it was.
    pub account: CallSummary,
}

/// What is known of a call beside how it ended, as far as it came to that.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallSummary {
    /// `alias.tool`, where that is not what the model has called.
    pub name: Option<String>,
    /// What it does.
    pub act: Option<RecordedCall>,
    /// The arguments that were sent, or would have been.
    pub arguments: Option<String>,
    /// Who allowed it: `person` or `rule`.
    pub by: Option<&'static str>,
    /// Which rule, or what the person said; and what it was warned of.
    pub why: Option<String>,
}

/// How a call ended.
#[derive(Debug)]
pub enum CallEnd {
    /// The tool has said something.
    Said {
        /// Its words, cut at the configured size.
        text: String,
        /// It says that it failed.
        is_error: bool,
        /// Its pictures.
        images: Vec<ImageContent>,
        /// The size of what it said, before anything was cut.
        bytes: u64,
        /// SHA-256 of the same, in hexadecimal.
        digest: String,
        /// The arguments that were sent, where the person has changed them.
        edited: Option<String>,
    },
    /// There is no result: a JSON-RPC error, or the transport's. Why is for the person alone.
    Failed(String),
    /// The person said no, perhaps in words.
    Denied(Option<String>),
    /// The person said no and wants the turn to end, or has gone while they were asked.
    Stopped,
    /// A rule speaks against it.
    Blocked(String),
    /// What it declares is wrong, or does not go with the tool: what the model is told, so that it can mend that.
    Rejected(String),
    /// It does not say what is to be called with what: the same.
    Unread(String),
    /// There was no terminal to ask on.
    NoTerminal,
    /// Nobody answered the question in time; how long it waited.
    Unanswered(String),
    /// The arguments are no JSON object.
    NoObject,
    /// No tool is called so.
    NoSuchTool,
    /// The turn has had all its rounds of calls.
    TooDeep,
    /// The approval could not be recorded, so that the call was not made.
    Unrecorded(String),
    /// It was cancelled while it ran, or before.
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
            | CallEnd::NoTerminal
            | CallEnd::Unanswered(_)
            | CallEnd::Unrecorded(_) => CallStatus::Blocked,
            CallEnd::Unread(_) | CallEnd::NoObject | CallEnd::NoSuchTool | CallEnd::TooDeep => {
                CallStatus::InvalidCall
            }
            CallEnd::Interrupted => CallStatus::Interrupted,
        }
    }

    /// What the person is told of a call of `name` where no other frame says it; the client makes it fit to be shown.
    pub fn notice(&self, name: &str) -> Option<String> {
        let why = match self {
            CallEnd::Failed(why) => why.clone(),
            CallEnd::NoObject => "the arguments are no JSON object, so it was not called".into(),
            CallEnd::NoSuchTool => "there is no such tool".into(),
            CallEnd::Unrecorded(why) => {
                format!("not called, since the approval could not be recorded: {why}")
            }
            _ => return None,
        };
        let name: String = name.chars().take(NAME_CHARS).collect();
        Some(format!("mcp: {name}: {why}"))
    }

    /// Why it was not made, in a line for the person; nothing where another frame has said it.
    pub fn why_not(&self) -> String {
        match self {
            CallEnd::Rejected(why) | CallEnd::Unread(why) => why.chars().take(WHY_CHARS).collect(),
            CallEnd::Blocked(rule) => rule.clone(),
            CallEnd::Unanswered(why) => why.clone(),
            _ => String::new(),
        }
    }

    /// The record of `call`, with what the model is told; `ms` is how long it took.
    pub fn record(self, call: &ToolCall, ms: u64, account: CallSummary) -> RecordBody {
        let status = self.status().as_str().to_string();
        let (mut pictures, mut size, mut failure) = (Vec::new(), 0, None);
        let (mut by, mut reason, mut sum) = (account.by, account.why, None);
        let text = match self {
            CallEnd::Said {
                text,
                images,
                bytes,
                digest,
                edited,
                ..
            } => {
                sum = Some(digest);
                pictures = images.into_iter().map(|i| (i.mime, i.data)).collect();
                size = bytes;
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
                (by, reason) = (Some("person"), words.clone());
                match words {
                    Some(words) => format!("[denied by the user] {words}"),
                    None => "[denied by the user]".into(),
                }
            }
            CallEnd::Stopped => {
                by = Some("person");
                "[denied by the user]".into()
            }
            CallEnd::Blocked(rule) => {
                let told = format!("[denied by the user's rule {rule}]");
                (by, reason) = (Some("rule"), Some(rule));
                told
            }
            CallEnd::Rejected(why) | CallEnd::Unread(why) => {
                reason = Some(why.clone());
                why
            }
            CallEnd::NoTerminal => {
                reason = Some("there is no terminal to ask on".into());
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
            by: by.map(str::to_string),
            why: reason,
            digest: sum,
        }
    }
}
