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

/// A quote, or the backslash before one in a string.
pub(super) fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'\\')
}
