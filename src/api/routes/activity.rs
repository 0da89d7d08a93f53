//! Activity and its cost, from the index over the journal.

use axum::Json;
use axum::extract::State;
use chrono::{Days, Local};

use crate::api::ApiState;
use crate::api::extract::Parameters;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{
    ActivityList, ActivityQuery, ActivityView, StatsQuery, StatsView, UsageGroup, UsageTotals,
};
use crate::error::{Error, Result};
use crate::history::index::{ActivityFilter, Index, UsageSum};
use crate::safety::redact::global_redactor;

/// Entries, unless the request says otherwise, and at most.
const PAGE: (usize, usize) = (100, 1000);
/// Latest time that can be asked for, in milliseconds since 1970: in the year 2255.
const LAST_MS: u64 = 9_000_000_000_000;
/// Days of the statistics, unless the request says otherwise, and at most.
const DAYS: (usize, usize) = (30, 3660);

/// Opens the index on a thread that may block, and calls `read`.
async fn indexed<T: Send + 'static>(
    state: &ApiState,
    read: impl FnOnce(&mut Index) -> Result<T> + Send + 'static,
) -> Answer<T> {
    let paths = state.services.paths.clone();
    let work = tokio::task::spawn_blocking(move || {
        let mut index = Index::open(&paths.journal(), &paths.state, Box::new(|_| ()))?;
        read(&mut index)
    });
    let done = work
        .await
        .map_err(|e| Error::runtime(format!("the index cannot be read: {e}")))?;
    Ok(done?)
}

/// Lists prompts, answers, tool calls and commands, newest first.
///
/// In and outside of sessions, with who decided on them. For older ones, send the `timestamp_ms` of the last activity as `before_ms`.
#[utoipa::path(get, path = "/v1/activity", operation_id = "list_activity", tag = "activity", params(ActivityQuery),
    responses(
        (status = 200, description = "The activities", body = ActivityList),
        (status = 400, description = "A parameter is not valid", body = ProblemDocument),
        (status = 500, description = "The index cannot be read or written", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Parameters(query): Parameters<ActivityQuery>,
) -> Answer<Json<ActivityList>> {
    let limit = super::within("limit", query.limit, PAGE)?;
    for (name, value, most) in [
        ("type", &query.r#type, 40),
        ("server", &query.server, 100),
        ("session", &query.session, 36),
    ] {
        if value.as_ref().is_some_and(|v| v.chars().count() > most) {
            return Err(Problem::bad_request(
                format!("{name} is longer than {most} characters"),
                "/doc describes the parameters",
            ));
        }
    }
    if query.before_ms.is_some_and(|ms| ms > LAST_MS) {
        return Err(Problem::bad_request(
            format!("before_ms is more than {LAST_MS}"),
            "it is a time in milliseconds since 1970",
        ));
    }
    let filter = ActivityFilter {
        types: query.r#type.into_iter().collect(),
        servers: query.server.into_iter().collect(),
        session: query.session,
        until_ms: query.before_ms,
        ..ActivityFilter::default()
    };
    let entries = indexed(&state, move |index| index.list(&filter, limit)).await?;
    let view = |entry: crate::history::index::ActivityEntry| ActivityView {
        record_id: entry.id,
        timestamp_ms: entry.at_ms,
        kind: entry.kind.kind,
        operation: entry.kind.operation,
        status: entry.kind.status,
        server: entry.kind.server,
        tool: entry.kind.tool,
        text: global_redactor().redact(&entry.what).into_owned(),
        duration_ms: entry.ms,
        decided_by: entry.by,
        session_id: entry.session,
    };
    Ok(Json(ActivityList {
        activities: entries.into_iter().map(view).collect(),
    }))
}

/// Sums up requests, tokens and cost of the last days.
///
/// By day, by model and by host of the provider. Requests of unknown price count in `unpriced_requests`, and not in `cost`.
#[utoipa::path(get, path = "/v1/stats", operation_id = "get_statistics", tag = "activity", params(StatsQuery),
    responses(
        (status = 200, description = "The sums", body = StatsView),
        (status = 400, description = "A parameter is not valid", body = ProblemDocument),
        (status = 500, description = "The index cannot be read or written", body = ProblemDocument)))]
pub async fn stats(
    State(state): State<ApiState>,
    Parameters(query): Parameters<StatsQuery>,
) -> Answer<Json<StatsView>> {
    let days = super::within("days", query.days, DAYS)?;
    let last = Local::now().date_naive();
    let back = Days::new(days as u64 - 1);
    let first = last
        .checked_sub_days(back)
        .ok_or_else(|| Problem::bad_request("days goes too far back", "ask for fewer days"))?;
    let stats = indexed(&state, move |index| index.usage(first, last, None)).await?;
    let groups = |map: std::collections::HashMap<String, UsageSum>| {
        let mut groups: Vec<UsageGroup> = map
            .into_iter()
            .map(|(name, sum)| UsageGroup {
                name,
                totals: totals(&sum),
            })
            .collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    };
    Ok(Json(StatsView {
        first_day: first.to_string(),
        last_day: last.to_string(),
        total: totals(&stats.total),
        days: groups(stats.days),
        models: groups(stats.models),
        providers: groups(stats.providers),
    }))
}

fn totals(sum: &UsageSum) -> UsageTotals {
    UsageTotals {
        requests: sum.requests,
        failures: sum.failures,
        prompt_tokens: sum.input,
        cache_read_tokens: sum.cache_read,
        completion_tokens: sum.output,
        reasoning_tokens: sum.reasoning,
        cost: sum.cost,
        estimated_requests: sum.estimated,
        unpriced_requests: sum.unpriced,
    }
}
