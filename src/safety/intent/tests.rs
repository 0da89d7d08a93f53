use serde_json::{Value, json};

use super::*;

/// Expected result in a cell of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Says {
    Allow,
    Warn(String),
    Reject(String),
}

/// Parses and checks a call through a `call_tool_*` tool as the gate does; returns the caller's result.
fn call(
    variant: OperationClass,
    arguments: Value,
    annotations: ToolAnnotations,
    strict: bool,
) -> Says {
    let Value::Object(arguments) = arguments else {
        panic!("{arguments} are no arguments");
    };
    let intent = match parse_intent(variant, &arguments) {
        Ok(intent) => intent,
        Err(text) => return Says::Reject(text),
    };
    match check_intent(variant, &intent, TOOL, (annotations, false), strict) {
        IntentCheck::Consistent => Says::Allow,
        IntentCheck::Warned(text) => Says::Warn(text),
        IntentCheck::Rejected(text) => Says::Reject(text),
    }
}

const TOOL: &str = "github:delete_repo";

const MARKED: &str =
    "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive";

const READ_ONLY: &str =
    "Tool 'github:delete_repo' is marked read-only by server, but intent declares write";

/// Each hint: absent, true, false.
const HINTS: [Option<bool>; 3] = [None, Some(true), Some(false)];

/// Expected results by `call_tool_*` tool, declared operation and hints, written out rather than computed. The columns
/// are the hints `none`, `readOnlyHint`, `destructiveHint`, both.
///
/// `A` allows, `W` warns and allows, `D` is marked destructive, `M` is a mismatch, `R` is missing but required, `I` is
/// an unknown word.
const TABLE: [(&str, Option<&str>, [char; 4]); 18] = [
    ("call_tool_read", Some("read"), ['A', 'A', 'D', 'D']),
    ("call_tool_read", Some("write"), ['M', 'M', 'M', 'M']),
    ("call_tool_read", Some("destructive"), ['M', 'M', 'M', 'M']),
    ("call_tool_read", None, ['R', 'R', 'R', 'R']),
    ("call_tool_read", Some("unknown"), ['I', 'I', 'I', 'I']),
    ("call_tool_read", Some("READ"), ['I', 'I', 'I', 'I']),
    ("call_tool_write", Some("read"), ['M', 'M', 'M', 'M']),
    ("call_tool_write", Some("write"), ['A', 'W', 'D', 'D']),
    ("call_tool_write", Some("destructive"), ['M', 'M', 'M', 'M']),
    ("call_tool_write", None, ['R', 'R', 'R', 'R']),
    ("call_tool_write", Some("unknown"), ['I', 'I', 'I', 'I']),
    ("call_tool_write", Some("write "), ['I', 'I', 'I', 'I']),
    ("call_tool_destructive", Some("read"), ['M', 'M', 'M', 'M']),
    ("call_tool_destructive", Some("write"), ['M', 'M', 'M', 'M']),
    (
        "call_tool_destructive",
        Some("destructive"),
        ['A', 'A', 'A', 'A'],
    ),
    ("call_tool_destructive", None, ['R', 'R', 'R', 'R']),
    (
        "call_tool_destructive",
        Some("unknown"),
        ['I', 'I', 'I', 'I'],
    ),
    (
        "call_tool_destructive",
        Some("delete"),
        ['I', 'I', 'I', 'I'],
    ),
];

#[test]
fn every_combination_gives_the_expected_result_and_text() {
    let mut cells = 0;
    for (name, declared, row) in TABLE {
        let variant = OperationClass::from_call_tool_name(name).expect("a variant");
        let word = declared.unwrap_or_default();
        for (read_only, destructive, strict) in HINTS.iter().flat_map(|r| {
            let pairs = HINTS.iter().map(move |d| (*r, *d));
            pairs.flat_map(|(r, d)| [(r, d, true), (r, d, false)])
        }) {
            // A false hint is equivalent to an absent one.
            let column = match (read_only == Some(true), destructive == Some(true)) {
                (false, false) => 0,
                (true, false) => 1,
                (false, true) => 2,
                (true, true) => 3,
            };
            let expected = match row[column] {
                'A' => Says::Allow,
                'W' => Says::Warn(READ_ONLY.into()),
                'D' if strict => Says::Reject(MARKED.into()),
                'D' => Says::Warn(MARKED.into()),
                'M' => Says::Reject(format!(
                    "Intent mismatch: tool is {name} but intent declares {word}"
                )),
                'R' => Says::Reject("intent.operation_type is required".into()),
                _ => Says::Reject(format!(
                    "Invalid intent.operation_type '{word}': must be read, write, or destructive"
                )),
            };
            // The other hints have no effect.
            for other in HINTS {
                let annotations = ToolAnnotations {
                    read_only,
                    destructive,
                    idempotent: other,
                    open_world: other,
                };
                let nested = match declared {
                    Some(word) => json!({ "intent": { "operation_type": word } }),
                    None => json!({ "intent": {} }),
                };
                let flat = match declared {
                    Some(word) => json!({ "intent_operation_type": word }),
                    None => json!({ "intent_reason": "to see" }),
                };
                let mut both = nested.clone();
                for (key, value) in flat.as_object().expect("an object") {
                    both[key] = value.clone();
                }
                for arguments in [nested, flat, both] {
                    let said = call(variant, arguments.clone(), annotations, strict);
                    assert_eq!(
                        said, expected,
                        "{name} {arguments} {annotations:?} strict: {strict}"
                    );
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, TABLE.len() * 9 * 2 * 3 * 3);
}

#[test]
fn exact_annotations_are_not_understated() {
    use OperationClass::{Destructive, Read, Write};
    let writes = ToolAnnotations {
        read_only: Some(false),
        destructive: Some(false),
        ..ToolAnnotations::default()
    };
    let text = "Tool 'aish:shell' writes, use call_tool_write".to_owned();
    for (variant, strict, expected) in [
        (Read, true, IntentCheck::Rejected(text.clone())),
        (Read, false, IntentCheck::Warned(text)),
        (Write, true, IntentCheck::Consistent),
        (Destructive, true, IntentCheck::Consistent),
    ] {
        let intent = CallIntent {
            operation: variant,
            sensitivity: None,
            reason: None,
        };
        let checked = check_intent(variant, &intent, "aish:shell", (writes, true), strict);
        assert_eq!(checked, expected, "{variant:?}");
    }
}

#[test]
fn error_texts_are_exact() {
    use OperationClass::{Destructive, Read, Write};
    let none = ToolAnnotations::default();
    let destroys = ToolAnnotations {
        destructive: Some(true),
        ..none
    };
    let rejected =
        |variant, arguments, annotations| match call(variant, arguments, annotations, true) {
            Says::Reject(text) => text,
            said => panic!("{said:?}"),
        };
    assert_eq!(
        rejected(
            Read,
            json!({ "intent": { "operation_type": "write" } }),
            none
        ),
        "Intent mismatch: tool is call_tool_read but intent declares write"
    );
    assert_eq!(
        rejected(Read, json!({}), none),
        "intent parameter is required for call_tool_read"
    );
    assert_eq!(
        rejected(Destructive, json!({ "intent": null, "name": "a:b" }), none),
        "intent parameter is required for call_tool_destructive"
    );
    assert_eq!(
        rejected(Write, json!({ "intent": {} }), none),
        "intent.operation_type is required"
    );
    assert_eq!(
        rejected(
            Write,
            json!({ "intent": { "operation_type": "unknown" } }),
            none
        ),
        "Invalid intent.operation_type 'unknown': must be read, write, or destructive"
    );
    assert_eq!(
        rejected(
            Read,
            json!({ "intent": { "operation_type": "read" } }),
            destroys
        ),
        "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive"
    );
    assert_eq!(
        unknown_tool_error("call_tool"),
        "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
    );
}

fn read_of(arguments: Value) -> Result<CallIntent, String> {
    parse_intent(
        OperationClass::Read,
        arguments.as_object().expect("an object"),
    )
}

fn error_of(arguments: Value) -> String {
    read_of(arguments).expect_err("an error")
}

#[test]
fn both_forms_are_parsed_and_must_agree() {
    let whole = CallIntent {
        operation: OperationClass::Read,
        sensitivity: Some(DataSensitivity::Private),
        reason: Some("to see".into()),
    };
    let nested =
        json!({ "operation_type": "read", "data_sensitivity": "private", "reason": "to see" });
    assert_eq!(read_of(json!({ "intent": nested })), Ok(whole.clone()));
    let mut flat = json!({
        "intent_operation_type": "read",
        "intent_data_sensitivity": "private",
        "intent_reason": "to see",
    });
    assert_eq!(read_of(flat.clone()), Ok(whole.clone()));
    flat["intent"] = nested.clone();
    assert_eq!(read_of(flat.clone()), Ok(whole.clone()));
    // A field that one form leaves out does not contradict the other form.
    let some = json!({
        "intent": { "operation_type": "read", "reason": null },
        "intent_reason": "to see",
        "intent_operation_type": "",
        "intent_data_sensitivity": "private",
    });
    assert_eq!(read_of(some), Ok(whole));
    for (key, of_nested, other) in [
        ("intent_operation_type", "operation_type", "write"),
        ("intent_data_sensitivity", "data_sensitivity", "public"),
        ("intent_reason", "reason", "to see it"),
    ] {
        let mut disagrees = flat.clone();
        disagrees[key] = json!(other);
        assert_eq!(
            error_of(disagrees),
            format!("intent.{of_nested} and {key} disagree: give one of them")
        );
    }
    // A valid form does not excuse an invalid one.
    assert_eq!(
        error_of(json!({ "intent": [], "intent_operation_type": "read" })),
        "Invalid intent for call_tool_read: must be an object with operation_type"
    );
}

#[test]
fn invalid_intents_are_rejected_with_a_reason() {
    for wrong in [json!("read"), json!(["read"]), json!(1), json!(true)] {
        assert_eq!(
            error_of(json!({ "intent": wrong })),
            "Invalid intent for call_tool_read: must be an object with operation_type"
        );
    }
    for (wrong, shown) in [
        (json!(1), "1".to_owned()),
        (json!(["read"]), "[\"read\"]".to_owned()),
        (json!("é".repeat(61)), format!("{}…", "é".repeat(60))),
        (json!("é".repeat(60)), "é".repeat(60)),
    ] {
        assert_eq!(
            error_of(json!({ "intent": { "operation_type": wrong } })),
            format!("Invalid intent.operation_type '{shown}': must be read, write, or destructive")
        );
        assert_eq!(
            error_of(json!({ "intent_operation_type": "read", "intent_data_sensitivity": wrong })),
            format!(
                "Invalid intent.data_sensitivity '{shown}': must be public, internal, private, or unknown"
            )
        );
    }
    let missing = json!({ "intent": { "operation_type": null, "reason": "x" } });
    assert_eq!(error_of(missing), "intent.operation_type is required");
}

#[test]
fn every_sensitivity_is_accepted_and_it_is_optional() {
    let of = |word: Value| {
        let intent = json!({ "operation_type": "read", "data_sensitivity": word });
        read_of(json!({ "intent": intent })).map(|i| i.sensitivity)
    };
    for sensitivity in DataSensitivity::ALL {
        assert_eq!(of(json!(sensitivity.as_str())), Ok(Some(sensitivity)));
    }
    assert_eq!(of(Value::Null), Ok(None));
    assert!(of(json!("secret")).is_err() && of(json!("Private")).is_err());
}

#[test]
fn the_length_of_a_reason_counts_characters() {
    let of = |reason: Value| {
        let intent = json!({ "operation_type": "read", "reason": reason });
        let nested = read_of(json!({ "intent": intent })).map(|i| i.reason);
        let flat = json!({ "intent_operation_type": "read", "intent_reason": reason });
        assert_eq!(read_of(flat).map(|i| i.reason), nested);
        nested
    };
    for letter in ["x", "é", "語", "🦀"] {
        let most = letter.repeat(1000);
        assert_eq!(of(json!(most)), Ok(Some(most)));
        assert_eq!(
            of(json!(letter.repeat(1001))),
            Err("Invalid intent.reason: 1001 characters, must be at most 1000".into())
        );
    }
    assert_eq!(
        of(json!(["x"])),
        Err("Invalid intent.reason: must be a string".into())
    );
    assert_eq!(of(Value::Null), Ok(None));
}
