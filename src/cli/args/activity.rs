//! `aish-helper activity`: filters and output formats.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::history::index::row::{OPERATIONS, STATUSES, TYPES};

/// `aish-helper activity`
#[derive(Debug, Subcommand)]
pub enum ActivityCommand {
    /// List actions, newest first
    List {
        /// Filters
        #[command(flatten)]
        filter: RecordFilter,
        /// Show at most N entries
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print short ids with what happened, one per line, for the completion
        #[arg(long, hide = true)]
        names: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a record in full, with what led to it and what followed
    Show {
        /// Id of the record, or a unique part of it
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the records of actions, oldest first
    Export {
        /// Filters
        #[command(flatten)]
        filter: RecordFilter,
        /// Maximum number of records; the newest are kept
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Output format
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
    /// Count actions, and how long they took
    Stats {
        /// Filters
        #[command(flatten)]
        filter: RecordFilter,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Filters on records. All filters must match; several values of one filter are alternatives.
#[derive(Debug, Args)]
pub struct RecordFilter {
    /// Records of this type
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = PossibleValuesParser::new(TYPES))]
    pub types: Vec<String>,
    /// Calls with this operation
    #[arg(long = "intent-type", value_name = "OPERATION", value_delimiter = ',', value_parser = PossibleValuesParser::new(OPERATIONS))]
    pub operations: Vec<String>,
    /// Records with this status
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',', value_parser = PossibleValuesParser::new(STATUSES))]
    pub statuses: Vec<String>,
    /// Calls of this MCP server
    #[arg(long = "server", value_name = "ALIAS", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Calls of this tool, TOOL or ALIAS.TOOL
    #[arg(long = "tool", value_name = "TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Records of this session, by its id or a unique part of it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Records since a date (2026-11-01), a time (2026-11-01T12:30) or a time span before now (2h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Records up to this time; a date is included
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
}

/// Formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Each complete record as a line of JSON
    Jsonl,
    /// A table for a spreadsheet
    Csv,
}
