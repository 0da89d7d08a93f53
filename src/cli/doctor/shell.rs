//! Checks of zsh, the plugin, its hooks, and other programs named `llm`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::getuid;

use super::CheckResult;
use crate::paths;

/// Oldest zsh that the plugin supports: the version of the oldest maintained Debian, Ubuntu and macOS. Older
/// versions lack features that the hooks use, and are not tested.
const OLDEST_VERSION: (u32, u32) = (5, 8);

/// Maximum time for zsh to answer; it reads the user's `.zshenv` first.
const ZSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The zsh that a terminal of this user starts.
#[derive(Debug)]
pub(super) struct ZshInstallation {
    path: PathBuf,
    /// `None` if zsh did not answer.
    version: Option<String>,
    /// Directory of `.zshrc` as zsh reports it: `.zshenv` may set `ZDOTDIR` without exporting it.
    dir: Option<PathBuf>,
}

impl ZshInstallation {
    /// Queries the first zsh on `PATH`.
    pub(super) fn find() -> Option<ZshInstallation> {
        let path = paths::on_path("zsh").into_iter().next()?;
        let answer = query_zsh(&path).unwrap_or_default();
        // Read from the end, because `.zshenv` may print lines first.
        let mut lines = answer.lines().rev();
        let dir = lines.next().map(PathBuf::from).filter(|d| d.is_absolute());
        let version = lines.next().map(str::to_string);
        Some(ZshInstallation { path, version, dir })
    }
}

fn query_zsh(zsh: &Path) -> Option<String> {
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
        // The receiver is gone after the timeout.
        let _ = send.send(read.map(|_| bytes));
    });
    let answer = receive.recv_timeout(ZSH_TIMEOUT);
    if answer.is_err() {
        // Fails only if zsh has just exited.
        let _ = child.kill();
    }
    let ended = child.wait();
    let bytes = answer.ok()?.ok()?;
    ended.ok()?.success().then_some(())?;
    String::from_utf8(bytes).ok()
}

/// Checks that zsh is new enough.
pub(super) fn check_version(zsh: Option<&ZshInstallation>) -> CheckResult {
    let (major, minor) = OLDEST_VERSION;
    let Some(zsh) = zsh else {
        return CheckResult::fail(
            "zsh",
            "zsh is not on PATH",
            format!("install zsh {major}.{minor} or newer with your package manager"),
        );
    };
    let path = zsh.path.display();
    match &zsh.version {
        Some(version) if major_minor(version) >= Some(OLDEST_VERSION) => {
            CheckResult::ok("zsh", format!("{version} ({path})"))
        }
        Some(version) => CheckResult::fail(
            "zsh",
            format!("{path} is version {version}; the plugin needs {major}.{minor}"),
            "install a newer zsh with your package manager",
        ),
        None => CheckResult::warn(
            "zsh",
            format!(
                "{path} did not report its version within {} s",
                ZSH_TIMEOUT.as_secs()
            ),
            "find what hangs or fails in .zshenv with: zsh -x -c true",
        ),
    }
}

/// Parses the first two numbers of a version: `5.8.1` gives (5, 8).
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks that `.zshrc` or an open shell loads the plugin.
pub(super) fn check_plugin(zsh: Option<&ZshInstallation>, shells: Option<usize>) -> CheckResult {
    let home = || paths::variable("ZDOTDIR").or_else(|| paths::variable("HOME"));
    let Some(dir) = zsh
        .and_then(|z| z.dir.clone())
        .or_else(|| home().map(PathBuf::from))
    else {
        return CheckResult::warn(
            "plugin",
            "not checked: neither ZDOTDIR nor HOME is set",
            "set HOME",
        );
    };
    let zshrc = dir.join(".zshrc");
    let text = fs::read(&zshrc).map(|b| String::from_utf8_lossy(&b).into_owned());
    let shown = zshrc.display();
    match text.as_deref().ok().and_then(loading_line) {
        Some((number, line, file)) => {
            match sourced_file(line, file).filter(|path| !path.exists()) {
                Some(missing) => CheckResult::fail(
                    "plugin",
                    format!(
                        "{shown}:{number} loads {}, which does not exist",
                        missing.display()
                    ),
                    "run install.sh again, or correct the line",
                ),
                None => CheckResult::ok("plugin", format!("loaded by {shown}:{number}")),
            }
        }
        // A plugin manager or a file sourced by .zshrc may load it.
        None if shells.unwrap_or(0) > 0 => CheckResult::ok("plugin", "loaded in an open shell"),
        None => CheckResult::fail(
            "plugin",
            format!("neither {shown} nor an open shell loads the plugin"),
            "run install.sh, or add the line: source …/aish.plugin.zsh; then open a new shell",
        ),
    }
}

/// Files that load the plugin: itself, and the one that the line of install.sh names.
const PLUGIN_FILES: [&str; 2] = ["aish.plugin.zsh", "aish/zsh/init.zsh"];

/// Returns the line that loads the plugin, with its number from 1, and the end of the file's path in it.
fn loading_line(zshrc: &str) -> Option<(usize, &str, &'static str)> {
    let lines = zshrc.lines().zip(1..);
    lines
        .filter(|(line, _)| !line.trim_start().starts_with('#'))
        .find_map(|(line, number)| {
            let file = PLUGIN_FILES.into_iter().find(|file| line.contains(file))?;
            Some((number, line, file))
        })
}

/// Returns the path of `file` that the line names, if it is literal and absolute or below the home directory.
fn sourced_file(line: &str, file: &str) -> Option<PathBuf> {
    let end = line.find(file)? + file.len();
    let named = line.get(..end)?;
    let start = named
        .rfind(|c: char| c.is_whitespace() || "'\"=(".contains(c))
        .map_or(0, |at| at + 1);
    let path = named.get(start..)?;
    // Other paths that zsh expands cannot be resolved here.
    if path.contains(['$', '\\', '*']) {
        return None;
    }
    match path.strip_prefix("~/") {
        Some(below) => Some(Path::new(&paths::variable("HOME")?).join(below)),
        None => path.starts_with('/').then(|| PathBuf::from(path)),
    }
}

/// Checks that the hooks can reach the daemon.
pub(super) fn check_hooks(fifo: &Path, shells: Option<usize>) -> CheckResult {
    let shown = fifo.display();
    let restart = "run: aish-helper restart";
    match fs::symlink_metadata(fifo) {
        Ok(meta) if !meta.file_type().is_fifo() => {
            return CheckResult::fail(
                "hooks",
                format!("{shown} is not a FIFO"),
                "remove it, then run: aish-helper restart",
            );
        }
        Ok(meta) if meta.uid() != getuid().as_raw() => {
            let message = format!("{shown} belongs to uid {}, not to you", meta.uid());
            return CheckResult::fail("hooks", message, "remove it, then run: aish-helper restart");
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return match shells {
                Some(_) => CheckResult::fail("hooks", format!("{shown} does not exist"), restart),
                None => hooks_without_daemon(),
            };
        }
        Err(e) => {
            return CheckResult::fail("hooks", format!("cannot inspect {shown}: {e}"), restart);
        }
    }
    // Opened as the hooks do: fails immediately if no daemon reads.
    let open = OpenOptions::new()
        .write(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(fifo);
    match (open, shells) {
        (Err(e), None) if e.raw_os_error() == Some(Errno::ENXIO as i32) => hooks_without_daemon(),
        (Err(e), _) => CheckResult::fail("hooks", format!("no daemon reads {shown}: {e}"), restart),
        (Ok(_), Some(0)) => CheckResult::warn(
            "hooks",
            "the daemon listens, but no shell with the plugin has reported a prompt to it",
            "press Enter and check again; if this persists, open a new shell, or run: exec zsh",
        ),
        (Ok(_), Some(1)) => CheckResult::ok("hooks", "the daemon listens; 1 shell is open"),
        (Ok(_), Some(n)) => {
            CheckResult::ok("hooks", format!("the daemon listens; {n} shells are open"))
        }
        (Ok(_), None) => {
            CheckResult::warn("hooks", "a daemon listens, but does not answer", restart)
        }
    }
}

fn hooks_without_daemon() -> CheckResult {
    CheckResult::warn(
        "hooks",
        "not checked: the daemon is not running",
        "the next prompt of a shell with the plugin starts it, or run: aish-helper start",
    )
}

/// Checks whether a program is named `llm` too.
pub(super) fn check_other_llm() -> CheckResult {
    match paths::on_path("llm").first() {
        None => CheckResult::ok("llm", "no other program has this name"),
        Some(path) => CheckResult::warn(
            "llm",
            format!(
                "{} has the same name; the function llm takes precedence",
                path.display()
            ),
            "to run that program, type: command llm; or set AISH_NAME=ai in .zshrc, before the plugin",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    fn zsh(version: &str, dir: &Path) -> ZshInstallation {
        ZshInstallation {
            path: "/bin/zsh".into(),
            version: Some(version.into()),
            dir: Some(dir.into()),
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let state = |v: &str| check_version(Some(&zsh(v, Path::new("/")))).state;
        for good in ["5.8", "5.8.1", "5.9", "5.10", "5.9.0.3-test", "6.0"] {
            assert_eq!(state(good), CheckState::Ok, "{good}");
        }
        for bad in ["5.7.1", "4.9", "", "x"] {
            assert_eq!(state(bad), CheckState::Fail, "{bad}");
        }
        assert_eq!(check_version(None).state, CheckState::Fail);
    }

    #[test]
    fn the_plugin_is_found_in_zshrc_or_in_a_shell() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap();
        let plugin_file = dir.join("it/aish.plugin.zsh");
        let state = |text: &str, shells| {
            fs::write(dir.join(".zshrc"), text).unwrap();
            check_plugin(Some(&zsh("5.9", &dir)), shells).state
        };
        let line = format!(
            "x=1\n[[ ! -r '{0}' ]] || source '{0}'\n",
            plugin_file.display()
        );
        assert_eq!(
            state(&line, None),
            CheckState::Fail,
            "the file does not exist"
        );
        fs::create_dir(dir.join("it")).unwrap();
        fs::write(&plugin_file, "").unwrap();
        assert_eq!(state(&line, None), CheckState::Ok);
        let below_home = "source ~/.no/such/share/aish/zsh/init.zsh # added";
        assert_eq!(
            state(below_home, None),
            CheckState::Fail,
            "it does not exist"
        );
        fs::create_dir_all(dir.join("aish/zsh")).unwrap();
        fs::write(dir.join("aish/zsh/init.zsh"), "").unwrap();
        let installed = format!("source {}/aish/zsh/init.zsh # added", dir.display());
        assert_eq!(state(&installed, None), CheckState::Ok);
        assert_eq!(state("source $x/aish.plugin.zsh", None), CheckState::Ok);
        assert_eq!(state("# source /aish.plugin.zsh", None), CheckState::Fail);
        assert_eq!(state("antigen bundle aish", Some(2)), CheckState::Ok);
        assert_eq!(state("", Some(0)), CheckState::Fail);
    }

    #[test]
    fn hooks_need_a_daemon_that_reads_the_fifo() {
        let home = tempfile::tempdir().unwrap();
        let fifo = home.path().join("events");
        assert_eq!(check_hooks(&fifo, None).state, CheckState::Warn);
        assert_eq!(check_hooks(&fifo, Some(1)).state, CheckState::Fail);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(check_hooks(&fifo, None).state, CheckState::Warn);
        assert_eq!(check_hooks(&fifo, Some(1)).state, CheckState::Fail);
        // Opening a FIFO for reading and writing does not block.
        let _reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        assert_eq!(check_hooks(&fifo, Some(0)).state, CheckState::Warn);
        assert_eq!(
            check_hooks(&fifo, Some(2)),
            CheckResult::ok("hooks", "the daemon listens; 2 shells are open")
        );
        fs::remove_file(&fifo).unwrap();
        fs::write(&fifo, "").unwrap();
        assert_eq!(
            check_hooks(&fifo, Some(1)).state,
            CheckState::Fail,
            "not a FIFO"
        );
    }
}
