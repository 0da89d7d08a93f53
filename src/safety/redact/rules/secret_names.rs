//! Which names with a keyword, such as `DB_PASSWORD`, name a secret.

/// Words before `token` of tokens that are not secret: positions in a list, special tokens of a language model.
const HARMLESS_TOKENS: &[&str] = &[
    "bos",
    "continuation",
    "csrf",
    "cursor",
    "eos",
    "mask",
    "max",
    "next",
    "page",
    "pad",
    "prev",
    "public",
    "stop",
    "sync",
    "unk",
];

/// Whether the keyword, in lower case, is a name of passwords, which people choose.
pub(super) fn names_password(keyword: &str) -> bool {
    keyword.starts_with("pass")
        || keyword.ends_with("pw")
        || keyword.starts_with("redis")
        || !keyword.is_ascii()
        || matches!(
            keyword,
            "pwd"
                | "psk"
                | "sshpass="
                | "key content"
                | "pragma key"
                | "kennwort"
                | "mot de passe"
                | "contrasena"
                | "senha"
                | "wachtwoord"
                | "haslo"
        )
}

/// Whether a name that consists of `lead` and `key` names a secret.
pub(super) fn names_a_secret(lead: &[u8], key: &[u8]) -> bool {
    let last = lead.last().copied().unwrap_or(b' ');
    let is_key = |word: &str| key.eq_ignore_ascii_case(word.as_bytes());
    // `compass` and `bypass`, but `dbpass`.
    let is_short = ["pass", "pwd", "pw", "pat", "psk", "wif", "senha", "haslo"]
        .into_iter()
        .any(is_key);
    let is_word_end = is_short
        && last.is_ascii_alphabetic()
        && last.is_ascii_lowercase() == key[0].is_ascii_lowercase()
        && !is_account(lead);
    let is_harmless = || {
        let word = last_word(lead);
        let start = lead.len().saturating_sub("publickey".len());
        let is_public = lead[start..].eq_ignore_ascii_case(b"publickey");
        is_public
            || HARMLESS_TOKENS
                .iter()
                .any(|harmless| word.eq_ignore_ascii_case(harmless.as_bytes()))
    };
    let is_digest = is_key("secret") && last_word(lead).eq_ignore_ascii_case(b"hashed");
    !(is_word_end || is_digest || is_key("token") && is_harmless())
}

/// Whether the text before a name says that it is a part of a longer one: of an ARN of AWS, or of the field with the digest of a Secret,
/// as the charts of Helm have it.
/// A token of a public key identifies it.
pub(super) fn is_part_of_name(before: &[u8], keyword: &[u8]) -> bool {
    let ends_with = |end: &[u8]| {
        let start = before.len().checked_sub(end.len());
        start.is_some_and(|start| before[start..].eq_ignore_ascii_case(end))
    };
    if keyword.eq_ignore_ascii_case(b"token") && ends_with(b"public key ") {
        return true;
    }
    let word = before.rsplit(u8::is_ascii_whitespace).next();
    let is_arn =
        |word: &[u8]| word.ends_with(b":") && memchr::memmem::find(word, b"arn:aws").is_some();
    before.ends_with(b"checksum/") || word.is_some_and(is_arn)
}

/// Whether a name ends with a word for an account or a service, which people write before `pass` without a sign.
fn is_account(name: &[u8]) -> bool {
    const ACCOUNTS: &[&str] = &[
        "admin", "auth", "bind", "db", "ftp", "http", "key", "ldap", "login", "mail", "my",
        "mysql", "pg", "proxy", "require", "root", "smtp", "sql", "store", "user", "vnc", "wifi",
    ];
    let word = last_word(name).to_ascii_lowercase();
    ACCOUNTS.iter().any(|account| account.as_bytes() == word)
}

/// Returns the last word of a name: `page` of `next_page_` and `nextPage`.
fn last_word(name: &[u8]) -> &[u8] {
    let is_separator = |b: &u8| b"_-".contains(b);
    let end = name.iter().rposition(|b| !is_separator(b));
    let name = &name[..end.map_or(0, |at| at + 1)];
    let is_start = |at: &usize| {
        let (before, first) = (&name[at - 1], &name[*at]);
        is_separator(before) || before.is_ascii_lowercase() && first.is_ascii_uppercase()
    };
    &name[(1..name.len()).rfind(is_start).unwrap_or(0)..]
}

/// Whether a name that continues with `suffix` after `password` and similar keywords names a secret: not
/// `password_policy`. A keyword of three letters is often a part of another word, as in `PATH`.
pub(super) fn is_secret_suffix(keyword: &str, suffix: &[u8]) -> bool {
    const HARMLESS: &[&str] = &[
        "algo",
        "algorithm",
        "arn",
        "at",
        "budget",
        "changed",
        "class",
        "count",
        "digest",
        "dir",
        "directory",
        "encryption",
        "endpoint",
        "expiration",
        "expires",
        "expiry",
        "field",
        "file",
        "fingerprint",
        "folder",
        "format",
        "hash",
        "hint",
        "id",
        "ids",
        "in",
        "input",
        "label",
        "len",
        "length",
        "limit",
        "management",
        "manager",
        "name",
        "path",
        "pattern",
        "policy",
        "prompt",
        "ref",
        "regex",
        "reset",
        "sha256",
        "store",
        "ttl",
        "type",
        "uri",
        "url",
        "usage",
        "used",
        "version",
    ];
    let Some(first) = suffix.first() else {
        return true;
    };
    if matches!(keyword, "pw" | "pat" | "psk" | "wif") {
        return suffix.iter().all(|b| b.is_ascii_digit() || *b == b'_');
    }
    let text = suffix.to_ascii_lowercase();
    let is_separate_word = !first.is_ascii_lowercase() || text == b"s";
    is_separate_word
        && suffix.len() <= 40
        && !HARMLESS.iter().any(|word| text.ends_with(word.as_bytes()))
}
