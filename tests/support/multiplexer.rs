//! A real terminal multiplexer with a server of its own.

use std::os::unix::fs::DirBuilderExt;
use std::process::Command;

use pty_process::blocking::Command as PtyCommand;

use super::helper::Helper;
use super::pty::Zsh;

/// Whether a program is there; says so if the test is left out.
pub fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-V").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A terminal multiplexer with a server of its own, which ends with the test.
pub struct Multiplexer<'h> {
    helper: &'h Helper,
    quit: &'static [&'static str],
}

impl<'h> Multiplexer<'h> {
    const VARIABLES: [&'static str; 2] = ["TMUX_TMPDIR", "SCREENDIR"];

    /// Starts zsh in it. `quit` ends its server.
    pub fn start(
        helper: &'h Helper,
        run: &[&str],
        quit: &'static [&'static str],
    ) -> (Multiplexer<'h>, Zsh<'h>) {
        let mut builder = std::fs::DirBuilder::new();
        let sockets = helper.home.path("sockets");
        builder.mode(0o700).create(&sockets).expect("a directory");
        let multiplexer = Multiplexer { helper, quit };
        let command = PtyCommand::new(run[0]).args(&run[1..]).env_clear();
        let command = command.envs(helper.home.env());
        let command = command.envs(Self::VARIABLES.map(|name| (name, &sockets)));
        let zsh = Zsh::spawn(&helper.home, command);
        (multiplexer, zsh)
    }

    /// Starts zsh in tmux, without a status line.
    pub fn tmux(helper: &'h Helper) -> (Multiplexer<'h>, Zsh<'h>) {
        let session = ["tmux", "-f", "/dev/null", "new-session", "zsh -d -i", ";"];
        let run = [&session[..], &["set", "status", "off"]].concat();
        Multiplexer::start(helper, &run, &["tmux", "kill-server"])
    }
}

impl Drop for Multiplexer<'_> {
    fn drop(&mut self) {
        let sockets = self.helper.home.path("sockets");
        let mut quit = Command::new(self.quit[0]);
        quit.args(&self.quit[1..]).envs(self.helper.home.env());
        // Fails if the server has ended with its last shell.
        let _ = quit
            .envs(Self::VARIABLES.map(|name| (name, &sockets)))
            .output();
    }
}
