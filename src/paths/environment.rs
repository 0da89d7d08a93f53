//! The environment of the daemon and of the programs that it starts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Set in the environment of every program that the daemon starts. A process that has it may not act for the person.
pub const CHILD_MARK: &str = "AISH_CHILD";

/// Variables that the daemon needs for itself and for a `key_cmd`. Others may hold secrets: the clients send what a request
/// needs.
const DAEMON_VARIABLES: &[&str] = &[
    "AISH_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GPG_TTY",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "ZDOTDIR",
];

/// The variables of a shell that identify its terminal.
/// The plugin sends them when it greets the daemon, and knows the same names (`zsh/functions/_aish_load`).
pub const TERMINAL_VARIABLES: &[&str] = &[
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "SCREENDIR",
    "ZELLIJ",
    "ZELLIJ_SESSION_NAME",
    "ZELLIJ_PANE_ID",
    "KITTY_LISTEN_ON",
    "KITTY_PUBLIC_KEY",
    "KITTY_WINDOW_ID",
    "WEZTERM_UNIX_SOCKET",
    "WEZTERM_PANE",
    "KONSOLE_DBUS_SERVICE",
    "KONSOLE_DBUS_SESSION",
    "TERM_PROGRAM",
    "VTE_VERSION",
    "ALACRITTY_WINDOW_ID",
    "SSH_CONNECTION",
];

/// The variables of a shell that decide which programs and files the built-in tools find, and how programs print. None of them is a
/// secret.
const WORK_VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
];

/// Returns those of [`TERMINAL_VARIABLES`] that are set.
pub fn terminal_variables() -> BTreeMap<String, String> {
    set_variables(TERMINAL_VARIABLES)
}

/// Returns the variables of the client's shell with which commands of the tool `shell` run.
pub fn work_variables() -> BTreeMap<String, String> {
    set_variables(WORK_VARIABLES)
}

fn set_variables(names: &[&str]) -> BTreeMap<String, String> {
    let set = names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    set.collect()
}

/// Returns the environment of the daemon.
pub fn daemon_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_needed(name))
}

fn is_needed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    // Those of password managers are for a `key_cmd`.
    let is_group = ["BW_", "LC_", "OP_", "PASSWORD_STORE_", "XDG_"]
        .iter()
        .any(|group| name.starts_with(group));
    let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
    is_group || is_proxy || DAEMON_VARIABLES.contains(&name)
}

/// Returns the environment of this process.
pub fn process_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Variables of a command in the sandbox; none of them holds a secret or leads to a socket.
const SANDBOX_VARIABLES: &[&str] = &[
    "COLORTERM",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NO_COLOR",
    "PATH",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
];

/// Returns the environment of a command in the sandbox, with [`CHILD_MARK`].
pub fn sandbox_environment() -> Vec<(OsString, OsString)> {
    let is_harmless = |name: &OsStr| {
        let name = name.to_str().unwrap_or_default();
        name.starts_with("LC_") || SANDBOX_VARIABLES.contains(&name)
    };
    let set = std::env::vars_os().filter(|(name, _)| is_harmless(name));
    set.chain([(CHILD_MARK.into(), "1".into())]).collect()
}

/// Returns those of the named environment variables that are set, and [`CHILD_MARK`]: the entire environment of a child
/// process of the daemon.
pub fn child_environment(names: &[&str]) -> Vec<(OsString, OsString)> {
    let set = names
        .iter()
        .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    set.chain([(CHILD_MARK.into(), "1".into())]).collect()
}
