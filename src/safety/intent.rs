//! Intent check: whether what a caller declares about a call agrees with the server's annotations. Pure.
//!
//! The declaration never weakens the policy: the policy decides by the tool, and a declaration can only add
//! restrictions.

use serde_json::{Map, Value};

use crate::chat::{CallIntent, DataSensitivity, OperationClass, ToolAnnotations};

/// Maximum number of characters in a reason.
pub const MAX_REASON_CHARS: usize = 1000;

/// Whether a declared call may proceed to the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentCheck {
    /// It may.
    Consistent,
    /// It may, with a warning for the user and the record.
    Warned(String),
    /// It may not. The text explains to the caller how to correct the call.
    Rejected(String),
}

/// The keys of the nested form, `intent`; FLAT has those of the flat form.
const NESTED_KEYS: [&str; 3] = ["operation_type", "data_sensitivity", "reason"];
const FLAT_KEYS: [&str; 3] = [
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
];

/// Maximum number of characters of the caller's input that an error repeats.
const MAX_ECHO_CHARS: usize = 60;

/// Parses the intent from the arguments of a `call_tool_*` tool: `intent`, the flat form, or both if they agree.
///
/// # Errors
/// The intent is missing or invalid; the text is for the caller.
pub fn parse_intent(
    variant: OperationClass,
    arguments: &Map<String, Value>,
) -> Result<CallIntent, String> {
    let variant = variant.call_tool_name();
    let flat = FLAT_KEYS.map(|key| value_of(arguments, key));
    let nested = match value_of(arguments, "intent") {
        None if flat == [None; 3] => {
            return Err(format!("intent parameter is required for {variant}"));
        }
        None => [None; 3],
        Some(Value::Object(intent)) => NESTED_KEYS.map(|key| value_of(intent, key)),
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
            let (one, other) = (NESTED_KEYS[at], FLAT_KEYS[at]);
            return Err(format!(
                "intent.{one} and {other} disagree: give one of them"
            ));
        }
    }
    let [operation, sensitivity, reason] = [0, 1, 2].map(|at| nested[at].or(flat[at]));
    let operation = operation.ok_or("intent.operation_type is required")?;
    let operation = operation
        .as_str()
        .and_then(OperationClass::from_name)
        .ok_or_else(|| {
            let word = echo(operation);
            format!("Invalid intent.operation_type '{word}': must be read, write, or destructive")
        })?;
    let known = |value: &Value| {
        let known = value.as_str().and_then(DataSensitivity::from_name);
        known.ok_or_else(|| {
            let word = echo(value);
            format!("Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown")
        })
    };
    Ok(CallIntent {
        operation,
        sensitivity: sensitivity.map(known).transpose()?,
        reason: reason.map(parse_reason).transpose()?,
    })
}

/// Returns the value of a key. Models fill absent values with null or an empty string.
fn value_of<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null() && *v != "")
}

fn parse_reason(reason: &Value) -> Result<String, String> {
    let reason = reason
        .as_str()
        .ok_or("Invalid intent.reason: must be a string")?;
    match reason.chars().count() {
        ..=MAX_REASON_CHARS => Ok(reason.to_owned()),
        length => Err(format!(
            "Invalid intent.reason: {length} characters, must be at most {MAX_REASON_CHARS}"
        )),
    }
}

/// Returns the start of the caller's input for an error message, which goes to the model and into the record.
fn echo(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the error for a call of an unknown tool, for models that assume a single `call_tool`.
pub fn unknown_tool_error(name: &str) -> String {
    let [read, write, destructive] = OperationClass::ALL.map(OperationClass::call_tool_name);
    let name = echo(&Value::from(name));
    format!(
        "Tool '{name}' not found. Use {read}, {write}, or {destructive} with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
    )
}

/// Checks a declared call of `tool` (`server:tool`) through a `call_tool_*` tool. `strict` rejects a declaration that
/// contradicts the server's annotations; otherwise the result is a warning. `exact`: the annotations are aish's own, which
/// say all that the tool does; those of a server without a hint say nothing.
pub fn check_intent(
    variant: OperationClass,
    intent: &CallIntent,
    tool: &str,
    (annotations, exact): (ToolAnnotations, bool),
    strict: bool,
) -> IntentCheck {
    if intent.operation != variant {
        return IntentCheck::Rejected(format!(
            "Intent mismatch: tool is {} but intent declares {}",
            variant.call_tool_name(),
            intent.operation.as_str()
        ));
    }
    let says = annotations.operation();
    let contradiction = match says {
        OperationClass::Destructive if variant != says => Some("is marked destructive by server"),
        OperationClass::Write if exact && variant < says => Some("writes"),
        _ => None,
    };
    if let Some(what) = contradiction {
        let text = format!("Tool '{tool}' {what}, use {}", says.call_tool_name());
        return match strict {
            true => IntentCheck::Rejected(text),
            false => IntentCheck::Warned(text),
        };
    }
    if says == OperationClass::Read && variant == OperationClass::Write {
        return IntentCheck::Warned(format!(
            "Tool '{tool}' is marked read-only by server, but intent declares write"
        ));
    }
    IntentCheck::Consistent
}

#[cfg(test)]
mod tests;
