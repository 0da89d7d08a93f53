//! Terminal of macOS: AppleScript, `history` of a tab. macOS asks the user once whether this is allowed.

use super::{TerminalIdentity, plain_screen, run};
use crate::context::align::Screen;
use crate::error::Result;

/// Finds the tab of the terminal device, so that no other window is read.
const SCRIPT: &str = r#"on run argv
  tell application "Terminal"
    repeat with w in windows
      repeat with t in tabs of w
        if tty of t is (item 1 of argv) then return history of t
      end repeat
    end repeat
  end tell
  error "no tab has this terminal"
end run"#;

/// Reads the tab of the shell.
///
/// # Errors
/// osascript fails, or the user has not allowed it.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let args = ["-e", SCRIPT, identity.tty.as_str()];
    let text = run::output(identity, "osascript", &args).await?;
    Ok(Screen {
        is_confirmed: true,
        ..plain_screen(identity, &text)
    })
}
