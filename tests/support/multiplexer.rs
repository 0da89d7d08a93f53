//! A real terminal multiplexer with its own server.

use std::os::unix::fs::DirBuilderExt;
use std::process::Command;

use pty_process::blocking::Command as PtyCommand;

use super::helper::Helper;
use super::pty::Zsh;

/// Puts the tmux that `AISH_TEST_TMUX35` names, 3.5 or newer, into the `PATH` of the helper's home. Returns false, and says that
/// the test is left out, if `./test.sh` found none.
pub fn use_tmux35(helper: &Helper) -> bool {
    let program = std::env::var_os("AISH_TEST_TMUX35").filter(|program| !program.is_empty());
    let Some(program) = program else {
        eprintln!("skipped: AISH_TEST_TMUX35 names no tmux of version 3.5");
        return false;
    };
    std::os::unix::fs::symlink(program, helper.home.path("bin/tmux")).expect("a link");
    let version = helper.program(helper.home.path("bin/tmux")).args(["-V"]);
    let version = version.run().ok();
    let number = version.trim().strip_prefix("tmux ").unwrap_or_default();
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    assert!((part(), part()) >= (Some(3), Some(5)), "{version}");
    true
}

/// A terminal multiplexer with its own server, which ends with the test.
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

    /// Starts zsh in the tmux of the home's `PATH`, without a status line.
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
