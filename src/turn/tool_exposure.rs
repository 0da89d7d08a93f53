//! The tools of a prompt: waits for the MCP servers, and decides how the tools are exposed to the model.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::call_context::ToolExposure;
use super::rules_in_force::RequestContext;
use crate::chat::ToolDefinition;
use crate::config::{Config, ToolSelection, nearest_name};
use crate::error::Result;
use crate::mcp::ToolCatalog;
use crate::python::catalog::HelperCatalog;
use crate::safety::policy::{BUILTIN_SERVER, HELPER_SERVER, TERMINAL_OUTPUT_RULE};
use crate::services::SharedServices;
use crate::services::mcp_startup::{self, PendingStart};
use crate::services::model::ChosenModel;
use crate::services::tool_history;
use crate::session::conversation::Session;
use crate::session::feed::TurnFeed;
use crate::tools::{builtin, split};

/// How long a prompt waits for MCP servers that are starting, since the start of each.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the pending servers, waits for them for a limited time and returns the available tools.
///
/// # Errors
/// The turn was cancelled.
pub async fn catalog(
    services: &SharedServices,
    feed: &TurnFeed,
    chosen: &ChosenModel,
    pending: Option<PendingStart>,
) -> Result<ToolCatalog> {
    let Some(pending) = pending.filter(|_| any(services, chosen)) else {
        return Ok(ToolCatalog::default());
    };
    mcp_startup::refresh(services, pending, &chosen.config);
    let starting = async { Ok(tool_history::catalog(services, PATIENCE).await) };
    feed.unless_cancelled(starting).await
}

/// The tools of a prompt that are selected. Equal lists of all tools give the same list of selected ones, for which a search
/// index may exist.
#[derive(Debug, Clone)]
pub struct SelectedTools {
    selection: ToolSelection,
    last: Option<(Arc<[ToolDefinition]>, ToolCatalog)>,
}

impl SelectedTools {
    /// Creates the selection of a prompt.
    pub fn new(selection: ToolSelection) -> SelectedTools {
        SelectedTools {
            selection,
            last: None,
        }
    }

    /// Returns the selected tools, and of the unavailable servers those whose tools may be selected.
    pub fn of(&mut self, all: ToolCatalog) -> ToolCatalog {
        if self.selection == ToolSelection::All {
            return all;
        }
        let mut unavailable = all.unavailable;
        unavailable.retain(|(alias, _)| self.selection.may_match_server(alias));
        if let Some((of, selected)) = &self.last
            && Arc::ptr_eq(of, &all.tools)
        {
            return ToolCatalog {
                unavailable,
                ..selected.clone()
            };
        }
        let tools = all.tools.iter();
        let tools = tools
            .filter(|tool| self.selection.matches(&tool.name))
            .cloned();
        let selected = ToolCatalog::new(tools.collect(), unavailable);
        self.last = Some((all.tools, selected.clone()));
        selected
    }

    /// Returns the helpers that are selected, by `helper.NAME` or by the group `python`.
    pub fn helpers(selection: &ToolSelection, all: &HelperCatalog) -> HelperCatalog {
        all.selected(|name| {
            selection.matches(&format!("{HELPER_SERVER}.{name}"))
                || selection.matches(&format!("{}.{name}", builtin::PYTHON))
        })
    }

    /// Returns the built-in tools that are selected, by `aish.NAME` or by their group, such as `fs`, and the helpers. The tool
    /// `python` is offered where there are helpers, or where it is named.
    pub fn work_tools(selection: &ToolSelection, helpers: &HelperCatalog) -> Vec<ToolDefinition> {
        let is_useful = |tool: &&ToolDefinition| {
            let has_helpers = !helpers.functions().is_empty();
            tool.name != builtin::PYTHON || has_helpers || *selection != ToolSelection::All
        };
        let is_selected = |tool: &&ToolDefinition| {
            let group = builtin::tool_group(&tool.tool).unwrap_or_default();
            selection.matches(&format!("{}.{}", tool.server, tool.tool))
                || selection.matches(&format!("{group}.{}", tool.tool))
        };
        let work = builtin::work_tools().iter();
        let work = work.filter(is_selected).filter(is_useful).cloned();
        work.chain(helpers.definitions()).collect()
    }

    /// Returns the tools of the connected servers, as far as the selection needed them.
    pub fn connected(&self) -> &[ToolDefinition] {
        self.last.as_ref().map_or(&[], |(all, _)| all)
    }

    /// Returns a notice if the selection names tools and none of them exists.
    pub fn unmatched(&self, selected: &ToolCatalog, has_work: bool) -> Option<String> {
        let (all, _) = self.last.as_ref()?;
        let is_empty = selected.tools.is_empty() && selected.unavailable.is_empty() && !has_work;
        (is_empty && !all.is_empty() && !self.selection.is_none())
            .then(|| "no tool matches the selection; the model gets none".to_owned())
    }
}

/// Returns a notice for each name in the text of a selection that nothing has.
pub async fn unknown_names(
    services: &SharedServices,
    config: &Config,
    text: &str,
    connected: &[ToolDefinition],
) -> Vec<String> {
    let states = services.mcp.states().into_iter();
    let configured = config.mcp.servers.keys().cloned();
    let servers = configured.chain(states.map(|state| state.alias)).collect();
    let helpers = services.helpers.catalog(&services.paths).await;
    unknown(text, connected, &servers, &helpers)
}

/// Returns a notice for each name in the text of a selection that nothing has, among the tools of aish, the helpers, and these
/// servers. What a server has that is not connected yet is not known.
fn unknown(
    text: &str,
    connected: &[ToolDefinition],
    servers: &BTreeSet<String>,
    helpers: &HelperCatalog,
) -> Vec<String> {
    let words = text.split(',').map(str::trim);
    let words = words.filter(|word| !word.starts_with('@') && !["all", "none"].contains(word));
    let work = builtin::work_tools().iter();
    let own = work.map(|tool| (BUILTIN_SERVER, tool.tool.as_str()));
    let own = own.chain([TERMINAL_OUTPUT_RULE]);
    let grouped = builtin::TOOL_GROUPS.iter();
    let grouped = grouped.flat_map(|(group, tools)| tools.iter().map(move |tool| (*group, *tool)));
    let functions = helpers.functions().iter();
    let functions = functions.map(|function| function.record.name.as_str());
    let of_helpers = functions.flat_map(|name| [(HELPER_SERVER, name), (builtin::PYTHON, name)]);
    let of_servers = connected
        .iter()
        .map(|tool| (tool.server.as_str(), tool.tool.as_str()));
    let tools: Vec<(&str, &str)> = own
        .chain(grouped)
        .chain(of_helpers)
        .chain(of_servers)
        .collect();
    let mut groups: BTreeSet<&str> = tools.iter().map(|(group, _)| *group).collect();
    groups.insert(HELPER_SERVER);
    let lists_tools = groups.clone();
    groups.extend(servers.iter().map(String::as_str));
    let unknown = words.filter_map(|word| {
        let (group, tool) = word.split_once('.').unwrap_or((word, "*"));
        if group.contains('*') || groups.contains(group) && tool.contains('*') {
            return None;
        }
        if !groups.contains(group) {
            let of_tool = tools.iter().find(|(_, tool)| *tool == group);
            let near = match of_tool {
                Some((of, tool)) => Some(format!("{of}.{tool}")),
                None => nearest_name(group, groups.iter().copied()).map(str::to_owned),
            };
            return Some((group.to_owned(), near));
        }
        let is_known = tools.contains(&(group, tool)) || !lists_tools.contains(group);
        let of_group = tools.iter().filter(|(of, _)| *of == group);
        let near = nearest_name(tool, of_group.map(|(_, tool)| *tool));
        let near = near.map(|near| format!("{group}.{near}"));
        (!is_known).then(|| (word.to_owned(), near))
    });
    let existing: Vec<&str> = groups.iter().copied().collect();
    let existing = existing.join(", ");
    let line = |(name, near): (String, Option<String>)| match near {
        Some(near) => {
            format!("the selection names {name}, which does not exist; did you mean {near}?")
        }
        None => format!("the selection names {name}, which does not exist; there are {existing}"),
    };
    unknown.map(line).collect()
}

/// Whether a server is configured or connected.
pub fn any(services: &SharedServices, chosen: &ChosenModel) -> bool {
    !chosen.config.mcp.servers.is_empty() || !services.mcp.states().is_empty()
}

/// Returns the tool definitions to send to the model: with direct exposure all tools, and `read_result` for results that are
/// truncated; with split exposure the five tools that find and call the others. The built-in tools that the request offers
/// follow.
pub fn tools<'c>(
    catalog: &'c ToolCatalog,
    exposure: ToolExposure,
    request: &RequestContext,
) -> Cow<'c, [ToolDefinition]> {
    let mut tools = match exposure {
        ToolExposure::Direct { reads_on: false } => Cow::Borrowed(&*catalog.tools),
        ToolExposure::Direct { reads_on: true } => {
            let mut tools = catalog.tools.to_vec();
            tools.push(builtin::read_result_tool());
            Cow::Owned(tools)
        }
        ToolExposure::Split { .. } => {
            let mut servers: Vec<&str> = catalog.tools.iter().map(|t| t.server.as_str()).collect();
            servers.dedup();
            Cow::Owned(split::split_tools(servers))
        }
    };
    if let Some(work) = &request.work {
        tools.to_mut().extend(work.offered.iter().cloned());
    }
    if request.terminal.is_some() {
        tools.to_mut().push(builtin::terminal_output_tool());
    }
    tools
}

/// Builds the search index in the background while the model answers, so that the first `retrieve_tools` does not wait.
pub fn index(services: &SharedServices, catalog: &ToolCatalog) {
    let (finder, tools) = (services.finder.clone(), catalog.tools.clone());
    services
        .tasks
        .spawn(async move { finder.prepare(&tools).await });
}

/// Returns how the tools are exposed for the whole of a prompt.
pub fn exposure(config: &Config, catalog: &ToolCatalog, request: &RequestContext) -> ToolExposure {
    let count = catalog.tools.len();
    match count > 0 && config.tools.splits(count) {
        true => ToolExposure::Split {
            strict: config.intent_declaration.strict_server_validation,
        },
        // Offered before there is a result to read, so that the tools stay the same when there is one.
        false => ToolExposure::Direct {
            reads_on: count > 0 || request.work.is_some(),
        },
    }
}

/// Reports the servers that became unavailable since the last report in this session.
pub fn without(feed: &TurnFeed, session: &Session, catalog: &ToolCatalog) {
    for text in unavailable_lines(&session.newly_unavailable(&catalog.unavailable)) {
        feed.notice(text);
    }
}

/// Returns one line per reason, with the servers that are unavailable for it; takes `(alias, reason)`.
fn unavailable_lines(without: &[(String, String)]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (alias, why) in without {
        match groups.iter_mut().find(|(of, _)| of == why) {
            Some((_, aliases)) => aliases.push(alias),
            None => groups.push((why, vec![alias])),
        }
    }
    let line = |(why, aliases): (&str, Vec<&str>)| match aliases.as_slice() {
        [alias] => format!("MCP server {alias} is unavailable: {why}"),
        _ => format!("MCP servers {} are unavailable: {why}", aliases.join(", ")),
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::unavailable_lines;

    #[test]
    fn unavailable_servers_are_grouped_by_reason() {
        let without = [
            ("a", "still starting"),
            ("b", "\x1b refused"),
            ("c", "still starting"),
        ];
        let without = without.map(|(alias, why)| (alias.to_string(), why.to_string()));
        assert_eq!(
            unavailable_lines(&without),
            [
                "MCP servers a, c are unavailable: still starting",
                "MCP server b is unavailable: \x1b refused"
            ]
        );
        assert!(unavailable_lines(&[]).is_empty());
    }
}
