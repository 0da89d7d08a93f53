//! Files of a project that decide what other programs run: editors, git, MCP clients and coding agents. Pure.

use std::path::Path;

/// Names of directories and files whose change is always asked about, in any directory.
const NAMES: [&str; 18] = [
    ".aish",
    ".aish.toml",
    ".claude",
    ".codex",
    ".cursor",
    ".envrc",
    ".exrc",
    ".gemini",
    ".gitconfig",
    ".gitmodules",
    ".idea",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    ".vscode",
    ".zed",
    "claude_desktop_config.json",
];

/// What stands in a git directory and decides what git runs.
const GIT_NAMES: [&str; 4] = ["config", "config.worktree", "hooks", "info"];

/// Returns the name of the place that a path belongs to, if a change of it lets another program run something; `None` for other
/// paths. Case does not count, because it does not on some file systems.
pub fn project_place(path: &Path) -> Option<String> {
    let parts: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().to_lowercase())
        .collect();
    for (at, part) in parts.iter().enumerate() {
        if NAMES.contains(&part.as_str()) {
            return Some(part.clone());
        }
        let is_git = part == ".git" || part.ends_with(".git");
        // Of a submodule or a worktree, its own directory lies deeper.
        let inside = parts.get(at + 1..).unwrap_or_default();
        let place = inside
            .iter()
            .find(|name| GIT_NAMES.contains(&name.as_str()));
        match place {
            Some(place) if is_git => return Some(format!("{part}/{place}")),
            // The whole directory, or a file that names another one.
            None if is_git && inside.is_empty() => return Some(part.clone()),
            _ => {}
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
            "/p/git/config",
            "/p/.gitignore",
            "/p/.github/workflows/ci.yml",
        ] {
            assert_eq!(project_place(Path::new(path)), None, "{path}");
        }
    }
}
