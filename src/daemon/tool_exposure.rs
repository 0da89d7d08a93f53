//! The tools that a prompt has: which there are, and how its model is told of them.

use std::borrow::Cow;
use std::time::Duration;

use super::call_context::ToolExposure;
use super::mcp_startup::{self, PendingStart};
use super::model::ChosenModel;
use super::{Daemon, tool_history};
use crate::chat::ToolDefinition;
use crate::config::Config;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::mcp::ToolCatalog;
use crate::session::conversation::Session;
use crate::session::feed::TurnFeed;
use crate::tools::{builtin, split};

/// How long a prompt waits for MCP servers that are starting, since the start of each.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the servers that are wanted and returns the tools that are there once these servers had time to start.
///
/// # Errors
/// The turn was cancelled.
pub async fn catalog(
    daemon: &Daemon,
    feed: &TurnFeed,
    session: &Session,
    chosen: &ChosenModel,
    pending: Option<PendingStart>,
) -> Result<ToolCatalog> {
    let Some(pending) = pending.filter(|_| any(daemon, chosen)) else {
        return Ok(ToolCatalog::default());
    };
    mcp_startup::refresh(daemon, pending, &chosen.config);
    let starting = async { Ok(tool_history::catalog(daemon, PATIENCE).await) };
    let catalog = feed.unless_cancelled(starting).await?;
    without(feed, session, &catalog);
    Ok(catalog)
}

/// Whether a server is configured or connected.
pub fn any(daemon: &Daemon, chosen: &ChosenModel) -> bool {
    !chosen.config.mcp.servers.is_empty() || !daemon.mcp.states().is_empty()
}

/// The tools as the model is told of them: each, with the one that reads on in a long result once there is one; or the
/// few through which it finds and calls them.
pub fn tools(catalog: &ToolCatalog, exposure: ToolExposure) -> Cow<'_, [ToolDefinition]> {
    match exposure {
        ToolExposure::Direct { reads_on: false } => return Cow::Borrowed(&catalog.tools),
        ToolExposure::Direct { reads_on: true } => {
            let mut tools = catalog.tools.to_vec();
            tools.push(builtin::read_result_tool());
            return Cow::Owned(tools);
        }
        ToolExposure::Split { .. } => {}
    }
    let mut servers: Vec<&str> = catalog.tools.iter().map(|t| t.server.as_str()).collect();
    servers.dedup();
    Cow::Owned(split::split_tools(servers))
}

/// Makes the index of the tools while the model thinks, so that its first question of them need not wait.
pub fn index(daemon: &Daemon, catalog: &ToolCatalog) {
    let (finder, tools) = (daemon.finder.clone(), catalog.tools.clone());
    daemon
        .tasks
        .spawn(async move { finder.prepare(&tools).await });
}

/// How the model sees them now. Once through a few, so to the end of its turn: tools come and go while it runs.
pub fn exposure(
    daemon: &Daemon,
    session: &Session,
    config: &Config,
    catalog: &ToolCatalog,
    before: ToolExposure,
) -> ToolExposure {
    let count = catalog.tools.len();
    let was = matches!(before, ToolExposure::Split { .. });
    match count > 0 && (was || config.tools.splits(count)) {
        true => ToolExposure::Split {
            strict: config.intent_declaration.strict_server_validation,
        },
        false => ToolExposure::Direct {
            reads_on: count > 0 && daemon.results.has(&session.id, now_ms()),
        },
    }
}

/// Reports the servers that became unavailable since the conversation was last told.
pub fn without(feed: &TurnFeed, session: &Session, catalog: &ToolCatalog) {
    for text in excuses(&session.newly_unavailable(&catalog.unavailable)) {
        feed.notice(text);
    }
}

/// A line for all servers that are missing for one reason: alias and reason.
fn excuses(without: &[(String, String)]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (alias, why) in without {
        match groups.iter_mut().find(|(of, _)| of == why) {
            Some((_, aliases)) => aliases.push(alias),
            None => groups.push((why, vec![alias])),
        }
    }
    let line = |(why, aliases): (&str, Vec<&str>)| {
        let s = if aliases.len() == 1 { "" } else { "s" };
        format!("going without MCP server{s} {}: {why}", aliases.join(", "))
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::excuses;

    #[test]
    fn servers_that_are_missing_for_one_reason_share_a_line() {
        let without = [
            ("a", "still starting"),
            ("b", "\x1b refused"),
            ("c", "still starting"),
        ];
        let without = without.map(|(alias, why)| (alias.to_string(), why.to_string()));
        assert_eq!(
            excuses(&without),
            [
                "going without MCP servers a, c: still starting",
                "going without MCP server b: \x1b refused"
            ]
        );
        assert!(excuses(&[]).is_empty());
    }
}
