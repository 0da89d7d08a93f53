//! Percent-encoding, as in URLs.

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

/// Returns a text with `%41` as `A`, or `None` if it has nothing to decode.
pub fn percent_decoded(text: &str) -> Option<String> {
    let hex = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at, mut decoded) = (Vec::with_capacity(bytes.len()), 0, false);
    while let Some(byte) = bytes.get(at) {
        match (*byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                (at, decoded) = (at + 3, true);
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    decoded.then(|| String::from_utf8_lossy(&out).into_owned())
}
