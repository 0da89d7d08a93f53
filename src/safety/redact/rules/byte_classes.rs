//! The bytes of which keys consist.

/// `A-Za-z0-9`
pub(super) fn alnum(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

/// `A-Za-z0-9_`
pub(super) fn word(b: u8) -> bool {
    alnum(b) || b == b'_'
}

/// `A-Za-z0-9_-`
pub(super) fn dash(b: u8) -> bool {
    word(b) || b == b'-'
}

/// `A-Za-z0-9_-.`
pub(super) fn dot(b: u8) -> bool {
    dash(b) || b == b'.'
}

/// `A-Za-z0-9_-.=`
pub(super) fn dot_pad(b: u8) -> bool {
    dot(b) || b == b'='
}

/// `A-Za-z0-9+/=`
pub(super) fn base64(b: u8) -> bool {
    alnum(b) || matches!(b, b'+' | b'/' | b'=')
}

/// `A-Za-z0-9+/=_-`
pub(super) fn both64(b: u8) -> bool {
    base64(b) || dash(b)
}

/// The cost, the salt and the hash of a password.
pub(super) fn crypt(b: u8) -> bool {
    base64(b) || matches!(b, b'.' | b'$' | b',' | b'-')
}

/// The same with `:` before the last part.
pub(super) fn scram(b: u8) -> bool {
    base64(b) || matches!(b, b'$' | b':')
}

/// `0-9a-f`
pub(super) fn hex(b: u8) -> bool {
    b.is_ascii_digit() || matches!(b, b'a'..=b'f')
}

/// `0-9a-fA-F`
pub(super) fn xdigit(b: u8) -> bool {
    b.is_ascii_hexdigit()
}

/// `A-Z0-9`
pub(super) fn upper(b: u8) -> bool {
    b.is_ascii_digit() || b.is_ascii_uppercase()
}

/// `A-Z2-7`
pub(super) fn base32(b: u8) -> bool {
    b.is_ascii_uppercase() || matches!(b, b'2'..=b'7')
}

/// A blank within a line.
pub(super) fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// Returns the length of the blanks at `at`, with no-break spaces, which pasted text has: up to about `max` bytes.
pub(super) fn blanks_length(text: &[u8], at: usize, max: usize) -> usize {
    let mut end = at;
    while end < at + max {
        end += match text.get(end..).unwrap_or_default() {
            [b' ' | b'\t', ..] => 1,
            [0xc2, 0xa0, ..] => 2,
            _ => break,
        };
    }
    end - at
}

/// Returns the length of the quotes at `at`, with those that are written as entities or codes.
pub(super) fn quotes_length(text: &[u8], at: usize) -> usize {
    let mut end = at;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        end += match entity_length(rest) {
            0 if rest.first().copied().is_some_and(is_quote) => 1,
            0 => return end - at,
            length => length,
        };
    }
}

/// Returns the length of the entity or code of a quote at the start of a text.
pub(super) fn entity_length(text: &[u8]) -> usize {
    const ENTITIES: [&[u8]; 11] = [
        b"&quot;", b"&apos;", b"&#34;", b"&#39;", b"&#x22;", b"&#x27;", b"&#039;",
        // The codes of JSON, and of the logs of nginx.
        b"\\u0022", b"\\u0027", b"\\x22", b"\\x27",
    ];
    if !matches!(text.first(), Some(b'&' | b'\\')) {
        return 0;
    }
    let entity = ENTITIES.iter().find(|entity| text.starts_with(entity));
    entity.map_or(0, |entity| entity.len())
}

/// A quote, or the backslash before one in a string.
pub(super) fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'\\')
}

/// `0-9a-z`
pub(super) fn lower_digit(b: u8) -> bool {
    b.is_ascii_digit() || b.is_ascii_lowercase()
}

/// The alphabet of Django's keys: `a-z0-9!@#$%^&*(-_=+)`
pub(super) fn django(b: u8) -> bool {
    lower_digit(b) || b"!@#$%^&*(-_=+)".contains(&b)
}

/// `0-9a-f.`
pub(super) fn hex_dot(b: u8) -> bool {
    hex(b) || b == b'.'
}

/// `0-9a-fA-F-`
pub(super) fn uuid(b: u8) -> bool {
    xdigit(b) || b == b'-'
}

/// The alphabet of Bitcoin: no `0`, `O`, `I` and `l`.
pub(super) fn base58(b: u8) -> bool {
    b.is_ascii_alphanumeric() && !b"0OIl".contains(&b)
}

/// Returns a text in lower case.
pub(super) fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

/// Decodes base64 up to the first byte outside of its alphabet.
pub(super) fn decode_base64(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0);
    for &byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6 | u32::from(digit)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}
