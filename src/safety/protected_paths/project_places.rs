//! Files of a project that decide what other programs run: editors, git, MCP clients and coding agents. Pure.

use std::path::Path;

/// Names of directories and files that decide what other programs run, in any directory; in lower case.
pub const PROJECT_PLACES: [&str; 58] = [
    ".aider.conf.yml",
    ".aish",
    ".aish.toml",
    ".amazonq",
    ".augment",
    ".claude",
    ".codex",
    ".continue",
    ".crush",
    ".crush.json",
    ".cursor",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".factory",
    ".fleet",
    ".gemini",
    ".gitconfig",
    ".gitmodules",
    ".gvimrc",
    ".helix",
    ".hg",
    ".husky",
    ".idea",
    ".jj",
    ".junie",
    ".kiro",
    ".lazy.lua",
    ".local.vimrc",
    ".lvimrc",
    ".mcp.json",
    ".mise",
    ".nova",
    ".npmrc",
    ".nvim.lua",
    ".nvimrc",
    ".opencode",
    ".pnpmfile.cjs",
    ".qwen",
    ".roo",
    ".tool-versions",
    ".trae",
    ".vim",
    ".vimrc",
    ".vs",
    ".vscode",
    ".windsurf",
    ".yarnrc",
    ".yarnrc.yml",
    ".zed",
    "claude_desktop_config.json",
    "crush.json",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
];

/// Endings of the names of files in which an editor has the settings and the commands of a project.
const EDITOR_ENDINGS: [&str; 2] = [".code-workspace", ".sublime-project"];

/// Directories of `.config` from which git, shells, mise and the login session take what they run, wherever that `.config` is: it
/// may be one of dotfiles.
const CONFIG_PLACES: [&str; 8] = [
    "autostart",
    "environment.d",
    "fish",
    "git",
    "mise",
    "plasma-workspace",
    "systemd",
    "zsh",
];

/// Directories below the home directory from which git, the login session and the user run programs, in addition to
/// [`super::HOME_DIRS`].
pub const HOME_PLACES: [&str; 8] = [
    ".config/autostart",
    ".config/environment.d",
    ".config/git",
    ".config/plasma-workspace",
    ".config/systemd",
    ".local/share/dbus-1/services",
    ".local/share/systemd/user",
    PROGRAMS,
];

/// Where programs of the user are, below the home directory.
const PROGRAMS: &str = ".local/bin";

/// Files of a git directory that decide which programs git runs or which other directory it obeys, see
/// [gitrepository-layout](https://git-scm.com/docs/gitrepository-layout).
pub const GIT_SETTINGS: [&str; 7] = [
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    "info/attributes",
    // Names repositories whose objects git reads as well.
    "objects/info/alternates",
];

/// State of a rebase, an `am` or a cherry-pick in progress whose commands and strategies git runs when it continues. Git changes
/// these files by itself.
pub const GIT_STATE: [&str; 8] = [
    "rebase-apply/apply-opt",
    "rebase-apply/gpg_sign_opt",
    "rebase-apply/strategy",
    "rebase-merge/git-rebase-todo",
    "rebase-merge/gpg_sign_opt",
    "rebase-merge/strategy",
    "rebase-merge/strategy_opts",
    "sequencer/opts",
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

/// Whether a file or directory, its name in lower case, decides what other programs run: one of [`PROJECT_PLACES`], a workspace of
/// an editor, or the configuration of cargo, mise, git, a shell or the login session.
pub fn is_project_place(parent: &Path, name: &str) -> bool {
    let is_parent = |expected: &str| {
        let parent = parent.file_name().map(|parent| parent.to_string_lossy());
        parent.is_some_and(|parent| parent.eq_ignore_ascii_case(expected))
    };
    // `mise.toml`, `.mise.local.toml`, `mise.production.toml`
    let is_mise = name.ends_with(".toml") && name.trim_start_matches('.').starts_with("mise.");
    PROJECT_PLACES.contains(&name)
        || EDITOR_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || is_mise
        || matches!(name, "config" | "config.toml") && is_parent(".cargo")
        || CONFIG_PLACES.contains(&name) && is_parent(".config")
        || name == "config.toml" && is_parent("mise")
}

/// Returns the name of the place that a path belongs to, as it is written there, if a change of it lets another program run
/// something; `None` for other paths. Case does not count, because it does not on some file systems.
pub fn project_place(path: &Path) -> Option<String> {
    let names: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let parts: Vec<String> = names.iter().map(|part| part.to_lowercase()).collect();
    let written = |from: usize, to: usize| names.get(from..to).unwrap_or_default().join("/");
    for (at, part) in parts.iter().enumerate() {
        let parent = at.checked_sub(1).and_then(|at| parts.get(at));
        if is_project_place(Path::new(parent.map_or("", String::as_str)), part) {
            // `fish` and `config` alone do not tell which.
            let is_named =
                |parent: &String| matches!(parent.as_str(), ".cargo" | ".config" | "mise");
            let from = at - usize::from(parent.is_some_and(is_named));
            return Some(written(from, at + 1));
        }
        let inside = parts.get(at + 1..).unwrap_or_default();
        let inside_text = inside.join("/");
        if part == ".git" {
            // The whole directory, a file that names another one, or anything but a text in it: a rebase in progress
            // has commands as well, and another git directory may lie deeper.
            return match GIT_TEXTS.contains(&inside_text.as_str()) {
                true => None,
                false => Some(written(at, names.len())),
            };
        }
        if part.ends_with(".git") {
            let is_setting = |name: &&&str| {
                let tail = inside_text.strip_prefix(**name);
                tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
            };
            if let Some(name) = GIT_SETTINGS.iter().find(is_setting) {
                return Some(written(at, at + 1 + name.split('/').count()));
            }
        }
    }
    None
}

/// Whether a file is a program in `~/.local/bin`, which shells look into.
pub fn is_user_program(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.ends_with(PROGRAMS))
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
            "/p/a.code-workspace",
            "/p/.cargo/config.toml",
            "/p/.cargo/config",
            "/p/mise.toml",
            "/p/.mise.local.toml",
            "/p/.config/mise/conf.d/a.toml",
            "/p/.tool-versions",
            "/home/u/.gitconfig",
            "/home/u/.config/git/config",
            "/home/u/.config/git/attributes",
            "/home/u/.config/fish/conf.d/x.fish",
            "/home/u/dot/.config/systemd/user/x.service",
            "/home/u/.config/autostart/x.desktop",
            "/home/u/.config/environment.d/x.conf",
            "/p/.devcontainer.json",
            "/p/.opencode/plugin/x.js",
            "/p/mcp.json",
            "/p/.npmrc",
            "/p/.lazy.lua",
            "/p/.vim/plugin/x.vim",
            "/p/.gvimrc",
            "/p/x.sublime-project",
            "/p/.nova/Tasks/x.json",
            "/p/.pnpmfile.cjs",
            "/p/.yarnrc",
            "/p/.augment/settings.json",
            "/p/.crush/x.json",
        ] {
            assert!(project_place(Path::new(path)).is_some(), "{path}");
        }
        for (path, place) in [
            ("/home/u/.config/fish/config.fish", ".config/fish"),
            ("/p/.cargo/config.toml", ".cargo/config.toml"),
            ("/p/.GIT/Hooks/x", ".GIT/Hooks/x"),
            ("/p/.git/HEAD", ".git/HEAD"),
            ("/p/.git", ".git"),
            ("/srv/p.git/hooks/update", "p.git/hooks"),
            ("/srv/p.git/info/attributes", "p.git/info/attributes"),
            ("/p/a/.vscode/tasks.json", ".vscode"),
        ] {
            assert_eq!(project_place(Path::new(path)).as_deref(), Some(place));
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
            "/p/.cargo/registry/x",
            "/p/misery.toml",
            "/p/cargo/config.toml",
            "/p/tool-versions",
            "/p/.github/workflows/ci.yml",
            "/p/.config/nvim/init.lua",
            "/p/systemd/x.service",
            "/p/npmrc",
            "/p/vim/ftplugin/x.vim",
            "/p/yarn.lock",
            "/p/pnpm-lock.yaml",
            "/p/src/crush/x.json",
            "/p/sublime-project",
        ] {
            assert_eq!(project_place(Path::new(path)), None, "{path}");
        }
    }
}
