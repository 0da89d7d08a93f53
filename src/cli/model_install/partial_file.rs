//! The file of an unfinished download, and the data needed to continue it.
//!
//! Both are in a directory of their own beside the target. The digest is computed while the file is written.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, ErrorContext as _, Result};
use crate::paths::{make_dir, replace_file};

/// Name of the file while it is incomplete.
const PART: &str = "model.gguf.part";
/// Name of the file that describes it.
const STATE: &str = "download.json";
/// Maximum size of the description.
const MAX_STATE: u64 = 64 << 10;
/// Number of first bytes that are kept.
const HEAD: usize = 16;
/// Number of bytes per read.
const BLOCK: usize = 1 << 20;

/// Which file is being downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DownloadState {
    /// The requested URL.
    pub url: String,
    /// Strong entity tag of the file.
    pub etag: Option<String>,
    /// Size of the file in bytes.
    pub total: Option<u64>,
    /// SHA-256 in hexadecimal that the server names.
    pub sha256: Option<String>,
}

/// An unfinished download.
#[derive(Debug)]
pub struct PartialFile {
    dir: PathBuf,
    file: File,
    state: DownloadState,
    length: u64,
    head: Vec<u8>,
    hash: Sha256,
}

impl PartialFile {
    /// Opens or creates the download of `url` in `dir`. An existing part is kept if it can be continued.
    ///
    /// # Errors
    /// The directory or the file cannot be created or read.
    pub async fn open(dir: &Path, url: &str) -> Result<PartialFile> {
        make_dir(dir)?;
        let path = dir.join(PART);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .context(|| format!("cannot open {}", path.display()))?;
        let mut partial = PartialFile {
            dir: dir.to_path_buf(),
            file,
            state: DownloadState::default(),
            length: 0,
            head: Vec::new(),
            hash: Sha256::new(),
        };
        match read_state(dir).filter(|state| state.url == url && state.etag.is_some()) {
            Some(state) => {
                partial.state = state;
                partial.read_kept().await?;
                if partial
                    .state
                    .total
                    .is_some_and(|total| partial.length > total)
                {
                    partial.clear(url)?;
                }
            }
            None => partial.clear(url)?,
        }
        Ok(partial)
    }

    /// Which file it is.
    pub fn state(&self) -> &DownloadState {
        &self.state
    }

    /// Number of bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether all bytes are there.
    pub fn is_complete(&self) -> bool {
        self.state.total == Some(self.length)
    }

    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Discards the downloaded part.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn clear(&mut self, url: &str) -> Result<()> {
        // First, so that a description never belongs to another content.
        match fs::remove_file(self.dir.join(STATE)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).context(|| self.failed());
            }
            _ => {}
        }
        self.file.set_len(0).context(|| self.failed())?;
        self.file.rewind().context(|| self.failed())?;
        self.state = DownloadState {
            url: url.to_owned(),
            ..DownloadState::default()
        };
        self.length = 0;
        self.head.clear();
        self.hash = Sha256::new();
        Ok(())
    }

    /// Writes down which file it is, before the first byte of it.
    ///
    /// # Errors
    /// The description cannot be written.
    pub fn describe(&mut self, state: DownloadState) -> Result<()> {
        let text = serde_json::to_vec(&state).context(|| self.failed())?;
        replace_file(&self.dir.join(STATE), &text)?;
        self.state = state;
        Ok(())
    }

    /// Appends bytes of the file.
    ///
    /// # Errors
    /// They cannot be written; the disk may be full.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| {
            Error::runtime(format!("{}: {e}", self.failed()))
                .hint("run the same command again; what was downloaded is kept")
        })?;
        self.take(bytes);
        Ok(())
    }

    /// Returns the digest of the downloaded part, in hexadecimal.
    pub fn sha256(&self) -> String {
        let digest = self.hash.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes the file to the disk for good, and gives it a name. Only it stays in the directory.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub fn complete(self, name: &str) -> Result<()> {
        self.file.sync_all().context(|| self.failed())?;
        let failed = || self.failed();
        fs::rename(self.dir.join(PART), self.dir.join(name)).context(failed)?;
        fs::remove_file(self.dir.join(STATE)).context(failed)
    }

    /// Reads the part that an earlier download has left. The write position is then at its end.
    async fn read_kept(&mut self) -> Result<()> {
        let mut block = vec![0; BLOCK];
        self.file
            .seek(SeekFrom::Start(0))
            .context(|| self.failed())?;
        loop {
            let n = self.file.read(&mut block).context(|| self.failed())?;
            if n == 0 {
                return Ok(());
            }
            self.take(block.get(..n).unwrap_or_default());
            // Ctrl-C ends this too.
            tokio::task::yield_now().await;
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        let missing = HEAD.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(missing));
    }

    fn failed(&self) -> String {
        format!("cannot write {}", self.dir.join(PART).display())
    }
}

/// Removes the directory of a download that has nothing to continue.
///
/// # Errors
/// It cannot be removed.
pub fn remove_if_empty(dir: &Path) -> Result<()> {
    let is_empty = fs::metadata(dir.join(PART)).is_ok_and(|file| file.len() == 0);
    match is_empty {
        true => fs::remove_dir_all(dir).context(|| format!("cannot remove {}", dir.display())),
        false => Ok(()),
    }
}

/// Returns the description of an unfinished download; `None` if there is none that can be read.
fn read_state(dir: &Path) -> Option<DownloadState> {
    let mut text = Vec::new();
    let file = File::open(dir.join(STATE)).ok()?;
    file.take(MAX_STATE).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
