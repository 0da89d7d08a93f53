//! The register of shares: one file, replaced and synced before anything is published, so that after a crash every page that
//! may exist is listed and can be removed.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::protocol::SharePhase;

/// Maximum size of the register, in bytes.
const MAX_FILE: u64 = 8 << 20;

/// A share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its id, 128 random bits: who knows it can read the page.
    pub id: String,
    /// The session.
    pub session: String,
    /// The title of the session at that time.
    pub title: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
    /// SHA-256 of what is shown.
    pub digest: String,
    /// Its state.
    pub phase: SharePhase,
}

/// All shares.
#[derive(Debug, Clone)]
pub struct ShareRegister {
    file: PathBuf,
}

impl ShareRegister {
    /// Returns the register of the user.
    pub fn new(paths: &Paths) -> ShareRegister {
        ShareRegister {
            file: paths.data.join("shares.json"),
        }
    }

    /// Returns all shares, oldest first.
    ///
    /// # Errors
    /// The file cannot be read. A share that is not known could not be removed, so nothing is shared then.
    pub fn list(&self) -> Result<Vec<Share>> {
        let what = || format!("cannot read {}", self.file.display());
        let file = match paths::read_own(&self.file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.context(what)?,
        };
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).context(what)?;
        serde_json::from_slice(&text).context(what)
    }

    /// Adds or replaces a share, synced.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn put(&self, share: &Share) -> Result<()> {
        let mut shares = self.list()?;
        shares.retain(|known| known.id != share.id);
        shares.push(share.clone());
        self.write(&shares)
    }

    /// Forgets a share whose page is gone.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, id: &str) -> Result<()> {
        let mut shares = self.list()?;
        shares.retain(|known| known.id != id);
        self.write(&shares)
    }

    fn write(&self, shares: &[Share]) -> Result<()> {
        if let Some(dir) = self.file.parent() {
            fs::create_dir_all(dir).context(|| format!("cannot create {}", dir.display()))?;
        }
        let text = serde_json::to_vec_pretty(shares)
            .map_err(|e| Error::runtime(format!("cannot write the register of shares: {e}")))?;
        paths::replace_file(&self.file, &text)
            .context(|| format!("cannot write {}", self.file.display()))
    }
}
