//! Why a loop stops early.

use std::io;

use crate::error::Error;

/// Why the loop stops before the request ends.
pub enum LoopStop {
    /// The request, or one of its prerequisites, has failed.
    Failed(Error),
    /// stdout is closed: `llm … | head`.
    OutputClosed,
    /// Ctrl-C while stdout accepted nothing: `llm … | less`.
    OutputBlocked,
}

impl From<Error> for LoopStop {
    fn from(e: Error) -> LoopStop {
        LoopStop::Failed(e)
    }
}

impl From<io::Error> for LoopStop {
    fn from(e: io::Error) -> LoopStop {
        match e.kind() {
            io::ErrorKind::BrokenPipe => LoopStop::OutputClosed,
            io::ErrorKind::Interrupted => LoopStop::OutputBlocked,
            _ => LoopStop::Failed(Error::runtime(format!("cannot write the answer: {e}"))),
        }
    }
}
