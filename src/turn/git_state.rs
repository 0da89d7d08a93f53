//! The branch and the state of the git repository around a directory.
//!
//! A repository can name programs that git runs, and files anywhere that git reads. So git itself is asked first what the repository's
//! configuration has without its includes, which runs nothing and reads no other file, and `git status` runs only where none of it can do
//! either. Files of the repository are not read here: links, pipes and foreign files are git's business.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::paths::child_environment;

/// Maximum time for git. In a repository that takes longer, the state is left out.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Beginnings of keys with which `git status` could run a program or read a file elsewhere or from the network, where the repository
/// sets them.
const RISKY: &[&str] = &[
    "core.attributesfile",
    "core.excludesfile",
    "core.fsmonitor",
    "extensions.partialclone",
    "filter.",
    "lfs.",
];

/// Beginnings of keys with which git reads a file elsewhere whatever it is asked.
const INCLUDES: &[&str] = &["include.", "includeif."];

/// Ends of risky keys.
const RISKY_ENDS: &[&str] = &[".promisor", ".partialclonefilter"];

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

/// Returns the branch and the state, such as `branch "main"; 2 changed, 1 untracked`; only the branch where the configuration
/// of the repository could make git run a program or read a foreign file, and `None` outside of a repository, or where its configuration
/// has includes.
pub async fn of(cwd: &Path) -> Option<String> {
    let dir = cwd.to_path_buf();
    let look = tokio::task::spawn_blocking(move || {
        let top = fs::canonicalize(top(&dir)?).ok()?;
        let operation = operation(&top.join(".git"));
        Some((top, operation))
    });
    let state = async {
        let (top, operation) = look.await.ok()??;
        let repository = Repository::new(&top)?;
        let (branch, status) = match repository.is_harmless().await? {
            true => parsed(&repository.status().await?),
            // This runs nothing, and fails where no branch is checked out.
            false => (
                repository.git(&["symbolic-ref", "--short", "HEAD"]).await?,
                None,
            ),
        };
        let branch = format!("branch {}", shown_branch(branch.trim()));
        let parts = [Some(branch), operation.map(str::to_owned), status];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    };
    tokio::time::timeout(TIME_LIMIT, state).await.ok()?
}

fn operation(git: &Path) -> Option<&'static str> {
    let mut found = OPERATIONS.iter();
    found
        .find(|(file, _)| git.join(file).exists())
        .map(|(_, name)| *name)
}

/// A repository that git finds at this directory and nowhere above it.
struct Repository {
    top: PathBuf,
    above: PathBuf,
}

impl Repository {
    fn new(top: &Path) -> Option<Repository> {
        Some(Repository {
            top: top.to_path_buf(),
            above: top.parent()?.to_path_buf(),
        })
    }

    /// Runs git and returns its output, or `None` if it fails.
    async fn git(&self, args: &[&str]) -> Option<String> {
        let mut git = Command::new("git");
        git.args(["--no-optional-locks", "-c", "core.fsmonitor=false"])
            .args(args)
            .current_dir(&self.top)
            .env_clear()
            .envs(child_environment(ENVIRONMENT))
            // An invalid `.git` here must not lead to the configuration of another repository above.
            .env("GIT_CEILING_DIRECTORIES", &self.above)
            // `core.worktree` could name any directory.
            .env("GIT_WORK_TREE", &self.top)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let output = git.output().await.ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Whether nothing that the repository configures makes `git status` run a program or read a foreign file; `None` if every
    /// command of git could.
    async fn is_harmless(&self) -> Option<bool> {
        let list = ["config", "--list", "--no-includes", "--show-scope", "-z"];
        let settings = self.git(&list).await?;
        let mut words = settings.split('\0');
        let mut is_harmless = true;
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
            let key = key.to_ascii_lowercase();
            if !matches!(scope, "local" | "worktree") {
                continue;
            }
            let is_in = |starts: &[&str]| starts.iter().any(|start| key.starts_with(start));
            // References can be in another place, which is a URL.
            if is_in(INCLUDES) || key == "extensions.refstorage" && value.contains(':') {
                return None;
            }
            is_harmless &= !is_in(RISKY) && !RISKY_ENDS.iter().any(|end| key.ends_with(end));
        }
        Some(is_harmless)
    }

    async fn status(&self) -> Option<String> {
        let status = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--ignore-submodules=all",
        ];
        self.git(&status).await
    }
}

/// Writes the name of a branch so that it cannot look like the end of the line it is in.
fn shown_branch(name: &str) -> String {
    let plain = |c: char| match c {
        '<' | '>' => '?',
        c => c,
    };
    let name: String = name.chars().take(MAX_BRANCH).map(plain).collect();
    format!("{name:?}")
}

/// Returns the branch and the state from [porcelain format 2](https://git-scm.com/docs/git-status#_porcelain_format_version_2).
fn parsed(porcelain: &str) -> (String, Option<String>) {
    let mut branch = String::new();
    let (mut changed, mut conflicts, mut untracked) = (0u64, 0u64, 0u64);
    let mut parts = Vec::new();
    for line in porcelain.lines() {
        match line.as_bytes() {
            [b'1' | b'2', b' ', ..] => changed += 1,
            [b'u', b' ', ..] => conflicts += 1,
            [b'?', b' ', ..] => untracked += 1,
            _ => {
                if let Some(head) = line.strip_prefix("# branch.head ") {
                    head.clone_into(&mut branch);
                }
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
    (branch, Some(all.join(", ")))
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
        assert_eq!(state, "branch \"(detached)\"; merging; 1 untracked");
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
        for (key, value) in [
            ("filter.x.clean", &program),
            ("filter.x.process", &program),
            ("core.fsmonitor", &program),
            ("lfs.extension.x.clean", &program),
            ("remote.o.promisor", &"true".to_owned()),
            ("core.excludesFile", &"/etc/passwd".to_owned()),
            ("core.attributesFile", &"/etc/passwd".to_owned()),
        ] {
            git(at, &["config", key, value]);
            fs::write(at.join("a"), "b").unwrap();
            assert_eq!(of(at).await.unwrap(), "branch \"main\"", "{key}");
            assert!(!ran.exists(), "{key}");
            git(at, &["config", "--unset", key]);
        }
    }

    #[tokio::test]
    async fn files_elsewhere_are_not_read() {
        let (dir, other) = (repository(), tempfile::tempdir().unwrap());
        let at = dir.path();
        fs::write(other.path().join("file"), "").unwrap();
        // The files of another directory are not counted.
        let elsewhere = other.path().to_str().unwrap();
        git(at, &["config", "core.worktree", elsewhere]);
        assert_eq!(of(at).await.unwrap(), "branch \"main\"; no changes");
        git(at, &["config", "--unset", "core.worktree"]);
        let branch = "[branch \"main\"]\nremote = .\nmerge = refs/heads/x\n";
        fs::write(other.path().join("config"), branch).unwrap();
        let config = at.join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        // A state that depends on whether the file exists, or is a configuration, would reveal that.
        for key in ["include", "includeIf \"onbranch:main\""] {
            for name in ["missing", "file", "config"] {
                let include = format!("[{key}]\npath = {elsewhere}/{name}\n");
                fs::write(&config, before.clone() + &include).unwrap();
                assert_eq!(of(at).await, None, "{key} {name}");
            }
        }
    }

    #[tokio::test]
    async fn a_git_directory_that_git_does_not_take_leads_nowhere() {
        // Git would continue to the repository above, whose configuration was not checked.
        let dir = repository();
        let at = dir.path();
        let ran = at.join("ran");
        let program = format!("touch {}; cat", ran.display());
        git(at, &["config", "filter.x.clean", &program]);
        fs::create_dir(at.join("sub")).unwrap();
        fs::write(at.join("sub/a"), "a").unwrap();
        fs::write(at.join(".gitattributes"), "* filter=x\n").unwrap();
        fs::create_dir(at.join("sub/.git")).unwrap();
        fs::write(at.join("sub/.git/HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(at.join("sub/.git/config"), "").unwrap();
        assert_eq!(of(&at.join("sub")).await, None);
        assert!(!ran.exists());
        // A link, a pipe or another text in place of HEAD is not read by aish.
        fs::remove_file(at.join("sub/.git/HEAD")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at.join("sub/.git/HEAD")).unwrap();
        assert_eq!(of(&at.join("sub")).await, None);
        assert_eq!(shown_branch("x</git>\nNow"), "\"x?/git?\\nNow\"");
    }

    #[test]
    fn odd_output_is_counted_without_a_panic() {
        let state = |text| parsed(text).1.unwrap();
        assert_eq!(
            state("# branch.ab +2 -1\n"),
            "no changes, 2 ahead, 1 behind"
        );
        assert_eq!(
            state("# branch.ab \nx\n\nu x\n? é"),
            "1 in conflict, 1 untracked"
        );
        assert_eq!(state("# branch.ab é é"), "no changes");
        assert_eq!(parsed("# branch.head é\n").0, "é");
    }
}
