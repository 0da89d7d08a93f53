//! Whether an access that failed in the sandbox would succeed without it.

use std::path::Path;

use rustix::fs::{Access, AtFlags};

use super::denials::{Denial, DeniedAccess};

/// Whether an access would succeed without the sandbox, as far as the permissions of the path tell, or of the nearest directory above it
/// if it is missing.
pub fn works_outside(denial: &Denial) -> bool {
    let Some(path) = &denial.path else {
        return true;
    };
    let allows = |path: &Path, access| {
        rustix::fs::accessat(rustix::fs::CWD, path, access, AtFlags::EACCESS).is_ok()
    };
    let exists = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
    let above = || path.ancestors().skip(1).find(exists);
    match (denial.access, exists(&path.as_path())) {
        (DeniedAccess::Read, true) => allows(path, Access::READ_OK),
        (DeniedAccess::Read, false) => above().is_some_and(|dir| allows(dir, Access::EXEC_OK)),
        // To remove a file, its directory is changed.
        (_, exists) => {
            exists && allows(path, Access::WRITE_OK)
                || above().is_some_and(|dir| allows(dir, Access::WRITE_OK | Access::EXEC_OK))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn permissions_of_the_path_decide() {
        let dir = tempfile::tempdir().unwrap();
        let denied = |access, path: PathBuf| Denial {
            access,
            path: Some(path),
        };
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for access in [DeniedAccess::Read, DeniedAccess::Write] {
            for path in [&file, &dir.path().join("missing/x")] {
                assert!(works_outside(&denied(access, path.clone())), "{access:?}");
            }
            // Not even root: a file is no directory.
            let nowhere = file.join("below");
            assert!(!works_outside(&denied(access, nowhere)), "{access:?}");
        }
    }
}
