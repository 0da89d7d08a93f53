//! HTML entities. A numeric entity can name any character and so could bypass the text sink: only characters that are
//! plainly visible are decoded, and every other entity is shown as written.

/// Result of matching an entity at an `&`.
pub(super) enum EntityMatch {
    /// A decoded character and the length of its entity in bytes.
    Char(char, usize),
    /// Not an entity: the `&` is text.
    None,
    /// More text is needed.
    Wait,
}

/// Maximum length of a decoded entity.
const MAX_LEN: usize = 12;

/// Named entities that occur in prose.
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

/// Decodes the entity at the start of `s`, which begins with `&`.
pub(super) fn decode(s: &str, eof: bool) -> EntityMatch {
    let body = &s[1..];
    let len = body
        .bytes()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == b'#')
        .take(MAX_LEN)
        .count();
    match body.as_bytes().get(len) {
        None if eof || len == MAX_LEN => EntityMatch::None,
        None => EntityMatch::Wait,
        Some(b';') if len < MAX_LEN => {
            character(&body[..len]).map_or(EntityMatch::None, |c| EntityMatch::Char(c, len + 2))
        }
        Some(_) => EntityMatch::None,
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

/// Whether a character is visible and cannot be taken for something else.
fn visible(c: char) -> bool {
    match c {
        // Alphabetic characters that take columns but show nothing.
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
            EntityMatch::Char(c, len) => {
                assert_eq!(len, s.len());
                Some(c)
            }
            _ => None,
        }
    }

    #[test]
    fn decodes_names_and_numbers() {
        assert_eq!(shown("&amp;"), Some('&'));
        assert_eq!(shown("&rArr;"), Some('⇒'));
        assert_eq!(shown("&#65;"), Some('A'));
        assert_eq!(shown("&#x4e2d;"), Some('中'));
        assert_eq!(shown("&#x1F600;"), Some('😀'));
    }

    #[test]
    fn invisible_characters_stay_as_written() {
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
    fn waits_only_for_a_possible_entity() {
        assert!(matches!(decode("&am", false), EntityMatch::Wait));
        assert!(matches!(decode("& ", false), EntityMatch::None));
        assert!(matches!(
            decode("&abcdefghijklmnop", false),
            EntityMatch::None
        ));
    }
}
