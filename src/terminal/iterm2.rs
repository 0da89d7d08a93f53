//! iTerm2: AppleScript, <https://iterm2.com/documentation-scripting.html>. macOS asks the user once whether this is allowed.

use super::{TerminalIdentity, plain_screen, run};
use crate::context::align::Screen;
use crate::error::Result;

/// Finds the session of the terminal device, so that no other window is read.
const SCRIPT: &str = r#"on run argv
  tell application "iTerm2"
    repeat with w in windows
      repeat with t in tabs of w
        repeat with s in sessions of t
          if tty of s is (item 1 of argv) then return contents of s
        end repeat
      end repeat
    end repeat
  end tell
  error "no session has this terminal"
end run"#;

/// Reads the session of the shell.
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
