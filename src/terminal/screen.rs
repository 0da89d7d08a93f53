//! GNU screen: `hardcopy -h`, see screen(1).

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use unicode_width::UnicodeWidthStr;

use super::{MAX_BYTES, TerminalIdentity, run, size, visible};
use crate::context::align::{Screen, ScreenRow, low_byte};
use crate::error::{Error, ErrorContext, Result};

/// A directory that is removed when it is no longer used.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn new() -> Result<PrivateDir> {
        let name = format!("aish-screen-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.context(|| "cannot make a directory for screen's text".into())?;
        Ok(PrivateDir(path))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets screen write the window's text to a file and reads it. screen answers the question that follows after it has written. The
/// question has no text: screen shows every other answer on the attached display too, and draws nothing else for `msgwait`, 5 s.
///
/// # Errors
/// screen fails, or the file cannot be read.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let session = identity.variable("STY").unwrap_or_default();
    let window = identity.variable("WINDOW").unwrap_or("0");
    let dir = PrivateDir::new()?;
    let file = dir.0.join("text");
    let name = file.display().to_string();
    let window_args = ["-S", session, "-p", window];
    let copy = [&window_args[..], &["-X", "hardcopy", "-h", &name]].concat();
    run::output(identity, "screen", &copy).await?;
    let ask = [&window_args[..], &["-Q", "echo", ""]].concat();
    run::output(identity, "screen", &ask).await?;
    let meta = fs::metadata(&file).context(|| "screen wrote no text".into())?;
    if meta.len() > MAX_BYTES as u64 {
        return Err(Error::runtime("screen wrote too much"));
    }
    let bytes = fs::read(&file).context(|| "cannot read screen's text".into())?;
    if run::has_too_many_lines(&bytes) {
        return Err(Error::runtime("screen wrote too many lines"));
    }
    let (text, is_lossy) = decoded(&bytes);
    let (columns, height) = size(&identity.tty);
    let rows = wrapped_rows(&text, columns);
    let blank = rows.iter().rev().take_while(|row| row.text.is_empty());
    let used = rows.len() - blank.count();
    Ok(Screen {
        // How much screen keeps is not known, so that older rows may be gone once the window is full.
        is_cut: used >= height,
        rows,
        columns,
        is_lossy,
        ..Screen::default()
    })
}

/// Returns the text, and whether characters beyond Latin-1 are lost: of a window in UTF-8 mode, screen 4.9 writes the low byte of
/// each character, and 0xff for the second cell of a wide one.
fn decoded(bytes: &[u8]) -> (String, bool) {
    match str::from_utf8(bytes) {
        Ok(text) if !text.is_ascii() => (text.to_owned(), false),
        _ => (bytes.iter().map(|byte| shown(*byte)).collect(), true),
    }
}

fn shown(byte: u8) -> char {
    let c = char::from(byte);
    match c {
        '\n' => c,
        c => low_byte(c).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// Returns the rows. screen reports neither which rows it has wrapped nor blanks at their end: a row counts as wrapped if it is
/// full, or if it is one character short of that, has several words, and the next row does not begin with a blank. Several lines of that
/// width after each other are a table or the like: none of them is wrapped.
fn wrapped_rows(text: &str, columns: usize) -> Vec<ScreenRow> {
    let lines: Vec<&str> = text.lines().collect();
    let widths: Vec<usize> = lines.iter().map(|line| line.width()).collect();
    let is_short = |at: usize| widths.get(at).is_some_and(|width| width + 1 == columns);
    let is_full = |at: usize| columns > 0 && widths.get(at) == Some(&columns);
    let is_repeated = |at: usize| {
        let below = (at + 1..).find(|row| !is_full(*row));
        let above = (0..at).rev().find(|row| !is_full(*row));
        below.is_some_and(is_short) || above.is_some_and(is_short)
    };
    let begins_blank = |line: &&str| line.starts_with(char::is_whitespace) || line.is_empty();
    let mut rows = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let mut text = visible(line);
        let goes_on = lines.get(at + 1).is_some_and(|next| !begins_blank(next));
        let has_words = line.trim_start().contains(char::is_whitespace);
        let lacks_blank = is_short(at) && has_words && goes_on && !is_repeated(at);
        if lacks_blank {
            text.push(' ');
        }
        rows.push(ScreenRow {
            text,
            wrapped: is_full(at) || lacks_blank,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_one_character_short_of_the_edge_are_joined_only_where_they_are_alone() {
        let wraps = |lines: &[&str]| {
            let rows = wrapped_rows(&lines.join("\n"), 10);
            let wraps = rows.iter().map(|row| row.wrapped);
            wraps.collect::<Vec<_>>()
        };
        let (short, full) = ("1234 6789", "1234567890");
        // A blank was at the edge, or the next line begins with one.
        assert_eq!(wraps(&[short, "word", "$"]), [true, false, false]);
        assert_eq!(wraps(&[short, " word"]), [false, false]);
        assert_eq!(wraps(&[short, "", "$"]), [false, false, false]);
        // One word, such as a ruler.
        assert_eq!(wraps(&["---------", "word"]), [false, false]);
        // Lines of the same width.
        assert_eq!(wraps(&[short, short, short, "$"]), [false; 4]);
        let rows = [full, short, full, short, "$"];
        assert_eq!(wraps(&rows), [true, false, true, false, false]);
    }
}
