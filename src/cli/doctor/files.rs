//! Who may read and change what aish keeps, and whether it can keep more.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access, getuid};

use super::Check;
use crate::paths::Paths;

/// A journal needs little, but a disk this full is full within the day.
const LITTLE: u64 = 16 << 20;

/// Are the directories the user's own, and closed to others?
pub(super) fn permissions(paths: &Paths) -> Vec<Check> {
    let private = [
        (&*paths.state, "it holds the log"),
        (&paths.journal(), "it holds your conversations"),
        (&paths.keys(), "it holds your keys"),
    ];
    let mut faults: Vec<Check> = private
        .iter()
        .filter_map(|(dir, why)| fault(dir, Some(why)))
        .collect();
    // Many keep their configuration where others may read it; the keys are not in it. The plugin is
    // installed beside the journal, for anyone to read.
    faults.extend(fault(&paths.config, None));
    faults.extend(fault(&paths.data, None));
    for entry in fs::read_dir(paths.keys()).into_iter().flatten().flatten() {
        faults.extend(fault(&entry.path(), Some("it is a key")));
    }
    if faults.is_empty() {
        faults.push(Check::ok(
            "permissions",
            format!(
                "nobody else may read {} and {}, or change {}",
                paths.journal().display(),
                paths.state.display(),
                paths.config.display()
            ),
        ));
    }
    faults
}

/// What is wrong with a file or directory. One that does not exist is made right when it is needed.
fn fault(path: &Path, private: Option<&str>) -> Option<Check> {
    let shown = path.display();
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            return Some(Check::fail(
                "permissions",
                format!("cannot look at {shown}: {e}"),
                "make it yours, or set AISH_HOME to a directory that is",
            ));
        }
    };
    let uid = getuid().as_raw();
    let mode = meta.mode() & 0o7777;
    if meta.uid() != uid {
        return Some(Check::fail(
            "permissions",
            format!("{shown} belongs to uid {}, not to you ({uid})", meta.uid()),
            "make it yours with chown, or set AISH_HOME to another directory",
        ));
    }
    let remedy = format!("run: chmod go-rwx {shown}");
    if mode & 0o022 != 0 {
        let message = format!("others may change {shown} (mode {mode:04o})");
        return Some(Check::fail("permissions", message, remedy));
    }
    let why = private.filter(|_| mode & 0o077 != 0)?;
    let message = format!("others may read {shown} (mode {mode:04o}): {why}");
    Some(Check::warn("permissions", message, remedy))
}

/// Can a conversation be recorded?
pub(super) fn journal(paths: &Paths) -> Check {
    let journal = paths.journal();
    // It is made with the first conversation: until then, what counts is where that happens.
    let Some(place) = journal.ancestors().find(|dir| dir.exists()) else {
        return Check::fail(
            "journal",
            format!("{} has no directory to be in", journal.display()),
            "set AISH_HOME to a directory that exists",
        );
    };
    let shown = place.display();
    let remedy = "make it writable, or set AISH_HOME to a directory that is";
    if !place.is_dir() {
        return Check::fail("journal", format!("{shown} is no directory"), "remove it");
    }
    if let Err(e) = access(place, AccessFlags::W_OK | AccessFlags::X_OK) {
        return Check::fail("journal", format!("cannot write in {shown}: {e}"), remedy);
    }
    match statvfs(place) {
        Ok(disk) if free(&disk) < LITTLE => Check::fail(
            "journal",
            format!("the disk of {shown} is full"),
            "make room, or set AISH_HOME to a directory on another disk",
        ),
        _ => Check::ok("journal", format!("{} can be written", journal.display())),
    }
}

/// Bytes that this user may still write.
#[allow(
    clippy::useless_conversion,
    reason = "the types differ between systems"
)]
fn free(disk: &nix::sys::statvfs::Statvfs) -> u64 {
    u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_open_to_others_is_told() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let states = || -> Vec<State> { permissions(&paths).iter().map(|c| c.state).collect() };
        assert_eq!(states(), [State::Ok], "what is not there is not wrong");
        for dir in [&paths.config, &paths.journal(), &paths.state, &paths.keys()] {
            crate::paths::make_dir(dir).unwrap();
        }
        assert_eq!(states(), [State::Ok]);
        mode(&paths.config, 0o755);
        assert_eq!(states(), [State::Ok], "a configuration may be read");
        mode(&paths.data, 0o755);
        assert_eq!(states(), [State::Ok], "the plugin in it may be read");
        mode(&paths.journal(), 0o755);
        assert_eq!(states(), [State::Warn]);
        mode(&paths.config, 0o775);
        assert_eq!(states(), [State::Warn, State::Fail]);
        let key = paths.keys().join("openai");
        fs::write(&key, "sk-1").unwrap();
        mode(&key, 0o644);
        let last = permissions(&paths).pop().unwrap();
        assert_eq!(last.state, State::Warn);
        assert!(!format!("{last:?}").contains("sk-1"));
    }

    #[test]
    fn a_journal_needs_a_directory() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("not/yet"), 1).unwrap();
        assert_eq!(journal(&paths).state, State::Ok);
        fs::write(home.path().join("not"), "").unwrap();
        assert_eq!(journal(&paths).state, State::Fail);
    }
}
