//! The error type of the crate: what failed, why, and what to do next.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Error category; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The model, the transport, the daemon or a file failed.
    Runtime,
    /// The command line is invalid.
    Usage,
    /// The configuration is invalid or incomplete.
    Config,
    /// An approval was required and there was no terminal to ask on.
    Approval,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl ErrorKind {
    /// Returns the process exit code: 1, 2, 3, 4 or 130.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Runtime => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Config => 3,
            ErrorKind::Approval => 4,
            ErrorKind::Interrupted => 130,
        }
    }

    /// Returns the name of the kind on the wire and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Runtime => "runtime",
            ErrorKind::Usage => "usage",
            ErrorKind::Config => "config",
            ErrorKind::Approval => "approval",
            ErrorKind::Interrupted => "interrupted",
        }
    }
}

/// An error: its kind, one line that says what failed and where, and a hint that says what to do next.
///
/// Messages may contain untrusted text (an error body, a file name): print them through [`crate::safety::text`].
#[derive(Debug, Clone)]
pub struct Error {
    /// Decides the exit code.
    pub kind: ErrorKind,
    /// What failed and where: one line without a final full stop.
    pub message: String,
    /// What to do next: one line.
    pub hint: Option<String>,
    /// The provider rejected the API key.
    pub key_rejected: bool,
    /// The provider did not answer, for a reason that another one does not share.
    pub is_outage: bool,
    /// The model takes no tools.
    pub takes_no_tools: bool,
    /// The provider rejected a request, with what it says of the cause.
    pub refusal: Option<Refusal>,
}

/// What a provider has refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The prompt, for what it is: sent again, it would be refused again.
    Prompt,
    /// The request, for its prompt, the conversation before it or a setting.
    Request,
}

/// Result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            kind,
            message: message.into(),
            hint: None,
            key_rejected: false,
            is_outage: false,
            takes_no_tools: false,
            refusal: None,
        }
    }

    /// A failure of the model, the transport, the daemon or a file (exit code 1).
    pub fn runtime(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Runtime, message)
    }

    /// An invalid command line (exit code 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, message)
    }

    /// An invalid or missing configuration (exit code 3).
    pub fn config(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Config, message)
    }

    /// Marks a failure that another provider does not share.
    #[must_use]
    pub fn outage(mut self) -> Self {
        self.is_outage = true;
        self
    }

    /// Marks the refusal of a request by a provider.
    #[must_use]
    pub fn refusal(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Adds what was being done to an underlying error.
pub trait ErrorContext<T> {
    /// `what` names the action and its object: `"cannot read /etc/x"`.
    ///
    /// # Errors
    /// The same failure, prefixed with `what`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> ErrorContext<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::runtime(format!("{}: {}", what(), reason(&e))))
    }
}

/// Returns the text of an error. One of the system is without its number, which the standard library adds, and without its name,
/// which nix adds.
pub fn reason(e: &impl fmt::Display) -> String {
    let text = e.to_string();
    let without_number = match text.rsplit_once(" (os error ") {
        Some((text, number)) if number.ends_with(')') && !number.contains(' ') => text,
        _ => &text,
    };
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        name.len() > 2
            && name.starts_with('E')
            && bytes.all(|b| b.is_ascii_alphanumeric() && !b.is_ascii_lowercase())
    };
    match without_number.split_once(": ") {
        Some((name, text)) if is_name(name) => text.to_owned(),
        _ => without_number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_one_form() {
        let std = std::io::Error::from_raw_os_error(nix::libc::EROFS);
        for e in [
            Err::<(), _>(std.to_string()),
            Err(nix::Error::EROFS.to_string()),
        ] {
            let e = e
                .context(|| "cannot write /x".into())
                .expect_err("an error");
            assert_eq!(e.message, "cannot write /x: Read-only file system");
        }
        for text in [
            "EOF while parsing: x",
            "E: x",
            "a (os error 2) b",
            "x: ENOENT: y",
        ] {
            assert_eq!(reason(&text), text);
        }
    }
}
