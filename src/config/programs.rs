//! The programs that a person has chosen for all of their tools.

use std::ffi::OsString;

/// The person's editor, a command line: `VISUAL`, `EDITOR`, or vi.
pub fn editor() -> OsString {
    first_set(&["VISUAL", "EDITOR"]).unwrap_or_else(|| "vi".into())
}

/// The person's pager, a command line: `PAGER`, or less with colours let through.
pub fn pager() -> OsString {
    first_set(&["PAGER"]).unwrap_or_else(|| "less -R".into())
}

fn first_set(names: &[&str]) -> Option<OsString> {
    names
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
}
