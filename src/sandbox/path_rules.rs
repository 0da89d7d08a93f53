//! Which paths a sandboxed command may read and change. Pure: paths are compared as text and must have no symlinks.

use std::path::{Path, PathBuf};

use super::policy::{SandboxLevel, SandboxPolicy};

/// Programs, libraries and settings of the system.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/home/linuxbrew",
    "/run/current-system",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Where `/etc/resolv.conf` may lead; readable with network.
const RESOLVER: &[&str] = &[
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];

#[cfg(target_os = "linux")]
/// Parts of `/proc` that tell nothing about other processes.
pub(super) const PROC: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
];

/// Devices that hold no data of the machine; they may be written.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Toolchains and what they need, below the home directory. Nothing else below it can be read.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal",
    ".cargo",
    ".config/git",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".gem",
    ".ghcup",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".gradle",
    ".jenv",
    ".julia",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".plenv",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".swiftly",
    ".volta",
    "bin",
    "go/bin",
    "go/pkg",
];

/// What is hidden below the home directory, also where a directory above it may be read.
const HOME_SECRETS: &[&str] = &[
    ".Xauthority",
    ".ICEauthority",
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cabal/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".cloudflared",
    ".codex/auth.json",
    ".config/BraveSoftware",
    ".config/aish",
    ".config/chromium",
    ".config/gcloud",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/google-chrome",
    ".config/hub",
    ".config/microsoft-edge",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".dotnet/corefx",
    ".electrum",
    ".fly",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".gradle/develocity",
    ".gradle/gradle.properties",
    ".histfile",
    ".history",
    ".julia/logs",
    ".julia/servers",
    ".kube",
    ".lesshst",
    ".local/share/aish",
    ".local/share/atuin",
    ".local/share/fish",
    ".local/share/keyrings",
    ".local/share/uv/credentials",
    ".local/state/aish",
    ".m2/.develocity",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pki",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".snap",
    ".sqlite_history",
    ".ssh",
    ".stack/upload",
    ".terraform.d",
    ".thunderbird",
    ".vault-token",
    ".viminfo",
    ".wget-hsts",
    ".zhistory",
    ".zsh_history",
    "Library",
];

/// What root may read of `/etc`: it could also read the secrets there, and a rule for each file beside them takes milliseconds.
const ETC_OF_ROOT: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gitconfig",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "manpath.config",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "php",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "resolv.conf",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xdg",
    "zsh",
];

/// Which paths may be read and changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRules {
    /// Files and directories that may be read and executed.
    pub read: Vec<PathBuf>,
    /// Directories that may be read, executed and changed.
    pub write: Vec<PathBuf>,
    /// Devices that may be read and written.
    pub devices: Vec<PathBuf>,
    /// Files and directories that are excluded from all others.
    pub hidden: Vec<PathBuf>,
    /// What is not hidden although it is below something hidden.
    pub shown: Vec<PathBuf>,
    /// What stays as it is in the directories that may be changed.
    pub guarded: Vec<PathBuf>,
}

impl PathRules {
    /// Returns the rules of a policy.
    pub fn new(policy: &SandboxPolicy) -> PathRules {
        let absolute = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let mut hidden = policy.hidden.clone();
        let mut read = absolute(SYSTEM);
        let etc = Path::new("/etc");
        match policy.is_root {
            true => read.extend(ETC_OF_ROOT.iter().map(|name| etc.join(name))),
            false => read.push(etc.to_owned()),
        }
        if policy.network {
            read.extend(absolute(RESOLVER));
        }
        if let Some(home) = &policy.home {
            let below =
                |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
            hidden.extend(below(HOME_SECRETS));
            read.extend(below(TOOLCHAINS));
        }
        read.extend(policy.read.iter().cloned());
        let mut write: Vec<PathBuf> = policy.private_tmp.iter().cloned().collect();
        match policy.level {
            SandboxLevel::ReadOnly => {
                read.push(policy.dir.clone());
                read.extend(policy.write.iter().cloned());
            }
            SandboxLevel::Workspace => {
                write.push(policy.dir.clone());
                write.extend(policy.write.iter().cloned());
            }
        }
        PathRules {
            read,
            write,
            devices: absolute(DEVICES),
            hidden,
            shown: policy.shown.clone(),
            guarded: policy.guarded.clone(),
        }
    }

    /// Whether `path` is hidden, or below something hidden.
    pub fn is_hidden(&self, path: &Path) -> bool {
        let beneath = |dirs: &[PathBuf]| dirs.iter().any(|dir| path.starts_with(dir));
        beneath(&self.hidden) && !beneath(&self.shown)
    }

    /// Whether something below `path` is hidden.
    pub fn hides_below(&self, path: &Path) -> bool {
        self.hidden
            .iter()
            .any(|secret| secret != path && secret.starts_with(path))
    }

    /// Whether the content of `path` may be read.
    pub fn may_read(&self, path: &Path) -> bool {
        let beneath = |dirs: &[PathBuf]| dirs.iter().any(|dir| path.starts_with(dir));
        let is_listed = beneath(&self.read) || beneath(&self.write) || beneath(&self.devices);
        // What other processes tell in /proc depends on namespaces; a refusal there says nothing about files.
        (is_listed || path.starts_with("/proc")) && !self.is_hidden(path)
    }

    /// Whether `path` is a device that may be written. Its mode and its times are those of the machine.
    #[cfg(target_os = "linux")]
    pub fn is_device(&self, path: &Path) -> bool {
        self.devices.iter().any(|device| path == device)
    }

    /// Whether `path` may be changed.
    pub fn may_write(&self, path: &Path) -> bool {
        let beneath = |dirs: &[PathBuf]| dirs.iter().any(|dir| path.starts_with(dir));
        (beneath(&self.write) || beneath(&self.devices))
            && !self.is_hidden(path)
            && !beneath(&self.guarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(level: SandboxLevel) -> PathRules {
        let mut policy = SandboxPolicy::new(level, "/home/u/project");
        policy.hidden.push("/home/u/aish".into());
        policy.shown.push("/home/u/aish/packages".into());
        policy.read.push("/home/u/aish/packages".into());
        policy.is_root = true;
        policy.home = Some("/home/u".into());
        policy.read.push("/srv/tools/bin".into());
        policy.private_tmp = Some("/tmp/private".into());
        policy.guarded.push("/home/u/project/tools".into());
        PathRules::new(&policy)
    }

    #[test]
    fn secrets_and_other_projects_cannot_be_read() {
        let rules = rules(SandboxLevel::ReadOnly);
        for path in [
            "/home/u/.ssh/id_ed25519",
            "/home/u/.cargo/credentials.toml",
            "/home/u/other/file",
            "/home/u/.zsh_history",
            "/home/u/aish/keys/x",
            "/etc/shadow",
            "/root/x",
            "/tmp/x",
            "/run/user/1000/bus",
            "/home/u/projects/x",
        ] {
            assert!(!rules.may_read(Path::new(path)), "{path}");
        }
        for path in [
            "/home/u/project/src/a.rs",
            "/home/u/.cargo/bin/cargo",
            "/usr/bin/cc",
            "/etc/passwd",
            "/srv/tools/bin/x",
            "/home/u/aish/packages/x.py",
            "/tmp/private/x",
            "/dev/null",
        ] {
            assert!(rules.may_read(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn only_the_workspace_and_the_private_directory_can_be_changed() {
        let path = Path::new("/home/u/project/a");
        assert!(!rules(SandboxLevel::ReadOnly).may_write(path));
        let rules = rules(SandboxLevel::Workspace);
        assert!(rules.may_write(path));
        assert!(rules.may_write(Path::new("/tmp/private/x")));
        assert!(rules.may_write(Path::new("/home/u/project/.git/index")));
        for path in [
            "/home/u/project/tools/hook",
            "/home/u/.zshrc",
            "/home/u/.cargo/config.toml",
            "/usr/bin/x",
        ] {
            assert!(!rules.may_write(Path::new(path)), "{path}");
        }
    }
}
