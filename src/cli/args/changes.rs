//! Arguments of `aish-helper changes`.

use clap::{Args, Subcommand};

use crate::protocol::ShellId;

/// `aish-helper changes`
#[derive(Debug, Subcommand)]
pub enum ChangesCommand {
    /// Undo the file changes that tools made for the last prompt that changed any
    Undo(UndoArgs),
    /// Show the file changes that tools made for the last prompt that changed any
    Diff(DiffArgs),
}

/// `aish-helper changes undo`
#[derive(Debug, Args)]
pub struct UndoArgs {
    #[command(flatten)]
    pub place: ChangesPlace,
    /// Skip files that have changed since, and restore the others
    #[arg(long)]
    pub skip: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aish-helper changes diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub place: ChangesPlace,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Whose changes.
#[derive(Debug, Args)]
pub struct ChangesPlace {
    /// The session; by default the one of the shell, or the last one
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The shell, as the plugin names it
    #[arg(long, hide = true)]
    pub shell: Option<ShellId>,
}
