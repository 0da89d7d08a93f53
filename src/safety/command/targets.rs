//! The files that a command line reaches, by their paths alone.

mod kinds;

use std::path::Path;

use super::class::CommandClass::{Destroys, Writes};
use super::findings::Findings;
use super::programs;
use super::word::UNKNOWN;
use super::wrappers;
use crate::safety::protected_paths::{self, PROJECT_PLACES, project_place};
use kinds::HARMLESS;

pub use kinds::{attaches, build_file, is_device, is_disk, is_private, is_secret};

/// Where a command line would run. Only compared as text; nothing is looked up.
#[derive(Debug, Clone, Copy)]
pub struct CommandPlace<'a> {
    /// The working directory.
    pub cwd: &'a str,
    /// The home directory.
    pub home: &'a str,
    /// Directories that belong to the task, in addition to the working directory.
    pub workspace: &'a [&'a str],
}

/// How far a path reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathReach {
    /// Below the working directory or the workspace.
    Inside,
    /// Somewhere else.
    Outside,
    /// Not known before the command runs.
    Unknown,
    /// The working directory or the workspace as a whole.
    Whole,
    /// The root, the home directory, a directory of the system, or what contains the working directory.
    Everything,
}

/// Directories of the system. A change in them concerns all users.
const SYSTEM: [&str; 17] = [
    "/bin",
    "/boot",
    "/dev",
    "/efi",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/root",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib",
    "/var/spool",
    "/System",
    "/Library",
];

/// Files that run later without a question, in addition to those of [`project_place`] and [`protected_paths::NAMES`]. A name with `/`
/// at its end is a directory.
const RUN_LATER: &[&str] = &[
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".login",
    ".tmux.conf",
    ".screenrc",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    ".curlrc",
    ".wgetrc",
    ".mailcap",
    ".lesskey",
    ".emacs",
    ".gdbinit",
    ".gdbearlyinit",
    ".lldbinit",
    ".irbrc",
    ".pryrc",
    ".psqlrc",
    ".sqliterc",
    ".pdbrc",
    ".rprofile",
    ".pam_environment",
    ".claude.json",
    ".pythonstartup",
    "sitecustomize.py",
    "usercustomize.py",
    "mcp.json",
    "authorized_keys",
    ".ssh/",
    ".gnupg/",
    ".git/",
    ".husky/",
    ".cargo/",
    ".vim/",
    ".emacs.d/",
    "autostart/",
    "environment.d/",
    "node_modules/.bin/",
    ".bazelrc",
    ".circleci/",
    ".git-credentials",
    ".gitattributes",
    ".github/workflows/",
    ".gitlab-ci.yml",
    ".my.cnf",
    ".nanorc",
    ".pre-commit-config.yaml",
    ".travis.yml",
    ".xonshrc",
    ".xresources",
    ".yarnrc",
    ".yarnrc.yml",
    "jenkinsfile",
    "lefthook.yml",
];

/// Directories and files below the home directory that run later, in addition to [`protected_paths::HOME_DIRS`].
const RUN_LATER_HOME: &[&str] = &[
    ".aws/config",
    ".config/aish",
    ".config/code/user",
    ".config/containers",
    ".config/emacs",
    ".config/fish",
    ".config/gdb",
    ".config/git",
    ".config/kitty",
    ".config/lesskey",
    ".config/nvim",
    ".config/pip",
    ".config/systemd",
    ".config/tmux",
    ".config/wezterm",
    ".config/zed",
    ".bashrc.d",
    ".config/doom",
    ".config/hg",
    ".config/mutt",
    ".config/neomutt",
    ".config/vscodium/user",
    ".config/xmonad",
    ".docker/config.json",
    ".doom.d",
    ".hgrc",
    ".kube/config",
    ".local/share/applications",
    ".local/share/systemd",
    ".azure",
    ".aws/credentials",
    ".boto",
    ".bundle",
    ".condarc",
    ".config/alacritty",
    ".config/awesome",
    ".config/bspwm",
    ".config/direnv",
    ".config/foot",
    ".config/gcloud",
    ".config/gh",
    ".config/ghostty",
    ".config/glab-cli",
    ".config/helix",
    ".config/hub",
    ".config/hypr",
    ".config/i3",
    ".config/jj",
    ".config/lf",
    ".config/mise",
    ".config/mpv",
    ".config/nushell",
    ".config/polybar",
    ".config/powershell",
    ".config/qtile",
    ".config/ranger",
    ".config/rclone",
    ".config/river",
    ".config/starship.toml",
    ".config/sway",
    ".config/sxhkd",
    ".config/waybar",
    ".config/yazi",
    ".config/zellij",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".gradle/init.gradle",
    ".ipython",
    ".jupyter",
    ".local/share/keyrings",
    ".m2/settings.xml",
    ".mozilla",
    ".mutt",
    ".muttrc",
    ".neomuttrc",
    ".password-store",
    ".profile.d",
    ".s3cfg",
    ".spacemacs",
    ".spacemacs.d",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".wezterm.lua",
    ".xmonad",
    "library/application support/code/user",
    "library/keychains",
    "library/launchagents",
];

/// Returns the places below a home directory that run later or hold keys.
pub fn run_later_places() -> impl Iterator<Item = &'static str> {
    let names = RUN_LATER.iter().filter(|name| name.starts_with('.'));
    let names = names.map(|name| name.trim_end_matches('/'));
    let of_projects = PROJECT_PLACES.into_iter();
    names
        .chain(RUN_LATER_HOME.iter().copied())
        .chain(of_projects.filter(|name| name.starts_with('.')))
}

/// Whether a path below a home directory, in lower case, is in a place that runs later or holds keys.
pub fn is_run_later_at_home(below: &str) -> bool {
    run_later_places().any(|place| is_below(below, place))
}

/// Returns an absolute path without `.` and `..`. A path that is not known ends where it becomes unknown.
pub fn normalize(path: &str, cwd: &str) -> String {
    let joined = match path.starts_with('/') || path.starts_with(UNKNOWN) {
        true => path.to_owned(),
        false => format!("{cwd}/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn is_below(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl CommandPlace<'_> {
    /// Whether an absolute path is the home directory or the working directory, or contains one of them.
    pub fn holds_own(&self, path: &str) -> bool {
        is_below(&normalize(self.cwd, "/"), path) || is_below(&normalize(self.home, "/"), path)
    }

    /// Whether an absolute path is the working directory, a directory of the workspace, or below one of them.
    pub fn is_own(&self, path: &str) -> bool {
        let mut roots = std::iter::once(&self.cwd).chain(self.workspace);
        roots.any(|root| is_below(path, &normalize(root, "/")))
    }

    /// Whether a path lies where anybody may write, other than below a home or working directory that lies there.
    pub fn is_shared(&self, path: &str) -> bool {
        const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
        let full = normalize(path, "/");
        let own = [self.home, self.cwd].into_iter();
        let own = own.chain(self.workspace.iter().copied());
        let is_own = own
            .map(|root| normalize(root, "/"))
            .any(|root| root != "/" && !SHARED.contains(&root.as_str()) && is_below(&full, &root));
        let mut shared = SHARED.iter();
        path.starts_with('/') && !is_own && shared.any(|shared| is_below(&full, shared))
    }

    /// Returns the reach of a path that is deleted or changed with everything below it.
    pub fn reach(&self, path: &str) -> PathReach {
        let unknown = path.find(UNKNOWN);
        let known = path
            .get(..unknown.unwrap_or(path.len()))
            .unwrap_or_default();
        if unknown.is_some() {
            // `$DIR/*` is everything if the variable is empty; `build/$x` stays below `build`, unless it has `..`.
            let depth = normalize(known, "/").matches('/').count();
            let is_inside = known.contains('/') && !path.contains("..") && depth > 0;
            return match is_inside && self.reach(known.trim_end_matches('/')) == PathReach::Inside {
                true => PathReach::Inside,
                false => PathReach::Unknown,
            };
        }
        // `dir/*` is all of `dir`.
        let plain = match path {
            "*" | "**" | "./*" | "**/*" => ".",
            path => path
                .trim_end_matches("/*")
                .trim_end_matches("/**")
                .trim_end_matches("/.*"),
        };
        let plain = match plain.is_empty() {
            true => "/",
            false => plain,
        };
        if plain.starts_with('~') {
            // The home directory of another user.
            return PathReach::Everything;
        }
        let path = normalize(plain, self.cwd);
        let depth = path.matches('/').count();
        let is_system =
            SYSTEM.contains(&path.as_str()) || path == "/" || depth == 1 && path != "/tmp";
        let home = self.home.trim_end_matches('/');
        let mut roots = std::iter::once(self.cwd).chain(self.workspace.iter().copied());
        if is_system || path == home || is_below(home, &path) {
            return PathReach::Everything;
        }
        if roots.clone().any(|root| normalize(root, "/") == path) {
            return PathReach::Whole;
        }
        if roots
            .clone()
            .any(|root| is_below(&path, &normalize(root, "/")))
        {
            return PathReach::Inside;
        }
        match roots.any(|root| is_below(&normalize(root, "/"), &path)) {
            true => PathReach::Everything,
            false => PathReach::Outside,
        }
    }

    /// Returns why a change of a file is grave, for a device, a file of the system, or one that runs later.
    pub fn protected(&self, path: &str) -> Option<&'static str> {
        if path.is_empty() || path == "-" {
            return None;
        }
        let at = path.find(UNKNOWN);
        let full = normalize(path, self.cwd);
        if HARMLESS.iter().any(|harmless| is_below(&full, harmless)) {
            return None;
        }
        if is_below(&full, "/dev") {
            return Some("writes to a device");
        }
        let is_local = is_below(&full, "/usr/local") || is_below(&full, "/usr/share");
        let in_project = is_below(&full, self.cwd) || is_below(&full, self.home);
        if at != Some(0)
            && !is_local
            && !in_project
            && SYSTEM.iter().any(|directory| is_below(&full, directory))
            || full == "/"
        {
            return Some("changes files of the system");
        }
        let is_known_hosts = full.ends_with("/.ssh/known_hosts");
        let is_completion = full.contains("/completions/") || full.contains("/site-functions/");
        if is_known_hosts || is_completion || full.ends_with("/.git/info/exclude") {
            return None;
        }
        // On some file systems `.ZSHRC` is the same file.
        let full = full.to_lowercase();
        let name = full.rsplit('/').next().unwrap_or_default();
        let is_place = protected_paths::NAMES.contains(&name)
            || project_place(Path::new(&full)).is_some()
            || RUN_LATER.iter().any(|place| match place.strip_suffix('/') {
                Some(directory) => {
                    full.contains(&format!("/{place}")) || full.ends_with(&format!("/{directory}"))
                }
                None => name == *place,
            });
        let home = self.home.to_lowercase();
        let in_home = full.strip_prefix(home.trim_end_matches('/'));
        let is_home_place = in_home.is_some_and(|rest| {
            let rest = rest.trim_start_matches('/');
            let mut places = RUN_LATER_HOME.iter().chain(protected_paths::HOME_DIRS);
            places.any(|place| is_below(rest, place))
        });
        let is_code = full.ends_with(".pth") && full.contains("/site-packages/");
        if is_place || is_home_place || is_code || full.contains("/cron") {
            return Some("changes a file that runs later or that holds keys");
        }
        self.replaces_program(&full)
            .then_some("replaces a program, which runs later")
    }

    /// Whether a file, in lower case, has the name of a known program and lies where programs are looked for, outside of the
    /// project.
    fn replaces_program(&self, full: &str) -> bool {
        let Some((directory, name)) = full.rsplit_once('/') else {
            return false;
        };
        let is_searched = directory.ends_with("/bin") || directory.ends_with("/sbin");
        let is_known = programs::find(name).is_some()
            || name == "env"
            || wrappers::wrapped(name, &[name.to_owned()]).is_some();
        let mut own = std::iter::once(self.cwd).chain(self.workspace.iter().copied());
        let is_own = own.any(|root| is_below(full, &normalize(root, "/").to_lowercase()));
        is_searched && is_known && !is_own
    }
}

/// Whether a path is, or lies in, a directory outside of the project where programs are looked for.
pub fn program_directory(path: &str, place: &CommandPlace<'_>) -> bool {
    let full = normalize(path, place.cwd);
    let mut parts = full.split('/').rev().take(2);
    parts.any(|part| part == "bin" || part == "sbin") && !place.is_own(&full)
}

/// Adds a finding for a file that is written.
pub fn written(path: &str, place: &CommandPlace<'_>, findings: &mut Findings) {
    match (place.protected(path), build_file(path)) {
        (Some(reason), _) => findings.add_grave(Destroys, reason),
        (None, Some(name)) => findings.add(Writes, format!("writes {name}, which tools run later")),
        (None, None) => findings.add(Writes, ""),
    }
}

/// Whether writing to a path changes no file: it is a standard stream, a descriptor or the null device.
pub fn is_sink(path: &str) -> bool {
    matches!(
        path,
        "" | "-" | "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty"
    ) || path.starts_with("/dev/fd/")
}
