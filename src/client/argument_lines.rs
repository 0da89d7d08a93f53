//! Layout of a call's arguments as readable lines. The lines are made from the exact text that is sent, not from a parsed
//! value. Strings are escaped as in JSON; invisible characters and lookalikes are marked.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::client::styled_line::{SpanStyle, StyledLine, StyledSpan, columns, span, spans, wrap};
use crate::client::text_format::grouped;
use crate::safety::confusables;

/// Values nested deeper are laid out on one line.
const MAX_DEPTH: usize = 32;
/// Strings that need more lines are cut until the user reads on.
const STRING_LINES: usize = 3;
/// Widest column of keys.
const KEY_COLUMNS: usize = 32;

/// Arguments laid out as lines.
#[derive(Debug, PartialEq, Eq)]
pub struct ArgumentLines {
    /// The lines.
    pub lines: Vec<StyledLine>,
    /// No string was cut.
    pub complete: bool,
}

/// Lays the JSON object `text` out in `width` columns, with long strings cut unless `whole` is set.
///
/// Text that is not an object is shown unchanged.
pub fn lines(text: &str, width: usize, whole: bool) -> ArgumentLines {
    let mut page = ArgumentLayout {
        width,
        brief: !whole,
        lines: Vec::new(),
        cut: false,
    };
    match serde_json::from_str::<ObjectEntries<'_>>(text) {
        Ok(ObjectEntries(entries)) if entries.is_empty() => {
            page.put(&[span("no arguments", SpanStyle::Dim)], 0)
        }
        Ok(ObjectEntries(entries)) => page.top(&entries),
        Err(_) => {
            let raw: Vec<StyledSpan> =
                spans(confusables::marked_pieces(text), SpanStyle::Plain).collect();
            page.put(&raw, 2);
        }
    }
    ArgumentLines {
        lines: page.lines,
        complete: !page.cut,
    }
}

/// Lays any JSON out in `width` columns, such as a tool's schema.
pub fn json(text: &str, width: usize) -> Vec<StyledLine> {
    let mut page = ArgumentLayout {
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

struct ArgumentLayout {
    width: usize,
    brief: bool,
    lines: Vec<StyledLine>,
    cut: bool,
}

impl ArgumentLayout {
    fn put(&mut self, line: &[StyledSpan], hang: usize) {
        self.lines.extend(wrap(line, self.width, hang));
    }

    /// Writes one key a line with its value in a second column.
    fn top(&mut self, entries: &[(String, &RawValue)]) {
        let keys: Vec<Vec<StyledSpan>> = entries.iter().map(|(key, _)| label(key)).collect();
        let most = KEY_COLUMNS.min(self.width / 2);
        let widest = keys.iter().map(|k| columns(k)).filter(|w| *w <= most).max();
        let column = widest.unwrap_or(0);
        for (mut key, (_, value)) in keys.into_iter().zip(entries) {
            let pad = column.saturating_sub(columns(&key)) + 2;
            key.push(span(" ".repeat(pad), SpanStyle::Plain));
            self.value(key, value.get(), 0, column + 2, "");
        }
    }

    /// Writes a value after its key, at `depth` levels of indentation; continued lines begin at column `hang`.
    fn value(
        &mut self,
        mut line: Vec<StyledSpan>,
        raw: &str,
        depth: usize,
        hang: usize,
        end: &str,
    ) {
        // The indentation is limited, so that deep values keep some width.
        let indent = (depth * 2).min(self.width / 3);
        let (open, close, children): (_, _, Vec<(Vec<StyledSpan>, &RawValue)>) = match raw
            .as_bytes()
        {
            [b'"', ..] => {
                self.string(line, raw, hang, end);
                return;
            }
            [b'{', ..] if depth < MAX_DEPTH => match serde_json::from_str::<ObjectEntries<'_>>(raw)
            {
                Ok(ObjectEntries(entries)) => {
                    let key = |k: &str| {
                        let mut key = quoted(k);
                        key.push(span(": ", SpanStyle::Plain));
                        key
                    };
                    let children = entries.iter().map(|(k, v)| (key(k), *v)).collect();
                    ("{", "}", children)
                }
                Err(_) => ("", "", Vec::new()),
            },
            [b'[', ..] if depth < MAX_DEPTH => match serde_json::from_str::<Vec<&RawValue>>(raw) {
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
            line.extend(spans(confusables::marked_pieces(raw), SpanStyle::Plain));
            line.push(span(end, SpanStyle::Plain));
            self.put(&line, hang);
            return;
        }
        if children.is_empty() {
            line.push(span(format!("{open}{close}{end}"), SpanStyle::Plain));
            self.put(&line, hang);
            return;
        }
        line.push(span(open, SpanStyle::Plain));
        self.put(&line, hang);
        let last = children.len() - 1;
        for (n, (key, value)) in children.into_iter().enumerate() {
            let mut line = vec![span(" ".repeat(indent + 2), SpanStyle::Plain)];
            line.extend(key);
            let end = if n < last { "," } else { "" };
            self.value(line, value.get(), depth + 1, indent + 4, end);
        }
        let close = format!("{}{close}{end}", " ".repeat(indent));
        self.put(&[span(close, SpanStyle::Plain)], hang);
    }

    fn string(&mut self, mut line: Vec<StyledSpan>, raw: &str, hang: usize, end: &str) {
        let Ok(text) = serde_json::from_str::<String>(raw) else {
            line.extend(spans(confusables::marked_pieces(raw), SpanStyle::Plain));
            self.put(&line, hang);
            return;
        };
        let before = line.len();
        line.extend(quoted(&text));
        line.push(span(end, SpanStyle::Plain));
        let columns_left = self.width.saturating_sub(hang.min(self.width / 2)).max(1);
        // A very long text is not laid out just to be cut.
        let long = self.brief
            && (text.len() > columns_left * STRING_LINES * 4
                || wrap(&line, self.width, hang).len() > STRING_LINES);
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
                cut = vec![span("\"", SpanStyle::Plain)];
            }
            line.truncate(before);
            line.extend(cut);
            line.push(span("…\"", SpanStyle::Plain));
            line.push(span(note, SpanStyle::Dim));
            self.cut = true;
        }
        self.put(&line, hang);
    }
}

/// Returns an array of numbers and short strings as one line, or `None` if it needs several.
fn flat(items: &[&RawValue], end: &str) -> Option<Vec<StyledSpan>> {
    let mut line = vec![span("[", SpanStyle::Plain)];
    for (n, item) in items.iter().enumerate() {
        let raw = item.get();
        if n > 0 {
            line.push(span(", ", SpanStyle::Plain));
        }
        match raw.as_bytes() {
            [b'{' | b'[', ..] => return None,
            [b'"', ..] if raw.len() < 200 => {
                line.extend(quoted(&serde_json::from_str::<String>(raw).ok()?));
            }
            _ if raw.len() < 200 && n < 200 => {
                line.extend(spans(confusables::marked_pieces(raw), SpanStyle::Plain))
            }
            _ => return None,
        }
    }
    // A line break in a string would break the line.
    if line.iter().any(|b| b.text == "\n") {
        return None;
    }
    line.push(span(format!("]{end}"), SpanStyle::Plain));
    Some(line)
}

/// Returns a key: bare if it is a plain word, quoted otherwise, so that it cannot imitate other text.
fn label(key: &str) -> Vec<StyledSpan> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.$@".contains(c);
    if !key.is_empty() && key.chars().all(plain) {
        vec![span(key, SpanStyle::Name)]
    } else {
        quoted(key)
    }
}

/// Returns a string escaped as in JSON, with a line break after each line of its text.
fn quoted(text: &str) -> Vec<StyledSpan> {
    let mut line = vec![span("\"", SpanStyle::Plain)];
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let escape = match c {
            '"' => span("\\\"", SpanStyle::Plain),
            '\\' => span("\\\\", SpanStyle::Plain),
            '\n' => span("\\n", SpanStyle::Plain),
            '\t' => span("\\t", SpanStyle::Plain),
            '\r' => span("\\r", SpanStyle::Mark),
            c if c.is_ascii_control() => span(format!("\\u{:04x}", u32::from(c)), SpanStyle::Mark),
            _ => continue,
        };
        line.extend(spans(
            confusables::marked_pieces(&text[from..at]),
            SpanStyle::Plain,
        ));
        line.push(escape);
        from = at + c.len_utf8();
        if c == '\n' && from < text.len() {
            line.push(span("\n", SpanStyle::Plain));
        }
    }
    line.extend(spans(
        confusables::marked_pieces(&text[from..]),
        SpanStyle::Plain,
    ));
    line.push(span("\"", SpanStyle::Plain));
    line
}

/// Entries of a JSON object in their order, values as raw text.
struct ObjectEntries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for ObjectEntries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EntryVisitor;
        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = ObjectEntries<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ObjectEntries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, &RawValue>()? {
                    entries.push(entry);
                }
                Ok(ObjectEntries(entries))
            }
        }
        from.deserialize_map(EntryVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, width: usize, whole: bool) -> (Vec<String>, bool) {
        let shown = lines(text, width, whole);
        let line = |l: &StyledLine| l.iter().map(|b| b.text.as_str()).collect();
        (shown.lines.iter().map(line).collect(), shown.complete)
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
        // Lines of a value never begin in the column of the keys.
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
    fn deep_nesting_is_laid_out() {
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
            // Marks add letters.
            if bare(&value) == value {
                prop_assert!(bare(&lines.concat()).ends_with(&value));
            }
        }
    }
}
