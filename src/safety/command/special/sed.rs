//! Scripts of `sed`: whether they run commands, and which files they write.

/// Effects of a script in addition to printing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SedEffects {
    /// Whether it runs a command: `e`, or `s///e`.
    pub runs: bool,
    /// The commands, as far as they are literal.
    pub commands: Vec<String>,
    /// The files that it writes: `w`, `W`, `s///w`.
    pub writes: Vec<String>,
    /// Whether it deletes lines that are not blank.
    deletes: bool,
    /// Whether it prints lines.
    prints: bool,
    /// Whether it does anything else.
    changes: bool,
}

impl SedEffects {
    /// Whether a file that the script changes in place only loses lines: it deletes, or prints some of them without the others.
    pub fn only_deletes(&self, is_quiet: bool) -> bool {
        !self.changes && (self.deletes || is_quiet && self.prints)
    }
}

/// Reads a script. Returns `None` if it is not understood.
pub fn sed_effects(script: &str) -> Option<SedEffects> {
    // A delimiter in brackets ends the expression in older versions of GNU sed, but not in others.
    let mut all = read(script, true).ok()?;
    match read(script, false) {
        Ok(other) => {
            all.runs |= other.runs;
            all.writes.extend(other.writes);
        }
        // `s/[/]/x/` is an error there. The files before the error are opened nevertheless.
        Err(failure) if failure.is_cut => all.writes.extend(failure.writes),
        Err(_) => return None,
    }
    Some(all)
}

/// Whether an address is an expression for blank lines only.
fn is_blank(address: &str) -> bool {
    let expression = address.trim().trim_matches('/');
    let mut plain = expression.to_owned();
    for part in ["[[:space:]]", "[[:blank:]]", "[ \\t]", "\\s", "\\t", " "] {
        plain = plain.replace(part, "");
    }
    expression.starts_with('^')
        && plain
            .chars()
            .all(|c| matches!(c, '^' | '$' | '*' | '+' | '\\'))
        && plain.ends_with('$')
}

/// Whether a substitution, without its `s`, replaces whole lines by nothing.
pub fn empties_lines(substitution: &str) -> bool {
    let mut chars = substitution.chars();
    let Some(delimiter) = chars.next().filter(|c| !c.is_alphanumeric() && *c != '\\') else {
        return false;
    };
    let mut parts = chars.as_str().split(delimiter);
    let (Some(expression), Some("")) = (parts.next(), parts.next()) else {
        return false;
    };
    let expression = expression.trim_start_matches('^');
    let expression = expression.trim_end_matches('$').trim_end_matches("\\n");
    matches!(
        expression,
        ".*" | ".+" | ".\\+" | ".*?" | "(.*)" | "[^\\n]*" | "[\\s\\S]*"
    )
}

/// Why a script was not read to its end.
#[derive(Default)]
struct SedFailure {
    /// Whether an unknown flag or command follows an expression that ended in brackets.
    is_cut: bool,
    /// The files that are written up to there.
    writes: Vec<String>,
}

fn read(script: &str, has_brackets: bool) -> Result<SedEffects, SedFailure> {
    let mut effects = SedEffects::default();
    let mut reader = SedReader {
        rest: script,
        has_brackets,
        is_cut: false,
        is_invalid: false,
    };
    match reader.read(&mut effects) {
        Some(()) => Ok(effects),
        None => Err(SedFailure {
            is_cut: reader.is_cut && reader.is_invalid,
            writes: effects.writes,
        }),
    }
}

struct SedReader<'a> {
    rest: &'a str,
    /// Whether `[/]` is one expression.
    has_brackets: bool,
    /// Whether an expression ended in brackets.
    is_cut: bool,
    /// Whether there was a flag or a command that no sed has.
    is_invalid: bool,
}

impl<'a> SedReader<'a> {
    fn read(&mut self, effects: &mut SedEffects) -> Option<()> {
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '}'));
            if self.rest.is_empty() {
                return Some(());
            }
            let start = self.rest;
            self.address()?;
            self.skip(char::is_whitespace);
            if self.take(',') {
                self.skip(char::is_whitespace);
                self.address()?;
            }
            let address = start.strip_suffix(self.rest).unwrap_or(start);
            let behind = self.rest;
            self.skip(|c| c.is_whitespace() || c == '!');
            let is_inverted = behind
                .strip_suffix(self.rest)
                .is_some_and(|skipped| skipped.contains('!'));
            let command = self.next()?;
            match command {
                'd' | 'D' | 'z' => effects.deletes |= is_inverted || !is_blank(address),
                'p' | 'P' => effects.prints = true,
                '{' | '}' | 'n' | 'N' | '#' => {}
                // The rest of the input is lost.
                'q' | 'Q' => effects.deletes = true,
                's' => {
                    let empties = empties_lines(self.rest);
                    effects.deletes |= empties;
                    effects.changes |= !empties;
                }
                _ => effects.changes = true,
            }
            match command {
                '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P'
                | 'x' | 'z' | 'F' => {}
                'q' | 'Q' | 'l' | 'L' => self.skip(|c| c == ' ' || c.is_ascii_digit()),
                ':' | 'b' | 't' | 'T' => {
                    self.until(|c| matches!(c, ';' | '\n' | '}'));
                }
                '#' | 'r' | 'R' | 'v' => {
                    self.line();
                }
                'a' | 'i' | 'c' => self.text(),
                'e' => {
                    effects.runs = true;
                    effects.commands.push(self.line().trim().to_owned());
                }
                'w' | 'W' => effects.writes.push(self.line().trim().to_owned()),
                'y' => {
                    let delimiter = self.next()?;
                    self.part(delimiter, false)?;
                    self.part(delimiter, false)?;
                }
                's' => self.substitution(effects)?,
                _ => return self.invalid(),
            }
        }
    }

    fn substitution(&mut self, effects: &mut SedEffects) -> Option<()> {
        let delimiter = self.next()?;
        self.part(delimiter, true)?;
        let behind = self.rest;
        self.part(delimiter, false)?;
        let replacement = behind.strip_suffix(self.rest).unwrap_or_default();
        let replacement = replacement.trim_end_matches(delimiter);
        while let Some(flag) = self.rest.chars().next() {
            match flag {
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                'e' => {
                    effects.runs = true;
                    effects.commands.push(replacement.to_owned());
                }
                'w' => {
                    self.next();
                    effects.writes.push(self.line().trim().to_owned());
                    return Some(());
                }
                c if c.is_whitespace() || matches!(c, ';' | '}' | '#') => return Some(()),
                _ => return self.invalid(),
            }
            self.next();
        }
        Some(())
    }

    /// Skips a line number, `$` or an expression, if there is one. A part that is not known counts as a number.
    fn address(&mut self) -> Option<()> {
        let is_number = |c: char| {
            c.is_ascii_digit() || matches!(c, '$' | '+' | '~') || c == super::super::word::UNKNOWN
        };
        match self.rest.chars().next() {
            Some('/') => {
                self.next();
                self.part('/', true)?;
            }
            Some('\\') => {
                self.next();
                let delimiter = self.next()?;
                self.part(delimiter, true)?;
            }
            _ => {
                self.skip(is_number);
                return Some(());
            }
        }
        self.skip(|c| matches!(c, 'I' | 'M'));
        Some(())
    }

    /// Skips text up to a delimiter, and the delimiter.
    fn part(&mut self, delimiter: char, is_expression: bool) -> Option<()> {
        let mut in_brackets = false;
        loop {
            match self.next()? {
                // In brackets, a backslash is one.
                '\\' if !in_brackets || !self.has_brackets => drop(self.next()?),
                c if c == delimiter && !(in_brackets && self.has_brackets) => {
                    self.is_cut |= in_brackets;
                    return Some(());
                }
                '[' if is_expression && !in_brackets => {
                    in_brackets = true;
                    // The first bracket in brackets is one. None of both may be the delimiter of the other reading.
                    let is_plain = self.has_brackets || !matches!(delimiter, '^' | ']');
                    if is_plain {
                        self.take('^');
                        self.take(']');
                    }
                }
                ']' => in_brackets = false,
                _ => {}
            }
        }
    }

    /// Skips the text of `a`, `i` and `c`: a line continues after a backslash, unless another one escapes it.
    fn text(&mut self) {
        loop {
            let line = self.line();
            let backslashes = line.len() - line.trim_end_matches('\\').len();
            if backslashes.is_multiple_of(2) || self.rest.is_empty() {
                return;
            }
        }
    }

    fn invalid(&mut self) -> Option<()> {
        self.is_invalid = true;
        None
    }

    fn line(&mut self) -> &'a str {
        let line = self.until(|c| c == '\n');
        self.next();
        line
    }

    fn until(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        let (start, rest) = self
            .rest
            .split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        start
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }
}
