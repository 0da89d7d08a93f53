//! `aish-helper activity`: what of the record is meant, and how it is printed.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::history::index::row::{OPERATIONS, STATUSES, TYPES};

/// `aish-helper activity`
#[derive(Debug, Subcommand)]
pub enum Activity {
    /// List what was done, newest first
    List {
        /// What is meant
        #[command(flatten)]
        acts: Acts,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an act in full, and all that led to it and came of it
    Show {
        /// Its id, or a part of it that no other has
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the records of what was done, oldest first
    Export {
        /// What is meant
        #[command(flatten)]
        acts: Acts,
        /// At most so many, the newest
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// In which format
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
    },
    /// Count what was done, and how long it took
    Stats {
        /// What is meant
        #[command(flatten)]
        acts: Acts,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which acts are meant: all conditions hold, and of several values of one any.
#[derive(Debug, Args)]
pub struct Acts {
    /// Of this type
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = PossibleValuesParser::new(TYPES))]
    pub types: Vec<String>,
    /// Calls with this operation
    #[arg(long = "intent-type", value_name = "OPERATION", value_delimiter = ',', value_parser = PossibleValuesParser::new(OPERATIONS))]
    pub operations: Vec<String>,
    /// What ended so
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',', value_parser = PossibleValuesParser::new(STATUSES))]
    pub statuses: Vec<String>,
    /// Of this MCP server
    #[arg(long = "server", value_name = "ALIAS", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Of this tool, TOOL or ALIAS.TOOL
    #[arg(long = "tool", value_name = "TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Of this conversation: its id, or a part of it that no other has
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// From then on: a date (2026-11-01), a time (2026-11-01T12:30) or a span (2h, 7d) before now
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Up to then, a date included
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
}

/// The formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line of JSON for each record, all of it
    Jsonl,
    /// A table for a spreadsheet
    Csv,
}
