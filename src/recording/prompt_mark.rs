//! The mark with which zsh ends a line that a command left open.
//!
//! Before it runs precmd, zsh prints a mark (an inverse `%`), spaces up to the next row, and erases the mark if the row was
//! empty (PROMPT_SP). These bytes follow the output of every command and are not part of it.

/// Maximum width of the mark, which the user can choose (PROMPT_EOL_MARK).
const MAX_WIDTH: usize = 16;

/// Returns the length of `output` without zsh's mark at its end; `cols` is the width of the terminal.
pub fn without_prompt_mark(output: &[u8], cols: u16) -> usize {
    cut(output, usize::from(cols)).unwrap_or(output.len())
}

/// `MARK SPACES \r SPACES \r`, where the second spaces are as wide as the mark, and the first ones fill the row.
fn cut(output: &[u8], cols: usize) -> Option<usize> {
    let rest = output.strip_suffix(b"\r")?;
    let (rest, width) = without_spaces(rest);
    if !(1..=MAX_WIDTH).contains(&width) {
        return None;
    }
    let rest = rest.strip_suffix(b"\r")?;
    let (mut rest, filling) = without_spaces(rest);
    // One less where the terminal does not wrap at its last column.
    if filling + width != cols && filling + width + 1 != cols {
        return None;
    }
    for _ in 0..width {
        rest = without_styles(rest);
        rest = without_character(rest)?;
    }
    Some(without_styles(rest).len())
}

fn without_spaces(text: &[u8]) -> (&[u8], usize) {
    let end = text.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
    let spaces = text.len() - end;
    (text.get(..end).unwrap_or_default(), spaces)
}

/// Removes a printable character from the end.
fn without_character(text: &[u8]) -> Option<&[u8]> {
    let is_continuation = |b: &u8| *b & 0xc0 == 0x80;
    let start = text.iter().rposition(|b| !is_continuation(b))?;
    let first = *text.get(start)?;
    (first >= b' ' && first != 0x7f).then(|| text.get(..start))?
}

/// Removes `ESC [ NUMBERS m` sequences from the end.
fn without_styles(mut text: &[u8]) -> &[u8] {
    while let Some(inner) = text.strip_suffix(b"m") {
        let is_parameter = |b: &u8| b.is_ascii_digit() || matches!(*b, b';' | b':');
        let start = inner.iter().rposition(|b| !is_parameter(b));
        let start = start.map_or(0, |at| at + 1);
        match inner.get(..start).and_then(|t| t.strip_suffix(b"\x1b[")) {
            Some(before) => text = before,
            None => break,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::without_prompt_mark;

    fn cut(output: &str) -> &str {
        &output[..without_prompt_mark(output.as_bytes(), 80)]
    }

    #[test]
    fn the_mark_of_zsh_is_not_output() {
        let spaces = " ".repeat(79);
        let percent = format!("\x1b[1m\x1b[7m%\x1b[27m\x1b[1m\x1b[0m{spaces}\r \r");
        assert_eq!(cut(&format!("whole line\r\n{percent}")), "whole line\r\n");
        assert_eq!(cut(&format!("open line{percent}")), "open line");
        assert_eq!(cut(&percent), "");
        let chosen = format!("\x1b[2m⏎\x1b[0m{spaces}\r \r");
        assert_eq!(cut(&format!("x{chosen}")), "x");
        let two = format!("<>{}\r  \r", " ".repeat(78));
        assert_eq!(cut(&format!("x{two}")), "x");
        let without_wrap = format!("%{}\r \r", " ".repeat(78));
        assert_eq!(cut(&format!("x{without_wrap}")), "x");
    }

    #[test]
    fn other_output_stays() {
        let spaces = " ".repeat(40);
        for output in [
            "",
            "\r",
            " \r",
            "100 %\r\n",
            "\x1b[1m%\x1b[m\r \r",
            &format!("%{spaces}\r \r"),
            &format!("{}\r \r", " ".repeat(80)),
        ] {
            assert_eq!(cut(output), output);
        }
    }
}
