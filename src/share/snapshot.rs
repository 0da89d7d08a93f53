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
            names: name_forms(names),
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

/// A name as it can stand in a text.
struct NameForm {
    text: String,
    replacement: &'static str,
    /// A path: it is replaced only as a whole directory.
    is_path: bool,
    /// Shorter than [`SHORT_NAME`].
    is_short: bool,
}

/// Returns the names in the order in which they are replaced: each also as it is written in URLs, and a full host name also
/// by its first part.
fn name_forms(names: &OwnNames) -> Vec<NameForm> {
    let OwnNames { home, user, host } = names;
    let short_host = host.split('.').next().unwrap_or_default();
    let mut forms: Vec<NameForm> = Vec::new();
    for (name, replacement) in [
        (home.as_str(), "~"),
        (user, "user"),
        (host, "host"),
        (short_host, "host"),
    ] {
        for text in [
            name.to_owned(),
            percent_encoded(name, "/"),
            percent_encoded(name, ""),
        ] {
            // The home directory of root is a word of its own, and every path begins with /.
            if name.len() > 1 && forms.iter().all(|form| form.text != text) {
                forms.push(NameForm {
                    text,
                    replacement,
                    is_path: name.starts_with('/'),
                    is_short: name.len() <= SHORT_NAME,
                });
            }
        }
    }
    forms
}

/// Returns a name as it is written in URLs. Characters in `kept` stay as they are.
fn percent_encoded(name: &str, kept: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        let c = char::from(byte);
        match c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
            true => out.push(c),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Whether a text ends with an encoded character of a URL, such as `%2F`, or `%252F` in a URL within a URL.
fn ends_with_escape(text: &str) -> bool {
    let text = text.as_bytes();
    let Some((mut rest, digits)) = text.split_at_checked(text.len().saturating_sub(2)) else {
        return false;
    };
    while let Some(less) = rest.strip_suffix(b"25") {
        rest = less;
    }
    digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) && rest.ends_with(b"%")
}

struct Cleaner<'a> {
    names: Vec<NameForm>,
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
        let mut text = text.into_owned();
        for form in &self.names {
            let (replaced, count) = replace_name(&text, form);
            if count > 0 {
                text = replaced;
                self.removed.own_names += count;
            }
        }
        text
    }
}

/// Replaces a name where it is no part of a longer word. Returns the text and the number of replacements.
fn replace_name(text: &str, form: &NameForm) -> (String, usize) {
    let is_word = |c: char| c.is_alphanumeric();
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut count) = (text, 0);
    while let Some(at) = find_name(rest, &form.text) {
        let before = &text[..text.len() - rest.len() + at];
        let behind = &rest[at + form.text.len()..];
        let joins_before =
            before.chars().next_back().is_some_and(is_word) && !ends_with_escape(before);
        let joins_behind = behind.chars().next().is_some_and(is_word);
        let keeps = match form.is_path || !form.is_short {
            // A longer name may be joined with others: `anna2`, `/home/annabel`.
            true => form.is_path && joins_behind,
            false => joins_before || joins_behind,
        };
        out.push_str(&rest[..at]);
        if keeps {
            out.push_str(&rest[at..at + form.text.len()]);
        } else {
            out.push_str(form.replacement);
            count += 1;
        }
        rest = behind;
    }
    out.push_str(rest);
    (out, count)
}

/// Returns where a name begins in a text, in any case of ASCII letters.
fn find_name(text: &str, name: &str) -> Option<usize> {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut parts = text.windows(name.len());
    parts.position(|part| part.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
