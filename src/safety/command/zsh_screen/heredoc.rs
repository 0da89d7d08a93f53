//! The part of the screen that handles here-documents.

use super::{HereDocument, ZshScreen, is_name};

impl ZshScreen {
    /// Reads the delimiter after `<<`.
    pub(super) fn heredoc(&mut self) -> Result<(), &'static str> {
        let has_tabs = self.peek(0) == Some('-');
        if has_tabs {
            self.copy(1);
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.copy(1);
        }
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|c| !c.is_ascii_whitespace() && !";&|<>()".contains(c))
        {
            self.copy(1);
        }
        let word = self.chars.get(start..self.at).unwrap_or_default();
        let delimiter: String = word
            .iter()
            .filter(|c| !matches!(c, '\'' | '"' | '\\'))
            .collect();
        if delimiter.is_empty() || !delimiter.chars().all(is_name) {
            return Err("the end of a here-document is not plain");
        }
        self.heredocs.push(HereDocument {
            is_quoted: delimiter.chars().count() < word.len(),
            delimiter,
            has_tabs,
        });
        Ok(())
    }

    /// Copies the bodies whose delimiters were read.
    pub(super) fn heredoc_bodies(&mut self) -> Result<(), &'static str> {
        for document in std::mem::take(&mut self.heredocs) {
            loop {
                let rest = self.chars.get(self.at..).unwrap_or_default();
                if rest.is_empty() {
                    return Err("a here-document is not closed");
                }
                let length = rest.iter().take_while(|c| **c != '\n').count();
                let line: String = rest.iter().take(length).collect();
                let line = match document.has_tabs {
                    true => line.trim_start_matches('\t').to_owned(),
                    false => line,
                };
                self.copy(length + 1);
                if line == document.delimiter {
                    break;
                }
                if !document.is_quoted {
                    self.count_expansions(&line)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the substitutions in a line of a here-document.
    fn count_expansions(&mut self, line: &str) -> Result<(), &'static str> {
        if line.contains('`') {
            return Err("it has backticks in a here-document");
        }
        for (at, found) in line.match_indices("$(") {
            let is_quoted = line.get(..at).is_some_and(|before| before.ends_with('\\'));
            let is_arithmetic = line
                .get(at + found.len()..)
                .is_some_and(|rest| rest.starts_with('('));
            self.substitutions += usize::from(!is_quoted && !is_arithmetic);
        }
        Ok(())
    }
}
