//! Where a hunk may be: the blocks of the lines after its `@@`.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use memchr::memmem;

use super::PatchHunk;
use crate::workspace::edit::{LineIndex, LineRule, MatchStage, depth};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::TextFile;

/// How strictly lines are compared, the strictest first.
pub(super) const RULES: [LineRule; 5] = [
    rule(MatchStage::Exact, false),
    rule(MatchStage::TrailingSpace, false),
    rule(MatchStage::Indentation, false),
    rule(MatchStage::TrailingSpace, true),
    rule(MatchStage::Indentation, true),
];

const fn rule(stage: MatchStage, folded: bool) -> LineRule {
    LineRule { stage, folded }
}

/// Maximum number of lines that are compared to find the hunks of a file: a line as `}` is in thousands of places, and the block
/// below each of them may have thousands of lines.
const MAX_COMPARED: usize = 10_000_000;

/// Finds lines of a file by each of the rules.
pub(super) struct LineFinder<'a> {
    pub file: &'a TextFile,
    indexes: [OnceCell<LineIndex<'a>>; RULES.len()],
    /// Number of lines that were compared.
    compared: Cell<usize>,
    /// Whether the file has texts between `"""`.
    has_quotes: bool,
}

impl<'a> LineFinder<'a> {
    pub fn new(file: &'a TextFile) -> LineFinder<'a> {
        LineFinder {
            file,
            indexes: Default::default(),
            compared: Cell::new(0),
            has_quotes: (0..file.line_count()).any(|index| has_odd_quotes(file.line(index))),
        }
    }

    /// Refuses a file for which too many lines were compared. What was found since is not complete.
    ///
    /// # Errors
    /// More than [`MAX_COMPARED`] lines were compared.
    pub fn check(&self) -> Result<(), WorkspaceError> {
        if self.is_within_limit() {
            return Ok(());
        }
        Err(
            WorkspaceError::new("its lines are in too many places of the file")
                .hint("give lines that are in few places, or fewer hunks in one patch"),
        )
    }

    fn is_within_limit(&self) -> bool {
        self.compared.get() < MAX_COMPARED
    }

    /// Counts a line that is compared; returns false if the limit is reached.
    fn count(&self) -> bool {
        self.compared.set(self.compared.get() + 1);
        self.is_within_limit()
    }

    /// Returns where the lines occur in a range, by the rule with this index: the first line of each place.
    pub fn find(&self, old: &[&[u8]], range: Range<usize>, rule: usize) -> Vec<usize> {
        let (Some(index), Some(rule)) = (self.indexes.get(rule), RULES.get(rule)) else {
            return Vec::new();
        };
        index
            .get_or_init(|| LineIndex::of(self.file, *rule))
            .find(old, range, &|| self.count())
    }
}

/// First words of lines that continue a block at the indentation of its header.
const CONTINUATIONS: [&str; 9] = [
    "else", "elif", "elsif", "elseif", "except", "finally", "catch", "rescue", "where",
];

/// Lines among which a hunk begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// The line of the last `@@`; nothing if the hunk has none.
    pub header: Option<usize>,
    /// First line of the scope.
    pub start: usize,
    /// The line after the scope.
    pub end: usize,
    /// The scope ends where the block of the header does, as its indentation shows. Otherwise the first match below counts.
    is_block: bool,
    /// No other line is more like the header.
    pub is_strict: bool,
}

impl Scope {
    /// Returns those of these places, in order, that the hunk may mean.
    pub fn places<'a>(&self, all: &'a [usize]) -> &'a [usize] {
        let from = all.partition_point(|place| *place < self.start);
        // A hunk may begin with the next block itself, as the hunks of git do: they name the function before.
        let to = all.partition_point(|place| *place <= self.end);
        let inside = all.get(from..to).unwrap_or_default();
        match inside {
            // Models repeat the header as the first line of the hunk.
            [first, ..] if !self.is_block || Some(*first) == self.header => {
                inside.get(..1).unwrap_or_default()
            }
            inside => inside,
        }
    }

    /// The scope of a header inside of this one.
    fn of(self, finder: &LineFinder<'_>, header: usize, is_strict: bool) -> Scope {
        let end = block_end(finder, header);
        Scope {
            header: Some(header),
            start: header,
            end: end.unwrap_or(self.end).min(self.end),
            is_block: end.is_some(),
            is_strict: is_strict && self.is_strict,
        }
    }
}

/// Returns the scopes of a hunk: one for each line that its headers fit from line `next` on.
///
/// # Errors
/// A header is not in the file, or a narrower one is not in the block of the one before it. `is_above(header, rules)` returns whether a line
/// above line `next` matches the first header by one of the first `rules` rules.
pub(super) fn scopes(
    finder: &LineFinder<'_>,
    hunk: &PatchHunk,
    next: usize,
    is_above: impl Fn(&[u8], usize) -> bool,
) -> Result<Vec<Scope>, WorkspaceError> {
    let file = finder.file;
    let rest = Scope {
        header: None,
        start: next,
        end: file.real_line_count(),
        is_block: true,
        is_strict: true,
    };
    let Some((first, narrower)) = hunk.headers.split_first() else {
        return Ok(vec![rest]);
    };
    let above = || {
        no_header("the line behind @@ is above the hunk before", first)
            .hint("leave the @@ line out, or put the hunks in the order of the file")
    };
    let mut scopes = match header_places(finder, first, next..rest.end) {
        Some((_, index)) if is_above(first.as_bytes(), index) => return Err(above()),
        Some((places, index)) => {
            // A model may leave out the indentation of a header, so that it is exactly another line.
            let mut fitting = places.clone();
            for rule in index + 1..RULES.len() {
                fitting.extend(finder.find(&[first.as_bytes()], next..rest.end, rule));
            }
            fitting.sort_unstable();
            fitting.dedup();
            let of = |place: usize| rest.of(finder, place, places.binary_search(&place).is_ok());
            fitting.into_iter().map(of).collect()
        }
        None => match header_places(finder, first, 0..next) {
            Some((places, _)) => vec![open_block(finder, hunk, &places, next).ok_or_else(above)?],
            None => return Err(no_header("the line behind @@ is not in the file", first)),
        },
    };
    for header in narrower {
        scopes = scopes
            .into_iter()
            .flat_map(|outer| narrowed(finder, outer, header))
            .collect();
        if !scopes.iter().any(|scope| scope.is_strict) {
            let what = "the line behind @@ is not in the block of the @@ line before it";
            return Err(no_header(what, header));
        }
    }
    Ok(scopes)
}

/// Returns the rest of the block of a header above line `next`: models repeat the header for each hunk in a class. Returns nothing
/// if the block has ended, if there are several such headers, or if the hunk has no line that tells its place.
fn open_block(
    finder: &LineFinder<'_>,
    hunk: &PatchHunk,
    places: &[usize],
    next: usize,
) -> Option<Scope> {
    let [header] = places else { return None };
    let end = block_end(finder, *header).filter(|end| *end > next)?;
    let has_old = hunk.lines.iter().any(|line| line.old().is_some());
    has_old.then_some(Scope {
        header: Some(*header),
        start: next,
        end,
        is_block: true,
        is_strict: true,
    })
}

/// Returns the scopes of a header inside of another one.
fn narrowed(finder: &LineFinder<'_>, outer: Scope, header: &str) -> Vec<Scope> {
    let file = finder.file;
    let head = outer.header.unwrap_or(outer.start);
    let outside = depth(file.line(head));
    let is_flat = !outer.is_block || is_section(file.line(head).trim_ascii());
    let is_inside = |place: &usize| is_flat || depth(file.line(*place)) > outside;
    let range = outer.start.max(head + 1)..outer.end;
    let of_rule = |rule| {
        let places = finder.find(&[header.as_bytes()], range.clone(), rule);
        places.into_iter().filter(is_inside).collect::<Vec<_>>()
    };
    let mut found = (0..RULES.len()).map(of_rule);
    let mut places = found.find(|places| !places.is_empty()).unwrap_or_default();
    if !outer.is_block {
        places.truncate(1);
    }
    places
        .into_iter()
        .map(|place| outer.of(finder, place, true))
        .collect()
}

/// Returns the places of a header, and the index of the strictest rule by which there are any.
fn header_places(
    finder: &LineFinder<'_>,
    header: &str,
    range: Range<usize>,
) -> Option<(Vec<usize>, usize)> {
    (0..RULES.len()).find_map(|rule| {
        let places = finder.find(&[header.as_bytes()], range.clone(), rule);
        (!places.is_empty()).then_some((places, rule))
    })
}

fn no_header(what: &str, header: &str) -> WorkspaceError {
    let header: String = header.trim().chars().take(80).collect();
    WorkspaceError::new(format!("{what}: {header}"))
        .hint("the text behind @@ is a whole line of the file above the change, after the place of the hunk before")
}

/// Returns the line after the block of a header: the first one that is not indented more and has its own block. Returns
/// nothing if the line below the header is not indented more than it, or the header has no words.
///
/// Lines that are not indented more and have no block, such as those of a text in quotes, do not end one: the lines of another
/// block would be mistaken for its own, not they.
fn block_end(finder: &LineFinder<'_>, header: usize) -> Option<usize> {
    let file = finder.file;
    let head = file.line(header).trim_ascii();
    let outside = depth(file.line(header));
    if is_punctuation(head) {
        return None;
    }
    if is_section(head) {
        return Some(section_end(finder, header));
    }
    let mut has_braces = head.ends_with(b"{");
    let mut is_empty = true;
    let mut last: Option<usize> = None;
    // Whether the line is in a text between `"""`, as far as can be told from here.
    let mut is_quoted = finder.has_quotes && has_odd_quotes(head);
    for index in header + 1..file.real_line_count() {
        if !finder.count() {
            return None;
        }
        let line = file.line(index);
        let text = line.trim_ascii();
        let is_deeper = |last: usize| depth(line) > depth(file.line(last));
        let was_quoted = is_quoted;
        is_quoted ^= finder.has_quotes && has_odd_quotes(text);
        if is_punctuation(text) || is_comment(text) && !is_comment(head) {
            let opens = text.first().is_none_or(|first| b"([{".contains(first));
            has_braces |= is_empty && text.starts_with(b"{");
            is_empty &= text.is_empty() || is_comment(text) || depth(line) <= outside;
            if !text.is_empty() && !is_comment(text) {
                // `...`, `-` and the `"""` of a docstring may be the whole first line of a block.
                let ends = text.first().is_some_and(|first| b")]}'\"`".contains(first));
                let begins = !ends || is_quoted && !was_quoted;
                if last.is_some_and(|last| begins && is_deeper(last)) {
                    return last;
                }
                // What follows the end of a text in quotes is not the block of its last line.
                last = last.filter(|_| opens);
            }
            continue;
        }
        if let Some(last) = last.take()
            && is_deeper(last)
        {
            return Some(last);
        }
        if depth(line) > outside {
            is_empty = false;
        } else if !(continues(head, text) && depth(line) == outside || has_braces && is_label(text))
        {
            if is_empty {
                return None;
            }
            last = Some(index);
        }
    }
    (!is_empty).then(|| file.real_line_count())
}

/// Whether a text between three quotes begins or ends in a line.
fn has_odd_quotes(line: &[u8]) -> bool {
    // Most lines have none, and a search costs more than this.
    let has = |quote: u8| memchr::memchr(quote, line).is_some();
    let count = |quotes: &[u8]| memmem::find_iter(line, quotes).count();
    let mut all = 0;
    if has(b'"') {
        all += count(br#"""""#);
    }
    if has(b'\'') {
        all += count(b"'''");
    }
    all % 2 == 1
}

/// Whether a line is the header of a section as in TOML and INI: `[name]`.
fn is_section(text: &[u8]) -> bool {
    let name = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"));
    name.is_some_and(|name| !is_punctuation(name))
}

/// Returns the line of the next section. Lines in brackets without anything between them are attributes, as those of C#.
fn section_end(finder: &LineFinder<'_>, header: usize) -> usize {
    let file = finder.file;
    let outside = depth(file.line(header));
    let is_other = |index: &usize| {
        let line = file.line(*index);
        depth(line) == outside && is_section(line.trim_ascii())
    };
    let end = file.real_line_count();
    let mut lines = (header + 1..end).take_while(|_| finder.count());
    let first = lines.find(|index| !is_other(index));
    first.and_then(|_| lines.find(is_other)).unwrap_or(end)
}

/// Whether a line has no words: it is blank, or opens or closes something.
fn is_punctuation(text: &[u8]) -> bool {
    !text
        .iter()
        .any(|b| b.is_ascii_alphanumeric() || !b.is_ascii())
}

/// Whether a line is a comment or a directive of a preprocessor, which may be indented less than the block that it is in.
fn is_comment(text: &[u8]) -> bool {
    [&b"#"[..], b"//", b"/*", b"*", b"--"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Whether a line at the indentation of a header belongs to its block.
fn continues(head: &[u8], text: &[u8]) -> bool {
    let is_part = |line: &[u8]| {
        CONTINUATIONS
            .iter()
            .any(|word| first_word(line) == word.as_bytes())
    };
    match first_word(text) {
        // `) -> Result {` and `} else {`, and the items of a list in YAML.
        b"" => match text {
            [b'-', b' ', ..] => !head.starts_with(b"- "),
            // The next `} else {` is another block than this one.
            [first, ..] => b")]}".contains(first) && !head.starts_with(&[*first]),
            [] => true,
        },
        b"case" | b"default" => matches!(first_word(head), b"switch" | b"select"),
        b"when" => first_word(head) == b"case",
        _ => is_part(text) && !is_part(head),
    }
}

/// Whether a line is a label as `public:` or `out:`, which may be indented less than the block that it is in.
fn is_label(text: &[u8]) -> bool {
    let name = text.strip_suffix(b":");
    name.is_some_and(|name| name.iter().all(|b| is_word(*b) || *b == b' '))
}

fn first_word(text: &[u8]) -> &[u8] {
    let length = text.iter().take_while(|b| is_word(**b)).count();
    text.get(..length).unwrap_or_default()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
