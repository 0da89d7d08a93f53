//! The part of the screen that handles unquoted text: words, operators, redirections and loops.

use super::{PATTERN_PLACEHOLDER, Scope, WordState, ZshScreen, is_assignable, is_name};

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
                self.copy(1);
                Ok(())
            }
            '\n' if scope == Scope::Commands(None) || matches!(scope, Scope::Commands(_)) => {
                self.separator(1)?;
                self.heredoc_bodies()
            }
            ';' | '&' | '|' if matches!(scope, Scope::Commands(_)) => self.operator(c),
            '#' if !self.word.is_started && matches!(scope, Scope::Commands(_)) => self.comment(),
            '(' if scope == Scope::Condition => {
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
                self.word = WordState::default();
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
            '=' if !self.word.is_started && self.peek(1).is_some_and(is_name) => {
                // `=ls` is the path of the program.
                self.at += 1;
                Ok(())
            }
            '{' if !self.word.is_started && !self.word.is_argument => {
                self.word.is_started = true;
                self.word.text.push(c);
                if self.peek(1).is_some_and(|c| c.is_ascii_whitespace()) {
                    self.braces += 1;
                }
                self.copy(1);
                Ok(())
            }
            '}' if !self.word.is_started
                && self.braces > 0
                && matches!(scope, Scope::Commands(_)) =>
            {
                if self.word.is_argument {
                    self.out.push_str("; ");
                }
                self.braces -= 1;
                self.word = WordState {
                    is_after_brace: true,
                    ..WordState::default()
                };
                self.copy(1);
                Ok(())
            }
            _ => {
                self.word.is_started = true;
                self.word.text.push(c);
                self.copy(1);
                Ok(())
            }
        }
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
    fn next_word(&self, ahead: usize) -> String {
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
                self.separator(2)
            }
            _ => self.separator(1),
        }
    }

    /// Removes a comment. zsh knows comments at a prompt only with an option, so one that could mean something is rejected.
    fn comment(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
        let text = self.chars.get(start..self.at).unwrap_or_default();
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let is_last = rest.iter().all(|c| c.is_ascii_whitespace());
        let is_plain = text.iter().all(|c| !";&|$`<>(){}".contains(*c))
            && !text.windows(2).any(|pair| pair == [' ', '-'])
            && (is_last || !text.iter().any(|c| matches!(c, '\'' | '"')));
        match is_plain {
            true => Ok(()),
            false => Err("it has a comment that zsh may not read as one"),
        }
    }

    fn parenthesis(&mut self, scope: Scope) -> Result<(), &'static str> {
        let in_commands = matches!(scope, Scope::Commands(_));
        if !self.word.is_started && !self.word.is_argument && !self.word.is_target && in_commands {
            match (self.peek(1), self.peek(2)) {
                (Some('('), _) => {
                    self.copy(2);
                    self.scopes.push(Scope::Arithmetic(2));
                }
                (Some(')'), _) => {
                    self.out.push_str("aish_anonymous()");
                    self.at += 2;
                }
                _ => {
                    self.copy(1);
                    self.word.is_argument = true;
                    self.open(Scope::Commands(Some(')')));
                }
            }
            return Ok(());
        }
        if self.peek(1) == Some(')') && in_commands && !self.word.is_argument {
            // A function.
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
    fn pattern(&mut self) -> Result<(), &'static str> {
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

    fn redirection(&mut self, c: char) -> Result<(), &'static str> {
        // `<1-5>` is a pattern of numbers.
        if c == '<' {
            let rest = self.chars.get(self.at + 1..).unwrap_or_default();
            let length = rest
                .iter()
                .take_while(|c| c.is_ascii_digit() || **c == '-')
                .count();
            let has_dash = rest.iter().take(length).any(|c| *c == '-');
            if has_dash && rest.get(length) == Some(&'>') {
                self.at += length + 2;
                self.word.is_started = true;
                self.out.push(PATTERN_PLACEHOLDER);
                return Ok(());
            }
        }
        if self.peek(1) == Some('(') {
            self.quote();
            self.copy(2);
            self.open_substitution(')');
            return Ok(());
        }
        if !self.word.text.chars().all(|c| c.is_ascii_digit()) || self.word.has_quotes {
            self.end_word()?;
        } else {
            // The number of a descriptor.
            self.word.text.clear();
            self.word.is_started = false;
        }
        if c == '<' && self.peek(1) == Some('<') && self.peek(2) != Some('<') {
            self.copy(2);
            return self.heredoc();
        }
        let mut operator = String::new();
        while let Some(next) = self.peek(0).filter(|c| "<>&|!".contains(*c)) {
            operator.push(next);
            self.at += 1;
        }
        // `!` and `|` only override the option noclobber.
        let operator = match operator.as_str() {
            ">!" | ">|" => ">|",
            ">>!" | ">>|" => ">>",
            ">&!" | ">&|" => ">&",
            ">>&" | ">>&!" | ">>&|" => "&>>",
            operator => operator,
        };
        self.out.push_str(operator);
        self.redirection_end();
        Ok(())
    }

    fn redirection_end(&mut self) {
        self.word.is_target = true;
    }

    pub(super) fn end_word(&mut self) -> Result<(), &'static str> {
        if !self.word.is_started {
            return Ok(());
        }
        let word = std::mem::take(&mut self.word.text);
        let has_quotes = std::mem::take(&mut self.word.has_quotes);
        let is_after_brace = std::mem::take(&mut self.word.is_after_brace);
        self.word.is_started = false;
        if std::mem::take(&mut self.word.is_target) || std::mem::take(&mut self.word.takes_name) {
            return Ok(());
        }
        if self.scope() == Scope::Condition {
            if word == "]]" {
                self.close();
                self.word.is_argument = true;
            }
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
            "function" => {
                if self.next_word(0).starts_with('{') {
                    self.out.push_str(" aish_anonymous");
                } else {
                    self.word.takes_name = true;
                }
            }
            // Its patterns end in a `)`, which would close the substitution.
            "case" if self.scopes.len() > 1 => return Err("it has `case` in a substitution"),
            "case" => self.word.is_argument = true,
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

    /// Handles what follows `for`: `NAME (LIST)` becomes `NAME in LIST`.
    fn for_header(&mut self, keyword: &str) -> Result<(), &'static str> {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let names = rest
            .iter()
            .take_while(|c| is_name(**c) || **c == ' ')
            .count();
        let is_list = rest.get(names) == Some(&'(') && rest.get(names + 1) != Some(&'(');
        let variable: String = rest.iter().take(names).collect();
        if !is_list || variable.trim().is_empty() {
            self.word.is_argument = true;
            self.word.is_for_header = variable.contains(" in ");
            // `for KEY VALUE in …` takes several elements at a time.
            let start: String = variable.chars().take_while(|c| *c == ' ').collect();
            let list = variable.split_once(" in ").map(|(names, _)| names.trim());
            if let Some((first, _)) = list.and_then(|names| names.split_once(' ')) {
                self.out.push_str(&format!("{start}{first}"));
                self.at += list.map_or(0, |names| names.chars().count()) + start.len();
            }
            return match keyword {
                "foreach" => Err("it has a loop that is not plain"),
                _ => Ok(()),
            };
        }
        let first = variable.trim().split(' ').next().unwrap_or_default();
        let length = self.out.len() - keyword.len();
        self.out.truncate(length);
        self.out.push_str(&format!("for {first} in "));
        self.at += names + 1;
        self.open(Scope::ForList);
        Ok(())
    }

    fn for_body(&mut self) {
        match self.next_word(0) == "do" {
            true => self.out.push_str("; "),
            false => {
                self.out.push_str("; do :; done; ");
                while matches!(self.peek(0), Some(' ' | '\t' | '\n' | ';')) {
                    self.at += 1;
                }
            }
        }
    }

    /// Removes `repeat N`, or makes it a loop without an end.
    fn repeat(&mut self) -> Result<(), &'static str> {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        while let Some(c) = self
            .peek(0)
            .filter(|c| !c.is_ascii_whitespace() && *c != ';')
        {
            if matches!(c, '`' | '(' | '\'' | '"') {
                return Err("it repeats a number of times that is not plain");
            }
            self.at += 1;
        }
        while matches!(self.peek(0), Some(' ' | '\t' | '\n' | ';')) {
            self.at += 1;
        }
        let length = self.out.len() - "repeat".len();
        self.out.truncate(length);
        if self.next_word(0) == "do" {
            self.out.push_str("while :; ");
        }
        Ok(())
    }
}
