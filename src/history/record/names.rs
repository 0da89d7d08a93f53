//! The names of version 1 and their replacements in version 2.

use std::borrow::Cow;

use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::chat::{CallStatus, DataSensitivity, FinishReason, OperationClass};

/// Types: old name, new name.
const TYPES: [(&str, &str); 3] = [
    ("decision", "command_approval"),
    ("exec", "command_result"),
    ("command", "shell_command"),
];

/// Statuses of a tool call: old name, new name.
const STATUSES: [(&str, &str); 3] = [
    ("error", "tool_error"),
    ("failed", "call_failed"),
    ("skipped", "invalid_call"),
];

/// Fields of all types.
const COMMON: &[(&str, &str)] = &[("at_ms", "timestamp_ms"), ("links", "ids")];

/// Fields that were renamed in records of this type (new name of the type).
fn fields_of(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind {
        "user" => &[("text", "prompt"), ("content", "rendered")],
        "assistant" | "command_result" => &[("ms", "duration_ms")],
        "approval" => &[
            ("why", "reason"),
            ("digest", "arguments_sha256"),
            ("act", "action"),
        ],
        "tool" => &[
            ("ms", "duration_ms"),
            ("act", "action"),
            ("by", "decided_by"),
            ("why", "reason"),
            ("digest", "result_sha256"),
        ],
        "policy" => &[("what", "rule"), ("why", "reason")],
        "command_approval" => &[("why", "reason")],
        _ => &[],
    }
}

/// Returns the current name of a type.
pub(crate) fn current_type(name: &str) -> &str {
    renamed(&TYPES, name)
}

/// Returns the current name of a tool call's status.
pub(crate) fn current_status(name: &str) -> &str {
    renamed(&STATUSES, name)
}

fn renamed<'a>(table: &[(&str, &'a str)], name: &'a str) -> &'a str {
    let entry = table.iter().find(|(old, _)| *old == name);
    entry.map_or(name, |(_, new)| new)
}

/// Gives a version 1 record that was read as plain JSON the names of version 2. Other records stay as they are.
pub fn upgrade(record: &mut Value) {
    let Value::Object(fields) = record else {
        return;
    };
    if fields.get("v").and_then(Value::as_u64) != Some(1) {
        return;
    }
    let old_type = fields.get("type").and_then(Value::as_str);
    let kind = current_type(old_type.unwrap_or_default()).to_owned();
    let renamed_field = |name: String| {
        let mut names = COMMON.iter().chain(fields_of(&kind));
        let found = names.find(|(old, _)| *old == name);
        found.map_or(name, |(_, new)| (*new).to_owned())
    };
    // The fields keep their order.
    let old = std::mem::take(fields);
    *fields = old
        .into_iter()
        .map(|(name, value)| (renamed_field(name), value))
        .collect::<Map<_, _>>();
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("v", version) => *version = 2.into(),
            ("type", Value::String(word)) => word.clone_from(&kind),
            ("status", Value::String(word)) if kind == "tool" => {
                *word = current_status(word).to_owned();
            }
            _ => {}
        }
    }
}

/// Reads the status of a tool call, by its old or its current name.
pub(super) fn status<'de, D: Deserializer<'de>>(from: D) -> Result<CallStatus, D::Error> {
    let name = Cow::<str>::deserialize(from)?;
    Ok(known(current_status(&name)).unwrap_or(CallStatus::CallFailed))
}

/// Reads why an answer ended; a reason that this version does not know counts as a complete answer.
pub(super) fn finish<'de, D: Deserializer<'de>>(from: D) -> Result<FinishReason, D::Error> {
    let name = Cow::<str>::deserialize(from)?;
    Ok(known(&name).unwrap_or(FinishReason::Stop))
}

/// Reads an operation class; one that this version does not know counts as the most severe.
pub(super) fn operation<'de, D: Deserializer<'de>>(from: D) -> Result<OperationClass, D::Error> {
    let name = Cow::<str>::deserialize(from)?;
    Ok(OperationClass::from_name(&name).unwrap_or(OperationClass::Destructive))
}

/// Reads the sensitivity of data; a value that this version does not know counts as undeclared.
pub(super) fn sensitivity<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<DataSensitivity>, D::Error> {
    let name = Option::<Cow<'_, str>>::deserialize(from)?;
    Ok(name.map(|name| DataSensitivity::from_name(&name).unwrap_or(DataSensitivity::Unknown)))
}

/// Returns the value with this name, if there is one.
fn known<'a, T: Deserialize<'a>>(name: &'a str) -> Option<T> {
    let name: StrDeserializer<'a, serde::de::value::Error> = name.into_deserializer();
    T::deserialize(name).ok()
}
