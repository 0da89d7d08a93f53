//! Files of a project that decide what other programs run: editors, git, MCP clients and coding agents. Pure.

use std::path::Path;

/// Names of directories and files that decide what other programs run, in any directory; in lower case.
pub const PROJECT_PLACES: [&str; 26] = [
    ".aish",
    ".aish.toml",
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".gemini",
    ".gitconfig",
    ".gitmodules",
    ".helix",
    ".hg",
    ".husky",
    ".idea",
    ".jj",
    ".lvimrc",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    ".vscode",
    ".windsurf",
    ".zed",
    "claude_desktop_config.json",
];

/// What a git directory has that decides which programs git runs or which other directory it obeys, see
/// [gitrepository-layout](https://git-scm.com/docs/gitrepository-layout).
pub const GIT_SETTINGS: [&str; 6] = [
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    "info/attributes",
];

/// Files of a git directory that are only text for git.
const GIT_TEXTS: [&str; 6] = [
    "commit_editmsg",
    "description",
    "info/exclude",
    "merge_msg",
    "squash_msg",
    "tag_editmsg",
];

/// Returns the name of the place that a path belongs to, if a change of it lets another program run something; `None` for other
/// paths. Case does not count, because it does not on some file systems.
pub fn project_place(path: &Path) -> Option<String> {
    let parts: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().to_lowercase())
        .collect();
    for (at, part) in parts.iter().enumerate() {
        if PROJECT_PLACES.contains(&part.as_str()) {
            return Some(part.clone());
        }
        let inside = parts.get(at + 1..).unwrap_or_default();
        let inside_text = inside.join("/");
        if part == ".git" {
            // The whole directory, a file that names another one, or anything but a text in it: a rebase in progress
            // has commands as well, and another git directory may lie deeper.
            return match GIT_TEXTS.contains(&inside_text.as_str()) {
                true => None,
                false if inside.is_empty() => Some(part.clone()),
                false => Some(format!("{part}/{inside_text}")),
            };
        }
        if part.ends_with(".git") {
            let is_setting = |name: &&&str| {
                let tail = inside_text.strip_prefix(**name);
                tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
            };
            if let Some(name) = GIT_SETTINGS.iter().find(is_setting) {
                return Some(format!("{part}/{name}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_run_programs_are_found_wherever_they_are() {
        for path in [
            "/p/.git/hooks/pre-commit",
            "/p/.git/config",
            "/p/.git/modules/sub/config",
            "/p/.git/worktrees/a/config.worktree",
            "/p/.GIT/Hooks/x",
            "/p/.git",
            "/p/.git/commondir",
            "/p/.git/HEAD",
            "/p/.git/info/attributes",
            "/p/.git/rebase-merge/git-rebase-todo",
            "/srv/p.git/config",
            "/srv/p.git/commondir",
            "/srv/p.git/hooks/update",
            "/p/a/.vscode/tasks.json",
            "/p/.idea/workspace.xml",
            "/p/.mcp.json",
            "/p/.aish.toml",
            "/p/.gitmodules",
            "/home/u/.gitconfig",
        ] {
            assert!(project_place(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "/p/src/hooks/x.rs",
            "/p/config",
            "/p/.git/description",
            "/p/.git/COMMIT_EDITMSG",
            "/p/.git/info/exclude",
            "/p/site.git/src/config",
            "/p/git/config",
            "/p/.gitignore",
            "/p/.github/workflows/ci.yml",
        ] {
            assert_eq!(project_place(Path::new(path)), None, "{path}");
        }
    }
}
