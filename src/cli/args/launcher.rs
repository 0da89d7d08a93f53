//! Arguments of the launcher `aish`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::server::{ServeArgs, WebArgs};

/// Start zsh with aish, in a tmux session that survives a closed terminal.
#[derive(Debug, Parser)]
#[command(
    name = "aish",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
#[command(
    after_help = "In your own tmux, and where tmux is missing, zsh starts in this terminal. The settings are those of [tmux]. \
`aish -c COMMAND` runs COMMAND in zsh, as of every login shell."
)]
pub struct Launcher {
    /// The arguments.
    #[command(flatten)]
    pub args: LauncherArgs,
}

/// `aish` and `aish-helper launch`
#[derive(Debug, Default, Args)]
pub struct LauncherArgs {
    /// What to do instead of starting a shell
    #[command(subcommand)]
    pub command: Option<LauncherCommand>,
    /// Start zsh in this terminal, without tmux, and record its output
    #[arg(long)]
    pub no_tmux: bool,
    /// With --no-tmux: do not record the output
    #[arg(long, requires = "no_tmux")]
    pub no_record: bool,
    /// Start a new session, even if one could be attached
    #[arg(long, conflicts_with = "no_tmux")]
    pub new: bool,
    /// Start a login shell
    #[arg(short, long)]
    pub login: bool,
    /// Start the shell of a pane (for tmux)
    #[arg(long, hide = true, conflicts_with_all = ["no_tmux", "new"])]
    pub pane: bool,
    /// Read the environment of the pane from this FIFO (for the launcher)
    #[arg(long, value_name = "FIFO", hide = true, requires = "pane")]
    pub environment: Option<PathBuf>,
    /// The name of the program began with a hyphen, as that of a login shell.
    #[arg(skip)]
    pub is_login_shell: bool,
    /// The words of `-c COMMAND`, which are for zsh.
    #[arg(skip)]
    pub zsh_words: Option<Vec<OsString>>,
}

/// Commands of the launcher.
#[derive(Debug, Subcommand)]
pub enum LauncherCommand {
    /// Record a shell, or a command, in this terminal
    Record(LauncherRecordArgs),
    /// Serve the sessions over HTTP: an API, and a page for the browser
    Serve(ServeArgs),
    /// Open the sessions in the browser
    Web(WebArgs),
    /// Start a zsh in this terminal whose prompts another aish server answers
    ///
    /// The server is one that `aish serve` has started there. Its token is asked for once and stored. What the server proposes is
    /// asked about here and runs here; its own tools run there.
    Attach(AttachServerArgs),
}

/// `aish attach`
#[derive(Debug, Args)]
pub struct AttachServerArgs {
    /// The server: https://HOST:PORT, or http for this machine
    #[arg(value_name = "URL")]
    pub url: String,
    /// Read the token from stdin and store it, without starting a shell
    #[arg(long)]
    pub token_stdin: bool,
}

/// `aish record`
#[derive(Debug, Args)]
pub struct LauncherRecordArgs {
    /// The command; without one, zsh
    #[arg(last = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}
