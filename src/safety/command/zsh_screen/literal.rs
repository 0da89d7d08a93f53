//! The part of the screen that reads literal text: what zsh would find in it if it expanded or computed it once more.

use super::{Scope, TextTraits, ZshScreen, is_name};
use crate::safety::command::word::{UNKNOWN, decode_escapes};

impl ZshScreen {
    /// Notes the literal text since `start`, which was read in `scope`.
    pub(super) fn note_literal(&mut self, start: usize, scope: Scope) {
        let read = self.chars.get(start..self.at).unwrap_or_default();
        let Some((first, rest)) = read.split_first() else {
            return;
        };
        let is_text = matches!(scope, Scope::Quoted | Scope::Parameter);
        match first {
            '\\' => self.literal.extend(rest.iter().filter(|c| **c != '\n')),
            '\'' if !rest.is_empty() => self.literal.extend(rest.iter().filter(|c| **c != '\'')),
            '$' if rest.len() > 1 && rest.first() == Some(&'\'') => {
                let text: String = rest.iter().skip(1).collect();
                self.literal
                    .push_str(&decode_escapes(text.trim_end_matches('\'')));
            }
            '$' => {
                self.literal.push(UNKNOWN);
                self.literal.extend(rest.iter().filter(|c| is_name(**c)));
            }
            '`' => self.literal.push(UNKNOWN),
            '"' => {}
            // Opens commands or elements.
            '(' if rest.is_empty() && !is_text => self.literal.push(UNKNOWN),
            '<' | '>' | '=' if rest == ['('] => self.literal.push(UNKNOWN),
            '#' if !rest.is_empty() => {}
            _ => self.literal.extend(read),
        }
    }

    /// Returns what the whole text says.
    pub(super) fn traits(&self) -> TextTraits {
        let text = self.literal.as_str();
        let has_command = |start: &str| {
            let mut found = text.match_indices(start);
            let is_arithmetic = |at: usize| {
                let rest = text.get(at + start.len()..).unwrap_or_default();
                start.ends_with('(') && rest.starts_with('(')
            };
            found.any(|(at, _)| !is_arithmetic(at))
        };
        let has_substitution = has_command("$(") || text.contains('`');
        // Also a subscript that is the value of a variable.
        let is_indirect = has_substitution && text.contains("[\u{1}");
        let mut variables = text.split(UNKNOWN).skip(1);
        let has_own_subscript = variables.any(|rest| {
            let rest = rest.trim_start_matches(is_name);
            rest.starts_with('[')
        });
        TextTraits {
            has_substitution,
            has_subscript: is_indirect || has_command("[$(") || text.contains("[`"),
            has_arithmetic: has_own_subscript || self.out.contains("((") || self.out.contains("$["),
            has_qualifier: ["(e", "(+", "#q"].iter().any(|start| text.contains(start)),
            ..self.traits
        }
    }

    /// Copies up to and with a closing quote.
    pub(super) fn copy_quoted(&mut self, has_escapes: bool) -> Result<(), &'static str> {
        while let Some(c) = self.peek(0) {
            if c == '\\' && has_escapes {
                self.copy(2);
                continue;
            }
            self.copy(1);
            if c == '\'' {
                return Ok(());
            }
        }
        Err("a quote is not closed")
    }
}
