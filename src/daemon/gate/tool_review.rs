//! What the person has seen of the tools: new ones are shown before the first call, and one that has changed is asked about
//! with its difference.

use super::super::tool_view::tool_info;
use super::{CallGate, lock};
use crate::chat::ToolDefinition;
use crate::config::mcp::ServerSettings;
use crate::history::record::RecordBody;
use crate::protocol::tools::{NewTools, ToolDiffLine};
use crate::safety::policy::{CHANGED, CallRequest};
use crate::session::feed::TurnEvent;

impl CallGate<'_> {
    /// Whether a tool is another than the person was shown last.
    pub(super) fn changed(&self, tool: &ToolDefinition) -> bool {
        let daemon = self.context.daemon;
        let server = daemon.mcp.server(&tool.server);
        server.is_some_and(|server| daemon.known.changed(&server, tool))
    }

    /// How it differs.
    pub(super) fn changes(
        &self,
        server: &ServerSettings,
        tool: &ToolDefinition,
    ) -> Vec<ToolDiffLine> {
        let lines = self.context.daemon.known.difference(server, tool);
        let change = |line: crate::safety::tool_diff::DiffLine| ToolDiffLine {
            sign: line.sign,
            text: line.text,
        };
        lines.into_iter().map(change).collect()
    }

    /// Shows the tools of a server that the person has not seen, whole, if the one that is to be called is among them.
    pub(super) fn introduce(&self, server: &ServerSettings, tool: &ToolDefinition) {
        let known = &self.context.daemon.known;
        let unseen = known.unseen(server, self.of_server(&server.alias));
        if !unseen.iter().any(|new| new.tool == tool.tool) {
            return;
        }
        let event = TurnEvent::NewTools(NewTools {
            server: server.alias.clone(),
            target: server.target(),
            first: known.is_new(server),
            tools: unseen.iter().map(|tool| tool_info(tool)).collect(),
        });
        self.context.feed.push(event);
        // A turn in the background is shown to the client that attaches, but nobody may ever attach.
        if self.context.feed.is_watched() {
            known.shown(server, unseen);
        }
    }

    /// The person has said yes to a tool as it is now.
    pub(super) fn accept(&self, server: &ServerSettings, tool: &ToolDefinition) {
        let known = &self.context.daemon.known;
        if known.changed(server, tool) {
            known.shown(server, [tool]);
        }
    }

    /// Takes back and records what was allowed of this tool before it or its server changed.
    pub(super) fn lapse(&self, wish: &CallRequest<'_>) {
        let lost = lock(&self.context.session.grants).remove_changed(wish);
        for grant in lost {
            let record = RecordBody::Policy {
                change: "lapsed".to_owned(),
                what: grant.description(),
                grant: Some(grant.id),
                why: Some(CHANGED.to_owned()),
            };
            // It permits nothing, and the grant is void without it.
            if let Err(e) = self.context.session.record(&self.context.links, record) {
                tracing::warn!("{}", e.message);
            }
        }
    }
}
