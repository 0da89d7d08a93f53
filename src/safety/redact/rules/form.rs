//! Forms that are more than a word and a row of characters.

use super::super::RULES;
use super::super::filter::Class;
use super::super::shape::random;
use super::context::bounded;
use super::{Place, Secret, Tail, run};

fn alnum(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

fn dash(b: u8) -> bool {
    alnum(b) || matches!(b, b'_' | b'-')
}

fn hex(b: u8) -> bool {
    b.is_ascii_digit() || matches!(b, b'a'..=b'f')
}

/// The lines of a key: base64 and line ends, also as JSON writes them.
fn armour(b: u8) -> bool {
    alnum(b) || b"+/=\r\n\\".contains(&b)
}

/// How many bytes of this class end at `at`.
fn back(place: &Place<'_>, at: usize, class: Class) -> usize {
    let before = &place.text[place.from..at];
    before.iter().rev().take_while(|&&b| class(b)).count()
}

/// How many bytes before the end of `text` a key's last line ends, if one does before another begins.
fn end_of_armour(text: &[u8]) -> Option<usize> {
    let find = |from: usize, what: &[u8]| {
        let rest = text.get(from..)?;
        rest.windows(what.len())
            .position(|w| w == what)
            .map(|at| from + at)
    };
    let end = find(0, b"-----END ")?;
    let close = find(end + 9, b"-----")?;
    let label = &text[end..close];
    let begun = find(0, b"-----BEGIN ").is_some_and(|at| at < end);
    (!begun && label.len() < 80 && label.windows(11).any(|w| w == b"PRIVATE KEY"))
        .then_some(close + 5)
}

/// A private key, to its last line. Without one, the lines that look like those of a key.
pub(super) fn pem(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, end, .. } = *place;
    let label = run(text, end, |b| b != b'-' && b != b'\n').min(80);
    let label_end = end + label;
    let private = text[end..label_end]
        .windows(11)
        .any(|w| w == b"PRIVATE KEY");
    if !private || text.get(label_end..label_end + 5) != Some(b"-----") {
        return None;
    }
    let body = label_end + 5;
    let long = |from: usize, to: usize| {
        text[from..to]
            .split(|&b| !alnum(b) && !b"+/=".contains(&b))
            .any(|l| l.len() >= 24)
    };
    if let Some(n) = end_of_armour(&text[body..]) {
        return long(body, body + n).then(|| Secret::new(at, body + n));
    }
    let n = run(text, body, armour);
    long(body, body + n).then(|| Secret {
        more: Some(armour),
        ..Secret::new(at, body + n)
    })
}

/// Three parts in base64url, the first two of which are objects.
pub(super) fn jwt(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, .. } = *place;
    let head = run(text, at, dash);
    let second = at + head + 1;
    let payload = run(text, second, dash);
    let third = second + payload + 1;
    let signature = run(text, third, dash);
    let fits = text[at..].starts_with(b"eyJ")
        && bounded(place)
        && head >= 12
        && text.get(second - 1) == Some(&b'.')
        && text.get(third - 1) == Some(&b'.')
        // An encrypted one has a key there.
        && (text[second..].starts_with(b"eyJ") || signature >= 12)
        && payload >= 8
        && signature >= 10;
    fits.then(|| Secret {
        more: Some(|b| dash(b) || b == b'.'),
        ..Secret::new(at, third + signature)
    })
}

/// `123456789:AA…`
pub(super) fn telegram(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, .. } = *place;
    let id = back(place, at, |b| b.is_ascii_digit());
    let n = run(text, at + 1, dash);
    let fits = (6..=12).contains(&id) && (34..=36).contains(&n) && text[at..].starts_with(b":AA");
    fits.then(|| Secret::new(at - id, at + 1 + n))
}

/// An id in base64, a time, a signature, with dots between; noticed by the first.
pub(super) fn discord(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, .. } = *place;
    let time = run(text, at + 1, dash);
    let dot = at + 1 + time;
    if !(6..=7).contains(&time) || text.get(dot) != Some(&b'.') {
        return None;
    }
    let id = back(place, at, dash);
    let signature = run(text, dot + 1, dash);
    let fits = (23..=28).contains(&id)
        && matches!(text[at - id], b'M' | b'N' | b'O')
        && (27..=45).contains(&signature)
        && random(&text[dot + 1..dot + 1 + signature]);
    fits.then(|| Secret::new(at - id, dot + 1 + signature))
}

/// `abc8Q~…`
pub(super) fn azure_client(place: &Place<'_>) -> Option<Secret> {
    let Place {
        text,
        from,
        at,
        end,
    } = *place;
    let class: Class = |b| dash(b) || b == b'~' || b == b'.';
    let n = run(text, end, class);
    let fits = text[at..].starts_with(b"Q~")
        && (31..=36).contains(&n)
        && at >= from + 4
        && back(place, at, class) == 4
        && text[at - 1].is_ascii_digit();
    fits.then(|| Secret::new(at - 4, end + n))
}

/// The signature of a shared access address.
pub(super) fn signature(place: &Place<'_>) -> Option<Secret> {
    let class: Class = |b| alnum(b) || b"%+/=".contains(&b);
    let n = run(place.text, place.end, class);
    let fits = n >= 40 && bounded(place) && random(&place.text[place.end..place.end + n]);
    fits.then(|| Secret {
        more: Some(class),
        ..Secret::new(place.end, place.end + n)
    })
}

/// Fourteen characters, `.atlasv1.` and many more.
pub(super) fn terraform(place: &Place<'_>) -> Option<Secret> {
    let class: Class = |b| dash(b) || b == b'=';
    let n = run(place.text, place.end, class);
    let fits = n >= 60 && back(place, place.at, alnum) == 14;
    fits.then(|| Secret {
        more: Some(class),
        ..Secret::new(place.at - 14, place.end + n)
    })
}

/// `pat`, fourteen characters, a dot and 64 hex digits.
pub(super) fn airtable(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, end, .. } = *place;
    let fits = text[at..].starts_with(b"pat")
        && bounded(place)
        && run(text, end, alnum) == 14
        && text.get(end + 14) == Some(&b'.')
        && run(text, end + 15, hex) == 64;
    fits.then(|| Secret::new(at, end + 15 + 64))
}

/// 32 hex digits, `-us` and the number of a data centre.
pub(super) fn mailchimp(place: &Place<'_>) -> Option<Secret> {
    let n = run(place.text, place.end, alnum);
    let number = place.text[place.end..place.end + n]
        .iter()
        .all(u8::is_ascii_digit);
    let fits = (1..=2).contains(&n)
        && number
        && back(place, place.at, dash) == 32
        && back(place, place.at, hex) == 32;
    fits.then(|| Secret::new(place.at - 32, place.end + n))
}

/// `key-` and 32 hex digits; not the digest at the end of a longer name.
pub(super) fn mailgun(place: &Place<'_>) -> Option<Secret> {
    let Place { text, at, end, .. } = *place;
    let fits = text[at..].starts_with(b"key-")
        && bounded(place)
        && back(place, at, dash) == 0
        && run(text, end, alnum) == 32
        && run(text, end, hex) == 32;
    fits.then(|| Secret::new(at, end + 32))
}

/// Where in the last word of a text that was cut off there a known format begins; the text's length where none does.
pub(super) fn cut_key(head: &[u8]) -> usize {
    let from = head
        .iter()
        .rposition(u8::is_ascii_whitespace)
        .map_or(0, |at| at + 1);
    let from = from.max(head.len().saturating_sub(super::AHEAD));
    let begins = |at: usize| {
        RULES.keys_at(head, at).any(|rule| {
            let end = at + rule.key.len();
            let place = Place {
                text: head,
                from: at.saturating_sub(super::BACK),
                at,
                end,
            };
            let long = !matches!(rule.tail, Tail::By(_)) || rule.kind == "jwt";
            long && rule.key.len() >= 3
                && head.get(at..end) == Some(rule.key.as_bytes())
                && bounded(&place)
        })
    };
    (from..head.len())
        .find(|&at| begins(at))
        .unwrap_or(head.len())
}

/// Where at the start of a text whose beginning is missing the rest of a secret ends: that of a private key, or of what
/// looks like chance.
pub(super) fn cut_run(tail: &[u8]) -> usize {
    let near = &tail[..tail.len().min(super::AHEAD)];
    if let Some(end) = end_of_armour(near) {
        return end;
    }
    let n = run(near, 0, |b| dash(b) || b"+/=.".contains(&b));
    if random(&near[..n]) { n } else { 0 }
}
