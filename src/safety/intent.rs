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

/// The keys of the flat form, in the order of the nested one.
const FLAT: [&str; 3] = [
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
];

/// Reads the intent out of the arguments of `call_tool_read` and its like: `intent`, or the flat form, or both where
/// they agree.
///
/// # Errors
/// There is none, or it is wrong: what the caller is told.
pub fn read(variant: Operation, arguments: &Map<String, Value>) -> Result<Intent, String> {
    let given = |value: Option<&Value>| value.filter(|v| !v.is_null()).cloned();
    let flat = FLAT.map(|key| given(arguments.get(key)));
    let nested = match given(arguments.get("intent")) {
        None => None,
        Some(Value::Object(map)) => {
            Some(["operation_type", "data_sensitivity", "reason"].map(|key| given(map.get(key))))
        }
        Some(_) => {
            return Err(format!(
                "intent of {} must be an object with operation_type",
                variant.variant()
            ));
        }
    };
    let has_flat = flat.iter().any(Option::is_some);
    let fields = match (nested, has_flat) {
        (None, false) => {
            return Err(format!(
                "intent parameter is required for {}",
                variant.variant()
            ));
        }
        (None, true) => flat,
        (Some(nested), false) => nested,
        (Some(nested), true) => {
            let intent = fields(&nested)?;
            if fields(&flat)? != intent {
                return Err("intent and intent_operation_type, intent_data_sensitivity, intent_reason disagree: give one of the two forms".into());
            }
            return Ok(intent);
        }
    };
    self::fields(&fields)
}

fn fields([operation, sensitivity, reason]: &[Option<Value>; 3]) -> Result<Intent, String> {
    let word = |value: &Value| match value {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    let operation = operation
        .as_ref()
        .map(word)
        .filter(|word| !word.is_empty())
        .ok_or("intent.operation_type is required")?;
    let operation = Operation::from_word(&operation).ok_or_else(|| {
        format!("Invalid intent.operation_type '{operation}': must be read, write, or destructive")
    })?;
    let sensitivity = match sensitivity.as_ref().map(word) {
        None => None,
        Some(word) => Some(Sensitivity::from_word(&word).ok_or_else(|| {
            format!("Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown")
        })?),
    };
    let reason = match reason {
        None => None,
        Some(Value::String(reason)) => {
            let length = reason.chars().count();
            if length > REASON {
                return Err(format!(
                    "intent.reason is too long: {length} characters, at most {REASON}"
                ));
            }
            Some(reason.clone())
        }
        Some(_) => return Err("Invalid intent.reason: must be a string".into()),
    };
    Ok(Intent {
        operation,
        sensitivity,
        reason,
    })
}

/// What a caller is told who calls a tool that it was not offered, in place of `call_tool_read` and its like.
pub fn not_offered(name: &str) -> String {
    format!(
        "Tool '{name}' not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
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
