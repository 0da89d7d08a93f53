//! Columns, word wrap and styles. Everything that reaches the terminal's lines goes through here.
//!
//! Text is written as it comes. When a word that is still growing passes the right margin, it moves to the next
//! line: if it came within this push, the break is put before it in the buffer; if a part of it is on the screen
//! already, that part is erased from the current line first. Lines above are never touched.

use super::style::Style;
use super::width::{self, char_width, cluster_width};

/// A word of more bytes than this (marks piled on one letter) is not moved any more, so it needs no memory.
const MAX_WORD: usize = 1024;
/// The word being written: where it starts, so that it can still be moved.
#[derive(Default)]
struct Word {
    /// Where in the output the space before it starts, and where its text starts. Valid within one push.
    gap_at: usize,
    text_at: usize,
    /// The same as columns.
    gap_col: usize,
    text_col: usize,
    /// The style on the screen where a move would begin, and the one that its text starts with.
    before: Style,
    style: Style,
    /// Columns that an earlier push has written, space included, and their text.
    printed: usize,
    carry: Vec<u8>,
    /// Bytes of its text.
    bytes: usize,
}

/// The state of the current line.
#[derive(Default)]
pub(super) struct Wrap {
    width: usize,
    next_width: usize,
    color: bool,
    /// A long word always gets line breaks of ours; else the terminal breaks it where there is no prefix, so that
    /// a URL or a line of code can be copied in one piece.
    hard: bool,
    prefix: Vec<u8>,
    prefix_cols: usize,
    col: usize,
    /// The column where text starts on this line.
    indent: usize,
    dirty: bool,
    shown: Style,
    style: Style,
    /// Spaces to write before the next word, and how many there were in the source.
    gap: usize,
    gap_seen: usize,
    in_word: bool,
    word: Word,
    /// The last grapheme cluster, its columns, and whether terminals disagree about them.
    cluster: String,
    cluster_cols: usize,
    unsure: bool,
    /// Code is being written: there are no words.
    raw: bool,
}

impl Wrap {
    pub(super) fn new(width: usize, color: bool, hard: bool) -> Self {
        let width = width.max(1);
        Self {
            width,
            next_width: width,
            color,
            hard,
            ..Self::default()
        }
    }

    /// The width that the next line will have.
    pub(super) fn next_width(&self) -> usize {
        self.next_width
    }

    pub(super) fn color(&self) -> bool {
        self.color
    }

    /// The spaces of the source since the last word.
    pub(super) fn gap_seen(&self) -> usize {
        self.gap_seen
    }

    /// Whether the cursor is at the start of an empty line.
    pub(super) fn at_line_start(&self) -> bool {
        !self.dirty
    }

    /// Takes a new width for the lines that follow.
    pub(super) fn resize(&mut self, width: usize) {
        self.next_width = width.max(1);
        if !self.dirty {
            self.width = self.next_width;
        }
        // The terminal may have reflowed the current line: what is on it can no longer be erased safely.
        self.pin(0);
    }

    /// Starts a push: what is in the output now is none of ours.
    pub(super) fn begin_push(&mut self, out: &[u8]) {
        self.word.gap_at = out.len();
        self.word.text_at = out.len();
        self.word.before = self.shown;
    }

    /// Ends a push: keeps the unfinished word, for the caller takes the output away.
    pub(super) fn end_push(&mut self, out: &[u8]) {
        if self.movable() {
            self.word.carry.extend_from_slice(&out[self.word.text_at..]);
            self.word.printed = self.col - self.word.gap_col;
        }
    }

    /// Sets what every following line starts with.
    pub(super) fn set_prefix(&mut self, prefix: Vec<u8>, cols: usize) {
        self.prefix = prefix;
        self.prefix_cols = cols;
    }

    /// Starts a line with the given prefix instead of the usual one.
    pub(super) fn open_line(&mut self, first: &[u8], cols: usize, out: &mut Vec<u8>) {
        self.width = self.next_width;
        out.extend_from_slice(first);
        self.dirty = !first.is_empty();
        self.col = cols;
        self.restart_line(out.len());
    }

    /// Ends the line, if there is anything on it.
    pub(super) fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.shown != Style::PLAIN {
            Style::PLAIN.write(out);
            self.shown = Style::PLAIN;
        }
        if self.dirty {
            out.push(b'\n');
            self.dirty = false;
        }
        self.width = self.next_width;
        self.col = 0;
        self.restart_line(out.len());
    }

    /// Writes a complete line that needs no wrapping.
    pub(super) fn raw_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        self.dirty = true;
        self.end_line(out);
    }

    /// Breaks the line inside a block: the next one starts with the prefix.
    pub(super) fn newline(&mut self, out: &mut Vec<u8>) {
        self.dirty = true;
        self.end_line(out);
        out.extend_from_slice(&self.prefix);
        self.dirty = !self.prefix.is_empty();
        self.col = self.prefix_cols;
        self.restart_line(out.len());
    }

    /// Sets the style of the text that follows.
    pub(super) fn set_style(&mut self, style: Style) {
        if self.color {
            self.style = style;
        }
    }

    /// Notes a space of the source; `keep` writes them all, else one for many.
    pub(super) fn space(&mut self, keep: bool) {
        self.gap_seen = self.gap_seen.saturating_add(1);
        if (keep && self.gap < self.width) || self.gap == 0 {
            self.gap += 1;
        }
        self.in_word = false;
        self.cluster.clear();
    }

    /// Writes prose: words, wrapped at spaces.
    pub(super) fn text(&mut self, text: &str, keep_spaces: bool, out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(&first) = rest.as_bytes().first() {
            if matches!(first, b' ' | b'\t' | b'\n') {
                self.space(keep_spaces);
                rest = &rest[1..];
                continue;
            }
            let run = rest.bytes().take_while(u8::is_ascii_graphic).count();
            if run > 0 {
                self.ascii(&rest.as_bytes()[..run], out);
                rest = &rest[run..];
            } else if let Some(c) = rest.chars().next() {
                self.other(c, out);
                rest = &rest[c.len_utf8()..];
            }
        }
    }

    /// Writes code: every space counts, and only the margin breaks a line.
    pub(super) fn verbatim(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut rest = text;
        self.raw = true;
        while let Some(&first) = rest.as_bytes().first() {
            self.in_word = true;
            self.pin(out.len());
            let run = rest
                .bytes()
                .take_while(|b| matches!(b, b' '..=b'~'))
                .count();
            if run > 0 {
                self.ascii(&rest.as_bytes()[..run], out);
                rest = &rest[run..];
            } else if first == b'\t' {
                let cols = 4 - self.col.saturating_sub(self.indent) % 4;
                self.ascii(&b"    "[..cols], out);
                rest = &rest[1..];
            } else if let Some(c) = rest.chars().next() {
                self.other(c, out);
                rest = &rest[c.len_utf8()..];
            }
        }
        self.raw = false;
    }

    /// Forgets words and spaces, because a line has just started at `at`.
    fn restart_line(&mut self, at: usize) {
        self.indent = self.col;
        self.gap = 0;
        self.gap_seen = 0;
        self.in_word = false;
        self.cluster.clear();
        self.unsure = false;
        self.pin(at);
    }

    /// Makes the current place the start of the word, so that nothing before it moves.
    fn pin(&mut self, at: usize) {
        self.word.gap_at = at;
        self.word.text_at = at;
        self.word.gap_col = self.indent;
        self.word.text_col = self.indent;
        self.word.printed = 0;
        self.word.carry.clear();
        self.word.bytes = 0;
    }

    /// Whether the current word stands after something on its line, so that a break before it gains room.
    fn movable(&self) -> bool {
        self.in_word && self.word.gap_col > self.indent
    }

    /// The columns for words. Without escape sequences a word is erased by backspaces, and terminals disagree what
    /// these do in the last column, so no word ends there that could still be moved.
    fn fit(&self) -> usize {
        if self.color || self.hard {
            self.width
        } else {
            self.width.saturating_sub(1).max(1)
        }
    }

    fn sgr(&mut self, out: &mut Vec<u8>) {
        if self.style != self.shown {
            self.style.write(out);
            self.shown = self.style;
        }
    }

    /// Starts a word whose first `cols` columns are known.
    fn start_word(&mut self, cols: usize, out: &mut Vec<u8>) {
        if self.col > self.indent && self.col + self.gap + cols > self.fit() {
            self.newline(out);
        }
        if self.col == self.indent {
            self.gap = 0;
        }
        self.word.before = self.shown;
        self.word.gap_at = out.len();
        self.word.gap_col = self.col;
        if self.gap > 0 {
            if self.shown.marks_spaces() {
                self.sgr(out);
            }
            out.resize(out.len() + self.gap, b' ');
            self.col += self.gap;
        }
        self.sgr(out);
        self.word.style = self.shown;
        self.word.text_at = out.len();
        self.word.text_col = self.col;
        self.word.printed = 0;
        self.word.carry.clear();
        self.word.bytes = 0;
        self.gap = 0;
        self.gap_seen = 0;
        self.in_word = true;
        self.dirty = true;
    }

    /// Moves the current word to the next line.
    fn move_word(&mut self, out: &mut Vec<u8>) {
        let end_style = self.shown;
        let cols = self.col - self.word.text_col;
        let mut text = std::mem::take(&mut self.word.carry);
        text.extend_from_slice(&out[self.word.text_at..]);
        out.truncate(self.word.gap_at);
        self.shown = self.word.before;
        if self.word.printed > 0 {
            self.erase(
                self.word.gap_col,
                self.word.gap_col + self.word.printed,
                out,
            );
        }
        let (style, bytes) = (self.word.style, self.word.bytes);
        // The cluster at the end of the word goes on growing on the new line.
        let cluster = std::mem::take(&mut self.cluster);
        let unsure = self.unsure;
        self.newline(out);
        if style != self.shown {
            style.write(out);
        }
        self.word.text_at = out.len();
        out.append(&mut text);
        self.shown = end_style;
        self.col += cols;
        self.word.bytes = bytes;
        self.cluster = cluster;
        self.unsure = unsure;
        self.in_word = true;
        self.dirty = true;
    }

    /// Erases the end of the line, from one column to the other, where the cursor is.
    fn erase(&mut self, from: usize, to: usize, out: &mut Vec<u8>) {
        if self.shown != Style::PLAIN {
            // Else some terminals underline what they erase.
            Style::PLAIN.write(out);
            self.shown = Style::PLAIN;
        }
        if to < self.width || !self.color {
            out.resize(out.len() + to - from, b'\x08');
        } else {
            // At the margin terminals disagree where a backspace leads to.
            out.extend_from_slice(format!("\r\x1b[{from}C").as_bytes());
        }
        if self.color {
            out.extend_from_slice(b"\x1b[K");
        } else {
            out.resize(out.len() + to - from, b' ');
        }
    }

    /// Breaks a word that is longer than a line.
    fn hard_break(&mut self, out: &mut Vec<u8>) {
        if self.prefix.is_empty() && !self.hard {
            self.col = 0;
            self.width = self.next_width;
            self.indent = 0;
            self.pin(out.len());
        } else {
            self.newline(out);
        }
        self.in_word = true;
        self.dirty = true;
    }

    /// Writes printable ASCII without a break inside.
    fn ascii(&mut self, mut run: &[u8], out: &mut Vec<u8>) {
        let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
            return;
        };
        if self.breaks_before(first as char, 1) {
            self.in_word = false;
        }
        if !self.in_word {
            self.start_word(run.len(), out);
        }
        if self.col + run.len() > self.fit() && self.movable() {
            self.move_word(out);
        }
        let len = run.len();
        self.sgr(out);
        while self.col + run.len() > self.width {
            // Where the line is full already, it takes a break first, and then one letter at least.
            let room = self.width.saturating_sub(self.col);
            out.extend_from_slice(&run[..room]);
            run = &run[room..];
            self.hard_break(out);
            self.sgr(out);
            if self.col >= self.width {
                out.push(run[0]);
                run = &run[1..];
                self.col += 1;
            }
        }
        out.extend_from_slice(run);
        self.col += run.len();
        self.dirty = true;
        self.wrote(len);
        self.cluster.clear();
        self.cluster.push(last as char);
        self.cluster_cols = 1;
        self.unsure = false;
    }

    /// Writes a character beyond ASCII, or a control character's stand-in.
    fn other(&mut self, c: char, out: &mut Vec<u8>) {
        // The sink lets no control character through; this holds should it ever fail.
        let c = if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        };
        if !self.cluster.is_empty() && width::join(&mut self.cluster, c) {
            return self.extend_cluster(c, out);
        }
        let cols = char_width(c);
        if self.breaks_before(c, cols) {
            self.in_word = false;
        }
        if !self.in_word {
            self.start_word(cols, out);
        }
        if self.col + cols > self.fit() && self.movable() {
            self.move_word(out);
        }
        if self.col + cols > self.width && self.col > self.indent {
            self.hard_break(out);
        }
        self.sgr(out);
        width::push(c, out);
        self.col += cols;
        self.dirty = true;
        self.wrote(c.len_utf8());
        self.cluster.clear();
        self.cluster.push(c);
        self.cluster_cols = cols;
        self.unsure = false;
    }

    /// Adds a mark, a joiner or a joined emoji to the cluster before it.
    fn extend_cluster(&mut self, c: char, out: &mut Vec<u8>) {
        let naive = self.cluster_cols + char_width(c);
        let cols = cluster_width(&self.cluster).max(self.cluster_cols);
        let grow = cols - self.cluster_cols;
        if grow > 0 && self.col + grow > self.fit() {
            let start = self.col - self.cluster_cols.min(self.col);
            let breaks = self.hard || !self.prefix.is_empty();
            if self.movable() {
                self.move_word(out);
            } else if start > self.indent && breaks && self.col + grow > self.width && self.color {
                let style = self.shown;
                self.erase(start, self.col, out);
                let cluster = std::mem::take(&mut self.cluster);
                self.hard_break(out);
                if style != self.shown {
                    style.write(out);
                    self.shown = style;
                }
                out.extend_from_slice(cluster.strip_suffix(c).unwrap_or(&cluster).as_bytes());
                self.col += self.cluster_cols;
                self.cluster = cluster;
            }
        }
        width::push(c, out);
        self.col = (self.col + grow).min(self.width.max(self.col));
        self.cluster_cols = cols;
        self.unsure |= naive != cols || c == '\u{200d}' || c == '\u{fe0f}';
        self.wrote(c.len_utf8());
    }

    fn wrote(&mut self, bytes: usize) {
        self.word.bytes += bytes;
        if self.word.bytes > MAX_WORD {
            self.word.bytes = 0;
            self.word.gap_col = self.indent;
            self.word.carry.clear();
        }
    }

    /// Whether a line may break between the last cluster and `c` although there is no space.
    fn breaks_before(&self, c: char, cols: usize) -> bool {
        if self.raw || !self.in_word || self.cluster.is_empty() {
            return false;
        }
        // A cluster whose columns are in doubt is never erased, so a new word starts after it.
        self.unsure
            || (self.cluster_cols == 2 || cols == 2 || width::symbol(c))
                && width::may_break(&self.cluster, c)
    }
}
