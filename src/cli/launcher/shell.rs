//! The zsh that the launcher starts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::notice;
use super::query::output;
use crate::client::relay;
use crate::error::{Error, Result};
use crate::paths::{on_path, variable};

/// Directories that are searched if `PATH` has no zsh.
const ZSH_PLACES: &[&str] = &[
    "/bin/zsh",
    "/usr/bin/zsh",
    "/usr/local/bin/zsh",
    "/opt/homebrew/bin/zsh",
];

/// How long zsh may take to run /etc/zshenv.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// A zsh with the plugin.
#[derive(Debug)]
pub(in crate::cli) struct Shell {
    /// The programs to try, in order; at least one.
    programs: Vec<PathBuf>,
    login: bool,
}

impl Shell {
    /// Finds zsh: `$SHELL` if that is one, otherwise the first on `PATH`.
    ///
    /// # Errors
    /// There is no zsh.
    pub(in crate::cli) fn find(login: bool) -> Result<Shell> {
        let own = variable("SHELL").map(PathBuf::from);
        let is_zsh = |shell: &PathBuf| shell.is_absolute() && relay::is_zsh(shell);
        let places = ZSH_PLACES.iter().map(PathBuf::from);
        let mut programs: Vec<PathBuf> = Vec::new();
        for file in own
            .into_iter()
            .filter(is_zsh)
            .chain(on_path("zsh"))
            .chain(places)
        {
            if is_executable(&file) && !programs.contains(&file) {
                programs.push(file);
            }
        }
        if programs.is_empty() {
            return Err(Error::runtime("zsh is not installed")
                .hint("install zsh 5.8 or newer with your package manager"));
        }
        Ok(Shell { programs, login })
    }

    /// Returns whether it is a login shell.
    pub(super) fn is_login(&self) -> bool {
        self.login
    }

    /// Returns the program.
    pub(super) fn program(&self) -> &Path {
        self.programs
            .first()
            .map_or(Path::new("zsh"), PathBuf::as_path)
    }

    /// Replaces this process by zsh with the plugin, with this environment instead of its own. Returns why that failed.
    pub(super) fn exec(&self, environment: Option<&[(OsString, OsString)]>) -> Error {
        for mut command in self.commands(environment) {
            let e = command.exec();
            let zsh = command.get_program().to_string_lossy();
            notice(&format!("cannot start {zsh}: {e}"));
        }
        self.exec_plain(&[])
    }

    /// Returns the commands that start zsh with the plugin, the best one first. Each is prepared when it is asked for, and a
    /// zsh that does not run is left out and said.
    pub(in crate::cli) fn commands<'a>(
        &'a self,
        environment: Option<&'a [(OsString, OsString)]>,
    ) -> impl Iterator<Item = Command> + 'a {
        let zdotdir = match environment {
            Some(environment) => {
                let found = environment.iter().find(|(name, _)| name == "ZDOTDIR");
                found.map(|(_, value)| value.clone())
            }
            None => variable("ZDOTDIR"),
        };
        self.programs.iter().filter_map(move |zsh| {
            let mut command = self.command(zsh);
            if let Some(environment) = environment {
                command.env_clear().envs(environment.iter().cloned());
            }
            match start_up(zsh, zdotdir.as_deref()) {
                // zsh reads the plugin's `.zshenv` first, which reads the user's files.
                Ok(StartUp::Plugin { dir, own }) => {
                    command.env("ZDOTDIR", dir);
                    match own {
                        Some(own) => command.env("AISH_ZDOTDIR", own),
                        None => command.env_remove("AISH_ZDOTDIR"),
                    };
                }
                Ok(StartUp::Plain(reason)) => {
                    notice(&format!(
                        "{reason}, so llm works only if .zshrc loads the plugin"
                    ));
                }
                Err(e) => {
                    notice(&format!("{} {e}", zsh.display()));
                    return None;
                }
            }
            Some(command)
        })
    }

    /// Replaces this process by zsh with these arguments and without the plugin. Returns why that failed.
    pub(super) fn exec_plain(&self, words: &[OsString]) -> Error {
        let mut failure = Error::runtime("zsh is not installed");
        for zsh in &self.programs {
            let e = self.command(zsh).args(words).exec();
            failure = Error::runtime(format!("cannot start {}: {e}", zsh.display()))
                .hint("install zsh again with your package manager");
        }
        failure
    }

    fn command(&self, zsh: &Path) -> Command {
        let mut command = Command::new(zsh);
        command.arg0("zsh");
        if self.login {
            command.arg("-l");
        }
        command
    }
}

/// How zsh starts.
enum StartUp {
    /// It reads the `.zshenv` in this directory of the plugin, and the user's files with this `ZDOTDIR`.
    Plugin { dir: PathBuf, own: Option<OsString> },
    /// It cannot be made to load the plugin, for this reason.
    Plain(String),
}

/// Decides how this zsh starts.
///
/// # Errors
/// It does not run.
fn start_up(zsh: &Path, given: Option<&OsStr>) -> std::result::Result<StartUp, String> {
    // /etc/zshenv is read before ours and may set ZDOTDIR too: always, or where it is unset.
    let own = zdotdir_after_global(zsh, given)?;
    let Some(dir) = plugin_dir().map(|dir| dir.join("launch")) else {
        return Ok(StartUp::Plain(
            "aish was installed without its zsh plugin".to_owned(),
        ));
    };
    let ours = Some(dir.as_os_str());
    if own.as_deref() != given && zdotdir_after_global(zsh, ours)?.as_deref() != ours {
        return Ok(StartUp::Plain("/etc/zshenv sets ZDOTDIR".to_owned()));
    }
    Ok(StartUp::Plugin { dir, own })
}

/// Returns the value of `ZDOTDIR` after /etc/zshenv, if it was `before`.
fn zdotdir_after_global(
    zsh: &Path,
    before: Option<&OsStr>,
) -> std::result::Result<Option<OsString>, String> {
    let mut command = Command::new(zsh);
    // With -f only /etc/zshenv is read. Nothing is printed for a variable that is not set.
    command.args(["-fc", "print -rn -- ${ZDOTDIR+x$ZDOTDIR}"]);
    match before {
        Some(dir) => command.env("ZDOTDIR", dir),
        None => command.env_remove("ZDOTDIR"),
    };
    let answer = output(command, QUERY_TIMEOUT)?;
    // A line that /etc/zshenv prints comes first.
    let last = answer.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    let value = last.strip_prefix(b"x");
    Ok(value.map(|dir| OsString::from_vec(dir.to_vec())))
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Returns the directory of the plugin that belongs to this binary: of its installation, or of its source tree.
fn plugin_dir() -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?.canonicalize().ok()?;
    let mut above = binary.ancestors().skip(2);
    // PREFIX/bin/aish-helper, or TREE/target/debug/aish-helper.
    let installed = above.next()?.join("share/aish/zsh");
    let in_tree = above.next().map(|tree| tree.join("zsh"));
    [Some(installed), in_tree]
        .into_iter()
        .flatten()
        .find(|dir| dir.join("aish.plugin.zsh").is_file())
}
