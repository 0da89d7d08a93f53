//! What stands between the name of a secret and its value where that is not a plain sign: in programs, shells, consoles of routers and
//! announcements.

use super::byte_classes::{is_quote, is_space, lower};

use super::line_prefix::readings;
use super::line_words::line_words;
use super::run_length;
use crate::safety::percent::code_at;

/// Maximum length of an announcement behind the name in it, and of the fields before the value of an object.
const MAX_WORDS: usize = 92;

/// Returns the length of what ties a value to the name before it instead of a sign: `|| "…"` and `?? "…"` of a program, `:-` within
/// `${…}` of a shell, the bracket of a call, and the number of a value in a list of several.
pub(super) fn unusual_sign(
    before: &[u8],
    lead: &[u8],
    text: &[u8],
    is_long: bool,
    is_joined: bool,
) -> usize {
    let quoted = |length: usize| {
        let length = length + run_length(text, length, is_space).min(1);
        let is_literal = text.get(length).copied().is_some_and(is_quote);
        if is_literal { length } else { 0 }
    };
    if before.ends_with(b"${") {
        return match text {
            [b':', b'-' | b'=', ..] => 2,
            [b'-' | b'=', ..] => 1,
            _ => 0,
        };
    }
    match text {
        [b'|', b'|', ..] | [b'?', b'?', ..] => quoted(2),
        [b'o', b'r', b' ', ..] => quoted(2),
        // Of R.
        [b'<', b'-', ..] => quoted(2),
        [b'(', ..] if is_joined && !asks(lead) => quoted(1),
        [b'0'..=b'9', ..] if is_long => {
            let digits = run_length(text, 0, |b| b.is_ascii_digit());
            let is_sign = matches!(text.get(digits), Some(b':' | b'='));
            let value = text.get(digits + 1..).unwrap_or_default();
            let number = run_length(value, 0, |b| b.is_ascii_digit());
            // The version of a package with its epoch: `1:4.13`.
            let is_version = number > 0 && value.get(number) == Some(&b'.');
            if digits <= 2 && is_sign && !is_version {
                digits + 1
            } else {
                0
            }
        }
        _ => 0,
    }
}

/// Whether the name of a function, of which this comes before the keyword, says that it looks the secret up, so that its argument is a
/// name.
fn asks(lead: &[u8]) -> bool {
    const VERBS: &[&str] = &[
        "by", "check", "fetch", "find", "for", "from", "get", "has", "is", "load", "lookup",
        "read", "resolve", "validate", "verify",
    ];
    let lead = String::from_utf8_lossy(lead).to_ascii_lowercase();
    let lead = lead.trim_end_matches(['_', '-']);
    VERBS
        .iter()
        .any(|verb| lead.ends_with(verb) || lead.starts_with(verb))
}

/// Whether the text before a name ends with a form of Lisp that gives the name the value behind it.
pub(super) fn defines_in_lisp(before: &[u8]) -> bool {
    const FORMS: [&[u8]; 7] = [
        b"(setq ",
        b"(setf ",
        b"(def ",
        b"(define ",
        b"(defvar ",
        b"(defconst ",
        b"(defparameter ",
    ];
    FORMS.iter().any(|form| before.ends_with(form))
}

/// Returns the length of the level before a password in a configuration of a router: `password 7 0822455D0A16`,
/// `username bob secret 0 …`.
pub(super) fn router_level(line: &[u8], text: &[u8]) -> usize {
    let (Some(level @ b'0'..=b'9'), Some(b' ')) = (text.first(), text.get(1)) else {
        return 0;
    };
    let word = run_length(text, 2, |b| b.is_ascii_graphic());
    let is_hexadecimal = text[2..2 + word].iter().all(u8::is_ascii_hexdigit);
    let is_encoded = *level == b'7' && word >= 8 && word.is_multiple_of(2) && is_hexadecimal;
    let is_command = || {
        readings(line).any(|line| {
            let words: [&[u8]; 2] = [b"username ", b"enable "];
            words.iter().any(|word| line.starts_with(word)) && line.len() < 64
        })
    };
    if is_encoded || is_command() { 2 } else { 0 }
}

/// Returns the length of what a literal of a program or of SQL has before its quote: `@"…"`, `N'…'`, the bracket of a call that makes a
/// value of it.
pub(super) fn literal_prefix(text: &[u8]) -> usize {
    const MAKERS: [&[u8]; 6] = [
        b"Some(",
        b"String::from(",
        b"[]byte(",
        b"Optional.of(",
        b"{\"S\":",
        b"{\"S\": ",
    ];
    match text {
        [
            b'@' | b'$' | b'N' | b'E' | b'b' | b'r' | b'u' | b'f' | b'L',
            b'"' | b'\'',
            ..,
        ] => 1,
        [b'@', b'\\', b'"', ..] => 1,
        // A list of values, as frameworks log a form.
        [b'[', b'"' | b'\'', ..] => 1,
        _ => {
            let is_made = |maker: &&&[u8]| {
                let quote = text.get(maker.len());
                text.starts_with(maker) && quote.is_some_and(|b| b"\"'".contains(b))
            };
            MAKERS.iter().find(is_made).map_or(0, |maker| maker.len())
        }
    }
}

/// Returns the length of an object up to the value in it, as in the outputs of Terraform: `{"sensitive": true, "value": "…`.
pub(super) fn value_in_object(text: &[u8]) -> usize {
    let object = &text[..text.len().min(MAX_WORDS)];
    let object = &object[..run_length(object, 0, |b| b != b'}')];
    let field = memchr::memmem::find(object, b"\"value\":");
    match field.filter(|_| object.starts_with(b"{")) {
        Some(at) => at + 8 + run_length(object, at + 8, is_space),
        None => 0,
    }
}

/// Returns where the value stands that the line with its name announces, `use the following password:`: alone in the next line or the one
/// after.
pub(super) fn value_below(text: &[u8], at: usize) -> Option<usize> {
    let line = run_length(&text[..text.len().min(at + MAX_WORDS)], at, |b| {
        b != b'\n' && b != b'\r'
    });
    if !text[at..at + line].trim_ascii_end().ends_with(b":") {
        return None;
    }
    let ends = run_length(text, at + line, |b| b == b'\r' || b == b'\n');
    let lines = text[at + line..at + line + ends]
        .iter()
        .filter(|b| **b == b'\n')
        .count();
    let start = at + line + ends;
    // The line under a name in the description of a map of Kubernetes.
    let ruler = run_length(text, start, |b| b == b'-');
    let start = match ruler >= 4 && text.get(start + ruler) == Some(&b'\n') {
        true => start + ruler + 1,
        false => start,
    };
    let start = start + run_length(text, start, is_space).min(8);
    let word = run_length(text, start, |b| b.is_ascii_graphic());
    let is_alone = matches!(text.get(start + word), None | Some(b'\r' | b'\n'));
    let is_name = text[..start + word].ends_with(b":");
    ((1..=2).contains(&lines) && is_alone && word > 0 && !is_name).then_some(start)
}

/// Returns the length of an encoded sign of an assignment at the start of a text: `%3D` of URLs, `\u003d` of JSON.
pub(super) fn sign_code(text: &[u8]) -> usize {
    match code_at(text, 0) {
        Some((b'=' | b':', length)) => length,
        // The wide colon of Chinese and Japanese.
        _ if text.starts_with("：".as_bytes()) => {
            "：".len() + run_length(text, "：".len(), is_space)
        }
        _ => 0,
    }
}

/// Whether a name in this line is followed by its value without a sign: a Dockerfile, the commands that configure AWS, and, if the name has
/// a keyword that is no common word, SQL and prose.
pub(super) fn takes_word(line: &[u8], is_long: bool) -> bool {
    let line = lower(line);
    let takes = |word: &[u8]| match word {
        b"env" | b"setenv" => true,
        b"wifi" | b"with" | b"encrypted" => is_long,
        _ => false,
    };
    line_words(line.as_bytes()).any(takes) || line.contains("configure set")
}

/// Whether a text before the name of a password gives the user: `user bob and `, `username: bob, `.
pub(super) fn names_user(before: &[u8]) -> bool {
    let line = lower(before.rsplit(|b| *b == b'\n').next().unwrap_or_default());
    let mut words = line.split_whitespace().rev();
    let is_list = matches!(words.next(), Some("and" | "/" | "&"));
    is_list && words.next().is_some() && words.next().is_some_and(|word| word.starts_with("user"))
}
