//! The parts of words: pairs of letters, and the words of a name of capitalised ones.

/// Maximum number of bytes of a value that are inspected.
const INSPECTED_BYTES: usize = 256;

pub(super) fn head(value: &[u8]) -> &[u8] {
    &value[..value.len().min(INSPECTED_BYTES)]
}

/// The letters that are frequent after each letter in the names of programs: four fifths of the pairs in them, and a third of all pairs.
const NEXT_LETTERS: [&str; 26] = [
    "bcdgilmnprstuvx",
    "aeilou",
    "aehiklorstu",
    "adeilorsu",
    "acdefglmnpqrstvwxy",
    "aefilorsu",
    "einrs",
    "aeiot",
    "abcdefglmnoprstvz",
    "",
    "e",
    "adeilostuy",
    "adeimopsu",
    "acdefgilnostuv",
    "abcdfgklmnoprstuvw",
    "aeiloprtuy",
    "u",
    "acdefgilmnorstuy",
    "acehilopstuy",
    "acehiloprstuy",
    "beilmnprst",
    "aei",
    "air",
    "et",
    "ps",
    "e",
];

/// Whether the letters of a value follow each other as they do in words, and not by chance. Capital letters begin new words.
pub(super) fn has_word_pairs(value: &[u8]) -> bool {
    let value = head(value);
    #[cfg(test)]
    super::tests::INSPECTED.with(|n| n.set(n.get() + value.len()));
    let is_pair = |a: u8, b: u8| {
        a.is_ascii_alphabetic()
            && b.is_ascii_alphabetic()
            && !(a.is_ascii_lowercase() && b.is_ascii_uppercase())
    };
    let is_frequent = |a: u8, b: u8| {
        let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
        // An alphabet or a repeated letter is not random either.
        a == b || a + 1 == b || NEXT_LETTERS[usize::from(a - b'a')].as_bytes().contains(&b)
    };
    let (mut all, mut frequent, mut last) = (0, 0, 0);
    for &byte in value {
        if is_pair(last, byte) {
            all += 1;
            frequent += usize::from(is_frequent(last, byte));
        }
        last = byte;
    }
    frequent * 5 >= all * 3
}

/// The parts of a name of capitalised words: `X`, `509`, `Certificate` and `Flag` of `X509CertificateFlag`.
#[derive(Default)]
pub(super) struct CamelParts {
    pub numbers: usize,
    /// Number of parts of one or two letters.
    pub short: usize,
    letters: usize,
    /// Number of letters in parts that can be words.
    in_words: usize,
}

impl CamelParts {
    /// Splits a value of letters and digits.
    pub(super) fn of(value: &[u8]) -> Option<CamelParts> {
        #[cfg(test)]
        super::tests::INSPECTED.with(|n| n.set(n.get() + value.len()));
        let is_vowel = |b: &u8| {
            matches!(
                b.to_ascii_lowercase(),
                b'a' | b'e' | b'i' | b'o' | b'u' | b'y'
            )
        };
        let goes_on = |a: u8, b: u8| match b.is_ascii_lowercase() {
            true => a.is_ascii_alphabetic(),
            false => a.is_ascii_digit() && b.is_ascii_digit(),
        };
        if !value.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let mut parts = CamelParts::default();
        let mut start = 0;
        for end in 1..=value.len() {
            if end < value.len() && goes_on(value[end - 1], value[end]) {
                continue;
            }
            let part = &value[start..end];
            start = end;
            if part[0].is_ascii_digit() {
                parts.numbers += 1;
                continue;
            }
            parts.letters += part.len();
            match part.len() {
                ..3 => parts.short += 1,
                length if part.iter().any(is_vowel) => parts.in_words += length,
                _ => {}
            }
        }
        Some(parts)
    }

    pub(super) fn are_words(&self) -> bool {
        self.numbers <= 2 && self.in_words * 5 >= self.letters * 3
    }
}
