//! Permissions of a sandboxed command, and the command line of the stage that enforces it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// How much a sandboxed command may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxLevel {
    /// Nothing but a private temporary directory.
    ReadOnly,
    /// The working directory, the directories of [`SandboxPolicy::write`] and a private temporary directory.
    Workspace,
}

impl SandboxLevel {
    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxLevel::ReadOnly => "read-only",
            SandboxLevel::Workspace => "workspace",
        }
    }
}

/// Limits of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Private memory of each process, in MiB; `None` is three quarters of the machine's.
    pub memory_mib: Option<u64>,
    /// Size of the private temporary directory, in MiB.
    pub temporary_mib: u64,
    /// Size of a file, in MiB.
    pub file_mib: u64,
    /// Number of processes and threads.
    pub processes: u64,
    /// CPU time of each process, in seconds; `None` is unlimited.
    pub cpu_seconds: Option<u64>,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        SandboxLimits {
            memory_mib: None,
            temporary_mib: 1024,
            file_mib: 8192,
            processes: 2048,
            cpu_seconds: None,
        }
    }
}

/// Permissions of a sandboxed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// How much it may change.
    pub level: SandboxLevel,
    /// The workspace; an absolute path.
    pub dir: PathBuf,
    /// Directories that it may change at [`SandboxLevel::Workspace`]; absolute paths.
    pub write: Vec<PathBuf>,
    /// Files and directories outside the workspace that it may read; absolute paths.
    pub read: Vec<PathBuf>,
    /// Files and directories that it may not read wherever they are; absolute paths. aish's own directories belong here.
    pub hidden: Vec<PathBuf>,
    /// Readable paths that are below something hidden; absolute paths.
    pub shown: Vec<PathBuf>,
    /// Files and directories of the workspace that stay as they are. The supervisor adds what decides which programs run later.
    pub(super) guarded: Vec<PathBuf>,
    /// The home directory: toolchains below it may be read, secrets may not. By default that of the supervisor.
    pub home: Option<PathBuf>,
    /// The private temporary directory. The supervisor makes it.
    pub(super) private_tmp: Option<PathBuf>,
    /// Whether the command runs as root, which could read the secrets of the system.
    pub is_root: bool,
    /// Whether it may use IP sockets.
    pub network: bool,
    /// Variables in addition to the fixed list.
    pub variables: Vec<(OsString, OsString)>,
    /// A descriptor other than stdin, stdout and stderr that stays open.
    pub keep_fd: Option<i32>,
    /// Whether orphaned processes of the command become its children. With namespaces, the first process adopts them.
    pub adopts: bool,
    /// Limits of resources.
    pub limits: SandboxLimits,
    /// Whether namespaces are used where they work. Only tests choose otherwise.
    pub namespaces: bool,
}

impl SandboxPolicy {
    /// Returns the policy of a level for a workspace: without network, variables and further directories.
    pub fn new(level: SandboxLevel, dir: impl Into<PathBuf>) -> SandboxPolicy {
        SandboxPolicy {
            level,
            dir: dir.into(),
            write: Vec::new(),
            read: Vec::new(),
            hidden: Vec::new(),
            shown: Vec::new(),
            guarded: Vec::new(),
            home: None,
            private_tmp: None,
            is_root: false,
            network: false,
            variables: Vec::new(),
            keep_fd: None,
            adopts: false,
            limits: SandboxLimits::default(),
            namespaces: true,
        }
    }

    /// Returns the arguments of the helper that run `command` in the sandbox, without the helper itself.
    pub fn arguments<A: AsRef<OsStr>>(&self, command: &[A]) -> Vec<OsString> {
        let mut words = vec!["sandbox".into()];
        words.extend(self.options());
        words.push("--".into());
        words.extend(command.iter().map(|word| word.as_ref().to_owned()));
        words
    }

    /// Returns the process that runs `command` in the sandbox. `helper` is the path of aish-helper.
    pub fn command<A: AsRef<OsStr>>(&self, helper: &Path, command: &[A]) -> std::process::Command {
        let mut process = std::process::Command::new(helper);
        process.args(self.arguments(command));
        process
    }

    /// Returns the options that describe this policy.
    pub(super) fn options(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            words.push(word);
        };
        option("--level", self.level.as_str().as_ref());
        option("--dir", self.dir.as_os_str());
        for (name, paths) in [
            ("--write", &self.write),
            ("--read", &self.read),
            ("--hide", &self.hidden),
            ("--show", &self.shown),
            ("--guard", &self.guarded),
        ] {
            paths.iter().for_each(|path| option(name, path.as_os_str()));
        }
        for (name, path) in [("--home", &self.home), ("--private-tmp", &self.private_tmp)] {
            path.iter().for_each(|path| option(name, path.as_os_str()));
        }
        for (name, value) in &self.variables {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            option("--env", &variable);
        }
        let limits = &self.limits;
        let numbers = [
            ("--max-memory", limits.memory_mib),
            ("--max-temporary", Some(limits.temporary_mib)),
            ("--max-file", Some(limits.file_mib)),
            ("--max-processes", Some(limits.processes)),
            ("--max-cpu", limits.cpu_seconds),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                option(name, number.to_string().as_ref());
            }
        }
        if let Some(fd) = self.keep_fd {
            option("--keep-fd", fd.to_string().as_ref());
        }
        if self.network {
            words.push("--network".into());
        }
        if self.adopts {
            words.push("--adopt".into());
        }
        if !self.namespaces {
            words.push("--no-namespaces".into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_every_part_of_the_policy() {
        let mut policy = SandboxPolicy::new(SandboxLevel::Workspace, "/w");
        policy.write.push("/x y".into());
        policy.read.push("/r".into());
        policy.hidden.push("/h".into());
        policy.shown.push("/h/s".into());
        policy.guarded.push("/w/.envrc".into());
        policy.home = Some("/u".into());
        policy.variables.push(("A".into(), "b=c".into()));
        policy.keep_fd = Some(7);
        policy.network = true;
        policy.adopts = true;
        policy.namespaces = false;
        policy.limits.memory_mib = Some(5);
        let words = policy.arguments(&["echo", "--level"]);
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words,
            [
                "sandbox",
                "--level=workspace",
                "--dir=/w",
                "--write=/x y",
                "--read=/r",
                "--hide=/h",
                "--show=/h/s",
                "--guard=/w/.envrc",
                "--home=/u",
                "--env=A=b=c",
                "--max-memory=5",
                "--max-temporary=1024",
                "--max-file=8192",
                "--max-processes=2048",
                "--keep-fd=7",
                "--network",
                "--adopt",
                "--no-namespaces",
                "--",
                "echo",
                "--level"
            ]
        );
    }
}
