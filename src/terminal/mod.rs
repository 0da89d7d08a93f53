//! Reads the scrollback of the terminal in which a shell runs, by the terminal's own command. One file per terminal.
//!
//! A terminal program is not trusted to answer: it gets a time limit and a limit of bytes, and its text is untrusted.

mod iterm2;
mod kitty;
mod konsole;
mod run;
mod screen;
mod terminal_app;
mod tmux;
pub mod tmux_pipe;
mod wezterm;
mod zellij;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::context::align::{Screen, ScreenRow};
use crate::error::{Error, Result};

/// Maximum time for reading a terminal.
pub const TIME_LIMIT: Duration = Duration::from_millis(150);
/// Maximum size of the text that a terminal reports.
const MAX_BYTES: usize = 16 << 20;
/// Number of rows that are asked for where a terminal takes one.
const MAX_ROWS: usize = 50_000;
/// Maximum number of lines that a terminal reports: a row takes much more memory than a line end. tmux reports its rows twice.
const MAX_LINES: usize = 4 * MAX_ROWS;

/// Identifies the terminal of a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalIdentity {
    /// The path of the terminal device.
    pub tty: String,
    /// Values of [`crate::paths::TERMINAL_VARIABLES`].
    pub variables: BTreeMap<String, String>,
}

/// A terminal whose scrollback can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalKind {
    /// tmux.
    Tmux,
    /// GNU screen.
    Screen,
    /// zellij.
    Zellij,
    /// kitty.
    Kitty,
    /// WezTerm.
    Wezterm,
    /// iTerm2.
    Iterm2,
    /// Terminal of macOS.
    TerminalApp,
    /// Konsole.
    Konsole,
}

impl TerminalKind {
    /// Returns the name for messages and records.
    pub fn name(self) -> &'static str {
        match self {
            TerminalKind::Tmux => "tmux",
            TerminalKind::Screen => "screen",
            TerminalKind::Zellij => "zellij",
            TerminalKind::Kitty => "kitty",
            TerminalKind::Wezterm => "wezterm",
            TerminalKind::Iterm2 => "iTerm2",
            TerminalKind::TerminalApp => "Terminal.app",
            TerminalKind::Konsole => "Konsole",
        }
    }
}

impl TerminalIdentity {
    /// Returns the value of a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Returns the terminals that may be the one of the shell, the innermost first. Variables of an outer terminal are
    /// inherited by a multiplexer in it.
    pub fn kinds(&self) -> Vec<TerminalKind> {
        let mut kinds = Vec::new();
        let has = |name| self.variable(name).is_some();
        let program = self.variable("TERM_PROGRAM").unwrap_or_default();
        if has("TMUX") && has("TMUX_PANE") {
            kinds.push(TerminalKind::Tmux);
        }
        if has("STY") {
            kinds.push(TerminalKind::Screen);
        }
        if has("ZELLIJ") && has("ZELLIJ_PANE_ID") {
            kinds.push(TerminalKind::Zellij);
        }
        // A terminal on the other side of ssh cannot be asked, and in a multiplexer it shows more than this shell.
        if !kinds.is_empty() || has("SSH_CONNECTION") {
            return kinds;
        }
        if has("KITTY_WINDOW_ID") {
            kinds.push(TerminalKind::Kitty);
        } else if has("WEZTERM_PANE") {
            kinds.push(TerminalKind::Wezterm);
        } else if program == "iTerm.app" {
            kinds.push(TerminalKind::Iterm2);
        } else if program == "Apple_Terminal" {
            kinds.push(TerminalKind::TerminalApp);
        } else if has("KONSOLE_DBUS_SERVICE") && has("KONSOLE_DBUS_SESSION") {
            kinds.push(TerminalKind::Konsole);
        }
        kinds
    }

    /// Returns the name of a terminal that has no command for its scrollback, as far as it is known.
    pub fn name(&self) -> &str {
        let program = self.variable("TERM_PROGRAM").unwrap_or_default();
        match program {
            "vscode" => "VS Code's terminal",
            "ghostty" => "Ghostty",
            _ if self.variable("SSH_CONNECTION").is_some() => "a terminal over ssh",
            _ if self.variable("ALACRITTY_WINDOW_ID").is_some() => "Alacritty",
            _ if self.variable("VTE_VERSION").is_some() => "this terminal (VTE)",
            _ => "this terminal",
        }
    }
}

/// The text that was read from a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalText {
    /// The terminal that reported it.
    pub kind: TerminalKind,
    /// The rows.
    pub screen: Screen,
}

/// Reads the scrollback of the terminal.
///
/// # Errors
/// The terminal has no command for it, does not answer in time, or answers with something else; the message is one line.
pub async fn read(identity: &TerminalIdentity) -> Result<TerminalText> {
    let kinds = identity.kinds();
    let work = async {
        let mut failure = None;
        for kind in kinds {
            let read = match kind {
                TerminalKind::Tmux => tmux::read(identity).await,
                TerminalKind::Screen => screen::read(identity).await,
                TerminalKind::Zellij => zellij::read(identity).await,
                TerminalKind::Kitty => kitty::read(identity).await,
                TerminalKind::Wezterm => wezterm::read(identity).await,
                TerminalKind::Iterm2 => iterm2::read(identity).await,
                TerminalKind::TerminalApp => terminal_app::read(identity).await,
                TerminalKind::Konsole => konsole::read(identity).await,
            };
            match read {
                Ok(mut screen) => {
                    let is_root = nix::unistd::geteuid().is_root();
                    screen.end_mark = if is_root { '#' } else { '%' };
                    return Ok(TerminalText { kind, screen });
                }
                // The shell may be in the next one: a multiplexer in another inherits its variables.
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        let unknown = || {
            Error::runtime(format!("{} cannot be read", identity.name()))
                .hint("use tmux (`aish` starts it), or record the shell with: aish-helper record")
        };
        Err(failure.unwrap_or_else(unknown))
    };
    let name = identity
        .kinds()
        .first()
        .map_or("the terminal", |kind| kind.name());
    tokio::time::timeout(TIME_LIMIT, work)
        .await
        .unwrap_or_else(|_| {
            let limit = TIME_LIMIT.as_millis();
            Err(Error::runtime(format!(
                "{name} did not answer within {limit} ms"
            )))
        })
}

/// Returns the screen of a terminal that prints its text without saying where it wrapped lines.
fn plain_screen(identity: &TerminalIdentity, text: &str) -> Screen {
    let (columns, _) = size(&identity.tty);
    // A row that is longer than the terminal is a whole line. Where there is none, a full row counts as wrapped.
    let has_lines = columns > 0 && text.lines().any(|line| line.width() > columns);
    let rows = text.lines().map(|line| ScreenRow {
        wrapped: !has_lines && columns > 0 && line.width() == columns,
        text: visible(line),
    });
    Screen {
        rows: rows.collect(),
        columns,
        is_cut: true,
        tells_wraps: has_lines,
        ..Screen::default()
    }
}

/// Returns a line without control characters, which no screen has.
fn visible(line: &str) -> String {
    if line.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return line.to_owned();
    }
    line.chars().filter(|c| !c.is_control()).collect()
}

/// Returns columns and rows of a terminal device, 0 if they are unknown.
fn size(tty: &str) -> (usize, usize) {
    if !tty.starts_with("/dev/") {
        return (0, 0);
    }
    let mut options = OpenOptions::new();
    // A terminal that was closed must neither block nor become the daemon's own.
    let flags = nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(tty);
    let size = file.ok().and_then(terminal_size::terminal_size_of);
    size.map_or((0, 0), |(width, height)| {
        (usize::from(width.0), usize::from(height.0))
    })
}

/// Returns how many lines tmux keeps of the shell's pane.
pub async fn tmux_history_limit(identity: &TerminalIdentity) -> Option<usize> {
    let limit = tokio::time::timeout(TIME_LIMIT, tmux::history_limit(identity));
    limit.await.ok()?
}

#[cfg(test)]
mod tests;
