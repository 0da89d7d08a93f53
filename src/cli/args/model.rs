//! `aish-helper model`.

use clap::{Args, Subcommand, ValueEnum};

use super::JsonArgs;
use crate::protocol::ShellId;

/// `aish-helper model`
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// List the configured models, and those that servers offered at the last refresh
    List {
        /// List only models whose name contains this
        #[arg(long, value_name = "WORD")]
        filter: Option<String>,
        /// List only what the servers offered
        #[arg(long)]
        available: bool,
        /// Print all names, one per line, for the completion
        #[arg(long, hide = true)]
        names: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Mark the choice of this shell
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
    },
    /// Add a model: choose the server, check the key, pick the model from the server's list
    Add(AddModelArgs),
    /// Choose the default model, which is written to the configuration if it is not there
    Use {
        /// Name of the model in the configuration, or SERVER/MODEL
        name: String,
        /// Choose the model for this shell's session only
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// Also make it the default, which is written to the configuration
        #[arg(long)]
        save: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask the servers for their models, for model list and the completion
    Refresh(JsonArgs),
    /// Install a tiny model that runs without a network, for trials
    Install {
        /// Name of the model
        #[arg(value_enum)]
        name: InstallableModel,
    },
}

/// Models that can be installed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum InstallableModel {
    /// SmolLM2-135M-Instruct, 98 MB, Apache-2.0
    Smollm2,
}

/// Arguments of `aish-helper model add`. What is missing is asked on the terminal.
#[derive(Debug, Args)]
pub struct AddModelArgs {
    /// A provider or local server by name, such as anthropic or ollama, or the base URL of a server
    pub server: Option<String>,
    /// Name of the model on the server
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Environment variable that holds the key
    #[arg(long, value_name = "VARIABLE")]
    pub key_env: Option<String>,
    /// Name of the model in aish
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Make it the default model
    #[arg(long)]
    pub default: bool,
}
