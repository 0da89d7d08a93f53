//! Installs a model from a GGUF file: download, check, rename, and its lines for the configuration.
//!
//! A model is one directory, `models/NAME`, with the file and a note where it is from. The directory gets its name when it
//! is complete. All models share `models/llama-cpp`, a virtual environment with llama.cpp's server.

use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::download::{Download, IDLE_TIMEOUT};
use super::free_space::size;
use super::gguf::{GgufHeader, read_header};
use super::install_lock::lock_models;
use super::partial_file::{PartialFile, remove_if_empty};
use super::progress::DownloadProgress;
use super::python_environment::{PythonEnvironment, python, remove_tree};
use super::source::{ModelSource, shown_url};
use super::{InstalledModel, utf8};
use crate::config::toml_string;
use crate::error::{Error, ErrorContext as _, ErrorKind, Result};
use crate::paths::{Paths, replace_file};
use crate::safety::text::one_line;

/// Name of the model's file in its directory.
const FILE: &str = "model.gguf";
/// Name of the note where the file is from.
const NOTE: &str = "source.json";
/// Maximum size of the note.
const MAX_NOTE: u64 = 64 << 10;

/// The smallest context window that the configuration accepts.
const LEAST_CONTEXT: u32 = 256;
/// The largest context window that is set up. The server allocates it at the start: 2 GB for a small model.
const MAX_CONTEXT: u32 = 16_384;
/// Context window of a model whose file does not say how large it is.
const DEFAULT_CONTEXT: u32 = 8192;

/// The program that serves the models, and its packages.
const ENVIRONMENT: PythonEnvironment = PythonEnvironment {
    name: "llama-cpp",
    requirements: include_str!("../llama_cpp/requirements.txt"),
    serve: include_str!("../llama_cpp/serve.py"),
    download: "llama.cpp's server from PyPI (30 MB)",
    disk: "130 MB",
};

/// Where an installed file is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledFile {
    /// Its URL.
    pub url: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Installs a model and reports each step to `say` as one line. `sha256` is the digest that the file must have, in lower
/// case.
///
/// # Errors
/// As for the tiny model; and the download fails, the file has another digest or is not a model, a model of this name
/// from elsewhere is installed, or Ctrl-C.
pub fn install(
    paths: &Paths,
    source: &ModelSource,
    sha256: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<InstalledModel> {
    let name = &source.name;
    let models = lock_models(paths, say)?;
    let dir = models.dir.join(name);
    if let Some(installed) = installed_file(&dir) {
        return already_installed(&models.dir, source, sha256, &installed, say);
    }
    if dir.exists() && !dir.join(NOTE).exists() {
        let message = format!(
            "{} is there, and is not a model that aish installed",
            dir.display()
        );
        return Err(Error::config(message).hint("choose another name: --name NAME"));
    }
    // Fails before a long download if it fails.
    ENVIRONMENT.ensure(&models.dir, say)?;
    let what = source.known.map_or_else(String::new, |known| {
        format!(" ({}, {})", size(known.size), known.license)
    });
    say(&format!(
        "Downloading {name}{what} from {} …",
        shown_url(&source.url)
    ));
    let partial = models.dir.join(format!("{name}.download"));
    let file = fetch(source, sha256, &partial).inspect_err(|_| {
        // The error of the download is the one to report.
        let _ = remove_if_empty(&partial);
    })?;
    let result = check(source, sha256, file, &partial, say);
    let installed = match result {
        Ok((installed, header)) => {
            note_and_rename(&models.dir, &partial, &dir, &installed)?;
            describe(&models.dir, name, &header)?
        }
        Err(e) => {
            // Nothing of a wrong file is kept.
            remove_tree(&partial)?;
            return Err(e);
        }
    };
    say(&format!("{name} is installed in {}", dir.display()));
    Ok(installed)
}

/// Returns the path of the file of the model `name` in the directory of the models.
pub fn model_file(models: &Path, name: &str) -> PathBuf {
    models.join(name).join(FILE)
}

/// Returns where the file in the directory of a model is from; `None` if no model is installed there.
pub fn installed_file(dir: &Path) -> Option<InstalledFile> {
    let mut text = Vec::new();
    let note = File::open(dir.join(NOTE)).ok()?;
    note.take(MAX_NOTE).read_to_end(&mut text).ok()?;
    let note: InstalledFile = serde_json::from_slice(&text).ok()?;
    let file = fs::metadata(dir.join(FILE)).ok()?;
    (file.is_file() && file.len() == note.size).then_some(note)
}

/// Returns an installed model if it is the one that was asked for. Its environment may have to be built again.
fn already_installed(
    models: &Path,
    source: &ModelSource,
    sha256: Option<&str>,
    installed: &InstalledFile,
    say: &mut dyn FnMut(&str),
) -> Result<InstalledModel> {
    let name = &source.name;
    let wanted = sha256.or(source.known.map(|known| known.sha256));
    let is_other = match wanted {
        Some(wanted) => installed.sha256 != wanted,
        None => installed.url != source.url.as_str(),
    };
    if is_other {
        let from = one_line(&installed.url, 200);
        return Err(Error::config(format!(
            "another model named {name} is installed, from {from}"
        ))
        .hint("choose another name: --name NAME"));
    }
    ENVIRONMENT.ensure(models, say)?;
    let file = model_file(models, name);
    let header = header_of(&file).map_err(|reason| not_a_model(&file, &reason))?;
    say(&format!(
        "{name} is already installed in {}",
        models.join(name).display()
    ));
    describe(models, name, &header)
}

/// Downloads the file and shows the progress. Ctrl-C keeps the part that is there.
fn fetch(source: &ModelSource, sha256: Option<&str>, dir: &Path) -> Result<PartialFile> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let mut progress = DownloadProgress::new(&source.name);
    let download = Download {
        url: &source.url,
        dir,
        sha256: sha256.or(source.known.map(|known| known.sha256)),
        idle_timeout: IDLE_TIMEOUT,
    };
    let mut report = |done, total| progress.update(done, total);
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            pressed = tokio::signal::ctrl_c() => {
                pressed.context(|| "cannot wait for Ctrl-C".into())?;
                Err(Error::new(ErrorKind::Interrupted, "interrupted; what was downloaded is kept")
                    .hint("run the same command again to continue"))
            }
            result = download.run(&mut report) => result,
        }
    });
    progress.finish();
    result
}

/// Checks the digest and the header of a downloaded file, and completes it.
fn check(
    source: &ModelSource,
    sha256: Option<&str>,
    file: PartialFile,
    partial: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(InstalledFile, GgufHeader)> {
    let digest = file.sha256();
    let named = file.state().sha256.clone();
    let (expected, origin) = match (sha256, source.known, named) {
        (Some(given), ..) => (Some(given.to_owned()), "given with --sha256"),
        (None, Some(known), _) => (Some(known.sha256.to_owned()), "that aish knows"),
        (None, None, Some(named)) => (Some(named), "that the server names"),
        (None, None, None) => (None, ""),
    };
    match expected {
        Some(expected) if expected != digest => {
            return Err(Error::runtime(format!(
                "{}: the file has the SHA-256 {digest}, not {expected} {origin}",
                shown_url(&source.url)
            ))
            .hint("nothing was installed, and the file was removed"));
        }
        Some(_) => say(&format!("The file has the SHA-256 {origin}: {digest}")),
        None => say(&format!(
            "The file was not checked: the server names no digest; its SHA-256 is {digest}"
        )),
    }
    let installed = InstalledFile {
        url: source.url.as_str().to_owned(),
        size: file.length(),
        sha256: digest,
    };
    file.complete(FILE)?;
    let header = header_of(&partial.join(FILE)).and_then(|header| match header.parts {
        1 if header.last_tensor <= installed.size => Ok(header),
        1 => Err(format!(
            "is incomplete: it has {} bytes, and its last tensor begins at {}",
            installed.size, header.last_tensor
        )),
        n => Err(format!(
            "is one of {n} parts of a model; aish installs models of one file"
        )),
    });
    let header = header.map_err(|reason| {
        Error::runtime(format!("{}: the file {reason}", shown_url(&source.url)))
            .hint("nothing was installed, and the file was removed")
    })?;
    Ok((installed, header))
}

/// Completes the directory of a model and gives it its name.
fn note_and_rename(
    models: &Path,
    partial: &Path,
    dir: &Path,
    installed: &InstalledFile,
) -> Result<()> {
    let note = serde_json::to_vec(installed).context(|| "cannot write the note".into())?;
    // This syncs the directory, and with it the name of the file.
    replace_file(&partial.join(NOTE), &note)?;
    // The remains of an installation whose file is gone.
    remove_tree(dir)?;
    fs::rename(partial, dir)
        .and_then(|()| File::open(models)?.sync_all())
        .context(|| format!("cannot rename to {}", dir.display()))
}

fn header_of(file: &Path) -> std::result::Result<GgufHeader, String> {
    let file = File::open(file).map_err(|e| format!("cannot be opened: {e}"))?;
    read_header(BufReader::new(file))
}

fn not_a_model(file: &Path, reason: &str) -> Error {
    Error::runtime(format!("{} {reason}", file.display()))
        .hint("remove the directory of the model, then install it again")
}

/// Returns the command line of the server, and the lines for the configuration. Both have the same context window.
fn describe(models: &Path, name: &str, header: &GgufHeader) -> Result<InstalledModel> {
    let context_window = context_window(header);
    let environment = models.join(ENVIRONMENT.name);
    let words = [
        utf8(&python(&environment))?,
        // Ignores PYTHON* variables and the user's own packages.
        "-I".to_owned(),
        utf8(&environment.join("serve.py"))?,
        "--model".to_owned(),
        utf8(&model_file(models, name))?,
        "--alias".to_owned(),
        name.to_owned(),
        "--context".to_owned(),
        context_window.to_string(),
        "--port".to_owned(),
        "{port}".to_owned(),
    ];
    let quoted: Vec<String> = words.iter().map(|word| toml_string(word)).collect();
    let table = format!(
        "provider = \"chat\"\n\
         base_url = \"http://127.0.0.1/v1\"\n\
         model = {}\n\
         context_window = {context_window}\n\
         serve = {{ command = [{}] }}\n",
        toml_string(name),
        quoted.join(", ")
    );
    Ok(InstalledModel {
        command: words.to_vec(),
        context_window,
        table,
    })
}

fn context_window(header: &GgufHeader) -> u32 {
    match header.context_length {
        Some(length) => u32::try_from(length)
            .unwrap_or(u32::MAX)
            .clamp(LEAST_CONTEXT, MAX_CONTEXT),
        None => DEFAULT_CONTEXT,
    }
}

#[cfg(test)]
mod tests;
