//! Operation classes of tool calls as questions, call frames and lists show them. The daemon decides the class.

use super::styled_line::{SpanStyle, StyledSpan, span};
use crate::chat::OperationClass;
use crate::protocol::tools::ToolInfo;
use crate::safety::confusables;
use crate::safety::policy::{BUILTIN_SERVER, TERMINAL_OUTPUT_RULE};

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

/// Returns the word for an operation class in texts.
pub fn word(operation: OperationClass) -> &'static str {
    match operation {
        OperationClass::Read => "reads",
        OperationClass::Write => "writes",
        OperationClass::Destructive => "destructive",
    }
}

/// Whether a tool is the one that reads the output of the user's commands. The names of tools of MCP servers have a dot.
pub(super) fn reads_output(tool: &ToolInfo) -> bool {
    tool.server == TERMINAL_OUTPUT_RULE.0 && !tool.name.contains('.')
}

/// States the class of a call: what the server says about the tool, and the class that counts if it is another.
pub(super) fn statement(tool: &ToolInfo, operation: OperationClass) -> String {
    if reads_output(tool) {
        return "reads the output of your commands".to_owned();
    }
    // What aish itself declares of the tool is not a claim to weigh: the class of this call is all that counts.
    if tool.server == BUILTIN_SERVER {
        return word(operation).to_owned();
    }
    let treated = match operation {
        OperationClass::Read => "treated as a read",
        OperationClass::Write => "treated as a write",
        OperationClass::Destructive => "treated as destructive",
    };
    let server = confusables::marked_name(&tool.server);
    let (claim, claimed) = match (tool.destructive, tool.read_only) {
        (Some(true), _) => ("destructive", OperationClass::Destructive),
        (_, Some(true)) => ("reads", OperationClass::Read),
        (Some(false), _) => ("writes, not destructive", OperationClass::Write),
        (None, Some(false)) => ("writes", OperationClass::Write),
        (None, None) => return format!("{treated}; {server} declares nothing"),
    };
    let reason = match operation == tool.operation {
        _ if operation == claimed => return format!("{claim}, says {server}"),
        true if !tool.trusted => "trust_annotations is off",
        true => "by the name of the tool",
        false => "as the model declares",
    };
    format!("{claim}, says {server}; {treated} ({reason})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_gives_the_claim_and_the_class_that_counts() {
        let mut tool = ToolInfo {
            name: "files.get".into(),
            server: "files".into(),
            title: None,
            description: String::new(),
            read_only: Some(true),
            destructive: None,
            idempotent: None,
            open_world: None,
            trusted: false,
            operation: OperationClass::Write,
            schema: serde_json::Value::Null,
        };
        use OperationClass::{Destructive, Read, Write};
        for (read_only, destructive, own, operation, statement_text) in [
            (
                Some(true),
                None,
                Write,
                Write,
                "reads, says files; treated as a write (trust_annotations is off)",
            ),
            (Some(true), None, Read, Read, "reads, says files"),
            (
                Some(true),
                Some(false),
                Read,
                Destructive,
                "reads, says files; treated as destructive (as the model declares)",
            ),
            (
                None,
                Some(false),
                Write,
                Write,
                "writes, not destructive, says files",
            ),
            (Some(false), None, Write, Write, "writes, says files"),
            (
                Some(true),
                Some(true),
                Destructive,
                Destructive,
                "destructive, says files",
            ),
            (
                None,
                None,
                Write,
                Write,
                "treated as a write; files declares nothing",
            ),
        ] {
            (tool.read_only, tool.destructive, tool.operation) = (read_only, destructive, own);
            assert_eq!(statement(&tool, operation), statement_text);
        }
        tool.server = BUILTIN_SERVER.into();
        assert_eq!(statement(&tool, Destructive), "destructive");
        tool.server = "f\x1b".into();
        assert_eq!(
            statement(&tool, Write),
            "treated as a write; f‹\\x1b› declares nothing"
        );
    }
}
