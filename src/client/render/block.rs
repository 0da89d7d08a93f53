//! What a line starts with: containers (quotes, list items) and the kind of block. Pure; says when it cannot know yet.
//!
//! The rules are CommonMark's, with what streaming asks for: `---` under a paragraph is a rule, for the paragraph is
//! already on the screen. And where models often err, the reading that loses less: a list marker is one at any
//! indentation inside a list, and code inside an item may be indented too little.

/// Deeper nesting is text.
const MAX_DEPTH: usize = 32;

/// What a block stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Container {
    Quote,
    /// A list item: the columns its text is indented by, its marker, and its box if it is a task.
    Item {
        indent: usize,
        marker: Marker,
        task: Option<bool>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Marker {
    Bullet,
    /// Number and delimiter.
    Ordered(u32, char),
}

/// An opening fence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fence {
    mark: u8,
    len: usize,
    indent: usize,
}

/// The kind of block that a line belongs to.
#[derive(Debug, PartialEq)]
pub(super) enum Leaf {
    Blank,
    Text,
    Heading(usize),
    Fence(Fence, String),
    FenceEnd,
    CodeLine,
    Indented,
    Rule,
    DoubleRule,
    Row,
}

/// The start of a line, understood.
#[derive(Debug)]
pub(super) struct Start {
    /// How many of the open containers go on.
    pub(super) matched: usize,
    /// The containers that begin.
    pub(super) fresh: Vec<Container>,
    pub(super) leaf: Leaf,
    /// The bytes before the content.
    pub(super) used: usize,
}

/// What is open before the line.
pub(super) struct Context<'a> {
    pub(super) stack: &'a [Container],
    pub(super) code: Option<Fence>,
    pub(super) para: bool,
}

/// A place in a line, as bytes and as columns.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    line: &'a [u8],
    pos: usize,
    col: usize,
}

impl Cursor<'_> {
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

    /// Skips white space up to a number of columns and returns the columns skipped.
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

/// Reads the start of a line. `None`: the rest of the line decides.
pub(super) fn start(cx: &Context<'_>, line: &str, eol: bool) -> Option<Start> {
    let mut at = Cursor {
        line: line.as_bytes(),
        pos: 0,
        col: 0,
    };
    let mut matched = 0;
    for container in cx.stack {
        let mut next = at;
        let indent = next.skip(usize::MAX);
        if next.peek().is_none() && !eol {
            return None;
        }
        match container {
            Container::Quote if indent < 4 && next.peek() == Some(b'>') => {
                next.bump();
                if next.peek().is_none() && !eol {
                    return None;
                }
                next.skip(1);
                at = next;
            }
            Container::Quote => break,
            Container::Item { indent: need, .. } => {
                if indent < *need && next.peek().is_some() && cx.code.is_none() {
                    break;
                }
                at.skip(*need);
            }
        }
        matched += 1;
    }
    if let Some(fence) = cx.code.filter(|_| matched == cx.stack.len()) {
        let leaf = code_line(fence, &mut at, eol)?;
        let used = if leaf == Leaf::FenceEnd {
            line.len()
        } else {
            at.pos
        };
        return Some(Start {
            matched,
            fresh: Vec::new(),
            leaf,
            used,
        });
    }
    let mut fresh = Vec::new();
    loop {
        let parent = at;
        let indent = at.skip(usize::MAX);
        let Some(first) = at.peek() else {
            return eol.then_some(Start {
                matched,
                fresh,
                leaf: Leaf::Blank,
                used: line.len(),
            });
        };
        let listed = cx.stack[..matched]
            .iter()
            .chain(&fresh)
            .any(|c| matches!(c, Container::Item { .. }));
        // A list that this very line may continue or nest in counts as well.
        let listed = listed || matches!(cx.stack.get(matched), Some(Container::Item { .. }));
        let text = Start {
            matched,
            fresh: Vec::new(),
            leaf: Leaf::Text,
            used: at.pos,
        };
        if indent >= 4 && !listed {
            let leaf = if cx.para { Leaf::Text } else { Leaf::Indented };
            let used = if cx.para { at.pos } else { parent.pos };
            return Some(Start {
                fresh,
                leaf,
                used,
                ..text
            });
        }
        let continues = cx.para && fresh.is_empty();
        let deep = matched + fresh.len() >= MAX_DEPTH;
        let found = match first {
            b'>' if !deep => {
                at.bump();
                if at.peek().is_none() && !eol {
                    return None;
                }
                at.skip(1);
                fresh.push(Container::Quote);
                continue;
            }
            b'#' => heading(&mut at, eol),
            b'`' | b'~' => opening_fence(at.rest(), indent, eol),
            b'|' => Found::Leaf(Leaf::Row),
            b'=' if continues => repeated(at.rest(), eol, Leaf::DoubleRule),
            b'-' | b'*' | b'_' => repeated(at.rest(), eol, Leaf::Rule),
            _ => Found::Nothing,
        };
        match found {
            Found::Wait => return None,
            Found::Leaf(leaf) => {
                let whole = matches!(leaf, Leaf::Fence(..) | Leaf::Rule | Leaf::DoubleRule);
                let used = if whole { line.len() } else { at.pos };
                return Some(Start {
                    matched,
                    fresh,
                    leaf,
                    used,
                });
            }
            Found::Nothing => {}
        }
        let interrupts = continues && matched == cx.stack.len();
        match if deep {
            Item::Nothing
        } else {
            item(&mut at, indent, interrupts, eol)
        } {
            Item::Wait => return None,
            Item::Found(item) => fresh.push(item),
            Item::Nothing => return Some(Start { fresh, ..text }),
        }
    }
}

/// A line inside a code block.
fn code_line(fence: Fence, at: &mut Cursor<'_>, eol: bool) -> Option<Leaf> {
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
            return Some(Leaf::FenceEnd);
        }
    }
    at.skip(fence.indent);
    Some(Leaf::CodeLine)
}

enum Found {
    Leaf(Leaf),
    Nothing,
    Wait,
}

fn heading(at: &mut Cursor<'_>, eol: bool) -> Found {
    let level = at.rest().iter().take_while(|c| **c == b'#').count();
    match at.rest().get(level) {
        _ if level > 6 => return Found::Nothing,
        None if !eol => return Found::Wait,
        None | Some(b' ' | b'\t') => {}
        Some(_) => return Found::Nothing,
    }
    let mut text = *at;
    (0..level).for_each(|_| text.bump());
    text.skip(usize::MAX);
    if text.peek().is_none() && !eol {
        return Found::Wait;
    }
    *at = text;
    Found::Leaf(Leaf::Heading(level))
}

fn opening_fence(rest: &[u8], indent: usize, eol: bool) -> Found {
    let mark = rest[0];
    let len = rest.iter().take_while(|c| **c == mark).count();
    let info = &rest[len..];
    if len < 3 {
        return if info.is_empty() && !eol {
            Found::Wait
        } else {
            Found::Nothing
        };
    }
    if mark == b'`' && info.contains(&b'`') {
        return Found::Nothing;
    }
    if !eol {
        return Found::Wait;
    }
    let info = String::from_utf8_lossy(info).trim().to_owned();
    Found::Leaf(Leaf::Fence(Fence { mark, len, indent }, info))
}

/// A line of one character and spaces.
fn repeated(rest: &[u8], eol: bool, leaf: Leaf) -> Found {
    let mut count = 0;
    for c in rest {
        if *c == rest[0] {
            count += 1;
        } else if !matches!(c, b' ' | b'\t') || leaf == Leaf::DoubleRule {
            return Found::Nothing;
        }
    }
    match (eol, count >= 3) {
        (false, _) => Found::Wait,
        (true, true) => Found::Leaf(leaf),
        (true, false) => Found::Nothing,
    }
}

enum Item {
    Found(Container),
    Nothing,
    Wait,
}

/// The list marker at a place, and the box after it.
fn item(at: &mut Cursor<'_>, indent: usize, interrupts: bool, eol: bool) -> Item {
    let rest = at.rest();
    let digits = rest
        .iter()
        .take(10)
        .take_while(|c| c.is_ascii_digit())
        .count();
    let (marker, len) = match rest.get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => (Marker::Bullet, 1),
        Some(delimiter @ (b'.' | b')')) if (1..10).contains(&digits) => {
            // At most nine digits, so it fits.
            let number = rest[..digits]
                .iter()
                .fold(0, |n, d| n * 10 + u32::from(d - b'0'));
            if interrupts && number != 1 {
                return Item::Nothing;
            }
            (Marker::Ordered(number, *delimiter as char), digits + 1)
        }
        None if !eol && digits < 10 => return Item::Wait,
        _ => return Item::Nothing,
    };
    let mut text = *at;
    (0..len).for_each(|_| text.bump());
    match text.peek() {
        None if !eol => return Item::Wait,
        None if interrupts => return Item::Nothing,
        None | Some(b' ' | b'\t') => {}
        Some(_) => return Item::Nothing,
    }
    let mut wide = text;
    let spaces = wide.skip(usize::MAX);
    if wide.peek().is_none() && !eol {
        return Item::Wait;
    }
    if wide.peek().is_none() && interrupts {
        return Item::Nothing;
    }
    let after = if wide.peek().is_none() || spaces > 4 {
        text.skip(1).max(1)
    } else {
        text.skip(usize::MAX)
    };
    let task = match task(text.rest(), eol) {
        Task::Wait => return Item::Wait,
        Task::None => None,
        Task::Box(done) => {
            (0..3).for_each(|_| text.bump());
            text.skip(usize::MAX);
            Some(done)
        }
    };
    *at = text;
    Item::Found(Container::Item {
        indent: indent + len + after,
        marker,
        task,
    })
}

enum Task {
    Box(bool),
    None,
    Wait,
}

fn task(rest: &[u8], eol: bool) -> Task {
    match rest {
        [b'[', b' ', b']', b' ', ..] => Task::Box(false),
        [b'[', b'x' | b'X', b']', b' ', ..] => Task::Box(true),
        [b'['] | [b'[', b' ' | b'x' | b'X'] | [b'[', b' ' | b'x' | b'X', b']'] if !eol => {
            Task::Wait
        }
        _ => Task::None,
    }
}
