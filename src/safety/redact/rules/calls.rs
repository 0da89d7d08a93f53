//! Passwords in the arguments of functions: `NetworkCredential("bob", "…")`, `auth=("bob", "…")`, `mysqli_connect($host, 'bob', '…')`.

use super::super::stage::ByteClass;
use super::byte_classes::is_quote;
use super::context::{chosen_password, format_at, key_like, password_like};
use super::signs::literal_prefix;
use super::{KeywordMatch, SecretSpan, run_length};

/// Calls, each with the number of arguments before the password.
const CALLS: &[(&str, usize)] = &[
    (".auth(", 1),
    (".login(", 1),
    ("jwt.sign(", 1),
    ("simple_bind(", 1),
    ("simple_bind_s(", 1),
    ("auth.basic(", 1),
    ("changeuserpassword(", 1),
    ("createhmac(", 1),
    ("cx_oracle.connect(", 1),
    ("digestauth(", 1),
    ("mongocredential(", 1),
    ("oracledb.connect(", 1),
    ("createcredential(", 2),
    ("dbi->connect(", 2),
    ("ftp_login(", 2),
    ("ftplib.ftp(", 2),
    ("getconnection(", 2),
    ("imap_open(", 2),
    ("ldap3.connection(", 2),
    ("ldap_bind(", 2),
    ("mysql_connect(", 2),
    ("mysqldb.connect(", 2),
    ("mysqli_connect(", 2),
    ("new mysqli(", 2),
    ("new pdo(", 2),
    // As a trace of PHP has them.
    ("mysqli->__construct(", 2),
    ("pdo->__construct(", 2),
    ("new sequelize(", 2),
    ("plainauth(", 2),
    ("pymysql.connect(", 2),
    ("ssh2_auth_password(", 2),
    ("mysql_real_connect(", 3),
    ("mysqli_real_connect(", 3),
    ("ssh.connect(", 3),
    ("smtp.start(", 4),
];

/// The names of the functions, each with the bracket.
pub(super) const CALL_KEYWORDS: &[&str] = &{
    let mut words = [""; CALLS.len()];
    let mut index = 0;
    while index < words.len() {
        words[index] = CALLS[index].0;
        index += 1;
    }
    words
};

/// Maximum number of bytes between the bracket and the password.
const MAX_BEFORE: usize = 256;
/// Maximum number of blanks and line ends before an argument.
const MAX_BLANKS: usize = 32;
/// Maximum length of the first argument of two.
const MAX_USER: usize = 64;

fn blank(text: &[u8], at: usize, max: usize) -> usize {
    at + run_length(text, at, |b| b.is_ascii_whitespace()).min(max)
}

/// Returns the text in quotes at `at`, up to the quote that ends it, if it can be a password.
fn literal(text: &[u8], at: usize, is_secret: fn(&[u8]) -> bool) -> Option<SecretSpan> {
    let quotes = at + literal_prefix(text.get(at..)?);
    let start = quotes + run_length(text, quotes, is_quote).min(2);
    let class: ByteClass = |b| !is_quote(b) && b != b'\n';
    let length = run_length(text, start, class);
    let value = &text[start..start + length];
    let is_ended = text.get(start + length).copied().is_none_or(is_quote);
    let fits = start > quotes && is_ended && is_secret(value) && !value.contains(&b' ');
    (fits && !format_at(text, start)).then(|| SecretSpan::open(text, start, start + length, class))
}

/// The second argument of a call, or the second value of a pair; it is in quotes. The keyword ends with the bracket.
pub(super) fn second_argument(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let first = blank(text, end, 8);
    let user = run_length(&text[..text.len().min(first + MAX_USER)], first, |b| {
        !b.is_ascii_control() && !b",;()[]{} ".contains(&b)
    });
    let comma = blank(text, first + user, 8);
    let is_number = text[first..first + user].iter().all(u8::is_ascii_digit);
    if is_number || text.get(comma) != Some(&b',') {
        return None;
    }
    literal(text, blank(text, comma + 1, 8), |value| {
        chosen_password(value, 4)
    })
}

/// Returns where the argument at `at` ends: before the comma or the bracket behind it; `None` if the text ends before.
fn argument_end(text: &[u8], at: usize) -> Option<usize> {
    let (mut end, mut depth, mut quote) = (at, 0, None);
    loop {
        match (*text.get(end)?, quote) {
            (b'\\', Some(_)) => end += 1,
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (byte @ (b'"' | b'\''), None) => quote = Some(byte),
            (b'(' | b'[' | b'{', None) => depth += 1,
            (b')' | b']' | b'}', None) if depth > 0 => depth -= 1,
            (b',' | b')', None) if depth == 0 => return Some(end),
            _ => {}
        }
        end += 1;
    }
}

/// Returns where the argument of a call that is its password begins; `Err` says whether the text ends before it.
fn password_argument(place: &KeywordMatch<'_>) -> Result<usize, bool> {
    let KeywordMatch { text, at, end, .. } = *place;
    let key = &text[at..end];
    let is_here = |(words, _): &&(&str, usize)| key.eq_ignore_ascii_case(words.as_bytes());
    let (_, before) = CALLS.iter().find(is_here).ok_or(false)?;
    let text = &text[..text.len().min(end + MAX_BEFORE)];
    let is_cut = text.len() < end + MAX_BEFORE;
    let mut start = end;
    for number in 0..*before {
        let comma = argument_end(text, start).ok_or(is_cut)?;
        if text[comma] == b')' {
            // A token is the only argument.
            return if number == 0 {
                Ok(blank(text, end, MAX_BLANKS))
            } else {
                Err(false)
            };
        }
        start = comma + 1;
    }
    match blank(text, start, MAX_BLANKS) {
        value if value == text.len() => Err(is_cut),
        value => Ok(value),
    }
}

/// The argument of a call of [`CALLS`] that is a password, or the only one if it looks like a key.
pub(super) fn call_argument(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let start = password_argument(place).ok()?;
    let is_only = start == blank(text, end, MAX_BLANKS);
    let is_secret: fn(&[u8]) -> bool = match is_only {
        true => key_like,
        false => |value| password_like(value, false),
    };
    literal(text, start, is_secret)
}

/// Whether the password of a call may still follow.
pub(super) fn may_be_call(place: &KeywordMatch<'_>) -> bool {
    match password_argument(place) {
        Ok(start) => place.text.len() < start + MAX_USER,
        Err(is_cut) => is_cut,
    }
}
