//! Konsole: D-Bus, <https://docs.kde.org/stable5/en/konsole/konsole/scripting.html>. It reports the displayed screen only.

use super::{TerminalIdentity, plain_screen, run};
use crate::context::align::Screen;
use crate::error::Result;

/// Names of the D-Bus program in distributions.
const PROGRAMS: &[&str] = &["qdbus", "qdbus6", "qdbus-qt6", "qdbus-qt5"];

/// Reads the session of the shell.
///
/// # Errors
/// None of the programs is there, or the session does not answer.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let service = identity
        .variable("KONSOLE_DBUS_SERVICE")
        .unwrap_or_default();
    let session = identity
        .variable("KONSOLE_DBUS_SESSION")
        .unwrap_or_default();
    let args = [
        service,
        session,
        "org.kde.konsole.Session.getAllDisplayedText",
    ];
    let text = run::first_output(identity, PROGRAMS, &args).await?;
    Ok(plain_screen(identity, &text))
}
