//! Classifies the beginning of a line of an answer.

use super::FenceMarker;

/// The mark at the beginning of a line that proposes a command.
pub(super) const MARK: &str = "CMD:";

/// Accepted before the mark: models also put the line in a list or in backticks.
const BULLETS: [&str; 2] = ["- CMD:", "* CMD:"];
const QUOTED: &str = "`CMD:";

/// Maximum number of bytes held back while a line may still become a code fence.
pub(super) const MAX_HELD: usize = 256;

/// The classification of the beginning of a line.
pub(super) enum LineKind {
    /// May still become a mark or a fence.
    Open,
    Text,
    /// A command, after a mark of this many bytes.
    Mark(usize),
    Blank,
    /// A fence that opens a code block.
    Opens(OpenedFence),
    Closes,
}

/// A fence that opens a code block.
pub(super) struct OpenedFence {
    pub(super) fence: FenceMarker,
    /// Whether the block may consist of commands. A fence that Markdown counts only within a list, or not at all, still
    /// quotes its content.
    pub(super) may_propose: bool,
}

impl OpenedFence {
    /// Whether the block may be a command as a whole: not one in a list.
    pub(super) fn is_block(&self) -> bool {
        self.may_propose && self.fence.offset == 0
    }
}

/// Classifies the beginning of a line, given the code block that it is in; `end` if the line is complete.
pub(super) fn line(held: &str, fence: Option<&FenceMarker>, end: bool) -> LineKind {
    let whole = end || held.ends_with('\n');
    let blank = held.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
    if blank && held.len() <= MAX_HELD && fence.is_some_and(|f| f.held.is_some()) {
        return if whole {
            LineKind::Blank
        } else {
            LineKind::Open
        };
    }
    let too_long = held.len() > MAX_HELD;
    let unindented = held.trim_start_matches([' ', '\t']);
    let spaces = &held[..held.len() - unindented.len()];
    let indent = spaces.len() + 3 * spaces.matches('\t').count();
    let is_deep = indent > 3 + fence.map_or(0, |f| f.offset);
    if fence.is_some() && (is_deep || too_long) {
        return LineKind::Text;
    }
    // Within a code block, a bullet or a backtick is code, and after other code so is the mark.
    let marks = [MARK, BULLETS[0], BULLETS[1], QUOTED];
    let marks = match fence {
        _ if is_deep || too_long || spaces.contains('\t') => &[],
        None => &marks[..],
        Some(fence) if fence.held.is_some() => &marks[..1],
        Some(_) => &[],
    };
    let rest = unindented;
    if let Some(mark) = marks.iter().find(|m| rest.starts_with(**m)) {
        return LineKind::Mark(spaces.len() + mark.len());
    }
    // Nothing but an indent may become a fence even where no mark counts.
    if !too_long && (rest.is_empty() || marks.iter().any(|m| m.starts_with(rest))) {
        return LineKind::Open;
    }
    let (markers, may_grow) = match fence {
        None => list_markers(rest),
        Some(_) => (0, false),
    };
    if may_grow && !whole && !too_long {
        return LineKind::Open;
    }
    let rest = &rest[markers..];
    let sign = match (fence, rest.chars().next()) {
        (Some(fence), Some(c)) if c == fence.sign => c,
        (None, Some(c @ ('`' | '~'))) => c,
        _ => return LineKind::Text,
    };
    let info = rest.trim_start_matches(sign);
    let length = rest.len() - info.len();
    if info.is_empty() && !whole && !too_long {
        return LineKind::Open;
    }
    let matches = match fence {
        Some(fence) => length >= fence.length && info.trim().is_empty(),
        None => length >= 3 && !(sign == '`' && info.contains('`')),
    };
    match (matches, whole || too_long, fence) {
        (false, ..) => LineKind::Text,
        (true, false, _) => LineKind::Open,
        (true, true, Some(_)) => LineKind::Closes,
        (true, true, None) => LineKind::Opens(OpenedFence {
            fence: FenceMarker {
                sign,
                length,
                offset: markers + if is_deep { indent } else { 0 },
                held: None,
            },
            // A lone CR is a line end for Markdown: the block has other text.
            may_propose: !is_deep && !too_long && !info.trim_end().contains('\r'),
        }),
    }
}

/// Returns the length of the markers of lists and quotations at the beginning of a line, and whether what follows may still
/// become one.
pub(super) fn list_markers(line: &str) -> (usize, bool) {
    let mut at = 0;
    loop {
        let rest = &line[at..];
        let rest = rest.trim_start_matches([' ', '\t']);
        let start = line.len() - rest.len();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let marker = match rest.as_bytes().first() {
            None => return (at, at > 0),
            Some(b'>') => {
                at = start + 1;
                continue;
            }
            Some(b'-' | b'*' | b'+') => 1,
            _ if (1..=9).contains(&digits) => match rest.as_bytes().get(digits) {
                None => return (at, true),
                Some(b'.' | b')') => digits + 1,
                Some(_) => return (start, false),
            },
            _ => return (start, false),
        };
        match rest.as_bytes().get(marker) {
            None => return (at, true),
            Some(b' ' | b'\t') => at = start + marker + 1,
            Some(_) => return (start, false),
        }
    }
}
