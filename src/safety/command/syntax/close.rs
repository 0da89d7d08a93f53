//! The part of the builder that closes nodes: words, redirections, pipelines and functions are complete then. Redirections are
//! opened here as well.

use std::ops::Range;

use tree_sitter::Node;

use super::expansion::is_certain;
use super::{
    FunctionSyntax, Redirection, SimpleCommand, SyntaxBuilder, SyntaxFrame, WORDS, is_child_of,
};
use crate::safety::command::word::{ShellWord, WordPart, unescape_quoted};

impl SyntaxBuilder<'_> {
    /// Closes a node.
    pub(super) fn leave(&mut self, node: Node<'_>) {
        let kind = node.kind();
        match kind {
            "string" | "heredoc_body" => {
                let end = match kind {
                    "string" => node.end_byte().saturating_sub(1),
                    _ => node.end_byte(),
                };
                let from = match self.frames.last_mut() {
                    Some(SyntaxFrame::Word { quoted_at, .. }) => quoted_at.take(),
                    _ => None,
                };
                if let Some(from) = from {
                    let text = self.text.get(from..end).unwrap_or_default();
                    self.push_text(unescape_quoted(text), true);
                }
                if kind == "heredoc_body" {
                    self.close_word(node);
                }
            }
            "expansion" | "arithmetic_expansion" | "array" | "subscript" => {
                self.frames.pop();
            }
            "test_command" => {
                self.frames.pop();
                self.frames.pop();
            }
            "command" | "declaration_command" | "unset_command" => {
                self.frames.pop();
            }
            "variable_assignment" => {
                if let Some(SyntaxFrame::Assignment {
                    name,
                    command,
                    value,
                }) = self.frames.pop()
                {
                    let is_appended = node.child(1).is_some_and(|sign| sign.kind() == "+=");
                    let value = match is_appended {
                        true => value.behind_value_of(&name),
                        false => value,
                    };
                    let command = self.script.commands.get_mut(command);
                    if let Some(command) = command {
                        command.assignments.push((name, value));
                        command.is_certain |= is_certain(node, true);
                    }
                }
            }
            "redirected_statement" => {
                self.frames.pop();
            }
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.close_redirect(),
            "pipeline" => {
                if let Some(SyntaxFrame::Pipeline { stages, .. }) = self.frames.pop() {
                    self.script.pipelines.push(stages);
                }
            }
            "command_substitution" | "process_substitution" => {
                if let Some(SyntaxFrame::Substitution {
                    start,
                    is_quoted,
                    is_process,
                }) = self.frames.pop()
                {
                    let commands = start..self.script.commands.len();
                    if self.slice(node).starts_with('>') {
                        self.script.fed.push(commands.clone());
                    }
                    self.push_part(WordPart::Substitution {
                        commands,
                        is_quoted,
                        is_process,
                    });
                }
            }
            "function_definition" => {
                if let Some(SyntaxFrame::Function { name, start }) = self.frames.pop() {
                    let body = start..self.script.commands.len();
                    self.script.functions.push(FunctionSyntax {
                        name,
                        body,
                        is_certain: is_certain(node, false),
                    });
                }
            }
            "for_statement" => self.close_loop(node),
            _ => {}
        }
        if WORDS.contains(&kind) || kind == "variable_name" {
            self.close_word(node);
        }
        let end = self.script.commands.len();
        match self.frames.last_mut() {
            Some(SyntaxFrame::Pipeline { id, stages, start })
                if node.is_named() && is_child_of(node, *id) =>
            {
                stages.push(*start..end)
            }
            Some(SyntaxFrame::Redirected { end: last, .. }) if !kind.ends_with("_redirect") => {
                *last = end
            }
            _ => {}
        }
    }

    /// Closes the word that began with a node, and gives it to the construct around it.
    fn close_word(&mut self, node: Node<'_>) {
        let is_outer = node.parent().is_none_or(|parent| {
            !WORDS.contains(&parent.kind())
                && !matches!(parent.kind(), "array" | "subscript" | "heredoc_body")
        });
        if !is_outer || !self.is_in_word() {
            return;
        }
        let Some(SyntaxFrame::Word { word, .. }) = self.frames.pop() else {
            return;
        };
        let word = word.with_subscripts();
        // A descriptor that the grammar takes for a file: `>& file 0>&1`.
        let rest = self.text.get(node.end_byte()..).unwrap_or_default();
        let is_descriptor = node.kind() == "number" && rest.starts_with(['<', '>']);
        let list = node
            .parent()
            .filter(|parent| parent.kind() == "for_statement");
        if let Some(list) = list {
            let mut loops = self.script.loops.iter_mut().rev();
            if let Some(own) = loops.find(|own| own.id == list.id()) {
                own.words.push(word);
            }
            return;
        }
        match self.frames.last_mut() {
            Some(SyntaxFrame::Command(index)) => {
                let index = *index;
                self.push_word(index, word);
            }
            Some(SyntaxFrame::Assignment { value, .. }) => *value = word,
            Some(SyntaxFrame::Redirect { targets, .. }) if !is_descriptor => targets.push(word),
            _ => {}
        }
    }

    /// Ends a loop over words. One without a list has the positional parameters.
    fn close_loop(&mut self, node: Node<'_>) {
        let end = self.script.commands.len();
        let mut cursor = node.walk();
        let has_list = node.children(&mut cursor).any(|child| child.kind() == "in");
        let mut loops = self.script.loops.iter_mut().rev();
        if let Some(own) = loops.find(|own| own.id == node.id()) {
            own.commands.end = end;
            if !has_list {
                let mut parameters = ShellWord::default();
                parameters.push(WordPart::whole("@", true));
                own.words.push(parameters);
            }
        }
    }

    pub(super) fn open_redirect(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let operator = node
            .children(&mut cursor)
            .find(|child| !child.is_named())
            .map(|child| self.slice(child).trim_start_matches('-').to_owned());
        let last = self.script.commands.len();
        // `$(< FILE)` prints the file.
        let parent = node.parent().map(|parent| parent.kind());
        let is_lone = parent == Some("command_substitution");
        if is_lone {
            self.script.commands.push(SimpleCommand::default());
        }
        let open = self.frames.iter().rev().find_map(|frame| match frame {
            SyntaxFrame::Command(index) => Some(*index..*index + 1),
            SyntaxFrame::Redirected { start, end } => Some(*start..(*end).max(last)),
            SyntaxFrame::Function { start, .. } => Some(*start..last),
            _ => None,
        });
        let commands = match is_lone {
            true => last..last + 1,
            false => open.unwrap_or(last..last),
        };
        self.lost_dash(node, &commands);
        let descriptor = node.child_by_field_name("descriptor");
        self.frames.push(SyntaxFrame::Redirect {
            descriptor: descriptor.and_then(|number| self.slice(number).parse().ok()),
            operator: operator.unwrap_or_default(),
            targets: Vec::new(),
            commands,
            is_text: node.kind() == "heredoc_redirect",
        });
    }

    /// Adds a lone `-` that the scanner of the grammar drops before a here-document or a descriptor, or takes for a part of the
    /// operator, to the words of the command.
    fn lost_dash(&mut self, node: Node<'_>, commands: &Range<usize>) {
        let from = node.prev_sibling().map(|before| before.end_byte());
        let gap = self
            .text
            .get(from.unwrap_or(node.start_byte())..node.start_byte());
        if gap.is_some_and(|gap| gap.contains('-')) || self.slice(node).starts_with('-') {
            self.push_word(commands.end.saturating_sub(1), ShellWord::literal_of("-"));
        }
    }

    fn close_redirect(&mut self) {
        let Some(SyntaxFrame::Redirect {
            descriptor,
            operator,
            targets,
            commands,
            is_text,
        }) = self.frames.pop()
        else {
            return;
        };
        let mut targets = targets.into_iter();
        // The text of a here-document comes last, after the arguments on its line.
        let target = match is_text {
            true => targets.next_back(),
            false => targets.next(),
        };
        // The grammar takes arguments after the target for further targets.
        let last = commands.end.saturating_sub(1);
        for word in targets {
            self.push_word(last, word);
        }
        self.script.redirections.push(Redirection {
            descriptor,
            operator,
            target: target.unwrap_or_default(),
            commands,
        });
    }
}
