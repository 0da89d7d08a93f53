//! What a call does, as it is marked wherever calls are shown: in questions, in frames, in lists.

use super::frame::{Bit, Ink, bit};
use crate::protocol::tools::ToolInfo;

/// The mark of an operation, one column wide: `r`ead, `w`rite, `!` destructive. A space where none is known.
pub fn mark(operation: &str) -> &'static str {
    match operation {
        "read" => "r",
        "write" => "w",
        "destructive" => "!",
        _ => " ",
    }
}

/// The mark as it is drawn: what destroys is seen first.
pub(super) fn marked(operation: &str) -> Bit {
    bit(mark(operation), ink(operation))
}

/// How the word for an operation is drawn.
pub(super) fn ink(operation: &str) -> Ink {
    match operation {
        "destructive" => Ink::Alarm,
        "read" => Ink::Dim,
        _ => Ink::Plain,
    }
}

/// What a call of a tool is taken for where its caller declares no more: the server's word, as far as it is believed.
pub(super) fn of_tool(tool: &ToolInfo) -> &'static str {
    match (tool.destructive, tool.read_only) {
        (Some(true), _) => "destructive",
        (_, Some(true)) if tool.trusted => "read",
        _ => "write",
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
