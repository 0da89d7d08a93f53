//! The command line: clap types only. Help, man page and completions come from here.

mod activity;
mod policy;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::protocol::ShellId;

pub use self::activity::{Activity, Acts, Format};
pub use self::policy::Policy;

/// The helper behind `llm`, an AI companion for the ordinary zsh.
#[derive(Debug, Parser)]
#[command(
    name = "aish-helper",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Exit codes: 0 done, 1 model or transport failed, 2 usage, 3 configuration, \
4 approval needed and no terminal, 130 interrupted."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask the model; the zsh function `llm` is this
    Ask(Ask),
    /// Show how the daemon is
    Status(Json),
    /// Start the daemon, unless it runs
    Start,
    /// Stop the daemon when its turns have ended
    Stop(Stop),
    /// Stop the daemon and start it again
    Restart(Stop),
    /// Be the daemon
    Daemon(Daemon),
    /// Check everything that aish needs, and say what to do about it
    Doctor(Json),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// List, choose and install models
    #[command(subcommand)]
    Model(Model),
    /// List and show conversations
    #[command(subcommand)]
    Session(Session),
    /// Connect to MCP servers, and see what they offer
    #[command(subcommand)]
    Mcp(Mcp),
    /// Search the tools of all MCP servers
    #[command(subcommand)]
    Tools(Tools),
    /// Call a tool of an MCP server by hand, through the same checks as a model
    #[command(subcommand)]
    Call(Call),
    /// See the rules for what is done, ask why one decides, and take back what was allowed
    #[command(subcommand)]
    Policy(Policy),
    /// Look into the record of everything that was done
    #[command(subcommand)]
    Activity(Activity),
    /// Show what is taken out of a text before it is kept or sent: stdin without secrets
    ///
    /// The text goes to stdout with REDACTED:kind in brackets in the place of each key, token or password of a known form;
    /// where they stood goes to stderr, as line:column kind. The keys, tokens and headers in the config, and in the
    /// variables it names, are known too. What only the running daemon has learned is not: what key_cmd or auth_cmd
    /// printed, logins, and variables of servers.
    Redact(Redact),
    /// Print the zsh completions of aish-helper
    Completions,
    /// Print the man page
    Man,
    /// Ask about the next proposed command (for the plugin)
    #[command(hide = true)]
    Propose(Propose),
    /// Capture the output of an approved command (for the plugin)
    #[command(hide = true)]
    Capture(Capture),
    /// Tell that an approved command has ended (for the plugin)
    #[command(hide = true)]
    ExecDone(ExecDone),
}

/// `--json`
#[derive(Debug, Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `aish-helper redact`
#[derive(Debug, Args)]
pub struct Redact {
    /// Print a line of JSON for each find, without its text
    #[arg(long)]
    pub json: bool,
    /// Many commands take one: this says how it is done
    #[arg(hide = true)]
    pub file: Option<PathBuf>,
}

/// `aish-helper ask`
#[derive(Debug, Args)]
pub struct Ask {
    /// The model, by its name in the configuration
    #[arg(short, long, value_name = "NAME")]
    pub model: Option<String>,
    /// Begin a new conversation
    #[arg(long, conflicts_with_all = ["continue_", "attach"])]
    pub new: bool,
    /// Go on with the conversation that was last used, in whatever shell
    #[arg(short, long = "continue", conflicts_with = "attach")]
    pub continue_: bool,
    /// Go on with this conversation
    #[arg(long, value_name = "ID")]
    pub attach: Option<String>,
    /// Send a file along
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Send a resource of an MCP server along
    #[arg(short, long = "resource", value_name = "ALIAS:URI")]
    pub resources: Vec<String>,
    /// Print every event as a line of JSON
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Print the text as it comes, not rendered
    #[arg(long)]
    pub raw: bool,
    /// Offer the model no tools
    #[arg(long)]
    pub no_tools: bool,
    /// The shell that asks (for the plugin)
    #[arg(long, value_name = "ID", hide = true)]
    pub shell: Option<ShellId>,
    /// When the command line was started, in seconds since 1970 (for the plugin)
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub started: Option<String>,
    /// Exit with 10 when commands are proposed (for the plugin)
    #[arg(long, hide = true)]
    pub offer: bool,
    /// Turn the words into one command and print it
    #[arg(long, conflicts_with_all = ["json", "raw", "files", "resources"])]
    pub command: bool,
    /// The prompt; without words it is read from stdin
    #[arg(trailing_var_arg = true, value_name = "WORDS")]
    pub words: Vec<OsString>,
}

/// `aish-helper stop` and `restart`
#[derive(Debug, Args)]
pub struct Stop {
    /// Do not wait for running turns
    #[arg(long)]
    pub now: bool,
}

/// `aish-helper daemon`
#[derive(Debug, Args)]
pub struct Daemon {
    /// Stay in the foreground and log to stderr
    #[arg(long, required_unless_present = "detach")]
    pub foreground: bool,
    /// Say on stdout when ready, then let go of the terminal (for the client)
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub detach: bool,
}

/// `aish-helper config`
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print where the configuration is
    Path(Json),
    /// Print everything that is wrong with the configuration
    Check(Json),
    /// Print the configuration in force, and where each value comes from
    Show(Json),
}

/// `aish-helper model`
#[derive(Debug, Subcommand)]
pub enum Model {
    /// List the models of the configuration
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Mark the choice of this shell
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
    },
    /// Choose the default model
    Use {
        /// Its name in the configuration
        name: String,
        /// Choose it for this shell's conversation alone
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Install a tiny model that runs without a network, for trying things out
    Install {
        /// Which
        #[arg(value_enum)]
        name: Installable,
    },
}

/// The models that can be installed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Installable {
    /// SmolLM2-135M-Instruct, 98 MB, Apache-2.0
    Smollm2,
}

/// `aish-helper session`
#[derive(Debug, Subcommand)]
pub enum Session {
    /// List the conversations, last used first
    List {
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a conversation: the shell's own, or the one last used
    Show {
        /// Its id, or a part of it that no other has
        id: Option<String>,
        /// Only the last N records
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// The shell whose conversation is meant
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print the records as lines of JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the last answer, and all that its tools said
    Last {
        /// The shell whose conversation is meant
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print the records as lines of JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin a new conversation in a shell
    New {
        /// The shell
        #[arg(long, value_name = "ID")]
        shell: ShellId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `aish-helper mcp`
#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// List the servers
    List(Of),
    /// List the tools
    Tools {
        /// Of this server alone
        alias: Option<String>,
        /// How it is printed
        #[command(flatten)]
        of: Of,
    },
    /// Show all that a server says of a tool
    Tool {
        /// Its name, ALIAS.TOOL
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect to a server until the daemon ends
    Connect {
        /// Its address; or the alias of a server that was turned off
        url: String,
        /// What to call it
        alias: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let go of a server
    Disconnect {
        /// Which
        alias: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Log in to a server, in a browser
    Login {
        /// Which
        alias: String,
    },
    /// Forget the login to a server
    Logout {
        /// Which
        alias: String,
    },
    /// List the resources
    Resources {
        /// Of this server alone
        alias: Option<String>,
        /// How it is printed
        #[command(flatten)]
        of: Of,
    },
    /// List the prompts
    Prompts {
        /// Of this server alone
        alias: Option<String>,
        /// How it is printed
        #[command(flatten)]
        of: Of,
    },
    /// Print the text of a prompt
    Prompt {
        /// Its name, ALIAS.PROMPT
        name: String,
        /// Its arguments
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
pub enum Tools {
    /// Find the tools that fit a question, best first
    Search {
        /// What a tool is to do
        #[arg(required = true, value_name = "QUERY")]
        query: Vec<String>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `aish-helper call`
#[derive(Debug, Subcommand)]
pub enum Call {
    /// Call a tool that changes nothing
    ToolRead(ByHand),
    /// Call a tool that creates or changes something
    ToolWrite(ByHand),
    /// Call a tool that may destroy something
    ToolDestructive(ByHand),
}

/// What is called, and why.
#[derive(Debug, Args)]
pub struct ByHand {
    /// The tool
    #[arg(long, value_name = "SERVER:TOOL")]
    pub tool_name: String,
    /// Its arguments, a JSON object; - reads them from stdin
    #[arg(
        long = "json_args",
        alias = "json-args",
        value_name = "JSON",
        default_value = "{}"
    )]
    pub json_args: String,
    /// Why; the record keeps it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How sensitive its data is: public, internal, private or unknown
    #[arg(long, value_name = "LEVEL")]
    pub sensitivity: Option<String>,
    /// Print status, text and the id of the record as JSON
    #[arg(long)]
    pub json: bool,
}

/// How a list is printed.
#[derive(Debug, Args)]
pub struct Of {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the names that the running daemon knows (for completion)
    #[arg(long, hide = true, conflicts_with = "json")]
    pub names: bool,
}

/// `aish-helper propose`
#[derive(Debug, Args)]
pub struct Propose {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// The proposal whose edited text is on stdin
    #[arg(long, value_name = "TOKEN")]
    pub edited: Option<String>,
}

/// `aish-helper capture`
#[derive(Debug, Args)]
pub struct Capture {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// Be the pump of this pty
    #[arg(long, value_name = "PTY")]
    pub pump: Option<PathBuf>,
    /// The proposal
    pub token: String,
}

/// `aish-helper exec-done`
#[derive(Debug, Args)]
pub struct ExecDone {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// The exit code of the command
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub exit: i32,
    /// The proposal
    pub token: String,
}
