//! Values that must not be shown, such as API keys.

use std::fmt;

use sha2::{Digest, Sha256};

/// The replacement for a secret.
pub const REDACTED: &str = "[REDACTED]";

/// A string without `Display` whose `Debug` is redacted, so that it cannot reach a log, an error or the history by
/// accident.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// Returns the value, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns `text` with every occurrence of the secret replaced.
    pub fn mask(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        text.replace(&self.0, REDACTED)
    }
}

/// Returns a fingerprint for comparing values that may be secret: SHA-256 over the parts and their lengths, in
/// hexadecimal. A short secret can be guessed from it, so it must stay in memory.
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
    fn debug_output_is_redacted() {
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
