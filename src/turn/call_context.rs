//! The shared context of the tool calls of one round.

use std::sync::Arc;

use super::rules_in_force::RequestContext;
use crate::config::Config;
use crate::history::record::RecordIds;
use crate::mcp::ToolCatalog;
use crate::services::SharedServices;
use crate::session::conversation::Session;
use crate::session::feed::TurnFeed;

/// The context of the calls of one round.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// State shared by all turns.
    pub services: &'a SharedServices,
    /// The session in which decisions are recorded and grants are kept.
    pub session: &'a Session,
    /// The servers, the rules in force, and the result size limit.
    pub config: &'a Config,
    /// The request context, to read the rules again.
    pub request: &'a RequestContext,
    /// The available tools.
    pub catalog: &'a ToolCatalog,
    /// How the tools were offered to the model.
    pub exposure: ToolExposure,
    /// Whether the model is configured for images.
    pub takes_images: bool,
    /// Reports progress, asks questions and cancels.
    pub feed: &'a Arc<TurnFeed>,
    /// The ids of the records.
    pub record_ids: RecordIds,
}

/// How the tools are offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolExposure {
    /// Each tool by itself.
    Direct {
        /// Whether `read_result` is offered too, because a result was truncated.
        reads_on: bool,
    },
    /// Through `retrieve_tools` and the `call_tool_*` tools.
    Split {
        /// Reject calls that contradict the server's annotations; otherwise the user is warned.
        strict: bool,
    },
}
