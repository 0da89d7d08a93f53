//! The line that names the parts of the context that are sent with a prompt for the first time.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::paths;
use crate::safety::text::one_line;

/// File with the parts that were named, one per line. An empty file of an earlier version counts as all parts.
const TOLD: &str = "context-notice";
/// Longest name of a project's file in the line, in characters.
const NAME_CHARS: usize = 60;

/// The context that is sent with a prompt.
#[derive(Debug, Default)]
pub struct SentContext {
    /// The working directory.
    pub has_directory: bool,
    /// Recent commands of the shell.
    pub has_commands: bool,
    /// The state of the git repository.
    pub has_git: bool,
    /// Name of the file with the instructions of the project.
    pub project_file: Option<String>,
}

impl SentContext {
    /// Returns each part by its name in the file and its name in the line.
    fn parts(&self) -> Vec<(&'static str, String)> {
        let file = self.project_file.as_ref();
        let parts = [
            self.has_directory
                .then(|| ("directory", "directory".to_owned())),
            self.has_commands
                .then(|| ("commands", "recent commands".to_owned())),
            self.has_git.then(|| ("git", "git state".to_owned())),
            file.map(|name| ("project_file", one_line(name, NAME_CHARS))),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Returns the line about the parts that were not named yet, and remembers them.
    pub fn announce_new_parts(&self, state: &Path) -> Option<String> {
        let file = state.join(TOLD);
        let told = match paths::read_own(&file).and_then(io::read_to_string) {
            Ok(told) if told.is_empty() => return None,
            Ok(told) => told,
            // With an error the line is shown again: too often is better than never.
            Err(_) => String::new(),
        };
        let mut told: BTreeSet<&str> = told.lines().collect();
        let mut parts = self.parts();
        parts.retain(|(key, _)| told.insert(key));
        if parts.is_empty() {
            return None;
        }
        let lines: String = told.iter().map(|key| format!("{key}\n")).collect();
        let store = |()| paths::replace_unsynced(&file, lines.as_bytes());
        if let Err(e) = paths::make_dir(state).and_then(store) {
            tracing::warn!("{}", e.message);
        }
        let parts: Vec<String> = parts.into_iter().map(|(_, shown)| shown).collect();
        Some(format!(
            "also sent: {}; llm --dry-run shows it, [context] in config.toml configures it",
            parts.join(", ")
        ))
    }
}
