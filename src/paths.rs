//! File locations: the directories for configuration, data and state, and the private directory of the socket with its
//! checks.
//!
//! The socket's location depends only on the uid and these directories (or on `AISH_HOME`), so that a shell under tmux, ssh
//! or `sudo -u` finds the same daemon.

mod run_dir;

mod environment;
mod own_files;

use std::ffi::OsString;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

pub use self::environment::{
    CHILD_MARK, TERMINAL_VARIABLES, child_environment, daemon_environment, process_environment,
    sandbox_environment, terminal_variables, work_variables,
};
pub use self::own_files::{is_own_fifo, make_fifo, open_own, read_own};

use crate::error::{Error, ErrorContext, Result, reason};

/// `sun_path` holds 104 bytes on macOS and 108 on Linux, including the final NUL.
const SOCKET_PATH_MAX: usize = 103;
/// Pause between two attempts to get a lock.
const LOCK_RETRY: Duration = Duration::from_millis(20);
/// What to do about a file or directory that cannot be written.
const WRITABLE: &str = "make it writable, or set AISH_HOME to a directory that is";

/// All directories that aish reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Contains `config.toml` or `aish.json`.
    pub config: PathBuf,
    /// Contains the journal and installed models.
    pub data: PathBuf,
    /// Contains logs and persistent state.
    pub state: PathBuf,
    /// Contains the event FIFO and the lock; mode 0700, owned by the user. The zsh plugin computes the same path.
    pub run: PathBuf,
    /// Directory of the socket: `run`, unless that path is too long for a socket.
    pub socket_dir: PathBuf,
}

impl Paths {
    /// Returns the paths for this user and environment: below `AISH_HOME` if set, otherwise the platform's standard
    /// directories.
    ///
    /// # Errors
    /// `AISH_HOME` is relative, or the user has no home directory.
    pub fn from_env() -> Result<Paths> {
        let uid = nix::unistd::getuid().as_raw();
        match std::env::var_os("AISH_HOME").filter(|v| !v.is_empty()) {
            Some(home) => Paths::under(Path::new(&home), uid),
            None => Paths::of_user(uid),
        }
    }

    /// Returns all paths below one directory.
    ///
    /// # Errors
    /// `home` is relative, which a daemon with another working directory would resolve differently.
    pub fn under(home: &Path, uid: u32) -> Result<Paths> {
        if !home.is_absolute() {
            return Err(
                Error::config(format!("AISH_HOME is a relative path: {}", home.display()))
                    .hint("give an absolute path, for example AISH_HOME=$PWD/aish"),
            );
        }
        let run = home.join("run");
        // The file name of the socket and its temporary sibling needs about 12 bytes.
        let socket_dir = if run.as_os_str().len() + 12 > SOCKET_PATH_MAX {
            PathBuf::from(format!(
                "/tmp/aish-{uid}-{:016x}",
                fnv1a(home.as_os_str().as_bytes())
            ))
        } else {
            run.clone()
        };
        Ok(Paths {
            config: home.join("config"),
            data: home.join("data"),
            state: home.join("state"),
            run,
            socket_dir,
        })
    }

    fn of_user(uid: u32) -> Result<Paths> {
        let dirs = directories::ProjectDirs::from("", "", "aish").ok_or_else(|| {
            Error::config(
                "cannot find your home directory: HOME is unset and the user database has no entry",
            )
            .hint("set HOME, or AISH_HOME to the directory that aish may use")
        })?;
        let (config, data) = (dirs.config_dir(), dirs.data_dir());
        let state = dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir());
        let run = run_dir::of_user(uid, [config, data, state]);
        Ok(Paths {
            config: config.to_path_buf(),
            data: data.to_path_buf(),
            state: state.to_path_buf(),
            socket_dir: run.clone(),
            run,
        })
    }

    /// The daemon's listening socket.
    pub fn socket(&self) -> PathBuf {
        self.socket_dir.join("sock")
    }

    /// The FIFO that the plugin's hooks write to.
    pub fn events(&self) -> PathBuf {
        self.run.join("events")
    }

    /// Directory of the FIFOs through which the HTTP API drives shells, one for each. The zsh plugin computes the same path.
    pub fn driven_shells(&self) -> PathBuf {
        self.run.join("tui")
    }

    /// Lock file: held by the daemon while it runs, and by a client that starts one.
    pub fn lock(&self) -> PathBuf {
        self.run.join("lock")
    }

    /// The daemon's log.
    pub fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Directory of the API keys entered during onboarding, one file each.
    pub fn keys(&self) -> PathBuf {
        self.config.join("keys")
    }

    /// Directory of the tokens of other aish servers, one file each.
    pub fn server_tokens(&self) -> PathBuf {
        self.data.join("servers")
    }

    /// Directory of the journal, one file per session.
    pub fn journal(&self) -> PathBuf {
        self.data.join("journal")
    }

    /// Directory of the answers that are still arriving.
    pub fn partial_answers(&self) -> PathBuf {
        self.data.join("partial")
    }

    /// Directory of the recordings, one directory each.
    pub fn recordings(&self) -> PathBuf {
        self.data.join("recordings")
    }

    /// Directory of the notices for shells, one file each.
    pub fn notices(&self) -> PathBuf {
        self.run.join("notices")
    }

    /// Directory of the pages of shares.
    pub fn shares(&self) -> PathBuf {
        self.data.join("shares")
    }

    /// Directory of the kept copies of files that tools have changed, one directory for each session.
    pub fn undo(&self) -> PathBuf {
        self.data.join("undo")
    }

    /// Creates the directories for data and state (0700), and checks that no other user controls these or the one for the
    /// configuration.
    ///
    /// # Errors
    /// Another user could have prepared one of them, or can replace it.
    pub fn prepare_own(&self) -> Result<()> {
        own_files::check_dirs(self)
    }

    /// Creates the run and socket directories (0700) and verifies that no other user could have created them.
    ///
    /// # Errors
    /// One of them is a symbolic link, is not a directory, belongs to another user, or is accessible to others.
    pub fn prepare_run(&self) -> Result<()> {
        private_dir(&self.run)?;
        private_dir(&self.socket_dir)
    }

    /// Same check for a client, which must not use a socket in a directory that another user controls. Returns `false`
    /// if the directory does not exist: then no daemon is running.
    ///
    /// # Errors
    /// Same as [`Paths::prepare_run`].
    pub fn check_run(&self) -> Result<bool> {
        match fs::symlink_metadata(&self.socket_dir) {
            Ok(meta) => check_private(&self.socket_dir, &meta).map(|()| true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e).context(|| format!("cannot inspect {}", self.socket_dir.display())),
        }
    }
}

/// Locks a file exclusively, waiting for the current holder; creates it (0600) if missing. The kernel releases the lock
/// when the file is closed or the process exits.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn lock_file(path: &Path) -> Result<Flock<File>> {
    Flock::lock(open_lock(path)?, FlockArg::LockExclusive)
        .map_err(|(_, e)| e)
        .context(|| format!("cannot lock {}", path.display()))
}

/// Locks a file as [`lock_file`] does, but waits at most `time`. Without a result another process holds the lock, or the file
/// cannot be opened or locked.
pub fn lock_file_within(path: &Path, time: Duration) -> Option<Flock<File>> {
    lock_file_for(path, time).ok().flatten()
}

/// Same as [`lock_file_within`], but tells a lock that another process holds (`None`) from other failures.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn lock_file_for(path: &Path, time: Duration) -> Result<Option<Flock<File>>> {
    let end = Instant::now() + time;
    let mut file = open_lock(path)?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Some(lock)),
            Err((unlocked, Errno::EWOULDBLOCK)) if Instant::now() < end => file = unlocked,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, e)) => return Err(e).context(|| format!("cannot lock {}", path.display())),
        }
        std::thread::sleep(LOCK_RETRY);
    }
}

fn open_lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = open_own(options.write(true).create(true).truncate(false), path);
    opened.map_err(|e| {
        let (file, reason) = (path.display(), reason(&e));
        Error::runtime(format!("cannot open {file}: {reason}")).hint(WRITABLE)
    })
}

/// Creates a directory and its parents with mode 0700.
///
/// # Errors
/// The directory cannot be created; the message names it.
pub fn make_dir(dir: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| uncreatable(dir, &e))
}

fn uncreatable(dir: &Path, e: &std::io::Error) -> Error {
    let (dir, reason) = (dir.display(), reason(e));
    Error::runtime(format!("cannot create the directory {dir}: {reason}")).hint(WRITABLE)
}

/// Replaces the content of a file atomically and durably, and keeps its mode; a new file gets 0600. A symlink is followed,
/// so that a file that is kept elsewhere stays there.
///
/// # Errors
/// The file cannot be written; the old content is then still there.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    let target = link_target(path);
    let mode = fs::metadata(&target).map_or(0o600, |meta| meta.mode() & 0o7777);
    write_and_rename(&target, content, mode)
        .context(|| format!("cannot write {}", target.display()))
}

/// Replaces a file that holds a secret, atomically and durably. The result is always a regular file with mode 0600: a
/// symlink is replaced, and a mode that others could read through is not kept.
///
/// # Errors
/// As for [`replace_file`].
pub fn replace_secret_file(path: &Path, content: &[u8]) -> Result<()> {
    write_and_rename(path, content, 0o600).context(|| format!("cannot write {}", path.display()))
}

/// Replaces a private file of aish atomically. After a power failure it may be empty.
///
/// # Errors
/// As for [`replace_file`].
pub fn replace_unsynced(path: &Path, content: &[u8]) -> Result<()> {
    write_temporary(path, content, 0o600, false)
        .context(|| format!("cannot write {}", path.display()))
}

/// Returns the file that a symlink leads to, or the path itself if it is not a symlink or leads nowhere.
pub fn link_target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Ends the name of a temporary file, after the id of the process and a number.
const TEMPORARY: &str = ".aish-new";

/// Removes temporary files that killed processes have left in the directories of aish and in those directly below: they may hold
/// what was removed since. One that is being written is locked, and the kernel unlocks it when its process is killed.
pub fn remove_leftovers(paths: &Paths) {
    for dir in [&paths.config, &paths.data, &paths.state, &paths.run] {
        let entries = entries(dir);
        let is_dir = |entry: &&DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let below = entries.iter().filter(is_dir);
        let below = below.flat_map(|dir| self::entries(&dir.path()));
        below.for_each(|entry| remove_leftover(&entry));
        entries.iter().for_each(remove_leftover);
    }
}

fn entries(dir: &Path) -> Vec<DirEntry> {
    let entries = fs::read_dir(dir).ok();
    entries.into_iter().flatten().flatten().collect()
}

fn remove_leftover(entry: &DirEntry) {
    if entry.file_name().to_str().is_some_and(is_temporary) {
        let path = entry.path();
        let is_left = || {
            let lock = read_own(&path).map(|file| Flock::lock(file, BEING_WRITTEN));
            lock.is_ok_and(|lock| lock.is_ok())
        };
        if is_left()
            && let Err(e) = fs::remove_file(&path)
        {
            tracing::warn!("cannot remove {}: {e}", path.display());
        }
    }
}

/// How a temporary file is locked.
const BEING_WRITTEN: FlockArg = FlockArg::LockExclusiveNonblock;

fn is_temporary(name: &str) -> bool {
    let writer = name
        .strip_suffix(TEMPORARY)
        .and_then(|name| name.rsplit_once('.'));
    let number = writer.and_then(|(_, writer)| writer.split_once('-'));
    number.is_some_and(|(pid, number)| pid.parse::<u32>().is_ok() && number.parse::<u64>().is_ok())
}

/// Numbers the temporary files of this process: two writers of one file must not share one.
static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);

fn write_and_rename(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_temporary(target, content, mode, true)
}

fn write_temporary(target: &Path, content: &[u8], mode: u32, sync: bool) -> io::Result<()> {
    let number = TEMPORARY_FILES.fetch_add(1, Ordering::Relaxed);
    let mut temporary = target.as_os_str().to_owned();
    temporary.push(format!(".{}-{number}{TEMPORARY}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        // Where locks do not work, nothing is swept either.
        let _lock = Flock::lock(file.try_clone()?, BEING_WRITTEN).ok();
        file.write_all(content)?;
        // Not by `open`, where the umask would take away from the mode of the old file.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        if sync {
            file.sync_all()?;
        }
        fs::rename(&temporary, target)?;
        if !sync {
            return Ok(());
        }
        // After a power failure the new name exists only if its directory was synced too.
        match target.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    };
    let written = write();
    if written.is_err() {
        // Best effort: the error of the write is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Creates a 0700 directory and rejects one that another user could have created.
fn private_dir(dir: &Path) -> Result<()> {
    if let Some(parent) = dir.parent() {
        make_dir(parent)?;
    }
    // Not recursive: `create` fails on an existing name, so a symbolic link is inspected and never followed.
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => {
            return Err(uncreatable(dir, &e));
        }
    }
    let meta = fs::symlink_metadata(dir).context(|| format!("cannot inspect {}", dir.display()))?;
    check_private(dir, &meta)
}

fn check_private(dir: &Path, meta: &fs::Metadata) -> Result<()> {
    let uid = nix::unistd::getuid().as_raw();
    let fault = if meta.file_type().is_symlink() {
        "is a symbolic link".to_string()
    } else if !meta.is_dir() {
        "is not a directory".to_string()
    } else if meta.uid() != uid {
        format!("belongs to uid {}, not to you ({uid})", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("is open to other users (mode {:04o})", meta.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(
        Error::runtime(format!("the socket directory {} {fault}", dir.display())).hint(
            "remove it (aish creates it again, private to you), or set AISH_HOME to another directory",
        ),
    )
}

/// Returns an environment variable of this process; an empty one counts as unset.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the executables called `name` on `PATH`, in lookup order.
pub fn on_path(name: &str) -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // A relative entry depends on the working directory.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .filter(|file| fs::metadata(file).is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0))
        .collect()
}

/// FNV-1a: a short, stable name. Not used for security; the directory is checked.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn temporary_files_of_processes_that_are_gone_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 0).unwrap();
        let dir = &paths.keys();
        make_dir(dir).unwrap();
        let in_config = paths.config.join("config.toml.12-3.aish-new");
        fs::write(&in_config, "x").unwrap();
        let kept = [
            "12-3.aish-new",
            "b.12.aish-new",
            "c.12-x.aish-new",
            "d.12-3.html",
        ];
        for name in ["a.html.12-3.aish-new", "e.1-0.aish-new"]
            .iter()
            .chain(&kept)
        {
            fs::write(dir.join(name), "x").unwrap();
        }
        let written = File::create(dir.join("f.1-1.aish-new")).unwrap();
        let written = Flock::lock(written, BEING_WRITTEN).unwrap();
        remove_leftovers(&paths);
        assert!(!in_config.exists());
        let mut expected = kept.map(OsString::from).to_vec();
        expected.push("f.1-1.aish-new".into());
        expected.sort();
        assert_eq!(names(dir), expected);
        drop(written);
        remove_leftovers(&paths);
        expected.retain(|name| name != "f.1-1.aish-new");
        assert_eq!(names(dir), expected);
    }

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaced_file_keeps_its_mode_and_a_new_one_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        replace_file(&file, b"one").unwrap();
        assert_eq!(
            (fs::read(&file).unwrap(), mode(&file)),
            (b"one".to_vec(), 0o600)
        );
        set_mode(&file, 0o664);
        replace_file(&file, b"two").unwrap();
        assert_eq!(
            (fs::read(&file).unwrap(), mode(&file)),
            (b"two".to_vec(), 0o664)
        );
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn replaced_link_still_leads_to_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn secret_file_is_private_even_where_the_old_one_was_not() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        set_mode(&real, 0o644);
        symlink(&real, &link).unwrap();
        replace_secret_file(&link, b"secret").unwrap();
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(mode(&link), 0o600);
        assert_eq!(fs::read(&real).unwrap(), b"old");
        replace_secret_file(&real, b"secret").unwrap();
        assert_eq!(mode(&real), 0o600);
    }

    #[test]
    fn failed_replacement_leaves_the_old_content_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("directory");
        fs::create_dir(&target).unwrap();
        let error = replace_file(&target, b"x").unwrap_err();
        assert!(error.message.starts_with("cannot write "), "{error}");
        assert!(target.is_dir());
        assert_eq!(names(dir.path()), ["directory"]);
    }

    #[test]
    fn writers_at_the_same_time_never_mix() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::thread::scope(|scope| {
            for letter in b'a'..b'i' {
                let file = &file;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace_file(file, &[letter; 10_000]).unwrap();
                    }
                });
            }
        });
        let content = fs::read(&file).unwrap();
        assert_eq!(content.len(), 10_000);
        assert!(content.iter().all(|byte| *byte == content[0]));
    }
}
