//! Where a prompt is asked: the system, the date, the git repository and the instructions of the project.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use nix::unistd::Uid;

use super::git_state;
use crate::config::ContextSettings;

/// Files with instructions of a project, in the order in which they are looked for.
const PROJECT_FILES: &[&str] = &["AGENTS.md", "CLAUDE.md"];

/// Maximum number of bytes of a project's file that are sent.
const MAX_PROJECT_FILE: usize = 16 * 1024;

/// How long a slow disk may delay a prompt.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// The name and the version of the distribution.
static DISTRIBUTION: LazyLock<Option<String>> = LazyLock::new(|| {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
});

/// Facts for a model about the place and the time of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Lines for the instructions: system and date.
    pub facts: String,
    /// The file of the project with instructions, and its text.
    pub project_file: Option<(String, String)>,
    /// The branch and the state of the git repository.
    pub git: Option<String>,
    /// Whether recent commands are left out.
    pub without_commands: bool,
}

impl Surroundings {
    /// Collects facts about `cwd`. A fact that takes too long is left out.
    pub async fn look(context: &ContextSettings, cwd: &str) -> Surroundings {
        let dir = PathBuf::from(cwd);
        let git = async {
            match context.git {
                true => git_state::of(&dir).await,
                false => None,
            }
        };
        let file = async {
            if !context.project_file {
                return None;
            }
            let dir = dir.clone();
            let read = tokio::task::spawn_blocking(move || project_file(&dir));
            tokio::time::timeout(TIME_LIMIT, read).await.ok()?.ok()?
        };
        let (git, project_file) = tokio::join!(git, file);
        Surroundings {
            facts: facts(context),
            project_file,
            git,
            without_commands: false,
        }
    }
}

/// Returns the lines about system and date.
pub fn facts(context: &ContextSettings) -> String {
    let mut lines = Vec::new();
    if context.system {
        let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        lines.push(match &*DISTRIBUTION {
            Some(name) => format!("System: {name}, {os} ({machine}). Shell: zsh."),
            None => format!("System: {os} ({machine}). Shell: zsh."),
        });
    }
    if context.date {
        let today = chrono::Local::now().format("%A, %Y-%m-%d");
        lines.push(format!("Today is {today}."));
    }
    lines.join("\n")
}

/// Returns the nearest file with instructions, in the directory or above it up to the top of the repository, with a name that
/// shows where it is.
fn project_file(cwd: &Path) -> Option<(String, String)> {
    let top = git_state::top(cwd);
    let dirs = cwd.ancestors().filter(|dir| dir.is_absolute());
    for dir in dirs {
        for name in PROJECT_FILES {
            if let Some(text) = read_project_file(dir, name) {
                let path = dir.join(name);
                let name = match top {
                    Some(top) => path.strip_prefix(top).unwrap_or(&path),
                    None => Path::new(name),
                };
                return Some((name.display().to_string(), text));
            }
        }
        if top.is_none_or(|top| top == dir) {
            return None;
        }
    }
    None
}

/// Reads a file of a project. A link to a file of another name, or out of the directory, could lead to a secret such as `.env`,
/// and a file of another user is a trap in a shared directory.
fn read_project_file(dir: &Path, name: &str) -> Option<String> {
    let path = fs::canonicalize(dir.join(name)).ok()?;
    let is_project_file = PROJECT_FILES
        .iter()
        .any(|name| path.file_name() == Some(name.as_ref()));
    if !is_project_file || !path.starts_with(fs::canonicalize(dir).ok()?) {
        return None;
    }
    // O_NONBLOCK: opening a FIFO of that name must not block.
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path).ok()?;
    let meta = file.metadata().ok()?;
    let is_own = meta.uid() == Uid::current().as_raw() || meta.uid() == 0;
    if !meta.is_file() || !is_own {
        return None;
    }
    let mut bytes = Vec::new();
    let limit = MAX_PROJECT_FILE as u64 + 4;
    file.take(limit).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut end = text.len().min(MAX_PROJECT_FILE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = &text[..end];
    let left_out = meta.len().saturating_sub(kept.len() as u64);
    let kept = kept.trim();
    if kept.is_empty() {
        return None;
    }
    Some(match meta.len() > MAX_PROJECT_FILE as u64 {
        true => format!("{kept}\n[… {left_out} bytes left out …]"),
        false => kept.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("repo/.git")).unwrap();
        fs::create_dir_all(dir.path().join("repo/a/b")).unwrap();
        fs::write(dir.path().join("AGENTS.md"), "outside").unwrap();
        dir
    }

    #[test]
    fn the_nearest_file_of_the_repository_is_found() {
        let dir = project();
        let repo = dir.path().join("repo");
        let of = |cwd: &str| project_file(&repo.join(cwd));
        let found = |name: &str, text: &str| Some((name.to_owned(), text.to_owned()));
        assert_eq!(of("a/b"), None, "not above the repository");
        fs::write(repo.join("CLAUDE.md"), " Use tabs.\n").unwrap();
        assert_eq!(of("a/b"), found("CLAUDE.md", "Use tabs."));
        fs::write(repo.join("AGENTS.md"), "Use spaces.").unwrap();
        assert_eq!(of(""), found("AGENTS.md", "Use spaces."));
        fs::write(repo.join("a/CLAUDE.md"), "Near.").unwrap();
        assert_eq!(of("a/b"), found("a/CLAUDE.md", "Near."));
        assert_eq!(
            project_file(dir.path()),
            found("AGENTS.md", "outside"),
            "no repository"
        );
        fs::create_dir(dir.path().join("c")).unwrap();
        assert_eq!(project_file(&dir.path().join("c")), None);
    }

    #[test]
    fn private_and_odd_files_are_not_read() {
        let dir = project();
        let repo = dir.path().join("repo");
        let file = repo.join("AGENTS.md");
        symlink("../AGENTS.md", &file).unwrap();
        assert_eq!(project_file(&repo), None);
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(project_file(&repo), None);
        fs::remove_file(&file).unwrap();
        fs::write(repo.join(".env"), "KEY=1").unwrap();
        symlink(".env", &file).unwrap();
        assert_eq!(project_file(&repo), None);
        fs::remove_file(&file).unwrap();
        fs::write(repo.join("CLAUDE.md"), "Fine.").unwrap();
        symlink("CLAUDE.md", &file).unwrap();
        assert_eq!(project_file(&repo).unwrap().1, "Fine.");
        fs::remove_file(&file).unwrap();
        fs::remove_file(repo.join("CLAUDE.md")).unwrap();
        fs::write(&file, "é".repeat(20_000)).unwrap();
        let (_, text) = project_file(&repo).unwrap();
        assert!(
            text.ends_with("\n[… 23616 bytes left out …]"),
            "{}",
            &text[text.len() - 60..]
        );
        if !Uid::current().is_root() {
            return;
        }
        fs::write(&file, "trap").unwrap();
        nix::unistd::chown(&file, Some(Uid::from_raw(12345)), None).unwrap();
        assert_eq!(project_file(&repo), None);
    }

    #[test]
    fn each_fact_can_be_left_out() {
        let all = ContextSettings::default();
        let lines = facts(&all);
        assert!(
            lines.starts_with("System: ") && lines.contains("\nToday is "),
            "{lines}"
        );
        let none = ContextSettings {
            system: false,
            date: false,
            ..all
        };
        assert_eq!(facts(&none), "");
    }
}
