//! Secrets that are identified by their context: `password=`, `Authorization:`, the password in a URL.

use std::ops::Range;

use super::super::value_class::{
    begins_mixed_key, group_changes, has_words, is_camel_case, is_date, is_digest_or_number,
    is_file, is_foreign_word, is_identifier, is_list_of_words, is_option, is_path, is_placeholder,
    is_random, is_wide_prose, is_without_words, is_worded, mixes_characters,
};
use super::super::{RULES, stage::ByteClass};
use super::apart::{
    ValueForm, before_yaml_value, block_scalar, prompt_end, type_length, value_apart,
};
use super::byte_classes::{base32, blanks_length, entity_length, is_quote, is_space, lower};
use super::line_prefix::readings;
use super::line_words::{is_exported, is_netrc};
use super::phrases::{begins_setting, may_be_phrase, phrase};
use super::rows::{LineStart, continuation, last_line, line_end, with_rows};
use super::secret_names::{is_part_of_name, is_secret_suffix, names_a_secret, names_password};
use super::signs::{
    defines_in_lisp, literal_prefix, names_user, router_level, sign_code, takes_word, unusual_sign,
    value_below, value_in_object,
};
use super::value_spans::{ValuePlace, is_expression, is_quoted_byte};
use super::{KeywordMatch, SecretSpan, run_length};

/// Maximum number of spaces around an assignment operator.
pub(super) const SPACES: usize = 32;

/// Maximum number of bytes after a name that decide on the value assigned to it.
const MAX_VALUE: usize = 1 << 10;

/// Length from which a keyword is no common word of prose, such as `pass`.
const LONG_KEYWORD: usize = 6;

/// Whether a word can begin at the keyword: not after a letter or digit, unless that ends an escape sequence.
pub(super) fn at_word_start(place: &KeywordMatch<'_>) -> bool {
    let before = place.before();
    let Some((last, rest)) = before.split_last() else {
        return true;
    };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    // `\n` in JSON, `%3D` in a URL, a terminal colour.
    let percent = rest.len() >= 2 && rest[rest.len() - 2] == b'%' && last.is_ascii_hexdigit();
    (rest.last() == Some(&b'\\') && b"nrt".contains(last)) || percent || ends_with_colour(before)
}

/// Whether a text ends with the sequence of a terminal colour.
pub(super) fn ends_with_colour(text: &[u8]) -> bool {
    let Some(rest) = text.strip_suffix(b"m") else {
        return false;
    };
    let start = rest.iter().rposition(|b| !b.is_ascii_digit() && *b != b';');
    start.is_some_and(|at| rest[..=at].ends_with(b"\x1b["))
}

/// Whether a known format begins at `at`. Its rule then reports the secret, with a more specific kind.
pub(super) fn format_at(text: &[u8], at: usize) -> bool {
    RULES.at(text, at, true).is_some() || RULES.private_key_at(text, at)
}

/// The value assigned to the name that contains the keyword: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`.
pub(super) fn assigned(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    assigned_like(place, |_| true)
}

/// The same of a value that `is_candidate` accepts, which is asked before the value is classified.
pub(super) fn assigned_like(
    place: &KeywordMatch<'_>,
    is_candidate: fn(&[u8]) -> bool,
) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at: key,
        end,
    } = *place;
    let text = &text[..text.len().min(end + MAX_VALUE)];
    let is_name_byte: ByteClass = |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let before = &text[from..key];
    let name_start = before.iter().rposition(|&b| !is_name_byte(b));
    let mut lead = &before[name_start.map_or(0, |at| at + 1)..];
    // The letter of an escape, as in `\npass`.
    if before[..before.len() - lead.len()].ends_with(b"\\")
        && lead.first().is_some_and(|b| b"nrt".contains(b))
    {
        lead = &lead[1..];
    }
    let is_part = is_part_of_name(&before[..before.len() - lead.len()], &text[key..end]);
    if is_part || !names_a_secret(lead, &text[key..end]) {
        return None;
    }
    let keyword = lower(&text[key..end]);
    let has_sign = text[end - 1] == b'=';
    let suffix = run_length(text, end, is_name_byte);
    if !has_sign && !is_secret_suffix(&keyword, &text[end..end + suffix]) {
        return None;
    }
    // The sign of a line that a diff removes reads like a part of the name.
    let dashes = run_length(lead, 0, |b| b == b'-');
    let start = &text[from..key - lead.len() + dashes];
    let name = SecretName {
        text,
        from,
        before: &before[..before.len() - lead.len()],
        line_start: LineStart::of(last_line(start)),
        lead,
        name: &text[key - lead.len()..end],
        is_password: names_password(&keyword),
        is_secret: keyword == "secret",
        is_phrase: may_be_phrase(&keyword),
        is_flag: lead.starts_with(b"--") || before.ends_with(b"--"),
        is_candidate,
    };
    if has_sign {
        return name.value_at(end, false);
    }
    let name_end = end + suffix;
    let code = sign_code(&text[name_end..]);
    if code > 0 {
        return name.value_at(name_end + code, false);
    }
    let entity = entity_length(&text[name_end..]);
    let marks = run_length(text, name_end + entity, |b| {
        is_quote(b) || b"]*".contains(&b)
    });
    let marks = entity + marks.min(6);
    let spaces = blanks_length(text, name_end + marks, SPACES);
    let at = name_end + marks + spaces;
    let at = at + continuation(text, at, name.line_start);
    let is_long = end - key >= LONG_KEYWORD;
    let unusual = unusual_sign(name.before, lead, &text[at..], is_long, at == name_end);
    if unusual > 0 {
        return name.value_behind(at + unusual);
    }
    let below = || {
        let below = value_below(text, name_end)?;
        let is_described = text[..below].ends_with(b":\n----\n");
        let is_secret =
            |value: &SecretSpan| is_described || key_like(&text[value.start..value.end]);
        name.value_at(below, false).filter(is_secret)
    };
    let signs = run_length(text, at, |b| b":=>".contains(&b));
    // The tag of an image.
    let is_tag = name.before.ends_with(b"/")
        && at == name_end
        && !name.is_password
        && !begins_mixed_key(text.get(at + 1..).unwrap_or_default());
    match signs {
        0 => {}
        1 if is_tag && text[at] == b':' && !text.get(at + 1).copied().is_some_and(is_space) => {
            return None;
        }
        1..=3 => return name.value_behind(at + signs).or_else(below),
        _ => return None,
    }
    let level = router_level(place.line_before(), &text[at..]);
    if spaces > 0 && marks == 0 && level > 0 && (name.is_password || name.is_secret) {
        let password = SecretName {
            is_password: true,
            ..name
        };
        return password.value_at(at + level, true);
    }
    if spaces > 0 && marks == 0 {
        let typed = type_length(&text[at..]);
        if typed > 0 {
            return name.value_at(at + typed, false);
        }
    }
    let is_netrc = spaces > 0 && is_long && is_netrc(place);
    let takes_word = || {
        spaces > 0
            && (name.is_flag
                || is_netrc
                || text.get(at) == Some(&b'"') && defines_in_lisp(name.before)
                || takes_word(last_line(place.line_before()), is_long))
    };
    let is_told = spaces > 0
        && marks == 0
        && name.is_password
        && (text.get(at).copied().is_some_and(is_quote) || names_user(name.before));
    let in_next_word = takes_word().then(|| name.value_at(at, is_netrc)).flatten();
    in_next_word
        .or_else(|| is_told.then(|| name.value_told(at)).flatten())
        .or_else(|| name.value_apart(place, &(key - lead.len()..name_end), at))
        .or_else(|| name.value_prompted(at))
        .or_else(below)
}

/// A name that has the keyword of a secret.
#[derive(Clone, Copy)]
struct SecretName<'t> {
    text: &'t [u8],
    /// First position that may be inspected.
    from: usize,
    /// The text before the name.
    before: &'t [u8],
    /// What stands before the content of its line.
    line_start: LineStart,
    /// The part of the name before the keyword.
    lead: &'t [u8],
    /// The name up to the end of the keyword.
    name: &'t [u8],
    is_password: bool,
    /// The keyword is `secret`.
    is_secret: bool,
    /// The keyword names passphrases.
    is_phrase: bool,
    /// The name of an option, such as `--token`.
    is_flag: bool,
    /// Whether a value may be the secret.
    is_candidate: fn(&[u8]) -> bool,
}

impl SecretName<'_> {
    /// Returns the place of a value that begins at `at`.
    fn place(&self, at: usize, is_exact: bool) -> ValuePlace<'_> {
        ValuePlace {
            text: self.text,
            from: self.from,
            name: self.from + self.before.len(),
            at,
            is_password: self.is_password,
            is_exact,
        }
    }

    /// Returns the value behind a sign that ends at `at`, if it is a secret: in the same line, or in the next ones as YAML has it.
    fn value_behind(&self, at: usize) -> Option<SecretSpan> {
        let text = self.text;
        let before = self.line_start;
        let start = value_start(text, at, before);
        let Some(row) = block_scalar(text, start, before) else {
            let value = self.value_at(start, false)?;
            // The lines of a string of JSON.
            let is_string = value.start > start && text[start..value.start].ends_with(b"\"");
            return Some(match is_string && line_end(text, value.end) > 0 {
                true => with_rows(text, value, before, 0, is_quoted_byte),
                false => value,
            });
        };
        let value = self.value_at(row.start, false)?;
        Some(with_rows(
            text,
            value,
            before,
            row.indentation,
            is_quoted_byte,
        ))
    }

    /// Whether a value is the secret of one-time passwords in the address of a QR code: `otpauth://totp/x?secret=…`.
    fn is_otp(&self, value: &[u8]) -> bool {
        let is_address = || memchr::memmem::find(self.before, b"otpauth://").is_some();
        self.is_secret && value.len() >= 16 && value.iter().all(|b| base32(*b)) && is_address()
    }

    /// Returns the value behind a prompt whose last words begin at `at`, such as `[sudo] password for bob: `, if it is a secret.
    fn value_prompted(&self, at: usize) -> Option<SecretSpan> {
        let text = self.text;
        let start = prompt_end(text, at)?;
        let value = self.place(start, false).value()?;
        let bytes = &text[value.start..value.end];
        let is_secret = match self.is_password {
            true => {
                let line = lower(last_line(self.before));
                let is_prompt = readings(line.as_bytes())
                    .any(|words| matches!(words.trim_ascii(), b"" | b"[sudo]" | b"enter"));
                let is_chosen = is_prompt && !is_identifier(bytes) && !has_words(bytes);
                password_like(bytes, false) && (is_chosen || mixes_characters(bytes))
            }
            false => key_like(bytes) && !has_words(bytes) && !is_camel_case(bytes),
        };
        (is_secret && !format_at(text, value.start)).then_some(value)
    }

    /// Returns the password at `at` that nothing but words ties to the name, if its signs show that it is one.
    fn value_told(&self, at: usize) -> Option<SecretSpan> {
        let value = self.place(at, false).value()?;
        let is_secret = is_told_password(&self.text[value.start..value.end]);
        (is_secret && !format_at(self.text, value.start)).then_some(value)
    }

    /// Returns the passphrase of several words at `at`; without quotes only if the name of passphrases begins the line.
    fn phrase_at(&self, at: usize) -> Option<SecretSpan> {
        let name_end = self.from + self.before.len() + self.name.len();
        let least = if self.is_phrase { 3 } else { 4 };
        let begins_line = || readings(last_line(self.before)).any(begins_setting);
        let is_element = self.text[..at].ends_with(b">");
        let is_setting = self.is_phrase && (is_element || begins_line());
        let phrase = || phrase(self.text, name_end, at, least, is_setting);
        self.is_password.then(phrase).flatten()
    }

    /// Returns the value at `at`, behind the sign, if it is a secret. `is_word` means that it is the next word whatever its form.
    fn value_at(&self, at: usize, is_word: bool) -> Option<SecretSpan> {
        let SecretName { text, name, .. } = *self;
        let phrase = self.phrase_at(at);
        if phrase.is_some() {
            return phrase;
        }
        let is_code = text[..at].ends_with(b" = ") || text[..at].ends_with(b" := ");
        let is_variable = text[..at].ends_with(b"=")
            && is_upper_case(name)
            && name.len() > 3
            && !name.ends_with(b"OLDPWD");
        let is_exact = is_variable || self.is_flag && text[at - 1] == b'=' || is_word;
        let place = self.place(at, is_exact);
        let value = place.value()?;
        let is_quoted = value.start > at;
        let bytes = &text[value.start..value.end];
        if !(self.is_candidate)(bytes) {
            return None;
        }
        let is_secret = match self.is_password && (is_quoted || !is_code) {
            true if is_exact => chosen_password(bytes, 4),
            true => {
                let is_list = self.before.last().is_some_and(|b| b";&?".contains(b));
                let next = text.get(value.end).copied();
                password_like(
                    bytes,
                    !is_quoted && !is_list && next.is_some_and(|b| b",;)".contains(&b)),
                )
            }
            // A key that is exported manually has its value on the command line.
            false if is_variable && is_exported(self.before) => {
                // Names and placeholders have no digits.
                chosen_password(bytes, 8) && bytes.iter().any(u8::is_ascii_digit)
            }
            false if (is_variable || is_quoted) && self.is_secret => {
                named_key(bytes) || chosen_secret(bytes, true)
            }
            false if self.is_otp(bytes) => true,
            // The same in a setting of a file without quotes.
            false if self.is_secret && place.is_line(value.end) && !is_calculated(bytes) => {
                named_key(bytes) || chosen_secret(bytes, is_upper_case(name) && !is_code)
            }
            false if is_quoted || !is_code => named_key(bytes),
            // A setting of a file without quotes; an expression ends a line too.
            false if self.is_password && place.is_line(value.end) => {
                password_like(bytes, false) && !is_identifier(bytes) && !is_calculated(bytes)
            }
            false => key_like(bytes),
        };
        let is_own_path =
            matches!(self.lead, b"" | b"OLD") && name.ends_with(b"PWD") && bytes.starts_with(b"/");
        // The id of an OpenPGP key, as git and gpg write it.
        let is_key_id = matches!(&*lower(name), "signingkey" | "signing_key")
            && matches!(bytes.len(), 16 | 40)
            && bytes.iter().all(u8::is_ascii_hexdigit);
        // The verdict of a test, as `go test` writes it.
        let is_verdict = name == b"PASS" && self.before.ends_with(b"--- ");
        (is_secret && !is_own_path && !is_key_id && !is_verdict && !format_at(text, value.start))
            .then_some(value)
    }

    /// Returns the value that stands apart from the name, which is at `range`, if it is a secret. `behind` is where the text behind
    /// the quotes and blanks after the name begins.
    fn value_apart(
        &self,
        place: &KeywordMatch<'_>,
        range: &Range<usize>,
        behind: usize,
    ) -> Option<SecretSpan> {
        let (at, form) = value_apart(place, range, behind)?;
        if self.is_phrase
            && self.text[..at].ends_with(b": ")
            && let Some(words) = phrase(self.text, range.end, at, 3, true)
        {
            return Some(words);
        }
        let mut value = self.place(at, false).value()?;
        let mut bytes = &self.text[value.start..value.end];
        if form == ValueForm::Cell
            && let Some(end) = bytes.iter().position(|&b| b == b'|')
        {
            value = SecretSpan::new(value.start, value.start + end);
            bytes = &bytes[..end];
        }
        let is_chosen = self.is_password
            && match form {
                ValueForm::Setting => true,
                ValueForm::Cell => is_upper_case(self.name) || mixes_characters(bytes),
                ValueForm::Told => is_told_password(bytes),
                ValueForm::Words => false,
            };
        let is_key = || {
            let is_words = has_words(bytes) || !self.is_password && is_camel_case(bytes);
            named_key(bytes) && !is_words
        };
        let is_secret = is_chosen && password_like(bytes, false) || is_key();
        (is_secret && !format_at(self.text, value.start)).then_some(value)
    }
}

/// Whether a value is an expression with an operator or a bracket.
fn is_calculated(value: &[u8]) -> bool {
    is_expression(value) && value.iter().any(|b| b"([{<+*/=&|".contains(b))
}

/// Whether a name is that of a variable of the environment.
fn is_upper_case(name: &[u8]) -> bool {
    name.iter().all(|b| !b.is_ascii_lowercase())
}

/// Returns where a value begins behind its sign: after the end of emphasis that began before the name, what YAML has before a value, and the
/// type of a constant.
fn value_start(text: &[u8], at: usize, line: LineStart) -> usize {
    let marks = run_length(text, at, |b| b"*_".contains(&b));
    let ends_emphasis = marks <= 3 && text.get(at + marks).copied().is_some_and(is_space);
    let at = at + if ends_emphasis { marks } else { 0 };
    let is_field = text[..at].ends_with(b":") || text[..at].ends_with(b"=>");
    let at = at + blanks_length(text, at, SPACES);
    let at = at + continuation(text, at, line);
    // The first value of a list, which a form may send for one field.
    let at = at + usize::from(is_field && matches!(text.get(at..), Some([b'[', b'"' | b'\'', ..])));
    match type_length(&text[at..]) + value_in_object(&text[at..]) {
        0 => at + before_yaml_value(&text[at..]) + literal_prefix(&text[at..]),
        length => at + length,
    }
}

/// Whether the value can be a password that a person chose, as opposed to a word of a program.
/// `ends_as_code` means that the value ends as an expression of a program does.
pub(super) fn password_like(value: &[u8], ends_as_code: bool) -> bool {
    let has_digit = value.iter().any(u8::is_ascii_digit);
    let is_name = is_identifier(value) && (!has_digit || ends_as_code || value.len() > 16);
    let is_word = is_name || is_foreign_word(value);
    // A passphrase of words: correct-horse-battery-staple.
    let is_passphrase = !ends_as_code
        && value.iter().filter(|&&b| b == b'-').count() >= 3
        && value.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
    let has_mix = !is_word && (has_digit || group_changes(value) >= 3 || is_without_words(value));
    chosen_password(value, 6) && (has_mix || is_passphrase)
}

/// Whether a value whose place shows that it is a password is a real one: not a placeholder, a number or a path.
pub(super) fn chosen_password(value: &[u8], least: usize) -> bool {
    value.len() >= least
        && !is_date(value)
        && !is_wide_prose(value)
        && value.iter().any(u8::is_ascii_alphabetic)
        && !is_placeholder(value)
        && !is_file(value)
        && !is_option(value)
        && !value.windows(3).any(|w| w == b"://")
        && !is_list_of_words(value)
}

/// Whether a value whose name says that it is a secret is one that a person chose. Unless the name is that of a variable, or the value in
/// quotes, words with a number may be a name.
pub(super) fn chosen_secret(value: &[u8], is_certain: bool) -> bool {
    let has_sign = || value.iter().any(|b| b"!#$%^&*+?@~".contains(b));
    mixes_characters(value)
        && chosen_password(value, 6)
        && !is_foreign_word(value)
        && (is_certain || has_sign() || !is_worded(value))
}

/// Whether a value that a sentence gives as a password is one, and not a word of the sentence or a hash of MySQL.
fn is_told_password(value: &[u8]) -> bool {
    !value.starts_with(b"*") && value.iter().any(u8::is_ascii_digit) && chosen_secret(value, false)
}

/// Whether the value looks like a key that a machine generated.
pub(super) fn key_like(value: &[u8]) -> bool {
    is_random_or_short(value) && !is_harmless_key(value)
}

/// Whether the value looks random, or is too short for that and changes as often between kinds of characters.
fn is_random_or_short(value: &[u8]) -> bool {
    let digits = || value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_short = (12..16).contains(&value.len()) && digits() >= 2;
    is_short && group_changes(value) >= 4 || is_random(value)
}

/// Whether a value that may be a key is another one: a placeholder, an identifier, a path, a digest.
fn is_harmless_key(value: &[u8]) -> bool {
    value.starts_with(b"https://")
        || is_date(value)
        || is_digest_or_number(value)
        || is_path(value)
        || is_file(value)
        || is_identifier(value)
        || is_placeholder(value)
        || is_worded(value)
}

/// Whether a value whose name says that it is a key looks like one, or at least not like words.
pub(super) fn named_key(value: &[u8]) -> bool {
    (is_random_or_short(value) || is_without_words(value) && !has_words(value))
        && !is_harmless_key(value)
}
