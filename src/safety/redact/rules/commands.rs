//! Secrets in the arguments of commands, such as `curl -u user:password`, and in the headers and files that they read.

use std::cell::LazyCell;
use std::ops::Range;

use super::super::value_class::{is_placeholder, is_random};
use super::byte_classes::{base64, both64, decode_base64, is_quote, is_space};
use super::context::chosen_password;
use super::headers::is_token68;
use super::line_prefix::readings;
use super::rows::{last_line, next_run};
use super::value_spans::is_quoted_byte;
use super::{KeywordMatch, SecretSpan, run_length};

/// Where the secret is in the word of an option.
#[derive(Clone, Copy, PartialEq)]
enum OptionForm {
    /// The word after the option, or the rest of the option's own word.
    Word,
    /// The rest of the option's own word. The next word has another meaning.
    Attached,
    /// The part after this byte in the word: `user:password`.
    After(u8),
}

/// Options whose value is a secret, by program.
const OPTIONS: &[(&[&str], &[&str], OptionForm)] = &[
    (
        &["curl", "etcdctl"],
        &["-u", "-U", "--user", "--proxy-user"],
        OptionForm::After(b':'),
    ),
    (&["curl"], &["-b", "--cookie"], OptionForm::After(b'=')),
    (
        &["http", "https", "xh", "xhs"],
        &["-a", "--auth"],
        OptionForm::After(b':'),
    ),
    (&["lftp"], &["-u"], OptionForm::After(b',')),
    (
        &["smbclient", "smbget", "rpcclient", "winexe", "net"],
        &["-U", "--user"],
        OptionForm::After(b'%'),
    ),
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlshow",
            "mysqlcheck",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mycli",
            "7z",
            "7za",
            "7zz",
            "rar",
            "unrar",
        ],
        &["-p", "-hp"],
        OptionForm::Attached,
    ),
    (
        &["xfreerdp", "xfreerdp3", "sdl-freerdp", "wlfreerdp"],
        &["/p:"],
        OptionForm::Attached,
    ),
    (
        &[
            "sshpass",
            "login",
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "mongoexport",
            "mongoimport",
            "cqlsh",
            "rdesktop",
            "racadm",
            "ncftpget",
            "ncftpput",
            "veracrypt",
            "useradd",
            "usermod",
        ],
        &["-p"],
        OptionForm::Word,
    ),
    (&["redis-cli", "valkey-cli"], &["-a"], OptionForm::Word),
    (
        &[
            "ldapsearch",
            "ldapadd",
            "ldapmodify",
            "ldapdelete",
            "ldapwhoami",
            "ldappasswd",
        ],
        &["-w"],
        OptionForm::Word,
    ),
    (
        &["openssl"],
        &["-k", "-K", "-pass", "-passin", "-passout"],
        OptionForm::Word,
    ),
    (
        &[
            "zip",
            "unzip",
            "mosquitto_pub",
            "mosquitto_sub",
            "sqlcmd",
            "bcp",
            "tsql",
            "ipmitool",
        ],
        &["-P"],
        OptionForm::Word,
    ),
    (
        &[
            "snmpget",
            "snmpgetnext",
            "snmpset",
            "snmpwalk",
            "snmpbulkwalk",
            "snmpbulkget",
            "snmptrap",
            "snmptable",
        ],
        &["-A", "-X", "-c"],
        OptionForm::Word,
    ),
    (
        &["keytool", "jarsigner"],
        &["-storepass", "-keypass", "-srcstorepass", "-deststorepass"],
        OptionForm::Word,
    ),
    (&["ssh-keygen"], &["-N", "-P"], OptionForm::Word),
    (&["twine", "altool"], &["-p"], OptionForm::Word),
    (&["influx"], &["-password"], OptionForm::Word),
    (&["codecov", "doctl", "influx"], &["-t"], OptionForm::Word),
    // Of GitHub.
    (&["secret set"], &["--body", "-b"], OptionForm::Word),
    // Of `security` of macOS.
    (
        &["add-generic-password", "add-internet-password"],
        &["-w"],
        OptionForm::Word,
    ),
    (
        &["unlock-keychain", "create-keychain"],
        &["-p"],
        OptionForm::Word,
    ),
];

/// Whether the byte separates two words, also in a list of JSON.
fn separates_words(b: u8) -> bool {
    is_space(b) || is_quote(b) || b == b','
}

/// Returns the words of a line that can be names of programs, without their directories; the first one also without what another program
/// has printed before the line.
fn program_names(line: &[u8]) -> Vec<&[u8]> {
    #[cfg(test)]
    crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + line.len()));
    let is_sign = |b: &u8| separates_words(*b) || b"()|;&[]:".contains(b);
    let first = readings(line)
        .skip(1)
        .filter_map(|rest| rest.split(is_sign).next());
    let names = line.split(is_sign).chain(first).map(|word| {
        let directory = word.iter().rposition(|&b| b == b'/');
        &word[directory.map_or(0, |at| at + 1)..]
    });
    let is_name = |name: &&[u8]| name.len() > 1 && name[0].is_ascii_alphanumeric();
    names.filter(is_name).collect()
}

/// Whether one of these words is the name of one of these programs, or two of them are that of a program's command.
fn names_program(words: &[&[u8]], programs: &[&str]) -> bool {
    let is_here = |name: &&str| match name.split_once(' ') {
        Some((first, second)) => words
            .windows(2)
            .any(|pair| pair == [first.as_bytes(), second.as_bytes()]),
        None => words.contains(&name.as_bytes()),
    };
    programs.iter().any(is_here)
}

/// Returns the word at `at`, without its quotes; of an empty word in quotes, the place between them.
pub(super) fn word_at(text: &[u8], at: usize) -> (usize, usize) {
    let quotes = run_length(text, at, is_quote);
    let start = at + quotes;
    let first = 1 + run_length(text, at, |b| b == b'\\').min(8);
    let signs = &text[at.min(text.len())..start];
    // Three quotes begin a string of Python.
    if signs.len() >= 2 * first
        && signs[..first] == signs[first..2 * first]
        && signs.get(2 * first..3 * first) != Some(&signs[..first])
    {
        return (at + first, at + first);
    }
    let n = match quotes {
        0 => run_length(text, start, |b| is_quoted_byte(b) || b"<>".contains(&b)),
        _ => run_length(text, start, |b| !is_quote(b) && b != b'\n'),
    };
    (start, start + n)
}

/// Returns the secret at `start..end` unless it is a placeholder.
pub(super) fn word_span(text: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let value = text.get(start..end)?;
    // The names of communities that devices come with.
    let is_known = matches!(value, b"public" | b"private");
    let fits = value.len() >= 3 && !value.starts_with(b"-") && !is_placeholder(value) && !is_known;
    fits.then(|| SecretSpan {
        more: (end == text.len()).then_some(is_quoted_byte),
        ..SecretSpan::new(start, end)
    })
}

/// The value of an option of [`OPTIONS`]. The keyword is the beginning of the option and the byte before it.
pub(super) fn option(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, .. } = *place;
    let at = at + 1;
    let names = LazyCell::new(|| program_names(place.command_before()));
    OPTIONS.iter().find_map(|(programs, options, form)| {
        let is_here = |option: &&&str| text[at..].starts_with(option.as_bytes());
        let option = options.iter().filter(is_here).max_by_key(|o| o.len())?;
        if !names_program(&names, programs) {
            return None;
        }
        let mut value = at + option.len();
        let separators = run_length(text, value, |b| separates_words(b) || b == b'=');
        // OpenSSL has long options with one hyphen: `-keyout`.
        let is_long = option.len() > 2 && !option.ends_with(':') || programs == &["openssl"];
        match form {
            OptionForm::Attached if run_length(text, value, |b| is_space(b) || b == b',') > 0 => {
                return None;
            }
            // Another option that begins with the same letters.
            _ if is_long && separators == 0 => return None,
            _ => {}
        }
        value += run_length(text, value, |b| is_space(b) || b == b'=' || b == b',');
        // In a list of JSON, the option is in its own quotes.
        let quotes = run_length(text, value, is_quote);
        let gap = run_length(text, value + quotes, |b| is_space(b) || b == b',');
        if quotes > 0 && gap > 0 {
            // Otherwise the quote ends the command.
            if !is_quote(text[at - 1]) {
                return None;
            }
            value += quotes + gap;
        }
        let (mut start, end) = word_at(text, value);
        if let OptionForm::After(byte) = form {
            let user = text[start..end].iter().position(|b| b == byte)?;
            // A token in place of the user, whatever stands for the password.
            let is_token = user >= 20 && is_random(&text[start..start + user]);
            start += if is_token { 0 } else { user + 1 };
        } else if text[start..end].starts_with(b"pass:") {
            start += 5;
        } else if matches!(*option, "-pass" | "-passin" | "-passout") {
            return None;
        }
        word_span(text, start, end)
    })
}

/// A secret that is piped into a command that reads it: `echo … | sudo -S`, `command <<< …`.
pub(super) fn piped(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let is_accepted = |start: usize, end: usize| {
        let value = &text[start..end];
        let user = value.iter().position(|&b| b == b':');
        let start = match user {
            Some(colon) if text[at..].starts_with(b"chpasswd") => start + colon + 1,
            _ => start,
        };
        word_span(text, start, end).filter(|_| chosen_password(&text[start..end], 4))
    };
    let blanks = run_length(text, end, is_space);
    if text[end + blanks..].starts_with(b"<<<") {
        let value = end + blanks + 3;
        let (start, end) = word_at(text, value + run_length(text, value, is_space));
        return is_accepted(start, end);
    }
    let line = place.line_before();
    let line_start = at - line.len();
    let pipe = line.iter().rposition(|&b| b == b'|')?;
    let command = &line[..pipe];
    let word = &command[..=command.iter().rposition(|&b| !separates_words(b))?];
    // The line end that `printf` prints.
    let word = word.strip_suffix(b"\\n").unwrap_or(word);
    let start = word.iter().rposition(|&b| separates_words(b))? + 1;
    if !names_program(&program_names(command), &["echo", "printf", "print"]) {
        return None;
    }
    is_accepted(line_start + start, line_start + word.len())
}

/// Whether the value of a cookie is a secret: that of a session, or one that a machine made.
pub(super) fn is_session_value(name: &[u8], value: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_session = ["sess", "sid", "auth", "token", "jwt"]
        .iter()
        .any(|part| name.contains(part));
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_date = value.iter().any(|b| b" ,:".contains(b));
    let is_value = match is_session {
        true => digits > 0 || value.len() >= 16,
        false => digits >= 2 || is_random(value),
    };
    is_value && !is_date && chosen_password(value, 8)
}

fn is_header_byte(b: u8) -> bool {
    !is_quote(b) && b != b'\n' && b != b'\r'
}

/// Returns the header whose name ends at `end`; `None` if the first word behind the name is not that of one.
fn cookie_header(text: &[u8], end: usize) -> Option<Range<usize>> {
    let mut start = end + run_length(text, end, is_quote).min(6);
    start += run_length(text, start, |b| b == b':' || is_space(b));
    start += run_length(text, start, is_quote).min(6);
    if start == end && start < text.len() {
        return None;
    }
    let word = run_length(text, start, |b| is_header_byte(b) && !is_space(b));
    let has_sign = text[start..start + word].iter().any(|b| b"=;".contains(b));
    let is_open = start + word == text.len();
    (start == text.len() || is_open || has_sign)
        .then(|| start..start + run_length(text, start, is_header_byte))
}

/// Whether what follows the name of a header at `end` can still become a cookie.
pub(super) fn may_be_cookie(text: &[u8], end: usize) -> bool {
    cookie_header(text, end).is_some_and(|header| header.end == text.len())
}

/// The values of a `Cookie` or `Set-Cookie` header.
pub(super) fn cookie(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let is_secret = |pair: &[u8]| {
        let sign = pair.iter().position(|&b| b == b'=');
        sign.is_some_and(|sign| is_session_value(&pair[..sign], &pair[sign + 1..]))
    };
    let header = cookie_header(text, end)?;
    let mut pairs = text[header.clone()].split(|&b| b == b';');
    let fits = header.start > end && pairs.any(|pair| is_secret(pair.trim_ascii()));
    fits.then(|| SecretSpan::open(text, header.start, header.end, is_header_byte))
}

/// Returns the number of signs behind a name that ends at `end`, and where the value behind them begins.
fn login_value(text: &[u8], end: usize) -> (usize, usize) {
    let mut start = end + run_length(text, end, is_quote).min(6);
    start += run_length(text, start, is_space).min(8);
    let signs = run_length(text, start, |b| b == b':' || b == b'=');
    start += signs;
    start += run_length(text, start, |b| is_space(b) || is_quote(b)).min(8);
    (signs, start)
}

/// Whether what follows a keyword of [`encoded_login`] or [`super::headers::basic`] can still become a login.
pub(super) fn may_be_login(place: &KeywordMatch<'_>) -> bool {
    let KeywordMatch { text, end, .. } = *place;
    let (signs, start) = match text[..end].ends_with(b" ") {
        true => (1, end),
        false => login_value(text, end),
    };
    start + run_length(text, start, is_token68) == text.len() && (signs == 1 || start == text.len())
}

/// A user and password in base64, as in the configuration of Docker and npm.
pub(super) fn encoded_login(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let (signs, start) = login_value(text, end);
    if signs != 1 {
        return None;
    }
    let n = run_length(text, start, both64);
    let value = &text[start..start + n];
    let is_whole = n.is_multiple_of(4) || start + n == text.len();
    let is_npm = text[..end].ends_with(b"_auth") && text.get(end) == Some(&b'=');
    let is_json =
        (is_npm || text[..end].ends_with(b"\"auth")) && is_whole && !value.contains(&b'-');
    let is_login = || {
        let decoded = decode_base64(&value[..n.min(1024)]);
        let colon = decoded.iter().position(|&b| b == b':');
        let is_text = decoded.iter().all(|b| b.is_ascii_graphic());
        colon.is_some_and(|at| at > 0 && at + 3 < decoded.len()) && is_text
    };
    (n >= 8 && (is_login() || is_json && is_random(value))).then(|| SecretSpan {
        more: Some(both64),
        ..SecretSpan::new(start, start + n)
    })
}

/// A PEM private key in base64, as in a kubeconfig: all its rows, whatever a program has printed before each.
pub(super) fn encoded_pem(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, .. } = *place;
    let head = decode_base64(&text[at..text.len().min(at + 80)]);
    if !head.windows(11).any(|w| w == b"PRIVATE KEY") {
        return None;
    }
    let width = run_length(text, at, base64);
    let mut end = at + width;
    // Each row is as wide as the one before it, but for the last one.
    while let Some(row) = next_run(text, end, base64) {
        let bytes = &text[row.clone()];
        let is_last = bytes.len() < width
            && bytes.len().is_multiple_of(4)
            && (bytes.ends_with(b"=") || is_random(bytes));
        if bytes.len() != width && !is_last {
            break;
        }
        end = row.end;
        if is_last {
            break;
        }
    }
    Some(SecretSpan {
        more: Some(base64),
        ..SecretSpan::new(at, end)
    })
}

/// The password behind options of curl in one word, `curl -sSu user:password`.
pub(super) fn curl_options(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// The keyword holds a stream back only this far.
    const MAX_BEHIND: usize = 96;
    let KeywordMatch { text, end, .. } = *place;
    let line = &text[end - 1..text.len().min(end + MAX_BEHIND)];
    let is_option = |at: &usize| {
        let letters = run_length(line, at + 1, |b| b.is_ascii_alphabetic());
        let options = &line[*at..at + 1 + letters];
        options.len() > 2 && options.ends_with(b"u")
    };
    let length = run_length(line, 0, |b| b != b'\n');
    let starts = memchr::memchr_iter(b'-', &line[..length]);
    let mut options = starts.filter(|&at| at == 0 || is_space(line[at - 1]));
    let at = end - 1 + options.find(is_option)?;
    let letters = run_length(text, at + 1, |b| b.is_ascii_alphabetic());
    let word = at + 1 + letters;
    let blanks = run_length(text, word, is_space);
    let (start, word_end) = word_at(text, word + blanks);
    let colon = text[start..word_end].iter().position(|&b| b == b':')?;
    word_span(text, start + colon + 1, word_end).filter(|_| blanks > 0)
}

/// A line of PostgreSQL's password file: `host:port:database:user:password`.
pub(super) fn pgpass(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let field = |b: u8| b.is_ascii_alphanumeric() || b"_-.*$".contains(&b);
    let line = place.line_before();
    let host = line.iter().rev().take_while(|&&b| field(b)).count();
    let before = &line[..line.len() - host];
    let is_word = last_line(before).is_empty()
        || before
            .last()
            .is_some_and(|&b| b.is_ascii_whitespace() || is_quote(b))
        || readings(line).any(|rest| !rest.is_empty() && rest.iter().all(|&b| field(b)));
    let database = run_length(text, end, field);
    let user = end + database + 1;
    let name = run_length(text, user, field);
    let start = user + name + 1;
    let n = run_length(text, start, is_quoted_byte);
    let is_separated = |at: usize| text.get(at) == Some(&b':');
    let fits = host > 0
        && is_word
        && database > 0
        && name > 0
        && is_separated(user - 1)
        && is_separated(start - 1);
    word_span(text, start, start + n)
        .filter(|_| fits && chosen_password(&text[start..start + n], 4))
}
