//! The launcher `aish`: a zsh with the plugin, in a tmux session. Whatever fails, the user gets a zsh, with one line that
//! says why.

mod attach;
mod daemon_start;
mod pane;
mod query;
mod relay;
mod session;
mod shell;
mod tmux;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clap::{CommandFactory, FromArgMatches};
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, ttyname};

use self::daemon_start::DaemonStart;
pub(super) use self::shell::Shell;
use super::args::{Launcher, LauncherArgs, LauncherCommand};
use super::server;
use crate::config::{self, ConfigOverrides, TmuxSettings};
use crate::error::{Error, Result};
use crate::paths::{Paths, make_dir, variable};
use crate::safety::text;

/// Set by the plugin's side of the launcher: the process and the terminal of a shell that `aish` has started.
const LAUNCHED: &str = "AISH_LAUNCHED";

/// Returns whether the program was called as `aish`, with a hyphen in front as a login shell.
pub fn is_launcher(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or(program);
    let name = name.as_bytes();
    name.strip_prefix(b"-").unwrap_or(name) == b"aish"
}

/// Parses the command line of `aish`; `program` is its name.
///
/// # Errors
/// The command line is invalid.
pub fn parse(program: &OsStr, words: Vec<OsString>) -> Result<LauncherArgs> {
    let is_login_shell = program.as_bytes().starts_with(b"-");
    if runs_command(&words) {
        return Ok(LauncherArgs {
            zsh_words: Some(words),
            login: is_login_shell,
            is_login_shell,
            ..LauncherArgs::default()
        });
    }
    let words = std::iter::once(OsString::from("aish")).chain(words);
    let matches = Launcher::command().try_get_matches_from(words);
    match matches.and_then(|m| Launcher::from_arg_matches(&m)) {
        Ok(Launcher { mut args }) => {
            args.is_login_shell = is_login_shell;
            args.login |= is_login_shell;
            Ok(args)
        }
        Err(e) => Err(super::clap_error(&e, "aish --help")),
    }
}

/// Returns whether the words are those of a shell that runs one command: `-c COMMAND`, also as `-lc` or `-l -c`, as ssh and
/// editors call a login shell.
fn runs_command(words: &[OsString]) -> bool {
    words
        .iter()
        .map(|word| word.as_bytes())
        .take_while(|word| {
            word.strip_prefix(b"-")
                .is_some_and(|flags| !flags.is_empty() && flags.iter().all(|f| b"cil".contains(f)))
        })
        .any(|word| word.contains(&b'c'))
}

/// Starts the shell. Returns only if this process was not replaced by it.
///
/// # Errors
/// There is no terminal, or no zsh.
pub fn run(args: LauncherArgs) -> Result<u8> {
    match args.command {
        Some(LauncherCommand::Record(record)) => return relay::record(record.words),
        Some(LauncherCommand::Serve(args)) => {
            return server::serve(&Paths::from_env()?, args).map(|()| 0);
        }
        Some(LauncherCommand::Web(args)) => {
            return server::web(&Paths::from_env()?, args).map(|()| 0);
        }
        Some(LauncherCommand::Attach(args)) => return attach::run(args),
        None => {}
    }
    if args.pane {
        let shell = find_shell(&args)?;
        return Err(pane::run(&shell, args.environment.as_deref()));
    }
    if let Some(words) = &args.zsh_words {
        return Err(find_shell(&args)?.exec_plain(words));
    }
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_terminal {
        if args.is_login_shell {
            return Err(find_shell(&args)?.exec_plain(&[]));
        }
        return Err(
            Error::usage("aish needs a terminal: stdin or stdout is something else")
                .hint("in a script use: aish-helper ask"),
        );
    }
    match starter_here() {
        None => {}
        Some(pid) if pid == Pid::this() => {
            // Nothing else is left in this terminal.
            notice(
                "your .zshrc has replaced the shell that aish started by aish again (exec): zsh starts without .zshrc; write aish there without exec",
            );
            return Err(find_shell(&args)?.exec_plain(&["-f".into()]));
        }
        Some(_) => {
            notice("this shell was started by aish already");
            return Ok(0);
        }
    }
    let shell = find_shell(&args)?;
    let (paths, settings) = match Paths::from_env() {
        Ok(paths) => {
            let settings = settings(&paths);
            (Some(paths), settings)
        }
        Err(e) => {
            notice(&e.message);
            (None, TmuxSettings::default())
        }
    };
    // Before there are threads: it can only be read by setting it.
    let mask = umask(Mode::from_bits_truncate(0o077));
    umask(mask);
    let daemon = DaemonStart::spawn();
    let attach = match (args.no_tmux, &paths) {
        (false, Some(paths)) => Some(session::attach(paths, &settings, &shell, mask, args.new)),
        _ => None,
    };
    let daemon_failure = daemon.finish();
    // The line about the recording says what a missing data directory costs, which is why the daemon has failed too.
    if args.no_tmux
        && !args.no_record
        && let Some(paths) = &paths
        && let Err(e) = make_dir(&paths.recordings())
    {
        notice(&format!("{}: zsh starts without a recording", e.message));
        return Err(shell.exec(None));
    }
    if let Some(failure) = daemon_failure {
        notice(&failure);
    }
    match attach {
        None => {}
        Some(Ok(mut attach)) => {
            let e = attach.exec();
            without_tmux(&format!("cannot start tmux: {e}"));
        }
        Some(Err(NoTmux::Inside(multiplexer))) => {
            // A login shell of a pane would say so in each of them.
            if !args.is_login_shell {
                notice(&format!(
                    "{multiplexer} runs in this terminal already: zsh starts in this pane"
                ));
            }
            return Err(shell.exec(None));
        }
        Some(Err(NoTmux::Failed(reason))) => without_tmux(&reason),
    }
    // The relay needs the directories of aish.
    Err(match paths {
        Some(paths) if args.no_tmux && !args.no_record => relay::run_shell(&shell, &paths),
        _ => shell.exec(None),
    })
}

/// Why there is no tmux session.
enum NoTmux {
    /// This terminal is a window of this multiplexer.
    Inside(&'static str),
    /// tmux is missing or failed.
    Failed(String),
}

fn without_tmux(reason: &str) {
    notice(&format!("{reason}: zsh starts without tmux"));
}

/// Prints one line about something that does not keep the shell from starting.
fn notice(line: &str) {
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(
        std::io::stderr(),
        "[aish] {}",
        text::one_line(line, MAX_NOTICE)
    );
}

/// Maximum length of a notice, in columns.
const MAX_NOTICE: usize = 400;

/// Returns the shell of this terminal that the launcher has started.
fn starter_here() -> Option<Pid> {
    let mark = variable(LAUNCHED)?.into_string().ok()?;
    let (pid, tty) = mark.split_once(':')?;
    let pid = Pid::from_raw(pid.parse().ok()?);
    // The variable survives in a terminal that was started from such a shell, and the name of a terminal is used again.
    let is_here = ttyname(std::io::stdin()).is_ok_and(|name| name == Path::new(tty));
    (is_here && kill(pid, None).is_ok()).then_some(pid)
}

/// Reads the settings; a configuration that cannot be read is said and does not keep the shell from starting.
fn settings(paths: &Paths) -> TmuxSettings {
    match config::load(paths, &ConfigOverrides::default()) {
        Ok(config) => config.tmux,
        Err(e) => {
            notice(&e.message);
            TmuxSettings::default()
        }
    }
}

/// Finds zsh. Without one, a login shell becomes `sh`, so that its user can log in.
fn find_shell(args: &LauncherArgs) -> Result<Shell> {
    let shell = Shell::find(args.login);
    match shell {
        Err(e) if args.is_login_shell => {
            notice(&format!("{}: /bin/sh starts instead", e.message));
            let words = args.zsh_words.iter().flatten();
            let failure = Command::new("/bin/sh").arg0("-sh").args(words).exec();
            Err(Error::runtime(format!("cannot start /bin/sh: {failure}")))
        }
        shell => shell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides() {
        for name in ["aish", "/usr/local/bin/aish", "-aish", "./aish"] {
            assert!(is_launcher(OsStr::new(name)), "{name}");
        }
        for name in ["aish-helper", "", "-", "--aish", "/aish/x", "aish.old"] {
            assert!(!is_launcher(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_login_shell_runs_one_command_with_the_options_of_a_shell() {
        let is_command = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            runs_command(&words)
        };
        for words in [
            &["-c", "ls"][..],
            &["-lc", "ls"],
            &["-l", "-c", "x"],
            &["-c"],
        ] {
            assert!(is_command(words), "{words:?}");
        }
        for words in [
            &[][..],
            &["-l"],
            &["--new", "-c"],
            &["record", "--", "-c"],
            &["-"],
        ] {
            assert!(!is_command(words), "{words:?}");
        }
    }
}
