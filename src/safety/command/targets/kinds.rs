//! Kinds of files that a path names: a device, a file that tools run, a file that nobody else should get.

use super::is_below;
use crate::safety::command::word::UNKNOWN;

/// Devices and files below `/dev` and `/proc` that are harmless to write to.
pub(super) const HARMLESS: [&str; 10] = [
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

/// Files of a project that tools run.
const BUILD_FILES: &[&str] = &[
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
    "compose.yml",
    "compose.yaml",
    "Containerfile",
    "Taskfile.yml",
    "Vagrantfile",
    "build.sbt",
    "default.nix",
    "flake.nix",
    "main.tf",
    "meson.build",
    "mix.exs",
    "pom.xml",
    "shell.nix",
];

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

/// Whether a path names a device that holds data, not one that is a line, a sensor or a screen.
pub fn is_disk(path: &str) -> bool {
    const OTHERS: [&str; 22] = [
        "tty", "cu.", "video", "media", "snd", "input", "dri", "kvm", "net", "fuse", "hidraw",
        "i2c", "spidev", "gpio", "bus", "serial", "usb", "lp", "sr", "cdrom", "dvd", "vfio",
    ];
    let name = path.strip_prefix("/dev/").unwrap_or_default();
    is_device(path) && !OTHERS.iter().any(|other| name.starts_with(other))
}

/// Whether a program only attaches, grows or shows the device that it gets.
pub fn attaches(program: &str) -> bool {
    const ATTACHING: [&str; 28] = [
        "mount",
        "umount",
        "pmount",
        "pumount",
        "kpartx",
        "partprobe",
        "losetup",
        "blkid",
        "lsblk",
        "udisksctl",
        "udevadm",
        "eject",
        "cryptsetup",
        "veracrypt",
        "blockdev",
        "lvcreate",
        "lvextend",
        "vgextend",
        "lvchange",
        "vgchange",
        "lvrename",
        "btrfs",
        "zfs",
        "zpool",
        "diskutil",
        "hdiutil",
        "smartctl",
        "sync",
    ];
    ATTACHING.contains(&program) || program.starts_with("qemu-system-")
}

/// Whether nobody else should get a file: one with keys or passwords, of settings with secrets, of users, or the commands that were typed.
pub fn is_private(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_example = ["example", "sample", "template", "dist"]
        .iter()
        .any(|end| name.ends_with(end));
    // A store of passwords of which each file is encrypted, and profiles of a browser.
    const DIRECTORIES: [&str; 2] = ["/.password-store", "/.mozilla/firefox"];
    let is_directory = |directory: &&str| path.trim_end_matches('/').ends_with(*directory);
    is_secret(path)
        || is_key_name(name)
        || matches_private(path)
        || path == "/etc/passwd"
        || path.starts_with("/proc/") && path.ends_with("/environ")
        || path.contains("/.password-store/")
        || DIRECTORIES.iter().any(is_directory)
        || [".tfstate", ".tfstate.backup"]
            .iter()
            .any(|end| name.ends_with(end))
        || (name == ".env" || name.starts_with(".env.")) && !is_example
        || matches!(
            name,
            ".zsh_history"
                | ".bash_history"
                | ".histfile"
                | "fish_history"
                | ".vault-token"
                | "cookies.sqlite"
                | "Cookies"
                | "Login Data"
                | "logins.json"
                | "key4.db"
        )
}

/// Whether a file holds keys or passwords.
pub fn is_secret(path: &str) -> bool {
    const SECRETS: [&str; 17] = [
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
        "/.config/rclone/rclone.conf",
        "/.terraform.d/credentials.tfrc.json",
        "/.config/gcloud/credentials.db",
        "/.config/gcloud/access_tokens.db",
        "/.config/gcloud/application_default_credentials.json",
    ];
    const DIRECTORIES: [&str; 5] = ["/.ssh", "/.aws", "/.gnupg", "/.kube", "/.config/gcloud"];
    let path = path.trim_end_matches('/');
    // `.ssh/id_rsa`, as after `cd`: a lone `.npmrc` may be that of a project.
    let begins = |secret: &str| {
        let relative = secret.trim_start_matches('/');
        relative.contains('/') && path.starts_with(relative)
    };
    let is_directory = DIRECTORIES
        .iter()
        .any(|directory| path.ends_with(directory) || path == directory.trim_start_matches('/'));
    let mut secrets = SECRETS.iter();
    (is_directory || secrets.any(|secret| path.contains(secret) || begins(secret)))
        && !path.ends_with(".pub")
}

/// Whether the name of a file says that it holds a private key or a store of passwords.
fn is_key_name(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "ca.key",
        "client.key",
        "private.key",
        "server.key",
        "tls.key",
        "key.pem",
        "private.pem",
        "privkey.pem",
    ];
    const ENDS: [&str; 4] = [".kdbx", ".p12", ".pfx", ".ppk"];
    NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a path with a pattern, or with a name that is not known, may be that of a private file: `~/.ssh/*`, `.env*`, `*.pem`.
fn matches_private(path: &str) -> bool {
    const SIGNS: [char; 5] = ['*', '?', '[', ']', UNKNOWN];
    const KEYS: [(&str, &[&str]); 5] = [
        (".ssh", &["id_rsa", "id_ed25519", "id_ecdsa"]),
        (".aws", &["credentials"]),
        (".gnupg", &["secring.gpg"]),
        (".kube", &["config"]),
        (".config/gcloud", &["credentials.db"]),
    ];
    const OTHERS: &[&str] = &[
        ".env",
        "id_rsa",
        "id_ed25519",
        "privkey.pem",
        "private.key",
        "x.kdbx",
        "x.p12",
        "x.pfx",
    ];
    let (directory, pattern) = path.rsplit_once('/').unwrap_or(("", path));
    let (Some(start), Some(end)) = (pattern.find(SIGNS), pattern.rfind(SIGNS)) else {
        return false;
    };
    let holds_keys = |(own, _): &&(&str, &[&str])| {
        let before = directory.strip_suffix(*own);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let names = match KEYS.iter().find(holds_keys) {
        Some((_, names)) => names,
        // Elsewhere a pattern for all names says nothing.
        None => {
            let is_letter = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let letters = pattern.chars().filter(is_letter);
            match letters.count() > 2 && !pattern.contains(UNKNOWN) {
                true => OTHERS,
                false => return false,
            }
        }
    };
    let start = pattern.get(..start).unwrap_or_default();
    let end = pattern.get(end + 1..).unwrap_or_default();
    names.iter().any(|name| {
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end))
    })
}
