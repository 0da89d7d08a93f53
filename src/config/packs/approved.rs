//! The packs of projects that a person has approved, by digest, kept in the state directory.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::paths::{Paths, make_dir, read_own, replace_file};

fn path(paths: &Paths) -> PathBuf {
    paths.state.join("packs-approved.json")
}

/// What another user could have written says nothing.
fn digests(paths: &Paths) -> BTreeSet<String> {
    let text = read_own(&path(paths)).and_then(io::read_to_string);
    serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
}

/// Whether a person has approved the pack with this digest.
pub fn is_approved(paths: &Paths, sha256: &str) -> bool {
    digests(paths).contains(sha256)
}

/// Stores that a person has read the pack with this digest and wants to use it.
///
/// # Errors
/// The state directory cannot be written.
pub fn approve(paths: &Paths, sha256: &str) -> Result<()> {
    make_dir(&paths.state)?;
    // Two clients may approve at the same time; only the daemon writes the file.
    static WRITER: Mutex<()> = Mutex::new(());
    let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let mut digests = digests(paths);
    if !digests.insert(sha256.to_owned()) {
        return Ok(());
    }
    let text = serde_json::to_string(&digests)
        .map_err(|e| Error::runtime(format!("cannot store the approval of a prompt pack: {e}")))?;
    replace_file(&path(paths), text.as_bytes())
}
