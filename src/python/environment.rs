//! Interpreters, and the private environments with the packages of helpers. An environment is made at registration only.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::metadata::{ScriptMetadata, python_matches};
use super::registry::sha256;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{make_dir, on_path};

/// Interpreters to try, in order. The first may be older than what needs it allows, as on macOS.
pub const PYTHONS: &[&str] = &[
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
];

/// The oldest version that the runtime supports.
const OLDEST: (u32, u32, u32) = (3, 10, 0);

/// Maximum number of lines of an installer that are kept for its error, and of characters of a line.
const MAX_ERROR_LINES: usize = 200;
const MAX_LINE: usize = 300;

/// Name of the file that is written when an environment is complete.
const LOCK_FILE: &str = "locked.txt";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonInterpreter {
    /// The program, with links of version managers resolved.
    pub path: PathBuf,
    /// Its version.
    pub version: (u32, u32, u32),
}

impl PythonInterpreter {
    /// Returns the version as text.
    pub fn version_text(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

/// An environment on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentPlace {
    /// Its directory.
    pub dir: PathBuf,
    /// Its interpreter.
    pub python: PathBuf,
    /// The directory of its packages.
    pub packages: PathBuf,
}

/// An environment that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedEnvironment {
    /// Its name.
    pub name: String,
    /// Exact versions of its packages.
    pub locked: Vec<String>,
}

/// Returns the first interpreter that satisfies `requires` and is new enough for the runtime.
///
/// # Errors
/// None was found; the message says which versions were.
pub fn find_interpreter(requires: Option<&str>) -> Result<PythonInterpreter> {
    // A virtual environment that happens to be active may be deleted later: its base stays.
    const QUESTION: &str = "import sys
print(getattr(sys, '_base_executable', None) or sys.executable)
print('%d.%d.%d' % sys.version_info[:3])";
    let mut found = Vec::new();
    for program in PYTHONS.iter().flat_map(|name| on_path(name)) {
        let asked = Command::new(&program)
            .args(["-I", "-S", "-c", QUESTION])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let Some(interpreter) = asked.ok().and_then(|output| interpreter(&output.stdout)) else {
            continue;
        };
        let fits = requires.map_or(Ok(true), |r| python_matches(r, interpreter.version));
        if fits.map_err(Error::usage)? && interpreter.version >= OLDEST {
            return Ok(interpreter);
        }
        let version = interpreter.version_text();
        if !found.contains(&version) {
            found.push(version);
        }
    }
    let wanted = requires.unwrap_or(">=3.10");
    let found = match found.is_empty() {
        true => "none was found".to_owned(),
        false => format!("found: {}", found.join(", ")),
    };
    Err(
        Error::config(format!("the helper needs Python {wanted}; {found}"))
            .hint("install such a Python (sudo apt-get install python3, brew install python3)"),
    )
}

fn interpreter(output: &[u8]) -> Option<PythonInterpreter> {
    let text = String::from_utf8(output.to_vec()).ok()?;
    let (path, version) = text.trim().split_once('\n')?;
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    let path = PathBuf::from(path);
    path.is_absolute()
        .then_some(PythonInterpreter { path, version })
}

/// Returns where an environment is.
pub fn place(data: &Path, name: &str) -> EnvironmentPlace {
    let dir = data.join(name);
    let lib = dir.join("venv/lib");
    // `lib` has one directory, python3.N.
    let versions = fs::read_dir(&lib).into_iter().flatten().flatten();
    let version = versions
        .map(|entry| entry.path())
        .find(|path| path.join("site-packages").is_dir());
    EnvironmentPlace {
        python: dir.join("venv/bin/python"),
        packages: version.unwrap_or(lib).join("site-packages"),
        dir,
    }
}

/// Makes the environment of a file, unless it is there; `None` for a file without dependencies.
///
/// # Errors
/// The virtual environment cannot be made, or a package cannot be installed; nothing is left then.
pub fn prepare(
    data: &Path,
    metadata: &ScriptMetadata,
    interpreter: &PythonInterpreter,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<PreparedEnvironment>> {
    if metadata.dependencies.is_empty() {
        return Ok(None);
    }
    let mut wanted: Vec<&str> = metadata
        .dependencies
        .iter()
        .map(|d| d.text.as_str())
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let requirements = wanted.join("\n");
    let key = format!("{}\n{requirements}", interpreter.path.display());
    let name: String = sha256(key.as_bytes()).chars().take(16).collect();
    let at = place(data, &name);
    if let Ok(locked) = fs::read_to_string(at.dir.join(LOCK_FILE))
        && at.python.exists()
    {
        let locked = locked.lines().map(str::to_owned).collect();
        return Ok(Some(PreparedEnvironment { name, locked }));
    }
    remove(&at.dir)?;
    let built = build(&at.dir, &requirements, interpreter, progress);
    match built {
        Ok(locked) => Ok(Some(PreparedEnvironment { name, locked })),
        Err(e) => {
            // The error of the installation is the one to report.
            let _ = remove(&at.dir);
            Err(e)
        }
    }
}

fn build(
    dir: &Path,
    requirements: &str,
    interpreter: &PythonInterpreter,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<String>> {
    make_dir(dir)?;
    let list = dir.join("requirements.txt");
    fs::write(&list, format!("{requirements}\n"))
        .context(|| format!("cannot write {}", list.display()))?;
    let uv = on_path("uv").into_iter().next();
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    let report = dir.join("report.json");
    progress("creating a private environment");
    let mut install = match &uv {
        Some(uv) => {
            let mut create = Command::new(uv);
            create.args(["--no-config", "venv", "--quiet", "--python"]);
            created(create.arg(&interpreter.path).arg(&venv))?;
            let mut install = Command::new(uv);
            install
                .args(["--no-config", "pip", "install", "--no-progress"])
                .arg("--python")
                .arg(&python);
            install
        }
        None => {
            let mut install = venv_with_pip(interpreter, &venv, &python)?;
            install
                .args(["install", "--no-user", "--progress-bar", "off", "--report"])
                .arg(&report);
            install
        }
    };
    // Only wheels: building a package runs its code outside of a worker.
    install.args(["--only-binary", ":all:", "--requirement"]);
    if let Some(reason) = run(install.arg(&list), progress)? {
        return Err(
            Error::runtime(format!("the dependencies cannot be installed: {reason}"))
                .hint("check the names and versions, the network and the free disk space; packages need a wheel for this system"),
        );
    }
    let locked = match &uv {
        Some(uv) => freeze(uv, &python)?,
        None => report_lines(&report)?,
    };
    let text = locked.join("\n");
    let file = dir.join(LOCK_FILE);
    fs::write(&file, text).context(|| format!("cannot write {}", file.display()))?;
    Ok(locked)
}

/// Creates a virtual environment and returns the pip that installs into it. The pip of the interpreter can do so since 22.3;
/// a pip in the environment itself takes seconds to install.
fn venv_with_pip(interpreter: &PythonInterpreter, venv: &Path, python: &Path) -> Result<Command> {
    let mut create = Command::new(&interpreter.path);
    created(create.args(["-I", "-m", "venv", "--without-pip"]).arg(venv))?;
    let pip = |program: &Path| {
        let mut pip = Command::new(program);
        pip.args([
            "-I",
            "-m",
            "pip",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        pip
    };
    let mut outer = pip(&interpreter.path);
    outer.arg("--python").arg(python);
    if run(outer.arg("--version"), &mut |_| {})?.is_none() {
        let mut outer = pip(&interpreter.path);
        outer.arg("--python").arg(python);
        return Ok(outer);
    }
    created(Command::new(python).args(["-I", "-m", "ensurepip", "--default-pip"]))?;
    Ok(pip(python))
}

/// Runs a command that creates a part of an environment.
fn created(command: &mut Command) -> Result<()> {
    match run(command, &mut |_| {})? {
        None => Ok(()),
        Some(reason) => Err(Error::runtime(format!(
            "cannot create a virtual environment: {reason}"
        ))
        .hint("install uv, or Python's venv module: sudo apt-get install python3-venv")),
    }
}

/// Asks uv for the exact versions.
fn freeze(uv: &Path, python: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let failed = run(
        Command::new(uv)
            .args(["--no-config", "pip", "list", "--format=freeze", "--python"])
            .arg(python),
        // It also says which environment it looks at.
        &mut |line| lines.extend(line.contains("==").then(|| line.to_owned())),
    )?;
    match failed {
        None => Ok(lines),
        Some(reason) => Err(Error::runtime(format!(
            "cannot list the packages: {reason}"
        ))),
    }
}

/// Returns the exact versions with their hashes from the report of pip.
fn report_lines(report: &Path) -> Result<Vec<String>> {
    let failed = || format!("cannot read {}", report.display());
    let text = fs::read_to_string(report).context(failed)?;
    let report: Value = serde_json::from_str(&text).context(failed)?;
    let packages = report.get("install").and_then(Value::as_array);
    let line = |package: &Value| {
        let text = |path: &str| Some(package.pointer(path)?.as_str()?.to_owned());
        let name = text("/metadata/name")?;
        let version = text("/metadata/version")?;
        let hash = text("/download_info/archive_info/hashes/sha256");
        let hash = hash.map_or_else(String::new, |hash| format!(" --hash=sha256:{hash}"));
        Some(format!("{name}=={version}{hash}"))
    };
    let mut lines: Vec<String> = packages.into_iter().flatten().filter_map(line).collect();
    lines.sort_unstable_by_key(|line| line.to_lowercase());
    Ok(lines)
}

/// Runs an installer and hands its lines on. Returns why it failed. It shares the process group, so Ctrl-C ends it too.
fn run(command: &mut Command, progress: &mut dyn FnMut(&str)) -> Result<Option<String>> {
    let program = Path::new(command.get_program()).display().to_string();
    let (reader, writer) = std::io::pipe().context(|| "cannot make a pipe".into())?;
    let clone = writer.try_clone();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(clone.context(|| "cannot make a pipe".into())?)
        .spawn()
        .context(|| format!("cannot run {program}"))?;
    // The command holds the write ends, which would keep the end of file from coming.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut lines: Vec<String> = Vec::new();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let limit = (MAX_LINE as u64) * 16;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut line);
        if read.unwrap_or(0) == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        let line: String = line.trim_end().chars().take(MAX_LINE).collect();
        if !line.trim().is_empty() {
            progress(&line);
            lines.push(line);
        }
        if lines.len() > MAX_ERROR_LINES {
            lines.drain(..MAX_ERROR_LINES / 2);
        }
    }
    let status = child.wait().context(|| format!("cannot run {program}"))?;
    if status.success() {
        return Ok(None);
    }
    let error = lines
        .iter()
        .find_map(|line| line.trim().strip_prefix("ERROR: "));
    let last = lines.last().map(String::as_str);
    let reason = error.or(last).map(str::trim).map(str::to_owned);
    Ok(Some(
        reason.unwrap_or_else(|| format!("{program}: {status}")),
    ))
}

/// Removes an environment, if it exists.
///
/// # Errors
/// It cannot be removed.
pub fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}
