//! Places of credentials, histories and other secrets: commands in the sandbox cannot read them, and the file tools ask about them. Pure.

use std::path::{Path, PathBuf};

use crate::safety::protected_paths::NAMES as STARTUP_FILES;

/// Paths that are hidden below the home directory, also where a directory above it may be read.
const HOME_SECRETS: &[&str] = &[
    ".ICEauthority",
    ".Xauthority",
    ".authinfo",
    ".authinfo.gpg",
    ".aws",
    ".azure",
    ".bash_history",
    ".bash_sessions",
    ".boto",
    ".bundle/config",
    ".cabal/config",
    ".cache/huggingface/token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".cloudflared",
    ".codex/auth.json",
    ".config/.wrangler",
    ".config/Bitwarden",
    ".config/BraveSoftware",
    ".config/Code",
    ".config/Slack",
    ".config/age",
    ".config/aish",
    ".config/chromium",
    ".config/cloudflared",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/filezilla",
    ".config/fish/conf.d",
    ".config/fish/config.fish",
    ".config/fish/fish_variables",
    ".config/flyctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/cookies",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hcloud",
    ".config/helm",
    ".config/heroku",
    ".config/hub",
    ".config/io.datasette.llm/keys.json",
    ".config/keepassxc",
    ".config/microsoft-edge",
    ".config/ngrok",
    ".config/nushell/history.txt",
    ".config/op",
    ".config/opera",
    ".config/pypoetry",
    ".config/rclone",
    ".config/remmina",
    ".config/solana",
    ".config/sops",
    ".config/stripe",
    ".config/vivaldi",
    ".config/zsh/.zlogin",
    ".config/zsh/.zprofile",
    ".config/zsh/.zsh_history",
    ".config/zsh/.zshenv",
    ".config/zsh/.zshrc",
    ".databrickscfg",
    ".docker",
    ".dotnet/corefx",
    ".electrum",
    ".erlang.cookie",
    ".fly",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg",
    ".gradle/develocity",
    ".gradle/enterprise",
    ".gradle/gradle.properties",
    ".histfile",
    ".history",
    ".huggingface",
    ".irb_history",
    ".julia/logs",
    ".julia/servers",
    ".kaggle",
    ".kube",
    ".lesshst",
    ".librewolf",
    ".local/share/aish",
    ".local/share/atuin",
    ".local/share/fish",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/nvim/shada",
    ".local/share/opencode/auth.json",
    ".local/share/uv/credentials",
    ".local/share/zsh/history",
    ".local/state/aish",
    ".local/state/bash/history",
    ".local/state/nvim/shada",
    ".m2/.develocity",
    ".m2/.gradle-enterprise",
    ".m2/settings-security.xml",
    ".m2/settings-security4.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".msmtprc",
    ".my.cnf",
    ".mylogin.cnf",
    ".mysql_history",
    ".netrc",
    ".netrc.gpg",
    ".node_repl_history",
    ".npm-global/etc/npmrc",
    ".npmrc",
    ".oci",
    ".opam/plugins/opam-publish",
    ".password-store",
    ".pgpass",
    ".pki",
    ".psql_history",
    ".pulumi/credentials.json",
    ".pypirc",
    ".python_history",
    ".rediscli_history",
    ".s3cfg",
    ".snap",
    ".sqlite_history",
    ".ssh",
    ".stack/upload",
    ".terraform.d",
    ".terraformrc",
    ".thunderbird",
    ".var/app",
    ".vault-token",
    ".viminfo",
    ".vnc/passwd",
    ".wget-hsts",
    ".yarnrc.yml",
    ".zhistory",
    ".zsh_history",
    ".zsh_sessions",
    "Library/Accounts",
    "Library/Application Support",
    "Library/Calendars",
    "Library/Containers",
    "Library/Cookies",
    "Library/Group Containers",
    "Library/HTTPStorages",
    "Library/Keychains",
    "Library/Mail",
    "Library/Messages",
    "Library/Safari",
    "snap/bitwarden",
    "snap/brave",
    "snap/chromium",
    "snap/code",
    "snap/firefox",
    "snap/opera",
    "snap/slack",
    "snap/thunderbird",
];

/// Names of profiles in `.config`, in lower case. Programs have several channels, such as `google-chrome-beta` and `Code - Insiders`.
const PROFILES: &[&str] = &[
    "bravesoftware",
    "chromium",
    "code",
    "google-chrome",
    "microsoft-edge",
    "opera",
    "slack",
    "vivaldi",
    "vscodium",
];

/// Files and directories of the system with secrets that only root can read.
pub(super) const SYSTEM_SECRETS: [&str; 10] = [
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
];

/// Returns the places below a home directory that are hidden even if it may be read: credentials, histories and start-up files.
pub(super) fn secret_names() -> impl Iterator<Item = &'static str> {
    HOME_SECRETS.iter().chain(STARTUP_FILES).copied()
}

/// Returns the paths of [`secret_names`] in a home directory.
pub(super) fn secrets_of(home: &Path) -> Vec<PathBuf> {
    secret_names().map(|name| home.join(name)).collect()
}

/// Whether a name in `.config` is a profile with secrets, whatever its channel.
pub(super) fn is_profile(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut channels = PROFILES
        .iter()
        .filter_map(|profile| name.strip_prefix(profile));
    // `chromium-flags.conf` has the options of its start.
    channels.any(|rest| rest.is_empty() || rest.starts_with([' ', '-']) && !rest.ends_with(".conf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_a_channel_behind_its_name_and_nothing_else() {
        for name in [
            "google-chrome",
            "google-chrome-beta",
            "Code - Insiders",
            "Code - OSS",
            "BraveSoftware",
            "opera-developer",
            "VSCodium",
        ] {
            assert!(is_profile(name), "{name}");
        }
        for name in [
            "git",
            "codespellrc",
            "coder",
            "operator.toml",
            "chromium-flags.conf",
            "slackware",
        ] {
            assert!(!is_profile(name), "{name}");
        }
    }
}
