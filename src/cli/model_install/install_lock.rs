//! The directory of the installed models, and the lock that an installation holds.

use std::fs::File;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::{ErrorContext as _, Result};
use crate::paths::{Paths, make_dir};

/// The directory of the models, locked against other installations.
#[derive(Debug)]
pub struct LockedModels {
    /// The directory.
    pub dir: PathBuf,
    _lock: Flock<File>,
}

/// Returns the directory of the models. It may not exist.
pub fn models_dir(paths: &Paths) -> PathBuf {
    paths.data.join("models")
}

/// Creates and locks the directory of the models; says so if it has to wait.
///
/// # Errors
/// The directory cannot be created or locked.
pub fn lock_models(paths: &Paths, say: &mut dyn FnMut(&str)) -> Result<LockedModels> {
    let dir = models_dir(paths);
    make_dir(&dir)?;
    let failed = || format!("cannot lock {}", dir.display());
    // Concurrent installs would build in the same directory.
    let file = File::open(&dir).context(|| format!("cannot open {}", dir.display()))?;
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Err((file, Errno::EWOULDBLOCK)) => {
            say("Waiting for another installation to end …");
            Flock::lock(file, FlockArg::LockExclusive)
        }
        result => result,
    };
    let _lock = lock.map_err(|(_, e)| e).context(failed)?;
    Ok(LockedModels { dir, _lock })
}
