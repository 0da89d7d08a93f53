//! The run directory: it belongs to the user and to the directories of configuration, data and state, so that another
//! `HOME` has another daemon. The zsh plugin computes the same path without a fork (`_aish_load`).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

/// Returns `/run/user/UID/aish` if the system created that directory for this user, otherwise `/tmp/aish-UID`; with a suffix
/// unless the directories are the standard ones in the home that the user database names.
pub(super) fn of_user(uid: u32, dirs: [&Path; 3]) -> PathBuf {
    let home = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let is_standard = home.is_some_and(|user| {
        let parts = match cfg!(target_os = "macos") {
            true => ["Library/Application Support"; 3],
            false => [".config", ".local/share", ".local/state"],
        };
        let standard = parts.map(|part| user.dir.join(part).join("aish"));
        // As bytes: equal paths may be spelled differently, which the plugin does not see.
        standard
            .iter()
            .map(|d| d.as_os_str())
            .eq(dirs.map(Path::as_os_str))
    });
    let suffix = match is_standard {
        true => String::new(),
        false => format!("-{:08X}", digest(dirs)),
    };
    let system = PathBuf::from(format!("/run/user/{uid}"));
    match fs::symlink_metadata(&system) {
        Ok(m) if m.is_dir() && m.uid() == uid && m.mode() & 0o077 == 0 => {
            system.join(format!("aish{suffix}"))
        }
        _ => PathBuf::from(format!("/tmp/aish-{uid}{suffix}")),
    }
}

/// FNV-1a of the paths, joined with colons: short, and computable in zsh. Not used for security; the directory is checked.
fn digest(dirs: [&Path; 3]) -> u32 {
    let joined = dirs.map(|dir| dir.as_os_str().as_bytes()).join(&b':');
    joined.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
