//! Words of a command line, and their values as far as the text shows them.

mod names;

use std::ops::Range;

use crate::safety::protected_paths::without_braces;

pub use names::program_name;

/// Stands in a value for a part that is not known.
pub const UNKNOWN: char = '\u{1}';

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPart {
    /// Literal text.
    Text {
        /// The text, without quotes.
        text: String,
        /// Whether it was quoted.
        is_quoted: bool,
    },
    /// The value of a variable; the name is empty for one with modifiers.
    Variable {
        /// Its name.
        name: String,
        /// The text of a default or alternative: `TEXT` of `${name:-TEXT}` and `${name:+TEXT}`.
        fallback: Option<String>,
        /// How many of its first elements are left out; `None` if only some of the values are known.
        skipped: Option<usize>,
        /// Whether it was quoted.
        is_quoted: bool,
    },
    /// The output of commands.
    Substitution {
        /// The commands.
        commands: Range<usize>,
        /// Whether it was quoted.
        is_quoted: bool,
        /// `<(…)` or `>(…)`.
        is_process: bool,
    },
    /// The value of an arithmetic expression.
    Number,
    /// The elements of an array, as they are written.
    Array {
        /// The text between the parentheses.
        text: String,
    },
}

impl WordPart {
    /// Makes the part that is the whole value of a variable.
    pub fn whole(name: &str, is_quoted: bool) -> WordPart {
        WordPart::Variable {
            name: name.to_owned(),
            fallback: None,
            skipped: Some(0),
            is_quoted,
        }
    }
}

/// A word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellWord {
    parts: Vec<WordPart>,
}

/// The value of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordValue {
    /// The text, with [`UNKNOWN`] for parts that are not known.
    pub text: String,
    /// Whether an unquoted part is not known.
    pub is_open: bool,
}

impl ShellWord {
    /// Makes a word of literal text.
    pub fn literal_of(text: &str) -> ShellWord {
        let text = text.to_owned();
        ShellWord {
            parts: vec![WordPart::Text {
                text,
                is_quoted: false,
            }],
        }
    }

    /// Adds a part.
    pub fn push(&mut self, part: WordPart) {
        self.parts.push(part);
    }

    /// Returns the word behind the value of a variable, as `NAME+=WORD` appends it.
    pub fn behind_value_of(self, name: &str) -> ShellWord {
        let value = WordPart::Variable {
            name: name.to_owned(),
            fallback: Some(String::new()),
            skipped: None,
            is_quoted: true,
        };
        ShellWord {
            parts: std::iter::once(value).chain(self.parts).collect(),
        }
    }

    /// Returns the part of a word that `NAME+=` appends, if it does.
    pub fn appended(&self) -> Option<ShellWord> {
        let (first, rest) = self.parts.split_first()?;
        let is_value = |part: &WordPart| {
            let text = |text: &Option<String>| text.as_deref() == Some("");
            matches!(part, WordPart::Variable { fallback, skipped: None, .. } if text(fallback))
        };
        is_value(first).then(|| ShellWord {
            parts: rest.to_vec(),
        })
    }

    /// Returns the word with a subscript behind a variable, `$a[1]`, as a part of its value.
    pub fn with_subscripts(self) -> ShellWord {
        let mut parts: Vec<WordPart> = Vec::with_capacity(self.parts.len());
        let mut rest = self.parts.into_iter().peekable();
        while let Some(mut part) = rest.next() {
            let is_open = |part: &WordPart| matches!(part, WordPart::Text { text, .. } if text.starts_with('['));
            if let WordPart::Variable { skipped, .. } = &mut part
                && rest.peek().is_some_and(is_open)
            {
                *skipped = None;
                parts.push(part);
                // Its signs may be parts of their own.
                while let Some(WordPart::Text { text, is_quoted }) =
                    rest.next_if(|part| matches!(part, WordPart::Text { .. }))
                {
                    if let Some((_, text)) = text.split_once(']') {
                        let text = text.to_owned();
                        parts.push(WordPart::Text { text, is_quoted });
                        break;
                    }
                }
                continue;
            }
            parts.push(part);
        }
        ShellWord { parts }
    }

    /// Returns its parts.
    pub fn parts(&self) -> &[WordPart] {
        &self.parts
    }

    /// Returns the commands whose output is part of the word.
    pub fn substitutions(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Substitution {
                commands,
                is_process,
                ..
            } => Some((commands.clone(), *is_process)),
            _ => None,
        })
    }

    /// Returns the names of the variables whose value is part of the word.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Variable { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the elements of an array, without quotes. Those that a substitution gives are not known.
    pub fn elements(&self) -> Option<Vec<String>> {
        let texts = self.parts.iter().filter_map(|part| match part {
            WordPart::Array { text } => Some(split_quoted(text)),
            _ => None,
        });
        let elements: Vec<String> = texts.flatten().collect();
        (!elements.is_empty()).then_some(elements)
    }

    /// Returns the name of the variable whose value is all of the word.
    pub fn sole_variable(&self) -> Option<&str> {
        self.sole_list()
            .filter(|(_, skipped)| *skipped == 0)
            .map(|(name, _)| name)
    }

    /// Returns the name of the variable whose elements are the word, and how many of the first are left out.
    pub fn sole_list(&self) -> Option<(&str, usize)> {
        let is_empty =
            |part: &&WordPart| matches!(part, WordPart::Text { text, .. } if text.is_empty());
        let mut parts = self.parts.iter().filter(|part| !is_empty(part));
        match (parts.next(), parts.next()) {
            (
                Some(WordPart::Variable {
                    name,
                    fallback: None,
                    skipped: Some(skipped),
                    ..
                }),
                None,
            ) => Some((name, *skipped)),
            _ => None,
        }
    }

    /// Returns the words of the lists in braces, or `None` if there are too many. There are none in quoted text.
    pub fn without_braces(&self, home: &str, cwd: &str) -> Option<Vec<String>> {
        const SIGNS: [(char, char); 3] = [('{', '\u{2}'), ('}', '\u{3}'), (',', '\u{4}')];
        let masked = self.parts.iter().map(|part| match part {
            WordPart::Text {
                text,
                is_quoted: true,
            } => {
                let hidden = |text: String, (sign, mask): &(char, char)| {
                    text.replace(*sign, &mask.to_string())
                };
                WordPart::Text {
                    text: SIGNS.iter().fold(text.clone(), hidden),
                    is_quoted: true,
                }
            }
            part => part.clone(),
        });
        // Control characters are not shown in a value.
        let parts: Vec<WordPart> = masked.collect();
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                WordPart::Text { text: own, .. } if at > 0 || !own.starts_with('~') => {
                    text.push_str(own)
                }
                part => {
                    let word = ShellWord {
                        parts: vec![part.clone()],
                    };
                    text.push_str(&word.value(home, cwd).text);
                }
            }
        }
        let words = without_braces(&text, true)?;
        let shown = |word: String| {
            SIGNS.iter().fold(word, |word, (sign, mask)| {
                word.replace(*mask, &sign.to_string())
            })
        };
        Some(words.into_iter().map(shown).collect())
    }

    /// Whether an unquoted part has braces.
    pub fn has_braces(&self) -> bool {
        self.parts.iter().any(
            |part| matches!(part, WordPart::Text { text, is_quoted: false } if text.contains('{')),
        )
    }

    /// Returns the word with the values of variables and substitutions in their place, or `None` if none is known. `value` gets the
    /// index of a part.
    pub fn filled(&self, value: impl Fn(usize) -> Option<String>) -> Option<ShellWord> {
        let mut is_filled = false;
        let fill = |(at, part): (usize, &WordPart)| match part {
            WordPart::Variable { is_quoted, .. } | WordPart::Substitution { is_quoted, .. } => {
                match value(at) {
                    Some(text) => {
                        is_filled = true;
                        WordPart::Text {
                            text,
                            is_quoted: *is_quoted,
                        }
                    }
                    None => part.clone(),
                }
            }
            part => part.clone(),
        };
        let parts = self.parts.iter().enumerate().map(fill).collect();
        is_filled.then_some(ShellWord { parts })
    }

    /// Whether a part of the word is quoted.
    pub fn is_quoted(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| {
            matches!(
                part,
                WordPart::Text {
                    is_quoted: true,
                    ..
                } | WordPart::Variable {
                    is_quoted: true,
                    ..
                }
            )
        })
    }

    /// Returns the value, with `~`, `$HOME` and `$PWD` replaced, and `$XDG_CONFIG_HOME` by its default.
    pub fn value(&self, home: &str, cwd: &str) -> WordValue {
        let mut value = WordValue {
            text: String::new(),
            is_open: false,
        };
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                WordPart::Text {
                    text,
                    is_quoted: false,
                } if at == 0 && (text == "~" || text.starts_with("~/")) => {
                    value.text.push_str(home);
                    value.text.push_str(text.trim_start_matches('~'));
                }
                WordPart::Text { text, .. } => {
                    let plain =
                        text.chars()
                            .map(|c| match c.is_control() && !matches!(c, '\n' | '\t') {
                                true => UNKNOWN,
                                false => c,
                            });
                    value.text.extend(plain);
                }
                WordPart::Variable { name, .. } if name == "HOME" => value.text.push_str(home),
                WordPart::Variable { name, .. } if name == "XDG_CONFIG_HOME" => {
                    value.text.push_str(home);
                    value.text.push_str("/.config");
                }
                WordPart::Variable { name, .. } if name == "PWD" => value.text.push_str(cwd),
                WordPart::Variable { is_quoted, .. } | WordPart::Substitution { is_quoted, .. } => {
                    value.text.push(UNKNOWN);
                    value.is_open |= !is_quoted;
                }
                WordPart::Number => value.text.push('1'),
                WordPart::Array { .. } => {
                    value.text.push(UNKNOWN);
                    value.is_open = true;
                }
            }
        }
        value
    }
}

/// Splits a text at its spaces that are not quoted, and removes the quotes.
fn split_quoted(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_with(String::new);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => word.get_or_insert_with(String::new).extend(chars.next()),
            (_, c) => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.extend(word);
    words
}

/// Removes the backslashes of unquoted text.
pub fn unescape(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

/// Removes the backslashes of text in `"…"`.
pub fn unescape_quoted(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('$' | '`' | '"' | '\\')) => out.extend(chars.next()),
            (c, _) => out.push(c),
        }
    }
    out
}

/// Decodes the text of `$'…'`. An escape of a character by its number becomes [`UNKNOWN`] unless it is plain ASCII.
pub fn decode_escapes(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (radix, longest) = match chars.next() {
            Some('n') => {
                out.push('\n');
                continue;
            }
            Some('t') => {
                out.push('\t');
                continue;
            }
            Some('x') => (16, 2),
            Some('u') => (16, 4),
            Some('U') => (16, 8),
            Some(c) if c.is_digit(8) => {
                let mut number = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    if let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) {
                        number = number * 8 + digit;
                        chars.next();
                    }
                }
                out.push(plain_char(number));
                continue;
            }
            Some(c @ ('\\' | '\'' | '"' | '?')) => {
                out.push(c);
                continue;
            }
            _ => {
                out.push(UNKNOWN);
                continue;
            }
        };
        let mut number = 0u32;
        for _ in 0..longest {
            if let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) {
                number = number.wrapping_mul(radix).wrapping_add(digit);
                chars.next();
            }
        }
        out.push(plain_char(number));
    }
    out
}

fn plain_char(number: u32) -> char {
    let plain = char::from_u32(number).filter(|c| c.is_ascii() && !c.is_control());
    plain.unwrap_or(UNKNOWN)
}
