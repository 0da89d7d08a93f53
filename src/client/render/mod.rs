//! Streaming Markdown renderer for the terminal.
//!
//! Text is written as it arrives. Only text whose meaning is still open waits, within fixed bounds: a marker, the start of
//! a line, a table row, a line of highlighted code. Lines above the current one are never changed; in the current line,
//! only a word that has outgrown it is moved. The output does not depend on how the text is cut into frames.
//!
//! The text must have passed the text sink. A control character that arrives nevertheless is shown as U+FFFD.

mod block;
mod containers;
mod entity;
mod highlight;
mod inline;
mod lookahead;
mod prefix;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod width;
mod wrap;

use block::{BlockContainer, BlockContext, BlockKind, CodeFence, LineStart};
use highlight::CodeLexer;
use inline::InlineRenderer;
use style::TextStyle;
use table::Table;
use wrap::LineWrapper;

/// Maximum length in bytes of an undecided line start, which is then taken for what it looks like so far.
const MAX_LINE_START_BYTES: usize = 1024;
/// Maximum length in bytes of a table row; longer lines are text.
const MAX_ROW_BYTES: usize = 8 * 1024;
/// Maximum length in bytes of a line of code that is highlighted as one.
const MAX_CODE_BYTES: usize = 4 * 1024;
/// Maximum width in columns; bounds the memory for rules.
const MAX_WIDTH: usize = 10_000;

/// Rendering options.
#[derive(Clone, Copy, Debug)]
pub struct RenderOptions {
    /// Width of the terminal in columns.
    pub width: usize,
    /// Whether escape sequences may be used. If not, the output is text, LF and backspaces only.
    pub color: bool,
}

/// The open block.
enum OpenBlock {
    None,
    Paragraph,
    Heading,
    Code(CodeFence, Option<CodeLexer>),
    Indented,
    /// A line that becomes a table header if a delimiter row follows; whether a paragraph was open before it.
    PossibleTable(String, bool),
    Table(Table),
}

/// The construct that the next byte belongs to.
#[derive(Clone, Copy, PartialEq)]
enum LineState {
    Start,
    Text,
    Code,
    Row,
    /// The ignored rest of an overlong line.
    Skip,
}

/// Renders one answer: call [`push`](Self::push) for each piece of text, then [`finish`](Self::finish).
pub struct MarkdownRenderer {
    wrap: LineWrapper,
    inline: InlineRenderer,
    state: LineState,
    open: OpenBlock,
    stack: Vec<BlockContainer>,
    /// Index of the first container whose marker was not shown yet.
    fresh: usize,
    /// A pending blank line before the next block, and the number of containers around it.
    pending_blank: Option<usize>,
    /// Whether anything was shown.
    has_output: bool,
    /// Whether a line of code was started.
    code_line: bool,
    /// Undecided text.
    pending: String,
}

impl MarkdownRenderer {
    /// Creates a renderer; the cursor must be at the start of an empty line.
    pub fn new(options: RenderOptions) -> Self {
        Self {
            wrap: LineWrapper::new(options.width.min(MAX_WIDTH), options.color, false),
            inline: InlineRenderer::default(),
            state: LineState::Start,
            open: OpenBlock::None,
            stack: Vec::new(),
            fresh: 0,
            pending_blank: None,
            has_output: false,
            code_line: false,
            pending: String::new(),
        }
    }

    /// Renders the decidable part of the text so far.
    pub fn push(&mut self, text: &str, out: &mut Vec<u8>) {
        self.wrap.begin_push(out);
        if self.pending.is_empty() {
            let used = self.feed(text, false, out);
            self.pending.push_str(&text[used..]);
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.push_str(text);
            let used = self.feed(&pending, false, out);
            pending.drain(..used);
            self.pending = pending;
        }
        self.wrap.end_push(out);
    }

    /// Sets a new terminal width, used from the next line on.
    pub fn resize(&mut self, width: usize) {
        self.wrap.resize(width.min(MAX_WIDTH));
        self.set_prefix();
    }

    /// Ends the text: renders undecided text, resets colours, ends the line and resets the renderer.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(false, out);
    }

    /// Ends the line for foreign output, after which more text follows. Like [`finish`](Self::finish), but keeps the blank
    /// lines around the foreign output.
    pub fn pause(&mut self, out: &mut Vec<u8>) {
        self.end(true, out);
    }

    fn end(&mut self, more: bool, out: &mut Vec<u8>) {
        self.wrap.begin_push(out);
        let pending = std::mem::take(&mut self.pending);
        self.feed(&pending, true, out);
        self.close(out);
        self.leave(0, out);
        self.wrap.end_line(out);
        self.state = LineState::Start;
        self.set_prefix();
        if self.pending_blank.take().is_some() && more && self.has_output {
            self.wrap.raw_line(b"", out);
        }
        self.has_output = more;
        self.wrap.end_push(out);
    }

    /// Whether the cursor is at the start of an empty line.
    pub fn at_line_start(&self) -> bool {
        self.wrap.at_line_start()
    }

    /// Renders a prefix of `s` and returns its length. The rest is bounded; at the end of the text it is empty.
    fn feed(&mut self, s: &str, eof: bool, out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while used < s.len() {
            let rest = &s[used..];
            let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
            let lf = line.len() < rest.len();
            let whole = lf || eof;
            match self.state {
                LineState::Start => {
                    let head = prefix_at_most(line, MAX_LINE_START_BYTES);
                    let cut =
                        head.len() < line.len() || (head.len() == MAX_LINE_START_BYTES && !whole);
                    let context = BlockContext {
                        stack: &self.stack,
                        open_fence: if let OpenBlock::Code(fence, _) = &self.open {
                            Some(*fence)
                        } else {
                            None
                        },
                        in_paragraph: matches!(
                            self.open,
                            OpenBlock::Paragraph | OpenBlock::PossibleTable(..)
                        ),
                    };
                    let Some(start) = block::start(&context, head, cut || whole) else {
                        return used;
                    };
                    used += start.used;
                    let blank = start.kind == BlockKind::Blank;
                    self.start_block(start, out);
                    if blank && cut {
                        self.state = LineState::Start;
                    } else if self.state == LineState::Skip && !cut {
                        self.state = LineState::Start;
                        used += usize::from(lf);
                    }
                }
                LineState::Skip => {
                    used += line.len() + usize::from(lf);
                    if lf {
                        self.state = LineState::Start;
                    }
                }
                LineState::Text => {
                    self.inline.push(line, &mut self.wrap, out);
                    used += line.len() + usize::from(lf);
                    if lf {
                        self.state = LineState::Start;
                        if matches!(self.open, OpenBlock::Heading) {
                            self.close(out);
                        }
                    }
                }
                LineState::Code => {
                    let part = prefix_at_most(line, MAX_CODE_BYTES);
                    if matches!(self.open, OpenBlock::Code(_, Some(_)))
                        && !whole
                        && part.len() == line.len()
                        && part.len() < MAX_CODE_BYTES
                    {
                        return used;
                    }
                    self.code(part, out);
                    used += part.len();
                    if part.len() == line.len() && lf {
                        self.end_code_line(out);
                        self.state = LineState::Start;
                        used += 1;
                    }
                }
                LineState::Row => {
                    if line.len() > MAX_ROW_BYTES {
                        self.long_row(out);
                        self.state = LineState::Text;
                    } else if whole {
                        self.row(line, out);
                        self.state = LineState::Start;
                        used += line.len() + usize::from(lf);
                    } else {
                        return used;
                    }
                }
            }
        }
        used
    }

    /// Begins or continues a block after the start of a line was parsed.
    fn start_block(&mut self, start: LineStart, out: &mut Vec<u8>) {
        self.state = LineState::Skip;
        let same = start.matched == self.stack.len() && start.fresh.is_empty();
        match start.kind {
            BlockKind::Text => {
                self.state = LineState::Text;
                // Lazy continuation: a paragraph continues even where the markers of its containers are missing.
                if start.fresh.is_empty()
                    && matches!(
                        self.open,
                        OpenBlock::Paragraph | OpenBlock::PossibleTable(..)
                    )
                {
                    self.table_head_to_text(out);
                    self.inline.push("\n", &mut self.wrap, out);
                } else {
                    self.enter(start, out);
                    self.paragraph(out);
                }
            }
            BlockKind::Row => {
                self.state = LineState::Row;
                if !same
                    || !matches!(
                        self.open,
                        OpenBlock::Paragraph | OpenBlock::PossibleTable(..) | OpenBlock::Table(_)
                    )
                {
                    self.enter(start, out);
                }
            }
            BlockKind::CodeLine => self.state = LineState::Code,
            BlockKind::Indented => {
                self.state = LineState::Code;
                if !same || !matches!(self.open, OpenBlock::Indented) {
                    self.enter(start, out);
                    self.open = OpenBlock::Indented;
                }
            }
            BlockKind::Blank => {
                let (matched, empty) = (start.matched, start.fresh.is_empty());
                self.enter(start, out);
                if empty {
                    self.pending_blank = Some(
                        self.pending_blank
                            .map_or(matched, |depth| depth.min(matched)),
                    );
                }
            }
            BlockKind::Heading(level) => {
                self.state = LineState::Text;
                self.enter(start, out);
                self.open_line(out);
                if !self.wrap.color() {
                    self.wrap.text(&"######"[..level.min(6)], false, out);
                    self.wrap.space(false);
                }
                let style = TextStyle::BOLD | TextStyle::MAGENTA;
                self.inline.start(
                    if level == 1 {
                        style | TextStyle::UNDERLINE
                    } else {
                        style
                    },
                    true,
                );
                self.open = OpenBlock::Heading;
            }
            BlockKind::Fence(fence, ref info) => {
                let lexer = if self.wrap.color() {
                    CodeLexer::new(info)
                } else {
                    None
                };
                let name = info
                    .split(char::is_whitespace)
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                self.enter(start, out);
                let space = if name.is_empty() { "" } else { " " };
                self.rule(&format!("───{space}{name}"), out);
                self.open = OpenBlock::Code(fence, lexer);
            }
            BlockKind::FenceEnd => self.close(out),
            BlockKind::Rule => {
                self.enter(start, out);
                self.rule(&"─".repeat(self.available_columns()), out);
            }
            BlockKind::DoubleRule => {
                self.enter(start, out);
                self.rule(&"═".repeat(self.available_columns()), out);
            }
        }
    }

    /// Opens a paragraph.
    fn paragraph(&mut self, out: &mut Vec<u8>) {
        self.open_line(out);
        self.inline.start(TextStyle::PLAIN, false);
        self.open = OpenBlock::Paragraph;
    }

    /// Turns a possible table header into text.
    fn table_head_to_text(&mut self, out: &mut Vec<u8>) {
        if let OpenBlock::PossibleTable(head, para) =
            std::mem::replace(&mut self.open, OpenBlock::Paragraph)
        {
            if para {
                self.inline.push("\n", &mut self.wrap, out);
            } else {
                self.paragraph(out);
            }
            self.inline.push(&head, &mut self.wrap, out);
        }
    }

    /// Handles a complete line of a table or of a possible table header.
    fn row(&mut self, line: &str, out: &mut Vec<u8>) {
        let (available, color) = (self.available_columns(), self.wrap.color());
        if let OpenBlock::Table(table) = &mut self.open {
            let lines = table.row(line, available, color);
            return self.write_lines(&lines, out);
        }
        if let OpenBlock::PossibleTable(head, para) = &self.open
            && let Some(table) = Table::new(head, line)
        {
            if *para {
                self.inline.end(&mut self.wrap, out);
                self.wrap.end_line(out);
            }
            self.open = OpenBlock::Table(table);
            return;
        }
        if matches!(self.open, OpenBlock::PossibleTable(..)) {
            self.table_head_to_text(out);
        }
        self.open =
            OpenBlock::PossibleTable(line.to_owned(), matches!(self.open, OpenBlock::Paragraph));
    }

    /// Handles a possible table row that has grown beyond [`MAX_ROW_BYTES`].
    fn long_row(&mut self, out: &mut Vec<u8>) {
        if matches!(self.open, OpenBlock::Table(_)) {
            self.close(out);
        }
        if matches!(self.open, OpenBlock::None) {
            self.paragraph(out);
        } else {
            self.table_head_to_text(out);
            self.inline.push("\n", &mut self.wrap, out);
        }
    }

    /// Renders a part of a line of code.
    fn code(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if !self.code_line {
            self.open_line(out);
            self.code_line = true;
        }
        let wrap = &mut self.wrap;
        match &mut self.open {
            OpenBlock::Code(_, Some(lexer)) => lexer.line(text, |style, piece| {
                wrap.set_style(style);
                wrap.verbatim(piece, out);
            }),
            _ => wrap.verbatim(text, out),
        }
    }

    fn end_code_line(&mut self, out: &mut Vec<u8>) {
        if !self.code_line {
            self.open_line(out);
        }
        self.code_line = false;
        self.wrap.set_style(TextStyle::PLAIN);
        self.wrap.raw_line(b"", out);
    }

    /// Renders a dim line.
    fn rule(&mut self, text: &str, out: &mut Vec<u8>) {
        self.open_line(out);
        self.wrap.set_style(TextStyle::DIM);
        self.wrap.verbatim(text, out);
        self.wrap.set_style(TextStyle::PLAIN);
        self.wrap.end_line(out);
    }

    /// Writes lines that are laid out already.
    fn write_lines(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        for line in lines.split_inclusive(|c| *c == b'\n') {
            self.open_line(out);
            self.wrap
                .raw_line(line.strip_suffix(b"\n").unwrap_or(line), out);
        }
    }

    /// Closes the open block.
    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.open, OpenBlock::PossibleTable(..)) {
            self.table_head_to_text(out);
        }
        let (available, color) = (self.available_columns(), self.wrap.color());
        match std::mem::replace(&mut self.open, OpenBlock::None) {
            OpenBlock::Paragraph | OpenBlock::Heading => {
                self.inline.end(&mut self.wrap, out);
                self.wrap.end_line(out);
            }
            OpenBlock::Code(..) => {
                if self.code_line {
                    self.end_code_line(out);
                }
                self.rule("───", out);
            }
            OpenBlock::Indented if self.code_line => self.end_code_line(out),
            OpenBlock::Table(mut table) => {
                let lines = table.flush(available, color);
                self.write_lines(&lines, out);
            }
            OpenBlock::None | OpenBlock::Indented | OpenBlock::PossibleTable(..) => {}
        }
    }
}

/// The longest prefix of `s` with at most `max` bytes.
fn prefix_at_most(s: &str, max: usize) -> &str {
    let mut end = max.min(s.len());
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s[..end]
}
