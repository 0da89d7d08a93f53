//! zsh, the plugin in it, its hooks, and who else is called `llm`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::getuid;

use super::Check;
use crate::paths;

/// The oldest zsh that the plugin supports, as it says itself where a module is missing: the one of
/// the oldest Debian, Ubuntu and macOS that are still cared for. Older ones lack parts of what the
/// hooks are made of, and nobody tests them.
const OLDEST: (u32, u32) = (5, 8);

/// How long zsh may take to say where its files are: it reads the user's `.zshenv`.
const PATIENCE: Duration = Duration::from_secs(3);

/// The zsh that a terminal of this user would start.
#[derive(Debug)]
pub(super) struct Zsh {
    path: PathBuf,
    /// `None`: it did not answer.
    version: Option<String>,
    /// The directory of `.zshrc`, by its own word: `.zshenv` may set `ZDOTDIR` and not export it.
    dir: Option<PathBuf>,
}

impl Zsh {
    /// The first on `PATH`.
    pub(super) fn find() -> Option<Zsh> {
        let path = paths::on_path("zsh").into_iter().next()?;
        let answer = ask(&path).unwrap_or_default();
        // Last, so that what `.zshenv` prints does no harm.
        let mut lines = answer.lines().rev();
        let dir = lines.next().map(PathBuf::from).filter(|d| d.is_absolute());
        let version = lines.next().map(str::to_string);
        Some(Zsh { path, version, dir })
    }
}

fn ask(zsh: &Path) -> Option<String> {
    const SCRIPT: &str = r#"print -r -- "$ZSH_VERSION"; print -r -- "${ZDOTDIR:-$HOME}""#;
    let mut child = Command::new(zsh)
        .args(["-c", SCRIPT])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(1 << 20).read_to_end(&mut bytes);
        // Nobody waits any more when it took too long.
        let _ = send.send(read.map(|_| bytes));
    });
    let answer = receive.recv_timeout(PATIENCE);
    if answer.is_err() {
        // It may have ended just now.
        let _ = child.kill();
    }
    let ended = child.wait();
    let bytes = answer.ok()?.ok()?;
    ended.ok()?.success().then_some(())?;
    String::from_utf8(bytes).ok()
}

/// Is it new enough?
pub(super) fn version(zsh: Option<&Zsh>) -> Check {
    let (major, minor) = OLDEST;
    let Some(zsh) = zsh else {
        return Check::fail(
            "zsh",
            "no zsh is on PATH",
            format!("install zsh {major}.{minor} or newer with your package manager"),
        );
    };
    let path = zsh.path.display();
    match &zsh.version {
        Some(version) if numbers(version) >= Some(OLDEST) => {
            Check::ok("zsh", format!("{version} ({path})"))
        }
        Some(version) => Check::fail(
            "zsh",
            format!("{path} is version {version}; the plugin needs {major}.{minor}"),
            "install a newer zsh with your package manager",
        ),
        None => Check::warn(
            "zsh",
            format!(
                "{path} did not say its version within {} s",
                PATIENCE.as_secs()
            ),
            "look for what hangs or fails in .zshenv: zsh -x -c true",
        ),
    }
}

/// The first two numbers of a version: (5, 8) of `5.8.1`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Is the plugin loaded? Either a line of `.zshrc` says so, or a shell has.
pub(super) fn plugin(zsh: Option<&Zsh>, shells: Option<usize>) -> Check {
    let home = || paths::variable("ZDOTDIR").or_else(|| paths::variable("HOME"));
    let Some(dir) = zsh
        .and_then(|z| z.dir.clone())
        .or_else(|| home().map(PathBuf::from))
    else {
        return Check::warn(
            "plugin",
            "cannot look for it: neither ZDOTDIR nor HOME is set",
            "set HOME",
        );
    };
    let zshrc = dir.join(".zshrc");
    let text = fs::read(&zshrc).map(|b| String::from_utf8_lossy(&b).into_owned());
    let shown = zshrc.display();
    match text.as_deref().ok().and_then(loading_line) {
        Some((number, line)) => match target(line).filter(|path| !path.exists()) {
            Some(gone) => Check::fail(
                "plugin",
                format!(
                    "{shown}:{number} loads {}, which is not there",
                    gone.display()
                ),
                "run install.sh again, or correct the line",
            ),
            None => Check::ok("plugin", format!("loaded by {shown}:{number}")),
        },
        // A plugin manager, or a file that .zshrc reads.
        None if shells.unwrap_or(0) > 0 => Check::ok("plugin", "loaded in an open shell"),
        None => Check::fail(
            "plugin",
            format!("{shown} does not load it, and no open shell has it"),
            "run install.sh, or add the line: source …/aish.plugin.zsh; then open a new shell",
        ),
    }
}

/// The line that loads the plugin, counted from 1.
fn loading_line(zshrc: &str) -> Option<(usize, &str)> {
    zshrc
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(PLUGIN) && !line.trim_start().starts_with('#'))
        .map(|(at, line)| (at + 1, line))
}

const PLUGIN: &str = "aish.plugin.zsh";

/// The file that the line names, where it stands there whole.
fn target(line: &str) -> Option<PathBuf> {
    let end = line.find(PLUGIN)? + PLUGIN.len();
    let named = line.get(..end)?;
    let start = named
        .rfind(|c: char| c.is_whitespace() || "'\"=(".contains(c))
        .map_or(0, |at| at + 1);
    let path = named.get(start..)?;
    // With anything in it that zsh would expand, it is not for us to say where it leads.
    (path.starts_with('/') && !path.contains(['$', '\\', '*'])).then(|| PathBuf::from(path))
}

/// Do the hooks reach the daemon?
pub(super) fn hooks(fifo: &Path, shells: Option<usize>) -> Check {
    let shown = fifo.display();
    let restart = "run: aish-helper restart";
    match fs::symlink_metadata(fifo) {
        Ok(meta) if !meta.file_type().is_fifo() => {
            return Check::fail(
                "hooks",
                format!("{shown} is in the way: it is no FIFO"),
                "remove it",
            );
        }
        Ok(meta) if meta.uid() != getuid().as_raw() => {
            let message = format!("{shown} belongs to uid {}, not to you", meta.uid());
            return Check::fail("hooks", message, "remove it, then run: aish-helper restart");
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return match shells {
                Some(_) => Check::fail("hooks", format!("{shown} is gone"), restart),
                None => not_heard(),
            };
        }
        Err(e) => return Check::fail("hooks", format!("cannot look at {shown}: {e}"), restart),
    }
    // As the hooks open it: that fails at once where nobody reads.
    let open = OpenOptions::new()
        .write(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(fifo);
    match (open, shells) {
        (Err(e), None) if e.raw_os_error() == Some(Errno::ENXIO as i32) => not_heard(),
        (Err(e), _) => Check::fail("hooks", format!("nobody reads {shown}: {e}"), restart),
        (Ok(_), Some(0)) => Check::warn(
            "hooks",
            "heard, but no open shell has the plugin",
            "open a new shell, or run: exec zsh",
        ),
        (Ok(_), Some(1)) => Check::ok("hooks", "heard; 1 shell is open"),
        (Ok(_), Some(n)) => Check::ok("hooks", format!("heard; {n} shells are open")),
        (Ok(_), None) => Check::warn("hooks", "heard by a daemon that does not answer", restart),
    }
}

fn not_heard() -> Check {
    Check::warn(
        "hooks",
        "not heard: the daemon does not run",
        "the next prompt of a shell with the plugin starts it, and so does: aish-helper start",
    )
}

/// Is a program called `llm` as well?
pub(super) fn other_llm() -> Check {
    match paths::on_path("llm").first() {
        None => Check::ok("llm", "no other program has this name"),
        Some(path) => Check::warn(
            "llm",
            format!(
                "{} has this name, too; the function llm comes first",
                path.display()
            ),
            "to run that program, say: command llm",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn zsh(version: &str, dir: &Path) -> Zsh {
        Zsh {
            path: "/bin/zsh".into(),
            version: Some(version.into()),
            dir: Some(dir.into()),
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let state = |v: &str| version(Some(&zsh(v, Path::new("/")))).state;
        for good in ["5.8", "5.8.1", "5.9", "5.10", "5.9.0.3-test", "6.0"] {
            assert_eq!(state(good), State::Ok, "{good}");
        }
        for bad in ["5.7.1", "4.9", "", "x"] {
            assert_eq!(state(bad), State::Fail, "{bad}");
        }
        assert_eq!(version(None).state, State::Fail);
    }

    #[test]
    fn the_plugin_is_found_where_it_is_loaded() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap();
        let plugin_file = dir.join("it/aish.plugin.zsh");
        let state = |text: &str, shells| {
            fs::write(dir.join(".zshrc"), text).unwrap();
            plugin(Some(&zsh("5.9", &dir)), shells).state
        };
        let line = format!(
            "x=1\n[[ ! -r '{0}' ]] || source '{0}'\n",
            plugin_file.display()
        );
        assert_eq!(state(&line, None), State::Fail, "the file is not there");
        fs::create_dir(dir.join("it")).unwrap();
        fs::write(&plugin_file, "").unwrap();
        assert_eq!(state(&line, None), State::Ok);
        assert_eq!(state("source ~/aish.plugin.zsh", None), State::Ok);
        assert_eq!(state("# source /aish.plugin.zsh", None), State::Fail);
        assert_eq!(state("antigen bundle aish", Some(2)), State::Ok);
        assert_eq!(state("", Some(0)), State::Fail);
    }

    #[test]
    fn hooks_are_heard_where_somebody_reads() {
        let home = tempfile::tempdir().unwrap();
        let fifo = home.path().join("events");
        assert_eq!(hooks(&fifo, None).state, State::Warn);
        assert_eq!(hooks(&fifo, Some(1)).state, State::Fail);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(hooks(&fifo, None).state, State::Warn);
        assert_eq!(hooks(&fifo, Some(1)).state, State::Fail);
        // For reading and writing: such an open does not wait.
        let _reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        assert_eq!(hooks(&fifo, Some(0)).state, State::Warn);
        assert_eq!(
            hooks(&fifo, Some(2)),
            Check::ok("hooks", "heard; 2 shells are open")
        );
        fs::remove_file(&fifo).unwrap();
        fs::write(&fifo, "").unwrap();
        assert_eq!(hooks(&fifo, Some(1)).state, State::Fail, "no FIFO");
    }
}
