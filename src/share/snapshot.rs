//! What a share shows of a session, and what was left out of it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::chat::CallStatus;
use crate::history::record::{Record, RecordBody};
use crate::safety::redact::Redactor;

/// What a person decides about a share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareOptions {
    /// Show the results of tool calls and the output of commands.
    #[serde(default)]
    pub with_output: bool,
}

/// The names that are replaced, because they tell who and where the user is.
#[derive(Debug, Clone, Default)]
pub struct OwnNames {
    /// The home directory.
    pub home: String,
    /// The login name.
    pub user: String,
    /// The name of the machine.
    pub host: String,
}

/// Shorter names occur in ordinary words, and are replaced only as whole words.
const SHORT_NAME: usize = 3;

/// What a share shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The title of the session, or the beginning of its first prompt.
    pub title: String,
    /// The messages, oldest first.
    pub messages: Vec<SharedMessage>,
    /// What was left out or replaced.
    pub removed: RemovedCounts,
}

/// A message of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedMessage {
    /// Who wrote it, or what it is.
    pub role: SharedRole,
    /// Name of the model or the tool.
    pub name: String,
    /// The text.
    pub text: String,
}

/// What a message of a share is.
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

/// What was left out of a share or replaced in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedCounts {
    /// Marks of secrets.
    pub secrets: usize,
    /// Places in which the home directory, the login name or the name of the machine stood.
    pub own_names: usize,
    /// Results of tools and outputs of commands.
    pub outputs: usize,
    /// Images.
    pub images: usize,
    /// Records that are never shown: shell context, decisions, settings.
    pub other: usize,
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
            count(self.own_names, "name of yours", "names of yours"),
            count(self.outputs, "output", "outputs"),
            count(self.images, "image", "images"),
            count(self.other, "other record", "other records"),
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
        names: &OwnNames,
        redactor: &Redactor,
    ) -> Snapshot {
        let mut cleaner = Cleaner {
            names,
            redactor,
            removed: RemovedCounts::default(),
        };
        let messages = records
            .iter()
            .filter_map(|record| cleaner.message(&record.body, options))
            .collect();
        let title = cleaner.clean(title);
        Snapshot {
            title,
            messages,
            removed: cleaner.removed,
        }
    }

    /// Returns the SHA-256 of what is shown, in hexadecimal: a share is published only with the digest of its preview.
    pub fn digest(&self) -> String {
        // A struct of strings and numbers always serializes.
        let json = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&json)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}

struct Cleaner<'a> {
    names: &'a OwnNames,
    redactor: &'a Redactor,
    removed: RemovedCounts,
}

impl Cleaner<'_> {
    fn message(&mut self, body: &RecordBody, options: ShareOptions) -> Option<SharedMessage> {
        let (role, name, text) = match body {
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
            name: self.clean(&name),
            text: self.clean(&text),
        })
    }

    fn left_out(&mut self) -> String {
        self.removed.outputs += 1;
        "(the output is not shared)".to_owned()
    }

    /// Removes secrets and own names.
    fn clean(&mut self, text: &str) -> String {
        let mut text = self.redactor.redact(text);
        // Marks of emphasis within a secret vanish on the page.
        let plain: String = text.chars().filter(|c| !"*~`".contains(*c)).collect();
        let marks = |text: &str| text.matches("[REDACTED").count();
        let found = self.redactor.redact(&plain);
        if marks(&found) > marks(&text) {
            text = found.into_owned().into();
        }
        // Marks of the first redaction count too.
        self.removed.secrets += text.matches("[REDACTED").count();
        let OwnNames { home, user, host } = self.names;
        let mut text = text.into_owned();
        for (name, replacement) in [(home, "~"), (user, "user"), (host, "host")] {
            // The home directory of root is a word of its own, and every path begins with /.
            if name.len() > 1 {
                text = self.replace(&text, name, replacement);
            }
        }
        text
    }

    /// Replaces a name where it is no part of a longer word.
    fn replace(&mut self, text: &str, name: &str, replacement: &str) -> String {
        let is_word = |c: char| c.is_alphanumeric();
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = find_name(rest, name) {
            let behind = &rest[at + name.len()..];
            let joins_before = rest[..at].chars().next_back().is_some_and(is_word)
                || at == 0 && out.chars().next_back().is_some_and(is_word);
            let joins_behind = behind.chars().next().is_some_and(is_word);
            let is_path = name.starts_with('/');
            let keeps = match is_path || name.len() > SHORT_NAME {
                // A longer name may be joined with others: `anna2`, `/home/annabel`.
                true => is_path && joins_behind,
                false => joins_before || joins_behind,
            };
            out.push_str(&rest[..at]);
            if keeps {
                out.push_str(&rest[at..at + name.len()]);
            } else {
                out.push_str(replacement);
                self.removed.own_names += 1;
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }
}

/// Returns where a name begins in a text, in any case of ASCII letters.
fn find_name(text: &str, name: &str) -> Option<usize> {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut parts = text.windows(name.len());
    parts.position(|part| part.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
