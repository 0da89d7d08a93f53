//! Where things are: the directories of config, data and state, and the
//! private directory of the socket with its checks.
//!
//! The socket's place depends on the uid alone (or on `AISH_HOME`), so that a
//! shell under tmux, ssh or `sudo -u` finds the same daemon.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::error::{Context, Error, Result};

/// `sun_path` holds 104 bytes on macOS and 108 on Linux, the final NUL included.
const SOCKET_PATH_MAX: usize = 103;

/// Every place aish reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml`, `aish.json`.
    pub config: PathBuf,
    /// The journal and installed models.
    pub data: PathBuf,
    /// The log.
    pub state: PathBuf,
    /// The event channel and the lock, 0700 and ours. The zsh plugin finds it by the same rule.
    pub run: PathBuf,
    /// The directory of the socket: `run`, unless that path is too long for a socket.
    pub socket_dir: PathBuf,
}

impl Paths {
    /// The places for this user and environment: all under `AISH_HOME` where it is set,
    /// else where the system wants them.
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

    /// All places under one directory.
    ///
    /// # Errors
    /// `home` is relative: a daemon outlives the directory it was started in.
    pub fn under(home: &Path, uid: u32) -> Result<Paths> {
        if !home.is_absolute() {
            return Err(
                Error::config(format!("AISH_HOME is a relative path: {}", home.display()))
                    .hint("give the whole path, for example AISH_HOME=$PWD/aish"),
            );
        }
        let run = home.join("run");
        // The name of the socket and its temporary sibling need about 12 bytes.
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
                "cannot find your home directory: HOME is unset and the user database names none",
            )
            .hint("set HOME, or AISH_HOME to the directory that aish may use")
        })?;
        let run = default_run_dir(uid);
        Ok(Paths {
            config: dirs.config_dir().to_path_buf(),
            data: dirs.data_dir().to_path_buf(),
            state: dirs
                .state_dir()
                .unwrap_or_else(|| dirs.data_local_dir())
                .to_path_buf(),
            socket_dir: run.clone(),
            run,
        })
    }

    /// The socket on which the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.socket_dir.join("sock")
    }

    /// The FIFO that the hooks of the plugin write to.
    pub fn events(&self) -> PathBuf {
        self.run.join("events")
    }

    /// Locked by the daemon while it lives, and by whoever starts one.
    pub fn lock(&self) -> PathBuf {
        self.run.join("lock")
    }

    /// The daemon's log.
    pub fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// The directory of the keys that were pasted into the first-run guide, a file each.
    pub fn keys(&self) -> PathBuf {
        self.config.join("keys")
    }

    /// The directory of the journal, a file a session.
    pub fn journal(&self) -> PathBuf {
        self.data.join("journal")
    }

    /// Makes the run and socket directories (0700) and checks that nobody else could have put them there.
    ///
    /// # Errors
    /// One is a symlink, no directory, another user's, or open to others.
    pub fn prepare_run(&self) -> Result<()> {
        private_dir(&self.run)?;
        private_dir(&self.socket_dir)
    }

    /// The same check for a client, which must not talk to a socket in a directory that another user
    /// controls. A directory that is not there is no error: there is no daemon then.
    ///
    /// # Errors
    /// As for [`Paths::prepare_run`].
    pub fn check_run(&self) -> Result<bool> {
        match fs::symlink_metadata(&self.socket_dir) {
            Ok(meta) => check_private(&self.socket_dir, &meta).map(|()| true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::runtime(format!(
                "cannot look at {}: {e}",
                self.socket_dir.display()
            ))),
        }
    }
}

/// `/run/user/UID/aish` where the system made that directory for this user, else `/tmp/aish-UID`.
fn default_run_dir(uid: u32) -> PathBuf {
    let system = PathBuf::from(format!("/run/user/{uid}"));
    match fs::symlink_metadata(&system) {
        Ok(m) if m.is_dir() && m.uid() == uid && m.mode() & 0o077 == 0 => system.join("aish"),
        _ => PathBuf::from(format!("/tmp/aish-{uid}")),
    }
}

/// Takes a lock, waiting for whoever has it; its file is made (0600) if it is not there. The lock is
/// gone when the file is closed, however the process ends.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn lock_file(path: &Path) -> Result<Flock<File>> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .context(|| format!("cannot open {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, e)| Error::runtime(format!("cannot lock {}: {e}", path.display())))
}

/// Makes a directory (and its parents) for this user only.
///
/// # Errors
/// It cannot be made; the message names it.
pub fn make_dir(dir: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| {
            Error::runtime(format!("cannot make the directory {}: {e}", dir.display()))
                .hint("make it writable, or set AISH_HOME to a directory that is")
        })
}

/// Makes a 0700 directory and refuses one that somebody else could have put there.
fn private_dir(dir: &Path) -> Result<()> {
    if let Some(parent) = dir.parent() {
        make_dir(parent)?;
    }
    // Not recursive: `create` on an existing name fails, so that a symlink is looked at, never followed.
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => {
            return Err(Error::runtime(format!(
                "cannot make the directory {}: {e}",
                dir.display()
            ))
            .hint("make it writable, or set AISH_HOME to a directory that is"));
        }
    }
    let meta = fs::symlink_metadata(dir)
        .map_err(|e| Error::runtime(format!("cannot look at {}: {e}", dir.display())))?;
    check_private(dir, &meta)
}

fn check_private(dir: &Path, meta: &fs::Metadata) -> Result<()> {
    let uid = nix::unistd::getuid().as_raw();
    let fault = if meta.file_type().is_symlink() {
        "is a symbolic link".to_string()
    } else if !meta.is_dir() {
        "is no directory".to_string()
    } else if meta.uid() != uid {
        format!("belongs to uid {}, not to you ({uid})", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("is open to other users (mode {:04o})", meta.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(
        Error::runtime(format!("the socket directory {} {fault}", dir.display())).hint(
            "remove it (aish makes it anew, for you alone), or set AISH_HOME to another place",
        ),
    )
}

/// Those of the named variables that are set: all that a child of the daemon gets.
pub fn environment(names: &[&str]) -> Vec<(OsString, OsString)> {
    names
        .iter()
        .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
        .collect()
}

/// A variable of this process's environment; one that is set to nothing counts as unset.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The programs of that name on `PATH`, in the order in which a shell looks.
pub fn on_path(name: &str) -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // A relative entry depends on where one stands.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .filter(|file| fs::metadata(file).is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0))
        .collect()
}

/// FNV-1a: a short name that is the same every time; not for security, the directory is checked.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}
