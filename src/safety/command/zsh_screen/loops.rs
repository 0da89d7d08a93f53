//! The part of the screen that handles the headers of loops.

use super::{Scope, WordState, ZshScreen, is_name};

impl ZshScreen {
    /// Handles what follows `for`: `NAME (LIST)` becomes `NAME in LIST`.
    pub(super) fn for_header(&mut self, keyword: &str) -> Result<(), &'static str> {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let spaces = rest.iter().take_while(|c| **c == ' ').count();
        if keyword == "for" && rest.get(spaces..spaces + 2) == Some(&['(', '(']) {
            self.copy(spaces + 2);
            self.scopes.push(Scope::Arithmetic(2));
            self.word.is_loop = true;
            return Ok(());
        }
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

    /// Handles the body of a loop, which zsh also takes without `do`.
    pub(super) fn for_body(&mut self) {
        while matches!(self.peek(0), Some(' ' | '\t' | '\n' | ';')) {
            self.at += 1;
        }
        self.word = WordState::default();
        self.out.push_str(match self.next_word(0) == "do" {
            true => "; ",
            false => "; do :; done; ",
        });
    }

    /// Removes `repeat N`, or makes it a loop without an end.
    pub(super) fn repeat(&mut self) -> Result<(), &'static str> {
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
