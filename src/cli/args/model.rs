//! `aish-helper model`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Subcommand};

use super::JsonArgs;
use crate::cli::model_install::listing::catalog;
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
    /// Choose the default model, and add it to the configuration if it is not there
    Use {
        /// Name of the model in the configuration, or SERVER/MODEL
        name: String,
        /// Choose the model for this shell's session only
        #[arg(long, value_name = "ID", hide = true)]
        shell: Option<ShellId>,
        /// With llm :model NAME: also make it the default. aish-helper model use always does
        #[arg(long)]
        save: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask the servers for their models, for model list and the completion
    Refresh(JsonArgs),
    /// Install a model that runs on this machine, or list those that can be installed
    Install(InstallArgs),
}

/// Arguments of `aish-helper model install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// A model of the list, hf:OWNER/REPO/FILE on Hugging Face, or the https:// URL of a GGUF file
    #[arg(value_parser = InstallableModel, hide_possible_values = true)]
    pub model: Option<String>,
    /// SHA-256 that the file must have
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub sha256: Option<String>,
    /// Name of the model in aish
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Accepts any text, and names the models of the list for the completion.
#[derive(Debug, Clone, Copy)]
struct InstallableModel;

impl TypedValueParser for InstallableModel {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let models = catalog().map(|model| {
            let help = format!("{}, {}; {}", model.size, model.license, model.purpose);
            PossibleValue::new(model.name).help(help)
        });
        Some(Box::new(models))
    }
}

/// Reads a SHA-256 in hexadecimal and returns it in lower case.
fn sha256(text: &str) -> Result<String, String> {
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a SHA-256 has 64 hexadecimal digits".into()),
    }
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
