//! The command that starts a worker, and its limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::error::{Error, ErrorContext};
use crate::paths::{Paths, child_environment, variable};
use crate::sandbox::{PROCESS_MARK, SandboxLevel, SandboxPolicy};

/// Variables that a worker gets, beside those that are set here.
const VARIABLES: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER",
];

/// Native libraries start one thread for each core, and each thread reserves address space, which the memory limit counts.
const THREAD_COUNTS: &[&str] = &[
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

/// Reads the runtime from the channel, which is stdin: a command line that is short, and no file that could be changed.
const BOOT: &str = "import os
def take(n):
    data = b''
    while len(data) < n:
        part = os.read(0, n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
exec(compile(take(int(take(8))), 'aish-runtime', 'exec'))";

/// Limits of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Maximum time of a call, without the time in which its own calls of helpers wait for the person.
    pub call: Duration,
    /// Maximum size of the address space of each process.
    pub memory_bytes: u64,
    /// Maximum size of a file that a worker writes.
    pub file_bytes: u64,
    /// Maximum number of open files of each process.
    pub open_files: u64,
    /// Time without a call after which a worker is ended.
    pub idle: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The sandbox that holds the workers; `None` only in tests of the workers themselves.
    pub sandbox: Option<WorkerSandbox>,
}

/// The common parts of the sandboxes of all workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSandbox {
    /// The program of aish, which sets up the sandbox.
    pub helper: PathBuf,
    /// The user's home directory.
    pub home: PathBuf,
    /// Directories that no worker may read beside the packages of its helper: those of aish.
    pub hidden: Vec<PathBuf>,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        WorkerLimits {
            call: Duration::from_secs(60),
            memory_bytes: 1 << 30,
            file_bytes: 1 << 30,
            open_files: 256,
            idle: Duration::from_secs(600),
            grace: Duration::from_millis(500),
            sandbox: None,
        }
    }
}

impl WorkerLimits {
    /// Returns the default limits, with the sandbox.
    ///
    /// # Errors
    /// The program of aish is not found.
    pub fn sandboxed(paths: &Paths) -> Result<WorkerLimits, Error> {
        let helper = std::env::current_exe().context(|| "cannot find aish-helper".into())?;
        let sandbox = WorkerSandbox {
            helper,
            home: variable("HOME").map(PathBuf::from).unwrap_or_default(),
            hidden: vec![
                paths.config.clone(),
                paths.data.clone(),
                paths.state.clone(),
                paths.run.clone(),
                paths.socket_dir.clone(),
            ],
        };
        Ok(WorkerLimits {
            sandbox: Some(sandbox),
            ..WorkerLimits::default()
        })
    }
}

/// The rights of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerSpec<'a> {
    /// The interpreter.
    pub python: &'a Path,
    /// The directory of the packages.
    pub packages: Option<&'a Path>,
    /// The workspace, which the worker may read.
    pub directory: &'a Path,
    /// The functions change files of the workspace.
    pub writes: bool,
    /// The functions need the network, and it is allowed.
    pub network: bool,
    /// The limits.
    pub limits: &'a WorkerLimits,
}

/// Returns the command that starts a worker, in the sandbox. Stdin is the channel, so that no descriptor has to be inherited beside
/// the three that every program has. What the worker has to read beside the system's own directories is the interpreter and the
/// packages; the source of a helper comes over the channel.
///
/// # Errors
/// The sandbox cannot keep the secrets of the home directory from this worker; one line.
pub(super) fn worker_command(spec: &WorkerSpec<'_>, mark: &str) -> Result<Command, String> {
    // Without `site`, which costs more time than everything else; the runtime adds the packages.
    let mut words: Vec<OsString> = vec![spec.python.into()];
    words.extend(["-I", "-S", "-X", "utf8", "-c", BOOT].map(OsString::from));
    let limits = spec.limits;
    let numbers = [limits.memory_bytes, limits.file_bytes, limits.open_files];
    words.extend(numbers.map(|number| number.to_string().into()));
    words.push(spec.packages.unwrap_or(Path::new("")).into());
    words.push(if spec.network { "network" } else { "" }.into());
    let mut variables = child_environment(VARIABLES);
    let threads = THREAD_COUNTS.iter().map(|name| (name.into(), "1".into()));
    variables.extend(threads);
    variables.push((PROCESS_MARK.into(), mark.into()));
    let mut command = match &limits.sandbox {
        Some(sandbox) => {
            let policy = worker_policy(spec, sandbox, &variables)?;
            let mut command = Command::new(&sandbox.helper);
            command.args(policy.arguments(&words));
            command
        }
        None => {
            let mut command = Command::new(spec.python);
            command.args(words.iter().skip(1));
            command
        }
    };
    command
        .env_clear()
        .envs(variables)
        .current_dir(spec.directory);
    Ok(command)
}

/// Returns the sandbox policy of a worker.
fn worker_policy(
    spec: &WorkerSpec<'_>,
    sandbox: &WorkerSandbox,
    variables: &[(OsString, OsString)],
) -> Result<SandboxPolicy, String> {
    let level = match spec.writes {
        true => SandboxLevel::Workspace,
        false => SandboxLevel::ReadOnly,
    };
    // The sandbox refuses it too, in words for its own command line.
    if spec.writes && sandbox.home.starts_with(spec.directory) {
        return Err(
            "cannot be started: a helper that changes files does not run in a workspace that contains the home directory; change to a directory below it, or declare it as read_only in __aish__"
                .to_owned(),
        );
    }
    let mut policy = SandboxPolicy::new(level, spec.directory);
    policy.hidden.clone_from(&sandbox.hidden);
    policy.home = Some(sandbox.home.clone());
    policy.is_root = nix::unistd::geteuid().is_root();
    policy.network = spec.network;
    policy.adopts = true;
    policy.limits.memory_mib = Some(spec.limits.memory_bytes >> 20);
    policy.limits.file_mib = spec.limits.file_bytes >> 20;
    // The private temporary directory takes the place of the user's.
    let passed = variables.iter().filter(|(name, _)| name != "TMPDIR");
    policy.variables = passed.cloned().collect();
    // The program and its libraries, and not what else is below the same directory, which may be ~/.local.
    let program = spec.python.canonicalize().unwrap_or_default();
    if let Some(prefix) = program.parent().and_then(Path::parent) {
        policy.read.extend(
            ["lib", "lib64"]
                .map(|name| prefix.join(name))
                .into_iter()
                .filter(|dir| dir.is_dir()),
        );
        policy.read.push(program);
    }
    if let Some(packages) = spec.packages {
        // From site-packages up to the environment: venv/lib/python3.N/site-packages.
        let environment = packages.ancestors().nth(4).unwrap_or(packages);
        policy.read.push(environment.to_owned());
        policy.shown.push(environment.to_owned());
    }
    Ok(policy)
}
