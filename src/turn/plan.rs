//! The plan of a turn: everything that is collected from the client before the turn starts.

use std::path::Path;
use std::sync::Arc;

use crate::config::packs::{self, PackSource, PromptPack};
use crate::config::{Config, ShareMode, ToolSelection};
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::RecordIds;
use crate::protocol::{AskPurpose, AskRequest, PackText, RequestFailure, SessionChoice, ShellId};
use crate::services::SharedServices;
use crate::services::client_handle::ClientHandle;
use crate::services::mcp_startup::{self, PendingStart};
use crate::services::model::{self, ModelJob, ModelPlan};
use crate::session::conversation::SharedSession;

/// A prompt that is ready to run. It needs nothing more from its client.
#[derive(Debug)]
pub struct TurnPlan {
    /// The request.
    pub ask: AskRequest,
    /// The ids of the records.
    pub record_ids: RecordIds,
    /// `None` for a single command, which belongs to no session.
    pub session: Option<SharedSession>,
    /// The configuration, and the variables that the choice of the model needs.
    pub model: ModelPlan,
    /// The prompt pack, if one is used.
    pub pack: Option<Arc<PromptPack>>,
    /// The tools to offer.
    pub tools: ToolSelection,
    /// MCP servers to start; `None` if the prompt uses no tools and no resources.
    pub servers: Option<PendingStart>,
}

impl TurnPlan {
    /// Returns the ids of the session and of the prompt.
    pub fn ids(&self) -> (String, String) {
        let session = self.session.as_ref().map(|s| s.id.clone());
        let prompt = self.record_ids.prompt.clone();
        (session.unwrap_or_default(), prompt.unwrap_or_default())
    }
}

/// Data that is collected before a session is created.
#[derive(Debug)]
pub(super) struct CollectedPlan {
    pub record_ids: RecordIds,
    /// The session that the prompt continues.
    pub existing: Option<SharedSession>,
    pub model: ModelPlan,
    pub pack: Option<Arc<PromptPack>>,
    pub tools: ToolSelection,
    pub servers: Option<PendingStart>,
}

/// Collects from the client what the turn needs, and chooses the session. A session is created last, so that a prompt
/// that fails because it has no model leaves no empty session behind.
///
/// # Errors
/// There is no such session or model, the configuration is wrong, or the client has hung up.
pub async fn prepare(
    services: &SharedServices,
    client: &ClientHandle,
    ask: AskRequest,
) -> std::result::Result<TurnPlan, RequestFailure> {
    let failed = |error| RequestFailure::from(&error);
    let shell = ask.shell.as_ref();
    let collected = collect(services, client, &ask, shell).await?;
    let (model, record_ids) = (collected.model, collected.record_ids);
    if collected.existing.is_none() && ask.purpose == AskPurpose::Prompt {
        let found = model::look(services, &model, &client.feed).await;
        if found.map_err(failed)?.is_none() {
            return Err(model::nothing_configured(&model.config));
        }
    }
    let session = match ask.purpose {
        AskPurpose::Command | AskPurpose::Fix { .. } => None,
        AskPurpose::Compaction => match collected.existing {
            Some(session) => Some(session),
            None => {
                let error = Error::usage("this shell has no session to summarize");
                return Err(failed(error.hint("name one: llm :compact ID")));
            }
        },
        AskPurpose::Prompt => {
            let sessions = &services.sessions;
            let session = sessions.choose(&ask.session, shell, &record_ids).await;
            Some(session.map_err(failed)?)
        }
    };
    Ok(TurnPlan {
        record_ids,
        session,
        model,
        pack: collected.pack,
        tools: collected.tools,
        servers: collected.servers,
        ask,
    })
}

/// Collects what a prompt needs. A session that is continued becomes that of `shell`.
///
/// # Errors
/// As for [`prepare`].
pub(super) async fn collect(
    services: &SharedServices,
    client: &ClientHandle,
    ask: &AskRequest,
    shell: Option<&ShellId>,
) -> std::result::Result<CollectedPlan, RequestFailure> {
    let failed = |error| RequestFailure::from(&error);
    let record_ids = record_ids(client, ask);
    let existing = existing_session(services, &record_ids, ask, shell).await;
    let existing = existing.map_err(failed)?;
    let of_session = |name| existing.as_ref().and_then(|session| session.setting(name));
    let session_model = existing.as_ref().and_then(|session| session.model());
    let job = match ask.purpose {
        AskPurpose::Command | AskPurpose::Fix { .. } => ModelJob::Command,
        AskPurpose::Prompt | AskPurpose::Compaction => ModelJob::Prompt,
    };
    let (flag, overrides) = (ask.model.clone(), &ask.overrides);
    let model = model::prepare(services, client, flag, session_model, overrides, job).await;
    let model = model.map_err(failed)?;
    let config = &model.config;
    let credentials = config.share.credential_variables();
    if !credentials.is_empty() && config.share.mode != ShareMode::Disabled {
        // Kept for shares that no shell asks for: automatic ones, those of the page, and old sessions that are dropped.
        let sent = client.variables(credentials).await;
        sent.map_err(failed)?;
    }
    let tools = ask.tools.clone().or_else(|| of_session("tools"));
    let tools = match tools.or_else(|| config.default_tools.clone()) {
        _ if ask.purpose != AskPurpose::Prompt => ToolSelection::Matching(Vec::new()),
        Some(text) => {
            let parsed = ToolSelection::parse(&text, &config.toolsets);
            let of_session = ask.tools.is_none() && of_session("tools").is_some();
            parsed.map_err(|e| failed(set_by_session(e, of_session, "tools")))?
        }
        None => ToolSelection::All,
    };
    let is_aish_server = config
        .current()
        .is_ok_and(|model| model.is_some_and(|m| m.is_aish_server));
    let uses_servers = !(tools.is_none() || is_aish_server) || !ask.resources.is_empty();
    let servers = match uses_servers && ask.purpose == AskPurpose::Prompt {
        true => {
            let servers = mcp_startup::collect(services, client, config).await;
            Some(servers.map_err(failed)?)
        }
        false => None,
    };
    let pack = prompt_pack(services, ask, of_session("prompt"), config).await?;
    Ok(CollectedPlan {
        record_ids,
        existing,
        model,
        pack,
        tools,
        servers,
    })
}

/// Says how to remove a setting of the session that no longer fits.
fn set_by_session(error: Error, is_of_session: bool, name: &str) -> Error {
    match is_of_session {
        true => error.hint(format!(
            "it is set for this session; to remove it: llm :set {name}="
        )),
        false => error,
    }
}

/// Returns the prompt pack to use. One of a project must have been approved.
async fn prompt_pack(
    services: &SharedServices,
    ask: &AskRequest,
    session_pack: Option<String>,
    config: &Config,
) -> std::result::Result<Option<Arc<PromptPack>>, RequestFailure> {
    let is_of_session = ask.pack.is_none() && session_pack.is_some();
    let named = ask.pack.clone().or(session_pack);
    let named = named.or_else(|| config.default_prompt.clone());
    let Some(name) = named.filter(|name| *name != "none" && ask.purpose == AskPurpose::Prompt)
    else {
        return Ok(None);
    };
    let (paths, cwd, name) = (services.paths.clone(), ask.cwd.clone(), name);
    // On another thread: a hanging disk delays only this request.
    let find = tokio::task::spawn_blocking(move || {
        let pack = packs::find(&paths, Path::new(&cwd), &name)?;
        let may_use =
            pack.source != PackSource::Project || packs::is_approved(&paths, &pack.sha256);
        Ok::<_, Error>((pack, may_use))
    });
    let found = find.await;
    let found = found.map_err(|e| Error::runtime(format!("cannot look for prompt packs: {e}")));
    let (pack, may_use) = found
        .flatten()
        .map_err(|e| RequestFailure::from(&set_by_session(e, is_of_session, "prompt")))?;
    if may_use {
        return Ok(Some(Arc::new(pack)));
    }
    let message = format!(
        "the prompt pack @{} of this project is not approved",
        pack.name
    );
    let texts = pack.texts.into_iter();
    Err(RequestFailure {
        unapproved_pack: Some(PackText {
            name: pack.name,
            path: pack.path.display().to_string(),
            sha256: pack.sha256,
            texts: texts.map(|(key, text)| (key.to_owned(), text)).collect(),
        }),
        ..RequestFailure::from(
            &Error::new(ErrorKind::Approval, message)
                .hint("to see and approve it, run llm in a terminal"),
        )
    })
}

/// Returns the session whose settings a prompt uses, without creating one.
async fn existing_session(
    services: &SharedServices,
    record_ids: &RecordIds,
    ask: &AskRequest,
    shell: Option<&ShellId>,
) -> Result<Option<SharedSession>> {
    let choice = match ask.purpose {
        AskPurpose::Command | AskPurpose::Fix { .. } => &SessionChoice::Shell,
        AskPurpose::Prompt | AskPurpose::Compaction => &ask.session,
    };
    match choice {
        SessionChoice::New => Ok(None),
        SessionChoice::Shell => match ask
            .shell
            .as_ref()
            .and_then(|s| services.sessions.session_for_shell(s))
        {
            // A session whose file was deleted has no model.
            Some(id) => Ok(services.sessions.get(&id).await.ok()),
            None => Ok(None),
        },
        SessionChoice::Continue | SessionChoice::Attach(_) => {
            let sessions = &services.sessions;
            let session = sessions.choose(choice, shell, record_ids).await?;
            Ok(Some(session))
        }
    }
}

/// Returns the ids of the records of a prompt.
fn record_ids(client: &ClientHandle, ask: &AskRequest) -> RecordIds {
    let shell = ask.shell.as_ref();
    let command_line = shell
        .zip(ask.started_ms)
        .filter(|_| !ask.purpose.is_single_command());
    RecordIds {
        shell: shell.map(ShellId::to_string),
        prompt: Some(uuid::Uuid::now_v7().to_string()),
        command: command_line.map(|(shell, ms)| format!("{shell}@{ms}")),
        ..client.record_ids.clone()
    }
}
