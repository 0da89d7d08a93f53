//! Confusables: visible characters that look like other characters.
//!
//! The strict sink passes every visible character; this module additionally marks those that can deceive. A word of an
//! alphabet that shares letter shapes with Latin is shown unchanged as long as a reader can see which alphabet it is.
//! Marked as `‹U+0430›` are: letters of another alphabet inside a Latin word; all letters of a word that consists only
//! of look-alikes and is not next to an unambiguous word of its alphabet; and symbols drawn like an ASCII
//! character (other slashes, dots, colons, hyphens, mathematical letters). Scripts that are commonly mixed with Latin
//! and do not resemble it (Han, kana, Hangul and most others) are never marked.

use super::char_class::is_mark;
use super::text::{OwnedPiece, strict_pieces};
use unicode_script::{Script, UnicodeScript};

/// Same as [`strict_pieces`], with confusables also replaced by stand-ins.
pub fn marked_pieces(s: &str) -> Vec<OwnedPiece> {
    if s.is_ascii() {
        return strict_pieces(s);
    }
    let mut shown = Vec::new();
    let mut from = 0;
    for (at, c) in confusable_chars(s) {
        shown.extend(strict_pieces(&s[from..at]));
        shown.push(OwnedPiece::Mark(code_point_mark(c)));
        from = at + c.len_utf8();
    }
    shown.extend(strict_pieces(&s[from..]));
    shown
}

/// Returns `s` on one line, with confusables marked.
pub fn marked_text(s: &str) -> String {
    concatenate(marked_pieces(s))
}

/// Returns a name that is expected to be ASCII, with every other character marked.
pub fn marked_name(s: &str) -> String {
    let mut shown = String::new();
    for c in s.chars() {
        if c.is_ascii() {
            let mut buffer = [0; 4];
            shown.push_str(&concatenate(strict_pieces(c.encode_utf8(&mut buffer))));
        } else {
            shown.push_str(&code_point_mark(c));
        }
    }
    shown
}

fn code_point_mark(c: char) -> String {
    format!("‹U+{:04X}›", u32::from(c))
}

fn concatenate(pieces: Vec<OwnedPiece>) -> String {
    pieces
        .into_iter()
        .map(|p| match p {
            OwnedPiece::Text(t) | OwnedPiece::Mark(t) => t,
        })
        .collect()
}

/// Which letter shapes a character resembles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetterShape {
    /// ASCII, or not confusable with Latin.
    Distinct,
    /// A Latin letter.
    Latin,
    /// A phonetic or full-width letter, which next to ASCII is read as its ASCII counterpart.
    AsciiVariant,
    /// A letter of another alphabet, and whether a Latin letter looks the same.
    Other(Script, bool),
}

fn letter_shape(c: char) -> LetterShape {
    match c {
        'a'..='z' | 'A'..='Z' => return LetterShape::Latin,
        '\u{251}'
        | '\u{261}'
        | '\u{269}'
        | '\u{1d00}'..='\u{1d25}'
        | '\u{ff10}'..='\u{ff19}'
        | '\u{ff21}'..='\u{ff3a}'
        | '\u{ff41}'..='\u{ff5a}' => return LetterShape::AsciiVariant,
        _ => {}
    }
    match c.script() {
        Script::Latin => LetterShape::Latin,
        script @ (Script::Cyrillic | Script::Greek | Script::Armenian) => LetterShape::Other(
            script,
            "аеорсухіјѕԁһӏԛԝґүҮАВЕКМНОРСТУХІЈЅԌҺӀԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυχϲϳͿՕՍԼՏօսհոցզյ".contains(c),
        ),
        // Nearly all letters of these scripts look Latin.
        script @ (Script::Cherokee
        | Script::Coptic
        | Script::Deseret
        | Script::Lisu
        | Script::Osage
        | Script::Carian
        | Script::Lycian
        | Script::Lydian
        | Script::Old_Italic) => LetterShape::Other(script, true),
        _ => LetterShape::Distinct,
    }
}

/// Whether `c` is drawn like an ASCII symbol, digit or letter regardless of its neighbours.
fn resembles_ascii(c: char) -> bool {
    matches!(c,
        '\u{1c0}' | '\u{1c3}' | '\u{37e}' | '\u{2010}' | '\u{2011}' | '\u{2024}' | '\u{2044}'
        | '\u{2160}'..='\u{217f}' | '\u{212a}' | '\u{212f}' | '\u{2212}' | '\u{2215}' | '\u{2216}'
        | '\u{2223}' | '\u{2236}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}' | '\u{a789}'
        | '\u{1d400}'..='\u{1d7ff}')
}

struct TextWord<'a> {
    at: usize,
    text: &'a str,
    /// The alphabet of a word that contains a letter found only in that alphabet.
    alphabet: Option<Script>,
}

/// Returns the characters to mark, in order.
fn confusable_chars(s: &str) -> Vec<(usize, char)> {
    let words = split_words(s);
    let mut odd: Vec<(usize, char)> = s
        .char_indices()
        .filter(|(_, c)| resembles_ascii(*c))
        .collect();
    for (n, word) in words.iter().enumerate() {
        let all = || word.text.char_indices().map(|(at, c)| (word.at + at, c));
        let ascii = word.text.bytes().any(|b| b.is_ascii_alphanumeric());
        let latin = ascii || all().any(|(_, c)| letter_shape(c) == LetterShape::Latin);
        let first = all().find_map(|(_, c)| match letter_shape(c) {
            LetterShape::Other(script, _) => Some(script),
            _ => None,
        });
        let beside = |n: Option<usize>| {
            let other = n.and_then(|n| words.get(n));
            other.is_some_and(|w| {
                w.alphabet.is_some() && w.alphabet == first && in_same_sentence(s, w, word)
            })
        };
        let known = word.alphabet.is_some() || beside(n.checked_sub(1)) || beside(Some(n + 1));
        odd.extend(all().filter(|(_, c)| match letter_shape(*c) {
            LetterShape::AsciiVariant => ascii,
            LetterShape::Other(script, _) => latin || Some(script) != first || !known,
            _ => false,
        }));
    }
    odd.sort_unstable();
    odd
}

fn split_words(s: &str) -> Vec<TextWord<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    let inside = |c: char| c.is_alphanumeric() || !c.is_ascii() && is_mark(c);
    for (at, c) in s.char_indices().chain([(s.len(), ' ')]) {
        match (inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                let text = &s[from..at];
                let clear = text.chars().find_map(|c| match letter_shape(c) {
                    LetterShape::Other(script, false) => Some(script),
                    _ => None,
                });
                words.push(TextWord {
                    at: from,
                    text,
                    alphabet: clear,
                });
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Whether the text between two words is what separates words in a sentence, rather than a symbol that joins them into
/// a name or a path.
fn in_same_sentence(s: &str, one: &TextWord<'_>, other: &TextWord<'_>) -> bool {
    let (a, b) = if one.at < other.at {
        (one, other)
    } else {
        (other, one)
    };
    let gap = &s[a.at + a.text.len()..b.at];
    gap.contains(' ')
        && gap
            .chars()
            .all(|c| c == ' ' || ",;:!?()\"—–«»„“”".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::text::strict;
    use proptest::prelude::*;

    #[test]
    fn letters_of_another_alphabet_within_a_word_are_marked() {
        for (said, shown) in [
            ("p\u{430}ypal.com", "p‹U+0430›ypal.com"),
            ("rm -rf /h\u{43e}me", "rm -rf /h‹U+043E›me"),
            ("\u{3b1}dmin", "‹U+03B1›dmin"),
            ("\u{ff52}oot", "‹U+FF52›oot"),
            ("\u{ff11}1", "‹U+FF11›1"),
            // Greek among Cyrillic.
            ("прив\u{3bf}т", "прив‹U+03BF›т"),
        ] {
            assert_eq!(marked_text(said), shown, "{said}");
        }
    }

    #[test]
    fn words_of_look_alikes_are_marked_outside_a_sentence() {
        assert_eq!(
            marked_text("/\u{435}\u{445}\u{435}"),
            "/‹U+0435›‹U+0445›‹U+0435›"
        );
        assert_eq!(marked_text("a.\u{441}\u{43e}"), "a.‹U+0441›‹U+043E›");
        assert_eq!(marked_text("он а она"), "он а она");
        assert_eq!(marked_text("привет/\u{441}"), "привет/‹U+0441›");
    }

    #[test]
    fn symbols_that_resemble_ascii_are_marked() {
        assert_eq!(marked_text("a\u{2215}b"), "a‹U+2215›b");
        assert_eq!(marked_text("\u{2212}rf"), "‹U+2212›rf");
        assert_eq!(marked_text("\u{1d42b}m"), "‹U+1D42B›m");
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for said in [
            "Grüße aus Köln, naïve façade",
            "Привет, как дела? Всё хорошо.",
            "Καλημέρα κόσμε",
            "日本語のTシャツ、PDFファイル",
            "한국어 API 문서",
            "مرحبا بالعالم",
            "नमस्ते दुनिया",
            "“quotes” – dashes … 5 µm",
        ] {
            assert_eq!(marked_text(said), said);
        }
    }

    #[test]
    fn a_name_is_reduced_to_ascii() {
        assert_eq!(
            marked_name("fs.read\u{430}\x1b[2J"),
            "fs.read‹U+0430›‹\\x1b›[2J"
        );
        assert_eq!(marked_name("日"), "‹U+65E5›");
    }

    proptest! {
        #[test]
        fn the_output_passes_the_strict_sink(s in any::<String>()) {
            // The output is safe to show again: apart from the brackets of its marks, it passes the sink once more.
            let bare: String = marked_text(&s).chars().filter(|c| !"‹›".contains(*c)).collect();
            let again = strict(&bare);
            prop_assert!(again.len() <= bare.len() || again.contains("spaces"), "{again:?}");
        }

        #[test]
        fn ascii_equals_strict_output(s in "[ -~]*") {
            prop_assert_eq!(marked_text(&s), strict(&s));
        }
    }
}
