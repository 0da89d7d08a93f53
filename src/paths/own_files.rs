//! Checks of the files and directories that belong to aish alone: another user must not have prepared them, and must not be
//! able to replace them.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use super::{Paths, make_dir};
use crate::error::{Error, ErrorContext, Result};

const GROUP_AND_OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Opens a file that belongs to aish alone; a new one gets mode 0600. An existing one that was open to other users becomes
/// private.
///
/// # Errors
/// The file cannot be opened, is not a regular file, belongs to another user, or has another name.
pub fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // O_NONBLOCK: a FIFO of that name must not block the daemon.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = options.mode(0o600).custom_flags(flags.bits()).open(path);
    let refused = |fault: &str| {
        let message = format!("it {fault}: another program may have prepared it, remove it");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    let file = match opened {
        Err(e) if e.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(refused("is a symbolic link"));
        }
        opened => opened?,
    };
    // Of the open file, so that the file that is checked is the file that is used.
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(refused("is not a regular file"));
    }
    if meta.uid() != geteuid().as_raw() {
        return Err(refused(&format!("belongs to uid {}", meta.uid())));
    }
    if meta.nlink() > 1 {
        return Err(refused("has a second name"));
    }
    if meta.mode() & GROUP_AND_OTHERS != 0 {
        let mode = meta.mode() & 0o7777;
        tracing::warn!(
            "{} was open to other users (mode {mode:04o}) and is private now",
            path.display()
        );
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a file as [`open_own`] does, for reading.
///
/// # Errors
/// As for [`open_own`].
pub fn read_own(path: &Path) -> io::Result<File> {
    open_own(OpenOptions::new().read(true), path)
}

/// Creates a FIFO (0600), or uses one of this user that exists.
///
/// # Errors
/// Another file exists at the path, or the FIFO cannot be created.
pub fn make_fifo(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if is_own_fifo(&meta) => return Ok(()),
        Ok(_) => {
            return Err(Error::runtime(format!(
                "{} is in the way: it is not a FIFO of yours",
                path.display()
            ))
            .hint("remove it"));
        }
        Err(_) => {}
    }
    nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)
        .context(|| format!("cannot create the FIFO {}", path.display()))
}

/// Returns whether a file, whose metadata were not read through a link, is a FIFO of this user.
pub fn is_own_fifo(meta: &Metadata) -> bool {
    meta.file_type().is_fifo() && meta.uid() == geteuid().as_raw()
}

/// Creates the directories for data and state, and checks them, the one for the configuration, and those above them.
///
/// # Errors
/// Another user could have prepared one of them, or can replace it.
pub(super) fn check_dirs(paths: &Paths) -> Result<()> {
    for dir in [&paths.data, &paths.state] {
        // Answers do not depend on a history that can be written.
        if make_dir(dir).is_err() {
            continue;
        }
        make_private(dir)?;
        let inside = fs::read_dir(dir).context(|| format!("cannot list {}", dir.display()))?;
        for entry in inside.flatten() {
            // Files are checked when they are opened.
            if entry.file_type().is_ok_and(|kind| !kind.is_file()) && entry.path().is_dir() {
                make_private(&entry.path())?;
            }
        }
    }
    if paths.config.exists() {
        let meta = check_dir(&paths.config)?;
        if meta.mode() & 0o002 != 0 {
            return Err(fault(&paths.config, "may be written by other users"));
        }
    }
    Ok(())
}

/// Checks a directory as [`check_dir`] does, and takes the permissions of other users away.
fn make_private(dir: &Path) -> Result<()> {
    let meta = check_dir(dir)?;
    if meta.mode() & GROUP_AND_OTHERS != 0 {
        let mode = meta.mode() & 0o7777;
        tracing::warn!(
            "{} was open to other users (mode {mode:04o}) and is private now",
            dir.display()
        );
        fs::set_permissions(dir, Permissions::from_mode(0o700))
            .context(|| format!("cannot make {} private", dir.display()))?;
    }
    Ok(())
}

/// Checks the owner of a directory and the directories above it. A symlink of the user or of root is followed.
fn check_dir(dir: &Path) -> Result<Metadata> {
    let inspect = || format!("cannot inspect {}", dir.display());
    let is_trusted = |meta: &Metadata| [0, geteuid().as_raw()].contains(&meta.uid());
    let link = fs::symlink_metadata(dir).context(inspect)?;
    let meta = fs::metadata(dir).context(inspect)?;
    if !is_trusted(&link) || meta.uid() != geteuid().as_raw() {
        return Err(fault(dir, &format!("belongs to uid {}", meta.uid())));
    }
    let real = fs::canonicalize(dir).context(inspect)?;
    for (named, place) in [dir, &real].into_iter().flat_map(|path| {
        let above = path.ancestors().skip(1).filter(|above| above.is_absolute());
        above.map(move |above| (path, above))
    }) {
        let meta = fs::metadata(place).context(inspect)?;
        if meta.mode() & 0o002 != 0 && meta.mode() & STICKY == 0 {
            return Err(fault(place, "may be written by other users"));
        }
        // The owner of the parent directory can replace the directory by another one.
        if named.parent() == Some(place) && !is_trusted(&meta) {
            return Err(fault(place, &format!("belongs to uid {}", meta.uid())));
        }
    }
    Ok(meta)
}

fn fault(dir: &Path, fault: &str) -> Error {
    Error::runtime(format!("the directory {} {fault}", dir.display())).hint(
        "correct its owner and its mode (chmod go-w), or set AISH_HOME to a directory of your own",
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn append(path: &Path) -> io::Result<File> {
        open_own(OpenOptions::new().append(true).create(true), path)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn prepared_file_is_refused_or_made_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        append(&path("new")).unwrap().write_all(b"x").unwrap();
        assert_eq!(mode(&path("new")), 0o600);
        set_mode(&path("new"), 0o666);
        append(&path("new")).unwrap();
        assert_eq!(mode(&path("new")), 0o600);
        symlink(path("new"), path("link")).unwrap();
        symlink(path("missing"), path("dangling")).unwrap();
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(path("one"), "").unwrap();
        fs::hard_link(path("one"), path("two")).unwrap();
        for name in ["link", "dangling", "fifo", "two"] {
            append(&path(name)).expect_err(name);
        }
        assert!(!path("missing").exists());
        if geteuid().is_root() {
            fs::write(path("other"), "").unwrap();
            std::os::unix::fs::chown(path("other"), Some(1), None).unwrap();
            let e = append(&path("other")).unwrap_err();
            assert!(e.to_string().contains("belongs to uid 1"), "{e}");
        }
    }

    /// The result of the check after `prepare` has changed something in a home.
    fn checked(prepare: impl FnOnce(&Path)) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::create_dir(home.join("config")).unwrap();
        prepare(&home);
        let paths = Paths::under(&home, geteuid().as_raw()).unwrap();
        check_dirs(&paths)?;
        assert_eq!([mode(&paths.data), mode(&paths.state)], [0o700, 0o700]);
        // The directory of the test is removed after the check.
        Ok(())
    }

    #[test]
    fn directory_that_another_user_controls_is_refused() {
        checked(|_| {}).unwrap();
        checked(|home| {
            fs::create_dir(home.join("state")).unwrap();
            set_mode(&home.join("state"), 0o777);
        })
        .unwrap();
        // A directory of dotfiles.
        checked(|home| {
            fs::remove_dir(home.join("config")).unwrap();
            fs::create_dir(home.join("dotfiles")).unwrap();
            symlink(home.join("dotfiles"), home.join("config")).unwrap();
        })
        .unwrap();
        checked(|home| set_mode(home, 0o1777)).unwrap();
        checked(|home| set_mode(home, 0o777)).unwrap_err();
        checked(|home| set_mode(&home.join("config"), 0o777)).unwrap_err();
        // Through a symlink, the directory above the real one counts.
        checked(|home| {
            fs::create_dir_all(home.join("open/data")).unwrap();
            set_mode(&home.join("open"), 0o777);
            symlink(home.join("open/data"), home.join("data")).unwrap();
        })
        .unwrap_err();
        checked(|home| {
            fs::create_dir_all(home.join("data")).unwrap();
            fs::create_dir_all(home.join("open/journal")).unwrap();
            set_mode(&home.join("open"), 0o777);
            symlink(home.join("open/journal"), home.join("data/journal")).unwrap();
        })
        .unwrap_err();
        // A directory of another time or program becomes private.
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path(), geteuid().as_raw()).unwrap();
        fs::create_dir_all(paths.data.join("journal")).unwrap();
        set_mode(&paths.data.join("journal"), 0o777);
        check_dirs(&paths).unwrap();
        assert_eq!(mode(&paths.data.join("journal")), 0o700);
        if geteuid().is_root() {
            for name in ["", "config", "data/journal"] {
                let chown = |home: &Path| {
                    fs::create_dir_all(home.join(name)).unwrap();
                    std::os::unix::fs::chown(home.join(name), Some(1), None).unwrap();
                };
                let e = checked(chown).unwrap_err();
                assert!(e.message.contains("belongs to uid 1"), "{e}");
            }
        }
    }
}
