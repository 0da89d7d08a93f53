//! Percent-encoding, as in URLs, and the codes of JSON.

/// Returns a text as it is written in URLs. Characters in `kept` stay as they are.
pub fn percent_encoded(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        match c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
            true => out.push(c),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns the byte for which a code at a position stands, and the length of the code: `%41` of URLs, and of JSON `\u0041` for an ASCII
/// character and `\/`, as PHP writes a slash.
pub fn code_at(text: &[u8], at: usize) -> Option<(u8, usize)> {
    if text.get(at..)?.starts_with(b"\\/") {
        return Some((b'/', 2));
    }
    let (start, limit): (&[u8], u8) = match text.get(at)? {
        b'%' => (b"%", u8::MAX),
        b'\\' => (b"\\u00", 0x7f),
        _ => return None,
    };
    let code = text.get(at..)?.strip_prefix(start)?;
    let digit = |at: usize| char::from(*code.get(at)?).to_digit(16);
    let byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    (byte <= limit).then_some((byte, start.len() + 2))
}

/// Returns a text with `%41` as `A`, or `None` if it has nothing to decode.
pub fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut at, mut decoded) = (Vec::with_capacity(bytes.len()), 0, false);
    while let Some(byte) = bytes.get(at) {
        match code_at(bytes, at) {
            Some((code, length)) if *byte == b'%' => {
                out.push(code);
                (at, decoded) = (at + length, true);
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    decoded.then(|| String::from_utf8_lossy(&out).into_owned())
}
