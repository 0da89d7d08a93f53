//! Finds out what the sandbox denied, from what the command printed. Pure.
//!
//! The kernel tells nobody what it denied, so this is derived: a line that reports a refused access and names a path that the
//! policy does not allow. A program that says nothing, or says it differently, is missed; what a file merely contains can look
//! like a report.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::path_rules::PathRules;
use super::policy::SandboxPolicy;

/// Maximum number of denials that are returned.
const MAX_DENIALS: usize = 20;

/// Maximum number of lines that are read, from the end.
const MAX_LINES: usize = 2000;

/// How many lines before a report can name its path.
const LINES_BEFORE: usize = 3;

/// What programs print for EACCES, EPERM, EROFS and EBUSY (of a file that is mounted over itself), in lower case.
const REPORTS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "device or resource busy",
    "not permitted by sandbox",
];

/// What programs print that find no network.
const NETWORK_REPORTS: &[&str] = &[
    "could not resolve host",
    "couldn't resolve host",
    "unable to resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "network is unreachable",
    "getaddrinfo eai_again",
    "getaddrinfo enotfound",
    "failed to lookup address information",
    "socket: operation not permitted",
    "socket: permission denied",
    "connect eperm",
    "listen eperm",
    "bind eperm",
    "failed to establish a new connection",
    "dial tcp",
    "dns error",
];

/// What programs print for EPERM, which the filter of system calls returns, in lower case.
const FILTER_REPORTS: &[&str] = &["operation not permitted", "eperm"];

/// Words of a report about a socket, and of a traceback through code that makes one.
const SOCKETS: &[&str] = &["connect", "socket", "tcp"];

/// Words of a report about a change.
const CHANGES: &[&str] = &[
    "append",
    "cannot touch",
    "chmod",
    "chown",
    "copy",
    "creat",
    "delet",
    "link",
    "lock",
    "mkdir",
    "move",
    "overwrit",
    "remov",
    "renam",
    "rmdir",
    "setting permissions",
    "setting times",
    "changing permissions",
    "unlink",
    "writ",
];

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeniedAccess {
    /// Reading or running a file.
    Read,
    /// Changing or creating a file.
    Write,
    /// Connecting to a network.
    Network,
}

/// An access that the sandbox denied, as far as the output of the command tells. The path is untrusted text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    /// What was denied.
    pub access: DeniedAccess,
    /// The file; `None` for the network.
    pub path: Option<PathBuf>,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        match self.access {
            DeniedAccess::Read => write!(f, "read of {path}"),
            DeniedAccess::Write => write!(f, "write to {path}"),
            DeniedAccess::Network => f.write_str("network"),
        }
    }
}

/// Returns what the sandbox denied, derived from the output of the command. Relative paths count from the workspace.
pub fn denials(output: &str, policy: &SandboxPolicy) -> Vec<Denial> {
    let reader = ReportReader {
        policy,
        rules: PathRules::new(policy),
    };
    let lines: Vec<&str> = output.lines().collect();
    let first = lines.len().saturating_sub(MAX_LINES);
    let mut seen = BTreeSet::new();
    let mut denials = Vec::new();
    for at in first..lines.len() {
        let Some(line) = lines.get(at) else { break };
        let before = lines.get(at.saturating_sub(LINES_BEFORE).max(first)..at);
        if let Some(denial) = reader.read(line, before.unwrap_or_default())
            && denials.len() < MAX_DENIALS
            && seen.insert(denial.clone())
        {
            denials.push(denial);
        }
    }
    denials
}

struct ReportReader<'a> {
    policy: &'a SandboxPolicy,
    rules: PathRules,
}

impl ReportReader<'_> {
    fn read(&self, line: &str, before: &[&str]) -> Option<Denial> {
        let lower = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if !self.policy.network && has(NETWORK_REPORTS) {
            return Some(Denial {
                access: DeniedAccess::Network,
                path: None,
            });
        }
        if !has(REPORTS) {
            return None;
        }
        let is_read_only = has(&["read-only file system", "device or resource busy"]);
        // cargo and others name the path in a line before the cause.
        let (frames, others) = split_frames(before);
        let is_of_socket = || {
            let mut lines = [line].into_iter().chain(frames.iter().copied());
            let names_socket = |line: &str| {
                let line = line.to_lowercase();
                SOCKETS.iter().any(|word| line.contains(word))
            };
            !self.policy.network && has(FILTER_REPORTS) && lines.any(names_socket)
        };
        let lines = [line].into_iter().chain(others.into_iter().rev());
        for (at, candidate_line) in lines.enumerate() {
            if at == 1 && is_of_socket() {
                break;
            }
            let mut paths = self.paths(without_place(candidate_line));
            let denied = paths.find_map(|path| {
                let candidate = candidate_line.to_lowercase();
                let changes = CHANGES.iter().any(|word| candidate.contains(word));
                self.judge(path, changes || is_read_only, is_read_only)
            });
            if denied.is_some() {
                return denied;
            }
        }
        is_of_socket().then_some(Denial {
            access: DeniedAccess::Network,
            path: None,
        })
    }

    /// Decides whether the policy explains that an access to `path` failed.
    fn judge(&self, path: PathBuf, changes: bool, is_read_only: bool) -> Option<Denial> {
        // What the supervisor keeps in the workspace is mounted read-only.
        let is_kept = is_read_only && self.rules.write.iter().any(|dir| path.starts_with(dir));
        if self.rules.may_write(&path) && !is_kept {
            return None;
        }
        let access = match self.rules.may_read(&path) {
            true => DeniedAccess::Write,
            false if changes => DeniedAccess::Write,
            false => DeniedAccess::Read,
        };
        Some(Denial {
            access,
            path: Some(path),
        })
    }

    /// Returns the paths that a line names: what is quoted, then what is between colons, then single words.
    fn paths(&self, line: &str) -> impl Iterator<Item = PathBuf> {
        let mut names = quoted(line);
        let parts = line.split(": ").map(str::trim);
        let is_report = |part: &str| {
            let part = part.to_lowercase();
            REPORTS.iter().any(|report| part.contains(report))
        };
        // The program that reports comes first.
        names.extend(
            parts
                .skip(1)
                .filter(|part| !is_report(part) && !part.contains(' ')),
        );
        let words = line.split_whitespace();
        names.extend(
            words.map(|word| {
                word.trim_matches(|c: char| "()[]{}<>,;:'\"`.".contains(c) && c != '.')
            }),
        );
        let paths: Vec<PathBuf> = names
            .into_iter()
            .filter_map(|name| self.resolve(name))
            .collect();
        paths.into_iter()
    }

    /// Makes a path absolute. A bare word is a path only if it has a slash or a dot at its start.
    fn resolve(&self, name: &str) -> Option<PathBuf> {
        let name = name.trim_end_matches([':', ',', ';']);
        let is_path = name.contains('/') || name.starts_with('.');
        if !is_path || name.contains("://") || name.contains('\0') || name == "/" {
            return None;
        }
        let path = match (name.strip_prefix("~/"), &self.policy.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => self.policy.dir.join(name),
        };
        Some(normal(&path))
    }
}

/// Splits lines into those of tracebacks and all others: the file of a frame is no file that was accessed.
fn split_frames<'a>(lines: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut follows_frame = false;
    lines.iter().copied().partition(|line| {
        // Python shows the source of each frame below it.
        let is_source = follows_frame && line.starts_with(char::is_whitespace);
        follows_frame = is_frame(line);
        follows_frame || is_source
    })
}

/// Whether a line is a frame of a traceback: of Python, of Ruby, of Go, or of node and others that write `at`.
fn is_frame(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("File \"") && line.contains("\", line ")
        || line.starts_with("from ") && line.contains(":in ")
        || line.contains(".go:") && line.contains(" +0x")
        || line.starts_with("at ")
}

/// Removes the place in the source that a report begins with (Ruby: `FILE:LINE:in`) or ends with (Perl: `at FILE line LINE`).
fn without_place(line: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((file, rest)) = line.split_once(":in ")
        && file
            .rsplit_once(':')
            .is_some_and(|(_, number)| is_number(number))
    {
        return rest;
    }
    if let Some((report, place)) = line.rsplit_once(" at ")
        && let Some((_, number)) = place.rsplit_once(" line ")
        && is_number(number.trim_end_matches('.'))
    {
        return report;
    }
    line
}

/// Returns what is between quotation marks of the common forms.
fn quoted(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [
        ('\'', '\''),
        ('"', '"'),
        ('`', '`'),
        ('‘', '’'),
        ('`', '\''),
    ] {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inside, next)) = after.split_once(close) else {
                break;
            };
            found.push(inside);
            rest = next;
        }
    }
    found
}

/// Removes `.` and `..`, without looking at files.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::policy::SandboxLevel;

    fn found(output: &str) -> Vec<String> {
        let mut policy = SandboxPolicy::new(SandboxLevel::Workspace, "/home/u/w");
        policy.home = Some("/home/u".into());
        let denials = denials(output, &policy);
        denials.iter().map(Denial::to_string).collect()
    }

    #[test]
    fn common_programs_are_understood() {
        for (output, denial) in [
            // coreutils
            (
                "cat: /home/u/.ssh/id_rsa: Permission denied",
                "read of /home/u/.ssh/id_rsa",
            ),
            (
                "touch: cannot touch '/home/u/x y': Permission denied",
                "write to /home/u/x y",
            ),
            (
                "mkdir: cannot create directory ‘/usr/x’: Read-only file system",
                "write to /usr/x",
            ),
            (
                "rm: cannot remove '../other/a': Permission denied",
                "write to /home/u/other/a",
            ),
            (
                "ls: cannot open directory '/home/u/.aws': Permission denied",
                "read of /home/u/.aws",
            ),
            (
                "chmod: changing permissions of '/etc/hosts': Operation not permitted",
                "write to /etc/hosts",
            ),
            (
                "cp: cannot create regular file '/opt/a': Permission denied",
                "write to /opt/a",
            ),
            // shells
            (
                "zsh:1: permission denied: /home/u/.zshrc",
                "read of /home/u/.zshrc",
            ),
            ("zsh: read-only file system: /usr/a", "write to /usr/a"),
            (
                "bash: line 1: /home/u/.bashrc: Permission denied",
                "read of /home/u/.bashrc",
            ),
            (
                "sh: 1: cannot create /usr/x: Read-only file system",
                "write to /usr/x",
            ),
            // git
            (
                "fatal: Unable to create '/home/u/other/.git/index.lock': Permission denied",
                "write to /home/u/other/.git/index.lock",
            ),
            (
                "error: could not write config file .git/config: Device or resource busy",
                "write to /home/u/w/.git/config",
            ),
            (
                "warning: unable to access '/home/u/.config/gh/x': Permission denied",
                "read of /home/u/.config/gh/x",
            ),
            // cargo and rustc
            (
                "error: failed to create directory `/home/u/.cache/x`\n\nCaused by:\n  Permission denied (os error 13)",
                "write to /home/u/.cache/x",
            ),
            (
                "error: failed to open: /home/u/.cargo/registry/x\n\nCaused by:\n  Read-only file system (os error 30)",
                "write to /home/u/.cargo/registry/x",
            ),
            // python and node
            (
                "PermissionError: [Errno 13] Permission denied: '/home/u/.netrc'",
                "read of /home/u/.netrc",
            ),
            (
                "OSError: [Errno 30] Read-only file system: '/usr/lib/x'",
                "write to /usr/lib/x",
            ),
            (
                "Error: EACCES: permission denied, open '/home/u/.npmrc'",
                "read of /home/u/.npmrc",
            ),
            (
                "Error: EROFS: read-only file system, mkdir '/usr/x'",
                "write to /usr/x",
            ),
            // network
            ("curl: (6) Could not resolve host: example.com", "network"),
            ("ssh: socket: Operation not permitted", "network"),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                "network",
            ),
            ("Error: getaddrinfo EAI_AGAIN example.com", "network"),
            (
                "socket.gaierror: [Errno -3] Temporary failure in name resolution",
                "network",
            ),
            (
                "  File \"/usr/lib/python3.11/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\nPermissionError: [Errno 1] Operation not permitted",
                "network",
            ),
            (
                "  File \"/usr/lib/python3.13/socket.py\", line 233, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\n    ~~~^^^\nPermissionError: [Errno 1] Operation not permitted",
                "network",
            ),
            (
                "Error: connect EPERM 127.0.0.1:80 - Local (undefined:undefined)",
                "network",
            ),
            (
                "Error: listen EPERM: operation not permitted 0.0.0.0:3000",
                "network",
            ),
            (
                "IO::Socket::INET: Operation not permitted at /usr/share/perl5/LWP/Simple.pm line 23.",
                "network",
            ),
            (
                "/usr/lib/ruby/3.1.0/socket.rb:1214:in `initialize': Operation not permitted - socket(2) - tcp (Errno::EPERM)",
                "network",
            ),
            (
                "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<HTTPSConnection object>: Failed to establish a new connection: [Errno 1] Operation not permitted')': /simple/x/\nERROR: No matching distribution found for x (from versions: none)",
                "network",
            ),
            // A frame is no path that was accessed.
            (
                "  File \"/usr/lib/python3.11/shutil.py\", line 1, in copy\n    open(dst)\nPermissionError: [Errno 1] Operation not permitted: '/opt/a'",
                "write to /opt/a",
            ),
        ] {
            assert_eq!(found(output), [denial], "{output}");
        }
    }

    #[test]
    fn failures_that_the_policy_does_not_explain_are_left_out() {
        for output in [
            "cat: /home/u/w/secret: Permission denied",
            "./run.sh: Permission denied",
            "kill: (1): Operation not permitted",
            "test result: FAILED. 1 passed",
            "cat: /nowhere: No such file or directory",
            "Permission denied (publickey).",
            "  File \"/usr/lib/python3.11/os.py\", line 1, in kill\n    os.kill(1, 9)\nPermissionError: [Errno 1] Operation not permitted",
            "    at kill (/usr/lib/node_modules/x/y.js:1:2)\nError: kill EPERM operation not permitted",
            "Operation not permitted at /usr/share/perl5/x.pm line 3.",
            "",
        ] {
            assert!(found(output).is_empty(), "{output}: {:?}", found(output));
        }
    }

    #[test]
    fn with_network_a_missing_host_is_no_denial() {
        let mut policy = SandboxPolicy::new(SandboxLevel::ReadOnly, "/w");
        policy.network = true;
        assert!(denials("curl: (6) Could not resolve host: x", &policy).is_empty());
    }

    #[test]
    fn a_denial_is_told_once_and_their_number_is_bounded() {
        let line = "cat: /home/u/.netrc: Permission denied\n".repeat(3);
        assert_eq!(found(&line).len(), 1);
        let many: String = (0..100)
            .map(|n| format!("cat: /srv/{n}: Permission denied\n"))
            .collect();
        assert_eq!(found(&many).len(), MAX_DENIALS);
    }
}
