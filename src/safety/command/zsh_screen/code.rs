//! The part of the screen that handles unquoted text: words, operators, redirections and loops.

use super::{PATTERN_PLACEHOLDER, Scope, WordState, ZshScreen, is_assignable, is_name};

/// The name of a function that has none.
const ANONYMOUS: &str = "aish_anonymous";

const BRACE: &str = "it has a closing brace in a place that is not understood";

impl ZshScreen {
    pub(super) fn code(&mut self, c: char, scope: Scope) -> Result<(), &'static str> {
        match c {
            '\'' => {
                self.quote();
                self.copy(1);
                self.copy_quoted(false)
            }
            '"' => {
                self.quote();
                self.open(Scope::Quoted);
                self.copy(1);
                Ok(())
            }
            ' ' | '\t' => {
                self.end_word()?;
                // A loop may have taken the space with its header.
                if matches!(self.peek(0), Some(' ' | '\t')) {
                    self.copy(1);
                }
                Ok(())
            }
            '\n' if scope == Scope::Commands(None) || matches!(scope, Scope::Commands(_)) => {
                self.separator(1)?;
                self.heredoc_bodies()
            }
            ';' | '&' | '|' if matches!(scope, Scope::Commands(_)) => self.operator(c),
            '#' if !self.word.is_started && matches!(scope, Scope::Commands(_)) => {
                self.comment();
                Ok(())
            }
            '(' if scope == Scope::Condition
                && !self.word.is_started
                && !self.word.takes_pattern =>
            {
                self.copy(1);
                Ok(())
            }
            '(' => self.parenthesis(scope),
            ')' if matches!(scope, Scope::Commands(Some(')')) | Scope::Elements) => {
                self.end_word()?;
                self.close_substitution();
                Ok(())
            }
            ')' if scope == Scope::ForList => {
                self.end_word()?;
                self.at += 1;
                self.scopes.pop();
                self.saved.pop();
                self.for_body();
                Ok(())
            }
            '<' | '>' if !matches!(scope, Scope::Condition) => self.redirection(c),
            '=' if !self.word.is_started && self.peek(1) == Some('(') => {
                // A substitution by a temporary file.
                self.quote();
                self.at += 2;
                self.out.push_str("<(");
                self.open_substitution(')');
                Ok(())
            }
            '=' if !self.word.is_started
                && matches!(scope, Scope::Commands(_))
                && self.peek(1) == Some('=')
                && self.peek(2).is_some_and(is_name) =>
            {
                Err("it has a path of a program that is not plain")
            }
            '=' if !self.word.is_started && self.peek(1).is_some_and(is_name) => {
                // `=ls` is the path of the program.
                self.at += 1;
                Ok(())
            }
            '{' if !self.word.is_started && !self.word.is_argument => {
                self.word.is_started = true;
                self.word.text.push(c);
                if self.peek(1).is_some_and(|c| c.is_ascii_whitespace()) {
                    self.braces.push(std::mem::take(&mut self.opens_anonymous));
                }
                self.copy(1);
                Ok(())
            }
            '}' if !self.word.is_started
                && !self.braces.is_empty()
                && matches!(scope, Scope::Commands(_)) =>
            {
                if self.word.is_argument {
                    self.out.push_str("; ");
                }
                let is_anonymous = self.braces.pop() == Some(true);
                self.word = WordState {
                    is_after_brace: true,
                    ..WordState::default()
                };
                self.copy(1);
                self.brace_end(is_anonymous)
            }
            _ => {
                self.word.is_started = true;
                self.word.text.push(c);
                self.copy(1);
                Ok(())
            }
        }
    }

    /// Handles what follows `}`: the arguments of a function without a name, or nothing that belongs to the same word.
    fn brace_end(&mut self, is_anonymous: bool) -> Result<(), &'static str> {
        let is_end = |c: char| c.is_ascii_whitespace() || ";&|()<>`".contains(c);
        if !self.peek(0).is_none_or(is_end) {
            return Err(BRACE);
        }
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|c| !matches!(c, ' ' | '\t'));
        if is_anonymous && next.is_some_and(|c| !is_end(*c) && *c != '}') {
            self.out.push_str("; ");
            self.out.push_str(ANONYMOUS);
            self.word = WordState {
                is_argument: true,
                ..WordState::default()
            };
        }
        Ok(())
    }

    fn close_substitution(&mut self) {
        self.close();
        let is_subshell = !self.word.has_quotes && self.word.text.is_empty();
        self.word.is_started = true;
        self.word.has_quotes = true;
        self.copy(1);
        // `( … ) done` needs no separator in zsh.
        const ENDS: [&str; 6] = ["done", "fi", "then", "do", "else", "elif"];
        if is_subshell && ENDS.contains(&self.next_word(0).as_str()) {
            self.out.push(';');
            self.word = WordState::default();
        }
    }

    fn separator(&mut self, length: usize) -> Result<(), &'static str> {
        self.end_word()?;
        let is_for_header = std::mem::take(&mut self.word.is_for_header);
        self.word = WordState::default();
        if is_for_header {
            let is_long = self.next_word(length) == "do";
            if !is_long {
                self.out.push_str("; do :; done");
            }
        }
        self.copy(length);
        Ok(())
    }

    /// Returns the next word, whitespace skipped.
    pub(super) fn next_word(&self, ahead: usize) -> String {
        let rest = self.chars.get(self.at + ahead..).unwrap_or_default();
        let rest = rest.iter().skip_while(|c| c.is_ascii_whitespace());
        rest.take_while(|c| c.is_ascii_alphabetic() || **c == '{')
            .collect()
    }

    fn operator(&mut self, c: char) -> Result<(), &'static str> {
        match (c, self.peek(1)) {
            // `&|` and `&!` run a command in the background, disowned.
            ('&', Some('|' | '!')) => {
                self.end_word()?;
                self.word = WordState::default();
                self.out.push('&');
                self.at += 2;
                Ok(())
            }
            ('&', Some('>')) => {
                self.end_word()?;
                self.copy(2);
                self.redirection_end();
                Ok(())
            }
            (c, Some(next))
                if c == next
                    || c == '|' && next == '&'
                    || c == ';' && matches!(next, '&' | '|') =>
            {
                if c == ';' && self.cases == 0 {
                    return Err("it ends a branch outside of `case`");
                }
                self.separator(2)
            }
            _ => self.separator(1),
        }
    }

    /// Removes a comment, or makes it words: zsh knows comments at a prompt only with an option.
    fn comment(&mut self) {
        if self.has_comment_words {
            // The grammar knows comments.
            self.out.push('\\');
            self.word.is_started = true;
            self.word.text.push('#');
            self.copy(1);
            return;
        }
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
        let text = self.chars.get(start..self.at).unwrap_or_default();
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let is_last = rest.iter().all(|c| c.is_ascii_whitespace());
        let runs = |c: &char| ";&|$`<>".contains(*c);
        // A glob qualifier runs the text after `e` or `+`.
        let qualifies = text.windows(2).any(|pair| {
            let is_code = |c: char| !is_name(c) && !c.is_whitespace() && c != ')';
            matches!(pair, ['e', c] if is_code(*c)) || matches!(pair, ['+', c] if is_name(*c))
        });
        let has_quotes = text.iter().any(|c| matches!(c, '\'' | '"'));
        self.traits.has_comment = true;
        self.traits.has_risky_comment |=
            text.iter().any(runs) || text.contains(&'(') && qualifies || !is_last && has_quotes;
    }

    fn parenthesis(&mut self, scope: Scope) -> Result<(), &'static str> {
        let in_commands = matches!(scope, Scope::Commands(_));
        if std::mem::take(&mut self.word.is_case_header) && !self.word.is_started {
            // `case x in (a|b) …`
            self.word = WordState::default();
            self.copy(1);
            return Ok(());
        }
        if !self.word.is_started && !self.word.is_argument && !self.word.is_target && in_commands {
            match (self.peek(1), self.peek(2)) {
                (Some('('), _) => {
                    self.copy(2);
                    self.scopes.push(Scope::Arithmetic(2));
                }
                (Some(')'), _) => {
                    self.out.push_str(ANONYMOUS);
                    self.copy(2);
                    self.opens_anonymous = true;
                }
                _ => {
                    self.copy(1);
                    self.word.is_argument = true;
                    self.open(Scope::Commands(Some(')')));
                }
            }
            return Ok(());
        }
        if self.peek(1) == Some(')')
            && in_commands
            && (!self.word.is_argument || !self.word.is_started)
            && !self.word.is_target
        {
            // A function, also with a space before the parentheses.
            self.copy(2);
            self.word = WordState::default();
            return Ok(());
        }
        let takes_array = !self.word.is_argument || self.word.is_declaration;
        if self.word.text.ends_with('=') && takes_array || self.word.text.ends_with("+=") {
            self.copy(1);
            self.open(Scope::Elements);
            return Ok(());
        }
        self.pattern()
    }

    /// Replaces a pattern in parentheses or a glob qualifier.
    pub(super) fn pattern(&mut self) -> Result<(), &'static str> {
        let mut depth = 0;
        let mut content = String::new();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                c if c.is_alphanumeric() || "_.,*?|/^#~:[]<>+-@%=!".contains(c) => {}
                _ => return Err("it has a glob qualifier or pattern that is not plain"),
            }
            content.push(c);
            if depth == 0 {
                break;
            }
        }
        if depth != 0 {
            return Err("a parenthesis is not closed");
        }
        let content = content.trim_matches(['(', ')']);
        let is_explicit = content.starts_with("#q");
        if is_explicit || !content.contains('|') {
            let qualifiers = content.trim_start_matches("#q");
            // The text of `f:u+x:` describes permissions.
            let qualifiers = match qualifiers.split_once("f:") {
                Some((before, rest)) => {
                    let after = rest.split_once(':').map_or(rest, |(_, after)| after);
                    format!("{before}{after}")
                }
                None => qualifiers.to_owned(),
            };
            let mut pairs = qualifiers.chars().zip(qualifiers.chars().skip(1));
            let calls = pairs
                .any(|(first, second)| first == '+' && is_name(second) && !second.is_ascii_digit());
            if calls || qualifiers.contains(['e', 'P']) {
                return Err("it has a glob qualifier that may run code");
            }
        }
        self.word.is_started = true;
        self.out.push(PATTERN_PLACEHOLDER);
        Ok(())
    }

    pub(super) fn end_word(&mut self) -> Result<(), &'static str> {
        if !self.word.is_started {
            return Ok(());
        }
        let word = std::mem::take(&mut self.word.text);
        let has_quotes = std::mem::take(&mut self.word.has_quotes);
        let is_after_brace = std::mem::take(&mut self.word.is_after_brace);
        self.word.is_started = false;
        self.move_here_string();
        // zsh ends a block at the last brace of a word, unless the word has its beginning.
        let count = |brace| word.matches(brace).count();
        let is_value = word
            .split_once('=')
            .is_some_and(|(name, _)| is_assignable(name));
        if word.ends_with('}')
            && count('}') > count('{')
            && matches!(self.scope(), Scope::Commands(_))
            && (self.word.is_argument || !is_value)
        {
            return Err(BRACE);
        }
        if std::mem::take(&mut self.word.is_target) || std::mem::take(&mut self.word.takes_name) {
            return Ok(());
        }
        if self.scope() == Scope::Condition {
            if word == "]]" {
                self.close();
                self.word.is_argument = true;
            }
            self.word.takes_pattern = matches!(word.as_str(), "=" | "==" | "!=");
            return Ok(());
        }
        if self.word.is_argument || !matches!(self.scope(), Scope::Commands(_)) {
            return Ok(());
        }
        if word
            .split_once('=')
            .is_some_and(|(name, _)| is_assignable(name))
        {
            return Ok(());
        }
        if has_quotes {
            self.word.is_argument = true;
            return Ok(());
        }
        match word.as_str() {
            "[[" => self.open(Scope::Condition),
            "always" if is_after_brace => {
                let length = self.out.len() - "always".len();
                self.out.truncate(length);
                self.out.push_str("; ");
            }
            "for" | "foreach" | "select" => self.for_header(&word)?,
            "end" => {
                let length = self.out.len() - "end".len();
                self.out.truncate(length);
                self.out.push(':');
            }
            "repeat" => self.repeat()?,
            // The grammar takes the braces for arguments.
            "time" if self.next_word(0).starts_with('{') => {
                let length = self.out.len() - "time".len();
                self.out.truncate(length);
            }
            "function" => {
                if self.next_word(0).starts_with('{') {
                    self.out.push(' ');
                    self.out.push_str(ANONYMOUS);
                    self.opens_anonymous = true;
                } else {
                    self.word.takes_name = true;
                }
            }
            // Its patterns end in a `)`, which would close the substitution.
            "case" if self.scopes.len() > 1 => return Err("it has `case` in a substitution"),
            "case" => {
                self.word.is_argument = true;
                self.word.is_case_header = true;
                self.cases += 1;
            }
            "esac" => {
                self.word.is_argument = true;
                self.cases = self.cases.saturating_sub(1);
            }
            "typeset" | "declare" | "local" | "export" | "readonly" => {
                self.word.is_argument = true;
                self.word.is_declaration = true;
            }
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "!" | "{" | "time"
            | "coproc" | "in" => {}
            _ => self.word.is_argument = true,
        }
        Ok(())
    }
}
