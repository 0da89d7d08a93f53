//! The files of the user's project: resolving and opening paths, reading, listing, searching, and git.
//!
//! Everything here only reads, never waits for a FIFO or device, follows no symbolic link at the time of use, and returns
//! bounded text for the model. The functions block: call them in `spawn_blocking`.

mod beneath;
mod file_kind;
pub mod find;
pub mod git;
mod git_dir;
pub mod grep;
mod ignore_rules;
mod line_window;
pub mod list;
mod path_error;
mod program;
pub mod read;
pub mod read_context;
mod real_path;
pub mod root;
mod walk;

#[cfg(test)]
mod tests;

pub use path_error::{shown_name, shown_path};
pub use root::{PathError, PathFault, PathResult, ResolvedPath, Workspace};
pub use walk::EntryKind;
