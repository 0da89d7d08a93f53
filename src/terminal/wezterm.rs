//! WezTerm: `wezterm cli get-text`, <https://wezterm.org/cli/cli/get-text.html>.

use super::{MAX_ROWS, TerminalIdentity, plain_screen, run};
use crate::context::align::Screen;
use crate::error::Result;

/// Reads the pane of the shell.
///
/// # Errors
/// wezterm fails.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let pane = identity.variable("WEZTERM_PANE").unwrap_or_default();
    let start = format!("-{MAX_ROWS}");
    let args = ["cli", "get-text", "--pane-id", pane, "--start-line", &start];
    let text = run::output(identity, "wezterm", &args).await?;
    Ok(plain_screen(identity, &text))
}
