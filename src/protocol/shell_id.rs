//! Shell ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The longest shell id, in bytes.
const MAX_LENGTH: usize = 64;

/// The id of a shell. The plugin makes it from the shell's process id; a script may choose its own.
///
/// It becomes a file name, so it holds only letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShellId(String);

impl ShellId {
    /// Checks and wraps an id.
    ///
    /// # Errors
    /// The id is empty, too long, or has other characters than letters, digits and hyphens.
    pub fn parse(id: impl Into<String>) -> Result<ShellId> {
        let id = id.into();
        let valid = (1..=MAX_LENGTH).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match valid {
            true => Ok(ShellId(id)),
            false => Err(Error::usage(
                "--shell takes letters, digits and hyphens, at most 64",
            )),
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the process id of the shell, for an id made by the plugin (`PID-RANDOM`).
    pub fn pid(&self) -> Option<i32> {
        self.0.split_once('-')?.0.parse().ok()
    }
}

impl fmt::Display for ShellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ShellId {
    type Err = Error;

    fn from_str(id: &str) -> Result<ShellId> {
        ShellId::parse(id)
    }
}

impl TryFrom<String> for ShellId {
    type Error = Error;

    fn try_from(id: String) -> Result<ShellId> {
        ShellId::parse(id)
    }
}

impl From<ShellId> for String {
    fn from(id: ShellId) -> String {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::ShellId;

    #[test]
    fn a_shell_id_is_a_file_name_and_nothing_else() {
        for id in ["1", "123-4567", "script", &"x".repeat(64)] {
            assert_eq!(ShellId::parse(id).unwrap().as_str(), id);
        }
        for id in ["", "..", "/dev/zero", "a b", "ü", "a\0", &"x".repeat(65)] {
            assert!(ShellId::parse(id).is_err(), "{id:?}");
            let json = serde_json::to_string(id).unwrap();
            assert!(serde_json::from_str::<ShellId>(&json).is_err(), "{id:?}");
        }
        assert_eq!(ShellId::parse("12-ab").unwrap().pid(), Some(12));
        assert_eq!(ShellId::parse("script").unwrap().pid(), None);
    }
}
