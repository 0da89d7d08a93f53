//! Calls of helpers and their results.

use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::chat::ImageContent;

/// Input of a call other than its arguments.
#[derive(Debug, Clone, Copy)]
pub struct CallScope<'a> {
    /// The session that calls.
    pub session: &'a str,
    /// The working directory.
    pub directory: &'a Path,
    /// The workspace, which the sandbox opens.
    pub workspace: &'a Path,
    /// Maximum time; `None` takes [`super::WorkerLimits::call`].
    pub limit: Option<Duration>,
    /// Receives the lines that the helper prints. Lines are dropped while it is full.
    pub progress: &'a mpsc::Sender<String>,
    /// Cancels the call and ends the worker.
    pub cancel: &'a CancellationToken,
}

/// A call of a helper that code makes. It has to pass the gate like every other call.
#[derive(Debug)]
pub struct HelperCall {
    /// Name of the function, without `helper.`.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: String,
    /// Receives the text of the result, or why there is none. Dropping it counts as a failure.
    pub reply: oneshot::Sender<Result<String, String>>,
}

/// The result of a helper or of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HelperResult {
    /// The text. Of a helper that returns nothing, what it printed; of code, what it printed and the value of its last expression.
    pub text: String,
    /// The function or code raised an exception; the text is one line.
    pub is_error: bool,
    /// Images that the helper returned.
    pub images: Vec<ImageContent>,
    /// Further notices for the person, a line each.
    pub notes: Vec<String>,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelperFault {
    /// The call was cancelled.
    Interrupted,
    /// One line for the user.
    Failed(String),
}
