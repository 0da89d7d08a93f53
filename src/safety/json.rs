//! JSON that is safe to show on a terminal: characters that the text sink would not pass are written as `\uXXXX`, which
//! every JSON parser reads as the same text.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use super::text;

/// Appends `value` as one line of JSON, LF included, to `out`.
///
/// # Errors
/// The value cannot be represented in JSON, such as a map whose keys are not strings.
pub fn append_json_line<T: Serialize + ?Sized>(
    value: &T,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, VisibleFormatter))?;
    out.push(b'\n');
    Ok(())
}

/// Formatter that escapes invisible characters in strings; everything else as usual.
struct VisibleFormatter;

impl Formatter for VisibleFormatter {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        part: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in part.char_indices() {
            if is_plain(c) {
                continue;
            }
            CompactFormatter.write_string_fragment(to, &part[plain..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(to, "\\u{unit:04x}")?;
            }
            plain = at + c.len_utf8();
        }
        CompactFormatter.write_string_fragment(to, &part[plain..])
    }
}

/// Whether a character is visible and independent of its neighbours. Joiners and marks are not: JSON is primarily for
/// programs.
fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut buffer = [0; 4];
    let alone: &str = c.encode_utf8(&mut buffer);
    text::strict(alone) == alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(value: &str) -> String {
        let mut out = Vec::new();
        append_json_line(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(shown("a\u{9b}2J\u{7f}"), "\"a\\u009b2J\\u007f\"\n");
        assert_eq!(
            shown("\u{202e}\u{2028}\u{200b}"),
            "\"\\u202e\\u2028\\u200b\"\n"
        );
        assert_eq!(shown("\u{e0041}"), "\"\\udb40\\udc41\"\n");
        assert_eq!(shown("grüße 日本 \"\n"), "\"grüße 日本 \\\"\\n\"\n");
    }

    proptest! {
        #[test]
        fn escaped_json_parses_to_the_same_value(value in any::<String>()) {
            let line = shown(&value);
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), value);
            prop_assert_eq!(text::prose(&line), line);
        }
    }
}
