//! `aish-helper stats`: period, group and output format.

use clap::{Args, ValueEnum};

/// `aish-helper stats`
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Group the requests by this only
    #[arg(long, value_enum)]
    pub by: Option<UsageGroup>,
    /// Requests since a date (2026-11-01) or a time span before now (7d); whole days are counted
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    pub since: String,
    /// Requests up to this day, which is included
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Requests of this session, by its id or a unique part of it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What requests are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UsageGroup {
    /// The day, in local time
    Day,
    /// The model
    Model,
    /// The host of the provider
    Provider,
    /// The session
    Session,
    /// The prompt pack
    Pack,
}
