//! Checks of the directories of aish: their permissions, and whether the journal can be written.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access, getuid};

use super::{CheckResult, CheckState};
use crate::cli::status::format_bytes;
use crate::paths::Paths;
use crate::share::register::ShareRegister;

/// Free space below which the disk counts as full, and below which it soon may be, in bytes.
const FULL_BYTES: u64 = 64 << 10;
const MIN_FREE_BYTES: u64 = 16 << 20;

/// Checks that the directories belong to the user and that others cannot read or change them.
pub(super) fn permissions(paths: &Paths) -> Vec<CheckResult> {
    let private = [
        (&*paths.state, "it holds the log"),
        (&paths.journal(), "it holds your sessions"),
        (&paths.keys(), "it holds your keys"),
    ];
    let mut faults: Vec<CheckResult> = private
        .iter()
        .filter_map(|(dir, content)| permission_fault(dir, Some(content)))
        .collect();
    // The configuration has no keys in it and is often readable by others. The plugin is installed beside the journal,
    // readable by everyone.
    faults.extend(permission_fault(&paths.config, None));
    faults.extend(permission_fault(&paths.data, None));
    for entry in fs::read_dir(paths.keys()).into_iter().flatten().flatten() {
        faults.extend(permission_fault(&entry.path(), Some("it is a key")));
    }
    if faults.is_empty() {
        faults.push(CheckResult::ok(
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

/// Returns what is wrong with a file or directory. `private` describes content that others must not read. A directory that
/// does not exist is not a fault, because it is created with the right permissions.
fn permission_fault(path: &Path, private: Option<&str>) -> Option<CheckResult> {
    let shown = path.display();
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            return Some(CheckResult::fail(
                "permissions",
                format!("cannot inspect {shown}: {e}"),
                "change its owner to yourself, or set AISH_HOME to a directory that you own",
            ));
        }
    };
    let uid = getuid().as_raw();
    let mode = meta.mode() & 0o7777;
    if meta.uid() != uid {
        return Some(CheckResult::fail(
            "permissions",
            format!("{shown} belongs to uid {}, not to you ({uid})", meta.uid()),
            "change its owner to yourself with chown, or set AISH_HOME to another directory",
        ));
    }
    let remedy = format!("run: chmod go-rwx {shown}");
    if mode & 0o022 != 0 {
        let message = format!("others may change {shown} (mode {mode:04o})");
        return Some(CheckResult::fail("permissions", message, remedy));
    }
    let content = private.filter(|_| mode & 0o077 != 0)?;
    let message = format!("others may read {shown} (mode {mode:04o}): {content}");
    Some(CheckResult::warn("permissions", message, remedy))
}

/// Checks that the journal can be written.
pub(super) fn journal(paths: &Paths) -> CheckResult {
    let journal = paths.journal();
    // The directory is created with the first session; until then, its nearest ancestor counts.
    let Some(dir) = journal.ancestors().find(|dir| dir.exists()) else {
        return CheckResult::fail(
            "journal",
            format!("no parent directory of {} exists", journal.display()),
            "set AISH_HOME to a directory that exists",
        );
    };
    let shown = dir.display();
    let remedy = "make it writable, or set AISH_HOME to a directory that is";
    if !dir.is_dir() {
        return CheckResult::fail(
            "journal",
            format!("{shown} is not a directory"),
            "remove it",
        );
    }
    if let Err(e) = access(dir, AccessFlags::W_OK | AccessFlags::X_OK) {
        return CheckResult::fail("journal", format!("cannot write in {shown}: {e}"), remedy);
    }
    let writable = || CheckResult::ok("journal", format!("{} can be written", journal.display()));
    match statvfs(dir) {
        Ok(disk) => match space_fault(free_bytes(&disk)) {
            Some((state, space)) => CheckResult {
                state,
                ..CheckResult::fail(
                    "journal",
                    format!("the disk of {shown} {space}"),
                    "delete files, or set AISH_HOME to a directory on another disk",
                )
            },
            None => writable(),
        },
        Err(_) => writable(),
    }
}

/// Returns what is wrong with a disk that has this much free space.
fn space_fault(free: u64) -> Option<(CheckState, String)> {
    match free {
        0..FULL_BYTES => Some((CheckState::Fail, "is full".to_owned())),
        FULL_BYTES..MIN_FREE_BYTES => {
            let free = format_bytes(free);
            Some((CheckState::Warn, format!("has only {free} left")))
        }
        _ => None,
    }
}

/// Returns what is wrong with the register of shares. It does not exist before the first share.
pub(super) fn shares(paths: &Paths) -> Option<CheckResult> {
    let listed = ShareRegister::new(paths).list();
    listed.err().map(|e| CheckResult::error("shares", &e))
}

/// Returns the free space for this user.
#[allow(
    clippy::useless_conversion,
    reason = "the types differ between systems"
)]
fn free_bytes(disk: &nix::sys::statvfs::Statvfs) -> u64 {
    u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn permissions_of_others_are_reported() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let states =
            || -> Vec<CheckState> { permissions(&paths).iter().map(|c| c.state).collect() };
        assert_eq!(
            states(),
            [CheckState::Ok],
            "absent directories are not a fault"
        );
        for dir in [&paths.config, &paths.journal(), &paths.state, &paths.keys()] {
            crate::paths::make_dir(dir).unwrap();
        }
        assert_eq!(states(), [CheckState::Ok]);
        mode(&paths.config, 0o755);
        assert_eq!(
            states(),
            [CheckState::Ok],
            "others may read the configuration"
        );
        mode(&paths.data, 0o755);
        assert_eq!(states(), [CheckState::Ok], "others may read the plugin");
        mode(&paths.journal(), 0o755);
        assert_eq!(states(), [CheckState::Warn]);
        mode(&paths.config, 0o775);
        assert_eq!(states(), [CheckState::Warn, CheckState::Fail]);
        let key = paths.keys().join("openai");
        fs::write(&key, "sk-1").unwrap();
        mode(&key, 0o644);
        let last = permissions(&paths).pop().unwrap();
        assert_eq!(last.state, CheckState::Warn);
        assert!(!format!("{last:?}").contains("sk-1"));
    }

    #[test]
    fn a_small_disk_with_free_space_is_not_called_full() {
        assert_eq!(space_fault(0).unwrap().0, CheckState::Fail);
        let (state, words) = space_fault(4 << 20).unwrap();
        assert_eq!(
            (state, &*words),
            (CheckState::Warn, "has only 4.0 MiB left")
        );
        assert_eq!(space_fault(1 << 30), None);
    }

    #[test]
    fn a_damaged_register_of_shares_is_a_fault_with_a_remedy() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        assert_eq!(shares(&paths), None);
        fs::create_dir_all(&paths.data).unwrap();
        let file = paths.data.join("shares.json");
        for damaged in ["", "{}", "[{", "{\"shares\": 1}"] {
            fs::write(&file, damaged).unwrap();
            let check = shares(&paths).unwrap();
            assert_eq!(check.state, CheckState::Fail, "{damaged}");
            let remedy = check.remedy.unwrap();
            assert!(
                remedy.contains("bucket") && remedy.contains("mv "),
                "{remedy}"
            );
        }
        fs::write(&file, "[]").unwrap();
        assert_eq!(shares(&paths), None);
    }

    #[test]
    fn journal_below_a_file_is_a_fault() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("not/yet"), 1).unwrap();
        assert_eq!(journal(&paths).state, CheckState::Ok);
        fs::write(home.path().join("not"), "").unwrap();
        assert_eq!(journal(&paths).state, CheckState::Fail);
    }
}
