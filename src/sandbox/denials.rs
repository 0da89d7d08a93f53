//! Finds out what the sandbox denied, from the output of the command. Pure.
//!
//! The kernel does not report denied accesses, so denials are derived from lines that report a refused access and name a path that
//! the policy does not allow. A program that reports nothing, or in another form, is missed; the contents of a file that a command
//! prints can look like a report.

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

/// Messages that programs print for EACCES, EPERM, EROFS and EBUSY (of a file that is mounted over itself), in lower case.
const REPORTS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "device or resource busy",
    "not permitted by sandbox",
];

/// Messages of programs that find no network.
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
    "connect eacces",
    "connect eperm",
    "couldn't connect to server",
    "urlopen error [errno 1]",
    "listen eperm",
    "bind eperm",
    "failed to establish a new connection",
    "dial tcp",
    "dns error",
];

/// Pairs of words that report a blocked network only if a line has both: without a port, the line is about a Unix socket, and a
/// connection that the server refuses was not blocked by the sandbox.
const NETWORK_REPORT_PAIRS: &[(&str, &str)] = &[
    ("failed to connect to", " port "),
    ("connecting to", "failed: operation not permitted"),
];

/// Messages that programs print for EPERM, which the filter of system calls returns, in lower case.
const FILTER_REPORTS: &[&str] = &["operation not permitted", "eperm"];

/// Words of a report about a socket, and of a traceback through code that makes one.
const SOCKETS: &[&str] = &["connect", "sending request", "socket", "tcp", "udp"];

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
    /// Connecting to a socket in the file system.
    Socket,
}

/// An access that the sandbox denied, as far as the output of the command shows. The path is untrusted text.
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
            DeniedAccess::Socket => write!(f, "connection to {path}"),
        }
    }
}

/// Returns what the sandbox denied, derived from the output of the command, which ran in `dir`: relative paths count from there. What
/// would fail without the sandbox too, as `works_outside` says, is not a denial.
pub fn denials(
    output: &str,
    policy: &SandboxPolicy,
    dir: &Path,
    works_outside: impl Fn(&Denial) -> bool,
) -> Vec<Denial> {
    let reader = ReportReader {
        policy,
        dir,
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
            && works_outside(&denial)
        {
            denials.push(denial);
        }
    }
    denials
}

struct ReportReader<'a> {
    policy: &'a SandboxPolicy,
    dir: &'a Path,
    rules: PathRules,
}

impl ReportReader<'_> {
    fn read(&self, line: &str, before: &[&str]) -> Option<Denial> {
        let lower = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let is_network_report = || {
            has(NETWORK_REPORTS)
                || (NETWORK_REPORT_PAIRS.iter())
                    .any(|(first, second)| lower.contains(first) && lower.contains(second))
        };
        if !self.policy.network && is_network_report() {
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
            // Only the report itself says by its form that a bare word is a file.
            let bare = if at == 0 {
                bare_names(line)
            } else {
                Vec::new()
            };
            let bare = bare.into_iter().map(|name| normal(&self.dir.join(name)));
            let (paths, program) = self.paths(without_place(candidate_line));
            let mut paths = paths.into_iter().chain(bare).chain(program);
            let denied = paths.find_map(|path| {
                let candidate = candidate_line.to_lowercase();
                let changes = CHANGES.iter().any(|word| candidate.contains(word));
                let denied = self.judge(path, changes || is_read_only, is_read_only)?;
                Some(match candidate.contains("connecting to") {
                    true => Denial {
                        access: DeniedAccess::Socket,
                        ..denied
                    },
                    false => denied,
                })
            });
            match denied {
                // Bash names `/dev/tcp/HOST/PORT` and `/dev/udp/HOST/PORT`, which are not files.
                Some(Denial {
                    path: Some(path), ..
                }) if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") => {
                    return (!self.policy.network).then_some(Denial {
                        access: DeniedAccess::Network,
                        path: None,
                    });
                }
                None => {}
                denied => return denied,
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

    /// Returns the paths that a line names: quoted parts, then parts between colons, then single words. A first word before a
    /// colon is returned apart: it may be the program that reports.
    fn paths(&self, line: &str) -> (Vec<PathBuf>, Option<PathBuf>) {
        let mut names = quoted(line);
        let parts = line.split(": ").map(str::trim);
        let is_report = |part: &str| {
            let part = part.to_lowercase();
            REPORTS.iter().any(|report| part.contains(report))
        };
        // The program that reports comes first.
        let parts: Vec<&str> = parts.skip(1).collect();
        let cause = parts.iter().position(|part| is_report(part));
        for (at, part) in parts.iter().enumerate() {
            // Beside the cause, a path is whole: it may have blanks.
            let is_beside = cause.is_some_and(|cause| at.abs_diff(cause) == 1);
            let is_whole = is_beside && part.starts_with(['/', '~', '.']);
            if !is_report(part) && (is_whole || !part.contains(' ')) {
                names.push(part);
            }
        }
        let mut words = line.split_whitespace().peekable();
        let program = words.next_if(|word| word.ends_with(':'));
        names.extend(
            words.map(|word| {
                word.trim_matches(|c: char| "()[]{}<>,;:'\"`.".contains(c) && c != '.')
            }),
        );
        let paths = names.into_iter().filter_map(|name| self.resolve(name));
        (paths.collect(), program.and_then(|name| self.resolve(name)))
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
            _ => self.dir.join(name),
        };
        Some(normal(&path))
    }
}

/// Splits lines into those of tracebacks and all others: the file of a frame is not a file that was accessed.
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

/// Returns the files that a report names by bare words: quoted, or after the cause as zsh does (`permission denied: x`).
fn bare_names(line: &str) -> Vec<&str> {
    let is_cause = |part: &str| {
        let part = part.to_lowercase();
        REPORTS.iter().any(|report| part.ends_with(report))
    };
    let behind = line.rsplit_once(": ");
    let behind = behind.filter(|(before, _)| is_cause(before));
    let behind = behind.map(|(_, name)| name);
    let names = quoted(line).into_iter().chain(behind);
    names
        .filter(|name| !name.is_empty() && !name.contains(|c: char| c == '/' || c.is_whitespace()))
        .collect()
}

/// Returns the text between quotation marks of the common forms.
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
mod tests;
