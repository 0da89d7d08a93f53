//! HTML entities. A numeric one can name any character, so this is a second door for what the text sink keeps out:
//! only characters that are plainly visible pass, every other entity is shown as it was written.

/// What an `&` begins.
pub(super) enum Entity {
    /// A character and the bytes that its entity takes.
    Char(char, usize),
    /// Nothing: the `&` is text.
    None,
    /// The text to come decides.
    Wait,
}

/// No entity that is decoded here is longer.
const MAX_LEN: usize = 12;

/// The names that prose uses.
const NAMES: [(&str, char); 52] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("hellip", '…'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("bull", '•'),
    ("middot", '·'),
    ("sect", '§'),
    ("para", '¶'),
    ("deg", '°'),
    ("plusmn", '±'),
    ("times", '×'),
    ("divide", '÷'),
    ("frac12", '½'),
    ("frac14", '¼'),
    ("micro", 'µ'),
    ("pound", '£'),
    ("euro", '€'),
    ("yen", '¥'),
    ("cent", '¢'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("harr", '↔'),
    ("rArr", '⇒'),
    ("le", '≤'),
    ("ge", '≥'),
    ("ne", '≠'),
    ("asymp", '≈'),
    ("equiv", '≡'),
    ("infin", '∞'),
    ("sum", '∑'),
    ("radic", '√'),
    ("pi", 'π'),
    ("alpha", 'α'),
    ("beta", 'β'),
    ("check", '✓'),
    ("lambda", 'λ'),
];

/// Decodes the entity at the start of `s`, which is an `&`.
pub(super) fn decode(s: &str, eof: bool) -> Entity {
    let body = &s[1..];
    let len = body
        .bytes()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == b'#')
        .take(MAX_LEN)
        .count();
    match body.as_bytes().get(len) {
        None if eof || len == MAX_LEN => Entity::None,
        None => Entity::Wait,
        Some(b';') if len < MAX_LEN => {
            character(&body[..len]).map_or(Entity::None, |c| Entity::Char(c, len + 2))
        }
        Some(_) => Entity::None,
    }
}

fn character(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMES.iter().find(|(n, _)| *n == name).map(|(_, c)| *c);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    code.ok().and_then(char::from_u32).filter(|c| visible(*c))
}

/// Whether a character is surely seen for what it is.
fn visible(c: char) -> bool {
    match c {
        // Letters by name only: these take columns and show nothing.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => false,
        ' '..='~' | '\u{a0}' | '¡'..='¬' | '®'..='ÿ' => true,
        '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{20a0}'..='\u{20c0}' => true,
        '\u{2190}'..='\u{23ff}' | '\u{2460}'..='\u{27bf}' | '\u{3001}'..='\u{301c}' => true,
        '\u{1f300}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1faff}' => true,
        c => {
            c.is_alphanumeric() && unicode_width::UnicodeWidthChar::width(c).is_some_and(|w| w > 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(s: &str) -> Option<char> {
        match decode(s, true) {
            Entity::Char(c, len) => {
                assert_eq!(len, s.len());
                Some(c)
            }
            _ => None,
        }
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(shown("&amp;"), Some('&'));
        assert_eq!(shown("&rArr;"), Some('⇒'));
        assert_eq!(shown("&#65;"), Some('A'));
        assert_eq!(shown("&#x4e2d;"), Some('中'));
        assert_eq!(shown("&#x1F600;"), Some('😀'));
    }

    #[test]
    fn what_is_not_plainly_visible_stays_as_written() {
        for s in [
            "&#27;",
            "&#x9b;",
            "&#10;",
            "&#x202e;",
            "&#x200b;",
            "&#xe0041;",
            "&#x3164;",
            "&#x110000;",
            "&#xad;",
            "&#x300;",
            "&#x2028;",
        ] {
            assert_eq!(shown(s), None, "{s}");
        }
    }

    #[test]
    fn waits_only_while_it_may_become_one() {
        assert!(matches!(decode("&am", false), Entity::Wait));
        assert!(matches!(decode("& ", false), Entity::None));
        assert!(matches!(decode("&abcdefghijklmnop", false), Entity::None));
    }
}
