//! The files that a command line reaches, by their paths alone.

use super::word::UNKNOWN;

/// Where a command line would run. Only compared as text; nothing is looked up.
#[derive(Debug, Clone, Copy)]
pub struct CommandPlace<'a> {
    /// The working directory.
    pub cwd: &'a str,
    /// The home directory.
    pub home: &'a str,
    /// Directories that belong to the task, besides the working directory.
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

/// Devices and files below `/dev` and `/proc` that are harmless to write to.
const HARMLESS: [&str; 10] = [
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/tty",
    "/dev/zero",
    "/dev/full",
    "/dev/shm",
    "/dev/fd",
    "/dev/pts",
];

/// Files of the home directory or a project that run later without a question. A name with `/` at its end is a directory.
const RUN_LATER: [&str; 42] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".login",
    ".vimrc",
    ".exrc",
    ".tmux.conf",
    ".gitconfig",
    ".gitmodules",
    ".envrc",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    ".aish.toml",
    ".mcp.json",
    ".pythonstartup",
    "sitecustomize.py",
    "authorized_keys",
    ".ssh/",
    ".gnupg/",
    ".git/",
    ".vscode/",
    ".idea/",
    ".husky/",
    "autostart/",
];

/// Directories below the home directory whose files run later.
const RUN_LATER_DIRS: [&str; 9] = [
    ".config/fish",
    ".config/zsh",
    ".config/systemd",
    ".config/autostart",
    ".config/git",
    ".config/aish",
    ".oh-my-zsh",
    "Library/LaunchAgents",
    ".local/share/systemd",
];

/// Files of a project that tools run.
const BUILD_FILES: [&str; 22] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "package.json",
    "conftest.py",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "build.rs",
    "build.gradle",
    "build.gradle.kts",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "justfile",
    "Dockerfile",
    "docker-compose.yml",
    "docker-compose.yaml",
    "CMakeLists.txt",
    "configure",
    "tox.ini",
    "noxfile.py",
];

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
    /// Returns how far a path reaches that is deleted or changed with all that is below it.
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
        let runs_later = RUN_LATER.iter().any(|name| match name.strip_suffix('/') {
            Some(directory) => {
                full.contains(&format!("/{directory}/")) && !full.ends_with("/info/exclude")
            }
            None => full.rsplit('/').next() == Some(name),
        });
        let home = self.home.trim_end_matches('/');
        let in_home = full
            .strip_prefix(home)
            .map(|rest| rest.trim_start_matches('/'));
        let in_directory = in_home.is_some_and(|rest| {
            RUN_LATER_DIRS
                .iter()
                .any(|directory| is_below(rest, directory))
        });
        let is_completion = full.contains("/completions/") || full.contains("/site-functions/");
        match !is_known_hosts
            && !is_completion
            && (runs_later || in_directory || full.contains("/cron"))
        {
            true => Some("changes a file that runs later or that holds keys"),
            false => None,
        }
    }
}

/// Returns the name of a file of a project that tools run, such as a makefile.
pub fn build_file(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    BUILD_FILES.contains(&name).then_some(name)
}

/// Whether a path names a disk or another device that holds data.
pub fn is_device(path: &str) -> bool {
    is_below(path, "/dev")
        && !HARMLESS.iter().any(|harmless| is_below(path, harmless))
        && path != "/dev/random"
        && path != "/dev/urandom"
}

/// Whether a file holds keys or passwords.
pub fn is_secret(path: &str) -> bool {
    const SECRETS: [&str; 12] = [
        "/.ssh/id_",
        "/.aws/credentials",
        "/.gnupg/",
        "/.netrc",
        "/etc/shadow",
        "/.pgpass",
        "/.docker/config.json",
        "/.kube/config",
        "/.npmrc",
        "/.pypirc",
        "/.git-credentials",
        "/.config/gh/hosts.yml",
    ];
    const DIRECTORIES: [&str; 4] = ["/.ssh", "/.aws", "/.gnupg", "/.kube"];
    let path = path.trim_end_matches('/');
    let is_directory = DIRECTORIES
        .iter()
        .any(|directory| path.ends_with(directory));
    (is_directory || SECRETS.iter().any(|secret| path.contains(secret))) && !path.ends_with(".pub")
}
