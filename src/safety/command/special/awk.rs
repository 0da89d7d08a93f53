//! Programs of `awk`: whether they run commands, and which files they write.

use std::iter::Peekable;
use std::str::Chars;

use crate::safety::command::word::UNKNOWN;

/// Effects of a program in addition to printing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AwkEffects {
    /// Whether it runs a command or loads code.
    pub runs: bool,
    /// Constant command lines that it pipes to or reads from.
    pub commands: Vec<String>,
    /// The files that it writes; empty for one that is computed.
    pub writes: Vec<String>,
    /// The texts in it.
    pub texts: Vec<String>,
}

/// Reads a program.
///
/// Where a slash may divide or begin an expression, and where a delimiter in brackets may end one, all readings count.
pub fn awk_effects(program: &str) -> AwkEffects {
    let mut effects = AwkEffects::default();
    let mut is_read = false;
    let mut is_doubtful = false;
    let mut readings: Vec<(String, Vec<String>)> = Vec::new();
    for (divides, has_brackets) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut reader = AwkReader::new(divides, has_brackets);
        let is_whole = reader.read(program);
        is_doubtful |= reader.is_doubtful;
        // Awk refuses a program whose last text or expression has no end, before anything runs.
        if !is_whole {
            continue;
        }
        is_read = true;
        readings.push((reader.code.clone(), reader.texts.clone()));
        let other = code_effects(&reader.code, &reader.texts);
        effects.runs |= other.runs;
        for path in other.writes {
            if !effects.writes.contains(&path) {
                effects.writes.push(path);
            }
        }
    }
    readings.dedup();
    if let Some((_, texts)) = readings.first() {
        effects.texts.clone_from(texts);
    }
    if let [(code, texts)] = readings.as_slice()
        && !is_doubtful
        && !program.contains(['\\', UNKNOWN])
        && let Some(commands) = constant_commands(code, texts)
    {
        effects.runs = false;
        effects.commands = commands;
        return effects;
    }
    let is_unknown = program.trim_start().starts_with(UNKNOWN);
    // All readings agree on which parts are texts or expressions.
    let is_clear = !is_doubtful
        && !program.contains(UNKNOWN)
        && matches!(readings.as_slice(), [(code, _)] if !code.contains('\\'));
    let runs_anywhere = !is_clear && runs_anywhere(program, is_doubtful);
    effects.runs |= !is_read || is_unknown || runs_anywhere;
    effects
}

/// Returns the commands of a program if it runs some and each of them is a constant text.
fn constant_commands(code: &str, texts: &[String]) -> Option<Vec<String>> {
    let mut words = code.split(|c| !is_word(c));
    if code.contains('@') || words.any(|word| word == "system") {
        return None;
    }
    let mut commands = Vec::new();
    let plain = code.replace("||", "  ");
    for (at, pipe) in plain.match_indices('|') {
        let after = plain.get(at + pipe.len()..)?.trim_start_matches(' ');
        if !after.starts_with("getline") {
            commands.push(literal(after, texts));
            continue;
        }
        let before = plain.get(..at)?.trim_end().strip_suffix('"')?;
        let (before, number) = before.rsplit_once('"')?;
        let is_whole =
            before.trim_end().is_empty() || before.trim_end().ends_with(['{', ';', '(', '}']);
        commands.push(
            texts
                .get(number.parse::<usize>().ok()?)
                .filter(|_| is_whole)?
                .clone(),
        );
    }
    let is_known = !commands.is_empty() && commands.iter().all(|command| !command.is_empty());
    is_known.then_some(commands)
}

/// Whether the code of a program, its texts replaced by numbers, runs a command; and what it writes.
fn code_effects(code: &str, texts: &[String]) -> AwkEffects {
    let mut effects = AwkEffects {
        runs: code.contains('@') || code.replace("||", "").contains('|'),
        ..AwkEffects::default()
    };
    // The open parentheses since `print`, in a statement that prints.
    let mut depth: Option<i32> = None;
    let mut last = '\n';
    let mut word_start = None;
    for (at, c) in code.char_indices().chain([(code.len(), '\n')]) {
        match (is_word(c), word_start) {
            (true, None) => word_start = Some(at),
            (false, Some(start)) => {
                match code.get(start..at).unwrap_or_default() {
                    "system" => effects.runs = true,
                    "print" | "printf" => depth = Some(0),
                    _ => {}
                }
                word_start = None;
            }
            _ => {}
        }
        if let Some(open) = depth {
            depth = match c {
                '(' | '[' => Some(open + 1),
                ')' | ']' => Some(open - 1),
                ';' | '}' if open <= 0 => None,
                // A line continues after these.
                '\n' if open <= 0 && !matches!(last, ',' | '&' | '|') => None,
                '>' if open <= 0 => {
                    let target = code.get(at + 1..).unwrap_or_default();
                    let target = target.trim_start_matches('>').trim_start();
                    effects.writes.push(literal(target, texts));
                    None
                }
                _ => Some(open),
            };
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    effects
}

/// Whether a text contains, anywhere, a construct that runs commands in awk. A floor below the other readings.
fn runs_anywhere(program: &str, is_doubtful: bool) -> bool {
    let after = |at: usize| {
        let rest = program.get(at..).unwrap_or_default();
        rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\\')
    };
    let calls = program.match_indices("system").any(|(at, word)| {
        let before = program.get(..at).unwrap_or_default();
        !before.ends_with(is_word) && after(at + word.len()).starts_with('(')
    });
    let pipes = program.match_indices('|').any(|(at, pipe)| {
        let next = after(at + pipe.len());
        program.get(at..).is_some_and(|rest| rest.starts_with("|&"))
            || next.starts_with("getline")
            || is_doubtful && next.starts_with('"')
    });
    calls || pipes
}

/// Returns the text that an expression begins with, if it is only that.
fn literal(expression: &str, texts: &[String]) -> String {
    let number = expression
        .strip_prefix('"')
        .and_then(|rest| rest.split_once('"'));
    let text = number.filter(|(_, rest)| {
        let rest = rest.trim_start();
        rest.is_empty() || rest.starts_with([';', '}'])
    });
    let text = text.and_then(|(number, _)| texts.get(number.parse::<usize>().ok()?));
    text.cloned().unwrap_or_default()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Meaning of a slash after a piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlashUse {
    Divides,
    BeginsExpression,
    /// That depends on the awk.
    Either,
}

/// Separates the code of a program from its texts, expressions and comments, in one pass.
struct AwkReader {
    divides: bool,
    has_brackets: bool,
    /// The code, each text replaced by `"N"`, its number, each expression by `0`.
    code: String,
    texts: Vec<String>,
    /// The last character that is not blank, and whether it is the second one of `++` or `--`.
    last: (char, bool),
    /// Where the last word begins in the code.
    word_start: usize,
    /// Whether the last character belongs to the word.
    in_word: bool,
    /// Whether each open parenthesis follows `if`, `while` or `for`.
    parentheses: Vec<bool>,
    closes_condition: bool,
    /// Whether there was a slash that may be either.
    is_doubtful: bool,
}

impl AwkReader {
    fn new(divides: bool, has_brackets: bool) -> AwkReader {
        AwkReader {
            divides,
            has_brackets,
            code: String::new(),
            texts: Vec::new(),
            last: ('\n', false),
            word_start: 0,
            in_word: false,
            parentheses: Vec::new(),
            closes_condition: false,
            is_doubtful: false,
        }
    }

    /// Reads a program. Returns whether each text and each expression has an end.
    fn read(&mut self, program: &str) -> bool {
        let mut chars = program.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                // A line continues after it.
                '\\' if chars.peek() == Some(&'\n') => {
                    chars.next();
                    self.push(' ');
                }
                '#' => {
                    if chars.by_ref().any(|c| c == '\n') {
                        self.push('\n');
                    }
                }
                '"' => {
                    let Some(text) = delimited(&mut chars, '"', false) else {
                        return false;
                    };
                    self.code.push_str(&format!("\"{}", self.texts.len()));
                    self.push('"');
                    self.texts.push(text);
                }
                '/' if self.begins_expression() => {
                    if delimited(&mut chars, '/', self.has_brackets).is_none() {
                        return false;
                    }
                    self.push(' ');
                    self.push('0');
                }
                c => self.push(c),
            }
        }
        true
    }

    fn push(&mut self, c: char) {
        match c {
            '(' => self
                .parentheses
                .push(matches!(self.word(), "if" | "while" | "for")),
            ')' => self.closes_condition = self.parentheses.pop().unwrap_or(true),
            _ => {}
        }
        let continues = is_word(c) && self.in_word;
        if is_word(c) && !continues {
            self.word_start = self.code.len();
        }
        // An operator of two characters has none of the next one.
        let is_double = matches!(c, '+' | '-') && self.last == (c, false) && self.code.ends_with(c);
        self.in_word = is_word(c);
        self.code.push(c);
        // The end of a line is not blank: a statement begins there.
        if c == '\n' || !c.is_whitespace() {
            self.last = (c, is_double);
        }
    }

    /// Returns the last word, if nothing but blanks follows it.
    fn word(&self) -> &str {
        match is_word(self.last.0) {
            true => self
                .code
                .get(self.word_start..)
                .unwrap_or_default()
                .trim_end(),
            false => "",
        }
    }

    fn begins_expression(&mut self) -> bool {
        let slash = match self.last {
            (c, _) if is_word(c) => match self.word() {
                "print" | "printf" | "return" | "exit" | "in" | "do" | "else" => {
                    SlashUse::BeginsExpression
                }
                "getline" | "length" | "case" | "delete" => SlashUse::Either,
                _ => SlashUse::Divides,
            },
            (')', _) if self.closes_condition => SlashUse::Either,
            (')' | ']' | '"', _) => SlashUse::Divides,
            ('+' | '-', true) => SlashUse::Either,
            _ => SlashUse::BeginsExpression,
        };
        self.is_doubtful |= slash == SlashUse::Either;
        match slash {
            SlashUse::Divides => false,
            SlashUse::BeginsExpression => true,
            SlashUse::Either => !self.divides,
        }
    }
}

/// Consumes the text before a delimiter, and the delimiter. Returns `None` if it is not in this line.
fn delimited(
    chars: &mut Peekable<Chars<'_>>,
    delimiter: char,
    has_brackets: bool,
) -> Option<String> {
    let mut text = String::new();
    let mut in_brackets = false;
    loop {
        match chars.next()? {
            '\\' => match chars.next()? {
                '\n' => {}
                c => text.push(c),
            },
            '\n' => return None,
            c if c == delimiter && !in_brackets => return Some(text),
            '[' if has_brackets && !in_brackets => {
                in_brackets = true;
                text.push('[');
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            // A class such as `[:alpha:]` ends in its own bracket.
            '[' if in_brackets && chars.peek() == Some(&':') => {
                chars.next();
                while chars.next_if(|c| c.is_ascii_alphabetic()).is_some() {}
                if chars.next_if_eq(&':').is_some() {
                    chars.next_if_eq(&']');
                }
            }
            c => {
                in_brackets &= c != ']';
                text.push(c);
            }
        }
    }
}
