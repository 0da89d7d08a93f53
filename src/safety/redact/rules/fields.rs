//! Secrets in a field whose name is the value of another field: `{"label": "password", "value": "…"}`, `value: …` before `name: API_TOKEN`,
//! `<name>fs.s3a.secret.key</name><value>…</value>`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input};

use super::super::RULES;
use super::super::stage::ByteClass;
use super::byte_classes::{blanks_length, is_quote, is_space, lower};
use super::context::{
    SPACES, chosen_password, chosen_secret, format_at, key_like, named_key, password_like,
};
use super::random_keys::{ends_key_name, is_random_key};
use super::signs::literal_prefix;
use super::value_spans::ValuePlace;
use super::{KeywordMatch, SecretSpan, run_length};
use crate::safety::redact::value_class::has_words;

/// The keyword. A word in small letters would be the name of a column of secrets.
pub(super) const FIELD_VALUE: &str = "Value";

/// Names of the fields that hold the name.
const NAMES: [&[u8]; 5] = [b"name", b"key", b"label", b"variable", b"field"];

/// Maximum number of bytes behind a value up to the end of its name.
const MAX_BEHIND: usize = 112;
/// Length of the longest value that may stand before its name, and of the shortest one.
const MAX_FIRST: usize = 256;
const MIN_VALUE: usize = 6;
/// The same with the quotes of the value.
const MAX_QUOTED: usize = MAX_FIRST + 2 * SPACES;
/// Maximum length of a name, and of the fields between it and its value.
const MAX_NAME: usize = 72;

/// What stands between a field and its value.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    /// `:`, `=` or the border of a cell.
    Plain,
    /// The end of a tag.
    Tag,
}

/// Returns the sign behind the name of a field that ends at `end`, and where what follows it begins.
fn sign_behind(text: &[u8], end: usize) -> Option<(Sign, usize)> {
    let quotes = end + run_length(text, end, is_quote).min(8);
    if text.get(quotes) == Some(&b'>') {
        return Some((Sign::Tag, quotes + 1));
    }
    let blanks = quotes + blanks_length(text, quotes, SPACES);
    let signs = match text.get(blanks..)? {
        [b'=', b'>', ..] | [b':', b'=', ..] => 2,
        [b':' | b'=', ..] => 1,
        [b'|', ..] if blanks > quotes => 1,
        _ => return None,
    };
    let start = blanks + signs;
    Some((Sign::Plain, start + blanks_length(text, start, SPACES)))
}

/// Whether a word of a name can begin at `at`: not within a word, unless a capital letter begins it.
fn begins_name_word(text: &[u8], from: usize, at: usize) -> bool {
    let before = text[from..at].last();
    before.is_none_or(|before| match before.is_ascii_alphanumeric() {
        true => before.is_ascii_lowercase() && text[at].is_ascii_uppercase(),
        false => true,
    })
}

/// Returns the sign behind the name of a field, and where the value begins.
fn value_start(place: &KeywordMatch<'_>) -> Option<(Sign, usize)> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let is_name = begins_name_word(text, from, at);
    is_name.then(|| sign_behind(text, end)).flatten()
}

/// Returns the value of a field behind its sign.
fn value_at(place: &KeywordMatch<'_>, sign: Sign, start: usize) -> Option<SecretSpan> {
    let KeywordMatch { text, from, at, .. } = *place;
    match sign {
        Sign::Tag => {
            let length = run_length(text, start, |b| b != b'<' && !b.is_ascii_whitespace());
            Some(SecretSpan::new(start, start + length))
        }
        Sign::Plain => ValuePlace {
            text,
            from,
            name: at,
            at: start + literal_prefix(&text[start..]),
            is_password: true,
            is_exact: false,
        }
        .value(),
    }
}

/// Returns the name that the field whose name is at `field` holds.
fn held_name(text: &[u8], field: Range<usize>) -> Option<Range<usize>> {
    let (_, at) = sign_behind(text, field.end)?;
    let start = at + run_length(text, at, is_quote).min(8);
    // A setting of YAML may have blanks.
    let is_phrase = start > at || text[field.end..at].contains(&b':');
    let class: ByteClass = match is_phrase {
        true => |b| !is_quote(b) && !b.is_ascii_control() && !b"<>,{}".contains(&b),
        false => |b| !is_quote(b) && b.is_ascii_graphic() && !b"<>,{}".contains(&b),
    };
    let length = run_length(&text[..text.len().min(start + MAX_NAME)], start, class);
    (length > 0).then(|| start..start + length)
}

/// Returns the range of the name of a field that holds names, if one is at `at`.
fn name_field(text: &[u8], from: usize, at: usize) -> Option<Range<usize>> {
    let is_here = |name: &&&[u8]| {
        let word = text.get(at..at + name.len());
        word.is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    let name = NAMES.iter().find(is_here)?;
    begins_name_word(text, from, at).then(|| at..at + name.len())
}

/// Finds [`NAMES`], none of which ends as another one begins.
static NAME_FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let builder = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(NAMES);
    // The build cannot fail for these names.
    builder.ok()
});

/// Returns where the names of such fields may begin in a part of a text.
fn name_starts(text: &[u8], part: Range<usize>) -> impl Iterator<Item = usize> {
    #[cfg(test)]
    super::super::tests::INSPECTED.with(|n| n.set(n.get() + part.len()));
    let input = Input::new(text).range(part);
    let names = NAME_FINDER
        .iter()
        .flat_map(move |finder| finder.find_iter(input.clone()));
    names.map(|name| name.start())
}

/// Whether text between a name and a value is that of one object: other short fields, and no beginning or end of another object.
fn is_within_object(between: &[u8], sign: Sign) -> bool {
    /// Maximum number of lines between.
    const MAX_LINES: usize = 3;
    let mut depth = 0_i32;
    let closes_call = between.iter().any(|b| {
        depth += i32::from(*b == b'(') - i32::from(*b == b')');
        depth < 0
    });
    let tags = between.iter().filter(|b| **b == b'<').count();
    let is_tag = match sign {
        Sign::Plain => tags == 0 && !between.contains(&b'>'),
        Sign::Tag => tags <= 1 || tags == 2 && between.starts_with(b"</"),
    };
    let mut lines = between.split(|b| *b == b'\n');
    let is_object = |line: &[u8]| {
        let line = line.trim_ascii_start();
        line.is_empty() || line.starts_with(b"- ") || line.starts_with(b"[")
    };
    let first = lines.next();
    let last = lines.next_back();
    let starts_item = |line: &[u8]| line.trim_ascii_start().starts_with(b"- ");
    let has_other = || {
        let mut words = between.windows(FIELD_VALUE.len());
        words.any(|word| word.eq_ignore_ascii_case(FIELD_VALUE.as_bytes()))
    };
    first.is_some()
        && !between.iter().any(|b| b"{}".contains(b))
        && !closes_call
        && is_tag
        && !last.is_some_and(starts_item)
        && lines.clone().count() < MAX_LINES
        && !lines.any(is_object)
        && !has_other()
}

/// Returns the name that the last field before a value at `at` holds, if it belongs to the same object.
fn name_before(text: &[u8], from: usize, at: usize, sign: Sign) -> Option<&[u8]> {
    let head = &text[..at];
    // No name is read before the beginning of the object.
    let first = from + object_start(&head[from..]);
    let fields = without_objects(&head[first..]);
    let starts: Vec<usize> = name_starts(&fields, 0..fields.len()).collect();
    let name = starts
        .into_iter()
        .rev()
        .find_map(|start| held_name(&fields, name_field(&fields, 0, start)?))?;
    is_within_object(&fields[name.end..], sign).then(|| &head[first + name.start..first + name.end])
}

/// Returns where the fields of the object begin that is open at the end of a text. Braces in pairs are those of other objects, and of
/// strings; behind the end of one that begins before the text, fields may be those of this object.
fn object_start(text: &[u8]) -> usize {
    let (mut depth, mut closed) = (0, 0);
    for at in memchr::memrchr2_iter(b'{', b'}', text) {
        match (text[at], depth) {
            (b'{', 0) => return at + 1,
            (b'{', _) => depth -= 1,
            _ => {
                closed = if depth == 0 { at + 1 } else { closed };
                depth += 1;
            }
        }
    }
    if depth > 0 { closed } else { 0 }
}

/// Returns a part of an object with blanks in place of the objects in it, up to its own end.
fn without_objects(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'{', b'}', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut depth = 0;
    let mut fields = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            _ => {}
        }
        fields.push(if depth > 0 { b' ' } else { byte });
        depth -= usize::from(byte == b'}');
    }
    Cow::Owned(fields)
}

/// Returns the name that the first field behind a value which ends at `end` holds, if it belongs to the same object.
fn name_behind(text: &[u8], end: usize) -> Option<&[u8]> {
    let behind = &text[end..text.len().min(end + MAX_BEHIND)];
    let is_cut = behind.len() == MAX_BEHIND;
    let fields = without_objects(behind);
    let (start, name) = name_starts(&fields, 0..fields.len()).find_map(|start| {
        let name = held_name(&fields, name_field(&fields, 0, start)?)?;
        Some((start, name))
    })?;
    let between = &fields[..start];
    let is_next = between.iter().any(|b| b", \n\\".contains(b));
    // The end of a statement of a program.
    let is_ended = between.contains(&b';') || is_cut && name.end == fields.len();
    let is_near = is_next && !is_ended && is_within_object(between, Sign::Plain);
    is_near.then(|| &behind[name])
}

/// Whether a value is a secret if this is its name.
pub(super) fn is_named_secret(name: &[u8], value: &[u8]) -> bool {
    let is_variable = !name.iter().any(u8::is_ascii_lowercase);
    match RULES.column_kind(name) {
        Some((_, true)) if is_variable => chosen_password(value, MIN_VALUE),
        Some((_, true)) => password_like(value, false),
        Some((_, false)) => {
            let is_secret = || lower(name).contains("secret");
            // A name of several words is no heading or label.
            let is_certain = name.len() > "secrets".len();
            named_key(value) && !has_words(value) || is_secret() && chosen_secret(value, is_certain)
        }
        None => {
            let key = name.len().saturating_sub(3);
            name[key..].eq_ignore_ascii_case(b"key")
                && ends_key_name(name, 0, key, name.len())
                && is_random_key(value, is_variable)
        }
    }
}

/// The value of a field whose name another field of the same object holds. The keyword is the name of the field.
pub(super) fn field_value(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, from, at, .. } = *place;
    let (sign, start) = value_start(place)?;
    if text.get(start).is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    // First where a name may be, which takes less time than to read the value.
    let before = name_before(text, from, at, sign);
    let may_follow = || {
        let end = text.len().min(start + MAX_QUOTED + MAX_BEHIND);
        let mut starts = name_starts(text, start..end);
        sign == Sign::Plain && starts.any(|at| name_field(text, start, at).is_some())
    };
    if before.is_none() && !may_follow() {
        return None;
    }
    let value = value_at(place, sign, start)?;
    let bytes = &text[value.start..value.end];
    if bytes.len() < MIN_VALUE {
        return None;
    }
    let name = before.or_else(|| {
        let is_short = sign == Sign::Plain && bytes.len() <= MAX_FIRST;
        is_short.then(|| name_behind(text, value.end)).flatten()
    })?;
    if !chosen_password(bytes, MIN_VALUE) {
        return None;
    }
    // Code has names behind this sign.
    let is_code = text[..value.start].ends_with(b"= ");
    let is_secret = is_named_secret(name, bytes) && (!is_code || key_like(bytes));
    (is_secret && !format_at(text, value.start)).then_some(value)
}

/// Whether a field that holds the name may still follow the value.
pub(super) fn may_be_named(place: &KeywordMatch<'_>) -> bool {
    let KeywordMatch { text, end, .. } = *place;
    let is_open = text.len() < end + 2 * SPACES;
    let start = value_start(place);
    match start.and_then(|(sign, start)| value_at(place, sign, start)) {
        Some(value) => text.len() < value.end + MAX_BEHIND + SPACES,
        // A quote that is not closed yet.
        None => is_open || sign_behind(text, end).is_some() && text.len() < end + MAX_FIRST,
    }
}

/// Whether a keyword that ends at `end` may end the name of a column with values: a border, blanks or the line end follow it.
pub(super) fn ends_cell(text: &[u8], end: usize) -> bool {
    let is_border = |b: u8| b"|,;)\t\r\n".contains(&b) || b >= 0x80;
    let quotes = end + run_length(text, end, |b| is_quote(b) || b == b'*').min(4);
    match text.get(quotes..).unwrap_or_default() {
        [b' ', next, ..] => is_border(*next) || *next == b' ',
        [next, ..] => is_border(*next),
        [] => false,
    }
}

/// Whether the last word of the name of a column is one of these.
pub(super) fn is_column(name: &[u8], words: &[&str]) -> bool {
    let last = name.rsplit(|b| is_space(*b) || b"_-".contains(b)).next();
    let last = last.unwrap_or_default();
    words
        .iter()
        .any(|word| last.eq_ignore_ascii_case(word.as_bytes()))
}
