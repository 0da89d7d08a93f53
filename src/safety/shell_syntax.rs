//! Estimates whether zsh would ask for another line after a text: an open quote, loop, here-document or operator.
//!
//! This only decides how many lines of an answer belong to a command. zsh itself parses the command before the person is
//! asked, so a wrong estimate cannot make anything run. Short forms such as `while LIST { LIST }` are recognized;
//! `if LIST COMMAND` is not.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::str::Chars;

/// Longest reserved word, in bytes; longer words are not kept.
const LONGEST_WORD: usize = 8;

/// A construct that is open at a point of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Construct {
    /// `'…'`
    Single,
    /// `$'…'`
    Dollar,
    /// `"…"`
    Double,
    Backquote,
    /// `${…}`; whether an apostrophe in it is a quote.
    Parameter(bool),
    /// `$(…)` and process substitutions; whether a command is expected after it.
    Substitution(bool),
    Subshell,
    /// The parentheses of an array, a pattern or `[[ ]]`; whether a command is expected after them.
    Group(bool),
    /// One parenthesis of `((…))`.
    Arithmetic,
    /// `[[ … ]]`
    Condition,
    /// `{ … }`
    Brace,
    /// `if` before and after its `then`.
    If,
    Then,
    /// `while` and `until`, before their body.
    While,
    /// `for` and `select`, before their body.
    For,
    Foreach,
    Do,
    /// `case` before its `in`, before a pattern, and in a branch.
    Case,
    Pattern,
    Branch,
}

/// Scans a command line by line.
#[derive(Debug, Default)]
pub struct SyntaxScanner {
    open: Vec<Construct>,
    /// Delimiters of here-documents, in order, and whether leading tabs are removed.
    heredocs: VecDeque<(String, bool)>,
    /// The lines belong to the first of `heredocs`.
    in_heredoc: bool,
    /// The unquoted characters of the current word, and whether the word has quotes or expansions.
    word: String,
    is_quoted: bool,
    /// The current word does not name a command.
    is_argument: bool,
    /// After an operator, a function's name or `\` that requires more.
    is_dangling: bool,
    /// The next word is the number of `repeat` or the name of a `function`.
    is_operand: bool,
}

impl SyntaxScanner {
    /// Returns whether the lines so far are a complete command.
    pub fn is_complete(&self) -> bool {
        self.open.is_empty() && self.heredocs.is_empty() && !self.is_dangling
    }

    /// Returns whether the next line belongs to a here-document.
    pub fn is_in_heredoc(&self) -> bool {
        self.in_heredoc
    }

    /// Handles one line, without its LF.
    pub fn push_line(&mut self, line: &str) {
        if self.in_heredoc {
            let ended = self.heredocs.front().is_some_and(|(delimiter, has_tabs)| {
                let line = if *has_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                line == delimiter
            });
            if ended {
                self.heredocs.pop_front();
                self.in_heredoc = !self.heredocs.is_empty();
            }
            return;
        }
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match self.open.last() {
                Some(Construct::Single) => self.close_at(c == '\''),
                Some(Construct::Dollar) => match c {
                    '\\' => drop(chars.next()),
                    _ => self.close_at(c == '\''),
                },
                Some(Construct::Backquote) => match c {
                    '\\' => drop(chars.next()),
                    _ => self.close_at(c == '`'),
                },
                Some(Construct::Double | Construct::Parameter(_)) => self.in_text(c, &mut chars),
                _ => {
                    if c == '#' && self.starts_comment() {
                        break;
                    }
                    if c == '\\' && chars.peek().is_none() {
                        self.is_dangling = true;
                        return;
                    }
                    self.in_code(c, &mut chars);
                }
            }
        }
        if self.is_code() {
            self.end_word();
            self.is_argument = false;
            self.in_heredoc = !self.heredocs.is_empty();
        }
    }

    /// Whether the next character is code, rather than part of a quoted text.
    fn is_code(&self) -> bool {
        !matches!(
            self.open.last(),
            Some(
                Construct::Single
                    | Construct::Dollar
                    | Construct::Double
                    | Construct::Backquote
                    | Construct::Parameter(_)
            )
        )
    }

    fn starts_comment(&self) -> bool {
        let in_expression = matches!(
            self.open.last(),
            Some(Construct::Arithmetic | Construct::Condition | Construct::Group(_))
        );
        self.word.is_empty() && !self.is_quoted && !in_expression
    }

    fn close_at(&mut self, end: bool) {
        if end {
            self.open.pop();
        }
    }

    /// Marks the current word as one that is not a reserved word.
    fn quote_word(&mut self) {
        self.is_quoted = true;
        self.is_dangling = false;
    }

    fn open_quoted(&mut self, construct: Construct) {
        self.quote_word();
        self.open.push(construct);
    }

    /// Handles a character in `"…"` or `${…}`.
    fn in_text(&mut self, c: char, chars: &mut Peekable<Chars<'_>>) {
        let parameter = match self.open.last() {
            Some(Construct::Parameter(has_quotes)) => Some(*has_quotes),
            _ => None,
        };
        match (c, parameter) {
            ('\\', _) => drop(chars.next()),
            ('"', None) | ('}', Some(_)) => self.close_at(true),
            ('"', Some(_)) => self.open.push(Construct::Double),
            ('\'', Some(true)) => self.open.push(Construct::Single),
            ('`', _) => self.open.push(Construct::Backquote),
            ('$', _) => self.expansion(chars),
            _ => {}
        }
    }

    /// Handles what follows a `$`.
    fn expansion(&mut self, chars: &mut Peekable<Chars<'_>>) {
        let in_double = self.open.last() == Some(&Construct::Double)
            || self.open.last() == Some(&Construct::Parameter(false));
        match chars.peek() {
            Some('(') => {
                chars.next();
                if chars.next_if_eq(&'(').is_some() {
                    self.open.push(Construct::Arithmetic);
                    self.open.push(Construct::Arithmetic);
                } else {
                    self.open.push(Construct::Substitution(!self.is_argument));
                    self.word.clear();
                    self.is_quoted = false;
                    self.is_argument = false;
                }
            }
            Some('{') => {
                chars.next();
                self.open.push(Construct::Parameter(!in_double));
            }
            Some('\'') if !in_double => {
                chars.next();
                self.open.push(Construct::Dollar);
            }
            // `$#` and `$$` are neither a comment nor an expansion of the following text.
            Some('#' | '$') => drop(chars.next()),
            _ => {}
        }
    }

    /// Handles an unquoted character.
    fn in_code(&mut self, c: char, chars: &mut Peekable<Chars<'_>>) {
        let starts_word = self.word.is_empty() && !self.is_quoted;
        match c {
            ' ' | '\t' => self.end_word(),
            '\\' => {
                chars.next();
                self.quote_word();
            }
            '\'' => self.open_quoted(Construct::Single),
            '"' => self.open_quoted(Construct::Double),
            '`' => self.open_quoted(Construct::Backquote),
            '$' => {
                self.quote_word();
                self.expansion(chars);
            }
            '(' => self.parenthesis(starts_word, chars),
            ')' => self.close_parenthesis(),
            '<' | '>' => self.redirection(c, chars),
            ';' | '&' | '|' => self.separator(c, chars),
            '{' if starts_word
                && !self.is_argument
                && self.takes_commands()
                && chars.peek().is_none_or(|c| c.is_ascii_whitespace()) =>
            {
                // The short form of a loop or condition.
                if let Some(Construct::If | Construct::While | Construct::For) = self.open.last() {
                    self.open.pop();
                }
                self.open.push(Construct::Brace);
                self.is_dangling = false;
            }
            '}' if starts_word && self.open.last() == Some(&Construct::Brace) => {
                self.open.pop();
                self.is_argument = false;
            }
            _ if self.word.len() > LONGEST_WORD => {}
            _ => self.word.push(c),
        }
    }

    fn parenthesis(&mut self, starts_word: bool, chars: &mut Peekable<Chars<'_>>) {
        let commands = self.takes_commands();
        if starts_word && self.open.last() == Some(&Construct::Pattern) {
            // Optional: the `)` after the pattern ends it in any case.
            return;
        }
        if commands && !starts_word && chars.next_if_eq(&')').is_some() {
            // A function: its body follows.
            self.end_word();
            self.is_argument = false;
            self.is_dangling = true;
            return;
        }
        let is_for = self.open.last() == Some(&Construct::For);
        let expected = (!self.is_argument || is_for) && starts_word && commands;
        if expected && chars.next_if_eq(&'(').is_some() {
            self.open.push(Construct::Arithmetic);
            self.open.push(Construct::Arithmetic);
        } else if expected && !is_for {
            self.open.push(Construct::Subshell);
        } else {
            // `for NAME (WORDS) COMMAND` is a loop without a list that `do` begins.
            if is_for && starts_word {
                self.open.pop();
            }
            self.open
                .push(Construct::Group(!self.is_argument || is_for));
        }
        self.is_dangling = false;
        self.word.clear();
    }

    fn close_parenthesis(&mut self) {
        self.end_word();
        match self.open.last() {
            Some(Construct::Substitution(command)) => {
                self.is_argument = !command;
                self.is_quoted = true;
                self.open.pop();
            }
            Some(Construct::Group(command)) => {
                self.is_argument = !command;
                self.open.pop();
            }
            Some(Construct::Subshell | Construct::Arithmetic) => {
                self.is_argument = false;
                self.open.pop();
            }
            Some(Construct::Pattern) => {
                self.open.pop();
                self.open.push(Construct::Branch);
                self.is_argument = false;
            }
            _ => {}
        }
    }

    fn redirection(&mut self, c: char, chars: &mut Peekable<Chars<'_>>) {
        if matches!(
            self.open.last(),
            Some(Construct::Arithmetic | Construct::Condition | Construct::Pattern)
        ) {
            return;
        }
        self.end_word();
        // The file is not a command.
        let command = !std::mem::replace(&mut self.is_argument, true);
        if chars.next_if_eq(&'(').is_some() {
            self.open.push(Construct::Substitution(command));
            self.is_argument = false;
        } else if c == '<' && chars.next_if_eq(&'<').is_some() {
            if chars.next_if_eq(&'<').is_none() {
                let has_tabs = chars.next_if_eq(&'-').is_some();
                let delimiter = delimiter(chars);
                self.heredocs.push_back((delimiter, has_tabs));
            }
        } else {
            while chars.next_if(|c| "<>&|!".contains(*c)).is_some() {}
        }
    }

    fn separator(&mut self, c: char, chars: &mut Peekable<Chars<'_>>) {
        self.end_word();
        match self.open.last() {
            Some(Construct::Pattern | Construct::Group(_) | Construct::Condition) => return,
            Some(Construct::Branch)
                if c == ';' && chars.next_if(|c| ";&|".contains(*c)).is_some() =>
            {
                self.open.pop();
                self.open.push(Construct::Pattern);
            }
            _ => {}
        }
        if c == '&' && chars.next_if_eq(&'>').is_some() {
            self.is_argument = true;
            return;
        }
        let doubled = chars.next_if_eq(&c).is_some();
        if c == '|' || c == '&' && doubled {
            chars.next_if_eq(&'&');
            self.is_dangling = true;
        } else if c == '&' {
            chars.next_if(|c| "|!".contains(*c));
        }
        self.is_argument = false;
    }

    fn takes_commands(&self) -> bool {
        !matches!(
            self.open.last(),
            Some(
                Construct::Group(_)
                    | Construct::Arithmetic
                    | Construct::Condition
                    | Construct::Case
                    | Construct::Pattern
            )
        )
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        let is_quoted = std::mem::take(&mut self.is_quoted);
        if word.is_empty() && !is_quoted {
            return;
        }
        if std::mem::take(&mut self.is_operand) {
            return;
        }
        self.is_dangling = false;
        let top = self.open.last().copied();
        match (&*word, top) {
            ("]]", Some(Construct::Condition)) if !is_quoted => {
                self.open.pop();
                self.is_argument = false;
            }
            ("in", Some(Construct::Case)) if !is_quoted => self.replace(Construct::Pattern),
            ("esac", Some(Construct::Pattern)) if !is_quoted => self.close(),
            _ if !self.takes_commands() => {}
            _ if self.is_argument => {}
            _ if is_quoted => self.is_argument = true,
            _ => {
                if top == Some(Construct::For) && word != "do" {
                    // The short form `for NAME in WORDS; COMMAND`.
                    self.open.pop();
                }
                self.reserved(&word);
            }
        }
    }

    /// Handles an unquoted word in the place of a command.
    fn reserved(&mut self, word: &str) {
        let top = self.open.last().copied();
        match word {
            "if" => self.open.push(Construct::If),
            "then" if top == Some(Construct::If) => self.replace(Construct::Then),
            "fi" if top == Some(Construct::Then) => self.close(),
            "while" | "until" => self.open.push(Construct::While),
            "do" => match top {
                Some(Construct::While | Construct::For) => self.replace(Construct::Do),
                _ => self.open.push(Construct::Do),
            },
            "done" if top == Some(Construct::Do) => self.close(),
            "end" if top == Some(Construct::Foreach) => self.close(),
            "esac" if top == Some(Construct::Branch) => self.close(),
            "elif" if top != Some(Construct::Then) => self.open.push(Construct::If),
            "elif" => self.replace(Construct::If),
            "then" | "else" | "!" | "time" => {}
            "repeat" => self.is_operand = true,
            "[[" => self.open.push(Construct::Condition),
            "for" | "select" => self.open_head(Construct::For),
            "foreach" => self.open_head(Construct::Foreach),
            "case" => self.open_head(Construct::Case),
            "function" => {
                self.is_dangling = true;
                self.is_operand = true;
            }
            _ => self.is_argument = true,
        }
    }

    fn open_head(&mut self, construct: Construct) {
        self.open.push(construct);
        self.is_argument = true;
    }

    fn replace(&mut self, construct: Construct) {
        self.open.pop();
        self.open.push(construct);
        self.is_argument = false;
    }

    fn close(&mut self) {
        self.open.pop();
        self.is_argument = false;
    }
}

/// Reads the delimiter of a here-document and removes its quotes.
fn delimiter(chars: &mut Peekable<Chars<'_>>) -> String {
    while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    let mut delimiter = String::new();
    let mut quote = None;
    while let Some(c) = chars.next_if(|c| quote.is_some() || !" \t;&|<>()".contains(*c)) {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\', None) => delimiter.extend(chars.next()),
            _ => delimiter.push(c),
        }
    }
    delimiter
}

#[cfg(test)]
mod tests;
