//! Redaction: streamed and whole, with and without JSON.

use std::sync::LazyLock;

use aish::safety::redact::{LineRedactor, Redactor};
use serde_json::Value;

use crate::fuzz::mutator::{Random, pieces};
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "redact",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "kZ83hdPqW71nTr",
        "pa\"ss/wörd one",
        "abababababab",
        "pa%22ss%2Fw%C3%B6rd%20one",
        "pa\\\"ss/wörd one",
        "password=",
        "PASSWORD: ",
        "\"token\": \"",
        "Authorization: Bearer ",
        "Authorization: Basic ",
        "Cookie: ",
        "sk-ant-api03-",
        "ghp_",
        "AKIA",
        "xoxb-",
        "eyJhbGciOi",
        ".",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----END RSA PRIVATE KEY-----",
        "https://user:",
        "@host/",
        "curl -u ",
        "mysql -p",
        "PGPASSWORD=",
        "machine h login u password ",
        "\"auth\": \"",
        "client-key-data: ",
        "aws_secret_access_key = ",
        "&",
        "'",
        "\"",
        "\n",
        " ",
        "=",
        "0123456789abcdef0123456789abcdef",
        "Zm9vYmFyYmF6cXV4cXV1eA==",
        "[REDACTED:x]",
        "\\n",
        "\\\"",
        "%20",
    ],
};

/// Values that must not occur in any output.
const KNOWN: [&str; 3] = ["kZ83hdPqW71nTr", "pa\"ss/wörd one", "abababababab"];

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let redactor = Redactor::default();
    for value in KNOWN {
        redactor.add_secret("known", value);
    }
    redactor
});

fn check_values(output: &str) {
    for value in KNOWN {
        assert!(!output.contains(value), "{value:?} in {output:?}");
    }
}

/// Returns every string of a JSON text, without escapes.
fn strings(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|v| strings(v, all)),
        Value::Object(fields) => fields.values().for_each(|v| strings(v, all)),
        _ => {}
    }
}

fn run(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let redacted = REDACTOR.redact(&text);
    check_values(&redacted);
    let found = REDACTOR.find(&text);
    let mut at = 0;
    for secret in &found {
        assert!(
            at <= secret.range.start && secret.range.start < secret.range.end,
            "{found:?}"
        );
        assert!(text.get(secret.range.clone()).is_some(), "{found:?}");
        at = secret.range.end;
    }
    let mut stream = REDACTOR.stream();
    let (mut out, mut found_in_stream, mut taken) = (Vec::new(), Vec::new(), 0);
    for piece in pieces(text.as_bytes()) {
        stream.push(piece, &mut out);
        found_in_stream.extend(stream.take_found());
        taken += piece.len();
        assert!(stream.searched_to() <= taken);
    }
    stream.finish(&mut out);
    found_in_stream.extend(stream.take_found());
    assert_eq!(String::from_utf8_lossy(&out), redacted, "of {text:?}");
    assert_eq!(found_in_stream, found);
    // Bytes that are not UTF-8 pass, whatever the pieces.
    let bytes = |pieces: &[&[u8]]| {
        let (mut stream, mut out) = (REDACTOR.stream(), Vec::new());
        pieces.iter().for_each(|piece| stream.push(piece, &mut out));
        stream.finish(&mut out);
        out
    };
    let whole = bytes(&[input]);
    assert_eq!(bytes(&pieces(input)), whole);
    check_values(&String::from_utf8_lossy(&whole));

    let json = REDACTOR.redact_json(&text);
    if serde_json::from_str::<Value>(&text).is_ok() {
        let value = serde_json::from_str(&json).expect("JSON stays JSON");
        let mut all = Vec::new();
        strings(&value, &mut all);
        all.iter().for_each(|text| check_values(text));
    }
    let mut random = Random::of(input);
    let mut middle = random.below(text.len() + 1);
    while !text.is_char_boundary(middle) {
        middle -= 1;
    }
    let (head, tail) = text.split_at(middle);
    let (head, tail) = REDACTOR.redact_ends(head, tail);
    check_values(&head);
    check_values(&tail);
    check_values(&(head + &tail));
    assert!(REDACTOR.certain_end(input) <= input.len());
    check_values(&REDACTOR.redact_unfinished(&text));
    check_values(&REDACTOR.redact_beginning(&text, middle));
    let mut lines = LineRedactor::default();
    for line in text.lines() {
        check_values(&lines.line(&REDACTOR, line).unwrap_or_default());
    }
    !found.is_empty()
}
