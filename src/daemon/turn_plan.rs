//! The plan of a turn: everything that is collected from the client before the turn starts.

use super::Daemon;
use super::client_link::ClientHandle;
use super::mcp_startup::{self, PendingStart};
use super::model::{self, ModelPlan};
use crate::error::Result;
use crate::history::record::RecordIds;
use crate::protocol::{AskRequest, ShellId};
use crate::session::conversation::SharedSession;

/// A prompt that is ready to be performed: everything that was needed of its client has been collected.
#[derive(Debug)]
pub struct TurnPlan {
    /// The request.
    pub ask: AskRequest,
    /// The ids of the records.
    pub links: RecordIds,
    /// `None` for words to one command, which are outside of any conversation.
    pub session: Option<SharedSession>,
    /// The configuration, and what the choice of the model needs.
    pub model: ModelPlan,
    /// `None` where the prompt wants no servers.
    pub servers: Option<PendingStart>,
}

impl TurnPlan {
    /// Returns the ids of the session and of the prompt.
    pub fn ids(&self) -> (String, String) {
        let session = self.session.as_ref().map(|s| s.id.clone());
        let prompt = self.links.prompt.clone();
        (session.unwrap_or_default(), prompt.unwrap_or_default())
    }
}

/// Chooses the session and collects from the client what the turn needs.
///
/// # Errors
/// There is no such session or model, the configuration is wrong, or the client has hung up.
pub async fn prepare(daemon: &Daemon, client: &ClientHandle, ask: AskRequest) -> Result<TurnPlan> {
    let shell = ask.shell.as_ref();
    let mut links = RecordIds {
        shell: shell.map(ShellId::to_string),
        prompt: Some(uuid::Uuid::now_v7().to_string()),
        ..client.links.clone()
    };
    let (session, of_session) = if ask.command {
        let id = shell.and_then(|s| daemon.sessions.session_for_shell(s));
        // A session whose file was deleted has chosen no model.
        let session = match id {
            Some(id) => daemon.sessions.get(&id).await.ok(),
            None => None,
        };
        (None, session.and_then(|s| s.model()))
    } else {
        links.command = shell
            .zip(ask.started_ms)
            .map(|(shell, ms)| format!("{shell}@{ms}"));
        let session = daemon.sessions.choose(&ask.session, shell, &links).await?;
        let model = session.model();
        (Some(session), model)
    };
    let flag = ask.model.clone();
    let model = model::prepare(daemon, client, flag, of_session, &ask.overrides).await?;
    let wants_servers = session.is_some() && !(ask.no_tools && ask.resources.is_empty());
    let servers = match wants_servers {
        true => Some(mcp_startup::collect(daemon, client, &model.config).await?),
        false => None,
    };
    Ok(TurnPlan {
        ask,
        links,
        session,
        model,
        servers,
    })
}
