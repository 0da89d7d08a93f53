//! Finds the rows that show the text of a command, as zsh's line editor draws it.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::ScreenRow;
use super::prompt::MAX_LENGTH;
use super::text::{Expected, RIGHT_PROMPT, SearchedScreen, Unit, is_blank};

/// Maximum length of a continuation prompt such as `for else> `, in bytes.
const CONTINUATION: usize = 60;
/// Number of columns from which a row may be one that continues in the next.
const LONG: usize = 20;
/// Maximum number of rows that a removed secret may take.
const SECRET_ROWS: usize = 40;

/// The position of the text of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The first row that belongs to the command line.
    pub first_row: usize,
    /// The row with the prompt.
    pub prompt_row: usize,
    /// The end of the prompt in that row, in bytes.
    pub prompt_end: usize,
    /// The last row.
    pub last_row: usize,
}

/// A place on the screen: a row, and a byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    row: usize,
    at: usize,
}

/// Returns all positions of the text of a command, from top to bottom.
pub fn echoes(screen: &SearchedScreen<'_>, text: &Expected) -> Vec<Echo> {
    let mut found = Vec::new();
    let mut places = Vec::new();
    for (row, ScreenRow { text: shown, .. }) in screen.rows.iter().enumerate() {
        if screen.is_cancelled() {
            break;
        }
        let expanded = || row > 0 && is_expansion(screen, row - 1);
        places.clear();
        // A prompt precedes the command. In a long row, each place would be compared with the rest of the row.
        let beginning = beginning(shown, MAX_LENGTH);
        match text.first_byte() {
            // A full scrollback is searched for a dozen commands, which took most of the time of a prompt with output.
            Some(first) => places.extend(
                memchr::memchr_iter(first, beginning.as_bytes()).filter(|at| is_start(shown, *at)),
            ),
            None => places.extend(starts(beginning, beginning.len())),
        }
        for &at in &places {
            let Some(last_row) = consume(screen, text, &text.lines, Place { row, at }) else {
                continue;
            };
            match shown.get(..at).map(str::trim) {
                // zsh prints a line again whose history references it has expanded.
                Some("") if at == 0 && expanded() => {
                    found.extend(expansions(screen, row - 1, last_row))
                }
                Some("") | None => {}
                Some(_) => found.push(Echo {
                    first_row: row,
                    prompt_row: row,
                    prompt_end: at,
                    last_row,
                }),
            }
        }
    }
    found
}

/// Whether the text of a command is the last one on the screen and begins at the edge, in one of the last `rows` rows with text.
pub fn begins_at_edge(screen: &SearchedScreen<'_>, text: &Expected, rows: usize) -> bool {
    let with_text = |row: &ScreenRow| !row.text.trim().is_empty();
    let Some(last) = screen.rows.iter().rposition(with_text) else {
        return false;
    };
    (last.saturating_sub(rows)..=last).any(|row| {
        let shown = screen.rows.get(row).map_or("", |row| &row.text);
        let at = shown.len() - shown.trim_start_matches(is_blank).len();
        let end = consume(screen, text, &text.lines, Place { row, at });
        end.is_some_and(|end| end >= last)
    })
}

/// Returns the line that contains the arguments of a program, in the last `rows` rows with text.
pub fn last_mention(screen: &SearchedScreen<'_>, words: &str, rows: usize) -> Option<Echo> {
    let words = words.trim();
    let with_text = screen.rows.iter().enumerate().rev();
    let mut with_text = with_text.filter(|(_, row)| !row.text.trim().is_empty());
    let last = with_text.next()?;
    let mut lowest = std::iter::once(last).chain(with_text).take(rows);
    lowest.find_map(|(row, ScreenRow { text, .. })| {
        let at = text.find(words)?;
        // The program precedes its arguments.
        let before = text.get(..at)?.trim_end();
        let start = before.rfind(char::is_whitespace)? + 1;
        Some(Echo {
            first_row: row,
            prompt_row: row,
            prompt_end: start,
            last_row: last.0,
        })
    })
}

/// Returns the places in a row, up to the byte `end`, where a command may begin: after a blank or a sign, and not at one.
fn starts(row: &str, end: usize) -> impl Iterator<Item = usize> {
    let mut before = None;
    row.char_indices().filter_map(move |(at, c)| {
        let is_start = at <= end
            && !is_blank(c)
            && before.is_none_or(|before: char| !before.is_alphanumeric());
        before = Some(c);
        is_start.then_some(at)
    })
}

/// Whether the byte `at` follows a blank or a sign.
fn is_start(row: &str, at: usize) -> bool {
    let before = row.get(..at).and_then(|before| before.chars().next_back());
    before.is_none_or(|before| !before.is_alphanumeric())
}

/// Returns the last row of `lines` if they are at a place and after it.
fn consume(
    screen: &SearchedScreen<'_>,
    text: &Expected,
    lines: &[Vec<Unit>],
    place: Place,
) -> Option<usize> {
    let (line, rest) = lines.split_first()?;
    let last_row = consume_line(screen, text, line, place)?;
    consume_below(screen, text, rest, last_row)
}

/// Returns the last row of `lines` if they are below a row; without lines, the last row of the command.
fn consume_below(
    screen: &SearchedScreen<'_>,
    text: &Expected,
    lines: &[Vec<Unit>],
    above: usize,
) -> Option<usize> {
    let row = above + 1;
    let Some((line, rest)) = lines.split_first() else {
        // A blank or the cursor after a full row.
        let is_blank = screen
            .rows
            .get(row)
            .is_some_and(|row| row.text.trim().is_empty());
        let width = row_width(screen, above);
        return Some(
            match is_blank && (text.ends_blank && width >= LONG || width == screen.columns) {
                true => row,
                false => above,
            },
        );
    };
    let next = &screen.rows.get(row)?.text;
    if line.is_empty() {
        // An empty line: nothing follows the continuation prompt.
        let is_empty = next.trim_end().len() <= CONTINUATION;
        return is_empty
            .then(|| consume_below(screen, text, rest, row))
            .flatten();
    }
    // A line that was typed follows a continuation prompt, one that was recalled begins at the edge. A line that begins with
    // a secret may begin anywhere: what follows is compared once, or the number of comparisons doubles with each such line.
    let mut tried = None;
    starts(next, CONTINUATION).find_map(|at| {
        let last_row = consume_line(screen, text, line, Place { row, at })?;
        match tried.replace(last_row) == Some(last_row) {
            true => None,
            false => consume_below(screen, text, rest, last_row),
        }
    })
}

/// Returns the last row of a line that begins at a place. zsh wraps long lines itself, and a terminal wraps them again when it
/// becomes narrower, so that a row may end anywhere.
fn consume_line(
    screen: &SearchedScreen<'_>,
    text: &Expected,
    line: &[Unit],
    place: Place,
) -> Option<usize> {
    let mut parts = line.split(|unit| *unit == Unit::Secret);
    let mut place = consume_part(screen, text, parts.next()?, place)?;
    let behind_secrets: Vec<&[Unit]> = parts.collect();
    let Some((last, between)) = behind_secrets.split_last() else {
        return is_end(screen, place).then_some(place.row);
    };
    // The first place of each part is the right one: a later one leaves less for the parts after it. Trying the others too would
    // multiply the comparisons with each secret.
    for part in between.iter().filter(|part| !part.is_empty()) {
        place = find_part(screen, text, part, place, |_| true)?;
    }
    if last.is_empty() {
        // The secret is the last word, and continues as long as rows are full.
        let mut row = place.row;
        // A right prompt makes the row full too, and is only where the line ends in that row.
        let has_right_prompt =
            rest(screen, place).is_some_and(|rest| rest.trim_end().contains(RIGHT_PROMPT));
        while !has_right_prompt && is_full(screen, row) && row - place.row < SECRET_ROWS {
            row += 1;
        }
        return (row < screen.rows.len()).then_some(row);
    }
    let is_end = |place| is_end(screen, place);
    find_part(screen, text, last, place, is_end).map(|place| place.row)
}

/// Returns the place after characters that begin at a place.
fn consume_part(
    screen: &SearchedScreen<'_>,
    text: &Expected,
    part: &[Unit],
    mut place: Place,
) -> Option<Place> {
    for (at, unit) in part.iter().enumerate() {
        let Unit::Char(c) = unit else { continue };
        // The search starts at the first character: no blank is skipped.
        if at > 0 {
            place = skip_blanks(screen, place)?;
        }
        let shown = rest(screen, place)?;
        let behind = text.eat(shown, *c)?;
        place.at += shown.len() - behind.len();
    }
    Some(place)
}

/// Returns the place after characters that follow a secret, which begins at a place: the first one that `is_right`.
fn find_part(
    screen: &SearchedScreen<'_>,
    text: &Expected,
    part: &[Unit],
    from: Place,
    is_right: impl Fn(Place) -> bool,
) -> Option<Place> {
    let mut place = from;
    while place.row - from.row < SECRET_ROWS {
        let shown = rest(screen, place)?;
        let starts = shown.char_indices().filter(|(_, c)| !is_blank(*c));
        let found = starts
            .map(|(offset, _)| Place {
                row: place.row,
                at: place.at + offset,
            })
            .filter_map(|start| consume_part(screen, text, part, start))
            .find(|end| is_right(*end));
        if found.is_some() || !is_full(screen, place.row) {
            return found;
        }
        place = Place {
            row: place.row + 1,
            at: 0,
        };
    }
    None
}

fn rest<'s>(screen: &'s SearchedScreen<'_>, place: Place) -> Option<&'s str> {
    screen.rows.get(place.row)?.text.get(place.at..)
}

/// Moves a place to the next character that is not a blank, in the next row if this one is full.
fn skip_blanks(screen: &SearchedScreen<'_>, mut place: Place) -> Option<Place> {
    loop {
        let shown = rest(screen, place)?;
        let behind = shown.trim_start_matches(is_blank);
        if !behind.is_empty() {
            place.at += shown.len() - behind.len();
            return Some(place);
        }
        if !is_full(screen, place.row) {
            return None;
        }
        place = Place {
            row: place.row + 1,
            at: 0,
        };
    }
}

fn row_width(screen: &SearchedScreen<'_>, row: usize) -> usize {
    let row = screen.rows.get(row);
    row.map_or(0, |row| row.text.trim_end().width())
}

/// Returns at most `limit` bytes of the beginning of a text.
fn beginning(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Whether a text takes at least `columns` columns. Stops measuring once it does.
fn is_as_wide(text: &str, columns: usize) -> bool {
    let mut width = 0;
    let mut widths = text.chars().map(|c| c.width().unwrap_or(0));
    columns == 0
        || widths.any(|more| {
            width += more;
            width >= columns
        })
}

/// Whether a row may continue in the next one: it reaches the edge, or the edge as it was when the terminal was narrower.
fn is_full(screen: &SearchedScreen<'_>, row: usize) -> bool {
    let columns = LONG.min(screen.columns.saturating_sub(2)).max(1);
    let row = screen.rows.get(row);
    row.is_some_and(|row| is_as_wide(row.text.trim_end(), columns))
}

/// Whether a command line may end at a place. Only a right prompt may follow, which ends at the edge or is far away.
fn is_end(screen: &SearchedScreen<'_>, place: Place) -> bool {
    let Some(row) = screen.rows.get(place.row) else {
        return false;
    };
    let shown = row.text.get(place.at..).unwrap_or_default();
    let behind = shown.trim_start_matches(is_blank);
    let blanks = shown
        .get(..shown.len() - behind.len())
        .unwrap_or_default()
        .width();
    behind.is_empty()
        || blanks >= 8
        || (blanks >= 1
            && is_as_wide(row.text.trim_end(), screen.columns.saturating_sub(2))
            // A text behind one blank alone may be the rest of the line.
            && screen.has_right_prompt(behind))
}

/// Whether rows of the output may have been taken for the rest of a command line: its last word is a secret, of whose length the record
/// says nothing.
pub fn may_hold_output(text: &Expected, echo: Echo) -> bool {
    let last = text.lines.last().and_then(|line| line.last());
    last == Some(&Unit::Secret) && echo.last_row > echo.first_row
}

/// Whether nothing follows the byte `at` of a row but a right prompt.
pub fn ends_line(screen: &SearchedScreen<'_>, row: usize, at: usize) -> bool {
    is_end(screen, Place { row, at })
}

/// Returns the texts with which a row begins before each place where `matches` finds the printable ASCII characters of a command line, of
/// which there are `count`; what is longer is not compared. Since other characters are not compared, a sign of the prompt may be
/// taken for the first one of the line: only one of the texts is its prompt.
pub fn beginnings<'s>(
    screen: &'s SearchedScreen<'_>,
    row: usize,
    count: usize,
    is_whole: bool,
    matches: impl Fn(&[u8]) -> bool,
) -> Vec<&'s str> {
    let shown = screen.rows.get(row).map_or("", |row| &row.text);
    let beginning = beginning(shown, MAX_LENGTH);
    // Most rows do not go on in the next one, and have fewer characters than the line.
    let is_closed = !is_full(screen, row);
    let graphic: Vec<usize> = match is_closed {
        true => (0..)
            .zip(shown.bytes())
            .filter(|(_, b)| b.is_ascii_graphic())
            .map(|(at, _)| at)
            .collect(),
        false => Vec::new(),
    };
    let has_enough =
        |at: usize| graphic.len() - graphic.partition_point(|place| *place < at) >= count;
    let mut bytes = Vec::with_capacity(count);
    let places = starts(beginning, beginning.len()).filter(|at| {
        let has_prompt = shown.get(..*at).is_some_and(|text| !text.trim().is_empty());
        if !has_prompt || is_closed && !has_enough(*at) {
            return false;
        }
        bytes.clear();
        let mut place = Place { row, at: *at };
        while bytes.len() < count {
            let Some(behind) = skip_blanks(screen, place) else {
                return false;
            };
            let Some(c) = rest(screen, behind).and_then(|rest| rest.chars().next()) else {
                return false;
            };
            place = Place {
                row: behind.row,
                at: behind.at + c.len_utf8(),
            };
            if c.is_ascii_graphic() {
                // A sign at the end of a full row does not begin the line in the next one.
                if bytes.is_empty() && behind.row != row {
                    return false;
                }
                bytes.extend(u8::try_from(c));
            }
        }
        matches(&bytes) && (!is_whole || is_end_behind(screen, place))
    });
    places.filter_map(|at| shown.get(..at)).collect()
}

/// Whether a command line may end at a place or after characters beyond ASCII that follow it.
fn is_end_behind(screen: &SearchedScreen<'_>, mut place: Place) -> bool {
    while !is_end(screen, place) {
        let next = skip_blanks(screen, place);
        let next = next.and_then(|next| Some((next, rest(screen, next)?.chars().next()?)));
        let Some((next, c)) = next.filter(|(_, c)| !c.is_ascii()) else {
            return false;
        };
        place = Place {
            row: next.row,
            at: next.at + c.len_utf8(),
        };
    }
    true
}

/// Whether a row contains something that history expansion may have replaced.
fn is_expansion(screen: &SearchedScreen<'_>, row: usize) -> bool {
    let text = screen.rows.get(row).map(|row| row.text.as_str());
    text.is_some_and(|text| text.contains(['!', '^']))
}

/// Returns the places of a command whose typed form may be in `row`: after a prompt, which ends with a blank or a sign.
fn expansions(screen: &SearchedScreen<'_>, row: usize, last_row: usize) -> Vec<Echo> {
    let text = screen.rows.get(row).map_or("", |row| row.text.as_str());
    let reference = text.rfind(['!', '^']).unwrap_or(0);
    let places = starts(text, reference.min(MAX_LENGTH)).filter(|at| *at > 0);
    let echo = |at| Echo {
        first_row: row,
        prompt_row: row,
        prompt_end: at,
        last_row,
    };
    places.map(echo).collect()
}
