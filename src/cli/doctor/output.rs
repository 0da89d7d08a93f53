//! Checks whether the output of the user's commands can be read from this terminal.

use super::CheckResult;
use crate::client::terminal::tty_name;
use crate::error::{Error, Result};
use crate::paths::{Paths, terminal_variables};
use crate::recording::list;
use crate::terminal::{self, TerminalIdentity, TerminalKind};

/// Number of lines that tmux should keep at least.
const HISTORY_LIMIT: usize = 10_000;

/// Reads the terminal as a prompt does.
pub(super) fn check_output(paths: Option<&Paths>) -> CheckResult {
    let tty = tty_name().map(|name| format!("/dev/{name}"));
    let identity = TerminalIdentity {
        tty: tty.unwrap_or_default(),
        variables: terminal_variables(),
    };
    let recorded = paths.and_then(|paths| list::of_terminal(&paths.recordings(), &identity.tty));
    if recorded.is_some() {
        return CheckResult::ok(
            "output",
            "this terminal is recorded: output comes from the recording",
        );
    }
    if identity.kinds().is_empty() {
        return CheckResult::warn(
            "output",
            format!(
                "{} has no command for its text, so a model does not see what your commands printed",
                identity.name()
            ),
            "use tmux (`aish` starts it), or record the shell with: aish-helper record",
        );
    }
    match read(&identity) {
        Ok((TerminalKind::Tmux, rows, Some(limit))) if limit < HISTORY_LIMIT => CheckResult::warn(
            "output",
            format!(
                "read from tmux, which keeps {limit} lines ({rows} now): longer output loses its beginning"
            ),
            "in ~/.tmux.conf: set -g history-limit 50000 (for new panes)",
        ),
        Ok((kind, rows, _)) => CheckResult::ok(
            "output",
            format!("read from {}, {rows} rows now", kind.name()),
        ),
        Err(e) => CheckResult::warn(
            "output",
            e.message,
            e.hint
                .unwrap_or_else(|| "record the shell with: aish-helper record".into()),
        ),
    }
}

/// Returns the terminal, the number of its rows, and how many tmux keeps.
fn read(identity: &TerminalIdentity) -> Result<(TerminalKind, usize, Option<usize>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::runtime(format!("cannot start the runtime: {e}")))?;
    runtime.block_on(async {
        let text = terminal::read(identity).await?;
        let limit = match text.kind {
            TerminalKind::Tmux => terminal::tmux_history_limit(identity).await,
            _ => None,
        };
        Ok((text.kind, text.screen.rows.len(), limit))
    })
}
