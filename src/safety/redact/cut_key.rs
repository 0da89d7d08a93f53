//! Private keys whose first line is not in the text, because it begins or was cut within the key.

use std::borrow::Cow;
use std::ops::Range;

use super::{Redactor, mark};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Length from which a run of base64 may be a line of a key.
const KEY_LINE: usize = 32;
/// Lengths of the lines of keys: RFC 7468, OpenSSH, RFC 2045.
const KEY_WIDTHS: [usize; 3] = [64, 70, 76];

impl Redactor {
    /// Replaces keys in PEM of which only the end is in the text, and returns their number. With `is_cut` the beginning of the text is
    /// missing, so that it may begin within a key.
    pub fn redact_cut_keys<'t>(&self, text: &'t str, is_cut: bool) -> (Cow<'t, str>, usize) {
        let mut keys: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        let ends = text.match_indices(END).filter_map(|(at, _)| {
            let label = text.get(at + END.len()..)?;
            let label = label.get(..label.find(DASHES)?)?;
            let is_key = label.contains("PRIVATE KEY") && !label.contains('\n');
            is_key.then_some((at, at + END.len() + label.len() + DASHES.len()))
        });
        for (at, end) in ends {
            let before = text.get(from..at).unwrap_or_default();
            if !before.contains(BEGIN) {
                let start = match is_cut && from == 0 && is_all_body(before) {
                    true => 0,
                    false => at - body_at_end(before),
                };
                keys.push(start..end);
            }
            from = end;
        }
        if is_cut && keys.first().is_none_or(|key| key.start > 0) {
            let body = body_at_start(text);
            if body > 0 {
                keys.insert(0, 0..body);
            }
        }
        if keys.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for key in &keys {
            out.push_str(text.get(at..key.start).unwrap_or_default());
            out.push_str(&mark("private-key"));
            at = key.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        (Cow::Owned(out), keys.len())
    }
}

/// Whether a line may be one of the body of a key: base64, or a header such as `Proc-Type: 4,ENCRYPTED`.
fn is_body(line: &str) -> bool {
    let line = line.trim();
    is_base64(line) || line.starts_with("Proc-Type:") || line.starts_with("DEK-Info:")
}

fn is_base64(line: &str) -> bool {
    let is_sign = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
    line.bytes().all(is_sign)
}

/// Returns the length of the body of a key at the end of a text.
fn body_at_end(text: &str) -> usize {
    let lines = text.split_inclusive('\n').rev();
    lines.take_while(|line| is_body(line)).map(str::len).sum()
}

/// Whether a text is nothing but the body of a key, whatever a program puts before each line. The first line may be cut, and the last
/// one of the body is short.
fn is_all_body(text: &str) -> bool {
    let has_body = |line: &str| {
        let mut runs =
            line.split(|c: char| !c.is_ascii() || !is_base64(c.encode_utf8(&mut [0; 4])));
        runs.any(|run| run.len() >= KEY_LINE)
    };
    // The text before the last line, which is that of the end.
    let Some((text, _)) = text.rsplit_once('\n') else {
        return true;
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let inner = lines
        .get(1..lines.len().saturating_sub(1))
        .unwrap_or_default();
    inner.iter().all(|line| has_body(line))
        && (lines.len() > 2 || lines.iter().all(|line| is_body(line) || has_body(line)))
}

/// Returns the length of lines at the beginning of a text that look like the body of a key: base64 of the same length, but for the first
/// line, which may be cut, and the last one. Hashes and numbers have no letters of both cases, and paths begin alike.
fn body_at_start(text: &str) -> usize {
    let lines: Vec<&str> = text
        .split('\n')
        .take_while(|line| is_base64(line.trim()) && !line.trim().is_empty())
        .collect();
    let Some(width) = lines.get(1).map(|line| line.trim_end().len()) else {
        return 0;
    };
    let inner = lines
        .get(1..lines.len().saturating_sub(1).max(2))
        .unwrap_or_default();
    let is_even = inner.iter().all(|line| line.trim_end().len() == width);
    let has = |kind: fn(&u8) -> bool| lines.iter().any(|line| line.as_bytes().iter().any(kind));
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let are_paths = inner.iter().all(|line| line.starts_with('/'));
    match KEY_WIDTHS.contains(&width) && is_even && is_mixed && !are_paths {
        true => lines.iter().map(|line| line.len() + 1).sum::<usize>() - 1,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_removed_without_its_first_line() {
        let body = format!("{}\n", "MIIEpAIBAAKCAQEA".repeat(4)).repeat(3);
        let end = format!("{END}RSA PRIVATE KEY{DASHES}");
        let public = format!("{END}PUBLIC KEY{DASHES}");
        let whole = format!("{BEGIN}RSA PRIVATE KEY{DASHES}\n{body}{end}\n");
        let mark = mark("private-key");
        let hashes = "0123456789abcdef0123456789abcdef01234567\n".repeat(3);
        let paths = "/home/user/Projects/src2/components/of/the/first/program/in/it/a\n".repeat(3);
        for (text, is_cut, wanted) in [
            (
                format!("{body}{end}\nnext\n"),
                true,
                format!("{mark}\nnext\n"),
            ),
            (format!("AKCA\n{body}{end}"), true, mark.clone()),
            // Where the beginning is missing, all of it is key, whatever a program puts before each line.
            (format!("> {body}> {end}, x"), true, format!("{mark}, x")),
            (
                format!("a word\n{body}{end}\nz"),
                false,
                format!("a word\n{mark}\nz"),
            ),
            (format!("{end}\n"), false, format!("{mark}\n")),
            // The end is missing too.
            (
                format!("{body}rest of it\n"),
                true,
                format!("{mark}\nrest of it\n"),
            ),
            (format!("KCAQ\n{body}"), true, format!("{mark}\n")),
            // Others stay.
            (whole.clone(), true, whole),
            (body.clone(), false, body.clone()),
            (
                format!("{body}{public}\n"),
                false,
                format!("{body}{public}\n"),
            ),
            ("2999\n3000\n".to_owned(), true, "2999\n3000\n".to_owned()),
            (hashes.clone(), true, hashes.clone()),
            (paths.clone(), true, paths.clone()),
            // Only the line itself, where the text before it is another one.
            (
                format!("error: x\nsrc/a.rs:1: {end}\n"),
                true,
                format!("error: x\nsrc/a.rs:1: {mark}\n"),
            ),
        ] {
            let (shown, count) = Redactor::default().redact_cut_keys(&text, is_cut);
            assert_eq!(shown, wanted, "{text:?}");
            assert_eq!(count, usize::from(text != wanted), "{text:?}");
        }
    }
}
