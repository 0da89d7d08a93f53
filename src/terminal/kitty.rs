//! kitty: remote control, <https://sw.kovidgoyal.net/kitty/remote-control/>. It is off unless the user allows it.

use super::{TerminalIdentity, plain_screen, run, size, visible};
use crate::context::align::{Screen, ScreenRow};
use crate::error::{Error, Result};

/// Reads the window of the shell.
///
/// # Errors
/// Remote control is off, or kitty fails.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let Some(socket) = identity.variable("KITTY_LISTEN_ON") else {
        return Err(
            Error::runtime("kitty accepts no connections: remote control is off")
                .hint("set allow_remote_control socket-only and listen_on in kitty.conf"),
        );
    };
    let window = identity.variable("KITTY_WINDOW_ID").unwrap_or_default();
    let window = format!("id:{window}");
    #[rustfmt::skip]
    let args = [
        "@", "--to", socket, "get-text", "--match", &window, "--extent", "all", "--add-wrap-markers",
    ];
    // Before version 0.27 there was one program.
    let text = run::first_output(identity, &["kitten", "kitty"], &args).await?;
    if !text.contains('\r') {
        return Ok(plain_screen(identity, &text));
    }
    Ok(Screen {
        rows: rows(&text),
        columns: size(&identity.tty).0,
        is_cut: true,
        tells_wraps: true,
        ..Screen::default()
    })
}

/// Returns the rows: a CR marks where kitty has wrapped a line.
fn rows(text: &str) -> Vec<ScreenRow> {
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut parts = line.split('\r').peekable();
        while let Some(part) = parts.next() {
            rows.push(ScreenRow {
                text: visible(part),
                wrapped: parts.peek().is_some(),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carriage_return_marks_a_wrapped_row() {
        let rows = rows("ab\rcd\ne\r\n");
        let rows: Vec<(&str, bool)> = rows
            .iter()
            .map(|row| (row.text.as_str(), row.wrapped))
            .collect();
        assert_eq!(
            rows,
            [("ab", true), ("cd", false), ("e", false), ("", false)]
        );
    }
}
