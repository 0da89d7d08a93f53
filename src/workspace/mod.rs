//! The files of the user's project: resolving and opening paths, reading, listing, searching and git; edits and patches, changes
//! that are made together or not at all, and their way back.
//!
//! Nothing here waits for a FIFO or device, or follows a symbolic link at the time of use, and what is read for the model is bounded. The
//! functions block: call them in `spawn_blocking`.

mod beneath;
pub mod changes;
pub mod difference;
pub mod edit;
pub mod failure;
mod file_kind;
pub mod find;
pub mod git;
mod git_dir;
mod git_repository;
pub mod grep;
mod ignore_rules;
mod line_window;
pub mod list;
pub mod patch;
mod path_error;
mod program;
pub mod read;
pub mod read_context;
mod read_files;
mod real_path;
pub mod root;
pub mod text_file;
pub mod undo;
mod walk;

#[cfg(test)]
mod tests;

pub use path_error::{shown_name, shown_path};
pub use read_files::ReadFiles;
pub use root::{PathError, PathFault, PathResult, ResolvedPath, Workspace};
pub use walk::EntryKind;
