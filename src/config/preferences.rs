//! Preferences of the user that apply to all programs: editor, pager, colours.

use std::ffi::OsString;

/// The user's editor as a command line: `VISUAL`, `EDITOR`, or vi.
pub fn editor() -> OsString {
    first_set(&["VISUAL", "EDITOR"]).unwrap_or_else(|| "vi".into())
}

/// The user's pager as a command line: `PAGER`, or less with colours passed through.
pub fn pager() -> OsString {
    first_set(&["PAGER"]).unwrap_or_else(|| "less -R".into())
}

/// Clipboard programs that fit the desktop, each with its arguments.
pub fn clipboard_programs() -> Vec<&'static [&'static str]> {
    let set = |name| first_set(&[name]).is_some();
    let mut programs: Vec<&[&str]> = Vec::new();
    if set("WAYLAND_DISPLAY") {
        programs.push(&["wl-copy"]);
    }
    if set("DISPLAY") {
        programs.push(&["xclip", "-selection", "clipboard"]);
    }
    if cfg!(target_os = "macos") {
        programs.push(&["pbcopy"]);
    }
    programs
}

fn first_set(names: &[&str]) -> Option<OsString> {
    names
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
}

/// Returns whether `TERM` names a terminal that has the kitty keyboard protocol. Terminals are not queried: the reply could
/// arrive after a question and end up on the command line.
pub fn terminal_reports_key_releases() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    let is_variant = |name: &str| {
        let rest = term.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    ["xterm-kitty", "xterm-ghostty", "foot", "alacritty"]
        .into_iter()
        .any(is_variant)
}

/// Returns whether output is coloured: `NO_COLOR` is unset (<https://no-color.org>) and the terminal is not `dumb`.
pub fn wants_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_some_and(|t| !t.is_empty() && t != "dumb")
}
