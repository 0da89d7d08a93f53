//! Command-line types for clap. Help, man page and completions are generated from them.

mod activity;
mod ask;
mod changes;
mod helper;
mod launcher;
mod model;
mod plugin;
mod policy;
mod prompt;
mod recording;
mod sandbox;
mod server;
mod session;
mod stats;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::protocol::ShellId;

pub use self::activity::{ActivityCommand, ExportFormat, RecordFilter};
pub use self::ask::AskArgs;
pub use self::changes::{ChangesCommand, ChangesPlace};
pub use self::helper::HelperCommand;
pub use self::launcher::{
    AttachServerArgs, Launcher, LauncherArgs, LauncherCommand, LauncherRecordArgs,
};
pub use self::model::{AddModelArgs, InstallArgs, ModelCommand};
pub use self::plugin::{CaptureArgs, ExecDoneArgs, FixArgs, ProposeArgs, RecordPaneArgs};
pub use self::policy::PolicyCommand;
pub use self::prompt::PromptCommand;
pub use self::recording::{RecordingCommand, RecordingFormat, ReplayArgs};
pub use self::sandbox::SandboxArgs;
pub use self::server::{ServeArgs, ServeCommand, TokenCommand, WebArgs};
pub use self::session::{SessionCommand, SessionConfigCommand};
pub use self::stats::{StatsArgs, UsageGroup};

/// The helper behind `llm`, an AI companion for the ordinary zsh.
#[derive(Debug, Parser)]
#[command(
    name = "aish-helper",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Exit codes: 0 answered or done, 1 model or transport failed, 2 usage, 3 configuration, \
4 approval needed and no terminal, 130 interrupted."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Commands of aish-helper.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Ask the model; the zsh function `llm` runs this command
    #[command(version)]
    Ask(AskArgs),
    /// Follow a running answer, or show the last answer of a session
    Attach(AttachArgs),
    /// Show the state of the daemon
    Status(StatusArgs),
    /// Start the daemon if it is not running
    Start,
    /// Stop the daemon after its running turns
    Stop(StopArgs),
    /// Stop the daemon and start it again
    Restart(StopArgs),
    /// Run the daemon (internal)
    Daemon(DaemonArgs),
    /// Serve the sessions over HTTP: an API, and a page for the browser
    ///
    /// The server listens on this machine only, unless the configuration names an address, a certificate and a password. Over TCP every client
    /// needs the token. It serves until `aish-helper serve stop`, or until you log out or the machine is restarted.
    Serve(ServeArgs),
    /// Open the sessions in the browser
    Web(WebArgs),
    /// Show the output of the last command, as it would be sent with a prompt
    ///
    /// The output is read from the terminal of the shell, with secrets removed. --command 2 shows the output of the command
    /// before the last one; calls to aish are not counted.
    Output(OutputArgs),
    /// Check everything that aish needs, and say how to fix what is missing
    Doctor(JsonArgs),
    /// Show and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List, choose and install models
    #[command(subcommand)]
    Model(ModelCommand),
    /// List and show prompt packs
    #[command(subcommand)]
    Prompt(PromptCommand),
    /// List, search and change sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Connect to MCP servers, and list what they offer
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Search the tools of all MCP servers
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Call a built-in tool or a tool of an MCP server yourself, with the same checks as a call by the model
    #[command(subcommand)]
    Call(CallCommand),
    /// Show and undo the changes that tools made to files
    #[command(subcommand)]
    Changes(ChangesCommand),
    /// Add, list and try Python helpers: functions of your own that are tools
    #[command(subcommand)]
    Helper(HelperCommand),
    /// Show the rules for tool calls, explain a decision, and revoke what was allowed
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Show what the models were used for and what they cost
    ///
    /// Counts the answers in the journal, those of deleted sessions excluded.
    Stats(StatsArgs),
    /// Search the log of prompts, commands and tool calls
    #[command(subcommand)]
    Activity(ActivityCommand),
    /// Record what a shell or a command prints
    ///
    /// Runs a zsh, or the command, and keeps its output until it ends: not what is typed, and not what is printed while the
    /// terminal does not echo, as at a password prompt. Commands that the history forgets are left out.
    Record(RecordArgs),
    /// List, show, export and delete recordings of terminals
    #[command(subcommand)]
    Recording(RecordingCommand),
    /// Play a recording in this terminal
    ///
    /// Keys: space pauses, left and right seek 5 seconds, the square brackets go to the previous and next command, + and - change the
    /// speed, q quits.
    Replay(ReplayArgs),
    /// Remove secrets from stdin as aish does before text is stored or sent
    ///
    /// The text goes to stdout with REDACTED:kind in brackets in place of each key, token or password of a known form; the
    /// position of each goes to stderr, as line:column kind. Keys, tokens and headers in the configuration, and in the
    /// variables it names, are recognized too. Secrets that only the running daemon knows are not: the output of key_cmd
    /// and auth_cmd, logins, and variables of MCP servers.
    Redact(RedactArgs),
    /// Run a command that can change only this directory
    ///
    /// The command can read the system, toolchains and the workspace, and change the workspace and a private temporary directory.
    /// It has no network, no keys from the environment and no way to other processes. With --level read-only, it cannot change the
    /// workspace either. Linux needs Landlock.
    Sandbox(SandboxArgs),
    /// Print the zsh completions of aish-helper or aish
    Completions {
        /// The program
        #[arg(value_enum, default_value_t = CompletedProgram::AishHelper)]
        program: CompletedProgram,
    },
    /// Print a man page
    Man {
        /// The page
        #[arg(value_enum, default_value_t = ManPage::AishHelper)]
        page: ManPage,
    },
    /// Ask about the next proposed command (for the plugin)
    #[command(hide = true)]
    Propose(ProposeArgs),
    /// Capture the output of an approved command (for the plugin)
    #[command(hide = true)]
    Capture(CaptureArgs),
    /// Report the exit code of an approved command (for the plugin)
    #[command(hide = true)]
    ExecDone(ExecDoneArgs),
    /// Record a pane of tmux, whose output is on stdin (for the daemon)
    #[command(hide = true)]
    RecordPane(RecordPaneArgs),
    /// Make the FIFO through which the HTTP API drives a shell (for the plugin)
    #[command(hide = true)]
    MakeTuiFifo {
        /// The shell
        #[arg(long, value_name = "ID")]
        shell: ShellId,
    },
    /// Correct the last command, which is described on stdin (for the plugin)
    #[command(hide = true)]
    Fix(FixArgs),
    /// Start a shell as aish does (internal)
    #[command(hide = true)]
    Launch(LauncherArgs),
    /// Run a command in a relay (for `record`)
    #[command(hide = true)]
    RecordRelay {
        /// What `record` passes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Ask about changed environment variables (for the plugin)
    #[command(hide = true)]
    ReviewEnv,
}

/// Programs with completions that are generated.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CompletedProgram {
    /// All commands of aish-helper
    AishHelper,
    /// The launcher
    Aish,
}

/// Man pages.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ManPage {
    /// All commands of aish-helper
    AishHelper,
    /// The zsh function
    Llm,
    /// The launcher
    Aish,
}

/// `--json`
#[derive(Debug, Args)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn command_number(text: &str) -> Result<NonZeroUsize, &'static str> {
    let number = text.parse();
    number.map_err(|_| "1 is the last command, 2 the one before")
}

/// `aish-helper output`
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The command to show, counted backwards: 1 is the last command
    #[arg(long, value_name = "N", default_value = "1", value_parser = command_number)]
    pub command: NonZeroUsize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The shell whose command is shown
    #[arg(long, value_name = "ID", hide = true)]
    pub shell: Option<ShellId>,
}

/// `aish-helper status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show the model of this shell
    #[arg(long, value_name = "ID", hide = true)]
    pub shell: Option<ShellId>,
}

/// `aish-helper record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Say where the output is recorded, once it is
    #[arg(long, hide = true)]
    pub announce: bool,
    /// The command; by default your zsh
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `aish-helper redact`
#[derive(Debug, Args)]
pub struct RedactArgs {
    /// Print a line of JSON for each secret found, without its text
    #[arg(long)]
    pub json: bool,
    /// A file is not accepted; the error explains how to use stdin
    #[arg(hide = true)]
    pub file: Option<PathBuf>,
}

/// `aish-helper attach`
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id of the session, or a unique part of it; by default the session of the shell. In a shell with the plugin, the URL of
    /// another aish server lets that server answer the session
    pub id: Option<String>,
    /// Print every event as a line of JSON
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Print the text without rendering it
    #[arg(long)]
    pub raw: bool,
    /// Show the model's reasoning, on stderr
    #[arg(long)]
    pub think: bool,
    /// The shell that asks (for the plugin)
    #[arg(long, value_name = "ID", hide = true)]
    pub shell: Option<ShellId>,
    /// Exit with code 10 if commands are proposed (for the plugin)
    #[arg(long, hide = true)]
    pub offer: bool,
}

/// `aish-helper stop` and `restart`
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Do not wait for running turns
    #[arg(long)]
    pub now: bool,
}

/// `aish-helper daemon`
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Stay in the foreground and log to stderr
    #[arg(long, required_unless_present = "detach")]
    pub foreground: bool,
    /// Report on stdout when ready, then detach from the terminal (for the client)
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub detach: bool,
}

/// `aish-helper config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the path of the configuration
    Path(JsonArgs),
    /// Print everything that is wrong with the configuration
    Check(JsonArgs),
    /// Print the effective configuration, and where each value comes from
    Show(JsonArgs),
}

/// `aish-helper mcp`
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers
    List(ListArgs),
    /// List the tools
    Tools {
        /// Only of this server
        alias: Option<String>,
        /// Output format
        #[command(flatten)]
        of: ListArgs,
    },
    /// Show the full description of a tool
    Tool {
        /// Name of the tool, ALIAS.TOOL
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect to a server until the daemon ends, or reconnect a disconnected one
    Connect {
        /// Address of the server, or the alias of a disabled or disconnected one
        url: String,
        /// Alias of the server
        alias: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Disconnect from a server
    Disconnect {
        /// Alias of the server
        alias: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Log in to a server, with a browser
    Login {
        /// Alias of the server
        alias: String,
    },
    /// Forget the login to a server
    Logout {
        /// Alias of the server
        alias: String,
    },
    /// List the resources
    Resources {
        /// Only of this server
        alias: Option<String>,
        /// Output format
        #[command(flatten)]
        of: ListArgs,
    },
    /// List the prompts
    Prompts {
        /// Only of this server
        alias: Option<String>,
        /// Output format
        #[command(flatten)]
        of: ListArgs,
    },
    /// Print the text of a prompt
    Prompt {
        /// Name of the prompt, ALIAS.PROMPT
        name: String,
        /// Arguments of the prompt
        #[arg(value_name = "KEY=VALUE")]
        arguments: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add the servers of another client's configuration to this one
    Import {
        /// A JSON file with mcpServers
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `aish-helper tools`
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// Find the tools that match a query, best first
    Search {
        /// What the tool should do
        #[arg(required = true, value_name = "QUERY")]
        query: Vec<String>,
        /// Show at most N entries
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `aish-helper call`
#[derive(Debug, Subcommand)]
pub enum CallCommand {
    /// Call a tool that changes nothing
    ToolRead(ManualCallArgs),
    /// Call a tool that creates or changes something
    ToolWrite(ManualCallArgs),
    /// Call a tool that may destroy something
    ToolDestructive(ManualCallArgs),
}

/// A manual tool call.
#[derive(Debug, Args)]
pub struct ManualCallArgs {
    /// The tool
    #[arg(long, value_name = "SERVER:TOOL")]
    pub tool_name: String,
    /// Arguments, a JSON object; - reads them from stdin
    #[arg(
        long = "json_args",
        alias = "json-args",
        value_name = "JSON",
        default_value = "{}"
    )]
    pub json_args: String,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Sensitivity of the data: public, internal, private or unknown
    #[arg(long, value_name = "LEVEL")]
    pub sensitivity: Option<String>,
    /// Answer yes to the question about this call; only in a terminal
    #[arg(long)]
    pub yes: bool,
    /// Print status, text and record id as JSON
    #[arg(long)]
    pub json: bool,
}

/// Output format of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the names known to the running daemon (for completion)
    #[arg(long, hide = true, conflicts_with = "json")]
    pub names: bool,
}
