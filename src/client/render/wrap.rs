//! Columns, word wrap and styles. All output of the renderer passes through here.
//!
//! Text is written as it arrives. When a growing word passes the right margin, the word moves to the next line: a word that
//! began within this push gets its break inserted in the buffer; if part of the word is on the screen already, that part
//! is first erased from the current line. Lines above are never touched.

use super::style::TextStyle;
use super::width::{self, char_width, cluster_width};

/// Maximum size in bytes of a word that can be moved (marks can pile up on one letter); bounds its memory.
const MAX_WORD: usize = 1024;
/// The word being written, with the position to move it from.
#[derive(Default)]
struct CurrentWord {
    /// Offsets in the output of the preceding space and of the text. Valid within one push.
    gap_at: usize,
    text_at: usize,
    /// The same positions in columns.
    gap_col: usize,
    text_col: usize,
    /// Style on the screen where a move would begin, and style at the start of the text.
    before: TextStyle,
    style: TextStyle,
    /// Columns written by earlier pushes, including the space, and their text.
    printed: usize,
    carry: Vec<u8>,
    /// Size of the text in bytes.
    bytes: usize,
}

/// State of the current line.
#[derive(Default)]
pub(super) struct LineWrapper {
    width: usize,
    next_width: usize,
    color: bool,
    /// Whether long words always get explicit line breaks. Otherwise the terminal wraps them where there is no prefix, so that
    /// a URL or a line of code can be copied in one piece.
    hard: bool,
    prefix: Vec<u8>,
    prefix_cols: usize,
    col: usize,
    /// Column where text starts on this line.
    indent: usize,
    dirty: bool,
    shown: TextStyle,
    style: TextStyle,
    /// Spaces to write before the next word, and number of spaces in the source.
    gap: usize,
    gap_seen: usize,
    in_word: bool,
    word: CurrentWord,
    /// Last grapheme cluster, its columns, and whether terminals disagree about them.
    cluster: String,
    cluster_cols: usize,
    unsure: bool,
    /// Whether code is being written, which has no words.
    raw: bool,
}

impl LineWrapper {
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

    /// Width of the next line.
    pub(super) fn next_width(&self) -> usize {
        self.next_width
    }

    pub(super) fn color(&self) -> bool {
        self.color
    }

    /// Number of spaces in the source since the last word.
    pub(super) fn gap_seen(&self) -> usize {
        self.gap_seen
    }

    /// Whether the cursor is at the start of an empty line.
    pub(super) fn at_line_start(&self) -> bool {
        !self.dirty
    }

    /// Sets the width for the following lines.
    pub(super) fn resize(&mut self, width: usize) {
        self.next_width = width.max(1);
        if !self.dirty {
            self.width = self.next_width;
        }
        // The terminal may have reflowed the current line, so text on it can no longer be erased safely.
        self.pin_word_start(0);
    }

    /// Starts a push: earlier output in the buffer must not be changed.
    pub(super) fn begin_push(&mut self, out: &[u8]) {
        self.word.gap_at = out.len();
        self.word.text_at = out.len();
        self.word.before = self.shown;
    }

    /// Ends a push: copies the unfinished word, because the caller takes the output.
    pub(super) fn end_push(&mut self, out: &[u8]) {
        if self.is_movable() {
            self.word.carry.extend_from_slice(&out[self.word.text_at..]);
            self.word.printed = self.col - self.word.gap_col;
        }
    }

    /// Sets the prefix of the following lines.
    pub(super) fn set_prefix(&mut self, prefix: Vec<u8>, cols: usize) {
        self.prefix = prefix;
        self.prefix_cols = cols;
    }

    /// Starts a line with the prefix `first` instead of the usual one.
    pub(super) fn open_line(&mut self, first: &[u8], cols: usize, out: &mut Vec<u8>) {
        self.width = self.next_width;
        out.extend_from_slice(first);
        self.dirty = !first.is_empty();
        self.col = cols;
        self.restart_line(out.len());
    }

    /// Ends the line unless it is empty.
    pub(super) fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.shown != TextStyle::PLAIN {
            TextStyle::PLAIN.write(out);
            self.shown = TextStyle::PLAIN;
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

    /// Breaks the line inside a block; the next line starts with the prefix.
    pub(super) fn newline(&mut self, out: &mut Vec<u8>) {
        self.dirty = true;
        self.end_line(out);
        out.extend_from_slice(&self.prefix);
        self.dirty = !self.prefix.is_empty();
        self.col = self.prefix_cols;
        self.restart_line(out.len());
    }

    /// Sets the style of the following text.
    pub(super) fn set_style(&mut self, style: TextStyle) {
        if self.color {
            self.style = style;
        }
    }

    /// Records a space of the source. With `keep`, all spaces are written, otherwise one for many.
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
                self.non_ascii(c, out);
                rest = &rest[c.len_utf8()..];
            }
        }
    }

    /// Writes code: every space counts, and lines break only at the margin.
    pub(super) fn verbatim(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut rest = text;
        self.raw = true;
        while let Some(&first) = rest.as_bytes().first() {
            self.in_word = true;
            self.pin_word_start(out.len());
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
                self.non_ascii(c, out);
                rest = &rest[c.len_utf8()..];
            }
        }
        self.raw = false;
    }

    /// Resets words and spaces for a line that starts at column `at`.
    fn restart_line(&mut self, at: usize) {
        self.indent = self.col;
        self.gap = 0;
        self.gap_seen = 0;
        self.in_word = false;
        self.cluster.clear();
        self.unsure = false;
        self.pin_word_start(at);
    }

    /// Makes column `at` the start of the word, so that nothing before it moves.
    fn pin_word_start(&mut self, at: usize) {
        self.word.gap_at = at;
        self.word.text_at = at;
        self.word.gap_col = self.indent;
        self.word.text_col = self.indent;
        self.word.printed = 0;
        self.word.carry.clear();
        self.word.bytes = 0;
    }

    /// Whether text precedes the current word on its line, so that moving the word gains space.
    fn is_movable(&self) -> bool {
        self.in_word && self.word.gap_col > self.indent
    }

    /// Columns available for words. Without escape sequences, a word is erased by backspaces. Terminals disagree about a
    /// backspace in the last column, so a movable word must not end there.
    fn word_columns(&self) -> usize {
        if self.color || self.hard {
            self.width
        } else {
            self.width.saturating_sub(1).max(1)
        }
    }

    fn write_style(&mut self, out: &mut Vec<u8>) {
        if self.style != self.shown {
            self.style.write(out);
            self.shown = self.style;
        }
    }

    /// Starts a word whose first `cols` columns are known.
    fn start_word(&mut self, cols: usize, out: &mut Vec<u8>) {
        if self.col > self.indent && self.col + self.gap + cols > self.word_columns() {
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
                self.write_style(out);
            }
            out.resize(out.len() + self.gap, b' ');
            self.col += self.gap;
        }
        self.write_style(out);
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
        // The last cluster of the word continues on the new line.
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

    /// Erases the columns `from..to` at the end of the line, where the cursor is.
    fn erase(&mut self, from: usize, to: usize, out: &mut Vec<u8>) {
        if self.shown != TextStyle::PLAIN {
            // Some terminals would underline the erased columns otherwise.
            TextStyle::PLAIN.write(out);
            self.shown = TextStyle::PLAIN;
        }
        if to < self.width || !self.color {
            out.resize(out.len() + to - from, b'\x08');
        } else {
            // Terminals disagree about the effect of a backspace at the margin.
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
            self.pin_word_start(out.len());
        } else {
            self.newline(out);
        }
        self.in_word = true;
        self.dirty = true;
    }

    /// Writes printable ASCII without break opportunities.
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
        if self.col + run.len() > self.word_columns() && self.is_movable() {
            self.move_word(out);
        }
        let len = run.len();
        self.write_style(out);
        while self.col + run.len() > self.width {
            // On a full line, break first, then write at least one letter.
            let left = self.width.saturating_sub(self.col);
            out.extend_from_slice(&run[..left]);
            run = &run[left..];
            self.hard_break(out);
            self.write_style(out);
            if self.col >= self.width {
                out.push(run[0]);
                run = &run[1..];
                self.col += 1;
            }
        }
        out.extend_from_slice(run);
        self.col += run.len();
        self.dirty = true;
        self.count_written(len);
        self.cluster.clear();
        self.cluster.push(last as char);
        self.cluster_cols = 1;
        self.unsure = false;
    }

    /// Writes a character beyond ASCII, or the replacement of a control character.
    fn non_ascii(&mut self, c: char, out: &mut Vec<u8>) {
        // The sink removes control characters; this is a second barrier.
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
        if self.col + cols > self.word_columns() && self.is_movable() {
            self.move_word(out);
        }
        if self.col + cols > self.width && self.col > self.indent {
            self.hard_break(out);
        }
        self.write_style(out);
        width::push(c, out);
        self.col += cols;
        self.dirty = true;
        self.count_written(c.len_utf8());
        self.cluster.clear();
        self.cluster.push(c);
        self.cluster_cols = cols;
        self.unsure = false;
    }

    /// Appends a mark, a joiner or a joined emoji to the preceding cluster.
    fn extend_cluster(&mut self, c: char, out: &mut Vec<u8>) {
        let naive = self.cluster_cols + char_width(c);
        let cols = cluster_width(&self.cluster).max(self.cluster_cols);
        let grow = cols - self.cluster_cols;
        if grow > 0 && self.col + grow > self.word_columns() {
            let start = self.col - self.cluster_cols.min(self.col);
            let breaks = self.hard || !self.prefix.is_empty();
            if self.is_movable() {
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
        self.count_written(c.len_utf8());
    }

    fn count_written(&mut self, bytes: usize) {
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
        // A cluster of uncertain width is never erased, so a new word starts after it.
        self.unsure
            || (self.cluster_cols == 2 || cols == 2 || width::is_narrow_symbol(c))
                && width::may_break(&self.cluster, c)
    }
}
