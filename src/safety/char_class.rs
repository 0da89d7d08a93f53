//! Character classes: what a character does on a terminal, and which characters may follow each other.
//!
//! The properties come from Unicode 18 through `unicode-properties` and `unicode-script`; the short lists here hold
//! what those tables do not contain.

use unicode_properties::{GeneralCategory as Gc, UnicodeEmoji, UnicodeGeneralCategory};
use unicode_script::{Script, ScriptExtension, UnicodeScript};
use unicode_width::UnicodeWidthChar;

/// The use of a text, which decides what may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkMode {
    /// Text to read: answers, output, reasons.
    Prose,
    /// Text to decide on, in one line: proposals, questions, names.
    Strict,
}

/// Maximum number of combining marks per base. Tibetan stacks need eight; more only overprint the neighbouring lines.
const MAX_MARKS: u8 = 8;

/// The class of a character, before its neighbours are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    /// Visible and allowed anywhere.
    Plain,
    /// Drawn onto the preceding character.
    Extend,
    /// ZWJ or ZWNJ.
    Joiner,
    /// A variation selector: selects a shape of the preceding character.
    Selector,
    /// Shown as a stand-in.
    Hidden,
}

/// Classifies `c`, which must not be LF, CR, TAB or an ASCII space.
pub(super) fn char_class(c: char, mode: SinkMode) -> CharClass {
    if is_common_visible(c) {
        CharClass::Plain
    } else {
        class_by_properties(c, mode)
    }
}

/// Ranges of letters, symbols and emoji that are all assigned, visible and independent of their neighbours, so that
/// common text needs no table lookup.
fn is_common_visible(c: char) -> bool {
    matches!(c,
        '!'..='~' | '¡'..='¬' | '®'..='\u{2ff}' | 'Σ'..='\u{482}' | '\u{48a}'..='\u{52f}'
        | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}' | '\u{1e00}'..='\u{1f15}'
        | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2038}' | '\u{203b}'..='\u{205e}'
        | '\u{20a0}'..='\u{20bf}' | '\u{2100}'..='\u{218b}' | '\u{2190}'..='\u{2426}' | '\u{2460}'..='\u{27ff}'
        | '\u{2900}'..='\u{2b73}' | '\u{3001}'..='\u{3029}' | '\u{3041}'..='\u{3096}'
        | '\u{30a0}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff01}'..='\u{ff9f}' | '\u{1f300}'..='\u{1f64f}' | '\u{1f900}'..='\u{1f9ff}')
}

fn class_by_properties(c: char, mode: SinkMode) -> CharClass {
    let prose = mode == SinkMode::Prose;
    match c {
        '\u{200c}' | '\u{200d}' if prose => return CharClass::Joiner,
        '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}' | '\u{e0100}'..='\u{e011f}' if prose => {
            return CharClass::Selector;
        }
        // Strict stand-ins are enclosed in these, so text must not be able to forge them.
        '‹' | '›' if !prose => return CharClass::Hidden,
        // The braille pattern without dots has no ink.
        '\u{2800}' if !prose => return CharClass::Hidden,
        // Conjoining vowels and finals are drawn into the preceding Hangul syllable.
        '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}' => return CharClass::Extend,
        _ if is_blank(c) => return CharClass::Hidden,
        _ => {}
    }
    match c.general_category() {
        Gc::NonspacingMark | Gc::SpacingMark | Gc::EnclosingMark => CharClass::Extend,
        Gc::Control
        | Gc::LineSeparator
        | Gc::ParagraphSeparator
        | Gc::Surrogate
        | Gc::Unassigned => CharClass::Hidden,
        // Signs that enclose the following digits are the only visible format characters.
        Gc::Format
            if prose
                && matches!(
                    c,
                    '\u{600}'
                        ..='\u{605}'
                            | '\u{6dd}'
                            | '\u{70f}'
                            | '\u{890}'
                            | '\u{891}'
                            | '\u{8e2}'
                            | '\u{110bd}'
                            | '\u{110cd}'
                ) =>
        {
            CharClass::Plain
        }
        Gc::Format => CharClass::Hidden,
        // The appearance of a private-use character depends on the font: an icon in prose, but not acceptable in text
        // that the user decides on.
        Gc::PrivateUse | Gc::SpaceSeparator if !prose => CharClass::Hidden,
        // Signs drawn onto the following letter, which may be missing.
        _ if !prose && c.width() == Some(0) => CharClass::Hidden,
        _ => CharClass::Plain,
    }
}

/// Characters without ink whose general category is letter, mark or symbol: default-ignorable characters, and the
/// fillers and joiners of individual scripts.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{13446}' | '\u{16fe4}' | '\u{1bc9d}' | '\u{1bc9e}' | '\u{1d159}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The relevant state of the text before the next character.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrecedingText {
    /// The character that marks are drawn onto. `None` at the start and after a stand-in, where a mark would change
    /// something that is not part of the text.
    base: Option<char>,
    after_base: AfterBase,
    marks: u8,
}

/// The last character after the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterBase {
    Nothing,
    Mark,
    Virama,
    Selector,
    Joiner,
}

impl PrecedingText {
    /// State after `base`, or at the start of the text for `None`.
    pub(super) const fn new(base: Option<char>) -> Self {
        Self {
            base,
            after_base: AfterBase::Nothing,
            marks: 0,
        }
    }

    /// Whether `c`, which is not plain, may follow, given the character after it.
    pub(super) fn admits(&mut self, c: char, kind: CharClass, next: char, mode: SinkMode) -> bool {
        let Some(base) = self.base else {
            return false;
        };
        let (fits, tail) = match kind {
            CharClass::Plain => (true, AfterBase::Nothing),
            CharClass::Hidden => (false, AfterBase::Nothing),
            CharClass::Extend => {
                self.marks += 1;
                let tail = if is_virama(c) {
                    AfterBase::Virama
                } else {
                    AfterBase::Mark
                };
                (self.marks <= MAX_MARKS && mark_fits(base, c, mode), tail)
            }
            CharClass::Selector => (
                self.after_base == AfterBase::Nothing && selector_fits(base, c, next),
                AfterBase::Selector,
            ),
            CharClass::Joiner => (self.joiner_fits(base, c, next), AfterBase::Joiner),
        };
        self.after_base = tail;
        fits
    }

    /// Whether the decision on `c` depends on the character after it.
    pub(super) fn must_wait(&self, c: char, kind: CharClass) -> bool {
        match kind {
            CharClass::Joiner => true,
            CharClass::Selector => c == '\u{fe0f}' && self.base.is_some_and(|base| base.is_ascii()),
            _ => false,
        }
    }

    /// Joiners pass between two emoji, between two letters of one script that uses them, and at those word edges where
    /// they change the shape of the last letter.
    fn joiner_fits(&self, base: char, c: char, next: char) -> bool {
        let zwj = c == '\u{200d}';
        match self.after_base {
            AfterBase::Joiner => return false,
            AfterBase::Nothing | AfterBase::Selector if is_emoji(base) => {
                return zwj && is_emoji(next);
            }
            // Explicit virama (ZWNJ), half forms and chillu letters (ZWJ).
            AfterBase::Virama => return true,
            _ => {}
        }
        if !base.is_alphanumeric() {
            return false;
        }
        // Before a stand-in, the joiner has no effect.
        let next_passes = (next.is_alphanumeric() || is_mark(next))
            && match char_class(next, SinkMode::Prose) {
                CharClass::Plain => true,
                CharClass::Extend => {
                    self.marks < MAX_MARKS && mark_fits(base, next, SinkMode::Prose)
                }
                _ => false,
            };
        // A Latin abbreviation with a Persian ending: PDF, ZWNJ, the plural.
        if !zwj && next_passes && next.script() == Script::Arabic && next.is_alphabetic() {
            return true;
        }
        base.script_extension()
            .iter()
            .any(|script| match joiner_use(script) {
                JoinerUse::No => false,
                // ZWJ keeps the joined shape of a single letter.
                JoinerUse::Cursive if zwj => true,
                _ => next_passes && next.script_extension().contains_script(script),
            })
    }
}

/// How a script uses joiners.
enum JoinerUse {
    No,
    Cursive,
    Conjuncts,
}

fn joiner_use(script: Script) -> JoinerUse {
    use Script::*;
    match script {
        Arabic | Syriac | Mandaic | Nko | Mongolian | Phags_Pa | Adlam | Hanifi_Rohingya
        | Manichaean | Psalter_Pahlavi | Sogdian | Old_Uyghur | Chorasmian => JoinerUse::Cursive,
        Devanagari | Bengali | Gurmukhi | Gujarati | Oriya | Tamil | Telugu | Kannada
        | Malayalam | Sinhala | Myanmar | Khmer | Balinese | Javanese | Sundanese | Chakma
        | Newa | Tirhuta | Grantha | Saurashtra | Sharada | Kaithi | Syloti_Nagri
        | Meetei_Mayek => JoinerUse::Conjuncts,
        _ => JoinerUse::No,
    }
}

pub(super) fn is_mark(c: char) -> bool {
    matches!(c.general_category(), Gc::NonspacingMark | Gc::SpacingMark)
}

fn is_virama(c: char) -> bool {
    matches!(
        c,
        '\u{94d}'
            | '\u{9cd}'
            | '\u{a4d}'
            | '\u{acd}'
            | '\u{b4d}'
            | '\u{bcd}'
            | '\u{c4d}'
            | '\u{ccd}'
            | '\u{d4d}'
            | '\u{dca}'
            | '\u{1039}'
            | '\u{103a}'
            | '\u{17d2}'
            | '\u{1b44}'
            | '\u{a8c4}'
            | '\u{a9c0}'
    )
}

/// Whether `c` can be part of a ZWJ emoji sequence. Excludes digits, which the tables count as emoji, and regional
/// indicators, which combine without a joiner.
fn is_emoji(c: char) -> bool {
    !c.is_ascii() && !matches!(c, '\u{1f1e6}'..='\u{1f1ff}') && c.is_emoji_char()
}

/// Whether a mark of this script belongs on `base`. A virama on a Latin letter, for example, is probably not drawn at
/// all.
fn mark_fits(base: char, mark: char, mode: SinkMode) -> bool {
    if base.is_control()
        || matches!(base.general_category(), Gc::SpaceSeparator) && mode == SinkMode::Strict
    {
        return false;
    }
    let (on, of) = (base.script_extension(), mark.script_extension());
    if matches!(mark, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}') {
        return base.script() == Script::Hangul;
    }
    if mode == SinkMode::Prose && (!base.is_ascii() || base == ' ') {
        return true;
    }
    // Common symbols and digits may carry the same marks as Latin letters.
    let on = if on.is_common() {
        ScriptExtension::from(Script::Latin)
    } else {
        on
    };
    !on.intersection(of).is_empty()
}

/// Whether `c` is a variation selector with a meaning after `base`.
///
/// Selectors are invisible, and 256 of them can encode any byte: therefore at most one, and only where one is
/// registered or in use.
fn selector_fits(base: char, c: char, next: char) -> bool {
    match c {
        // 1️⃣ is a digit, a selector and the enclosing keycap; without the keycap the selector has no visible effect.
        '\u{fe0f}' if matches!(base, '0'..='9' | '#' | '*') => next == '\u{20e3}',
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(base),
        '\u{fe00}'..='\u{fe02}' if base.script() == Script::Han => true,
        '\u{fe00}' => {
            matches!(base.script(), Script::Myanmar | Script::Phags_Pa)
                || !base.is_ascii() && base.general_category() == Gc::MathSymbol
        }
        // Used for Japanese names; the ideographs with the most forms have about 30.
        '\u{e0100}'..='\u{e011f}' => base.script() == Script::Han && base.is_alphabetic(),
        '\u{180b}'..='\u{180f}' => base.script() == Script::Mongolian && base.is_alphabetic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_ranges_agree_with_the_unicode_properties() {
        for c in (char::MIN..=char::MAX).filter(|&c| is_common_visible(c)) {
            for mode in [SinkMode::Prose, SinkMode::Strict] {
                assert_eq!(
                    class_by_properties(c, mode),
                    CharClass::Plain,
                    "{c:?} {mode:?}"
                );
            }
        }
    }

    #[test]
    fn plain_characters_are_not_zero_width() {
        for c in (char::MIN..=char::MAX).filter(|c| c.width().unwrap_or(0) == 0) {
            assert_ne!(char_class(c, SinkMode::Strict), CharClass::Plain, "{c:?}");
            // Prose contains characters that need such a sign before letters or digits.
            if char_class(c, SinkMode::Prose) == CharClass::Plain {
                assert!(
                    matches!(
                        c.general_category(),
                        Gc::Format | Gc::OtherLetter | Gc::OtherPunctuation
                    ),
                    "{c:?}"
                );
            }
        }
    }

    #[test]
    fn strictly_plain_characters_are_plain_in_prose() {
        for c in char::MIN..=char::MAX {
            if char_class(c, SinkMode::Strict) == CharClass::Plain {
                assert_eq!(char_class(c, SinkMode::Prose), CharClass::Plain, "{c:?}");
            }
        }
    }
}
