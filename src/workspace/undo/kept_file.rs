//! One file with the old versions of the files of a commit.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use serde::{Deserialize, Serialize};

use super::{PathResolver, create_private, failed};
use crate::workspace::beneath::file_type;
use crate::workspace::changes::{
    ChangePlan, FileAttributes, FileDigest, FileSnapshot, FileVersion, PreparedChange,
    ReplaceMethod,
};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::{PathFault, PathResult, ResolvedPath, shown_path};

/// Extension of the file of a commit that may not be complete.
pub(super) const PENDING: &str = "pending";

/// Extension of the file of a complete commit.
pub(super) const KEPT: &str = "kept";

/// A path in JSON: text, or bytes where it is not UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum KeptPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl KeptPath {
    fn of(path: &Path) -> KeptPath {
        match path.to_str() {
            Some(text) => KeptPath::Text(text.to_owned()),
            None => KeptPath::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }

    fn into_path(self) -> PathBuf {
        match self {
            KeptPath::Text(text) => text.into(),
            KeptPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// A version of a file: what is compared with the file as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptVersion {
    sha256: FileDigest,
    /// Permission bits; `None` if the umask decided, and of a symbolic link.
    mode: Option<u32>,
    /// It is a symbolic link: the bytes are its text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_link: bool,
    /// Owner, mode and extended attributes of an old version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attributes: Option<FileAttributes>,
}

impl KeptVersion {
    fn of(before: &FileSnapshot) -> KeptVersion {
        let attributes = (!before.is_link).then(|| before.attributes().clone());
        KeptVersion {
            sha256: before.digest,
            mode: attributes.as_ref().map(FileAttributes::mode),
            is_link: before.is_link,
            attributes,
        }
    }
}

/// Manifest entry of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ManifestEntry {
    path: KeptPath,
    before: Option<KeptVersion>,
    after: Option<KeptVersion>,
    method: ReplaceMethod,
    temporary_names: Vec<String>,
    /// Length of the old bytes after the manifest.
    old_bytes: usize,
    /// Length of the new bytes after them, which only a file that is overwritten has.
    new_bytes: usize,
}

/// First line of a kept file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CommitManifest {
    version: u32,
    files: Vec<ManifestEntry>,
    directories: Vec<KeptPath>,
}

const VERSION: u32 = 1;

/// A kept file in memory.
pub(super) struct KeptFile {
    pub entries: Vec<KeptEntry>,
    /// Directories that the commit created, outer ones first.
    pub directories: Vec<PathBuf>,
}

/// The old version of one file.
#[derive(Debug, Clone)]
pub(super) struct KeptEntry {
    pub path: PathBuf,
    before: Option<KeptVersion>,
    after: Option<KeptVersion>,
    method: ReplaceMethod,
    /// Names in the directory of the file that the commit used.
    pub temporary_names: Vec<String>,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Writes what a commit is about to change, synced.
pub(super) fn write(path: &Path, plan: &ChangePlan<'_>) -> Result<(), WorkspaceError> {
    let mut files = Vec::new();
    let mut blobs: Vec<&[u8]> = Vec::new();
    for file in &plan.files {
        let old: &[u8] = file.before.map_or(&[], |before| &before.bytes);
        let (after, is_link): (Option<&[u8]>, bool) = match file.change.after() {
            FileVersion::Present { bytes, .. } => (Some(bytes), false),
            FileVersion::Link(text) => (Some(text.as_bytes()), true),
            FileVersion::Absent => (None, false),
        };
        let new: &[u8] = match (file.method, after) {
            (ReplaceMethod::InPlace, Some(bytes)) => bytes,
            _ => &[],
        };
        files.push(ManifestEntry {
            path: KeptPath::of(file.change.path()),
            before: file.before.map(KeptVersion::of),
            after: after.map(|bytes| KeptVersion {
                sha256: FileDigest::of(bytes),
                mode: file.change.mode_after(),
                is_link,
                attributes: None,
            }),
            method: file.method,
            temporary_names: file
                .temporary_names
                .iter()
                .filter_map(|name| Some(name.to_str()?.to_owned()))
                .collect(),
            old_bytes: old.len(),
            new_bytes: new.len(),
        });
        blobs.extend([old, new]);
    }
    let manifest = CommitManifest {
        version: VERSION,
        files,
        directories: plan
            .new_directories
            .iter()
            .map(|path| KeptPath::of(path))
            .collect(),
    };
    let mut content = serde_json::to_vec(&manifest).map_err(|error| failed(path, &error.into()))?;
    content.push(b'\n');
    blobs
        .into_iter()
        .for_each(|blob| content.extend_from_slice(blob));
    let directory = path.parent().unwrap_or(path);
    let is_new = !directory.exists();
    create_private(directory)?;
    let written = write_synced(path, &content, is_new);
    if written.is_err() {
        // The first error counts. The directory is removed if it has no other commit.
        let _ = fs::remove_file(path);
        let _ = path.parent().map(fs::remove_dir);
    }
    written.map_err(|error| failed(path, &error))
}

/// Writes a file with its name, and with the names of its directory and of that of the session if the former is new.
fn write_synced(path: &Path, content: &[u8], is_new: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    let depth = if is_new { 3 } else { 1 };
    for directory in path.ancestors().skip(1).take(depth) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Returns the files of a turn directory with this extension, in the order of the commits.
pub(super) fn list(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, WorkspaceError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(directory, &error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, &error))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Marks the commit of a pending file as complete.
pub(super) fn complete(pending: &Path) -> Result<(), WorkspaceError> {
    fs::rename(pending, pending.with_extension(KEPT)).map_err(|error| failed(pending, &error))
}

/// Why the content of a kept file is unusable.
enum ContentFault {
    /// Its writing was interrupted.
    Torn,
    /// It is complete, and of another version.
    Foreign,
}

impl ContentFault {
    fn of_file(self, path: &Path) -> WorkspaceError {
        let fault = match self {
            ContentFault::Torn => "are damaged",
            ContentFault::Foreign => "were written by another version of aish",
        };
        let path = shown_path(path);
        WorkspaceError::new(format!("{path}: the kept copies of changed files {fault}"))
    }
}

impl KeptFile {
    /// Reads a kept file and checks the bytes in it.
    ///
    /// # Errors
    /// The file cannot be read, or is not a whole kept file.
    pub fn read(path: &Path) -> Result<KeptFile, WorkspaceError> {
        let content = fs::read(path).map_err(|error| failed(path, &error))?;
        KeptFile::parse(&content).map_err(|fault| fault.of_file(path))
    }

    /// Same as [`KeptFile::read`], but `None` for a file whose writing was interrupted.
    ///
    /// # Errors
    /// The file cannot be read, or is not a kept file.
    pub fn read_pending(path: &Path) -> Result<Option<KeptFile>, WorkspaceError> {
        let content = fs::read(path).map_err(|error| failed(path, &error))?;
        match KeptFile::parse(&content) {
            Ok(kept) => Ok(Some(kept)),
            Err(ContentFault::Torn) => Ok(None),
            Err(fault) => Err(fault.of_file(path)),
        }
    }

    fn parse(content: &[u8]) -> Result<KeptFile, ContentFault> {
        let line_end = memchr::memchr(b'\n', content).ok_or(ContentFault::Torn)?;
        let (line, blobs) = content.split_at(line_end);
        let manifest: CommitManifest =
            serde_json::from_slice(line).map_err(|_| ContentFault::Foreign)?;
        if manifest.version != VERSION {
            return Err(ContentFault::Foreign);
        }
        let mut blobs = blobs.get(1..).unwrap_or_default();
        let mut next = |length: usize| {
            let (blob, rest) = blobs.split_at_checked(length)?;
            blobs = rest;
            Some(blob.to_vec())
        };
        let mut entries = Vec::new();
        for file in manifest.files {
            let old = next(file.old_bytes).ok_or(ContentFault::Torn)?;
            let new = next(file.new_bytes).ok_or(ContentFault::Torn)?;
            if file
                .before
                .as_ref()
                .is_some_and(|before| before.sha256 != FileDigest::of(&old))
            {
                return Err(ContentFault::Torn);
            }
            entries.push(KeptEntry {
                path: file.path.into_path(),
                before: file.before,
                after: file.after,
                method: file.method,
                temporary_names: file.temporary_names,
                old,
                new,
            });
        }
        Ok(KeptFile {
            entries,
            directories: manifest
                .directories
                .into_iter()
                .map(KeptPath::into_path)
                .collect(),
        })
    }
}

impl KeptEntry {
    /// Returns the bytes of the old version; `None` without the file.
    pub fn old_bytes(&self) -> Option<Vec<u8>> {
        self.before.as_ref().map(|_| self.old.clone())
    }

    /// Returns the change of `target` that restores the old version; `None` where there is nothing to do.
    ///
    /// # Errors
    /// The old version is too large.
    pub fn change_back(
        &self,
        target: ResolvedPath,
        now: Option<FileSnapshot>,
    ) -> Result<Option<PreparedChange>, WorkspaceError> {
        Ok(match (&self.before, now) {
            (Some(before), now) if before.is_link => {
                let text = OsString::from_vec(self.old.clone());
                Some(PreparedChange::link(target, now, text))
            }
            (Some(before), now) => {
                let of_mode = || before.mode.map(FileAttributes::of_mode);
                let attributes = before.attributes.clone().or_else(of_mode);
                let old = self.old.clone();
                Some(PreparedChange::with_attributes(
                    target, now, old, attributes,
                )?)
            }
            (None, Some(now)) => Some(PreparedChange::remove(target, now)),
            (None, None) => None,
        })
    }

    /// Whether the commit found the file as an earlier one had left it.
    pub fn follows(&self, earlier: &KeptEntry) -> bool {
        let digest =
            |version: &Option<KeptVersion>| version.as_ref().map(|v| (v.is_link, v.sha256));
        digest(&self.before) == digest(&earlier.after)
    }

    /// Whether the file is as it was before the commit.
    pub fn is_before(&self, now: Option<&FileSnapshot>) -> bool {
        is_version(self.before.as_ref(), now)
    }

    /// Whether the file is as the commit left it.
    pub fn is_after(&self, now: Option<&FileSnapshot>) -> bool {
        is_version(self.after.as_ref(), now)
    }

    /// Whether the commit replaces a file that was there.
    pub fn is_replaced(&self) -> bool {
        self.before.is_some() && self.after.is_some()
    }

    /// Whether the file is neither version but a mixture of both, as an interrupted overwriting leaves it.
    pub fn is_mixture(&self, now: Option<&FileSnapshot>) -> bool {
        let is_version = |version: &Option<KeptVersion>, now: &FileSnapshot| {
            version.as_ref().is_some_and(|v| v.sha256 == now.digest)
        };
        let is_other =
            |now: &&FileSnapshot| !is_version(&self.before, now) && !is_version(&self.after, now);
        now.filter(is_other)
            .is_some_and(|now| self.may_be_unfinished(now))
    }

    /// Whether the bytes of the file may be those of an interrupted overwriting, also if only the mode is still to be set.
    pub fn may_be_unfinished(&self, now: &FileSnapshot) -> bool {
        self.method == ReplaceMethod::InPlace && is_mixture(&now.bytes, &self.old, &self.new)
    }
}

fn is_version(version: Option<&KeptVersion>, now: Option<&FileSnapshot>) -> bool {
    match (version, now) {
        (None, None) => true,
        (Some(version), Some(now)) => {
            version.sha256 == now.digest
                && version.is_link == now.is_link
                && version.mode.is_none_or(|mode| mode == now.mode)
        }
        _ => false,
    }
}

/// Resolves a path but for its last name: what has the name is meant, also a symbolic link.
pub(super) fn entry_at(path: &Path, resolve: PathResolver<'_>) -> PathResult<ResolvedPath> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(resolve(parent)?.child(name)),
        _ => resolve(path),
    }
}

/// Returns the file or link at a path. Where there is a directory, or above it a file, there is none.
pub(super) fn version_at(
    path: &Path,
    resolve: PathResolver<'_>,
) -> Result<Option<FileSnapshot>, WorkspaceError> {
    let path = match entry_at(path, resolve) {
        Err(error) if error.fault == PathFault::WrongKind => return Ok(None),
        path => path?,
    };
    match path.status() {
        Err(error) if error.fault == PathFault::WrongKind => Ok(None),
        Ok(found) if file_type(&found) == SFlag::S_IFDIR => Ok(None),
        _ => FileSnapshot::read_entry(&path),
    }
}

/// Whether a file begins like its new version and continues like the old one: only an interrupted write leaves that.
fn is_mixture(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let written = now.iter().zip(new).take_while(|(a, b)| a == b).count();
    let unwritten = now
        .iter()
        .rev()
        .zip(old.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    // All of a shorter version is written, but the file is not cut yet; or all of a longer one, but not yet the mode.
    let is_old_tail = now.len() == old.len() && written + unwritten >= now.len();
    is_old_tail || now == new || now.len() > old.len() && new.starts_with(now)
}
