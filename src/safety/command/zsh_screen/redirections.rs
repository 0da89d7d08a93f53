//! The part of the screen that handles redirections.

use super::{PATTERN_PLACEHOLDER, ZshScreen};

/// Longest operator of a redirection: `&>>!`.
const MAX_OPERATOR: usize = 4;

impl ZshScreen {
    pub(super) fn redirection(&mut self, c: char) -> Result<(), &'static str> {
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
        let mut start = self.out.len();
        if !self.word.text.chars().all(|c| c.is_ascii_digit()) || self.word.has_quotes {
            self.end_word()?;
            start = self.out.len();
        } else {
            start -= self.word.text.len();
            // The grammar takes the number of the standard input for an argument.
            if c == '<' && self.word.text == "0" {
                self.out.truncate(start);
            }
            // The number of a descriptor.
            self.word.text.clear();
            self.word.is_started = false;
        }
        if c == '<' && self.peek(1) == Some('<') && self.peek(2) != Some('<') {
            self.copy(2);
            return self.heredoc();
        }
        // zsh reads `>>(…)` as `> >(…)`.
        if c == '>' && self.peek(1) == Some('>') && self.peek(2) == Some('(') {
            self.out.push_str("> ");
            self.at += 1;
            self.redirection_end();
            return Ok(());
        }
        let mut operator = String::new();
        while let Some(next) = self.peek(0).filter(|c| "<>&|!".contains(*c)) {
            operator.push(next);
            self.at += 1;
            // The parser would take time in proportion to the square of the length.
            if operator.len() > MAX_OPERATOR {
                return Err("its syntax is not understood");
            }
        }
        // `!` and `|` only override the option noclobber.
        let operator = match operator.as_str() {
            ">!" | ">|" => ">|",
            ">>!" | ">>|" => ">>",
            ">&!" | ">&|" => ">&",
            ">>&" | ">>&!" | ">>&|" => "&>>",
            // The grammar does not know it; both create the file and keep its content.
            "<>" => ">>",
            operator => operator,
        };
        self.out.push_str(operator);
        match operator == "<<<" {
            true => self.word.here_string_at = Some(start),
            false => {
                self.word.redirected_at.get_or_insert(start);
            }
        }
        self.redirection_end();
        Ok(())
    }

    /// Moves a here-string before the other redirections of its command, where the grammar wants it.
    pub(super) fn move_here_string(&mut self) {
        let (from, to) = (self.word.here_string_at.take(), self.word.redirected_at);
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            let text = self.out.split_off(from);
            self.out.insert_str(to, &format!("{text} "));
        }
    }

    pub(super) fn redirection_end(&mut self) {
        self.word.is_target = true;
    }
}
