//! Markdown for a terminal, rendered while it streams.
//!
//! Text goes out as it arrives; what waits is only what the text to come may still change: a marker, the start of a
//! line, a row of a table, a line of coloured code, each within a bound. Nothing above the current line is touched,
//! and of the current line only a word that has outgrown it. How the text is cut into frames never shows.
//!
//! The text must have been through the sink. Should a control character come nevertheless, U+FFFD is shown for it.

mod block;
mod containers;
mod entity;
mod highlight;
mod inline;
mod look;
mod prefix;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod width;
mod wrap;

use block::{Container, Context, Fence, Leaf, Start};
use highlight::Lexer;
use inline::Inline;
use style::Style;
use table::Table;
use wrap::Wrap;

/// The start of a line that is still undecided after so many bytes is taken for what it looks like.
const MAX_START: usize = 1024;
/// A line of a table that is longer is text.
const MAX_ROW: usize = 8 * 1024;
/// A line of code that is longer is coloured in parts.
const MAX_CODE: usize = 4 * 1024;
/// No terminal is wider, and a rule across it stays small.
const MAX_WIDTH: usize = 10_000;

/// How to render.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The columns of the terminal.
    pub width: usize,
    /// Whether escape sequences may be used. Without them there is nothing but text, LF and backspaces.
    pub color: bool,
}

/// The open block.
enum Open {
    None,
    Para,
    Heading,
    Code(Fence, Option<Lexer>),
    Indented,
    /// A line that is the head of a table if the next one says so; whether a paragraph was open before it.
    Head(String, bool),
    Table(Table),
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Start,
    Text,
    Code,
    Row,
    /// The rest of a line that has been cut.
    Skip,
}

/// Renders one answer. Give it text as it comes, then [`finish`](Self::finish).
pub struct Renderer {
    wrap: Wrap,
    inline: Inline,
    at: At,
    open: Open,
    stack: Vec<Container>,
    /// The first container whose marker has not been shown.
    fresh: usize,
    /// A blank line to show before the next block, and the containers it stands in.
    blank: Option<usize>,
    /// Something has been shown.
    shown: bool,
    /// A line of code has been started.
    code_line: bool,
    /// Undecided text.
    held: String,
}

impl Renderer {
    /// A renderer at the start of an empty line.
    pub fn new(options: Options) -> Self {
        Self {
            wrap: Wrap::new(options.width.min(MAX_WIDTH), options.color, false),
            inline: Inline::default(),
            at: At::Start,
            open: Open::None,
            stack: Vec::new(),
            fresh: 0,
            blank: None,
            shown: false,
            code_line: false,
            held: String::new(),
        }
    }

    /// Renders what can be rendered of the text so far.
    pub fn push(&mut self, text: &str, out: &mut Vec<u8>) {
        self.wrap.begin_push(out);
        if self.held.is_empty() {
            let used = self.feed(text, false, out);
            self.held.push_str(&text[used..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.push_str(text);
            let used = self.feed(&held, false, out);
            held.drain(..used);
            self.held = held;
        }
        self.wrap.end_push(out);
    }

    /// The terminal has a new width, which the following lines take.
    pub fn resize(&mut self, width: usize) {
        self.wrap.resize(width.min(MAX_WIDTH));
        self.set_prefix();
    }

    /// The text is over: shows what was undecided, resets colours and ends the line. The renderer is as new then.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(false, out);
    }

    /// A line that is not the text's comes next, then more text: as [`finish`](Self::finish), but blank lines
    /// before and behind that line are kept.
    pub fn pause(&mut self, out: &mut Vec<u8>) {
        self.end(true, out);
    }

    fn end(&mut self, more: bool, out: &mut Vec<u8>) {
        self.wrap.begin_push(out);
        let held = std::mem::take(&mut self.held);
        self.feed(&held, true, out);
        self.close(out);
        self.leave(0, out);
        self.wrap.end_line(out);
        self.at = At::Start;
        self.set_prefix();
        if self.blank.take().is_some() && more && self.shown {
            self.wrap.raw_line(b"", out);
        }
        self.shown = more;
        self.wrap.end_push(out);
    }

    /// Whether the cursor is at the start of an empty line.
    pub fn at_line_start(&self) -> bool {
        self.wrap.at_line_start()
    }

    /// Renders from the start of `s` and returns how much; what remains is bounded, and nothing remains at the end.
    fn feed(&mut self, s: &str, eof: bool, out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while used < s.len() {
            let rest = &s[used..];
            let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
            let lf = line.len() < rest.len();
            let whole = lf || eof;
            match self.at {
                At::Start => {
                    let head = floor(line, MAX_START);
                    let cut = head.len() < line.len() || (head.len() == MAX_START && !whole);
                    let cx = Context {
                        stack: &self.stack,
                        code: if let Open::Code(fence, _) = &self.open {
                            Some(*fence)
                        } else {
                            None
                        },
                        para: matches!(self.open, Open::Para | Open::Head(..)),
                    };
                    let Some(start) = block::start(&cx, head, cut || whole) else {
                        return used;
                    };
                    used += start.used;
                    let blank = start.leaf == Leaf::Blank;
                    self.start(start, out);
                    if blank && cut {
                        self.at = At::Start;
                    } else if self.at == At::Skip && !cut {
                        self.at = At::Start;
                        used += usize::from(lf);
                    }
                }
                At::Skip => {
                    used += line.len() + usize::from(lf);
                    if lf {
                        self.at = At::Start;
                    }
                }
                At::Text => {
                    self.inline.push(line, &mut self.wrap, out);
                    used += line.len() + usize::from(lf);
                    if lf {
                        self.at = At::Start;
                        if matches!(self.open, Open::Heading) {
                            self.close(out);
                        }
                    }
                }
                At::Code => {
                    let part = floor(line, MAX_CODE);
                    if matches!(self.open, Open::Code(_, Some(_)))
                        && !whole
                        && part.len() == line.len()
                        && part.len() < MAX_CODE
                    {
                        return used;
                    }
                    self.code(part, out);
                    used += part.len();
                    if part.len() == line.len() && lf {
                        self.end_code_line(out);
                        self.at = At::Start;
                        used += 1;
                    }
                }
                At::Row => {
                    if line.len() > MAX_ROW {
                        self.long_row(out);
                        self.at = At::Text;
                    } else if whole {
                        self.row(line, out);
                        self.at = At::Start;
                        used += line.len() + usize::from(lf);
                    } else {
                        return used;
                    }
                }
            }
        }
        used
    }

    /// Begins or goes on with a block, as its line's start says.
    fn start(&mut self, start: Start, out: &mut Vec<u8>) {
        self.at = At::Skip;
        let same = start.matched == self.stack.len() && start.fresh.is_empty();
        match start.leaf {
            Leaf::Text => {
                self.at = At::Text;
                // A paragraph goes on even where the markers of its containers are missing.
                if start.fresh.is_empty() && matches!(self.open, Open::Para | Open::Head(..)) {
                    self.demote(out);
                    self.inline.push("\n", &mut self.wrap, out);
                } else {
                    self.enter(start, out);
                    self.paragraph(out);
                }
            }
            Leaf::Row => {
                self.at = At::Row;
                if !same || !matches!(self.open, Open::Para | Open::Head(..) | Open::Table(_)) {
                    self.enter(start, out);
                }
            }
            Leaf::CodeLine => self.at = At::Code,
            Leaf::Indented => {
                self.at = At::Code;
                if !same || !matches!(self.open, Open::Indented) {
                    self.enter(start, out);
                    self.open = Open::Indented;
                }
            }
            Leaf::Blank => {
                let (matched, empty) = (start.matched, start.fresh.is_empty());
                self.enter(start, out);
                if empty {
                    self.blank = Some(self.blank.map_or(matched, |depth| depth.min(matched)));
                }
            }
            Leaf::Heading(level) => {
                self.at = At::Text;
                self.enter(start, out);
                self.open_line(out);
                if !self.wrap.color() {
                    self.wrap.text(&"######"[..level.min(6)], false, out);
                    self.wrap.space(false);
                }
                let style = Style::BOLD | Style::MAGENTA;
                self.inline.start(
                    if level == 1 {
                        style | Style::UNDERLINE
                    } else {
                        style
                    },
                    true,
                );
                self.open = Open::Heading;
            }
            Leaf::Fence(fence, ref info) => {
                let lexer = if self.wrap.color() {
                    Lexer::new(info)
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
                self.open = Open::Code(fence, lexer);
            }
            Leaf::FenceEnd => self.close(out),
            Leaf::Rule => {
                self.enter(start, out);
                self.rule(&"─".repeat(self.room()), out);
            }
            Leaf::DoubleRule => {
                self.enter(start, out);
                self.rule(&"═".repeat(self.room()), out);
            }
        }
    }

    /// Opens a paragraph.
    fn paragraph(&mut self, out: &mut Vec<u8>) {
        self.open_line(out);
        self.inline.start(Style::PLAIN, false);
        self.open = Open::Para;
    }

    /// The line that could have been the head of a table is text after all.
    fn demote(&mut self, out: &mut Vec<u8>) {
        if let Open::Head(head, para) = std::mem::replace(&mut self.open, Open::Para) {
            if para {
                self.inline.push("\n", &mut self.wrap, out);
            } else {
                self.paragraph(out);
            }
            self.inline.push(&head, &mut self.wrap, out);
        }
    }

    /// Takes a complete line of a table, or one that may begin a table.
    fn row(&mut self, line: &str, out: &mut Vec<u8>) {
        let (room, color) = (self.room(), self.wrap.color());
        if let Open::Table(table) = &mut self.open {
            let lines = table.row(line, room, color);
            return self.lines(&lines, out);
        }
        if let Open::Head(head, para) = &self.open
            && let Some(table) = Table::new(head, line)
        {
            if *para {
                self.inline.end(&mut self.wrap, out);
                self.wrap.end_line(out);
            }
            self.open = Open::Table(table);
            return;
        }
        if matches!(self.open, Open::Head(..)) {
            self.demote(out);
        }
        self.open = Open::Head(line.to_owned(), matches!(self.open, Open::Para));
    }

    /// A line that begins like a table's has grown too long to wait for.
    fn long_row(&mut self, out: &mut Vec<u8>) {
        if matches!(self.open, Open::Table(_)) {
            self.close(out);
        }
        if matches!(self.open, Open::None) {
            self.paragraph(out);
        } else {
            self.demote(out);
            self.inline.push("\n", &mut self.wrap, out);
        }
    }

    /// Shows a part of a line of code.
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
            Open::Code(_, Some(lexer)) => lexer.line(text, |style, piece| {
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
        self.wrap.set_style(Style::PLAIN);
        self.wrap.raw_line(b"", out);
    }

    /// Shows a dim line of its own.
    fn rule(&mut self, text: &str, out: &mut Vec<u8>) {
        self.open_line(out);
        self.wrap.set_style(Style::DIM);
        self.wrap.verbatim(text, out);
        self.wrap.set_style(Style::PLAIN);
        self.wrap.end_line(out);
    }

    /// Shows lines that are laid out already.
    fn lines(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        for line in lines.split_inclusive(|c| *c == b'\n') {
            self.open_line(out);
            self.wrap
                .raw_line(line.strip_suffix(b"\n").unwrap_or(line), out);
        }
    }

    /// Ends the open block.
    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.open, Open::Head(..)) {
            self.demote(out);
        }
        let (room, color) = (self.room(), self.wrap.color());
        match std::mem::replace(&mut self.open, Open::None) {
            Open::Para | Open::Heading => {
                self.inline.end(&mut self.wrap, out);
                self.wrap.end_line(out);
            }
            Open::Code(..) => {
                if self.code_line {
                    self.end_code_line(out);
                }
                self.rule("───", out);
            }
            Open::Indented if self.code_line => self.end_code_line(out),
            Open::Table(mut table) => {
                let lines = table.flush(room, color);
                self.lines(&lines, out);
            }
            Open::None | Open::Indented | Open::Head(..) => {}
        }
    }
}

/// The start of `s` of at most `max` bytes.
fn floor(s: &str, max: usize) -> &str {
    let mut end = max.min(s.len());
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s[..end]
}
