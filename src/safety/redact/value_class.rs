//! Classifies a value: random, a placeholder, or an identifier.

use super::word_parts::{CamelParts, has_word_pairs, head};

/// Returns the character group of a byte. Random bytes change between groups far more often than words do.
fn char_group(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Number of pairs of neighbouring bytes in different groups.
pub(super) fn group_changes(value: &[u8]) -> usize {
    let groups = head(value).iter().map(|b| char_group(*b));
    let (mut changes, mut last) = (0, None);
    for group in groups {
        changes += usize::from(last.is_some_and(|last| last != group));
        last = Some(group);
    }
    changes
}

/// Shannon entropy in bits per byte.
pub(super) fn entropy(value: &[u8]) -> f64 {
    let value = head(value);
    let mut count = [0u32; 256];
    for &byte in value {
        count[usize::from(byte)] += 1;
    }
    let total = value.len() as f64;
    let probabilities = count
        .iter()
        .filter(|&&n| n > 0)
        .map(|&n| f64::from(n) / total);
    -probabilities.map(|p| p * libm::log2(p)).sum::<f64>()
}

/// Whether the value looks random rather than written by a person: a key, a digest, an id.
pub(super) fn is_random(value: &[u8]) -> bool {
    let value = head(value);
    if value.len() < 16 {
        return false;
    }
    let mut counts = [0; 4];
    for &byte in value {
        counts[usize::from(char_group(byte))] += 1;
    }
    let [digits, small, capital, _] = counts;
    if small + capital < 2 || !value.iter().all(u8::is_ascii_graphic) {
        return false;
    }
    if digits < 2 {
        let changes = group_changes(value);
        return match value.len() {
            ..24 => changes * 5 >= value.len() * 2,
            _ => changes * 3 >= value.len(),
        };
    }
    group_changes(value) * 7 >= value.len() && entropy(value) >= 3.0
}

/// Whether the value is a stand-in for a real one, such as `changeme` or `<your-key>`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "example",
        "changeme",
        "change-me",
        "change_me",
        "placeholder",
        "your",
        "xxxx",
        "dummy",
        "redacted",
        "****",
        "....",
        "passw",
        "secret",
        "fake",
        "sample",
        "todo",
        "replace",
        "insert",
        "undefined",
        "abcdef",
        "123456",
        "foobar",
        "hidden",
        "masked",
        "test",
    ];
    let value = head(value);
    if value.is_empty() || value.iter().all(|b| Some(b) == value.first()) {
        return true;
    }
    if is_reference(value) {
        return true;
    }
    // A word within a long random value is coincidence.
    let may_have = |word: &&&str| value.len() < 4 * word.len() + 8;
    let lower = value.to_ascii_lowercase();
    let mut rest: Option<String> = None;
    for word in WORDS.iter().filter(may_have) {
        if memchr::memmem::find(&lower, word.as_bytes()).is_some() {
            let rest = rest.get_or_insert_with(|| String::from_utf8_lossy(value).into_owned());
            while let Some(at) = rest.to_ascii_lowercase().find(word) {
                rest.replace_range(at..at + word.len(), "");
            }
        }
    }
    rest.is_some_and(|rest| !mixes_characters(rest.as_bytes()) && !is_own_word(value, &rest))
        || matches!(
            &*lower,
            b"null"
                | b"none"
                | b"true"
                | b"false"
                | b"pass"
                | b"user"
                | b"username"
                | b"token"
                | b"string"
        )
}

/// Whether the rest of a value without the words of placeholders is somebody's own, such as `hunter2` of `hunter2secret`.
/// Placeholders of several words separate them.
fn is_own_word(value: &[u8], rest: &str) -> bool {
    let count = |class: fn(&u8) -> bool| rest.bytes().filter(class).count();
    value.iter().all(u8::is_ascii_alphanumeric)
        && count(u8::is_ascii_alphabetic) >= 3
        && count(u8::is_ascii_digit) >= 1
}

/// Whether the value refers to another value: a variable, a template, a file.
fn is_reference(value: &[u8]) -> bool {
    match value {
        [] | [b'<' | b'{' | b'[' | b'(', ..] => is_template(value),
        [b'$' | b'%' | b'#', b'{' | b'(' | b'[', ..] => is_template(&value[1..]),
        [b'%', rest @ .., b'%'] => is_template(rest),
        [b'$' | b'%' | b'*' | b'&' | b'@', rest @ ..] => is_name(rest),
        _ => false,
    }
}

/// Whether the value is an option, such as `--next-option`, or a symbol, such as `:password`.
pub(super) fn is_option(value: &[u8]) -> bool {
    match value {
        [b'-' | b':', b'>' | b'=', ..] => true,
        [b'-' | b':', rest @ ..] => rest.split(|b| *b == b'=').all(is_name),
        _ => false,
    }
}

/// Whether the value is the path of a file from the root.
pub(super) fn is_file(value: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"/._-".contains(b);
    value.starts_with(b"/") && value.iter().all(is_part) && (is_name(value) || is_path(value))
}

/// Whether the value is a name, of words and numbers between signs. Passwords that a machine made mix the characters of a word.
fn is_name(value: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"_.:/-".contains(b);
    let has_digit = value.iter().any(u8::is_ascii_digit);
    value.iter().all(is_part)
        && !has_random_part(value)
        && (!has_digit || !has_both_cases(value) || is_made_of_words(value))
}

/// Whether the value begins with a bracket as a template does, with words in it: `{{ password }}`, `<your-password`, `[a-z0-9]{8,}`.
fn is_template(value: &[u8]) -> bool {
    let is_word = |part: &[u8]| !part.iter().any(u8::is_ascii_lowercase) || is_code_word(part);
    let are_words = || value.split(|b| !b.is_ascii_alphanumeric()).all(is_word);
    !has_random_part(value)
        && (!has_both_cases(value)
            || is_made_of_words(value)
            || closes_brackets(value) && are_words())
}

fn has_random_part(value: &[u8]) -> bool {
    let mut parts = value.split(|b| !b.is_ascii_alphanumeric());
    parts.any(is_random)
}

pub(super) fn has_both_cases(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_lowercase) && value.iter().any(u8::is_ascii_uppercase)
}

/// Whether most of the value is in words, capitalised or of one case, with perhaps a number at their ends.
pub(super) fn is_made_of_words(value: &[u8]) -> bool {
    let is_word = |part: &&[u8]| {
        let digits = part.iter().rev().take_while(|b| b.is_ascii_digit());
        let letters = &part[..part.len() - digits.count()];
        let is_plain = letters.iter().all(u8::is_ascii_alphabetic) && group_changes(letters) <= 1;
        letters.len() >= 3 && (is_plain || is_capitalised(part))
    };
    let parts = value.split(|b| !b.is_ascii_alphanumeric());
    let in_words: usize = parts.filter(is_word).map(<[u8]>::len).sum();
    in_words * 2 >= value.len()
}

/// Whether the brackets of a text are closed in the order in which they are opened. Those of arrows and comparisons do not count.
pub(super) fn closes_brackets(text: &[u8]) -> bool {
    let mut open = Vec::new();
    let mut before = 0;
    for (at, &byte) in head(text).iter().enumerate() {
        match byte {
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            b'<' if !text.get(at + 1).is_some_and(|b| b"=-".contains(b)) => open.push(b'>'),
            b'>' if b"=-".contains(&before) => {}
            b')' | b']' | b'}' | b'>' if open.pop() != Some(byte) => return false,
            _ => {}
        }
        before = byte;
    }
    open.is_empty()
}

/// Whether a short value mixes characters as a password does: at least three of lower case, upper case, digits and
/// symbols.
pub(super) fn mixes_characters(value: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| usize::from(value.iter().any(class));
    value.len() >= 6
        && has(u8::is_ascii_lowercase)
            + has(u8::is_ascii_uppercase)
            + has(u8::is_ascii_digit)
            + has(|b| b.is_ascii_punctuation() && !b"-_.".contains(b))
            >= 3
}

/// Whether a text begins with a word of letters and digits of all kinds that is a key, and not the tag of an image.
pub(super) fn begins_mixed_key(text: &[u8]) -> bool {
    /// Minimum length of the word.
    const MIN_WORD: usize = 20;
    let is_end = |b: &u8| !b.is_ascii_alphanumeric();
    let word = text.split(is_end).next().unwrap_or_default();
    word.len() >= MIN_WORD && mixes_characters(word) && is_random(word)
}

/// Whether the value consists of characters without words, as a key does that is too short, or has too few digits, to look random.
pub(super) fn is_without_words(value: &[u8]) -> bool {
    /// Minimum length, and the one from which one kind of characters is enough.
    const MIN_LENGTH: usize = 10;
    const ONE_KIND: usize = 12;
    let value = head(value);
    let count = |class: fn(&u8) -> bool| value.iter().filter(|b| class(b)).count();
    let length = value.len();
    let has_digit = count(u8::is_ascii_digit) > 0;
    length >= MIN_LENGTH
        && (length >= ONE_KIND || mixes_characters(value))
        && value.iter().all(u8::is_ascii_graphic)
        && count(u8::is_ascii_alphabetic) * 3 >= length
        && count(u8::is_ascii_punctuation) * 3 <= length
        && entropy(value) >= 2.75
        && (!has_word_pairs(value) || has_digit && group_changes(value) * 2 >= length)
}

/// Whether the value is an identifier or a path in a program: words, with at most one digit each, separated by `.`, `:`,
/// `_`, `-` or `/`.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    value
        .split(|b| matches!(b, b'.' | b':' | b'_' | b'-' | b'/'))
        .all(|part| part.is_empty() || is_identifier_part(part))
}

/// Whether a part of a value is a word of an identifier, with at most one digit.
fn is_identifier_part(part: &[u8]) -> bool {
    /// A shorter part may be an abbreviation.
    const MIN_LETTERS: usize = 10;
    #[cfg(test)]
    super::tests::INSPECTED.with(|n| n.set(n.get() + part.len()));
    let mut digits = 0;
    for byte in part {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'a'..=b'z' | b'A'..=b'Z' => {}
            _ => return false,
        }
    }
    part[0].is_ascii_alphabetic()
        && digits <= 1
        && group_changes(part) * 3 <= part.len().max(6)
        && (part.len() < MIN_LETTERS || has_word_pairs(part))
}

/// Whether the value is a word, or several ones, with letters that ASCII does not have, as a translation is.
pub(super) fn is_foreign_word(value: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphabetic() || b"-_.:'!?".contains(b) || !b.is_ascii();
    !value.is_ascii() && value.iter().all(is_part)
}

/// Whether the value is a name of capitalised words, such as `K8sDeploymentV2`: most of its letters are in parts that can be words.
pub(super) fn is_camel_case(value: &[u8]) -> bool {
    CamelParts::of(value).is_some_and(|parts| parts.are_words())
}

/// Whether the value is the path of a file: with two words from the root, or one from another directory.
pub(super) fn is_path(value: &[u8]) -> bool {
    let least = match value {
        [b'/', ..] => 2,
        [b'~' | b'.', b'/', ..] => 1,
        _ => return false,
    };
    let is_word = |part: &&[u8]| part.len() >= 3 && part.iter().all(u8::is_ascii_lowercase);
    let parts = value.split(|b| b"-_./".contains(b));
    parts.filter(is_word).count() >= least
}

/// Whether the value says that it is a digest, such as `sha256:…`, or is a number of at most 64 bits, or an address of Ethereum, in
/// hexadecimal digits.
pub(super) fn is_digest_or_number(value: &[u8]) -> bool {
    let begins = |start: &str| {
        let head = value.get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
    };
    begins("sha1:")
        || begins("sha256:")
        || begins("sha512:")
        || begins("md5:")
        || begins("arn:")
        // Public keys of SSH, and fingerprints.
        || ["AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh"].iter().any(|start| begins(start))
        || value.len() >= 47
            && value
                .split(|b| *b == b':')
                .all(|pair| pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit))
        || begins("0x") && (value.len() <= 18 || value.len() == 42) && value[2..].iter().all(u8::is_ascii_hexdigit)
}

/// Whether most of the value is of a script that has no blanks between words, such as Chinese and Japanese: a sentence.
pub(super) fn is_wide_prose(value: &[u8]) -> bool {
    let value = head(value);
    // The first byte of a character of three bytes, or of four.
    let wide = value.iter().filter(|b| **b >= 0xe0).count();
    wide * 6 > value.len()
}

/// Whether a text consists of parts some of which are words: a path, the name of a host, a package or a target.
pub(super) fn has_words(text: &[u8]) -> bool {
    let is_word = |part: &[u8]| part.len() >= 3 && part.iter().all(u8::is_ascii_lowercase);
    let parts = || text.split(|b| b"-_./:".contains(b));
    parts().nth(1).is_some() && parts().any(is_word)
}

/// Whether the value is a word of a program, perhaps with a number at its end, or a number, perhaps with a unit.
pub(super) fn is_code_word(value: &[u8]) -> bool {
    let digits = value
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    is_identifier(&value[..value.len() - digits.min(4)])
        || is_camel_case(value)
        || value.starts_with(b"0x")
        || is_number(value)
}

/// Whether a text is a number, perhaps with a unit.
fn is_number(text: &[u8]) -> bool {
    let unit = text.iter().position(|b| !b.is_ascii_digit());
    let unit = &text[unit.unwrap_or(text.len())..];
    unit.len() < text.len() && unit.len() <= 2 && unit.iter().all(u8::is_ascii_lowercase)
}

/// Whether the value consists of words between signs, as the name of a type, a version or a licence does, but for a few digits.
pub(super) fn is_worded(value: &[u8]) -> bool {
    let is_plain = |part: &[u8]| {
        let is_short = part.len() < 3 || !part.iter().all(u8::is_ascii_alphabetic);
        !is_short && is_identifier_part(part)
    };
    let parts = value.split(|b| !b.is_ascii_alphanumeric());
    let mut in_words = 0;
    for part in parts.filter(|part| !part.is_empty()) {
        if is_plain(part) || is_capitalised(part) {
            in_words += part.len();
        } else if !is_code_word(part) {
            return false;
        }
    }
    in_words * 2 >= value.len()
}

/// Whether the value consists of capitalised words, but for one letter and one number, as in `X509CertificateFlag`.
fn is_capitalised(value: &[u8]) -> bool {
    let are_words = |parts: CamelParts| parts.numbers <= 1 && parts.short <= 1 && parts.are_words();
    CamelParts::of(value).is_some_and(are_words) && has_word_pairs(value)
}

/// Whether the value is a list of rules for a field: `required|string|min:8`.
pub(super) fn is_list_of_words(value: &[u8]) -> bool {
    let mut words = value.split(|b| b"|:,".contains(b));
    let is_word = |word: &[u8]| {
        word.len() <= 3 && word.iter().all(u8::is_ascii_digit)
            || word.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
    };
    value.contains(&b'|') && words.all(is_word)
}

/// Whether the value begins as a date: `2016-09-08`.
pub(super) fn is_date(value: &[u8]) -> bool {
    let is_sign = |at: usize| at == 4 || at == 7;
    let mut head = value.iter().take(10).enumerate();
    value.len() >= 10
        && head.all(|(at, b)| {
            if is_sign(at) {
                *b == b'-'
            } else {
                b.is_ascii_digit()
            }
        })
}
