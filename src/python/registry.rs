//! The registry of helpers: what registration found out about each file, so that tools are known without starting Python.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorContext, Result};
use crate::paths::{Paths, make_dir, read_own, replace_secret_file};

/// Version of the file format.
const VERSION: u32 = 1;
/// Maximum size of the registry, and of a helper file.
const MAX_REGISTRY: u64 = 32 << 20;
pub(super) const MAX_SOURCE: u64 = 1 << 20;

/// All registered files, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HelperRegistry {
    version: u32,
    /// The files.
    pub files: Vec<FileRecord>,
}

/// A registered file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name of the file in the directory of the helpers.
    pub file: String,
    /// SHA-256 of its content when it was shown.
    pub sha256: String,
    /// The interpreter.
    pub python: PathBuf,
    /// Version of the interpreter.
    pub python_version: String,
    /// Name of the private environment, if the file has dependencies.
    pub environment: Option<String>,
    /// `requires-python` of the file.
    pub requires_python: Option<String>,
    /// `dependencies` of the file.
    pub dependencies: Vec<String>,
    /// Exact versions in the environment, with hashes where they are known.
    pub locked: Vec<String>,
    /// The functions that are tools.
    pub functions: Vec<FunctionRecord>,
    /// Why other functions are left out.
    pub problems: Vec<String>,
}

/// A function that is a tool, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRecord {
    /// Name in the file.
    pub name: String,
    /// The docstring without the sections about parameters.
    pub description: String,
    /// JSON Schema of the parameters.
    pub schema: serde_json::Value,
    /// Names of the parameters, in order.
    pub parameters: Vec<String>,
    /// The signature as text.
    pub signature: String,
    /// The whole docstring.
    pub docstring: String,
    /// The result is text, not a value of JSON.
    pub returns_text: bool,
    /// The file declares that the function changes nothing.
    pub read_only: bool,
    /// The file declares that the function may destroy something.
    pub destructive: bool,
    /// The file declares that the function needs the network.
    pub network: bool,
}

impl HelperRegistry {
    /// Reads the registry; without one, no file is registered.
    ///
    /// # Errors
    /// The registry cannot be read, or a newer version of aish wrote it.
    pub fn load(paths: &Paths) -> Result<HelperRegistry> {
        let path = registry_file(paths);
        let file = match read_own(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Ok(HelperRegistry::default());
            }
            file => file.context(|| format!("cannot open {}", path.display()))?,
        };
        let mut text = String::new();
        file.take(MAX_REGISTRY)
            .read_to_string(&mut text)
            .context(|| format!("cannot read {}", path.display()))?;
        let hint = "move it away and add the helpers again: aish-helper helper add FILE";
        let registry: HelperRegistry = serde_json::from_str(&text).map_err(|e| {
            Error::runtime(format!("{} is damaged: {e}", path.display())).hint(hint)
        })?;
        match registry.version {
            VERSION => Ok(registry),
            other => {
                let what = format!("{} has version {other}, not {VERSION}", path.display());
                Err(Error::runtime(what).hint(hint))
            }
        }
    }

    /// Writes the registry.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&mut self, paths: &Paths) -> Result<()> {
        self.version = VERSION;
        make_dir(&data_dir(paths))?;
        let text = serde_json::to_vec_pretty(self).context(|| "cannot encode".into())?;
        replace_secret_file(&registry_file(paths), &text)
    }

    /// Adds a record; a file that was added before keeps its place.
    pub(super) fn insert(&mut self, record: FileRecord) {
        match self.files.iter_mut().find(|old| old.file == record.file) {
            Some(old) => *old = record,
            None => self.files.push(record),
        }
    }

    /// Names of the environments that a file needs.
    pub(super) fn environments(&self) -> BTreeSet<&str> {
        let named = self
            .files
            .iter()
            .filter_map(|file| file.environment.as_deref());
        named.collect()
    }
}

/// The directory of the helper files.
pub fn helpers_dir(paths: &Paths) -> PathBuf {
    paths.config.join("helpers")
}

/// The directory of the registry and of the private environments.
pub fn data_dir(paths: &Paths) -> PathBuf {
    paths.data.join("helpers")
}

fn registry_file(paths: &Paths) -> PathBuf {
    data_dir(paths).join("registry.json")
}

/// Returns the SHA-256 of some bytes in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a helper file.
///
/// # Errors
/// The file cannot be read, is not a regular file, is larger than 1 MB or not UTF-8.
pub(super) fn read_source(path: &Path) -> Result<String> {
    let failed = || format!("cannot read {}", path.display());
    // Checked before it is opened: a FIFO would wait for a writer.
    let is_file = fs::metadata(path).context(failed)?.is_file();
    let refused = |what: &str| Error::usage(format!("{} {what}", path.display()));
    if !is_file {
        return Err(refused("is not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).context(failed)?;
    file.take(MAX_SOURCE + 1)
        .read_to_end(&mut bytes)
        .context(failed)?;
    if bytes.len() as u64 > MAX_SOURCE {
        return Err(refused("is larger than 1 MB"));
    }
    String::from_utf8(bytes).map_err(|_| refused("is not UTF-8 text"))
}
