//! Letters that look like others: what the strict sink lets pass since it can be seen, and what is
//! not what it seems.
//!
//! A word of an alphabet that shares shapes with Latin is shown as it is, as long as a reader can tell
//! which alphabet it is. Marked as `‹U+0430›` are letters of another alphabet inside a Latin word, all
//! letters of a word that consists of nothing but look-alikes and does not stand beside a plain word of
//! its alphabet, and signs that are drawn like one of ASCII: other slashes, dots, colons, hyphens, and
//! the letters made for formulas. Scripts that mix with Latin by custom and do not look like it
//! (Han, kana, Hangul and most others) are no matter here.

use super::glyph::is_mark;
use super::text::{Shown, strict_pieces};
use unicode_script::{Script, UnicodeScript};

/// As [`strict_pieces`], with look-alikes as stand-ins too.
pub fn pieces(s: &str) -> Vec<Shown> {
    if s.is_ascii() {
        return strict_pieces(s);
    }
    let mut shown = Vec::new();
    let mut from = 0;
    for (at, c) in odd(s) {
        shown.extend(strict_pieces(&s[from..at]));
        shown.push(Shown::Mark(stand_in(c)));
        from = at + c.len_utf8();
    }
    shown.extend(strict_pieces(&s[from..]));
    shown
}

/// All of `s` on one line, look-alikes marked.
pub fn text(s: &str) -> String {
    flat(pieces(s))
}

/// A name that is to be ASCII: whatever is not is marked.
pub fn name(s: &str) -> String {
    let mut shown = String::new();
    for c in s.chars() {
        if c.is_ascii() {
            let mut buffer = [0; 4];
            shown.push_str(&flat(strict_pieces(c.encode_utf8(&mut buffer))));
        } else {
            shown.push_str(&stand_in(c));
        }
    }
    shown
}

fn stand_in(c: char) -> String {
    format!("‹U+{:04X}›", u32::from(c))
}

fn flat(pieces: Vec<Shown>) -> String {
    pieces
        .into_iter()
        .map(|p| match p {
            Shown::Text(t) | Shown::Mark(t) => t,
        })
        .collect()
}

/// Which shapes a letter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shapes {
    /// ASCII, and what no one takes for it.
    Own,
    /// Of Latin.
    Latin,
    /// A letter for phonetics or of double width, which beside ASCII is taken for it.
    Costume,
    /// Of another alphabet; whether a Latin letter looks the same.
    Other(Script, bool),
}

fn shapes(c: char) -> Shapes {
    match c {
        'a'..='z' | 'A'..='Z' => return Shapes::Latin,
        '\u{251}'
        | '\u{261}'
        | '\u{269}'
        | '\u{1d00}'..='\u{1d25}'
        | '\u{ff10}'..='\u{ff19}'
        | '\u{ff21}'..='\u{ff3a}'
        | '\u{ff41}'..='\u{ff5a}' => return Shapes::Costume,
        _ => {}
    }
    match c.script() {
        Script::Latin => Shapes::Latin,
        script @ (Script::Cyrillic | Script::Greek | Script::Armenian) => Shapes::Other(
            script,
            "аеорсухіјѕԁһӏԛԝґүҮАВЕКМНОРСТУХІЈЅԌҺӀԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυχϲϳͿՕՍԼՏօսհոցզյ".contains(c),
        ),
        // Nearly all of these could be Latin.
        script @ (Script::Cherokee
        | Script::Coptic
        | Script::Deseret
        | Script::Lisu
        | Script::Osage
        | Script::Carian
        | Script::Lycian
        | Script::Lydian
        | Script::Old_Italic) => Shapes::Other(script, true),
        _ => Shapes::Own,
    }
}

/// Drawn like a sign, a digit or a letter of ASCII, wherever it stands.
fn costume(c: char) -> bool {
    matches!(c,
        '\u{1c0}' | '\u{1c3}' | '\u{37e}' | '\u{2010}' | '\u{2011}' | '\u{2024}' | '\u{2044}'
        | '\u{2160}'..='\u{217f}' | '\u{212a}' | '\u{212f}' | '\u{2212}' | '\u{2215}' | '\u{2216}'
        | '\u{2223}' | '\u{2236}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}' | '\u{a789}'
        | '\u{1d400}'..='\u{1d7ff}')
}

struct Word<'a> {
    at: usize,
    text: &'a str,
    /// The alphabet of a word that holds a letter which only that alphabet has.
    clear: Option<Script>,
}

/// What is to be marked, in order.
fn odd(s: &str) -> Vec<(usize, char)> {
    let words = words(s);
    let mut odd: Vec<(usize, char)> = s.char_indices().filter(|(_, c)| costume(*c)).collect();
    for (n, word) in words.iter().enumerate() {
        let all = || word.text.char_indices().map(|(at, c)| (word.at + at, c));
        let ascii = word.text.bytes().any(|b| b.is_ascii_alphanumeric());
        let latin = ascii || all().any(|(_, c)| shapes(c) == Shapes::Latin);
        let first = all().find_map(|(_, c)| match shapes(c) {
            Shapes::Other(script, _) => Some(script),
            _ => None,
        });
        let beside = |n: Option<usize>| {
            let other = n.and_then(|n| words.get(n));
            other.is_some_and(|w| w.clear.is_some() && w.clear == first && one_text(s, w, word))
        };
        let known = word.clear.is_some() || beside(n.checked_sub(1)) || beside(Some(n + 1));
        odd.extend(all().filter(|(_, c)| match shapes(*c) {
            Shapes::Costume => ascii,
            Shapes::Other(script, _) => latin || Some(script) != first || !known,
            _ => false,
        }));
    }
    odd.sort_unstable();
    odd
}

fn words(s: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    let inside = |c: char| c.is_alphanumeric() || !c.is_ascii() && is_mark(c);
    for (at, c) in s.char_indices().chain([(s.len(), ' ')]) {
        match (inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                let text = &s[from..at];
                let clear = text.chars().find_map(|c| match shapes(c) {
                    Shapes::Other(script, false) => Some(script),
                    _ => None,
                });
                words.push(Word {
                    at: from,
                    text,
                    clear,
                });
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Whether what stands between two words is what stands between the words of a sentence, and not a
/// sign that makes names and paths of them.
fn one_text(s: &str, one: &Word<'_>, other: &Word<'_>) -> bool {
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
    fn letters_of_another_alphabet_in_a_word_are_marked() {
        for (said, shown) in [
            ("p\u{430}ypal.com", "p‹U+0430›ypal.com"),
            ("rm -rf /h\u{43e}me", "rm -rf /h‹U+043E›me"),
            ("\u{3b1}dmin", "‹U+03B1›dmin"),
            ("\u{ff52}oot", "‹U+FF52›oot"),
            ("\u{ff11}1", "‹U+FF11›1"),
            // Greek among Cyrillic.
            ("прив\u{3bf}т", "прив‹U+03BF›т"),
        ] {
            assert_eq!(text(said), shown, "{said}");
        }
    }

    #[test]
    fn words_of_look_alikes_alone_are_marked_outside_of_a_sentence() {
        assert_eq!(text("/\u{435}\u{445}\u{435}"), "/‹U+0435›‹U+0445›‹U+0435›");
        assert_eq!(text("a.\u{441}\u{43e}"), "a.‹U+0441›‹U+043E›");
        assert_eq!(text("он а она"), "он а она");
        assert_eq!(text("привет/\u{441}"), "привет/‹U+0441›");
    }

    #[test]
    fn signs_in_costume_are_marked() {
        assert_eq!(text("a\u{2215}b"), "a‹U+2215›b");
        assert_eq!(text("\u{2212}rf"), "‹U+2212›rf");
        assert_eq!(text("\u{1d42b}m"), "‹U+1D42B›m");
    }

    #[test]
    fn what_people_write_stays() {
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
            assert_eq!(text(said), said);
        }
    }

    #[test]
    fn a_name_is_ascii() {
        assert_eq!(name("fs.read\u{430}\x1b[2J"), "fs.read‹U+0430›‹\\x1b›[2J");
        assert_eq!(name("日"), "‹U+65E5›");
    }

    proptest! {
        #[test]
        fn nothing_passes_that_the_strict_sink_holds_back(s in any::<String>()) {
            // What is shown is fit to be shown: it passes once more, but for the brackets of its marks.
            let bare: String = text(&s).chars().filter(|c| !"‹›".contains(*c)).collect();
            let again = strict(&bare);
            prop_assert!(again.len() <= bare.len() || again.contains("spaces"), "{again:?}");
        }

        #[test]
        fn ascii_is_as_before(s in "[ -~]*") {
            prop_assert_eq!(text(&s), strict(&s));
        }
    }
}
