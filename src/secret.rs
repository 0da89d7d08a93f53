//! A value that must not be shown: an API key.

use std::fmt;

use sha2::{Digest, Sha256};

/// What stands where a secret would.
pub const REDACTED: &str = "[REDACTED]";

/// A string that `Debug` does not show and that has no `Display`, so that it
/// cannot reach a log, an error or the history by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret replaced.
    pub fn mask(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        text.replace(&self.0, REDACTED)
    }
}

/// Stands for these parts, which may be secret, where they are compared: SHA-256 over them and their
/// lengths, in hexadecimal. A short secret can be guessed from it, so it is kept in memory alone.
pub fn fingerprint<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Secret::new("sk-1")), REDACTED);
    }

    #[test]
    fn every_occurrence_is_masked_and_an_empty_secret_masks_nothing() {
        assert_eq!(
            Secret::new("sk-1").mask("sk-1, \"sk-1\""),
            "[REDACTED], \"[REDACTED]\""
        );
        assert_eq!(Secret::new("").mask("abc"), "abc");
    }
}
