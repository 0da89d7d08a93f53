//! Block structure of a Markdown line: containers (quotes, list items) and the kind of block. Pure; returns `None` or
//! `Wait` while more text is needed to decide.
//!
//! Follows CommonMark with two kinds of exceptions. Streaming: `---` below a paragraph is a rule, because the paragraph is
//! already on the screen. Frequent mistakes of models: inside a list, a list marker counts at any indentation, and code in
//! an item may be indented too little.

/// Maximum nesting of containers; deeper markers are text.
const MAX_DEPTH: usize = 32;

/// A container of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BlockContainer {
    Quote,
    /// A list item: columns of indentation of its text, marker, and checkbox if it is a task.
    Item {
        indent: usize,
        marker: ListMarker,
        task: Option<bool>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ListMarker {
    Bullet,
    /// Number and delimiter.
    Ordered(u32, char),
}

/// Opening fence of a code block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CodeFence {
    mark: u8,
    len: usize,
    indent: usize,
}

/// Kind of the block that a line belongs to.
#[derive(Debug, PartialEq)]
pub(super) enum BlockKind {
    Blank,
    Text,
    Heading(usize),
    Fence(CodeFence, String),
    FenceEnd,
    CodeLine,
    Indented,
    Rule,
    DoubleRule,
    Row,
}

/// Parsed start of a line.
#[derive(Debug)]
pub(super) struct LineStart {
    /// Number of open containers that continue.
    pub(super) matched: usize,
    /// Containers that begin on this line.
    pub(super) fresh: Vec<BlockContainer>,
    pub(super) kind: BlockKind,
    /// Number of bytes before the content.
    pub(super) used: usize,
}

/// State before the line.
pub(super) struct BlockContext<'a> {
    pub(super) stack: &'a [BlockContainer],
    pub(super) open_fence: Option<CodeFence>,
    pub(super) in_paragraph: bool,
}

/// Position in a line, in bytes and in columns.
#[derive(Clone, Copy)]
struct LineCursor<'a> {
    line: &'a [u8],
    pos: usize,
    col: usize,
}

impl LineCursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.pos).copied()
    }

    fn bump(&mut self) {
        self.col += if self.peek() == Some(b'\t') {
            4 - self.col % 4
        } else {
            1
        };
        self.pos += 1;
    }

    /// Skips white space of at most `max` columns and returns the number of columns skipped.
    fn skip(&mut self, max: usize) -> usize {
        let start = self.col;
        while self.col - start < max && matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump();
        }
        self.col - start
    }

    fn rest(&self) -> &[u8] {
        &self.line[self.pos.min(self.line.len())..]
    }
}

/// Parses the start of a line. `None`: more of the line is needed.
pub(super) fn start(context: &BlockContext<'_>, line: &str, eol: bool) -> Option<LineStart> {
    let mut at = LineCursor {
        line: line.as_bytes(),
        pos: 0,
        col: 0,
    };
    let mut matched = 0;
    for container in context.stack {
        let mut next = at;
        let indent = next.skip(usize::MAX);
        if next.peek().is_none() && !eol {
            return None;
        }
        match container {
            BlockContainer::Quote if indent < 4 && next.peek() == Some(b'>') => {
                next.bump();
                if next.peek().is_none() && !eol {
                    return None;
                }
                next.skip(1);
                at = next;
            }
            BlockContainer::Quote => break,
            BlockContainer::Item { indent: need, .. } => {
                if indent < *need && next.peek().is_some() && context.open_fence.is_none() {
                    break;
                }
                at.skip(*need);
            }
        }
        matched += 1;
    }
    if let Some(fence) = context
        .open_fence
        .filter(|_| matched == context.stack.len())
    {
        let kind = code_line(fence, &mut at, eol)?;
        let used = if kind == BlockKind::FenceEnd {
            line.len()
        } else {
            at.pos
        };
        return Some(LineStart {
            matched,
            fresh: Vec::new(),
            kind,
            used,
        });
    }
    let mut fresh = Vec::new();
    loop {
        let parent = at;
        let indent = at.skip(usize::MAX);
        let Some(first) = at.peek() else {
            return eol.then_some(LineStart {
                matched,
                fresh,
                kind: BlockKind::Blank,
                used: line.len(),
            });
        };
        let listed = context.stack[..matched]
            .iter()
            .chain(&fresh)
            .any(|c| matches!(c, BlockContainer::Item { .. }));
        // Includes a list that this line may continue or nest in.
        let listed = listed
            || matches!(
                context.stack.get(matched),
                Some(BlockContainer::Item { .. })
            );
        let text = LineStart {
            matched,
            fresh: Vec::new(),
            kind: BlockKind::Text,
            used: at.pos,
        };
        if indent >= 4 && !listed {
            let kind = if context.in_paragraph {
                BlockKind::Text
            } else {
                BlockKind::Indented
            };
            let used = if context.in_paragraph {
                at.pos
            } else {
                parent.pos
            };
            return Some(LineStart {
                fresh,
                kind,
                used,
                ..text
            });
        }
        let continues = context.in_paragraph && fresh.is_empty();
        let deep = matched + fresh.len() >= MAX_DEPTH;
        let found = match first {
            b'>' if !deep => {
                at.bump();
                if at.peek().is_none() && !eol {
                    return None;
                }
                at.skip(1);
                fresh.push(BlockContainer::Quote);
                continue;
            }
            b'#' => heading(&mut at, eol),
            b'`' | b'~' => opening_fence(at.rest(), indent, eol),
            b'|' => BlockMatch::BlockKind(BlockKind::Row),
            b'=' if continues => repeated(at.rest(), eol, BlockKind::DoubleRule),
            b'-' | b'*' | b'_' => repeated(at.rest(), eol, BlockKind::Rule),
            _ => BlockMatch::Nothing,
        };
        match found {
            BlockMatch::Wait => return None,
            BlockMatch::BlockKind(kind) => {
                let whole = matches!(
                    kind,
                    BlockKind::Fence(..) | BlockKind::Rule | BlockKind::DoubleRule
                );
                let used = if whole { line.len() } else { at.pos };
                return Some(LineStart {
                    matched,
                    fresh,
                    kind,
                    used,
                });
            }
            BlockMatch::Nothing => {}
        }
        let interrupts = continues && matched == context.stack.len();
        match if deep {
            ItemMatch::Nothing
        } else {
            item(&mut at, indent, interrupts, eol)
        } {
            ItemMatch::Wait => return None,
            ItemMatch::BlockMatch(item) => fresh.push(item),
            ItemMatch::Nothing => return Some(LineStart { fresh, ..text }),
        }
    }
}

/// Parses a line inside a code block.
fn code_line(fence: CodeFence, at: &mut LineCursor<'_>, eol: bool) -> Option<BlockKind> {
    let mut end = *at;
    let indent = end.skip(usize::MAX);
    if end.peek().is_none() && !eol {
        return None;
    }
    if indent < 4 {
        let run = end.rest().iter().take_while(|c| **c == fence.mark).count();
        let blank = end.rest()[run..].iter().all(|c| matches!(c, b' ' | b'\t'));
        if run > 0 && blank && !eol {
            return None;
        }
        if run >= fence.len && blank {
            return Some(BlockKind::FenceEnd);
        }
    }
    at.skip(fence.indent);
    Some(BlockKind::CodeLine)
}

enum BlockMatch {
    BlockKind(BlockKind),
    Nothing,
    Wait,
}

fn heading(at: &mut LineCursor<'_>, eol: bool) -> BlockMatch {
    let level = at.rest().iter().take_while(|c| **c == b'#').count();
    match at.rest().get(level) {
        _ if level > 6 => return BlockMatch::Nothing,
        None if !eol => return BlockMatch::Wait,
        None | Some(b' ' | b'\t') => {}
        Some(_) => return BlockMatch::Nothing,
    }
    let mut text = *at;
    (0..level).for_each(|_| text.bump());
    text.skip(usize::MAX);
    if text.peek().is_none() && !eol {
        return BlockMatch::Wait;
    }
    *at = text;
    BlockMatch::BlockKind(BlockKind::Heading(level))
}

fn opening_fence(rest: &[u8], indent: usize, eol: bool) -> BlockMatch {
    let mark = rest[0];
    let len = rest.iter().take_while(|c| **c == mark).count();
    let info = &rest[len..];
    if len < 3 {
        return if info.is_empty() && !eol {
            BlockMatch::Wait
        } else {
            BlockMatch::Nothing
        };
    }
    if mark == b'`' && info.contains(&b'`') {
        return BlockMatch::Nothing;
    }
    if !eol {
        return BlockMatch::Wait;
    }
    let info = String::from_utf8_lossy(info).trim().to_owned();
    BlockMatch::BlockKind(BlockKind::Fence(CodeFence { mark, len, indent }, info))
}

/// Matches a line made of one repeated character and spaces.
fn repeated(rest: &[u8], eol: bool, kind: BlockKind) -> BlockMatch {
    let mut count = 0;
    for c in rest {
        if *c == rest[0] {
            count += 1;
        } else if !matches!(c, b' ' | b'\t') || kind == BlockKind::DoubleRule {
            return BlockMatch::Nothing;
        }
    }
    match (eol, count >= 3) {
        (false, _) => BlockMatch::Wait,
        (true, true) => BlockMatch::BlockKind(kind),
        (true, false) => BlockMatch::Nothing,
    }
}

enum ItemMatch {
    BlockMatch(BlockContainer),
    Nothing,
    Wait,
}

/// Matches a list marker and the checkbox after it.
fn item(at: &mut LineCursor<'_>, indent: usize, interrupts: bool, eol: bool) -> ItemMatch {
    let rest = at.rest();
    let digits = rest
        .iter()
        .take(10)
        .take_while(|c| c.is_ascii_digit())
        .count();
    let (marker, len) = match rest.get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => (ListMarker::Bullet, 1),
        Some(delimiter @ (b'.' | b')')) if (1..10).contains(&digits) => {
            // At most nine digits, so the number fits.
            let number = rest[..digits]
                .iter()
                .fold(0, |n, d| n * 10 + u32::from(d - b'0'));
            if interrupts && number != 1 {
                return ItemMatch::Nothing;
            }
            (ListMarker::Ordered(number, *delimiter as char), digits + 1)
        }
        None if !eol && digits < 10 => return ItemMatch::Wait,
        _ => return ItemMatch::Nothing,
    };
    let mut text = *at;
    (0..len).for_each(|_| text.bump());
    match text.peek() {
        None if !eol => return ItemMatch::Wait,
        None if interrupts => return ItemMatch::Nothing,
        None | Some(b' ' | b'\t') => {}
        Some(_) => return ItemMatch::Nothing,
    }
    let mut wide = text;
    let spaces = wide.skip(usize::MAX);
    if wide.peek().is_none() && !eol {
        return ItemMatch::Wait;
    }
    if wide.peek().is_none() && interrupts {
        return ItemMatch::Nothing;
    }
    let after = if wide.peek().is_none() || spaces > 4 {
        text.skip(1).max(1)
    } else {
        text.skip(usize::MAX)
    };
    let task = match task(text.rest(), eol) {
        TaskItem::Wait => return ItemMatch::Wait,
        TaskItem::None => None,
        TaskItem::Box(done) => {
            (0..3).for_each(|_| text.bump());
            text.skip(usize::MAX);
            Some(done)
        }
    };
    *at = text;
    ItemMatch::BlockMatch(BlockContainer::Item {
        indent: indent + len + after,
        marker,
        task,
    })
}

enum TaskItem {
    Box(bool),
    None,
    Wait,
}

fn task(rest: &[u8], eol: bool) -> TaskItem {
    match rest {
        [b'[', b' ', b']', b' ', ..] => TaskItem::Box(false),
        [b'[', b'x' | b'X', b']', b' ', ..] => TaskItem::Box(true),
        [b'['] | [b'[', b' ' | b'x' | b'X'] | [b'[', b' ' | b'x' | b'X', b']'] if !eol => {
            TaskItem::Wait
        }
        _ => TaskItem::None,
    }
}
