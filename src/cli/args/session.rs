//! Arguments of `aish-helper session`.

use clap::Subcommand;

use crate::protocol::ShellId;

/// `aish-helper session`
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List the sessions, last used first
    List {
        /// Show at most N entries
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print short ids with titles, one per line, for the completion
        #[arg(long, hide = true)]
        names: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the sessions in which one prompt, answer or output contains all the words
    Search {
        /// The words, in any case
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        /// Show at most N entries
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session: by default the shell's own, or the one last used
    Show {
        /// Id of the session, or a unique part of it
        id: Option<String>,
        /// Show only the last N records
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// The shell whose session is shown
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print the records as lines of JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the last answer, with the full results of its tools
    Last {
        /// The shell whose session is shown
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print the records as lines of JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the last answer to the clipboard
    Copy {
        /// The shell whose session is used
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
    },
    /// Replace the older part of a session by a summary of the model
    Compact {
        /// Id of the session, or a unique part of it; by default the session of the shell, or the one last used
        id: Option<String>,
        /// The model that writes the summary
        #[arg(short, long, value_name = "NAME")]
        model: Option<String>,
        /// The shell whose session is used
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a new session in a shell
    New {
        /// The shell
        #[arg(long, value_name = "ID")]
        shell: ShellId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Continue a session in a shell; without an id, choose one from a list
    Continue {
        /// Id of the session, or a unique part of it
        id: Option<String>,
        /// The shell
        #[arg(long, value_name = "ID")]
        shell: ShellId,
        /// Print JSON; without an id, continue the session last used
        #[arg(long)]
        json: bool,
    },
    /// Give a session a title
    Rename {
        /// The title
        #[arg(required = true, value_name = "TITLE")]
        title: Vec<String>,
        /// Id of the session, or a unique part of it; by default the session of the shell
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// The shell whose session is renamed
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show and change the settings of a session: model, prompt pack and tools
    #[command(subcommand)]
    Config(SessionConfigCommand),
    /// Share a session as a page, on this machine or in a bucket
    Share {
        /// Id of the session, or a unique part of it; by default the session of the shell
        id: Option<String>,
        /// Show the results of tools and the output of commands, which are left out otherwise
        #[arg(long)]
        with_output: bool,
        /// Add the recordings of the terminals that used the session, from its first to its last command
        #[arg(long)]
        recordings: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// The shell whose session is shared
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
    },
    /// Remove the page of a shared session
    Unshare {
        /// Id of the session, or a unique part of it; by default the session of the shell
        id: Option<String>,
        /// The shell whose session was shared
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
    },
    /// List the shared sessions
    Shares {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a session, after confirmation; without an id, choose one from a list
    Delete {
        /// Id of the session, or a unique part of it
        id: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// `aish-helper session config`
#[derive(Debug, Subcommand)]
pub enum SessionConfigCommand {
    /// Show the settings in force, and where each value comes from
    Get {
        /// Id of the session, or a unique part of it, and a setting to show only this one
        #[arg(value_name = "ID [SETTING]")]
        words: Vec<String>,
        /// The shell whose session is used, in place of an id
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change settings: model=NAME, prompt=@NAME, tools=SELECTION
    Set {
        /// Id of the session, or a unique part of it, and the settings with their values
        #[arg(required = true, value_name = "ID SETTING=VALUE")]
        words: Vec<String>,
        /// The shell whose session is used, in place of an id
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove settings, so that those of the configuration apply
    Unset {
        /// Id of the session, or a unique part of it, and the settings
        #[arg(required = true, value_name = "ID SETTING")]
        words: Vec<String>,
        /// The shell whose session is used, in place of an id
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
