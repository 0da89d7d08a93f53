//! Requests about shared sessions.

use serde::{Deserialize, Serialize};

use super::ShellId;

/// A request about shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ShareRequest {
    /// Returns the preview of a share: [`SharePreview`].
    Preview {
        /// The session.
        session: ShareSession,
        /// The parts that are shown in addition to prompts and answers.
        #[serde(flatten)]
        options: ShareOptions,
    },
    /// Publishes it.
    Publish {
        /// The session.
        session: ShareSession,
        /// As in the preview.
        #[serde(flatten)]
        options: ShareOptions,
        /// The digest of the preview.
        digest: String,
    },
    /// Removes the shares of a session.
    Unshare {
        /// The session.
        session: ShareSession,
    },
    /// Lists the shares.
    List,
}

/// The parts of a share in addition to prompts and answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareOptions {
    /// Show the results of tools and the output of commands.
    pub with_output: bool,
    /// Add the recordings of the terminals.
    #[serde(default)]
    pub recordings: bool,
}

/// The session of a request about shares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSession {
    /// Its id, or a unique part of it.
    pub id: Option<String>,
    /// The shell whose session it is, if no id is given.
    pub shell: Option<ShellId>,
}

/// The reply to a [`ShareRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareReply {
    /// For [`ShareRequest::Preview`].
    pub preview: Option<SharePreview>,
    /// For [`ShareRequest::Publish`] and [`ShareRequest::List`].
    pub shares: Vec<SharedPage>,
    /// For [`ShareRequest::Unshare`]: how many were removed.
    pub removed: usize,
    /// For [`ShareRequest::Unshare`]: the session is no longer shared automatically.
    #[serde(default)]
    pub is_stopped: bool,
}

/// Preview of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharePreview {
    /// SHA-256 of what is shown.
    pub digest: String,
    /// The title of the page.
    pub title: String,
    /// Number of messages.
    pub messages: usize,
    /// The recordings, in words, if they were asked for.
    #[serde(default)]
    pub recordings: Option<String>,
    /// Number of recordings.
    #[serde(default)]
    pub recording_count: usize,
    /// The duration of all recordings together.
    #[serde(default)]
    pub recording_ms: u64,
    /// What was left out or replaced, in words.
    pub removed: Vec<String>,
    /// Where the page would be, in words.
    #[serde(default)]
    pub place: String,
}

/// A share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPage {
    /// Its id.
    pub id: String,
    /// The session.
    pub session: String,
    /// The title of the session at that time.
    pub title: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
    /// Its state.
    pub phase: SharePhase,
    /// The address of its page; a page on this machine has one while the HTTP server runs.
    pub url: Option<String>,
    /// Where its page is, in words.
    #[serde(default)]
    pub place: String,
    /// Whether others can read its page, on other machines.
    #[serde(default)]
    pub is_public: bool,
    /// The session is shared after each answer, not manually.
    #[serde(default)]
    pub is_automatic: bool,
}

/// State of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharePhase {
    /// It is being published; its page may exist.
    Publishing,
    /// Its page exists.
    Published,
    /// It is being removed; its page may still exist.
    Removing,
}
