//! The parts of a session that a share shows, and those that were left out.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::answer::answer_html;
use super::cleaner::Cleaner;
use super::replay::{SharedRecording, SharedRecordings};
use crate::chat::{CONTINUED, CONTINUED_SHOWN, CallStatus};
use crate::history::record::{Record, RecordBody};
use crate::protocol::ShareOptions;
use crate::safety::own_names::OwnNames;
use crate::safety::redact::Redactor;
use crate::safety::utf8;

/// Maximum number of characters of a title.
const MAX_TITLE: usize = 200;
/// Number of bytes that are searched for those of a title.
const TITLE_BYTES: usize = 8 << 10;

/// Content of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The title of the session, or the beginning of its first prompt.
    pub title: String,
    /// The messages, oldest first.
    pub messages: Vec<SharedMessage>,
    /// The recordings of the terminals, if they were asked for.
    pub recordings: Vec<SharedRecording>,
    /// The omitted or replaced parts.
    pub removed: RemovedCounts,
}

/// A message of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedMessage {
    /// Who wrote it, or what it is.
    pub role: SharedRole,
    /// Name of the model or the tool.
    pub name: String,
    /// The text; of an answer, HTML.
    pub text: String,
}

/// Kind of a message of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedRole {
    /// A prompt.
    User,
    /// An answer.
    Assistant,
    /// A tool call, and its result if that is shown.
    Tool,
    /// A command that ran, and its output if that is shown.
    Command,
}

/// Parts that were left out of a share or replaced in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RemovedCounts {
    /// Marks of secrets in texts.
    pub secrets: usize,
    /// Different secrets in recordings, where a screen that is drawn again shows one any number of times.
    #[serde(skip_serializing_if = "is_zero")]
    pub recorded_secrets: usize,
    /// Places in which the home directory, the login name or the name of the machine stood.
    pub own_names: usize,
    /// Results of tools and outputs of commands.
    pub outputs: usize,
    /// Images.
    pub images: usize,
    /// Recordings beyond the limits of a share, or with commands of a project that disables sharing.
    pub recordings: usize,
    /// Records that are never shown: shell context, decisions, settings.
    pub other: usize,
}

/// Whether a count is left out of the digest, which pages without recordings keep.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl RemovedCounts {
    /// Returns the counts in words, without those that are zero.
    pub fn words(&self) -> Vec<String> {
        let count = |n: usize, one: &str, many: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {many}")),
        };
        [
            count(self.secrets, "secret", "secrets"),
            count(
                self.recorded_secrets,
                "different secret in recordings",
                "different secrets in recordings",
            ),
            count(self.own_names, "name of yours", "names of yours"),
            count(self.outputs, "output", "outputs"),
            count(self.images, "image", "images"),
            count(
                self.recordings,
                "recording that is too large or from a project that disables sharing",
                "recordings that are too large or from a project that disables sharing",
            ),
            count(
                self.other,
                "other record (an approval, context or a setting)",
                "other records (approvals, context, settings)",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Snapshot {
    /// Takes from the records what may be shown. The redactor knows more secrets now than when the records were written.
    pub fn new(
        title: &str,
        records: &[Record],
        options: ShareOptions,
        recordings: SharedRecordings,
        names: &OwnNames,
        redactor: &Redactor,
    ) -> Snapshot {
        let mut selection = Selection {
            cleaner: Cleaner::new(names, redactor),
            removed: RemovedCounts {
                recordings: recordings.left_out,
                ..RemovedCounts::default()
            },
        };
        let messages = records
            .iter()
            .filter_map(|record| selection.message(&record.body, options))
            .collect();
        let Selection { cleaner, removed } = selection;
        let (title_text, in_title) = shown_title(title, names, redactor);
        // The first prompt is counted where it is shown whole.
        let first = records.iter().find_map(|record| match &record.body {
            RecordBody::User { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let is_first = |text| shown_title(text, names, redactor).0 == title_text;
        let in_title = match first.is_some_and(is_first) {
            true => RemovedCounts::default(),
            false => in_title,
        };
        Snapshot {
            title: title_text,
            messages,
            recordings: recordings.shared,
            removed: RemovedCounts {
                secrets: cleaner.secrets + in_title.secrets,
                recorded_secrets: recordings.secrets,
                own_names: cleaner.own_names + in_title.own_names,
                ..removed
            },
        }
    }

    /// Returns the SHA-256 of the shown content, in hexadecimal: a share is published only with the digest of its preview.
    pub fn digest(&self) -> String {
        // A struct of strings and numbers always serializes.
        let json = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&json)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}

/// Returns a title as it is shown, in one line, and the replacements made in it.
fn shown_title(title: &str, names: &OwnNames, redactor: &Redactor) -> (String, RemovedCounts) {
    let mut start = utf8::prefix(title, TITLE_BYTES).to_owned();
    if start.len() < title.len() {
        redactor.cut_unfinished(&mut start);
        // It may be a part of a broken key, which is not recognised as one.
        let last_word = start.rfind(char::is_whitespace).unwrap_or(start.len());
        start.truncate(last_word);
    }
    let mut cleaner = Cleaner::new(names, redactor);
    let shown = cleaner.clean_line(&start, MAX_TITLE);
    let removed = RemovedCounts {
        secrets: cleaner.secrets,
        own_names: cleaner.own_names,
        ..RemovedCounts::default()
    };
    (shown, removed)
}

struct Selection<'a> {
    cleaner: Cleaner<'a>,
    removed: RemovedCounts,
}

impl Selection<'_> {
    fn message(&mut self, body: &RecordBody, options: ShareOptions) -> Option<SharedMessage> {
        let (role, name, text) = match body {
            RecordBody::User { text, .. } if text == CONTINUED => (
                SharedRole::Command,
                String::new(),
                CONTINUED_SHOWN.to_owned(),
            ),
            RecordBody::User { text, images, .. } => {
                self.removed.images += images.len();
                (SharedRole::User, String::new(), text.clone())
            }
            RecordBody::Assistant { text, model, .. } if !text.is_empty() => {
                (SharedRole::Assistant, model.clone(), text.clone())
            }
            RecordBody::Tool {
                name,
                status,
                text,
                images,
                ..
            } => {
                self.removed.images += images.len();
                let text = match (options.with_output, *status == CallStatus::Success) {
                    (true, _) => text.clone(),
                    (false, true) => self.left_out(),
                    (false, false) => format!("({})", status.as_str()),
                };
                (SharedRole::Tool, name.clone(), text)
            }
            RecordBody::CommandResult {
                command,
                exit,
                output,
                ..
            } => {
                let shown = match (output, options.with_output) {
                    (Some(output), true) => format!("\n{}{}", output.head, output.tail),
                    (Some(_), false) => format!("\n{}", self.left_out()),
                    (None, _) => String::new(),
                };
                let text = format!("$ {command}{shown}\n(exit code {exit})");
                (SharedRole::Command, String::new(), text)
            }
            _ => {
                self.removed.other += 1;
                return None;
            }
        };
        Some(SharedMessage {
            role,
            name: self.cleaner.clean(&name),
            text: match role {
                SharedRole::Assistant => {
                    answer_html(&text, body.is_whole_answer(), &mut self.cleaner)
                }
                _ => self.cleaner.clean(&text),
            },
        })
    }

    fn left_out(&mut self) -> String {
        self.removed.outputs += 1;
        "(the output is not shared)".to_owned()
    }
}

#[cfg(test)]
mod tests;
