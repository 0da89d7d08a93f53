//! Scripts of `sed`: whether they run commands, and which files they write.

/// What a script does besides printing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SedEffects {
    /// Whether it runs a command: `e`, or `s///e`.
    pub runs: bool,
    /// The files that it writes: `w`, `W`, `s///w`.
    pub writes: Vec<String>,
}

/// Reads a script. Returns `None` if it is not understood.
pub fn sed_effects(script: &str) -> Option<SedEffects> {
    // A delimiter in brackets ends the expression in GNU sed, but not in others.
    let readings = [false, true].map(|has_brackets| {
        let rest = script;
        SedReader { rest, has_brackets }.effects()
    });
    let mut readings = readings.into_iter().flatten();
    let mut all = readings.next()?;
    for other in readings {
        all.runs |= other.runs;
        all.writes.extend(other.writes);
    }
    Some(all)
}

struct SedReader<'a> {
    rest: &'a str,
    /// Whether `[/]` is one expression.
    has_brackets: bool,
}

impl<'a> SedReader<'a> {
    fn effects(mut self) -> Option<SedEffects> {
        let mut effects = SedEffects::default();
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '}'));
            if self.rest.is_empty() {
                return Some(effects);
            }
            self.address()?;
            self.skip(char::is_whitespace);
            if self.take(',') {
                self.skip(char::is_whitespace);
                self.address()?;
            }
            self.skip(|c| c.is_whitespace() || c == '!');
            match self.next()? {
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
                    self.line();
                }
                'w' | 'W' => effects.writes.push(self.line().trim().to_owned()),
                'y' => {
                    let delimiter = self.next()?;
                    self.part(delimiter, false)?;
                    self.part(delimiter, false)?;
                }
                's' => self.substitution(&mut effects)?,
                _ => return None,
            }
        }
    }

    fn substitution(&mut self, effects: &mut SedEffects) -> Option<()> {
        let delimiter = self.next()?;
        self.part(delimiter, true)?;
        self.part(delimiter, false)?;
        while let Some(flag) = self.rest.chars().next() {
            match flag {
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                'e' => effects.runs = true,
                'w' => {
                    self.next();
                    effects.writes.push(self.line().trim().to_owned());
                    return Some(());
                }
                c if c.is_whitespace() || matches!(c, ';' | '}' | '#') => return Some(()),
                _ => return None,
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
                '\\' => drop(self.next()?),
                c if c == delimiter && !in_brackets => return Some(()),
                '[' if is_expression && self.has_brackets && !in_brackets => {
                    in_brackets = true;
                    self.take('^');
                    self.take(']');
                }
                ']' => in_brackets = false,
                _ => {}
            }
        }
    }

    /// Skips the text of `a`, `i` and `c`: lines that end in a backslash go on.
    fn text(&mut self) {
        loop {
            let line = self.line();
            if !line.ends_with('\\') || self.rest.is_empty() {
                return;
            }
        }
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
