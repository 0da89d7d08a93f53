//! The branch and the state of the git repository around a directory.
//!
//! A repository can name programs that git runs, so git runs only where the repository's configuration names none that
//! `git status` would run, and never for long.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::paths::child_environment;

/// How long git may take. A large repository then goes without its state.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Words in the configuration of a repository with which `git status` could run a program or read from the network.
const RISKY: &[&str] = &[
    "filter",
    "fsmonitor",
    "include",
    "promisor",
    "worktreeconfig",
];

/// Variables that git gets.
const ENVIRONMENT: &[&str] = &["HOME", "PATH", "XDG_CONFIG_HOME"];

/// Maximum number of characters of a branch.
const MAX_BRANCH: usize = 200;

/// Files in the directory of git that exist while an operation is in progress.
const OPERATIONS: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merging"),
    ("rebase-merge", "rebasing"),
    ("rebase-apply", "rebasing"),
    ("CHERRY_PICK_HEAD", "cherry-picking"),
    ("REVERT_HEAD", "reverting"),
    ("BISECT_LOG", "bisecting"),
];

/// Returns the top of the repository around a directory.
pub fn top(cwd: &Path) -> Option<&Path> {
    let mut dirs = cwd.ancestors().filter(|dir| dir.is_absolute());
    dirs.find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())
}

/// Returns the branch and the state, such as `main; 2 changed, 1 untracked`; `None` outside of a repository.
pub async fn of(cwd: &Path) -> Option<String> {
    let dir = cwd.to_path_buf();
    let look = tokio::task::spawn_blocking(move || {
        let top = top(&dir)?.to_path_buf();
        let git = git_dir(&top)?;
        Some((branch(&git)?, operation(&git), is_harmless(&git), top))
    });
    let look = tokio::time::timeout(TIME_LIMIT, look).await;
    let (branch, operation, is_harmless, top) = look.ok()?.ok()??;
    let status = match is_harmless {
        true => status(&top).await,
        false => None,
    };
    let parts = [Some(branch), operation.map(str::to_owned), status];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// The directory of git: `.git`, or the one that the file `.git` names.
fn git_dir(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(&git).ok()?;
    Some(top.join(text.trim().strip_prefix("gitdir:")?.trim()))
}

fn branch(git: &Path) -> Option<String> {
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let head = head.trim();
    let name = match head.strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim();
            let name = name.strip_prefix("refs/heads/").unwrap_or(name);
            format!("branch {name:?}")
        }
        None => format!("detached at {:?}", head.get(..8).unwrap_or(head)),
    };
    Some(name.chars().take(MAX_BRANCH).collect())
}

fn operation(git: &Path) -> Option<&'static str> {
    let mut found = OPERATIONS.iter();
    found
        .find(|(file, _)| git.join(file).exists())
        .map(|(_, name)| *name)
}

/// Whether the configuration of the repository has nothing with which git would run a program.
fn is_harmless(git: &Path) -> bool {
    // A worktree has the configuration of its repository.
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git.to_path_buf(),
    };
    let Ok(config) = fs::read_to_string(common.join("config")) else {
        return false;
    };
    let config = config.to_ascii_lowercase();
    !RISKY.iter().any(|word| config.contains(word))
}

async fn status(top: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["--no-optional-locks", "-c", "core.fsmonitor=false"])
        .args([
            "status",
            "--porcelain=v2",
            "--branch",
            "--ignore-submodules=all",
        ])
        .current_dir(top)
        .env_clear()
        .envs(child_environment(ENVIRONMENT))
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(TIME_LIMIT, git.output()).await;
    let output = output.ok()?.ok()?;
    output
        .status
        .success()
        .then(|| counts(&String::from_utf8_lossy(&output.stdout)))
}

/// Counts the lines of [porcelain format 2](https://git-scm.com/docs/git-status#_porcelain_format_version_2).
fn counts(porcelain: &str) -> String {
    let (mut changed, mut conflicts, mut untracked) = (0u64, 0u64, 0u64);
    let mut parts = Vec::new();
    for line in porcelain.lines() {
        match line.as_bytes() {
            [b'1' | b'2', b' ', ..] => changed += 1,
            [b'u', b' ', ..] => conflicts += 1,
            [b'?', b' ', ..] => untracked += 1,
            _ => {
                let Some(ahead_behind) = line.strip_prefix("# branch.ab ") else {
                    continue;
                };
                for (number, word) in ahead_behind.split(' ').zip(["ahead", "behind"]) {
                    match number.trim_start_matches(['+', '-']).parse::<u64>() {
                        Ok(0) | Err(_) => {}
                        Ok(n) => parts.push(format!("{n} {word}")),
                    }
                }
            }
        }
    }
    let counts = [
        (conflicts, "in conflict"),
        (changed, "changed"),
        (untracked, "untracked"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    let mut all = match counts.is_empty() {
        true => vec!["no changes".to_owned()],
        false => counts,
    };
    all.append(&mut parts);
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        let git = git.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
        let status = git.args(args).current_dir(dir).output().unwrap();
        assert!(status.status.success(), "{args:?}: {status:?}");
    }

    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
        dir
    }

    #[tokio::test]
    async fn the_state_counts_what_git_status_shows() {
        let dir = repository();
        let at = dir.path();
        fs::create_dir(at.join("sub")).unwrap();
        assert_eq!(
            of(&at.join("sub")).await.unwrap(),
            "branch \"main\"; no changes"
        );
        for name in ["a", "b", "c"] {
            fs::write(at.join(name), name).unwrap();
        }
        git(at, &["add", "a", "b"]);
        assert_eq!(
            of(at).await.unwrap(),
            "branch \"main\"; 2 changed, 1 untracked"
        );
        git(at, &["commit", "--quiet", "-m", "x"]);
        git(at, &["checkout", "--quiet", "-b", "feature/é"]);
        assert_eq!(of(at).await.unwrap(), "branch \"feature/é\"; 1 untracked");
        git(at, &["checkout", "--quiet", "--detach"]);
        fs::write(at.join(".git/MERGE_HEAD"), "").unwrap();
        let state = of(at).await.unwrap();
        assert!(
            state.starts_with("detached at \"") && state.ends_with("\"; merging; 1 untracked"),
            "{state}"
        );
        assert_eq!(of(Path::new("/proc/self")).await, None);
    }

    #[tokio::test]
    async fn a_program_that_the_repository_names_does_not_run() {
        let dir = repository();
        let at = dir.path();
        let ran = at.join("ran");
        fs::write(at.join("a"), "a").unwrap();
        fs::write(at.join(".gitattributes"), "a filter=x\n").unwrap();
        git(at, &["add", "."]);
        let program = format!("touch {}; cat", ran.display());
        for (key, value) in [("filter.x.clean", &program), ("core.fsmonitor", &program)] {
            git(at, &["config", key, value]);
            fs::write(at.join("a"), "b").unwrap();
            assert_eq!(of(at).await.unwrap(), "branch \"main\"", "{key}");
            assert!(!ran.exists(), "{key}");
            git(at, &["config", "--unset", key]);
        }
    }

    #[test]
    fn odd_output_is_counted_without_a_panic() {
        assert_eq!(
            counts("# branch.ab +2 -1\n"),
            "no changes, 2 ahead, 1 behind"
        );
        assert_eq!(
            counts("# branch.ab \nx\n\nu x\n? é"),
            "1 in conflict, 1 untracked"
        );
        assert_eq!(counts("# branch.ab é é"), "no changes");
    }
}
