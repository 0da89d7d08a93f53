//! Review of MCP tools by the user: new tools are shown before the first call, and a changed tool needs approval again,
//! with a diff.

use super::{CallGate, lock};
use crate::chat::ToolDefinition;
use crate::config::mcp::ServerSettings;
use crate::history::record::{PolicyChange, RecordBody};
use crate::protocol::tools::{NewTools, ToolDiffLine, UnseenTool};
use crate::safety::policy::{CHANGED, CallRequest};
use crate::session::feed::TurnEvent;
use crate::turn::tool_view::tool_info;

impl CallGate<'_> {
    /// Whether a tool differs from the definition that the user was last shown.
    pub(super) fn changed(&self, tool: &ToolDefinition) -> bool {
        let services = self.context.services;
        let server = services.mcp.server(&tool.server);
        server.is_some_and(|server| services.tool_history.changed(&server, tool))
    }

    /// Returns the diff against the definition that the user was last shown.
    pub(super) fn changes(
        &self,
        server: &ServerSettings,
        tool: &ToolDefinition,
    ) -> Vec<ToolDiffLine> {
        let lines = self.context.services.tool_history.difference(server, tool);
        let change = |line: crate::safety::tool_diff::DiffLine| ToolDiffLine {
            sign: line.sign,
            text: line.text,
        };
        lines.into_iter().map(change).collect()
    }

    /// Shows all tools of a server that the user has not seen, if `tool` is one of them. Returns the new parts of it.
    pub(super) fn introduce(
        &self,
        server: &ServerSettings,
        tool: &ToolDefinition,
    ) -> Option<UnseenTool> {
        let known = &self.context.services.tool_history;
        let unseen = known.unseen(server, self.of_source(&server.alias, &tool.identity));
        if !unseen.iter().any(|new| new.tool == tool.tool) {
            return None;
        }
        let first = known.is_new(server);
        let event = TurnEvent::NewTools(NewTools {
            server: server.alias.clone(),
            target: server.target(),
            first,
            tools: unseen.iter().map(|tool| tool_info(tool)).collect(),
        });
        self.context.feed.push(event);
        // A background turn is shown to a client that attaches, but possibly none ever does.
        if self.context.feed.is_watched() {
            known.shown(server, unseen);
        }
        Some(match first {
            true => UnseenTool::Server,
            false => UnseenTool::Tool,
        })
    }

    /// Stores the current definition of a tool that is new or has changed as seen, because the user approved it.
    pub(super) fn accept(&self, server: &ServerSettings, tool: &ToolDefinition) {
        let known = &self.context.services.tool_history;
        if known.changed(server, tool) || !known.unseen(server, [tool]).is_empty() {
            known.shown(server, [tool]);
        }
    }

    /// Removes the grants that were given before the tool or its server changed, and records each removal.
    pub(super) fn lapse(&self, request: &CallRequest<'_>) {
        let lost = lock(&self.context.session.grants).remove_changed(request);
        for grant in lost {
            let record = RecordBody::Policy {
                change: PolicyChange::Lapsed,
                what: grant.description(),
                grant: Some(grant.id),
                why: Some(CHANGED.to_owned()),
            };
            // The record need not be synced: the grant is removed in any case.
            if let Err(e) = self
                .context
                .session
                .record(&self.context.record_ids, record)
            {
                tracing::warn!("{}", e.message);
            }
        }
    }
}
