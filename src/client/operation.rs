//! What a call does, as it is marked wherever calls are shown: in questions, in frames, in lists.

use super::frame::{Bit, Ink, bit};
use crate::chat::Operation;
use crate::protocol::tools::ToolInfo;

/// The mark of an operation, one column wide: `r`ead, `w`rite, `!` destructive.
pub fn mark(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "r",
        Operation::Write => "w",
        Operation::Destructive => "!",
    }
}

/// The mark as it is drawn: what destroys is seen first.
pub(super) fn marked(operation: Operation) -> Bit {
    bit(mark(operation), ink(operation))
}

/// How the word for an operation is drawn.
pub(super) fn ink(operation: Operation) -> Ink {
    match operation {
        Operation::Destructive => Ink::Alarm,
        Operation::Read => Ink::Dim,
        Operation::Write => Ink::Plain,
    }
}

/// What the server says of a tool, and what that is worth where it makes it look harmless.
pub(super) fn says(tool: &ToolInfo) -> String {
    let word = match (tool.destructive, tool.read_only) {
        (Some(true), _) => return "says: destructive".to_string(),
        (_, Some(true)) => "only reads",
        (Some(false), _) => "not destructive",
        (None, Some(false)) => return "says: writes".to_string(),
        (None, None) => return "says nothing of it".to_string(),
    };
    let belief = match tool.trusted {
        true => "trusted",
        false => "not trusted",
    };
    format!("says: {word}, {belief}")
}
