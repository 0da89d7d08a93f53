//! The private temporary directory of a sandbox.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorContext, Result};

/// Attempts to find a free name.
const ATTEMPTS: u32 = 16;

/// Maximum number of entries that are measured; more count as too large.
const MAX_ENTRIES: usize = 200_000;

/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// A directory that is removed with its content.
pub(super) struct PrivateTmp {
    path: PathBuf,
}

impl PrivateTmp {
    /// Creates it, with mode 0700.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub(super) fn create() -> Result<PrivateTmp> {
        let parent = std::env::temp_dir();
        let parent = parent
            .canonicalize()
            .context(|| format!("cannot open {}", parent.display()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos());
        for attempt in 0..ATTEMPTS {
            let name = format!("aish-sandbox-{}-{now:x}-{attempt}", std::process::id());
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(PrivateTmp { path }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(Error::runtime(format!(
                        "cannot create a directory in {}: {e}",
                        parent.display()
                    )));
                }
            }
        }
        Err(Error::runtime(format!(
            "cannot find a free name in {}",
            parent.display()
        )))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the content takes more than `bytes` on disk.
    pub(super) fn exceeds(&self, bytes: u64) -> bool {
        let mut pending = vec![self.path.clone()];
        let (mut used, mut entries) = (0u64, 0usize);
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                entries += 1;
                // Not through symlinks.
                let Ok(meta) = entry.metadata() else { continue };
                used = used.saturating_add(meta.blocks().saturating_mul(BLOCK));
                if used > bytes || entries > MAX_ENTRIES {
                    return true;
                }
                if meta.is_dir() {
                    pending.push(entry.path());
                }
            }
        }
        false
    }
}

impl Drop for PrivateTmp {
    fn drop(&mut self) {
        // What cannot be removed stays in a directory that only this user can open.
        let _ = fs::remove_dir_all(&self.path);
    }
}
