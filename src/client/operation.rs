//! Operation classes of tool calls as questions, call frames and lists show them. The daemon decides the class.

use super::styled_line::{SpanStyle, StyledSpan, span};
use crate::chat::OperationClass;
use crate::protocol::tools::ToolInfo;

/// Returns the one-column mark of an operation: `r`ead, `w`rite, `!` destructive.
pub fn mark(operation: OperationClass) -> &'static str {
    match operation {
        OperationClass::Read => "r",
        OperationClass::Write => "w",
        OperationClass::Destructive => "!",
    }
}

/// Returns the mark with its style.
pub(super) fn marked(operation: OperationClass) -> StyledSpan {
    span(mark(operation), style_of(operation))
}

/// Returns the style of an operation's mark and name; a destructive one must stand out.
pub(super) fn style_of(operation: OperationClass) -> SpanStyle {
    match operation {
        OperationClass::Destructive => SpanStyle::Alarm,
        OperationClass::Read => SpanStyle::Dim,
        OperationClass::Write => SpanStyle::Plain,
    }
}

/// Returns whether the server annotates a tool as read-only.
pub(super) fn is_read_only(tool: &ToolInfo) -> bool {
    tool.read_only == Some(true) && tool.destructive != Some(true)
}

/// Describes the annotations of a tool, and whether they are trusted where they make it look harmless.
pub(super) fn server_claim(tool: &ToolInfo) -> String {
    let claim = match (tool.destructive, tool.read_only) {
        (Some(true), _) => return "says: destructive".to_string(),
        (_, Some(true)) => "only reads",
        (Some(false), _) => "not destructive",
        (None, Some(false)) => return "says: writes".to_string(),
        (None, None) => return "declares nothing about it".to_string(),
    };
    let trust = match tool.trusted {
        true => "trusted",
        false => "not trusted",
    };
    format!("says: {claim}, {trust}")
}
