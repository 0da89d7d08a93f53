//! Patches in codex's envelope: `*** Begin Patch`, then files to add, delete, update and move, then `*** End Patch`. Pure.
//!
//! Where this differs from codex's own `apply_patch`, on purpose:
//!
//! - A patch is atomic: [`plan_patch`] computes every file before anything is written, and one failing file refuses all.
//! - A hunk that fits several places is refused, unless its `@@` lines, its order or `*** End of File` leave only one.
//!   codex takes the first one.
//! - A hunk is in the block of its `@@` line where the indentation shows it. codex takes the first match in the rest of the
//!   file, which may be in another function.
//! - A hunk that fits only loosely is refused if its new lines are there already.
//! - Lines are added below their `@@` line, not at the end of the file.
//! - Lines that match but for their indentation are replaced by lines with the indentation of the file.
//! - A missing newline at the end stays missing, unless lines are added after the last one.
//! - An update keeps encoding and byte order mark.

mod parse;
mod place;
mod plan;
mod scope;

pub use parse::parse_patch;
pub use plan::{FinalLink, PatchedFile, plan_patch};

use super::edit::MatchStage;

/// Change of a patch to one file. Paths are as the model wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchOperation {
    /// Writes a new file, or replaces all of an existing one.
    Add {
        /// Path of the file.
        path: String,
        /// Its text.
        text: String,
    },
    /// Deletes a file.
    Delete {
        /// Path of the file.
        path: String,
    },
    /// Changes parts of a file, and may move it.
    Update {
        /// Path of the file.
        path: String,
        /// Path to move the file to.
        move_to: Option<String>,
        /// The changes, in the order of the file.
        hunks: Vec<PatchHunk>,
    },
}

/// One change of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchHunk {
    /// Line of the patch in which the hunk begins, from 1.
    pub line_number: usize,
    /// The texts after `@@`: lines of the file, in order, below which the change is.
    pub headers: Vec<String>,
    /// The lines of the hunk.
    pub lines: Vec<HunkLine>,
    /// The hunk ends with `*** End of File`: its last line is the last one of the file.
    pub at_end: bool,
}

/// A line of a hunk, without its sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkLine {
    /// A line that stays.
    Context(String),
    /// A line that is removed.
    Removed(String),
    /// A line that is added.
    Added(String),
}

impl HunkLine {
    /// Returns the line if the old version has it.
    fn old(&self) -> Option<&str> {
        match self {
            HunkLine::Context(text) | HunkLine::Removed(text) => Some(text),
            HunkLine::Added(_) => None,
        }
    }
}

/// The loosest stage at which a hunk of a file matched.
fn loosest(stages: impl IntoIterator<Item = MatchStage>) -> MatchStage {
    stages.into_iter().max().unwrap_or(MatchStage::Exact)
}

#[cfg(test)]
mod tests;
