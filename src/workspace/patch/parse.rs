//! Reads a patch, with the deviations that models are known for.

use super::{HunkLine, PatchHunk, PatchOperation};
use crate::workspace::failure::WorkspaceError;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
/// The remark of a unified diff about a last line. A missing newline stays missing anyway.
const NO_NEWLINE: &str = "\\ No newline";

/// A line of a patch with its number.
#[derive(Debug, Clone, Copy)]
struct PatchLine<'a> {
    number: usize,
    text: &'a str,
    /// Only blank lines precede the next file or the end.
    is_last: bool,
}

/// Reads a patch. Space around the markers, a byte order mark, a here-document around the patch (`<<'EOF'`, with or without
/// `apply_patch`), a code fence, a repeated end marker, blank lines between the files, and a first hunk without `@@` are
/// accepted.
///
/// # Errors
/// The text is not a patch, names no file, or a hunk is malformed; with the number of the line.
pub fn parse_patch(text: &str) -> Result<Vec<PatchOperation>, WorkspaceError> {
    let lines: Vec<PatchLine<'_>> = without_mark(text)
        .lines()
        .enumerate()
        .map(|(index, text)| PatchLine {
            number: index + 1,
            text,
            is_last: false,
        })
        .collect();
    let mut lines = body(&lines)?.to_vec();
    mark_last(&mut lines);
    let mut rest = &lines[..];
    let mut operations = Vec::new();
    while let Some((line, behind)) = rest.split_first() {
        if line.text.trim().is_empty() {
            rest = behind;
            continue;
        }
        let (operation, behind) = operation(*line, behind)?;
        operations.push(operation);
        rest = behind;
    }
    if operations.is_empty() {
        return Err(WorkspaceError::new("the patch changes no file")
            .hint("put *** Add File:, *** Update File: or *** Delete File: lines between *** Begin Patch and *** End Patch"));
    }
    Ok(operations)
}

/// Returns the lines between the markers.
fn body<'a, 'b>(lines: &'b [PatchLine<'a>]) -> Result<&'b [PatchLine<'a>], WorkspaceError> {
    let mut lines = without_blank_ends(lines);
    while let [first, inner @ .., last] = lines
        && is_wrapper(first.text.trim(), last.text.trim())
    {
        lines = without_blank_ends(inner);
    }
    // Without a sign, it is not a line of a file.
    while let [.., before, last] = lines
        && (before.text.trim_end() == END && last.text.trim() == END)
    {
        lines = lines.split_last().map_or(lines, |(_, rest)| rest);
    }
    let Some((first, rest)) = lines.split_first() else {
        return Err(
            WorkspaceError::new("the patch is empty").hint(format!("a patch begins with {BEGIN}"))
        );
    };
    if first.text.trim() != BEGIN {
        return Err(
            WorkspaceError::new(format!("the first line of the patch is not {BEGIN}"))
                .hint("send the patch alone, without other text"),
        );
    }
    match rest.split_last() {
        Some((last, inner)) if last.text.trim() == END => Ok(inner),
        _ => Err(
            WorkspaceError::new(format!("the last line of the patch is not {END}"))
                .hint("the patch may have been cut off: nothing was changed"),
        ),
    }
}

fn without_blank_ends<'a, 'b>(mut lines: &'b [PatchLine<'a>]) -> &'b [PatchLine<'a>] {
    let is_blank = |line: &PatchLine<'_>| line.text.trim().is_empty();
    while let [first, rest @ ..] = lines
        && is_blank(first)
    {
        lines = rest;
    }
    while let [rest @ .., last] = lines
        && is_blank(last)
    {
        lines = rest;
    }
    lines
}

/// Whether the first and the last line are a here-document or a code fence around the patch.
fn is_wrapper(first: &str, last: &str) -> bool {
    if first.starts_with("```") && last == "```" {
        return true;
    }
    let command = first
        .strip_prefix("apply_patch")
        .or(first.strip_prefix("applypatch"));
    let redirection = command.unwrap_or(first).trim_start();
    let Some(word) = redirection.strip_prefix("<<") else {
        return false;
    };
    let word = word.strip_prefix('-').unwrap_or(word).trim();
    let quoted = |quote: char| {
        word.strip_prefix(quote)
            .and_then(|word| word.strip_suffix(quote))
    };
    let word = quoted('\'').or(quoted('"')).unwrap_or(word);
    !word.is_empty() && last == word
}

type Rest<'a, 'b> = &'b [PatchLine<'a>];

fn operation<'a, 'b>(
    line: PatchLine<'a>,
    rest: Rest<'a, 'b>,
) -> Result<(PatchOperation, Rest<'a, 'b>), WorkspaceError> {
    let header = line.text.trim();
    if let Some(path) = header.strip_prefix(ADD) {
        let path = file_path(path, line)?;
        return added(path, rest);
    }
    if let Some(path) = header.strip_prefix(DELETE) {
        let path = file_path(path, line)?;
        return Ok((PatchOperation::Delete { path }, rest));
    }
    if let Some(path) = header.strip_prefix(UPDATE) {
        let path = file_path(path, line)?;
        return updated(path, line, rest);
    }
    Err(at(
        line,
        "expected *** Add File:, *** Update File: or *** Delete File:",
    ))
}

fn file_path(path: &str, line: PatchLine<'_>) -> Result<String, WorkspaceError> {
    match path.trim() {
        "" => Err(at(line, "the path is missing")),
        path if path.ends_with('/') => Err(at(line, "the path is that of a directory")),
        path => Ok(path.to_owned()),
    }
}

fn added<'a, 'b>(
    path: String,
    mut rest: Rest<'a, 'b>,
) -> Result<(PatchOperation, Rest<'a, 'b>), WorkspaceError> {
    let mut text = String::new();
    while let Some((line, behind)) = rest.split_first() {
        if let Some(added) = line.text.strip_prefix('+') {
            text.push_str(added);
            text.push('\n');
        } else if line.text.trim() == END_OF_FILE || line.text.trim().is_empty() && line.is_last {
            // Blank lines before the next file.
        } else if is_file_header(line.text.trim()) {
            break;
        } else {
            return Err(at(*line, "each line of an added file begins with +"));
        }
        rest = behind;
    }
    Ok((PatchOperation::Add { path, text }, rest))
}

/// Records for each line whether only blank lines separate it from the next file or the end.
fn mark_last(lines: &mut [PatchLine<'_>]) {
    let mut is_last = true;
    for line in lines.iter_mut().rev() {
        line.is_last = is_last;
        if !line.text.trim().is_empty() {
            is_last = is_file_header(line.text);
        }
    }
}

fn is_file_header(line: &str) -> bool {
    // An indented marker would be a context line in a hunk.
    [ADD, DELETE, UPDATE]
        .iter()
        .any(|marker| line.starts_with(marker))
}

fn updated<'a, 'b>(
    path: String,
    header: PatchLine<'a>,
    mut rest: Rest<'a, 'b>,
) -> Result<(PatchOperation, Rest<'a, 'b>), WorkspaceError> {
    let mut move_to = None;
    let mut hunks: Vec<PatchHunk> = Vec::new();
    // A marker that is indented more than the one before it would be a context line.
    let is_indented = header.text.starts_with([' ', '\t']);
    while let Some((line, behind)) = rest.split_first() {
        let marker = line.text.trim_end();
        // Empty lines before the first hunk and after the last one, and blank ones after the end of the file, belong to none.
        let is_outside = match hunks.last() {
            Some(hunk) if hunk.at_end => line.text.trim().is_empty(),
            Some(_) => line.text.is_empty() && line.is_last,
            None => line.text.is_empty(),
        };
        let target = match is_indented {
            true => marker.trim_start(),
            false => marker,
        };
        if is_file_header(line.text) {
            break;
        } else if is_outside || line.text.starts_with(NO_NEWLINE) {
            // Nothing.
        } else if let Some(target) = target.strip_prefix(MOVE)
            && hunks.is_empty()
            && move_to.is_none()
        {
            move_to = Some(file_path(target, *line)?);
        } else if let Some(text) = marker.strip_prefix("@@") {
            hunk_header(&mut hunks, text, *line);
        } else if marker == END_OF_FILE {
            match hunks.last_mut() {
                Some(hunk) if !hunk.lines.is_empty() => hunk.at_end = true,
                _ => return Err(at(*line, "the hunk has no lines")),
            }
        } else {
            hunk_line(&mut hunks, *line)?;
        }
        rest = behind;
    }
    if let Some(empty) = hunks.iter().find(|hunk| hunk.lines.is_empty()) {
        return Err(WorkspaceError::new(format!(
            "line {} of the patch: the hunk has no lines",
            empty.line_number
        )));
    }
    if hunks.is_empty() && move_to.is_none() {
        return Err(at(header, "the update has no hunks"));
    }
    if let Some(first) = hunks.first_mut() {
        remove_marks(first);
    }
    Ok((
        PatchOperation::Update {
            path,
            move_to,
            hunks,
        },
        rest,
    ))
}

fn hunk_header(hunks: &mut Vec<PatchHunk>, text: &str, line: PatchLine<'_>) {
    let text = without_numbers(text);
    let text = text.strip_prefix(' ').unwrap_or(text);
    // Several `@@` lines in a row narrow down one place.
    let continues = hunks.last().is_some_and(|hunk| hunk.lines.is_empty());
    if !continues {
        hunks.push(PatchHunk {
            line_number: line.number,
            ..PatchHunk::default()
        });
    }
    if !text.trim().is_empty()
        && let Some(hunk) = hunks.last_mut()
    {
        hunk.headers.push(text.to_owned());
    }
}

/// Returns the text of a header without the numbers of a unified diff: `-10,6 +10,7 @@ fn f()`.
fn without_numbers(text: &str) -> &str {
    let Some((numbers, behind)) = text.split_once("@@") else {
        return text;
    };
    let is_range = |word: &str| {
        let digits = word.strip_prefix(['-', '+']);
        digits.is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    if !numbers.trim().is_empty() && numbers.split_whitespace().all(is_range) {
        behind
    } else {
        text
    }
}

fn hunk_line(hunks: &mut Vec<PatchHunk>, line: PatchLine<'_>) -> Result<(), WorkspaceError> {
    let text = match line.text.split_at_checked(1) {
        // Models leave out the space of an empty context line.
        None if line.text.is_empty() => HunkLine::Context(String::new()),
        Some((" ", text)) => HunkLine::Context(text.to_owned()),
        Some(("-", text)) => HunkLine::Removed(text.to_owned()),
        Some(("+", text)) => HunkLine::Added(text.to_owned()),
        _ => {
            return Err(at(
                line,
                "each line of a hunk begins with a space (unchanged), - (removed) or + (added)",
            ));
        }
    };
    match hunks.last_mut() {
        Some(hunk) if hunk.at_end => {
            return Err(at(
                line,
                "expected @@ or the next file behind *** End of File",
            ));
        }
        Some(hunk) => hunk.lines.push(text),
        None => hunks.push(PatchHunk {
            line_number: line.number,
            lines: vec![text],
            ..PatchHunk::default()
        }),
    }
    Ok(())
}

/// Removes a byte order mark, which is not part of the text, from the lines that may be the first one of the file.
fn remove_marks(hunk: &mut PatchHunk) {
    for line in &mut hunk.lines {
        let (HunkLine::Context(text) | HunkLine::Removed(text) | HunkLine::Added(text)) = line;
        *text = without_mark(text).to_owned();
        if matches!(line, HunkLine::Context(_)) {
            break;
        }
    }
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

fn at(line: PatchLine<'_>, what: &str) -> WorkspaceError {
    WorkspaceError::new(format!("line {} of the patch: {what}", line.number))
}
