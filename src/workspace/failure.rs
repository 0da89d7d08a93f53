//! Why a file operation was refused or failed.

use std::fmt;

use super::PathError;
use crate::error::Error;

/// A refused or failed file operation: one line that says what and why, a hint, and for a failed search the lines of the
/// file that are nearest. All of it may contain text of files and models: print it through `safety/text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceError {
    /// The failure and its cause: one line without a final full stop.
    pub message: String,
    /// The next step: one line.
    pub hint: Option<String>,
    /// Lines of the file with their numbers, for the model.
    pub excerpt: Option<String>,
}

impl WorkspaceError {
    /// Creates an error without hint.
    pub fn new(message: impl Into<String>) -> Self {
        WorkspaceError {
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds lines of the file.
    #[must_use]
    pub fn excerpt(mut self, excerpt: impl Into<String>) -> Self {
        self.excerpt = Some(excerpt.into());
        self
    }

    /// Puts the object of the operation before the message.
    #[must_use]
    pub fn of(mut self, object: impl fmt::Display) -> Self {
        self.message = format!("{object}: {}", self.message);
        self
    }
}

impl fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        Ok(())
    }
}

impl std::error::Error for WorkspaceError {}

impl From<WorkspaceError> for Error {
    fn from(error: WorkspaceError) -> Error {
        let failure = Error::runtime(error.message);
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<PathError> for WorkspaceError {
    fn from(error: PathError) -> WorkspaceError {
        WorkspaceError::new(error.message)
    }
}
