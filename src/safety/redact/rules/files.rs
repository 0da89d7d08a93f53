//! Secrets that the form of their file identifies: cookie jars, the codes of wireless networks, defaults of Terraform.

use super::super::known::names_secret;
use super::super::value_class::is_placeholder;
use super::apart::is_space;
use super::commands::is_session_value;
use super::context::{chosen_password, format_at};
use super::{KeywordMatch, SecretSpan, run_length};

/// Returns the next word at or after `at` in its line, and where it ends.
fn next_word(text: &[u8], at: usize) -> (&[u8], usize) {
    let start = at + run_length(text, at, is_space);
    let end = start + run_length(text, start, |b| !b.is_ascii_whitespace());
    (text.get(start..end).unwrap_or_default(), end)
}

/// The value of a cookie in a jar of Netscape's form: domain, flag, path, flag, expiry, name, value. The keyword is the first flag with
/// the start of the path.
pub(super) fn cookie_jar(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let is_flag = |word: &[u8]| word == b"TRUE" || word == b"FALSE";
    if !is_flag(
        text[at..end]
            .split(|&b| is_space(b))
            .find(|word| !word.is_empty())?,
    ) {
        return None;
    }
    let (_, path_end) = next_word(text, end - 1);
    let (flag, flag_end) = next_word(text, path_end);
    let (expiry, expiry_end) = next_word(text, flag_end);
    let (name, name_end) = next_word(text, expiry_end);
    let (value, value_end) = next_word(text, name_end);
    let fits = is_flag(flag)
        && !expiry.is_empty()
        && expiry.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        && is_session_value(name, value);
    let start = value_end - value.len();
    (fits && !format_at(text, start)).then(|| SecretSpan {
        more: (value_end == text.len()).then_some(|b| !b.is_ascii_whitespace()),
        ..SecretSpan::new(start, value_end)
    })
}

/// The password in the code of a wireless network: `WIFI:T:WPA;S:name;P:password;;`.
pub(super) fn wifi(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// More than a code with the longest name and password.
    const MAX_CODE: usize = 512;
    let KeywordMatch { text, at, end, .. } = *place;
    let code = &text[end..text.len().min(end + MAX_CODE)];
    let is_code = text[at..].starts_with(b"WIFI:")
        && code.first().is_some_and(|b| b"TSPHR".contains(b))
        && code.get(1) == Some(&b':');
    let mut field = 0;
    for (index, &byte) in code.iter().enumerate() {
        let is_end = byte == b';' && (index == 0 || code[index - 1] != b'\\');
        if byte == b'\n' || !is_code {
            break;
        }
        if is_end {
            if code[field..index].starts_with(b"P:") && index >= field + 6 {
                return Some(SecretSpan::new(end + field + 2, end + index));
            }
            field = index + 1;
        }
    }
    None
}

/// The default of a variable of Terraform whose name is that of a secret: `variable "db_password" {` and `default = "…"`. The keyword ends
/// with the quote before the value.
pub(super) fn terraform_default(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const VARIABLE: &[u8] = b"variable \"";
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let before = &text[from..at];
    let block = &before[memchr::memmem::rfind(before, VARIABLE)? + VARIABLE.len()..];
    let name = &block[..block.iter().position(|&b| b == b'"')?];
    let is_closed = memchr::memmem::find(block, b"\n}").is_some();
    let length = run_length(text, end, |b| b != b'"' && b != b'\n');
    let value = &text[end..end + length];
    let fits = !is_closed
        && names_secret(&String::from_utf8_lossy(name))
        && chosen_password(value, 6)
        && !is_placeholder(value)
        && text.get(end + length) == Some(&b'"');
    (fits && !format_at(text, end)).then(|| SecretSpan::new(end, end + length))
}
