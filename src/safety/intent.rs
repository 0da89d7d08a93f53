//! What a caller declares before a call, and whether that agrees with what the server says of the tool. Pure.
//!
//! It never lowers the gate: the policy decides by the tool, and a declaration can only raise what that asks for.

use serde_json::{Map, Value};

use crate::chat::{Annotations, Intent, Operation, Sensitivity};

/// The most characters of a reason.
pub const REASON: usize = 1000;

/// Whether a declared call may go on to the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Yes.
    Fine,
    /// Yes, but the person and the record are told this.
    Warned(String),
    /// No; the caller is told why, in words by which it can mend the call.
    Rejected(String),
}

/// The keys of the nested form, in `intent`, and those of the flat one.
const NESTED: [&str; 3] = ["operation_type", "data_sensitivity", "reason"];
const FLAT: [&str; 3] = [
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
];

/// The most characters of a caller's words that are said back to it.
const ECHO: usize = 60;

/// Reads the intent out of the arguments of `call_tool_read` and its like: `intent`, or the flat form, or both where
/// they agree.
///
/// # Errors
/// There is none, or it is wrong: what the caller is told.
pub fn read(variant: Operation, arguments: &Map<String, Value>) -> Result<Intent, String> {
    let variant = variant.variant();
    let flat = FLAT.map(|key| given(arguments, key));
    let nested = match given(arguments, "intent") {
        None if flat == [None; 3] => {
            return Err(format!("intent parameter is required for {variant}"));
        }
        None => [None; 3],
        Some(Value::Object(intent)) => NESTED.map(|key| given(intent, key)),
        Some(_) => {
            return Err(format!(
                "Invalid intent for {variant}: must be an object with operation_type"
            ));
        }
    };
    for (at, both) in nested.into_iter().zip(flat).enumerate() {
        if let (Some(one), Some(other)) = both
            && one != other
        {
            let (one, other) = (NESTED[at], FLAT[at]);
            return Err(format!(
                "intent.{one} and {other} disagree: give one of them"
            ));
        }
    }
    let [operation, sensitivity, reason] = [0, 1, 2].map(|at| nested[at].or(flat[at]));
    let operation = operation.ok_or("intent.operation_type is required")?;
    let operation = operation
        .as_str()
        .and_then(Operation::from_word)
        .ok_or_else(|| {
            let word = echo(operation);
            format!("Invalid intent.operation_type '{word}': must be read, write, or destructive")
        })?;
    let known = |value: &Value| {
        let known = value.as_str().and_then(Sensitivity::from_word);
        known.ok_or_else(|| {
            let word = echo(value);
            format!("Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown")
        })
    };
    Ok(Intent {
        operation,
        sensitivity: sensitivity.map(known).transpose()?,
        reason: reason.map(short_enough).transpose()?,
    })
}

/// What is said under a key. Models fill what they leave out with null or nothing.
fn given<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null() && *v != "")
}

fn short_enough(reason: &Value) -> Result<String, String> {
    let reason = reason
        .as_str()
        .ok_or("Invalid intent.reason: must be a string")?;
    match reason.chars().count() {
        ..=REASON => Ok(reason.to_owned()),
        length => Err(format!(
            "Invalid intent.reason: {length} characters, must be at most {REASON}"
        )),
    }
}

/// A caller's words in an error: the start of them, since they go to the model and into the record.
fn echo(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(ECHO) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What a caller is told that calls a tool of this name, as if there were one for all calls.
pub fn no_such_variant(name: &str) -> String {
    let [read, write, destructive] = Operation::ALL.map(Operation::variant);
    let name = echo(&Value::from(name));
    format!(
        "Tool '{name}' not found. Use {read}, {write}, or {destructive} with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
    )
}

/// Checks a declared call of `tool` (`server:tool`) through a variant. `strict` rejects what the server's word
/// speaks against; else it is warned of.
pub fn check(
    variant: Operation,
    intent: &Intent,
    tool: &str,
    annotations: Annotations,
    strict: bool,
) -> Checked {
    if intent.operation != variant {
        return Checked::Rejected(format!(
            "Intent mismatch: tool is {} but intent declares {}",
            variant.variant(),
            intent.operation.as_str()
        ));
    }
    let says = annotations.operation();
    if says == Operation::Destructive && variant != Operation::Destructive {
        let text = format!(
            "Tool '{tool}' is marked destructive by server, use {}",
            Operation::Destructive.variant()
        );
        return match strict {
            true => Checked::Rejected(text),
            false => Checked::Warned(text),
        };
    }
    if says == Operation::Read && variant == Operation::Write {
        return Checked::Warned(format!(
            "Tool '{tool}' is marked read-only by server, but intent declares write"
        ));
    }
    Checked::Fine
}

#[cfg(test)]
mod tests;
