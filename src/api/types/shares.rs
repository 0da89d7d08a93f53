//! The objects of shares.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to be shared.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareChoice {
    /// Show the results of tools and the output of commands; by default they are left out.
    #[serde(default)]
    pub with_output: Option<bool>,
    /// Add the recordings of the terminals that used the session, each from its first to its last command; by default there
    /// are none.
    #[serde(default)]
    pub recordings: Option<bool>,
    /// The digest of the preview that the user has seen. Without it nothing is published.
    #[serde(default)]
    #[schema(max_length = 64)]
    pub digest: Option<String>,
}

/// A preview, or a published share.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShareResult {
    /// SHA-256 of what is shown.
    pub digest: String,
    /// The title of the page.
    pub title: String,
    /// Number of messages.
    pub messages: usize,
    /// Number of recordings, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings: Option<usize>,
    /// The duration of all recordings together, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings_ms: Option<u64>,
    /// What was left out or replaced, in words.
    pub removed: Vec<String>,
    /// Where the page goes, in words: on this machine or in a bucket.
    pub place: String,
    /// The share, if it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareView>,
}

/// The shares of all sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShareList {
    /// The shares, oldest first.
    pub shares: Vec<ShareView>,
}

/// A share.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShareView {
    /// Its id.
    pub id: String,
    /// The path of its page on this server, if the page is on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The address of its page, if the page is in a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where its page is, in words.
    pub place: String,
    /// The session.
    pub session_id: String,
    /// The title of the session at that time.
    pub title: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
    /// Whether it is complete; otherwise it was interrupted, and can be removed.
    pub is_published: bool,
    /// Whether the session is shared after each answer, not by hand.
    pub is_automatic: bool,
}

/// Shares were removed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Unshared {
    /// How many.
    pub removed: usize,
}
