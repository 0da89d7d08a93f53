//! Secrets in the fields of an object: the data of a Secret of Kubernetes, and values whose name is another field.

use std::ops::Range;

use super::super::AHEAD;
use super::super::known::names_secret;
use super::super::stage::ByteClass;
use super::byte_classes::{base64, is_quote, is_space, lower};
use super::context::{at_word_start, chosen_password, format_at, key_like, password_like};
use super::rows::{LineStart, ends_row, last_line, next_row, row_of};
use super::{KeywordMatch, SecretSpan, run_length};

/// The data of an object that may be a Secret of Kubernetes.
struct Data {
    /// From the first secret value to the end of the last one.
    values: Option<Range<usize>>,
    /// Where the text behind the data begins.
    end: usize,
    /// The text ends within the data: what follows it may belong to a value or be another one.
    is_open: bool,
    /// There are values of other forms.
    has_others: bool,
}

impl Data {
    fn new(end: usize) -> Data {
        Data {
            values: None,
            end,
            is_open: false,
            has_others: false,
        }
    }

    /// Adds a value; `is_secret` tells whether it has the form of the secret ones.
    fn add(&mut self, value: Range<usize>, is_secret: bool) {
        if is_secret {
            let start = self.values.as_ref().map_or(value.start, |all| all.start);
            self.values = Some(start..value.end);
        } else if !value.is_empty() {
            self.has_others = true;
        }
    }
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"._-".contains(&b)
}

/// Whether a value of a text is base64: a whole one, or one that the end of the text cuts off.
fn is_encoded(text: &[u8], value: &Range<usize>) -> bool {
    let length = value.len();
    length > 0 && (value.end == text.len() || length >= 4 && length.is_multiple_of(4))
}

/// Reads the lines of YAML below `data:`, and below `stringData:`, where values are not encoded.
fn yaml_data(place: &KeywordMatch<'_>) -> Data {
    let KeywordMatch { text, end, .. } = *place;
    let before = place.before();
    let is_plain = before.ends_with(b"string");
    let lead = before.strip_suffix(b"string").unwrap_or(before);
    let first = LineStart::of(last_line(lead));
    let mut data = Data::new(end);
    while let Some(row) = next_row(text, data.end, first) {
        let name = row.start + run_length(text, row.start, |b| is_name_byte(b) || b == b'"');
        let is_named = name > row.start && text.get(name) == Some(&b':');
        let value = match is_named {
            true => name + 1 + run_length(text, name + 1, |b| is_space(b) || is_quote(b)),
            // A line of a value in several ones.
            false => row.start,
        };
        // A certificate is longer than the part of a line that a row has.
        let value_end = value + run_length(text, value, base64);
        let value = match is_plain && value < row.end {
            true => value..value + text[value..row.end].trim_ascii_end().len(),
            false => value..value_end,
        };
        let is_whole = is_plain || ends_row(text, value.end);
        let is_blank = row.start == row.end || text[row.start] == b'#';
        let is_deep = row.indentation > first.indentation;
        let is_within = is_blank || is_deep && (is_named || is_whole && !value.is_empty());
        if !is_within {
            // The end of the text may cut the line off.
            data.is_open = row.end == text.len();
            return data;
        }
        let quotes = run_length(text, value.end, |b| b == b'"' || b == b'\'');
        data.end = row.end.max(value.end + quotes);
        if is_deep && !is_blank {
            let bytes = &text[value.clone()];
            let is_secret = match is_plain {
                true => is_named && (password_like(bytes, false) || key_like(bytes)),
                false => is_whole && is_encoded(text, &value),
            };
            data.add(value, is_secret);
        }
    }
    data.is_open = text[data.end..].iter().all(|b| b" \t|\r\\".contains(b));
    data
}

/// Reads the fields of JSON behind `"data":`.
fn json_data(text: &[u8], end: usize) -> Data {
    let blank = |at: usize| at + run_length(text, at, |b| b.is_ascii_whitespace());
    let mut data = Data::new(end);
    let mut at = blank(end);
    if text.get(at).is_some_and(|b| *b != b'{') {
        return data;
    }
    loop {
        let name = blank(at + 1) + 1;
        let colon = name + run_length(text, name, is_name_byte) + 1;
        let value = blank(colon + 1) + 1;
        let value = value..value + run_length(text, value, base64);
        let next = blank(value.end + 1);
        let is = |at: usize, sign: u8| text.get(at).is_none_or(|b| *b == sign);
        let is_entry = is(name - 1, b'"')
            && is(colon - 1, b'"')
            && is(colon, b':')
            && is(value.start - 1, b'"')
            && is(value.end, b'"');
        if !is_entry {
            return data;
        }
        let is_secret = is_encoded(text, &value);
        data.add(value, is_secret);
        data.end = next;
        match text.get(next) {
            Some(b',') => at = next,
            Some(b'}') => {
                data.end = next + 1;
                return data;
            }
            sign => {
                data.is_open = sign.is_none();
                return data;
            }
        }
    }
}

/// Returns whether the object of YAML to which these lines belong is a Secret; `None` if they do not tell its kind. They begin beside the
/// data, whose line begins like this one, and lead away from it, `upwards` or down.
fn yaml_kind(lines: &[&[u8]], data: LineStart, upwards: bool) -> Option<bool> {
    for line in lines {
        let row = row_of(line, data);
        let content = line[row.start..].trim_ascii_end();
        // The first field of an object in a list.
        let is_item =
            upwards && content.starts_with(b"- ") && row.indentation + 2 == data.indentation;
        let (field, indentation) = match is_item {
            true => (&content[2..], data.indentation),
            false => (content, row.indentation),
        };
        let is_other = indentation < data.indentation || content.starts_with(b"---");
        if is_other && !content.is_empty() {
            return None;
        }
        if indentation == data.indentation
            && let Some(kind) = field.strip_prefix(b"kind:")
        {
            let word = kind.trim_ascii().split(u8::is_ascii_whitespace).next();
            return Some(matches!(
                word,
                Some(b"Secret" | b"\"Secret\"" | b"'Secret'")
            ));
        }
        if is_item {
            return None;
        }
    }
    None
}

/// Returns whether an object of JSON with these fields is a Secret; `None` if they do not tell its kind.
fn json_kind(fields: &[u8]) -> Option<bool> {
    let name = memchr::memmem::find(fields, b"\"kind\"")? + 6;
    let colon = name + run_length(fields, name, |b| b.is_ascii_whitespace());
    let (kind, _) = string_at(fields, colon + 1)?;
    Some(kind == b"Secret" && fields[colon] == b':')
}

/// Returns the bytes up to the brace that encloses them, without those in other braces. `open` and `close` are the braces in the order of
/// the bytes.
fn own_fields(bytes: impl Iterator<Item = u8>, open: u8, close: u8) -> Vec<u8> {
    let mut depth = 0;
    let mut fields = Vec::new();
    for byte in bytes {
        match byte {
            _ if byte == close && depth == 0 => break,
            _ if byte == close => depth -= 1,
            _ if byte == open => depth += 1,
            _ if depth == 0 => fields.push(byte),
            _ => {}
        }
    }
    fields
}

/// Maximum length of the fields between the data and the kind behind it.
const MAX_KIND: usize = 64;

/// Returns whether the fields before the data, and those behind it, say that the object is a Secret.
fn kinds(place: &KeywordMatch<'_>, data: &Data) -> (Option<bool>, Option<bool>) {
    let KeywordMatch { text, end, .. } = *place;
    let before = place.before();
    let behind = text.get(data.end..).unwrap_or_default();
    let is_cut = behind.len() > MAX_KIND;
    let behind = &behind[..behind.len().min(MAX_KIND)];
    if text[end - 2] == b'"' {
        let mut above = own_fields(before.iter().rev().copied(), b'}', b'{');
        above.reverse();
        let below = own_fields(behind.iter().copied(), b'{', b'}');
        return (json_kind(&above), json_kind(&below));
    }
    let lead = before.strip_suffix(b"string").unwrap_or(before);
    let data = LineStart::of(last_line(lead));
    // In a string of JSON, line ends are escapes.
    let lines = |text: &[u8]| String::from_utf8_lossy(text).replace("\\n", "\n");
    let (above, below) = (lines(lead), lines(behind));
    let above: Vec<&[u8]> = above.split('\n').map(str::as_bytes).rev().skip(1).collect();
    let mut below: Vec<&[u8]> = below.split('\n').map(str::as_bytes).skip(1).collect();
    if is_cut {
        below.pop();
    }
    (
        yaml_kind(&above, data, true),
        yaml_kind(&below, data, false),
    )
}

fn data(place: &KeywordMatch<'_>) -> Data {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    match text[end - 2] {
        b'"' => json_data(text, end),
        _ if !at_word_start(place) && !text[from..at].ends_with(b"string") => Data::new(end),
        _ => yaml_data(place),
    }
}

/// Whether the line or field before the data is the version of Secrets and maps of configurations, whose values are not in base64.
fn is_core_object(before: &[u8]) -> bool {
    let fields: [&[u8]; 3] = [
        b"apiVersion: v1",
        b"\"apiVersion\": \"v1\",",
        b"\"apiVersion\":\"v1\",",
    ];
    let before = before.trim_ascii_end();
    fields.iter().any(|field| before.ends_with(field))
}

/// The values of a Secret of Kubernetes, whatever their names. The keyword is the name of the field that has them.
pub(super) fn secret_data(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, from, at, .. } = *place;
    let data = data(place);
    let values = data.values.clone()?;
    // More than the rule reads; its kind may stand behind it.
    let is_long = data.is_open && text.len() - at >= AHEAD;
    let is_secret = match kinds(place, &data) {
        (Some(kind), _) | (None, Some(kind)) => kind,
        _ => is_long && !data.has_others && is_core_object(&text[from..at]),
    };
    let class: Option<ByteClass> = match is_long {
        // The other values and their names. In YAML, a sign of another value soon ends them.
        true if text[place.end - 2] == b'"' => {
            Some(|b| base64(b) || b"._-: \t\r\n\",".contains(&b))
        }
        true => Some(|b| base64(b) || b"._-: \r\n".contains(&b)),
        false => (values.end == text.len()).then_some(base64),
    };
    is_secret.then(|| SecretSpan {
        more: class,
        ..SecretSpan::new(values.start, values.end)
    })
}

/// Whether text that follows can change which values of an object that begins here are secrets.
pub(super) fn may_be_secret_data(place: &KeywordMatch<'_>) -> bool {
    let data = data(place);
    let is_kind_open = place.text.len() < data.end + MAX_KIND;
    match kinds(place, &data) {
        (Some(is_secret), _) => is_secret && data.is_open,
        _ => data.is_open || data.values.is_some() && is_kind_open,
    }
}

/// Returns the string that begins with a quote at `at`, behind blanks, and where it ends.
fn string_at(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at + run_length(text, at, |b| b.is_ascii_whitespace()).min(8) + 1;
    let length = run_length(text, start, |b| b != b'"' && b != b'\n');
    let is_string = text.get(start - 1) == Some(&b'"') && text.get(start + length) == Some(&b'"');
    is_string.then(|| (&text[start..start + length], start + length))
}

/// The value of an object whose name stands behind it, or before it with other fields between: `{"value": "…", "name": "DB_PASSWORD"}`,
/// parameters of AWS and secrets of Azure. The keyword is the name of the field.
pub(super) fn named_value(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Longest value before its name.
    const MAX_FIRST: usize = 72;
    let KeywordMatch { text, end, .. } = *place;
    let (value, value_end) = string_at(text, end)?;
    let before = place.before();
    let has = |part: &str| memchr::memmem::rfind(before, part.as_bytes());
    let is_secret_name = |name: &[u8]| names_secret(&String::from_utf8_lossy(name));
    let is_named_before = || {
        let name = has("\"Name\":")?;
        let is_same = !before[name..].iter().any(|b| b"{}".contains(b));
        let (name, _) = string_at(before, name + 7)?;
        (is_same && name.starts_with(b"/") && is_secret_name(name)).then_some(())
    };
    let is_named_behind = || {
        let comma = value_end + 1;
        let name = comma + 1 + run_length(text, comma + 1, |b| b.is_ascii_whitespace()).min(24);
        let is_field = text.get(comma) == Some(&b',')
            && value.len() <= MAX_FIRST
            && lower(text.get(name..name + 7)?) == "\"name\":";
        let (name, _) = string_at(text, name + 7)?;
        (is_field && is_secret_name(name)).then_some(())
    };
    let is_named = has("\"SecureString\"").is_some()
        // A hidden field of 1Password.
        || has("\"CONCEALED\"").is_some()
        || has(".vault.azure.net/secrets/").is_some()
        // A key of a storage account of Azure.
        || has("\"keyName\":").is_some_and(|at| !before[at..].contains(&b'}')) && key_like(value)
        || is_named_before().is_some();
    let is_secret = match is_named {
        true => chosen_password(value, 6),
        false => is_named_behind().is_some() && (password_like(value, false) || key_like(value)),
    };
    let start = value_end - value.len();
    (is_secret && !format_at(text, start)).then(|| SecretSpan::new(start, value_end))
}

/// A parameter of AWS in a row with tabs, whose type is the keyword.
pub(super) fn tabbed_parameter(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, |b| !b"\t\r\n".contains(&b));
    let value = &text[end..end + length];
    // The next row of types.
    let is_type = value == b"SecureString";
    let fits = !is_type && chosen_password(value, 6) && !format_at(text, end);
    fits.then(|| SecretSpan::new(end, end + length))
}

/// The password that Terraform has made: `random_password` and, soon behind it, `"result": "…"`. The keyword is the name of the field.
pub(super) fn random_result(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    memchr::memmem::find(place.before(), b"random_password")?;
    let (value, value_end) = string_at(text, end)?;
    (value.len() >= 6).then(|| SecretSpan::new(value_end - value.len(), value_end))
}

/// The value in the cell behind one with the name of a secret, in HTML: in a table, or in a list of terms. The keyword is the end of the
/// cell with the name.
pub(super) fn html_cell(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Maximum number of tags that format the contents of a cell.
    const MAX_TAGS: usize = 3;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let tag_end = |start: usize| {
        let length = run_length(text, start, |b| b != b'>' && b != b'\n').min(64);
        let is_tag = text.get(start) == Some(&b'<') && text.get(start + length) == Some(&b'>');
        is_tag.then_some(start + length + 1)
    };
    let blank = |at: usize| at + run_length(text, at, |b| b.is_ascii_whitespace()).min(32);
    let cell = blank(end);
    let is_cell = |name: &[u8]| text[cell..].starts_with(name);
    if !is_cell(b"<td") && !is_cell(b"<dd") {
        return None;
    }
    let mut start = blank(tag_end(cell)?);
    for _ in 0..MAX_TAGS {
        start = tag_end(start).unwrap_or(start);
    }
    let mut before = text[from..at].trim_ascii_end();
    for _ in 0..MAX_TAGS {
        if let [head @ .., b'>'] = before
            && let Some(tag) = head.iter().rposition(|b| *b == b'<')
        {
            before = before[..tag].trim_ascii_end();
        }
    }
    let name = &before[before.iter().rposition(|b| *b == b'>')? + 1..];
    let length = run_length(text, start, |b| b != b'<' && !b.is_ascii_whitespace());
    let value = &text[start..start + length];
    let fits = name.len() <= 24
        && names_secret(&String::from_utf8_lossy(name))
        && text[blank(start + length)..].starts_with(b"<")
        && (password_like(value, false) || key_like(value));
    (fits && !format_at(text, start)).then(|| SecretSpan::new(start, start + length))
}
