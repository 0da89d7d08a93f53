//! What a character does on a terminal, and what may stand beside what.
//!
//! The properties come from Unicode 18 by way of `unicode-properties` and `unicode-script`; the few
//! lists here are facts those tables do not hold.

use super::text::Mode;
use unicode_properties::{GeneralCategory as Gc, UnicodeEmoji, UnicodeGeneralCategory};
use unicode_script::{Script, ScriptExtension, UnicodeScript};
use unicode_width::UnicodeWidthChar;

/// How many combining marks one base carries. Tibetan stacks need eight; more only smears over the
/// lines above and below.
const MAX_MARKS: u8 = 8;

/// What is to be done about a character before its neighbours are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Visible, and fine anywhere.
    Plain,
    /// Drawn onto the character before it.
    Extend,
    /// ZWJ or ZWNJ.
    Joiner,
    /// Chooses among the shapes of the character before it.
    Selector,
    /// To be shown as a stand-in.
    Hidden,
}

/// Sorts `c`, which is neither LF, CR, TAB nor an ASCII space.
pub(super) fn kind(c: char, mode: Mode) -> Kind {
    if everyday(c) {
        Kind::Plain
    } else {
        kind_by_properties(c, mode)
    }
}

/// Ranges of letters, signs and emoji that are all assigned, visible and on their own feet, so that
/// common text needs no table.
fn everyday(c: char) -> bool {
    matches!(c,
        '!'..='~' | '¡'..='¬' | '®'..='\u{2ff}' | 'Σ'..='\u{482}' | '\u{48a}'..='\u{52f}'
        | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}' | '\u{1e00}'..='\u{1f15}'
        | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2038}' | '\u{203b}'..='\u{205e}'
        | '\u{20a0}'..='\u{20bf}' | '\u{2100}'..='\u{218b}' | '\u{2190}'..='\u{2426}' | '\u{2460}'..='\u{27ff}'
        | '\u{2900}'..='\u{2b73}' | '\u{3001}'..='\u{3029}' | '\u{3041}'..='\u{3096}'
        | '\u{30a0}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff01}'..='\u{ff9f}' | '\u{1f300}'..='\u{1f64f}' | '\u{1f900}'..='\u{1f9ff}')
}

fn kind_by_properties(c: char, mode: Mode) -> Kind {
    let prose = mode == Mode::Prose;
    match c {
        '\u{200c}' | '\u{200d}' if prose => return Kind::Joiner,
        '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}' | '\u{e0100}'..='\u{e011f}' if prose => {
            return Kind::Selector;
        }
        // Strict stand-ins are put in these, so that text cannot forge one.
        '‹' | '›' if !prose => return Kind::Hidden,
        // A braille pattern without dots is drawn as nothing.
        '\u{2800}' if !prose => return Kind::Hidden,
        // Conjoining vowels and finals are drawn into the Hangul syllable that they follow.
        '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}' => return Kind::Extend,
        _ if blank(c) => return Kind::Hidden,
        _ => {}
    }
    match c.general_category() {
        Gc::NonspacingMark | Gc::SpacingMark | Gc::EnclosingMark => Kind::Extend,
        Gc::Control
        | Gc::LineSeparator
        | Gc::ParagraphSeparator
        | Gc::Surrogate
        | Gc::Unassigned => Kind::Hidden,
        // Signs that enclose the digits after them are the only format characters one can see.
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
            Kind::Plain
        }
        Gc::Format => Kind::Hidden,
        // What a private-use character looks like is between the writer and the font: an icon in
        // prose, but nothing to decide upon.
        Gc::PrivateUse | Gc::SpaceSeparator if !prose => Kind::Hidden,
        // Signs that are written onto the letter after them, which may not be there.
        _ if !prose && c.width() == Some(0) => Kind::Hidden,
        _ => Kind::Plain,
    }
}

/// Characters without ink whose general category is that of a letter, a mark or a symbol: the
/// default-ignorable ones, and the fillers and joiners of single scripts.
fn blank(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{13446}' | '\u{16fe4}' | '\u{1bc9d}' | '\u{1bc9e}' | '\u{1d159}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// What came before the next character, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// The character that marks are drawn onto; none at the start and after a stand-in, where a mark
    /// would change what is not part of the text.
    base: Option<char>,
    tail: Tail,
    marks: u8,
}

/// What has followed the base last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Nothing,
    Mark,
    Virama,
    Selector,
    Joiner,
}

impl Before {
    /// After `base`, or at the start if there is none.
    pub(super) const fn new(base: Option<char>) -> Self {
        Self {
            base,
            tail: Tail::Nothing,
            marks: 0,
        }
    }

    /// Whether `c`, which is no plain character, may follow, given the one after it.
    pub(super) fn admits(&mut self, c: char, kind: Kind, next: char, mode: Mode) -> bool {
        let Some(base) = self.base else {
            return false;
        };
        let (fits, tail) = match kind {
            Kind::Plain => (true, Tail::Nothing),
            Kind::Hidden => (false, Tail::Nothing),
            Kind::Extend => {
                self.marks += 1;
                let tail = if is_virama(c) {
                    Tail::Virama
                } else {
                    Tail::Mark
                };
                (self.marks <= MAX_MARKS && mark_fits(base, c, mode), tail)
            }
            Kind::Selector => (
                self.tail == Tail::Nothing && selector_fits(base, c, next),
                Tail::Selector,
            ),
            Kind::Joiner => (self.joiner_fits(base, c, next), Tail::Joiner),
        };
        self.tail = tail;
        fits
    }

    /// Whether the verdict on `c` hangs on the character after it.
    pub(super) fn must_wait(&self, c: char, kind: Kind) -> bool {
        match kind {
            Kind::Joiner => true,
            Kind::Selector => c == '\u{fe0f}' && self.base.is_some_and(|base| base.is_ascii()),
            _ => false,
        }
    }

    /// Joiners pass between two emoji, between two letters of one script that uses them, and at
    /// those edges of a word where they change the shape of the last letter.
    fn joiner_fits(&self, base: char, c: char, next: char) -> bool {
        let zwj = c == '\u{200d}';
        match self.tail {
            Tail::Joiner => return false,
            Tail::Nothing | Tail::Selector if is_emoji(base) => return zwj && is_emoji(next),
            // Explicit virama (ZWNJ), half forms and chillu letters (ZWJ).
            Tail::Virama => return true,
            _ => {}
        }
        // A Latin abbreviation with a Persian ending: PDF, ZWNJ, the plural.
        if !zwj && base.is_alphanumeric() && next.script() == Script::Arabic && next.is_alphabetic()
        {
            return true;
        }
        if !base.is_alphanumeric() {
            return false;
        }
        base.script_extension()
            .iter()
            .any(|script| match joining(script) {
                Joining::No => false,
                // ZWJ keeps the joined shape of a letter that stands alone.
                Joining::Cursive if zwj => true,
                _ => {
                    (next.is_alphanumeric() || is_mark(next))
                        && next.script_extension().contains_script(script)
                }
            })
    }
}

/// How a script uses the joiners.
enum Joining {
    No,
    Cursive,
    Conjuncts,
}

fn joining(script: Script) -> Joining {
    use Script::*;
    match script {
        Arabic | Syriac | Mandaic | Nko | Mongolian | Phags_Pa | Adlam | Hanifi_Rohingya
        | Manichaean | Psalter_Pahlavi | Sogdian | Old_Uyghur | Chorasmian => Joining::Cursive,
        Devanagari | Bengali | Gurmukhi | Gujarati | Oriya | Tamil | Telugu | Kannada
        | Malayalam | Sinhala | Myanmar | Khmer | Balinese | Javanese | Sundanese | Chakma
        | Newa | Tirhuta | Grantha | Saurashtra | Sharada | Kaithi | Syloti_Nagri
        | Meetei_Mayek => Joining::Conjuncts,
        _ => Joining::No,
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

/// Whether `c` can be a part of an emoji that ZWJ builds. Digits count as emoji in the tables, and
/// regional indicators are joined by standing side by side.
fn is_emoji(c: char) -> bool {
    !c.is_ascii() && !matches!(c, '\u{1f1e6}'..='\u{1f1ff}') && c.is_emoji_char()
}

/// Whether a mark of this script is at home on `base`. A virama on a Latin letter, say, is likely
/// to be drawn as nothing.
fn mark_fits(base: char, mark: char, mode: Mode) -> bool {
    if base.is_control()
        || matches!(base.general_category(), Gc::SpaceSeparator) && mode == Mode::Strict
    {
        return false;
    }
    let (on, of) = (base.script_extension(), mark.script_extension());
    if matches!(mark, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}') {
        return base.script() == Script::Hangul;
    }
    if mode == Mode::Prose && (!base.is_ascii() || base == ' ') {
        return true;
    }
    // Common signs and digits carry what Latin letters carry.
    let on = if on.is_common() {
        ScriptExtension::from(Script::Latin)
    } else {
        on
    };
    !on.intersection(of).is_empty()
}

/// Whether `c` is a variation selector that means something after `base`.
///
/// Selectors are invisible, and 256 of them spell any byte: so one at most, and only where one is
/// registered or in use.
fn selector_fits(base: char, c: char, next: char) -> bool {
    match c {
        // 1️⃣ is a digit, a selector and the enclosing keycap; without the keycap nothing is seen.
        '\u{fe0f}' if matches!(base, '0'..='9' | '#' | '*') => next == '\u{20e3}',
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(base),
        '\u{fe00}'..='\u{fe02}' if base.script() == Script::Han => true,
        '\u{fe00}' => {
            matches!(base.script(), Script::Myanmar | Script::Phags_Pa)
                || !base.is_ascii() && base.general_category() == Gc::MathSymbol
        }
        // Names of people and places in Japan; the ideographs with most forms have about 30.
        '\u{e0100}'..='\u{e011f}' => base.script() == Script::Han && base.is_alphabetic(),
        '\u{180b}'..='\u{180f}' => base.script() == Script::Mongolian && base.is_alphabetic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_everyday_ranges_agree_with_the_properties() {
        for c in (char::MIN..=char::MAX).filter(|&c| everyday(c)) {
            for mode in [Mode::Prose, Mode::Strict] {
                assert_eq!(kind_by_properties(c, mode), Kind::Plain, "{c:?} {mode:?}");
            }
        }
    }

    #[test]
    fn what_is_plain_takes_room() {
        for c in (char::MIN..=char::MAX).filter(|c| c.width().unwrap_or(0) == 0) {
            assert_ne!(kind(c, Mode::Strict), Kind::Plain, "{c:?}");
            // Prose has the signs that letters or digits after them are needed for.
            if kind(c, Mode::Prose) == Kind::Plain {
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
    fn what_is_strictly_plain_is_prosaically_plain() {
        for c in char::MIN..=char::MAX {
            if kind(c, Mode::Strict) == Kind::Plain {
                assert_eq!(kind(c, Mode::Prose), Kind::Plain, "{c:?}");
            }
        }
    }
}
