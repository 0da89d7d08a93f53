//! The register of shares: one file, replaced and synced before anything is published, so that after a crash every page that
//! may exist is listed and can be removed.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::object::ShareObject;
use super::s3::S3Place;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::protocol::SharePhase;

/// Maximum size of the register, in bytes.
const MAX_FILE: u64 = 8 << 20;
/// Held while the register is changed, so that no entry is lost.
static CHANGES: Mutex<()> = Mutex::new(());

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
    /// Where its page is.
    #[serde(default)]
    pub place: SharePlace,
    /// The session is shared after each answer, not manually.
    #[serde(default)]
    pub is_automatic: bool,
    /// Number of its recordings, each a separate object beside the page.
    #[serde(default)]
    pub recordings: usize,
}

impl Share {
    /// Returns the objects of the share in the order in which they are published: the page, which links the others, last.
    pub fn objects(&self) -> impl Iterator<Item = ShareObject> + use<> {
        let recordings = (1..=self.recordings).map(ShareObject::Recording);
        recordings.chain([ShareObject::Page])
    }
}

/// Where the page of a share is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "snake_case")]
pub enum SharePlace {
    /// On this machine.
    #[default]
    Local,
    /// In a bucket.
    S3(Box<S3Place>),
}

impl SharePlace {
    /// Whether an object here belongs to the same target as one there.
    pub fn is_same_target(&self, other: &SharePlace) -> bool {
        match (self, other) {
            (SharePlace::Local, SharePlace::Local) => true,
            (SharePlace::S3(one), SharePlace::S3(other)) => one.is_same_bucket(other),
            _ => false,
        }
    }
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Entries {
    shares: Vec<Share>,
    /// The sessions that are no longer shared automatically.
    #[serde(default)]
    stopped: Vec<String>,
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
        Ok(self.read()?.shares)
    }

    /// Returns the shares of a session, oldest first.
    ///
    /// # Errors
    /// As for [`ShareRegister::list`].
    pub fn of_session(&self, session: &str) -> Result<Vec<Share>> {
        let mut shares = self.list()?;
        shares.retain(|share| share.session == session);
        Ok(shares)
    }

    /// Whether a session is no longer shared automatically.
    ///
    /// # Errors
    /// As for [`ShareRegister::list`].
    pub fn is_stopped(&self, session: &str) -> Result<bool> {
        let stopped = self.read()?.stopped;
        Ok(stopped.iter().any(|known| known == session))
    }

    fn read(&self) -> Result<Entries> {
        self.entries().map_err(|error| {
            let file = self.file.display();
            error.hint(format!(
                "it lists the shared pages, of which none can be removed without it, and those in a bucket may still be readable: \
                 look for them there, then move the file aside and try again: mv {file} {file}.damaged (aish then removes the \
                 pages on this machine)"
            ))
        })
    }

    fn entries(&self) -> Result<Entries> {
        let what = || format!("cannot read {}", self.file.display());
        let file = match paths::read_own(&self.file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Entries::default()),
            file => file.context(what)?,
        };
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).context(what)?;
        let damaged = |e: serde_json::Error| {
            // The message of the parser can name types of this program, and says nothing that helps.
            let (file, line) = (self.file.display(), e.line());
            Error::runtime(format!("{file} is damaged at line {line}"))
        };
        // As it was at first.
        if text.trim_ascii_start().starts_with(b"[") {
            let shares = serde_json::from_slice(&text).map_err(damaged)?;
            return Ok(Entries {
                shares,
                stopped: Vec::new(),
            });
        }
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Adds or replaces a share, synced.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn put(&self, share: &Share) -> Result<()> {
        self.change(
            |entries| match entries.shares.iter_mut().find(|known| known.id == share.id) {
                Some(known) => known.clone_from(share),
                None => entries.shares.push(share.clone()),
            },
        )
    }

    /// Forgets a share whose page is gone.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.change(|entries| entries.shares.retain(|known| known.id != id))
    }

    /// Records that a session is no longer shared automatically.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn stop(&self, session: &str) -> Result<()> {
        match self.is_stopped(session)? {
            true => Ok(()),
            false => self.change(|entries| entries.stopped.push(session.to_owned())),
        }
    }

    /// Forgets a session that is deleted.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn forget_session(&self, session: &str) -> Result<()> {
        match self.is_stopped(session)? {
            true => self.change(|entries| entries.stopped.retain(|known| known != session)),
            false => Ok(()),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Entries)) -> Result<()> {
        let _held = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.read()?;
        change(&mut entries);
        self.write(&entries)
    }

    fn write(&self, entries: &Entries) -> Result<()> {
        if let Some(dir) = self.file.parent() {
            fs::create_dir_all(dir).context(|| format!("cannot create {}", dir.display()))?;
        }
        let text = serde_json::to_vec_pretty(entries)
            .map_err(|e| Error::runtime(format!("cannot write the register of shares: {e}")))?;
        paths::replace_file(&self.file, &text)
            .context(|| format!("cannot write {}", self.file.display()))
    }
}
