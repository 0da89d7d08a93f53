//! Formats that a keyword and a run of characters cannot describe, with a function for each.

use super::super::RULES;
use super::super::stage::ByteClass;
use super::super::value_class::is_random;
use super::byte_classes::{alnum, base32, base64, dash, hex, is_space};
use super::context::{at_word_start, ends_with_colour};
use super::line_prefix::readings;
use super::rows::{next_line, next_run};
use super::{FormatPattern, KeywordMatch, SecretSpan, run_length};

/// Whether the body of a PEM key can contain the byte: base64, line ends, and the backslash of escaped line ends.
fn is_pem_byte(b: u8) -> bool {
    alnum(b) || b"+/=\r\n\\".contains(&b)
}

/// Whether the label of a PEM block is that of a secret.
fn is_secret_label(label: &[u8]) -> bool {
    const LABELS: [&str; 3] = ["PRIVATE KEY", "OpenVPN Static key", "NKEY SEED"];
    let has = |part: &str| memchr::memmem::find(label, part.as_bytes()).is_some();
    LABELS.iter().any(|part| has(part))
}

/// Length of the run of bytes of this class that ends at `at`.
fn run_length_before(place: &KeywordMatch<'_>, at: usize, class: ByteClass) -> usize {
    let before = &place.text[place.from..at];
    let length = before.iter().rev().take_while(|&&b| class(b)).count();
    // The `m` that ends the code of a terminal colour belongs to no value.
    let run = &before[before.len() - length..];
    let colour = run.iter().position(|b| *b == b'm').filter(|end| {
        let digits = run[..*end].iter().all(|b| b.is_ascii_digit() || *b == b';');
        digits && ends_with_colour(&before[..before.len() - length + end + 1])
    });
    length - colour.map_or(0, |end| end + 1)
}

/// Returns where the PEM private key ends in whose body `text` begins; `None` if another key begins first.
fn pem_end(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    let end = loop {
        let dashes = from + memchr::memmem::find(&text[from..], b"-----")?;
        // The first dash may be the sign of a line that a diff removes.
        let behind = dashes + run_length(text, dashes, |b| b == b'-');
        let is_line = |line: &[u8]| text[behind..].starts_with(line);
        if is_line(b"END ") || is_line(b"BEGIN ") {
            break behind;
        }
        from = behind;
    };
    let label = text[end..].strip_prefix(b"END ")?;
    let length = memchr::memmem::find(label, b"-----")?;
    let label = &label[..length];
    (length < 71 && is_secret_label(label)).then_some(end + 4 + length + 5)
}

/// A PEM private key up to its last line, or if that is missing, up to the first line that cannot belong to a key.
pub(super) fn pem(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let label = run_length(text, end, |b| b != b'-' && b != b'\n').min(80);
    let label_end = end + label;
    if !is_secret_label(&text[end..label_end])
        || text.get(label_end..label_end + 5) != Some(b"-----")
    {
        return None;
    }
    let body = label_end + 5;
    let has_base64_line =
        |from: usize, to: usize| text[from..to].split(|&b| !base64(b)).any(|l| l.len() >= 24);
    if let Some(n) = pem_end(&text[body..]) {
        return has_base64_line(body, body + n).then(|| SecretSpan::new(at, body + n));
    }
    let plain = body + run_length(text, body, is_pem_byte);
    let end = plain.max(rows_end(text, body));
    let end = end.max(words_end(text, body));
    let is_cut = || end == text.len() && begins_key(text[body..].trim_ascii_start());
    (has_base64_line(body, end) || is_cut()).then(|| SecretSpan {
        more: Some(is_pem_byte),
        ..SecretSpan::new(at, end)
    })
}

/// Returns where rows of base64 end that follow the line which ends at `at`, whatever a program prints before each, perhaps behind an
/// empty one.
fn rows_end(text: &[u8], at: usize) -> usize {
    let empty =
        next_line(text, at).filter(|line| readings(&text[line.clone()]).any(<[u8]>::is_empty));
    let mut end = empty.map_or(at, |line| line.end);
    let mut rows = 0;
    while let Some(row) = next_run(text, end, base64) {
        end = row.end;
        rows += 1;
    }
    if rows > 0 { end } else { at }
}

/// Returns where words of base64 end that follow in the line at `at`, as a key has them where blanks replace its line ends: words of one
/// length, and a shorter last one.
fn words_end(text: &[u8], at: usize) -> usize {
    /// Maximum length of the headers of an encrypted key.
    const MAX_HEADERS: usize = 96;
    let blank = |at: usize| at + run_length(text, at, is_space).min(8);
    let headers = &text[at..text.len().min(at + MAX_HEADERS)];
    let encryption = memchr::memmem::find(headers, b"DEK-Info: ");
    let behind = encryption.map(|found| at + found + 10);
    let mut end = behind.map_or(at, |at| at + run_length(text, at, |b| b.is_ascii_graphic()));
    let mut width = 0;
    loop {
        let start = blank(end);
        let length = run_length(text, start, base64);
        if start == end || length == 0 || width > 0 && length > width {
            return end;
        }
        end = start + length;
        if width > 0 && length < width {
            return end;
        }
        width = length;
    }
}

/// Whether a text begins as the body of a private key does: with the length of a sequence in DER, or with the name of the format of
/// OpenSSH.
fn begins_key(text: &[u8]) -> bool {
    /// Minimum number of characters; fewer have nothing of the key.
    const LEAST: usize = 8;
    let is_sequence = matches!(text, [b'M', b'A'..=b'I', ..]);
    run_length(text, 0, base64) >= LEAST && (is_sequence || text.starts_with(b"b3Bl"))
}

/// A private key of the SSH2 software up to its last line, or if that is missing, up to the first byte that cannot belong to a key.
pub(super) fn ssh2(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const END: &[u8] = b"---- END SSH2 ENCRYPTED PRIVATE KEY ----";
    let KeywordMatch { text, at, end, .. } = *place;
    Some(match memchr::memmem::find(&text[end..], END) {
        Some(length) => SecretSpan::new(at, end + length + END.len()),
        None => SecretSpan {
            more: Some(is_pem_byte),
            ..SecretSpan::new(at, end + run_length(text, end, is_pem_byte))
        },
    })
}

/// The private part of a key of PuTTY: as many lines as the keyword says.
pub(super) fn putty(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// More than the number of lines of the longest key.
    const MAX_LINES: usize = 400;
    let KeywordMatch { text, end, .. } = *place;
    let digits = run_length(text, end, |b| b.is_ascii_digit()).min(3);
    let lines = std::str::from_utf8(&text[end..end + digits]).ok()?;
    let lines = lines.parse::<usize>().ok()?.min(MAX_LINES);
    let mut end = end + digits;
    let mut span: Option<SecretSpan> = None;
    for _ in 0..lines {
        let Some(row) = next_run(text, end, base64) else {
            break;
        };
        end = row.end;
        let start = span.map_or(row.start, |span| span.start);
        span = Some(SecretSpan::new(start, end));
    }
    let is_cut = end == text.len();
    span.filter(|span| span.end - span.start >= 24)
        .map(|span| SecretSpan {
            more: is_cut.then_some(is_pem_byte),
            ..span
        })
}

/// The private part of a JSON Web Key, beside another part of one, in JSON or in a string in it. The keyword is the name, `"d` or `"k`, up
/// to its end.
pub(super) fn jwk(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// How far behind the value another part of the key counts: a stream is not held back longer.
    const MAX_BEHIND: usize = 28;
    /// Longest value of keys on curves; parts of those of RSA come in alphabetical order or behind the public ones.
    const CURVE: usize = 88;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let quote = |at: usize| {
        let backslashes = run_length(text, at, |b| b == b'\\').min(8);
        let is_quote = text.get(at + backslashes) == Some(&b'"');
        is_quote.then_some(at + backslashes + 1)
    };
    // The quote of the name is the end of the keyword without backslashes.
    let colon = match text[end - 1] {
        b'"' => end,
        _ => quote(end)?,
    };
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let start = quote(colon + 1 + usize::from(text.get(colon + 1) == Some(&b' ')))?;
    let length = run_length(text, start, dash);
    let next = start + length;
    let is_quoted = next == text.len() || quote(next).is_some();
    let has = |text: &[u8], part: &str| {
        let ends = memchr::memmem::find_iter(text, part).map(|at| at + part.len());
        let mut next = ends.map(|end| text.get(end));
        next.any(|b| b.is_some_and(|b| b"\"\\".contains(b)))
    };
    let is_octets = text[at..end].starts_with(b"\"k");
    let is_part = |text: &[u8]| match is_octets {
        true => has(text, "\"kty") && has(text, "\"oct"),
        false => ["\"kty", "\"crv", "\"e", "\"x"]
            .iter()
            .any(|part| has(text, part)),
    };
    let behind = &text[next.min(text.len())..text.len().min(next + MAX_BEHIND)];
    let least = if is_octets { 22 } else { 40 };
    let is_key = is_quoted
        && length >= least
        && is_random(&text[start..next])
        && (is_part(&text[from..at]) || length <= CURVE && is_part(behind));
    is_key.then(|| SecretSpan::open(text, start, next, dash))
}

/// A secret access key of AWS behind the id of the key, as lists have it: `AKIA…,secret`. The keyword is the beginning of the id; both are
/// removed.
pub(super) fn aws_pair(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Length of an id without the keyword, and of a secret.
    const ID: usize = 16;
    const SECRET: usize = 40;
    let KeywordMatch { text, at, end, .. } = *place;
    let id = end + run_length(text, end, base32);
    // A table has the day on which the key was made before the secret.
    let is_between = |b: u8| b.is_ascii_digit() || b",;:\t |\"'\\-".contains(&b);
    let gap = run_length(&text[..text.len().min(id + 24)], id, is_between);
    let separators = |part: &[u8]| part.iter().filter(|b| !b.is_ascii_digit()).count();
    let start = (id..=id + gap)
        .rev()
        .find(|&start| run_length(text, start, base64) == SECRET)?;
    let fits = text[at..end].starts_with(b"A")
        && at_word_start(place)
        && id - end == ID
        && separators(&text[id..start]) > 0
        && is_random(&text[start..start + SECRET]);
    fits.then(|| SecretSpan::new(at, start + SECRET))
}

/// Maximum length of the header of a JSON Web Token; one with a chain of certificates has a few KiB.
const MAX_JWT_HEAD: usize = 4 << 10;

/// A JSON Web Token: three base64url parts, the first two of which are JSON objects.
pub(super) fn jwt(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, .. } = *place;
    if !text[at..].starts_with(b"eyJ") || !at_word_start(place) {
        return None;
    }
    let head = run_length(&text[..text.len().min(at + MAX_JWT_HEAD)], at, dash);
    let second = at + head + 1;
    if head < 12 || text.get(second - 1) != Some(&b'.') {
        return None;
    }
    let payload = run_length(text, second, dash);
    let third = second + payload + 1;
    let signature = run_length(text, third, dash);
    let fits = text.get(third - 1) == Some(&b'.')
        // In an encrypted token the second part is a key.
        && (text[second..].starts_with(b"eyJ") || signature >= 12)
        && payload >= 8
        && signature >= 10;
    fits.then(|| SecretSpan {
        more: Some(|b| dash(b) || b == b'.'),
        ..SecretSpan::new(at, third + signature)
    })
}

/// A Telegram bot token, `123456789:AA…`.
pub(super) fn telegram(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, .. } = *place;
    let id = run_length_before(place, at, |b| b.is_ascii_digit());
    let n = run_length(text, at + 1, dash);
    let fits = (6..=12).contains(&id) && (34..=36).contains(&n) && text[at..].starts_with(b":AA");
    fits.then(|| SecretSpan::new(at - id, at + 1 + n))
}

/// A Discord bot token: an id in base64, a timestamp and a signature, separated by dots. The first dot is the keyword.
pub(super) fn discord(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, .. } = *place;
    let time = run_length(text, at + 1, dash);
    let dot = at + 1 + time;
    if !(6..=7).contains(&time) || text.get(dot) != Some(&b'.') {
        return None;
    }
    let id = run_length_before(place, at, dash);
    let signature = run_length(text, dot + 1, dash);
    let fits = (23..=28).contains(&id)
        && matches!(text[at - id], b'M' | b'N' | b'O')
        && (27..=45).contains(&signature)
        && is_random(&text[dot + 1..dot + 1 + signature]);
    fits.then(|| SecretSpan::new(at - id, dot + 1 + signature))
}

/// An Azure client secret, `abc8Q~…`.
pub(super) fn azure_client(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let class: ByteClass = |b| dash(b) || b == b'~' || b == b'.';
    let n = run_length(text, end, class);
    let fits = text[at..].starts_with(b"Q~")
        && (31..=36).contains(&n)
        && at >= from + 4
        && run_length_before(place, at, class) == 4
        && text[at - 1].is_ascii_digit();
    fits.then(|| SecretSpan::new(at - 4, end + n))
}

/// The signature of a shared access signature URL.
pub(super) fn signature(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let class: ByteClass = |b| dash(b) || b"%+/=".contains(&b);
    let n = run_length(place.text, place.end, class);
    let fits = n >= 40 && at_word_start(place) && is_random(&place.text[place.end..place.end + n]);
    fits.then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(place.end, place.end + n)
    })
}

/// A Terraform Cloud token: fourteen characters, `.atlasv1.` and at least 60 characters.
pub(super) fn terraform(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let class: ByteClass = |b| dash(b) || b == b'=';
    let n = run_length(place.text, place.end, class);
    let fits = n >= 60 && run_length_before(place, place.at, alnum) == 14;
    fits.then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(place.at - 14, place.end + n)
    })
}

/// An Airtable token: `pat`, fourteen characters, a dot and 64 hexadecimal digits.
pub(super) fn airtable(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let fits = text[at..].starts_with(b"pat")
        && at_word_start(place)
        && run_length(text, end, alnum) == 14
        && text.get(end + 14) == Some(&b'.')
        && run_length(text, end + 15, hex) == 64;
    fits.then(|| SecretSpan::new(at, end + 15 + 64))
}

/// A Mailchimp key: 32 hexadecimal digits, `-us` and the number of a data centre.
pub(super) fn mailchimp(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let n = run_length(place.text, place.end, alnum);
    let number = place.text[place.end..place.end + n]
        .iter()
        .all(u8::is_ascii_digit);
    let fits = (1..=2).contains(&n)
        && number
        && run_length_before(place, place.at, dash) == 32
        && run_length_before(place, place.at, hex) == 32;
    fits.then(|| SecretSpan::new(place.at - 32, place.end + n))
}

/// A Mailgun key: `key-` and 32 hexadecimal digits; not a digest at the end of a longer name.
pub(super) fn mailgun(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let fits = text[at..].starts_with(b"key-")
        && at_word_start(place)
        && run_length_before(place, at, dash) == 0
        && run_length(text, end, alnum) == 32
        && run_length(text, end, hex) == 32;
    fits.then(|| SecretSpan::new(at, end + 32))
}

/// The hash of a password of MySQL: `*` and 40 hexadecimal digits behind a quote, or in a table.
pub(super) fn mysql_hash(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let class: ByteClass = |b| b.is_ascii_digit() || matches!(b, b'A'..=b'F');
    let n = run_length(place.text, place.end, class);
    (n == 40).then(|| SecretSpan::new(place.end - 1, place.end + n))
}

/// Returns where a key of a known format begins in the last word of `head`, the beginning of a text whose middle was
/// dropped; `head.len()` if there is none.
pub(super) fn truncated_key_start(head: &[u8]) -> usize {
    let from = head
        .iter()
        .rposition(u8::is_ascii_whitespace)
        .map_or(0, |at| at + 1);
    let from = from.max(head.len().saturating_sub(super::AHEAD));
    let key_begins = |at: usize| {
        RULES.keys_at(head, at).any(|rule| {
            let end = at + rule.key.len();
            let place = KeywordMatch {
                text: head,
                from: at.saturating_sub(super::BACK),
                at,
                end,
            };
            let is_prefix = !matches!(rule.pattern, FormatPattern::Custom(_)) || rule.kind == "jwt";
            is_prefix
                && rule.key.len() >= 3
                && head.get(at..end) == Some(rule.key.as_bytes())
                && (at_word_start(&place) || rule.is_distinctive(head[at - 1]))
        })
    };
    (from..head.len())
        .find(|&at| key_begins(at))
        .unwrap_or(head.len())
}

/// Returns where a secret ends whose beginning is cut off at the start of `tail`: a private key, or a random value. 0 if
/// there is none.
pub(super) fn truncated_secret_end(tail: &[u8]) -> usize {
    let start = &tail[..tail.len().min(super::AHEAD)];
    if let Some(end) = pem_end(start) {
        return end;
    }
    let n = run_length(start, 0, |b| dash(b) || b"+/=.".contains(&b));
    if is_random(&start[..n]) { n } else { 0 }
}
