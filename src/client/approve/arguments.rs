//! The arguments of a call as lines that a person can read: what is shown is what is sent.
//!
//! They are read off the very text that is sent, and not off a value that was parsed from it. Strings
//! are escaped as in JSON; what is invisible, or looks like something else, is marked.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::client::frame::{Bit, Ink, Line, bit, bits, columns, wrap};
use crate::safety::alike;

/// Deeper than this, values stand on one line.
const DEPTH: usize = 32;
/// A string that takes more lines is cut short, until the person reads on.
const LINES: usize = 3;
/// So wide at most is the column of the keys.
const KEYS: usize = 32;

/// The lines of some arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The lines.
    pub lines: Vec<Line>,
    /// Nothing is left out.
    pub whole: bool,
}

/// The lines of the object `text` in `width` columns, long strings cut short unless `whole`.
///
/// A text that is no object is shown as it is.
pub fn lines(text: &str, width: usize, whole: bool) -> Shown {
    let mut page = Page {
        width,
        brief: !whole,
        lines: Vec::new(),
        cut: false,
    };
    match serde_json::from_str::<Entries<'_>>(text) {
        Ok(Entries(entries)) if entries.is_empty() => page.put(&[bit("no arguments", Ink::Dim)], 0),
        Ok(Entries(entries)) => page.top(&entries),
        Err(_) => {
            let raw: Vec<Bit> = bits(alike::pieces(text), Ink::Plain).collect();
            page.put(&raw, 2);
        }
    }
    Shown {
        lines: page.lines,
        whole: !page.cut,
    }
}

/// Any JSON as lines, for what a server says about a tool.
pub fn json(text: &str, width: usize) -> Vec<Line> {
    let mut page = Page {
        width,
        brief: false,
        lines: Vec::new(),
        cut: false,
    };
    if let Ok(value) = serde_json::from_str::<&RawValue>(text) {
        page.value(Vec::new(), value.get(), 0, 2, "");
    }
    page.lines
}

struct Page {
    width: usize,
    brief: bool,
    lines: Vec<Line>,
    cut: bool,
}

impl Page {
    fn put(&mut self, line: &[Bit], hang: usize) {
        self.lines.extend(wrap(line, self.width, hang));
    }

    /// One key a line, the values below each other.
    fn top(&mut self, entries: &[(String, &RawValue)]) {
        let keys: Vec<Vec<Bit>> = entries.iter().map(|(key, _)| label(key)).collect();
        let most = KEYS.min(self.width / 2);
        let widest = keys.iter().map(|k| columns(k)).filter(|w| *w <= most).max();
        let column = widest.unwrap_or(0);
        for (mut key, (_, value)) in keys.into_iter().zip(entries) {
            let pad = column.saturating_sub(columns(&key)) + 2;
            key.push(bit(" ".repeat(pad), Ink::Plain));
            self.value(key, value.get(), 0, column + 2, "");
        }
    }

    /// A value behind its key, at `depth` levels of indentation; what goes on begins at `hang`.
    fn value(&mut self, mut line: Vec<Bit>, raw: &str, depth: usize, hang: usize, end: &str) {
        // Deep down it stays where it is, so that there is room for the value.
        let indent = (depth * 2).min(self.width / 3);
        let (open, close, children): (_, _, Vec<(Vec<Bit>, &RawValue)>) = match raw.as_bytes() {
            [b'"', ..] => {
                self.string(line, raw, hang, end);
                return;
            }
            [b'{', ..] if depth < DEPTH => match serde_json::from_str::<Entries<'_>>(raw) {
                Ok(Entries(entries)) => {
                    let key = |k: &str| {
                        let mut key = quoted(k);
                        key.push(bit(": ", Ink::Plain));
                        key
                    };
                    let children = entries.iter().map(|(k, v)| (key(k), *v)).collect();
                    ("{", "}", children)
                }
                Err(_) => ("", "", Vec::new()),
            },
            [b'[', ..] if depth < DEPTH => match serde_json::from_str::<Vec<&RawValue>>(raw) {
                Ok(items) => {
                    let short = flat(&items, end);
                    if short
                        .as_ref()
                        .is_some_and(|s| columns(&line) + columns(s) <= self.width)
                    {
                        line.extend(short.unwrap_or_default());
                        self.put(&line, hang);
                        return;
                    }
                    let children = items.into_iter().map(|v| (Vec::new(), v)).collect();
                    ("[", "]", children)
                }
                Err(_) => ("", "", Vec::new()),
            },
            _ => ("", "", Vec::new()),
        };
        if open.is_empty() {
            line.extend(bits(alike::pieces(raw), Ink::Plain));
            line.push(bit(end, Ink::Plain));
            self.put(&line, hang);
            return;
        }
        if children.is_empty() {
            line.push(bit(format!("{open}{close}{end}"), Ink::Plain));
            self.put(&line, hang);
            return;
        }
        line.push(bit(open, Ink::Plain));
        self.put(&line, hang);
        let last = children.len() - 1;
        for (n, (key, value)) in children.into_iter().enumerate() {
            let mut line = vec![bit(" ".repeat(indent + 2), Ink::Plain)];
            line.extend(key);
            let end = if n < last { "," } else { "" };
            self.value(line, value.get(), depth + 1, indent + 4, end);
        }
        let close = format!("{}{close}{end}", " ".repeat(indent));
        self.put(&[bit(close, Ink::Plain)], hang);
    }

    fn string(&mut self, mut line: Vec<Bit>, raw: &str, hang: usize, end: &str) {
        let Ok(text) = serde_json::from_str::<String>(raw) else {
            line.extend(bits(alike::pieces(raw), Ink::Plain));
            self.put(&line, hang);
            return;
        };
        let before = line.len();
        line.extend(quoted(&text));
        line.push(bit(end, Ink::Plain));
        let room = self.width.saturating_sub(hang.min(self.width / 2)).max(1);
        // Far too long a text is not laid out only to be cut.
        let long = self.brief
            && (text.len() > room * LINES * 4 || wrap(&line, self.width, hang).len() > LINES);
        if long {
            let note = format!(" ({} bytes, ↓ to read all)", grouped(text.len() as u64));
            let left = self
                .width
                .saturating_sub(columns(&line[..before]) + note.chars().count() + 4);
            let start: String = text.chars().take_while(|c| *c != '\n').take(left).collect();
            let mut begin = quoted(&start);
            begin.pop();
            let mut cut = wrap(&begin, left.max(1), 0).swap_remove(0);
            if left < 8 {
                cut = vec![bit("\"", Ink::Plain)];
            }
            line.truncate(before);
            line.extend(cut);
            line.push(bit("…\"", Ink::Plain));
            line.push(bit(note, Ink::Dim));
            self.cut = true;
        }
        self.put(&line, hang);
    }
}

/// An array of numbers and short words as it stands on one line.
fn flat(items: &[&RawValue], end: &str) -> Option<Vec<Bit>> {
    let mut line = vec![bit("[", Ink::Plain)];
    for (n, item) in items.iter().enumerate() {
        let raw = item.get();
        if n > 0 {
            line.push(bit(", ", Ink::Plain));
        }
        match raw.as_bytes() {
            [b'{' | b'[', ..] => return None,
            [b'"', ..] if raw.len() < 200 => {
                line.extend(quoted(&serde_json::from_str::<String>(raw).ok()?));
            }
            _ if raw.len() < 200 && n < 200 => line.extend(bits(alike::pieces(raw), Ink::Plain)),
            _ => return None,
        }
    }
    // A line break in a text would break the line.
    if line.iter().any(|b| b.text == "\n") {
        return None;
    }
    line.push(bit(format!("]{end}"), Ink::Plain));
    Some(line)
}

/// A key: bare where it is a plain word, so that it cannot be mistaken for anything else.
fn label(key: &str) -> Vec<Bit> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.$@".contains(c);
    if !key.is_empty() && key.chars().all(plain) {
        vec![bit(key, Ink::Name)]
    } else {
        quoted(key)
    }
}

/// A string of JSON: escaped as there, and a line a line of its text.
fn quoted(text: &str) -> Vec<Bit> {
    let mut line = vec![bit("\"", Ink::Plain)];
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let escape = match c {
            '"' => bit("\\\"", Ink::Plain),
            '\\' => bit("\\\\", Ink::Plain),
            '\n' => bit("\\n", Ink::Plain),
            '\t' => bit("\\t", Ink::Plain),
            '\r' => bit("\\r", Ink::Mark),
            c if c.is_ascii_control() => bit(format!("\\u{:04x}", u32::from(c)), Ink::Mark),
            _ => continue,
        };
        line.extend(bits(alike::pieces(&text[from..at]), Ink::Plain));
        line.push(escape);
        from = at + c.len_utf8();
        if c == '\n' && from < text.len() {
            line.push(bit("\n", Ink::Plain));
        }
    }
    line.extend(bits(alike::pieces(&text[from..]), Ink::Plain));
    line.push(bit("\"", Ink::Plain));
    line
}

/// `1204` as `1,204`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The entries of an object in their order, values as they are written.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, &RawValue>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        from.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, width: usize, whole: bool) -> (Vec<String>, bool) {
        let shown = lines(text, width, whole);
        let line = |l: &Line| l.iter().map(|b| b.text.as_str()).collect();
        (shown.lines.iter().map(line).collect(), shown.whole)
    }

    fn all(text: &str) -> Vec<String> {
        shown(text, 80, true).0
    }

    #[test]
    fn one_key_a_line_and_nested_values_indented() {
        assert_eq!(
            all(
                r#"{"title":"Crash","n":1.50000000000000000001,"labels":["a","b"],"meta":{"x":[{"y":null}],"e":{}}}"#
            ),
            [
                "title   \"Crash\"",
                "n       1.50000000000000000001",
                "labels  [\"a\", \"b\"]",
                "meta    {",
                "  \"x\": [",
                "    {",
                "      \"y\": null",
                "    }",
                "  ],",
                "  \"e\": {}",
                "}",
            ]
        );
        assert_eq!(all("{}"), ["no arguments"]);
        assert_eq!(
            all(r#"{"a":1,"a":2}"#),
            ["a  1", "a  2"],
            "a key that comes twice"
        );
    }

    #[test]
    fn strings_hide_nothing() {
        assert_eq!(
            all("{\"a b\":\"x\\u001b[2J\\u202ey\\\"\\\\\\u200b\",\"t\":\"p\u{430}ypal\"}"),
            [
                "\"a b\"  \"x\\u001b[2J‹\\u{202e}›y\\\"\\\\‹\\u{200b}›\"",
                "t      \"p‹U+0430›ypal\"",
            ]
        );
        // No line of a value begins where a key would.
        let (lines, _) = shown(r#"{"body":"one\nforce  false\ntwo"}"#, 80, true);
        assert_eq!(
            lines,
            ["body  \"one\\n", "      force  false\\n", "      two\""]
        );
    }

    #[test]
    fn a_long_string_shows_its_size_until_it_is_read() {
        let text = format!(
            r#"{{"title":"t","body":"{}"}}"#,
            "word ".repeat(240) + "TAIL"
        );
        let (lines, whole) = shown(&text, 60, false);
        assert!(!whole);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].starts_with("body   \"word "), "{lines:?}");
        assert!(
            lines[1].ends_with("…\" (1,204 bytes, ↓ to read all)"),
            "{lines:?}"
        );
        let (lines, whole) = shown(&text, 60, true);
        assert!(whole && lines.len() > 20);
        assert!(lines[lines.len() - 1].ends_with("TAIL\""), "{lines:?}");
    }

    #[test]
    fn deep_is_no_trouble() {
        let text = format!(r#"{{"a":{}{}}}"#, "[".repeat(100), "]".repeat(100));
        for width in [20, 80] {
            let (lines, _) = shown(&text, width, true);
            assert_eq!(lines.concat().matches('[').count(), 100);
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_nothing_is_lost(
            key in "[a-z]{1,8}", value in "[ -~äж日\n\u{202e}]{0,200}", width in 20usize..100,
        ) {
            let text = serde_json::json!({ key: &value }).to_string();
            let (lines, _) = shown(&text, width, true);
            for line in &lines {
                prop_assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= width, "{line:?}");
            }
            let bare = |s: &str| s.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
            // Marks add letters of their own.
            if bare(&value) == value {
                prop_assert!(bare(&lines.concat()).ends_with(&value));
            }
        }
    }
}
