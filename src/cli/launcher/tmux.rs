//! The program tmux, as far as the launcher uses it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::unistd::ttyname;

use super::NoTmux;
use super::query::output;
use crate::paths::{on_path, variable};

/// Oldest version that has everything the launcher uses.
const OLDEST: (u32, u32) = (3, 0);

/// How long the server may take to answer. Only a stopped one takes that long.
const PATIENCE: Duration = Duration::from_secs(3);

/// Variables that tmux sets for its panes.
pub(super) const PANE_VARIABLES: &[&str] = &[
    "TMUX",
    "TMUX_PANE",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
];

/// tmux on this terminal.
pub(super) struct Tmux {
    program: PathBuf,
    /// Whether the variables name the pane of another terminal, from which this one was started.
    is_stale: bool,
}

impl Tmux {
    /// Finds tmux for a session in this terminal, which a relay in the terminal `relay_tty` may record.
    ///
    /// # Errors
    /// This terminal belongs to a multiplexer, tmux is missing or too old, or it cannot draw on this terminal.
    pub(super) fn find(relay_tty: Option<&str>) -> Result<Tmux, NoTmux> {
        let program = on_path("tmux").into_iter().next();
        if let Some(name) = other_multiplexer() {
            return Err(NoTmux::Inside(name));
        }
        let Some(program) = program else {
            return Err(NoTmux::Failed("tmux is not installed".to_owned()));
        };
        let mut tmux = Tmux {
            program,
            is_stale: false,
        };
        if variable("TMUX").is_some() {
            if tmux.owns_terminal(relay_tty) {
                return Err(NoTmux::Inside("tmux"));
            }
            tmux.is_stale = true;
        }
        tmux.check_version().map_err(NoTmux::Failed)?;
        check_terminal().map_err(NoTmux::Failed)?;
        Ok(tmux)
    }

    /// Returns a command of tmux.
    pub(super) fn command<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_stale {
            command.env_remove("TMUX").env_remove("TMUX_PANE");
        }
        // -u: names and paths with any characters.
        command.arg("-u").args(words);
        command
    }

    /// Runs a command of tmux and returns its output.
    ///
    /// # Errors
    /// One line that says what failed.
    pub(super) fn query<A: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = A>,
    ) -> Result<String, String> {
        let out = output(self.command(words), PATIENCE).map_err(|e| format!("tmux {e}"))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Returns whether this terminal, or that of the relay, is the pane that the variables name.
    fn owns_terminal(&self, relay_tty: Option<&str>) -> bool {
        let Some(pane) = variable("TMUX_PANE") else {
            return false;
        };
        let words = ["display-message", "-p", "-t"].map(OsStr::new);
        let words = words.into_iter().chain([&*pane, OsStr::new("#{pane_tty}")]);
        let name = self.query(words).unwrap_or_default();
        let name = name.trim_end_matches('\n');
        relay_tty.is_some_and(|tty| !tty.is_empty() && tty == name)
            || ttyname(std::io::stdin()).is_ok_and(|tty| tty.as_os_str() == name)
    }

    fn check_version(&self) -> Result<(), String> {
        let said = self.query(["-V"])?;
        match version(&said) {
            Some(found) if found < OLDEST => Err(format!(
                "{} is older than {}.{}",
                said.trim(),
                OLDEST.0,
                OLDEST.1
            )),
            None if !said.starts_with("tmux ") => {
                Err("tmux does not report its version".to_owned())
            }
            // A development version has a name in place of a number.
            _ => Ok(()),
        }
    }
}

/// Parses `tmux 3.3a` and `tmux next-3.5`.
fn version(said: &str) -> Option<(u32, u32)> {
    let start = said.find(|c: char| c.is_ascii_digit())?;
    let mut parts = said.get(start..)?.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the multiplexer other than tmux whose window this terminal is, as far as the variables show.
fn other_multiplexer() -> Option<&'static str> {
    // The variable survives in terminals that are started from screen; TERM does not.
    let in_screen =
        variable("TERM").is_some_and(|term| term.to_string_lossy().starts_with("screen"));
    if variable("STY").is_some() && in_screen && variable("TMUX").is_none() {
        return Some("screen");
    }
    variable("ZELLIJ").map(|_| "zellij")
}

/// Checks that tmux can draw on this terminal: afterwards it replaces this process, and its failure would be the last word.
fn check_terminal() -> Result<(), String> {
    let Some(term) = variable("TERM") else {
        return Err("TERM is not set".to_owned());
    };
    let Some(tput) = on_path("tput").into_iter().next() else {
        return Ok(());
    };
    for capability in [&["clear"][..], &["cup", "0", "0"]] {
        let mut command = Command::new(&tput);
        command.args(capability);
        if output(command, PATIENCE).is_err() {
            let term = term.to_string_lossy();
            return Err(format!("tmux cannot draw on a terminal of the type {term}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_or_names() {
        for (said, number) in [
            ("tmux 3.3a\n", Some((3, 3))),
            ("tmux 2.9", Some((2, 9))),
            ("tmux next-3.5", Some((3, 5))),
            ("tmux 3.10-rc", Some((3, 10))),
            ("tmux openbsd-7.4", Some((7, 4))),
            ("tmux master", None),
            ("", None),
        ] {
            assert_eq!(version(said), number, "{said}");
        }
    }
}
