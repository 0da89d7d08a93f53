//! The objects of activities and statistics.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::events::OperationWord;

/// Which activities are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ActivityQuery {
    /// Maximum number of activities: 1 to 1,000, by default 100.
    #[serde(default)]
    #[param(required = false, minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Only those before this time, in milliseconds since 1970.
    #[serde(default)]
    #[param(required = false, maximum = 9_000_000_000_000_i64)]
    pub before_ms: Option<u64>,
    /// Only those of this type, such as `tool` or `user`.
    #[serde(default)]
    #[param(required = false, max_length = 40)]
    pub r#type: Option<String>,
    /// Only those of this MCP server, by its alias.
    #[serde(default)]
    #[param(required = false, max_length = 100)]
    pub server: Option<String>,
    /// Only those of this session, by its whole id.
    #[serde(default)]
    #[param(required = false, max_length = 36)]
    pub session: Option<String>,
}

/// Activities, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActivityList {
    /// The activities.
    pub activities: Vec<ActivityView>,
}

/// A prompt, an answer, a tool call, a command, or a change of the rules.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActivityView {
    /// Id of the record.
    pub record_id: String,
    /// Time in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Type of the record.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a tool call does.
    #[schema(value_type = Option<OperationWord>)]
    pub operation: Option<String>,
    /// How it ended.
    pub status: String,
    /// Alias of the MCP server.
    pub server: Option<String>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// Its beginning.
    pub text: String,
    /// Its duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// `person` or `rule`, if something was decided; `chain` for a prompt that nobody typed.
    pub decided_by: Option<String>,
    /// The session.
    pub session_id: Option<String>,
}

/// The period of the statistics.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// Number of days up to today: 1 to 3,660, by default 30.
    #[serde(default)]
    #[param(required = false, minimum = 1, maximum = 3660)]
    pub days: Option<usize>,
}

/// Sums of requests to models.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// The first day, `2026-11-01`.
    pub first_day: String,
    /// The last day, which is included.
    pub last_day: String,
    /// All of them.
    pub total: UsageTotals,
    /// By day.
    pub days: Vec<UsageGroup>,
    /// By model.
    pub models: Vec<UsageGroup>,
    /// By host of the provider.
    pub providers: Vec<UsageGroup>,
}

/// Sums of a group.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageGroup {
    /// The day, the model or the host.
    pub name: String,
    /// Its sums.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// Sums.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageTotals {
    /// Number of requests.
    pub requests: u64,
    /// Number of those without an answer, or with a part of one.
    pub failures: u64,
    /// Tokens of the requests.
    pub prompt_tokens: u64,
    /// Those of them that came from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Those of them that are reasoning.
    pub reasoning_tokens: u64,
    /// Known cost, in US dollars.
    pub cost: f64,
    /// Number of requests whose cost is estimated.
    pub estimated_requests: u64,
    /// Number of requests whose cost is unknown.
    pub unpriced_requests: u64,
}
