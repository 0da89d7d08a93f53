//! Common parts of the requests of several formats. Pure.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{ErrorContext, Result};

/// Maximum length of the id of a call.
const MAX_ID_LENGTH: usize = 64;

/// Digest of the parts of a request that an answer follows.
#[derive(Default, Clone)]
pub struct PrefixDigest(Sha256);

impl PrefixDigest {
    /// Writes a part as JSON and adds it to the digest.
    ///
    /// # Errors
    /// The part cannot be written, which no known input causes.
    pub fn part(&mut self, part: &Value) -> Result<String> {
        let text = serde_json::to_string(part)
            .context(|| "cannot write the request as JSON".to_owned())?;
        self.add(&text);
        Ok(text)
    }

    /// Adds a part.
    pub fn add(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// Returns the digest so far.
    pub fn hex(&self) -> String {
        let digest = self.0.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The ids of calls as they are sent. Providers accept other characters than those of others.
#[derive(Default)]
pub struct CallIds<'a> {
    sent: HashMap<&'a str, String>,
    used: HashSet<String>,
}

impl<'a> CallIds<'a> {
    /// Sends a call with the id that its provider gave it.
    pub fn insert(&mut self, id: &'a str, sent: String) {
        self.used.insert(sent.clone());
        self.sent.insert(id, sent);
    }

    /// Returns an id for a call that every provider accepts: the id itself if possible.
    pub fn add(&mut self, id: &'a str) -> String {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let valid = id.chars().map(|c| if is_valid(c) { c } else { '_' });
        let begin: String = valid.take(MAX_ID_LENGTH - 8).collect();
        let mut sent = begin.clone();
        let mut count = 0;
        while sent.is_empty() || !self.used.insert(sent.clone()) {
            count += 1;
            sent = format!("{begin}_{count}");
        }
        self.sent.insert(id, sent.clone());
        sent
    }

    /// Sends a call with an id of exactly nine letters and digits, as Mistral requires: the id itself if possible.
    pub fn add_short(&mut self, id: &'a str) {
        let is_short = |id: &str| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let mut sent = id.to_owned();
        let mut count = 0;
        while !is_short(&sent) || !self.used.insert(sent.clone()) {
            let digest = Sha256::digest(format!("{count} {id}"));
            sent = digest.iter().take(5).map(|b| format!("{b:02x}")).collect();
            sent.truncate(9);
            count += 1;
        }
        self.sent.insert(id, sent);
    }

    /// Returns the id of a call to which this is the result.
    pub fn of<'i>(&'i self, id: &'i str) -> &'i str {
        self.sent.get(id).map_or(id, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_valid_and_differ() {
        let mut ids = CallIds::default();
        let long = "x".repeat(200);
        let names = ["call_1", "a:b", "a.b", "", &long];
        let sent: Vec<String> = names.iter().map(|id| ids.add(id)).collect();
        assert_eq!(sent[..4], ["call_1", "a_b", "a_b_1", "_1"]);
        assert!(sent[4].len() <= MAX_ID_LENGTH);
        assert_eq!((ids.of("a.b"), ids.of("other")), ("a_b_1", "other"));
        let many: HashSet<String> = (0..2_000).map(|_| ids.add("same")).collect();
        assert_eq!(many.len(), 2_000);
    }

    #[test]
    fn short_ids_are_stable_and_differ() {
        let table = |ids: &[&'static str]| {
            let mut table = CallIds::default();
            ids.iter().for_each(|id| table.add_short(id));
            let sent: Vec<String> = ids.iter().map(|id| table.of(id).to_owned()).collect();
            sent
        };
        let sent = table(&["call_1", "call_2", "aB3456789", "aB345678é"]);
        assert_eq!(sent[2], "aB3456789");
        for id in &sent {
            assert!(
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{id}"
            );
        }
        assert_eq!(sent.iter().collect::<HashSet<_>>().len(), 4);
        assert_eq!(table(&["call_1", "call_2"]), sent[..2]);
    }

    #[test]
    fn the_digest_depends_on_where_parts_end() {
        let of = |parts: &[&str]| {
            let mut digest = PrefixDigest::default();
            parts.iter().for_each(|part| digest.add(part));
            digest.hex()
        };
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
    }
}
