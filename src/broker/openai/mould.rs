//! The events of one answer differ, as a rule, in nothing but a few letters of text. Pure.
//!
//! Once one of them has been parsed, its bytes before and after the text are the
//! mould for the others. An event with the same bytes around another JSON string
//! is the same JSON with another text, so parsing it again would tell nothing new.
//! This takes a tenth of the time.

use std::borrow::Cow;

/// What an event consists of around its text.
#[derive(Debug)]
pub struct Mould {
    /// Up to and with the opening quote.
    before: Vec<u8>,
    /// From the closing quote on.
    after: Vec<u8>,
}

impl Mould {
    /// The mould of `data`, of which `text` is the part that is the content of a JSON string.
    pub fn of(data: &str, text: &str) -> Option<Mould> {
        // Where the borrowed text lies in what it was borrowed from.
        let start = (text.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
        let end = start.checked_add(text.len())?;
        if text.is_empty() || data.get(start..end)? != text {
            return None;
        }
        let (before, after) = (data.get(..start)?, data.get(end..)?);
        (before.ends_with('"') && after.starts_with('"')).then(|| Mould {
            before: before.as_bytes().to_vec(),
            after: after.as_bytes().to_vec(),
        })
    }

    /// The text of `data`, if it comes from this mould.
    pub fn text<'a>(&self, data: &'a [u8]) -> Option<Cow<'a, str>> {
        let text = data
            .strip_prefix(self.before.as_slice())?
            .strip_suffix(self.after.as_slice())?;
        if text.iter().all(|b| *b >= b' ' && *b != b'"' && *b != b'\\') {
            return std::str::from_utf8(text).ok().map(Cow::Borrowed);
        }
        // With an escape in it, it is for the parser. A quote without one ends the string, and
        // the parser objects to what follows: this event is not from this mould.
        let start = self.before.len().checked_sub(1)?;
        let end = data.len().checked_sub(self.after.len())?.checked_add(1)?;
        serde_json::from_slice(data.get(start..end)?)
            .ok()
            .map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mould of an event that says `ab`.
    fn mould() -> Mould {
        let data = r#"{"id":"ab","content":"ab","x":1}"#;
        let at = data.rfind("ab").unwrap();
        Mould::of(data, &data[at..at + 2]).unwrap()
    }

    #[test]
    fn text_from_the_same_mould() {
        for (text, expected) in [
            ("", ""),
            ("c", "c"),
            ("é👩‍💻", "é👩‍💻"),
            (r#"\"q\"\n"#, "\"q\"\n"),
            (r"\u00e9\ud83d\ude00", "é😀"),
        ] {
            let data = format!(r#"{{"id":"ab","content":"{text}","x":1}}"#);
            assert_eq!(mould().text(data.as_bytes()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn everything_else_is_left_to_the_parser() {
        for data in [
            "",
            r#"{"id":"ab","content":"#,
            r#"{"id":"ab","content":","x":1}"#,
            r#"{"id":"cd","content":"ab","x":1}"#,
            r#"{"id":"ab","content":"ab","x":2}"#,
            r#"{"id":"ab","content":"a","content":"b","x":1}"#,
            r#"{"id":"ab","content":"a\","x":1}"#,
            r#"{"id":"ab","content":"\q","x":1}"#,
            r#"{"id":"ab","content":"\ud83d","x":1}"#,
            "{\"id\":\"ab\",\"content\":\"a\nb\",\"x\":1}",
        ] {
            assert_eq!(mould().text(data.as_bytes()), None, "{data}");
        }
        let invalid = b"{\"id\":\"ab\",\"content\":\"\xFF\",\"x\":1}";
        assert_eq!(mould().text(invalid), None);
    }

    #[test]
    fn text_that_lies_elsewhere_makes_no_mould() {
        let data = r#"{"content":"ab"}"#;
        assert!(Mould::of(data, &String::from("ab")).is_none());
        assert!(Mould::of(data, "").is_none());
        assert!(Mould::of(data, &data[3..9]).is_none());
    }
}
