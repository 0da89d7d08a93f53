//! Checks values against schemas of the document. Fields that the document does not have are faults too: they would be undocumented.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(aish::api::routes::document);

/// Checks a value against a schema of the document.
pub fn check_as(schema: &str, value: &Value) {
    if let Some(fault) = fault_of(schema, value) {
        panic!("{fault}: {value:#}");
    }
}

fn fault_of(schema: &str, value: &Value) -> Option<String> {
    let reference = json!({ "$ref": format!("#/components/schemas/{schema}") });
    check_whole(&reference, value, schema).err()
}

/// Returns the names of the fields that the schema has.
fn check(schema: &Value, value: &Value, at: &str) -> Result<BTreeSet<String>, String> {
    let mut known = BTreeSet::new();
    if let Some(reference) = schema["$ref"].as_str() {
        let path = reference
            .strip_prefix('#')
            .expect("a reference within the document");
        let schema = DOCUMENT.pointer(path).expect("a schema of the document");
        known.extend(check(schema, value, at)?);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is_type = |name: &Value| match name.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is not a type"),
    };
    if !types.is_empty() && !types.iter().any(is_type) {
        return Err(format!("{at} is not {}", schema["type"]));
    }
    let is_one_of = |values: &Value| {
        values
            .as_array()
            .is_none_or(|values| values.contains(value))
    };
    if !is_one_of(&schema["enum"]) || schema.get("const").is_some_and(|only| only != value) {
        return Err(format!("{at} is {value}"));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        known.extend(check(part, value, at)?);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let results: Vec<_> = choices
            .iter()
            .map(|choice| check(choice, value, at))
            .collect();
        let mut fitting = results.iter().flatten();
        match (fitting.next(), fitting.next()) {
            (Some(fields), None) => known.extend(fields.iter().cloned()),
            (Some(_), Some(_)) => return Err(format!("{at} fits several schemas")),
            // The fault that is deepest says most.
            (None, _) => {
                let faults = results.into_iter().filter_map(Result::err);
                return Err(faults.max_by_key(String::len).unwrap_or_default());
            }
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().expect("a name")).is_none() {
            return Err(format!("{at} has no {name}"));
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            known.insert(name.clone());
            if let Some(field) = value.get(name) {
                check_whole(property, field, &format!("{at}.{name}"))?;
            }
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (number, value) in values.iter().enumerate() {
            check_whole(items, value, &format!("{at}[{number}]"))?;
        }
    }
    Ok(known)
}

/// Checks a value, and that the schema has all of its fields; a schema without fields allows any.
fn check_whole(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let known = check(schema, value, at)?;
    let is_free = schema["type"] == "object" && schema.get("properties").is_none();
    let fields = value.as_object().filter(|_| !is_free);
    match fields.and_then(|fields| fields.keys().find(|name| !known.contains(*name))) {
        Some(name) => Err(format!("{at} has the undocumented field {name}")),
        None => Ok(()),
    }
}

#[test]
fn an_event_that_is_not_documented_is_found() {
    let event = |kind: &str, payload: Value| {
        json!({
            "type": kind, "session_id": "", "agent_id": null, "seq": 1, "ts": "", "payload": payload,
        })
    };
    let fault = |event: Value| fault_of("EventEnvelope", &event);
    assert_eq!(fault(event("x.notice", json!({ "text": "a" }))), None);
    for (kind, payload) in [
        ("x.other", json!({ "text": "a" })),
        ("x.notice", json!({})),
        ("x.notice", json!({ "text": 1 })),
        ("x.notice", json!({ "text": "a", "more": 1 })),
        (
            "message.start",
            json!({ "message_id": "a", "role": "nobody" }),
        ),
        (
            "message.start",
            json!({ "message_id": "a", "role": "user", "cwd": null }),
        ),
    ] {
        assert!(
            fault(event(kind, payload.clone())).is_some(),
            "{kind} {payload}"
        );
    }
}
