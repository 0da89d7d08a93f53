//! A proposed command of several lines, while its lines arrive.

use super::line_kind::{LineKind, MARK, OpenedFence, line};
use super::{BLANKS, LONGEST, MOST_LINES, unquote};
use crate::safety::shell_syntax::SyntaxScanner;

/// A command that takes further lines.
#[derive(Debug)]
pub struct PendingCommand {
    /// Its lines as received, from the mark on.
    pub lines: String,
    count: usize,
    kind: PendingKind,
}

#[derive(Debug)]
enum PendingKind {
    /// Behind a mark of this many bytes.
    Lines(usize, SyntaxScanner),
    /// An empty `CMD:` line, below which a code block may begin.
    Heading,
    /// A code block below `CMD:`.
    Block {
        /// The lines in the block, without the indentation of its fence.
        command: String,
        indent: usize,
        sign: char,
        length: usize,
    },
}

/// The meaning of a line for the command above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFit {
    /// It belongs to the command, which takes more lines.
    More,
    /// It is the last line of the command.
    Completes,
    /// It is not part of the command.
    Foreign,
}

impl PendingCommand {
    /// Returns the command of a line if it takes further lines; `mark` is the length of the mark, `in_fence` whether the line
    /// is in a code block.
    pub fn begin(held: &str, mark: usize, in_fence: bool) -> Option<PendingCommand> {
        let command = held[mark..].trim_matches(BLANKS);
        let kind = match line(command, None, true) {
            _ if command.is_empty() => (!in_fence).then_some(PendingKind::Heading)?,
            LineKind::Opens(fence) if !in_fence && fence.is_block() => block(0, &fence),
            _ => {
                let mut syntax = SyntaxScanner::default();
                syntax.push_line(unquote(command));
                (!syntax.is_complete()).then_some(PendingKind::Lines(mark, syntax))?
            }
        };
        Some(PendingCommand {
            lines: held.to_owned(),
            count: 1,
            kind,
        })
    }

    /// Handles the next line, which is classified as `kind`. A line that is foreign is not taken.
    pub fn push_line(&mut self, next: &str, kind: &LineKind) -> LineFit {
        let content = next.trim_end_matches(['\n', '\r']);
        let start = content.trim_start_matches(' ');
        let own_indent = content.len() - start.len();
        if self.lines.len() + next.len() > LONGEST || self.count == MOST_LINES {
            return LineFit::Foreign;
        }
        let fit = match &mut self.kind {
            PendingKind::Lines(_, syntax) => {
                let is_foreign = match kind {
                    LineKind::Opens(..) => !syntax.is_in_heredoc(),
                    LineKind::Mark(_) | LineKind::Closes => true,
                    _ => false,
                };
                if is_foreign {
                    return LineFit::Foreign;
                }
                syntax.push_line(content);
                match syntax.is_complete() {
                    true => LineFit::Completes,
                    false => LineFit::More,
                }
            }
            PendingKind::Heading => match kind {
                LineKind::Opens(fence) if fence.is_block() => {
                    self.kind = block(own_indent, fence);
                    LineFit::More
                }
                _ if start.trim().is_empty() => LineFit::More,
                _ => return LineFit::Foreign,
            },
            PendingKind::Block {
                command,
                indent,
                sign,
                length,
            } => {
                let fence = start.trim_end_matches([' ', '\t']);
                let is_fence = own_indent <= 3 && fence.chars().all(|c| c == *sign);
                if is_fence && fence.len() >= *length {
                    LineFit::Completes
                } else if start.starts_with(MARK) {
                    // A block of `CMD:` lines.
                    return LineFit::Foreign;
                } else {
                    command.push_str(&content[own_indent.min(*indent)..]);
                    command.push('\n');
                    LineFit::More
                }
            }
        };
        self.lines.push_str(next);
        self.count += 1;
        fit
    }

    /// Returns whether the command is a code block.
    pub fn is_block(&self) -> bool {
        matches!(self.kind, PendingKind::Block { .. })
    }

    /// Returns the command of all lines.
    pub fn command(&self) -> String {
        match &self.kind {
            PendingKind::Lines(mark, _) => self.lines[*mark..].replace("\r\n", "\n"),
            PendingKind::Heading => String::new(),
            PendingKind::Block { command, .. } => command.clone(),
        }
    }

    /// Returns the command of the first line, if it has one.
    pub fn first_command(&self) -> Option<&str> {
        let PendingKind::Lines(mark, _) = &self.kind else {
            return None;
        };
        let first = self.lines[*mark..]
            .trim_start_matches(BLANKS)
            .lines()
            .next()?;
        Some(unquote(first.trim_end_matches(BLANKS))).filter(|command| !command.trim().is_empty())
    }
}

fn block(indent: usize, opened: &OpenedFence) -> PendingKind {
    PendingKind::Block {
        command: String::new(),
        indent,
        sign: opened.fence.sign,
        length: opened.fence.length,
    }
}
