//! Formats of vendors that a keyword and a run of characters cannot describe.

use super::super::value_class::{is_random, mixes_characters};
use super::byte_classes::{alnum, base64, both64, dash, dot, hex, upper, xdigit};
use super::context::at_word_start;
use super::{KeywordMatch, SecretSpan, run_length};

/// Returns where the parts of these lengths end that begin at `at`, with a separator between each two of them.
fn parts_end(
    text: &[u8],
    at: usize,
    lengths: &[usize],
    separator: u8,
    class: fn(u8) -> bool,
) -> Option<usize> {
    let mut end = at;
    for (index, &length) in lengths.iter().enumerate() {
        if index > 0 {
            if text.get(end) != Some(&separator) {
                return None;
            }
            end += 1;
        }
        if run_length(text, end, class) != length {
            return None;
        }
        end += length;
    }
    Some(end)
}

/// Whether the keyword has its own case and begins a word.
fn begins_word(place: &KeywordMatch<'_>, key: &[u8]) -> bool {
    place.text[place.at..].starts_with(key) && at_word_start(place)
}

/// A key of Resend, `re_…_…`.
pub(super) fn resend(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let whole = parts_end(text, end, &[8, 24], b'_', alnum)?;
    let fits = begins_word(place, b"re_") && is_random(&text[end + 9..whole]);
    fits.then(|| SecretSpan::new(at, whole))
}

/// A key of Harness, `pat.…` and `sat.…`.
pub(super) fn harness(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let whole = parts_end(text, end, &[22, 24, 20], b'.', dash)?;
    let fits = begins_word(place, b"pat.") || begins_word(place, b"sat.");
    fits.then(|| SecretSpan::new(at, whole))
}

/// A license key of MaxMind, whose end is the keyword.
pub(super) fn maxmind(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const LENGTH: usize = 6 + 1 + 29;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let start = at.checked_sub(LENGTH).filter(|start| *start >= from)?;
    let is_end = !text.get(end).copied().is_some_and(alnum);
    let fits = is_end && parts_end(&text[..at], start, &[6, 29], b'_', alnum) == Some(at);
    fits.then(|| SecretSpan::new(start, end))
}

/// A personal access token of Asana: a number, one or two ids, and a key.
pub(super) fn asana(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let id = |at| run_length(text, at, |b| b.is_ascii_digit());
    let first = id(end);
    let mut colon = end + first;
    if first < 15 || !at_word_start(place) {
        return None;
    }
    if text.get(colon) == Some(&b'/') {
        let second = id(colon + 1);
        colon += 1 + second;
        if second < 15 {
            return None;
        }
    }
    let key = run_length(text, colon + 1, alnum);
    (text.get(colon) == Some(&b':') && key >= 32).then(|| SecretSpan {
        more: Some(alnum),
        ..SecretSpan::new(at, colon + 1 + key)
    })
}

/// A key of 84 characters that Azure issues, with a signature behind the 52 random ones.
pub(super) fn azure_signed(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const RANDOM: usize = 52;
    const LENGTH: usize = 84;
    let KeywordMatch { text, from, at, .. } = *place;
    let start = at.checked_sub(RANDOM).filter(|start| *start >= from)?;
    let is_start = start == 0 || !alnum(text[start - 1]);
    let fits =
        text[at..].starts_with(b"JQQJ9") && is_start && run_length(text, start, alnum) == LENGTH;
    fits.then(|| SecretSpan::new(start, start + LENGTH))
}

/// The marks that Azure puts into keys, with the number of characters before and the padding behind; 6 characters are between.
const AZURE_MARKS: &[(&str, usize, &[u8])] = &[
    ("AzFu", 44, b"=="),
    ("AzSe", 42, b""),
    ("+ACR", 42, b""),
    ("+ARm", 33, b"="),
    ("+AEh", 33, b"="),
    ("+ASb", 33, b"="),
    ("AIoT", 33, b"="),
    ("AzCa", 33, b"="),
    ("AZEG", 33, b"="),
];

/// A key that Azure issues with the mark of its service, the keyword, in it.
pub(super) fn azure_marked(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const BEHIND: usize = 6;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let mark = &text[at..end];
    let (_, before, padding) = AZURE_MARKS
        .iter()
        .find(|(name, ..)| name.as_bytes() == mark)?;
    let start = at.checked_sub(*before).filter(|start| *start >= from)?;
    let is_key: fn(u8) -> bool = |b| both64(b) && b != b'=';
    let whole = end + BEHIND;
    let fits = (start == 0 || !is_key(text[start - 1]))
        && run_length(text, start, is_key) == whole - start
        && text[whole..].starts_with(padding)
        && is_random(&text[start..whole]);
    fits.then(|| SecretSpan::new(start, whole + padding.len()))
}

/// Whether a word is a UUID of version 4.
pub(super) fn is_uuid4(word: &[u8]) -> bool {
    word.len() == 36
        && word[14] == b'4'
        && parts_end(word, 0, &[8, 4, 4, 4, 12], b'-', xdigit) == Some(36)
}

/// A key with a short beginning that is a word in other texts: it has exactly this many characters, and they look random.
pub(super) fn short_beginning(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let key = &text[at..end];
    let length = run_length(text, end, dash);
    let value = &text[end..end + length];
    let has = |class: fn(&u8) -> bool| value.iter().any(class);
    let is_mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let is_key = match key {
        b"pa-" => length == 43 && is_mixed && is_random(value),
        b"as-" | b"ak-" => {
            length == 22 && is_mixed && is_random(value) && value.iter().all(|b| alnum(*b))
        }
        b"api-" | b"sdk-" | b"mob-" => is_uuid4(value),
        _ => false,
    };
    // A part of a name, such as that of a host.
    let is_part = |b: Option<&u8>| b.is_some_and(|b| b"._-/@".contains(b));
    let is_host =
        is_part(text.get(end + length)) && text.get(end + length + 1).is_some_and(|b| alnum(*b));
    let before = text[from..at].last();
    (is_key && at_word_start(place) && !is_part(before) && !is_host)
        .then(|| SecretSpan::new(at, end + length))
}

/// A password of a role of Neon, which is too short to look random.
pub(super) fn neon_password(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let length = run_length(text, end, alnum);
    let value = &text[end..end + length];
    let fits =
        begins_word(place, b"npg_") && (12..=16).contains(&length) && mixes_characters(value);
    fits.then(|| SecretSpan::new(at, end + length))
}

/// A personal token of ClickUp: `pk_`, the number of the user and 32 characters.
pub(super) fn clickup(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let user = run_length(text, end, |b| b.is_ascii_digit());
    let key = end + user + 1;
    let fits = begins_word(place, b"pk_")
        && (6..=10).contains(&user)
        && text[key - 1..].starts_with(b"_")
        && run_length(text, key, upper) == 32;
    fits.then(|| SecretSpan::new(at, key + 32))
}

/// A session of Salesforce: the id of the organization, `!` and the token.
pub(super) fn salesforce(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let id = run_length(text, end, alnum).min(16);
    let is_token: fn(u8) -> bool = |b| alnum(b) || b"._".contains(&b);
    let start = end + id + 1;
    let fits = matches!(id, 12 | 15)
        && text[start - 1..].starts_with(b"!")
        && begins_word(place, b"00D")
        && run_length(text, start, is_token) >= 80;
    fits.then(|| SecretSpan {
        more: Some(is_token),
        ..SecretSpan::new(at, start + run_length(text, start, is_token))
    })
}

/// A key of Telnyx: `KEY`, the id of the key and 22 characters.
pub(super) fn telnyx(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let id = run_length(text, end, |b| upper(b) && b.is_ascii_hexdigit()).min(33);
    let key = end + id + 1;
    let fits = (30..=32).contains(&id)
        && text[key - 1..].starts_with(b"_")
        && begins_word(place, b"KEY")
        && run_length(text, key, alnum) == 22;
    fits.then(|| SecretSpan::new(at, key + 22))
}

/// A license key of New Relic, whose end is the keyword.
pub(super) fn newrelic_license(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let before = text[from..at].iter().rev();
    let length = before.take_while(|b| alnum(**b)).count();
    let fits = text[at..].starts_with(b"FFFFNRAL")
        && (32..=36).contains(&length)
        && is_random(&text[at - length..at])
        && !text.get(end).copied().is_some_and(alnum);
    fits.then(|| SecretSpan::new(at - length, end))
}

/// A token of a node of K3s or RKE2: the digest of the certificate, a user and a password.
pub(super) fn k3s(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const DIGEST: usize = 64;
    let KeywordMatch { text, at, end, .. } = *place;
    if run_length(text, end, hex) != DIGEST || !text[end + DIGEST..].starts_with(b"::") {
        return None;
    }
    let user = end + DIGEST + 2;
    let password = user + run_length(text, user, alnum) + 1;
    let length = run_length(text, password, alnum);
    let fits = begins_word(place, b"K10") && text.get(password - 1) == Some(&b':') && length >= 16;
    fits.then(|| SecretSpan::new(at, password + length))
}

/// A bearer token of an application of Twitter: it begins with the letter of zeros, and has signs of base64 as a URL has them.
pub(super) fn twitter(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    if !at_word_start(place) {
        return None;
    }
    let is_token: fn(u8) -> bool = |b| alnum(b) || b == b'%';
    let length = run_length(text, end, is_token);
    let value = &text[end..end + length];
    let fits = (60..=150).contains(&length)
        && value.starts_with(b"AAAA")
        && value.contains(&b'%')
        && is_random(value);
    fits.then(|| SecretSpan::new(at, end + length))
}

/// A key of Ceph: 40 characters, of which those in the middle say how long it is.
pub(super) fn ceph(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const LENGTH: usize = 40;
    let KeywordMatch { text, at, .. } = *place;
    let fits = begins_word(place, b"AQ")
        && run_length(text, at, base64) == LENGTH
        && text[at..].get(14..16) == Some(b"AA")
        && text[at..at + LENGTH].ends_with(b"==")
        && is_random(&text[at..at + LENGTH]);
    fits.then(|| SecretSpan::new(at, at + LENGTH))
}

/// A secret key of a binary cache of Nix: a name, which ends with the keyword, and 64 bytes. A signature has the same form.
pub(super) fn nix(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const LENGTH: usize = 88;
    let KeywordMatch { text, end, .. } = *place;
    let is_key = run_length(text, end, base64) == LENGTH
        && text[end..end + LENGTH].ends_with(b"==")
        && is_random(&text[end..end + LENGTH]);
    if !is_key {
        return None;
    }
    let line = place.line_before();
    let name = line.iter().rposition(|b| !dot(*b));
    let line = &line[..name.map_or(0, |at| at + 1)];
    let before = place.before();
    let has = |text: &[u8], word: &[u8]| memchr::memmem::find(text, word).is_some();
    let is_signature = has(line, b"Sig:")
        || has(line, b"/nix/store/")
        || has(line, b"-1:")
        || line.ends_with(b"\"") && (has(before, b"\"signatures\"") || has(before, b"==\","));
    (!is_signature).then(|| SecretSpan::new(end, end + LENGTH))
}
