//! Shares that the HTTP server serves: a file for each page, in a directory that only the user can read.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::page;
use super::register::{Share, ShareRegister};
use super::snapshot::Snapshot;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::protocol::SharePhase;

/// Length of an id, in hexadecimal digits.
const ID: usize = 32;
/// Held while shares are changed, so that no entry of the register is lost.
static CHANGES: Mutex<()> = Mutex::new(());
/// Maximum size of a page that is served, in bytes.
const MAX_PAGE: u64 = 64 << 20;

/// The local shares of the user.
#[derive(Debug, Clone)]
pub struct LocalShares {
    register: ShareRegister,
    dir: PathBuf,
}

impl LocalShares {
    /// Returns the shares of the user.
    pub fn new(paths: &Paths) -> LocalShares {
        LocalShares {
            register: ShareRegister::new(paths),
            dir: paths.data.join("shares"),
        }
    }

    /// Returns all shares, oldest first.
    ///
    /// # Errors
    /// The register cannot be read.
    pub fn list(&self) -> Result<Vec<Share>> {
        self.register.list()
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.html"))
    }

    /// Publishes a snapshot. A share that the session has already is removed first, so that one address is valid at a time.
    ///
    /// # Errors
    /// The register or the page cannot be written.
    pub fn publish(&self, session: &str, snapshot: &Snapshot, now_ms: u64) -> Result<Share> {
        let _held = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        self.remove(session)?;
        let mut share = Share {
            id: uuid::Uuid::new_v4().simple().to_string(),
            session: session.to_owned(),
            title: snapshot.title.clone(),
            created_ms: now_ms,
            digest: snapshot.digest(),
            phase: SharePhase::Publishing,
        };
        self.register.put(&share)?;
        paths::make_dir(&self.dir)?;
        let file = self.file(&share.id);
        paths::replace_file(&file, page::render(snapshot).as_bytes())
            .context(|| format!("cannot write {}", file.display()))?;
        share.phase = SharePhase::Published;
        self.register.put(&share)?;
        Ok(share)
    }

    /// Removes the shares of a session, and verifies that their pages are gone. Returns how many there were.
    ///
    /// # Errors
    /// The register cannot be read or written, or a page cannot be removed; the share stays listed then.
    pub fn unshare(&self, session: &str) -> Result<usize> {
        let _held = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        self.remove(session)
    }

    fn remove(&self, session: &str) -> Result<usize> {
        let shares = self.register.list()?;
        let of_session: Vec<Share> = shares
            .into_iter()
            .filter(|share| share.session == session)
            .collect();
        for share in &of_session {
            self.register.put(&Share {
                phase: SharePhase::Removing,
                ..share.clone()
            })?;
            let file = self.file(&share.id);
            match fs::remove_file(&file) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(e).context(|| format!("cannot remove {}", file.display()));
                }
                _ => {}
            }
            if fs::symlink_metadata(&file).is_ok() {
                return Err(Error::runtime(format!(
                    "the page {} is still there",
                    file.display()
                )));
            }
            self.register.remove(&share.id)?;
        }
        Ok(of_session.len())
    }

    /// Returns the page of a published share.
    ///
    /// # Errors
    /// The register or the page cannot be read.
    pub fn page(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let is_id = id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Ok(None);
        }
        let shares = self.register.list()?;
        let is_published = |share: &Share| share.id == id && share.phase == SharePhase::Published;
        if !shares.iter().any(is_published) {
            return Ok(None);
        }
        let mut text = Vec::new();
        let file = self.file(id);
        let read =
            paths::read_own(&file).and_then(|file| file.take(MAX_PAGE).read_to_end(&mut text));
        match read {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            read => {
                read.context(|| format!("cannot read {}", file.display()))?;
                Ok(Some(text))
            }
        }
    }
}
