//! JSON bodies that mean the same after they were read: exactly what was sent must be shown, approved and passed on. Pure.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::safety::json_text::string_end;

/// Why a body is refused.
#[derive(Debug)]
pub enum BodyFault {
    /// It is not JSON.
    Syntax(String),
    /// It is JSON of which a part would be changed or dropped.
    Inexact(String),
}

/// Reads JSON without numbers that would be rounded and objects with a name twice.
///
/// # Errors
/// The text is not such JSON.
pub fn parse(json: &[u8]) -> Result<Value, BodyFault> {
    let value = serde_json::from_slice(json).map_err(|e| BodyFault::Syntax(e.to_string()))?;
    if let Some(number) = inexact_number(json) {
        let message = format!("the number {number} would be changed: send it as a string");
        return Err(BodyFault::Inexact(message));
    }
    let unique = serde_json::from_slice::<UniqueNames>(json);
    unique.map_err(|e| BodyFault::Inexact(e.to_string()))?;
    Ok(value)
}

/// Returns the first number of a valid JSON text that has another value once it is read.
fn inexact_number(json: &[u8]) -> Option<&str> {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &&u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = json.iter().skip(at).take_while(is_part).count();
                let number = std::str::from_utf8(json.get(at..at + length)?).ok()?;
                if !is_exact(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Digits that name every double-precision number, as many programs write them.
const DOUBLE_DIGITS: usize = 17;

/// Number of digits up to which every integer is kept.
const INTEGER_DIGITS: usize = 18;

fn is_exact(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_integer = digits.bytes().all(|b| b.is_ascii_digit());
    if is_integer && digits.len() <= INTEGER_DIGITS && number != "-0" {
        return true;
    }
    let Ok(read) = serde_json::from_str::<Number>(number) else {
        return false;
    };
    let wanted = decimal(number);
    if decimal(&read.to_string()) == wanted {
        return true;
    }
    // `0.10000000000000001` is the same number as `0.1`.
    let digits = wanted.as_ref().map_or(0, |(_, digits, _)| digits.len());
    let is_float = number.contains(['.', 'e', 'E']) && (1..=DOUBLE_DIGITS).contains(&digits);
    read.as_f64().is_some_and(|double| {
        is_float && decimal(&format!("{double:.precision$e}", precision = digits - 1)) == wanted
    })
}

/// Returns the value of a number: its sign, its digits from the first to the last that is not 0, and the power of ten of the last.
/// The integer `-0` differs from 0 and from `-0.0`, which it would become.
fn decimal(number: &str) -> Option<(bool, String, i128)> {
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, i128::from(exponent.parse::<i64>().ok()?)),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let dropped = digits.len() - significant.len();
    let exponent = exponent - fraction.len() as i128 + dropped as i128;
    match significant.trim_start_matches('0') {
        "" => {
            let is_integer = !number.contains(['.', 'e', 'E']);
            Some((
                is_negative,
                String::new(),
                i128::from(is_negative && is_integer),
            ))
        }
        significant => Some((is_negative, significant.to_owned(), exponent)),
    }
}

/// A JSON value whose objects have no name twice: only the last of these would count.
struct UniqueNames;

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueNames, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = UniqueNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueNames, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<UniqueNames>()?;
            if names.contains(&name) {
                let message = format!("an object has the name {name:?} twice");
                return Err(de::Error::custom(message));
            }
            names.insert(name);
        }
        Ok(UniqueNames)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<UniqueNames, A::Error> {
        while items.next_element::<UniqueNames>()?.is_some() {}
        Ok(UniqueNames)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_unit<E>(self) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_changed_is_refused_by_its_name() {
        for (json, named) in [
            (
                r#"{"a": 12345678901234567890123}"#,
                "12345678901234567890123",
            ),
            (r#"[-9223372036854775809]"#, "-9223372036854775809"),
            (r#"{"a": {"b": [-0]}}"#, "-0"),
            ("0.10000000000000000001", "0.10000000000000000001"),
            ("1e-400", "1e-400"),
            ("1.5e-9223372036854775808", "1.5e-9223372036854775808"),
            ("0e99999999999999999999", "0e99999999999999999999"),
            (r#"{"a": 1, "b": 2, "a": 1}"#, "\"a\""),
            (r#"[{"x": {"a": 1, "\u0061": 2}}]"#, "\"a\""),
        ] {
            match parse(json.as_bytes()) {
                Err(BodyFault::Inexact(message)) => assert!(message.contains(named), "{message}"),
                other => panic!("{json}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_keeps_its_value_is_read() {
        for json in [
            "0",
            "-1",
            "18446744073709551615",
            "-9223372036854775808",
            "1.0",
            "0.1e1",
            "100e-2",
            "1E3",
            "0.0",
            "0e5",
            "0e9223372036854775807",
            "999999999999999999",
            "-100000000000000000",
            "-0.0",
            "0.30000000000000004",
            "0.10000000000000001",
            "4.9406564584124654e-324",
            "1.7976931348623157e308",
            r#"{"a": "-0 12345678901234567890123 \" 1e999", "b": {"a": null}, "c": [true, {}, {}]}"#,
        ] {
            let read = parse(json.as_bytes());
            let plain: Value = serde_json::from_str(json).unwrap();
            assert_eq!(read.ok(), Some(plain), "{json}");
        }
    }

    #[test]
    fn anything_else_is_no_json() {
        let deep = "[".repeat(1000);
        for json in ["", "{", "1e999", "01", "{\"a\":}", &deep] {
            let read = parse(json.as_bytes());
            assert!(matches!(read, Err(BodyFault::Syntax(_))), "{json}");
        }
    }
}
