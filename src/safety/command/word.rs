//! Words of a command line, and their values as far as the text shows them.

use std::ops::Range;

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

    /// Returns the elements of an array, without quotes, as far as spaces tell.
    pub fn elements(&self) -> Option<Vec<String>> {
        let texts = self.parts.iter().filter_map(|part| match part {
            WordPart::Array { text } => Some(text.split_whitespace()),
            _ => None,
        });
        let elements: Vec<String> = texts
            .flatten()
            .map(|element| element.replace(['\'', '"'], ""))
            .collect();
        (!elements.is_empty()).then_some(elements)
    }

    /// Returns the name of the variable that is all of the word.
    pub fn sole_variable(&self) -> Option<&str> {
        let is_empty =
            |part: &&WordPart| matches!(part, WordPart::Text { text, .. } if text.is_empty());
        let mut parts = self.parts.iter().filter(|part| !is_empty(part));
        match (parts.next(), parts.next()) {
            (Some(WordPart::Variable { name, .. }), None) => Some(name),
            _ => None,
        }
    }

    /// Returns the text of a word without quotes and variables.
    pub fn plain_text(&self) -> Option<String> {
        let text = |part: &WordPart| match part {
            WordPart::Text {
                text,
                is_quoted: false,
            } => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().map(text).collect()
    }

    /// Returns the word with the values of variables in their place, or `None` if none of its variables is known.
    pub fn filled(&self, value: impl Fn(&str) -> Option<String>) -> Option<ShellWord> {
        let mut is_filled = false;
        let fill = |part: &WordPart| match part {
            WordPart::Variable {
                name,
                fallback,
                is_quoted,
            } => match value(name).or_else(|| fallback.clone()) {
                Some(text) => {
                    is_filled = true;
                    WordPart::Text {
                        text,
                        is_quoted: *is_quoted,
                    }
                }
                None => part.clone(),
            },
            part => part.clone(),
        };
        let parts = self.parts.iter().map(fill).collect();
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

/// Programs that Homebrew and the BSDs install with a `g` before their name.
const GNU_NAMES: &[&str] = &[
    "base64",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "fmt",
    "fold",
    "grep",
    "head",
    "install",
    "join",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nl",
    "nproc",
    "numfmt",
    "paste",
    "printf",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shred",
    "shuf",
    "sleep",
    "sort",
    "stat",
    "tac",
    "tail",
    "tee",
    "touch",
    "tr",
    "truncate",
    "uname",
    "uniq",
    "unlink",
    "wc",
    "yes",
];

/// Returns the name of a program without a directory in which programs are installed.
pub fn program_name(path: &str) -> &str {
    const PLACES: [&str; 12] = [
        "/bin",
        "/usr/bin",
        "/usr/local/bin",
        "/sbin",
        "/usr/sbin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/.local/bin",
        "/.cargo/bin",
        "node_modules/.bin",
        "venv/bin",
        "/vendor/bin",
    ];
    let name = match path.rsplit_once('/') {
        Some((directory, name))
            if PLACES.iter().any(|place| {
                directory == *place
                    || !place.starts_with("/bin")
                        && !place.starts_with("/sbin")
                        && directory.ends_with(place)
            }) =>
        {
            name
        }
        _ => path,
    };
    // The module `zsh/files` has builtins of the names of these programs.
    match name.strip_prefix("zf_").or(name.strip_prefix('g')) {
        Some(plain) if GNU_NAMES.contains(&plain) => plain,
        _ => name,
    }
}
