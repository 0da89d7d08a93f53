//! tmux: `capture-pane`, see tmux(1).

use unicode_width::UnicodeWidthStr;

use super::{MAX_ROWS, TerminalIdentity, run, visible};
use crate::context::align::{Screen, ScreenRow};
use crate::error::{Error, Result};

/// Reads a pane with one run of tmux: its size, its rows, and its lines, from which the rows that tmux wrapped are known.
///
/// # Errors
/// tmux fails, or the pane is not that of the shell.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let socket = identity.variable("TMUX").unwrap_or_default();
    let socket = socket.split(',').next().unwrap_or_default();
    let pane = identity.variable("TMUX_PANE").unwrap_or_default();
    let start = format!("-{MAX_ROWS}");
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let format = format!(
        "{mark} #{{pane_width}} #{{history_size}} #{{history_limit}} #{{alternate_on}} #{{pane_tty}}"
    );
    #[rustfmt::skip]
    let args = [
        "-S", socket,
        "display-message", "-p", "-t", pane, &format, ";",
        "capture-pane", "-p", "-N", "-S", &start, "-t", pane, ";",
        "display-message", "-p", "-t", pane, &mark, ";",
        "capture-pane", "-p", "-J", "-S", &start, "-t", pane,
    ];
    let text = run::output(identity, "tmux", &args).await?;
    let unclear = || Error::runtime("tmux sent an unexpected reply");
    let (head, rest) = text.split_once('\n').ok_or_else(unclear)?;
    let mut fields = head
        .strip_prefix(&mark)
        .ok_or_else(unclear)?
        .trim()
        .splitn(5, ' ');
    let mut number = || fields.next().and_then(|field| field.parse::<usize>().ok());
    let (columns, size, limit, alternate) = (number(), number(), number(), number());
    let tty = fields.next().unwrap_or_default();
    // Another shell may have taken the variables along, such as one in a terminal that was started from the pane.
    if !identity.tty.is_empty() && tty != identity.tty {
        return Err(Error::runtime(format!(
            "the pane {pane} of tmux is not the terminal of this shell"
        )));
    }
    if alternate != Some(0) {
        return Err(Error::runtime(
            "a full-screen program is running in the pane",
        ));
    }
    let separator = format!("{mark}\n");
    let (rows, lines) = rest.split_once(&separator).ok_or_else(unclear)?;
    let size = size.unwrap_or_default();
    let columns = columns.ok_or_else(unclear)?;
    Ok(Screen {
        rows: rows_of(rows, lines, columns),
        columns,
        // tmux removes a tenth of a full history in one go.
        is_cut: size > MAX_ROWS || limit.is_some_and(|limit| size + limit / 10 >= limit),
        tells_wraps: true,
        is_confirmed: true,
        ..Screen::default()
    })
}

/// Returns the `history-limit` of the pane.
pub async fn history_limit(identity: &TerminalIdentity) -> Option<usize> {
    let socket = identity.variable("TMUX")?.split(',').next()?;
    let pane = identity.variable("TMUX_PANE")?;
    let format = "#{history_limit}";
    let args = ["-S", socket, "display-message", "-p", "-t", pane, format];
    let text = run::output(identity, "tmux", &args).await.ok()?;
    text.trim().parse().ok()
}

/// Returns the rows; those that are joined in `lines` are wrapped.
fn rows_of(rows: &str, lines: &str, columns: usize) -> Vec<ScreenRow> {
    let mut out = Vec::new();
    let mut rows = rows.lines();
    for line in lines.lines() {
        let mut rest = line;
        for row in rows.by_ref() {
            let next = rest
                .strip_prefix(row)
                .filter(|next| !next.is_empty() && !row.is_empty());
            // Only one of the two may report blanks at the end of a line.
            let next = next.filter(|next| !next.trim_end().is_empty() || row.width() >= columns);
            out.push(ScreenRow {
                text: visible(row),
                wrapped: next.is_some(),
            });
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    out.extend(rows.map(|row| ScreenRow {
        text: visible(row),
        wrapped: false,
    }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_wrapped_where_lines_go_on() {
        let rows = rows_of(
            "abcd\nef\n\nx\nabcd\nabcd\n    \n  \n",
            "abcdef\n\nx\nabcd\nabcd\n      \n",
            4,
        );
        let wrapped: Vec<bool> = rows.iter().map(|row| row.wrapped).collect();
        assert_eq!(
            wrapped,
            [true, false, false, false, false, false, true, false]
        );
    }
}
