//! zellij 0.44 or newer: `dump-screen`, <https://zellij.dev/documentation/cli-actions>. Older versions know only the focused
//! pane.

use super::{TerminalIdentity, plain_screen, run};
use crate::context::align::Screen;
use crate::error::Result;

/// Reads the pane of the shell.
///
/// # Errors
/// zellij fails, as an older one does with these options.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let pane = identity.variable("ZELLIJ_PANE_ID").unwrap_or_default();
    let dump = ["action", "dump-screen", "--full", "--pane-id", pane];
    let args = match identity.variable("ZELLIJ_SESSION_NAME") {
        Some(session) => [&["--session", session][..], &dump].concat(),
        None => dump.to_vec(),
    };
    let text = run::output(identity, "zellij", &args).await?;
    Ok(plain_screen(identity, &text))
}
