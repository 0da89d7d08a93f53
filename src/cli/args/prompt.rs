//! `aish-helper prompt`: prompt packs.

use clap::Subcommand;

use super::JsonArgs;

/// `aish-helper prompt`
#[derive(Debug, Subcommand)]
pub enum PromptCommand {
    /// List the prompt packs that can be used in this directory
    List(JsonArgs),
    /// Print the texts of a prompt pack
    Show {
        /// The pack
        #[arg(value_name = "@NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
