//! Kinds of files that a path names: a device, a file that tools run, a file that nobody else should get.

use super::is_below;

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
    let is_directory = DIRECTORIES
        .iter()
        .any(|directory| path.ends_with(directory));
    (is_directory || SECRETS.iter().any(|secret| path.contains(secret))) && !path.ends_with(".pub")
}
