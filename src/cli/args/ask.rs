//! Arguments of `aish-helper ask`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::protocol::ShellId;

/// `aish-helper ask`
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Use this model, by its name in the configuration
    #[arg(short, long, value_name = "NAME")]
    pub model: Option<String>,
    /// Start a new session
    #[arg(long, conflicts_with_all = ["continue_", "attach"])]
    pub new: bool,
    /// Continue the session last used in any shell
    #[arg(short, long = "continue", conflicts_with = "attach")]
    pub continue_: bool,
    /// Continue this session; without a prompt, follow its running answer or show its last one
    #[arg(long, value_name = "ID")]
    pub attach: Option<String>,
    /// Attach a file, an image, or the text files of a directory
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Attach a resource of an MCP server
    #[arg(short, long = "resource", value_name = "ALIAS:URI")]
    pub resources: Vec<String>,
    /// Print every event as a line of JSON
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Print the text without rendering it
    #[arg(long)]
    pub raw: bool,
    /// Show the model's reasoning, on stderr
    #[arg(long, conflicts_with = "command")]
    pub think: bool,
    /// Return at once and let the answer continue in the background
    #[arg(long, conflicts_with_all = ["command", "raw"])]
    pub background: bool,
    /// Use this prompt pack: @NAME, or none
    #[arg(long, value_name = "@NAME")]
    pub prompt: Option<String>,
    /// Offer the model only these tools: the groups fs, shell, git, web and python, server aliases, ALIAS.TOOL, patterns and @TOOLSETS with commas between them, or none
    #[arg(long, value_name = "SELECTION", conflicts_with = "no_tools")]
    pub tools: Option<String>,
    /// Let the built-in tools work in this directory too, for the session
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub add_dir: Vec<String>,
    /// Offer the model no tools, as --tools none
    #[arg(long)]
    pub no_tools: bool,
    /// Also send the output of the last command
    #[arg(long, conflicts_with_all = ["no_output", "command"])]
    pub output: bool,
    /// Do not send the output of the last command
    #[arg(long)]
    pub no_output: bool,
    /// Print the request that would be sent, with its estimated tokens and cost, and send nothing
    #[arg(long, conflicts_with_all = ["command", "background", "raw"])]
    pub dry_run: bool,
    /// Write the prompt in the editor, beginning with the words
    #[arg(long, conflicts_with = "command")]
    pub edit: bool,
    /// Do not attach the files that are named as @FILE in the words (for the plugin)
    #[arg(long, hide = true)]
    pub literal: bool,
    /// The prompt was submitted over HTTP: attach no files that it names, and ask about each proposed command (for the plugin)
    #[arg(long, hide = true)]
    pub submitted: bool,
    /// Attach the file behind the prompt, `< FILE`, and say so (for the plugin)
    #[arg(long, value_name = "FILE", hide = true)]
    pub input: Option<PathBuf>,
    /// The shell that asks (for the plugin)
    #[arg(long, value_name = "ID", hide = true)]
    pub shell: Option<ShellId>,
    /// Start time of the command line, in seconds since 1970 (for the plugin)
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub started: Option<String>,
    /// Exit with code 10 if commands are proposed (for the plugin)
    #[arg(long, hide = true)]
    pub offer: bool,
    /// Read the prompt from this descriptor, without its last newline (for the plugin)
    #[arg(long, value_name = "FD", hide = true, conflicts_with = "words")]
    pub prompt_fd: Option<u32>,
    /// An approved command has ended: send its output (for the plugin)
    #[arg(long, hide = true, conflicts_with_all = ["words", "prompt_fd", "command"])]
    pub follow: bool,
    /// Read the command line as it was typed from this descriptor (for the plugin)
    #[arg(long, value_name = "FD", hide = true)]
    pub line_fd: Option<u32>,
    /// Turn the words into one command and print it
    #[arg(long, conflicts_with_all = ["json", "raw", "files", "resources"])]
    pub command: bool,
    /// The prompt; without words it is read from stdin
    #[arg(trailing_var_arg = true, value_name = "WORDS")]
    pub words: Vec<OsString>,
}
