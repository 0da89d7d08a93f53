//! JSON that `serde_json` does not keep or does not read: integers beyond 64 bits, and halves of surrogate pairs. Pure but
//! for the marker, which is random so that no text of a model contains it.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Number, Value};

/// Marks the beginning of a string that is a number.
static MARKER: LazyLock<String> =
    LazyLock::new(|| format!("\"number-{}:", uuid::Uuid::new_v4().simple()));

/// Parses a JSON object. Integers beyond 64 bits become marked strings; [`text`] turns them back.
/// Half a surrogate pair becomes U+FFFD.
///
/// # Errors
/// The text is not a JSON object.
pub fn parse_object(text: &str) -> serde_json::Result<Map<String, Value>> {
    let map = match serde_json::from_str(&marked_numbers(text)) {
        Ok(map) => map,
        Err(e) => match replace_halves(text, |_| '\u{fffd}') {
            Some(text) => serde_json::from_str(&marked_numbers(&text))?,
            None => return Err(e),
        },
    };
    // A number in the place of a key would become valid JSON by its mark alone.
    match has_marked_key(&map) {
        true => Err(serde::de::Error::custom("a key is a number")),
        false => Ok(map),
    }
}

fn has_marked_key(map: &Map<String, Value>) -> bool {
    map.iter()
        .any(|(key, value)| is_marked(key) || holds_marked_key(value))
}

fn holds_marked_key(value: &Value) -> bool {
    match value {
        Value::Object(map) => has_marked_key(map),
        Value::Array(items) => items.iter().any(holds_marked_key),
        _ => false,
    }
}

/// Whether a string is a marked number.
fn is_marked(text: &str) -> bool {
    text.starts_with(&MARKER[1..])
}

/// Writes the JSON of an object from [`parse_object`] with its numbers as they were.
pub fn text(object: &Map<String, Value>) -> String {
    let json = serde_json::to_string(object).unwrap_or_default();
    with_numbers(&json).map_or(json, String::from)
}

/// Turns marked strings in a JSON text back into numbers. Returns `None` if there are none.
pub fn with_numbers(json: &str) -> Option<String> {
    let mut parts = json.split(MARKER.as_str());
    let mut out = parts.next()?.to_owned();
    let before = out.len();
    for part in parts {
        let (number, rest) = part.split_once('"')?;
        out.push_str(number);
        out.push_str(rest);
    }
    (out.len() > before).then_some(out)
}

/// Returns the first integer in a JSON text that `serde_json` alone would change.
pub fn inexact_integer(json: &str) -> Option<String> {
    let marked = marked_numbers(json);
    let parts = marked.split(MARKER.as_str()).skip(1);
    let mut numbers = parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned()));
    numbers.next()
}

/// Marks the integers that `serde_json` would turn into floating-point numbers.
fn marked_numbers(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    let bytes = json.as_bytes();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[at..].iter().take_while(|b| is_part(b)).count();
                let number = &json[at..at + length];
                let kept = |n: Number| n.to_string() == number;
                if length > 15
                    && is_integer(number)
                    && !serde_json::from_str(number).is_ok_and(kept)
                {
                    out.push_str(&json[copied..at]);
                    out.push_str(&MARKER);
                    out.push_str(number);
                    out.push('"');
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    match copied {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(out + &json[copied..]),
    }
}

/// Returns the position after a string that begins at `at`.
pub fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// Whether a text is an integer by the grammar of JSON, of any size.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0')
}

/// Replaces every escape of half a surrogate pair, which `serde_json` does not read, by `replacement`. Returns `None` if there
/// is none.
pub fn replace_halves(json: &str, replacement: impl Fn(u16) -> char) -> Option<String> {
    let mut out = String::new();
    let mut rest = json;
    let mut replaced = false;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let unit = escaped_unit(escape);
        let low = || escape.get(6..).and_then(escaped_unit);
        let length = match unit {
            Some(0xD800..0xDC00) if matches!(low(), Some(0xDC00..0xE000)) => 12,
            Some(half @ 0xD800..0xE000) => {
                out.push(replacement(half));
                replaced = true;
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            // The escaped character may have several bytes.
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    replaced.then_some(out)
}

/// Reads `\uXXXX` at the beginning of a text.
fn escaped_unit(text: &str) -> Option<u16> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = hex.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(hex, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(json: &str) -> String {
        text(&parse_object(json).expect("an object"))
    }

    #[test]
    fn a_number_is_no_key() {
        for json in [
            r#"{123456789012345678901234567890:1}"#,
            r#"{"a":[{123456789012345678901234567890:1}]}"#,
        ] {
            assert!(parse_object(json).is_err(), "{json}");
        }
    }

    #[test]
    fn large_integers_keep_their_text() {
        for json in [
            r#"{"a":18446744073709551616,"b":[-9223372036854775809,1.5],"c":"18446744073709551616"}"#,
            r#"{"a":-0.0,"c":{"d":123456789012345678901234567890}}"#,
            r#"{"a\"1":12345678901234567890,"b":18446744073709551615}"#,
        ] {
            assert_eq!(kept(json), json);
        }
        assert_eq!(
            kept(r#"{ "a": 1.50, "b": 1E5 }"#),
            r#"{"a":1.5,"b":100000.0}"#
        );
        assert_eq!(inexact_integer(r#"{"a":18446744073709551615}"#), None);
        let found = inexact_integer(r#"{"a":18446744073709551616}"#);
        assert_eq!(found.as_deref(), Some("18446744073709551616"));
        for bad in [
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":1e999}",
            "{\"a\":012345678901234567890}",
            "{\"a\":-}",
            "{\"a\":1e}",
            "[1]",
            "{",
            "{\"a\":\"\\",
        ] {
            assert!(parse_object(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_string_that_looks_like_a_mark_stays_a_string() {
        let json =
            r#"{"a":"\"number-00000000000000000000000000000000:5","b":123456789012345678901}"#;
        assert_eq!(kept(json), json);
    }

    #[test]
    fn half_a_pair_becomes_a_replacement_character() {
        let json = r#"{"a":"x\ud83dy","b":"\ude00","c":"\ud83d\ude00","d":"\\ud83d","e":"\ud83d\ud83d\ude00"}"#;
        let wanted = "{\"a\":\"x\u{fffd}y\",\"b\":\"\u{fffd}\",\"c\":\"😀\",\"d\":\"\\\\ud83d\",\"e\":\"\u{fffd}😀\"}";
        assert_eq!(kept(json), wanted);
        assert_eq!(replace_halves(r#"{"c":"\ud83d\ude00"}"#, |_| '?'), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_by_serde_json_or_with_exact_numbers(json in "[-{}\\[\\]\":,0-9.eE+a\\\\ud8c ]{0,40}") {
            let ours = parse_object(&json);
            if let Ok(theirs) = serde_json::from_str::<Map<String, Value>>(&json) {
                let ours = text(&ours.expect("an object"));
                let reparsed: Map<String, Value> = serde_json::from_str(&ours).expect("an object");
                prop_assert_eq!(reparsed, theirs);
            }
        }
    }
}
