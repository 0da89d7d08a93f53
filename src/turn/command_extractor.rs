//! Extracts `CMD:` lines from a streamed answer, and drops code fences that contain only such lines. Pure.

/// The mark at the beginning of a line that proposes a command.
const MARK: &str = "CMD:";

/// Accepted before the mark: models also put the line in a list or in backticks.
const BULLETS: [&str; 2] = ["- CMD:", "* CMD:"];
const QUOTED: &str = "`CMD:";

/// Maximum length of a command. A longer line stays text, because the user could not check it.
const LONGEST: usize = 64 << 10;

/// Maximum number of bytes held back while a line may still become a code fence, and of blank lines held after one.
const MAX_HELD: usize = 256;

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPiece {
    /// Text to show.
    Text(String),
    /// A proposed command.
    Command(String),
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
}

/// An open code block.
#[derive(Debug, Clone)]
struct FenceMarker {
    /// The line that opened it, with its LF.
    opener: String,
    sign: char,
    length: usize,
    /// Blank lines since the opening fence, while that is held back because only commands followed.
    waiting: Option<HeldFence>,
}

#[derive(Debug, Clone, Default)]
struct HeldFence {
    blanks: String,
    commands: bool,
}

/// The state between two chunks: at most the beginning of a line or one command, and the line of an open fence.
#[derive(Debug)]
pub struct CommandExtractor {
    at: LinePosition,
    held: String,
    fence: Option<FenceMarker>,
    /// Text to emit.
    text: String,
}

impl Default for CommandExtractor {
    fn default() -> Self {
        CommandExtractor {
            at: LinePosition::Start,
            held: String::new(),
            fence: None,
            text: String::new(),
        }
    }
}

impl CommandExtractor {
    /// Handles a chunk and emits each complete piece. Text is held back only while it may be a mark or a fence; an opening
    /// fence is held back until its block contains something other than commands.
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
                self.text.push_str(part);
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
        }
    }

    /// Classifies the held start of the line; `end` if the line is complete.
    fn decide(&mut self, end: bool, emit: &mut impl FnMut(AnswerPiece)) {
        match line(&self.held, self.fence.as_ref(), end) {
            LineKind::Open if !end => {}
            LineKind::Open | LineKind::Text => self.show_held(),
            LineKind::Mark(length) => {
                self.at = LinePosition::Command(length);
                if self.held.ends_with('\n') {
                    self.end_command(length, emit);
                }
            }
            LineKind::Blank => match self.fence.as_mut().and_then(|f| f.waiting.as_mut()) {
                Some(waiting) if waiting.blanks.len() + self.held.len() <= MAX_HELD => {
                    waiting.blanks.push_str(&self.held);
                    self.held.clear();
                }
                _ => self.show_held(),
            },
            LineKind::Opens(sign, length) => {
                self.fence = Some(FenceMarker {
                    opener: std::mem::take(&mut self.held),
                    sign,
                    length,
                    waiting: Some(HeldFence::default()),
                });
            }
            LineKind::Closes => {
                let around_commands = self
                    .fence
                    .as_ref()
                    .and_then(|f| f.waiting.as_ref())
                    .is_some_and(|w| w.commands);
                if around_commands {
                    self.held.clear();
                } else {
                    self.show_held();
                }
                self.fence = None;
            }
        }
    }

    /// Emits the held characters as text.
    fn show_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.show_fence();
        self.at = if self.held.ends_with('\n') {
            LinePosition::Start
        } else {
            LinePosition::Text
        };
        self.text.push_str(&std::mem::take(&mut self.held));
    }

    /// Emits the held opening fence, because the block contains something other than commands.
    fn show_fence(&mut self) {
        if let Some(fence) = &mut self.fence
            && let Some(waiting) = fence.waiting.take()
        {
            self.text.push_str(&fence.opener);
            self.text.push_str(&waiting.blanks);
        }
    }

    /// Emits the completed command, or text if it is not a command.
    fn end_command(&mut self, mark: usize, emit: &mut impl FnMut(AnswerPiece)) {
        let quoted = self.held[..mark].trim_start().starts_with('`');
        let command = self.held[mark..].trim_matches([' ', '\t', '\r', '\n']);
        let command = if quoted {
            // Otherwise the backticks mark a word in prose.
            let inner = command.strip_suffix('`').filter(|c| !c.contains('`'));
            inner.map(|c| c.trim_matches([' ', '\t']))
        } else {
            Some(unquote(command))
        };
        let command = command.filter(|c| !c.is_empty() && self.held.len() <= LONGEST);
        let Some(command) = command.map(str::to_string) else {
            return self.show_held();
        };
        self.at = LinePosition::Start;
        self.held.clear();
        if let Some(fence) = &mut self.fence {
            match &mut fence.waiting {
                Some(waiting) => {
                    waiting.commands = true;
                    waiting.blanks.clear();
                }
                None => {
                    // Closes the block before the command; it is opened again if something other than commands follows.
                    let indent = fence.opener.len() - fence.opener.trim_start_matches(' ').len();
                    self.text.push_str(&" ".repeat(indent));
                    self.text
                        .extend(std::iter::repeat_n(fence.sign, fence.length));
                    self.text.push('\n');
                    fence.waiting = Some(HeldFence {
                        commands: true,
                        ..HeldFence::default()
                    });
                }
            }
        }
        self.flush(emit);
        emit(AnswerPiece::Command(command));
    }

    /// Ends a complete answer. A command on the last line needs no LF.
    pub fn finish(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        match self.at {
            LinePosition::Command(mark) => self.end_command(mark, emit),
            LinePosition::Start => self.decide(true, emit),
            LinePosition::Text => {}
        }
        self.end(emit);
    }

    /// Ends an answer that was cut off. Emits held characters as text, because a partial command must not be offered.
    pub fn cut_off(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        self.show_held();
        self.end(emit);
    }

    fn end(&mut self, emit: &mut impl FnMut(AnswerPiece)) {
        let waiting = self.fence.as_ref().and_then(|f| f.waiting.as_ref());
        if waiting.is_some_and(|w| !w.commands) {
            self.show_fence();
        }
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

/// The classification of the beginning of a line.
enum LineKind {
    /// May still become a mark or a fence.
    Open,
    Text,
    /// A command, after a mark of this many bytes.
    Mark(usize),
    Blank,
    /// A fence that opens a code block: its character and how many.
    Opens(char, usize),
    Closes,
}

fn line(held: &str, fence: Option<&FenceMarker>, end: bool) -> LineKind {
    let whole = end || held.ends_with('\n');
    let blank = held.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
    if blank && held.len() <= MAX_HELD && fence.is_some_and(|f| f.waiting.is_some()) {
        return if whole {
            LineKind::Blank
        } else {
            LineKind::Open
        };
    }
    if held.len() > MAX_HELD {
        return LineKind::Text;
    }
    let indent = held.bytes().take_while(|b| *b == b' ').count();
    let rest = &held[indent..];
    if indent > 3 {
        return LineKind::Text;
    }
    // Within a code block, a bullet or a backtick is code.
    let marks = [MARK, BULLETS[0], BULLETS[1], QUOTED];
    let marks = if fence.is_some() {
        &marks[..1]
    } else {
        &marks[..]
    };
    if let Some(mark) = marks.iter().find(|m| rest.starts_with(**m)) {
        return LineKind::Mark(indent + mark.len());
    }
    if marks.iter().any(|m| m.starts_with(rest)) {
        return LineKind::Open;
    }
    let sign = match (fence, rest.chars().next()) {
        (Some(fence), Some(c)) if c == fence.sign => c,
        (None, Some(c @ ('`' | '~'))) => c,
        _ => return LineKind::Text,
    };
    let info = rest.trim_start_matches(sign);
    let length = rest.len() - info.len();
    if info.is_empty() && !whole {
        return LineKind::Open;
    }
    let matches = match fence {
        Some(fence) => length >= fence.length && info.trim().is_empty(),
        None => length >= 3 && !(sign == '`' && info.contains('`')),
    };
    match (matches, whole, fence) {
        (false, ..) => LineKind::Text,
        (true, false, _) => LineKind::Open,
        (true, true, Some(_)) => LineKind::Closes,
        (true, true, None) => LineKind::Opens(sign, length),
    }
}

#[cfg(test)]
mod tests;
