//! Extracts proposed commands from a streamed answer. Pure.
//!
//! A `CMD:` line of the answer itself proposes a command, and so does a code block that consists of such lines. A command
//! takes further lines until it is complete; if it never is, its first line is proposed and the rest is text. A code block
//! directly below `CMD:` is one command. A `CMD:` line that is quoted in other code or is in an HTML comment, or another
//! block of raw HTML, is text.

mod line_kind;
mod pending;
mod raw_html;

use line_kind::{LineKind, line};
use pending::{LineFit, PendingCommand};
use raw_html::RawHtmlScanner;

/// Maximum length of a command, in bytes and lines. A longer command stays text, because the user could not check it.
const LONGEST: usize = 64 << 10;
const MOST_LINES: usize = 200;

/// Maximum number of commands that a turn proposes, and maximum size of all of them in bytes. Further ones are not offered.
pub const MAX_PROPOSALS: usize = 50;
/// See [`MAX_PROPOSALS`].
pub const MAX_PROPOSAL_BYTES: usize = 256 << 10;

/// Counts the proposed commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProposalLimit {
    commands: usize,
    bytes: usize,
}

impl ProposalLimit {
    /// Whether a further command may be proposed; it counts then.
    pub fn admits(&mut self, command: &str) -> bool {
        let bytes = self.bytes + command.len();
        let is_admitted = self.commands < MAX_PROPOSALS && bytes <= MAX_PROPOSAL_BYTES;
        if is_admitted {
            (self.commands, self.bytes) = (self.commands + 1, bytes);
        }
        is_admitted
    }
}

/// Removed around a command.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPiece {
    /// Text to show.
    Text(String),
    /// A proposed command.
    Command {
        /// The command.
        text: String,
        /// Bytes of the answer that it takes, in whole lines. Of several commands in a code block, the first takes all of it.
        taken: usize,
    },
}

/// Handles the pieces of an answer that has ended. One that is not whole was cut off: its last command may be incomplete, and is text.
pub fn pieces(answer: &str, is_whole: bool, mut emit: impl FnMut(AnswerPiece)) {
    let mut extractor = CommandExtractor::default();
    extractor.push(answer, &mut emit);
    match is_whole {
        true => extractor.finish(&mut emit),
        false => extractor.cut_off(&mut emit),
    }
}

/// The position of the stream within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// The line so far may still become a mark or a fence.
    Start,
    /// In a line of text.
    Text,
    /// After the mark; its length in bytes.
    Command(usize),
    /// In the further lines of `pending`.
    More,
}

/// An open code block.
#[derive(Debug, Clone)]
struct FenceMarker {
    sign: char,
    length: usize,
    /// Width of the list markers before it, by which the lines of the block may be indented.
    offset: usize,
    /// The block so far, as long as it has only commands and blank lines. `None` once it has other text, which makes all
    /// of it text.
    held: Option<HeldBlock>,
}

/// A code block that may turn out to consist of commands.
#[derive(Debug, Clone, Default)]
struct HeldBlock {
    /// Its lines as received, from the opening fence on.
    lines: String,
    commands: Vec<String>,
}

/// The state between two chunks: at most the beginning of a line, one command, and a code block of commands.
#[derive(Debug)]
pub struct CommandExtractor {
    at: LinePosition,
    held: String,
    fence: Option<FenceMarker>,
    pending: Option<PendingCommand>,
    html: RawHtmlScanner,
    /// Text to emit.
    text: String,
}

impl Default for CommandExtractor {
    fn default() -> Self {
        CommandExtractor {
            at: LinePosition::Start,
            held: String::new(),
            fence: None,
            pending: None,
            html: RawHtmlScanner::default(),
            text: String::new(),
        }
    }
}

impl CommandExtractor {
    /// Handles a chunk and emits each complete piece. Text is held back only while it may be a mark, a fence or a line of a
    /// command; a code block is held back as long as it consists of commands.
    pub fn push(&mut self, chunk: &str, emit: &mut impl FnMut(AnswerPiece)) {
        for part in chunk.split_inclusive('\n') {
            self.push_part(part, emit);
        }
        self.flush(emit);
    }

    /// Handles a line or a part of one.
    fn push_part(&mut self, mut part: &str, emit: &mut impl FnMut(AnswerPiece)) {
        // A few characters decide what a line is, except for fences, which are short.
        while self.at == LinePosition::Start && !part.is_empty() {
            let taken = part.char_indices().nth(8).map_or(part.len(), |(i, _)| i);
            self.held.push_str(&part[..taken]);
            part = &part[taken..];
            self.decide(false, emit);
        }
        match self.at {
            LinePosition::Start => {}
            LinePosition::Text => {
                self.push_text(part);
                if part.ends_with('\n') {
                    self.at = LinePosition::Start;
                }
            }
            LinePosition::Command(mark) => {
                self.held.push_str(part);
                if self.held.ends_with('\n') {
                    self.end_command(mark, emit);
                } else if self.held.len() > LONGEST {
                    self.show_held();
                }
            }
            LinePosition::More => {
                self.held.push_str(part);
                if self.held.ends_with('\n') {
                    self.end_line(emit);
                } else if self.held.len() > LONGEST {
                    self.give_up(emit);
                }
            }
        }
    }

    /// Handles a complete line below a command.
    fn end_line(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        let kind = line(&self.held, self.fence.as_ref(), true);
        match self
            .pending
            .as_mut()
            .map(|p| p.push_line(&self.held, &kind))
        {
            Some(LineFit::More) => self.held.clear(),
            Some(LineFit::Completes) => {
                self.held.clear();
                self.end_pending(emit);
            }
            _ => self.give_up(emit),
        }
    }

    /// Emits the complete command, or its lines as text if they contain no command.
    fn end_pending(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        self.at = LinePosition::Start;
        let Some(pending) = self.pending.take() else {
            return;
        };
        let command = pending.command().trim_matches(BLANKS).to_owned();
        self.held = pending.lines;
        match command.trim().is_empty() {
            true => self.show_held(),
            false => self.emit_command(command, emit),
        }
    }

    /// Ends a command that is not complete: its first line is proposed alone, and the remaining lines are processed again.
    fn give_up(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        let rest = std::mem::take(&mut self.held);
        let Some(pending) = self.pending.take() else {
            return;
        };
        self.at = LinePosition::Start;
        let lines = &pending.lines;
        let (first, more) = lines.split_at(lines.find('\n').map_or(lines.len(), |at| at + 1));
        self.held = first.to_owned();
        match pending.first_command() {
            Some(command) => self.emit_command(command.to_owned(), emit),
            None => self.show_held(),
        }
        for part in more.split_inclusive('\n').chain([&*rest]) {
            self.push_part(part, emit);
        }
    }

    /// Classifies the held start of the line; `end` if the line is complete.
    fn decide(&mut self, end: bool, emit: &mut impl FnMut(AnswerPiece)) {
        if self.html.is_open() {
            return self.show_held();
        }
        match line(&self.held, self.fence.as_ref(), end) {
            LineKind::Open if !end => {}
            LineKind::Open | LineKind::Text => self.show_held(),
            LineKind::Mark(length) => {
                self.at = LinePosition::Command(length);
                if self.held.ends_with('\n') {
                    self.end_command(length, emit);
                }
            }
            LineKind::Blank => self.hold_line(),
            LineKind::Opens(opened) => {
                let held = opened.may_propose.then(|| HeldBlock {
                    lines: std::mem::take(&mut self.held),
                    commands: Vec::new(),
                });
                self.show_held();
                self.fence = Some(FenceMarker {
                    held,
                    ..opened.fence
                });
            }
            LineKind::Closes => {
                let block = self
                    .fence
                    .as_mut()
                    .and_then(|f| f.held.take_if(|h| !h.commands.is_empty()));
                match block {
                    Some(mut block) => {
                        block.lines.push_str(&std::mem::take(&mut self.held));
                        self.emit_block(block, emit);
                    }
                    None => self.show_held(),
                }
                self.fence = None;
            }
        }
    }

    /// Adds the held line to the held code block.
    fn hold_line(&mut self) {
        match self.fence.as_mut().and_then(|f| f.held.as_mut()) {
            Some(block) if block.lines.len() + self.held.len() <= LONGEST => {
                block.lines.push_str(&self.held);
                self.held.clear();
            }
            _ => self.show_held(),
        }
    }

    /// Emits the commands of a code block that consists of them.
    fn emit_block(&mut self, block: HeldBlock, emit: &mut impl FnMut(AnswerPiece)) {
        self.flush(emit);
        let mut taken = block.lines.len();
        for text in block.commands {
            emit(AnswerPiece::Command { text, taken });
            taken = 0;
        }
    }

    /// Emits the held characters as text.
    fn show_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.show_block();
        self.at = if self.held.ends_with('\n') {
            LinePosition::Start
        } else {
            LinePosition::Text
        };
        let held = std::mem::take(&mut self.held);
        self.push_text(&held);
    }

    /// Emits the held code block as text, because it contains something other than commands.
    fn show_block(&mut self) {
        if let Some(block) = self.fence.as_mut().and_then(|f| f.held.take()) {
            self.text.push_str(&block.lines);
        }
    }

    fn push_text(&mut self, text: &str) {
        // In a code block, HTML is code.
        if self.fence.is_none() {
            self.html.push(text);
        }
        self.text.push_str(text);
    }

    /// Emits the completed command, or text if it is not a command.
    fn end_command(&mut self, mark: usize, emit: &mut impl FnMut(AnswerPiece)) {
        let quoted = self.held[..mark].trim_start().starts_with('`');
        let command = self.held[mark..].trim_matches(BLANKS);
        if !quoted && self.held.len() <= LONGEST && self.held.ends_with('\n') {
            let in_fence = self.fence.is_some();
            self.pending = PendingCommand::begin(&self.held, mark, in_fence);
            if self.pending.is_some() {
                self.held.clear();
                self.at = LinePosition::More;
                return;
            }
        }
        let command = if quoted {
            // Otherwise the backticks mark a word in prose.
            let inner = command.strip_suffix('`').filter(|c| !c.contains('`'));
            inner.map(|c| c.trim_matches([' ', '\t']))
        } else {
            Some(unquote(command))
        };
        let command = command.filter(|c| !c.trim().is_empty() && self.held.len() <= LONGEST);
        let Some(command) = command.map(str::to_string) else {
            return self.show_held();
        };
        self.at = LinePosition::Start;
        self.emit_command(command, emit);
    }

    /// Emits the command of the held lines. In a code block it waits for the end of the block.
    fn emit_command(&mut self, text: String, emit: &mut impl FnMut(AnswerPiece)) {
        if self.fence.is_none() {
            let taken = std::mem::take(&mut self.held).len();
            self.flush(emit);
            return emit(AnswerPiece::Command { text, taken });
        }
        self.hold_line();
        if let Some(block) = self.fence.as_mut().and_then(|f| f.held.as_mut()) {
            block.commands.push(text);
        }
    }

    /// Ends a complete answer. A command on the last line needs no LF, and a code block of commands no closing
    /// fence; any other incomplete command is given up.
    pub fn finish(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        while self.at == LinePosition::More {
            if !self.held.is_empty() {
                self.end_line(emit);
            } else if self.pending.as_ref().is_some_and(PendingCommand::is_block) {
                self.end_pending(emit);
            } else {
                self.give_up(emit);
            }
        }
        match self.at {
            LinePosition::Command(mark) => self.end_command(mark, emit),
            LinePosition::Start => self.decide(true, emit),
            LinePosition::Text | LinePosition::More => {}
        }
        let block = self
            .fence
            .as_mut()
            .and_then(|f| f.held.take_if(|h| !h.commands.is_empty()));
        if let Some(block) = block {
            self.emit_block(block, emit);
        }
        self.end(emit);
    }

    /// Ends an answer that was cut off. Emits the held input as text: neither a partial command nor those of a partial code
    /// block must be offered.
    pub fn cut_off(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        if let Some(pending) = self.pending.take() {
            self.held.insert_str(0, &pending.lines);
        }
        self.show_held();
        self.end(emit);
    }

    fn end(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        self.show_block();
        self.flush(emit);
        *self = CommandExtractor::default();
    }

    fn flush(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        if !self.text.is_empty() {
            emit(AnswerPiece::Text(std::mem::take(&mut self.text)));
        }
    }
}

/// Strips the backticks that models put around a command.
fn unquote(command: &str) -> &str {
    match command.strip_prefix('`').and_then(|c| c.strip_suffix('`')) {
        Some(inner) if !inner.contains('`') => inner.trim_matches([' ', '\t']),
        _ => command,
    }
}

#[cfg(test)]
mod tests;
