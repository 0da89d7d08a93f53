//! `aish-helper tools` and `aish-helper call`.

use clap::{Args, Subcommand};

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
