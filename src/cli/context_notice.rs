//! The line that says, before the first prompt of an installation, what is sent along with the words.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;

use crate::client::output::print_notice;
use crate::config::{self, ConfigOverrides, env_overrides};
use crate::paths::{self, Paths};

/// Exists once the line was shown.
const SHOWN: &str = "context-notice";

/// Prints the line if this is the first prompt that is typed in a shell with the plugin.
pub fn show_once(paths: &Paths) {
    let marker = paths.state.join(SHOWN);
    if marker.exists() || !std::io::stdout().is_terminal() || !std::io::stderr().is_terminal() {
        return;
    }
    // A configuration with mistakes is reported by the prompt itself.
    let overrides = env_overrides().and_then(|map| ConfigOverrides::from_map(&map));
    let Ok(config) = overrides.and_then(|o| config::load(paths, &o)) else {
        return;
    };
    let context = &config.context;
    let parts = [
        (context.commands > 0).then(|| match context.output_bytes {
            0 => format!("last {} commands", context.commands),
            _ => format!("last {} commands, failed output", context.commands),
        }),
        context.git.then(|| "git state".to_owned()),
        context.project_file.then(|| "AGENTS.md".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let created = paths::make_dir(&paths.state).map(|()| options.open(&marker));
    // Another shell was first. With any other error the line is shown again: too often is better than never.
    if matches!(&created, Ok(Err(e)) if e.kind() == ErrorKind::AlreadyExists) || parts.is_empty() {
        return;
    }
    print_notice(&format!(
        "also sent: directory, {}; see llm --dry-run and [context]",
        parts.join(", ")
    ));
}
