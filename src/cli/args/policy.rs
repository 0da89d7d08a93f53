//! `aish-helper policy`.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use crate::protocol::ShellId;

/// `aish-helper policy`
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// List the rules in force in this directory, and the grants given at prompts
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a grant given at a prompt, or remove a rule of the configuration
    Revoke {
        /// Id of a grant, or a unique part of it; or a name, ALIAS.TOOL
        #[arg(value_name = "ID|RULE")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Explain what would be decided about a call or a command, by which rule, and why
    Explain {
        /// The tool, SERVER:TOOL; or shell, fs.write or network
        #[arg(value_name = "SERVER:TOOL", required_unless_present = "command")]
        name: Option<String>,
        /// Explain what a command line does, and what would be decided if a model proposed it
        #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, conflicts_with_all = ["name", "json_args", "intent_type", "sensitivity"])]
        command: Option<String>,
        /// Arguments, a JSON object; - reads them from stdin
        #[arg(
            long = "json_args",
            alias = "json-args",
            value_name = "JSON",
            default_value = "{}"
        )]
        json_args: String,
        /// Operation that the caller declares
        #[arg(long, value_name = "OPERATION", value_parser = PossibleValuesParser::new(["read", "write", "destructive"]))]
        intent_type: Option<String>,
        /// Sensitivity that the caller declares
        #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(["public", "internal", "private", "unknown"]))]
        sensitivity: Option<String>,
        /// The shell whose session makes the call
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
