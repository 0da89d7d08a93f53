//! Texts and expressions in code, whose words are data.

use super::CodeLanguage;

/// Words with which code may run a text that it has, although each of them only computes.
const EVALUATING: [&str; 8] = [
    "&",
    "->",
    "attrgetter",
    "get_type_hints",
    "make_dataclass",
    "methodcaller",
    "SIG",
    "sort",
];

/// Returns code without its texts and expressions, or `None` if it is not certain where they end or that they are data.
pub(super) fn without_literals(code: &str, language: CodeLanguage) -> Option<String> {
    let mut reader = LiteralReader {
        rest: code,
        plain: String::with_capacity(code.len()),
    };
    match language {
        CodeLanguage::Python => reader.python()?,
        CodeLanguage::Perl => reader.perl()?,
        _ => return None,
    }
    let plain = reader.plain.replace("&&", "");
    let evaluates = EVALUATING.iter().any(|word| plain.contains(word));
    (!evaluates).then_some(plain)
}

struct LiteralReader<'a> {
    rest: &'a str,
    plain: String,
}

impl<'a> LiteralReader<'a> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..)?;
        Some(c)
    }

    /// Returns the text before a delimiter, and skips the delimiter.
    fn until(&mut self, delimiter: char) -> Option<&'a str> {
        let text = self.rest;
        let mut is_escaped = false;
        for (at, c) in text.char_indices() {
            if c == delimiter && !is_escaped {
                self.rest = text.get(at + c.len_utf8()..)?;
                return text.get(..at);
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        None
    }

    /// Returns the word that ends here, with the character before it.
    fn word(&self) -> (&str, Option<char>) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = self.plain.trim_end_matches(is_word);
        let word = self.plain.get(before.len()..).unwrap_or_default();
        (word, before.chars().next_back())
    }

    fn python(&mut self) -> Option<()> {
        while let Some(c) = self.next() {
            match c {
                '#' => return None,
                '\'' | '"' => {
                    let prefix = self.word().0.to_ascii_lowercase();
                    // The text in braces is code.
                    let is_plain = matches!(prefix.as_str(), "" | "r" | "b" | "u" | "rb" | "br");
                    let text = self.until(c)?;
                    let is_triple = text.is_empty() && self.rest.starts_with(c);
                    if is_triple || text.contains('\n') || !is_plain {
                        return None;
                    }
                    // A short one may be the mode of a file.
                    let shown = if text.len() < 4 { text } else { "" };
                    self.plain.push_str(&format!("{c}{shown}{c}"));
                }
                c => self.plain.push(c),
            }
        }
        Some(())
    }

    fn perl(&mut self) -> Option<()> {
        while let Some(c) = self.next() {
            let (word, before) = self.word();
            let is_variable = matches!(before, Some('$' | '@' | '%' | '&' | '>' | '{'));
            let quote = Some(word).filter(|_| !is_variable);
            let quote = quote
                .filter(|word| matches!(*word, "q" | "qq" | "qr" | "qw" | "m" | "s" | "y" | "tr"));
            match c {
                // A variable of this name.
                '\'' | '"' if self.plain.ends_with(['$', '@', '%', '&']) => return None,
                // `main'unlink` is a name.
                '\'' if self
                    .plain
                    .ends_with(|c: char| c.is_alphanumeric() || c == '_') =>
                {
                    return None;
                }
                // A text without code around it, as documentation.
                '=' if self.plain.ends_with('\n') => return None,
                // Comments and here-documents, `$#x` aside.
                '#' if !self.plain.ends_with('$') => return None,
                '<' if self.rest.starts_with('<') => return None,
                '\'' if quote.is_none() => {
                    self.until(c)?;
                    self.plain.push_str("\"\"");
                }
                '"' if quote.is_none() => self.data(c)?,
                '/' if quote.is_none() => match self.begins_expression()? {
                    true => self.data(c)?,
                    false => self.plain.push(c),
                },
                '/' | '|' | '!' | '~' | '#' | '(' | '{' | '[' | '<' | '%' | ':'
                    if quote.is_some() =>
                {
                    let name = word.to_owned();
                    self.quoted(c, &name)?;
                }
                // Its delimiter may be any character.
                c if quote.is_some() && !c.is_alphanumeric() && c != '_' => return None,
                c => self.plain.push(c),
            }
        }
        Some(())
    }

    /// Whether a slash begins an expression: `None` if it may as well divide.
    fn begins_expression(&self) -> Option<bool> {
        const BEFORE: [&str; 9] = [
            "and", "grep", "if", "map", "not", "or", "split", "unless", "while",
        ];
        let plain = self.plain.trim_end();
        match plain.chars().next_back() {
            None | Some('(' | ',' | '=' | '~' | '!' | '&' | '|' | '{' | ';' | '?' | ':') => {
                Some(true)
            }
            Some('}' | ')' | ']') => None,
            Some(_) => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let before = plain.trim_end_matches(is_word);
                let word = plain.get(before.len()..).unwrap_or_default();
                match BEFORE.contains(&word) && !before.ends_with(['$', '@', '%']) {
                    true => Some(true),
                    // `$x / 2`, `print /x/`
                    false => before.ends_with('$').then_some(false),
                }
            }
        }
    }

    /// Reads the parts of `q(…)`, `m{…}`, `s/…/…/` and their kind.
    fn quoted(&mut self, open: char, name: &str) -> Option<()> {
        let close = match open {
            '(' => ')',
            '{' => '}',
            '[' => ']',
            '<' => '>',
            c => c,
        };
        if close != open && !matches!(name, "q" | "qq" | "qr" | "qw" | "m") {
            return None;
        }
        let end = self.plain.len() - name.len();
        self.plain.truncate(end);
        let has_two = matches!(name, "s" | "y" | "tr");
        let replacement = has_two.then(|| self.rest.split(close).nth(1)).flatten();
        let mut flags = self.rest;
        for _ in 0..1 + usize::from(has_two) {
            let text = self.until(close)?;
            if close != open && text.contains(open) || name != "q" && runs(text) {
                return None;
            }
            flags = self.rest;
        }
        let flags = flags.split(|c: char| !c.is_ascii_alphabetic()).next();
        // The replacement is code.
        if replacement.is_some() && name == "s" && flags?.contains('e') {
            return None;
        }
        self.plain.push_str("\"\"");
        Some(())
    }

    /// Reads a text in which variables are expanded.
    fn data(&mut self, delimiter: char) -> Option<()> {
        let text = self.until(delimiter)?;
        self.plain.push_str("\"\"");
        (!runs(text)).then_some(())
    }
}

/// Whether a text or an expression of Perl has code: `@{[…]}`, `${\\…}`, `(?{…})`.
fn runs(text: &str) -> bool {
    ["@{", "${", "?{", "?p{", "??", "$$"]
        .iter()
        .any(|start| text.contains(start))
        || text.contains("->")
        || text.contains('$') && text.contains(['[', '{'])
}
