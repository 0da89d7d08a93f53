//! Prompt packs: instructions for the model, in files that a prompt names.
//!
//! A pack of the user is `prompts/NAME.toml` or the directory `prompts/NAME/` beside the configuration. A skill is
//! `NAME/SKILL.md` in one of the user's skill directories. A pack of a project, below `.aish/prompts/`, is as untrusted as the
//! rest of the project's files, so it is used only after a person has read and approved its text.

mod approved;
mod read;

use std::path::{Path, PathBuf};

pub use self::approved::{approve, is_approved};
use super::disk;
pub use super::file::ConfigProblem;
use super::value_checks::nearest_name;
use crate::error::{Error, Result};
use crate::paths::{self, Paths};

/// The keys of a pack. All values are plain text.
pub const PACK_KEYS: [&str; 7] = [
    "description",
    "version",
    "system",
    "system_append",
    "tools",
    "format",
    "safety",
];

/// Where a pack comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackSource {
    /// A pack of the user.
    User,
    /// A skill of the user.
    Skill,
    /// A pack of a project.
    Project,
}

impl PackSource {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            PackSource::User => "user",
            PackSource::Skill => "skill",
            PackSource::Project => "project",
        }
    }
}

/// A prompt pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPack {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: PackSource,
    /// Its file or directory.
    pub path: PathBuf,
    /// Its texts, in the order of [`PACK_KEYS`].
    pub texts: Vec<(&'static str, String)>,
    /// SHA-256 over the texts, in hexadecimal.
    pub sha256: String,
}

impl PromptPack {
    /// Returns the text of a key, if the pack has it.
    pub fn text(&self, key: &str) -> Option<&str> {
        let mut texts = self.texts.iter();
        texts
            .find(|(k, _)| *k == key)
            .map(|(_, text)| text.as_str())
    }
}

/// A directory that holds packs.
struct PackDir {
    source: PackSource,
    path: PathBuf,
}

/// The directories in the order in which they are searched, so that a project cannot replace a pack of the user.
fn directories(paths: &Paths, cwd: &Path) -> Vec<PackDir> {
    let dir = |source, path| PackDir { source, path };
    let mut all = vec![
        dir(PackSource::User, paths.config.join("prompts")),
        dir(PackSource::Skill, paths.config.join("skills")),
    ];
    if let Some(home) = paths::variable("HOME").map(PathBuf::from) {
        let skills = [".agents/skills", ".claude/skills"].map(|name| home.join(name));
        all.extend(skills.map(|path| dir(PackSource::Skill, path)));
    }
    let ancestors = cwd.ancestors().filter(|path| path.is_absolute());
    all.extend(ancestors.map(|path| dir(PackSource::Project, path.join(".aish/prompts"))));
    all
}

/// Returns the pack of this name, with or without the `@` before it.
///
/// # Errors
/// There is none, or it is invalid.
pub fn find(paths: &Paths, cwd: &Path, name: &str) -> Result<PromptPack> {
    let name = name.strip_prefix('@').unwrap_or(name);
    let is_name = is_name(name);
    for dir in directories(paths, cwd).iter().filter(|_| is_name) {
        if let Some(pack) = read::pack(dir, name).map_err(invalid)? {
            return Ok(pack);
        }
    }
    let all = list(paths, cwd);
    let names: Vec<&str> = all
        .iter()
        .flatten()
        .map(|pack| pack.name.as_str())
        .collect();
    let message = match nearest_name(name, names.iter().copied()) {
        Some(near) => format!("no prompt pack named {name:?}; did you mean @{near}?"),
        None => format!("no prompt pack named {name:?}"),
    };
    Err(Error::usage(message).hint(match names.is_empty() {
        true => format!(
            "write one: {}",
            paths.config.join("prompts").join("NAME.toml").display()
        ),
        false => "llm :prompts lists them".to_owned(),
    }))
}

/// Returns all packs that can be named in a directory, sorted by name, and what is wrong with others. Of several packs with
/// one name only the one that [`find`] returns is listed.
pub fn list(paths: &Paths, cwd: &Path) -> Vec<std::result::Result<PromptPack, ConfigProblem>> {
    let mut all = std::collections::BTreeMap::new();
    for dir in directories(paths, cwd) {
        for name in read::names(&dir) {
            if all.contains_key(&name) {
                continue;
            }
            if let Some(pack) = read::pack(&dir, &name).transpose() {
                all.insert(name, pack);
            }
        }
    }
    all.into_values().collect()
}

fn invalid(problem: ConfigProblem) -> Error {
    Error::config(problem.to_string()).hint("aish-helper prompt list shows every pack")
}

/// Whether a pack can have this name: `none` turns packs off.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(allowed) && name != "none"
}

#[cfg(test)]
mod tests;
