//! Requests that clients of the socket and of the HTTP API share: status, sessions, models, tools, MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod deletion;
pub mod manual_call;
pub mod mcp;
pub mod recordings;
pub mod session_settings;
pub mod share;
pub mod share_place;

pub use self::deletion::delete_session;
use crate::config::packs;
use crate::config::{ConfigChanges, ConfigOverrides};
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::{RecordBody, RecordIds};
use crate::history::session_list::{SessionSummary, search_words, stored_title};
use crate::protocol::{
    AskRequest, ConfigDifference, DaemonStatus, ModelInfo, RequestFailure, SessionChoice,
    SessionInfo, ShellId, Transcript,
};
use crate::services::client_handle::ClientHandle;
use crate::services::model::ChosenModel;
use crate::services::{SharedServices, model};
use crate::session::lock;
use crate::turn::terminal_output::WantedOutput;

/// How long `status` waits for the model's endpoint.
const PROBE: Duration = Duration::from_secs(2);

/// Shown where nobody can be asked.
pub const STRICTER: &str = "configuration changes that ask less are not in force; to see and confirm them, run llm in a terminal";
/// Shown for a prompt of a program that aish has started for a model.
pub const RESTRICTED: &str = "this prompt comes from a program started by aish or by an approved command: it runs in a separate session, without tools";

/// Restricts a prompt of a program that aish has started for a model: it uses no session of the person with its grants,
/// proposes no commands and calls no tools.
///
/// # Errors
/// The prompt names a session, or resources of MCP servers.
pub fn restrict(ask: &mut AskRequest) -> Result<()> {
    let chosen = matches!(
        ask.session,
        SessionChoice::Continue | SessionChoice::Attach(_)
    );
    if chosen || !ask.resources.is_empty() {
        let message = "refused: a program started by aish may not use sessions or resources";
        return Err(Error::new(ErrorKind::Approval, message)
            .hint("type the prompt yourself when the approved command has ended"));
    }
    ask.session = SessionChoice::New;
    ask.shell = None;
    ask.tools = Some("none".to_owned());
    ask.can_answer = false;
    Ok(())
}

/// Returns the status of the daemon and of the model.
///
/// # Errors
/// The client has hung up.
pub async fn status(
    services: &SharedServices,
    client: &ClientHandle,
    shell: Option<&ShellId>,
    overrides: &BTreeMap<String, String>,
) -> Result<DaemonStatus> {
    let of_session = session_model(services, shell).await;
    let lookup = async {
        let plan = model::prepare(
            services,
            client,
            None,
            of_session,
            overrides,
            model::ModelJob::Prompt,
        )
        .await?;
        let found = model::look(services, &plan, &client.feed).await?;
        found.ok_or_else(|| model::nothing_found(&plan.config))
    };
    let (model, endpoint, state) = match lookup.await {
        Ok(chosen) => {
            let state = if chosen.serve.is_some() {
                "started when needed".to_string()
            } else if chosen.lacks_key() {
                // A status request must not make the user unlock a password store.
                "not checked: its key_cmd runs when a prompt needs the key".to_string()
            } else {
                endpoint_state(services, &chosen).await
            };
            (Some(chosen.name), Some(chosen.endpoint.base_url), state)
        }
        Err(e) => (None, None, e.message),
    };
    let journal = services.sessions.journal.clone();
    let counted = blocking(move || Ok((journal.sessions().map_or(0, |s| s.len()), journal.size())));
    let (sessions, journal_bytes) = counted.await?;
    let shares = share::list(services).await;
    let shares = shares.map_or(0, |shares| shares.len());
    let loaded = services.models.config(&ConfigOverrides::default());
    let config_error = loaded.as_ref().err().map(|e| e.message.clone());
    let config = loaded.ok();
    let servers = config.as_deref().map(|c| mcp::list(services, c));
    let changes = services.models.pending_changes();
    let config = config.and_then(|c| c.file.clone());
    Ok(DaemonStatus {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        uptime_seconds: services.started.elapsed().as_secs(),
        socket: services.paths.socket().display().to_string(),
        memory_bytes: memory(),
        model,
        endpoint,
        endpoint_state: Some(state),
        sessions,
        shells: lock(&services.shells).alive(),
        turns: services.turns.load(Ordering::Relaxed),
        journal_bytes,
        config: config.map(|c| c.display().to_string()),
        config_changes: changes.map_or(0, |changes| changes.lines.len()),
        config_error,
        servers: servers.unwrap_or_default(),
        // The daemon fills it in.
        http: None,
        shares,
    })
}

async fn endpoint_state(services: &SharedServices, chosen: &ChosenModel) -> String {
    let (broker, endpoint) = (&services.broker, &chosen.endpoint);
    let has_model = async {
        match chosen.is_aish_server {
            true => broker.check_server_token(endpoint).await.map(|()| true),
            false => broker.probe(endpoint).await.map(|report| report.has_model),
        }
    };
    match tokio::time::timeout(PROBE, has_model).await {
        Ok(Ok(true)) => "answers".to_string(),
        Ok(Ok(false)) => format!("answers, but does not list the model {}", endpoint.model),
        Ok(Err(e)) => e.message,
        Err(_) => format!("no answer within {} s", PROBE.as_secs()),
    }
}

/// Returns resident memory in bytes; the peak on systems without `/proc`.
fn memory() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let resident = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| {
            let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
            let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
            Some(pages * u64::try_from(size).ok()?)
        });
    resident.unwrap_or_else(|| {
        let peak = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |u| u.max_rss());
        u64::try_from(peak).unwrap_or(0)
    })
}

/// Returns the model chosen for a shell's session; `None` if the session cannot be read.
async fn session_model(services: &SharedServices, shell: Option<&ShellId>) -> Option<String> {
    let id = services.sessions.session_for_shell(shell?)?;
    services.sessions.get(&id).await.ok()?.model()
}

/// Returns the records of a session.
///
/// # Errors
/// The session does not exist.
pub async fn transcript(
    services: &SharedServices,
    session: Option<String>,
    shell: Option<ShellId>,
    limit: Option<usize>,
    brief: bool,
) -> Result<Transcript> {
    let id = match (session, shell) {
        (Some(wanted), _) => services.sessions.find(&wanted).await?,
        (None, Some(shell)) => services
            .sessions
            .session_for_shell(&shell)
            .ok_or_else(|| Error::usage("this shell has no session yet"))?,
        (None, None) => {
            let journal = services.sessions.journal.clone();
            let sessions = blocking(move || journal.sessions()).await?;
            let last = sessions
                .first()
                .ok_or_else(|| Error::usage("there is no session yet"))?;
            last.id.clone()
        }
    };
    let journal = services.sessions.journal.clone();
    blocking(move || {
        let mut records = journal.read(&id)?;
        if let Some(limit) = limit {
            records.drain(..records.len().saturating_sub(limit));
        }
        if brief {
            for record in records.iter_mut().filter_map(|r| r.as_object_mut()) {
                record.remove("rendered");
            }
        }
        Ok(Transcript {
            session: id,
            records,
        })
    })
    .await
}

/// Returns which output is wanted: that of the last command of a shell, by default of the one on the terminal of the client.
///
/// # Errors
/// No shell is known there.
pub fn wanted_output(
    services: &SharedServices,
    shell: Option<ShellId>,
    tty: Option<String>,
) -> Result<WantedOutput> {
    let of_tty = || lock(&services.shells).of_tty(&format!("/dev/{}", tty?));
    let unknown = || {
        Error::usage("no shell with the plugin is known on this terminal")
            .hint("if the plugin is loaded here, run another command; otherwise load it in .zshrc; see: aish-helper doctor")
    };
    let shell = shell.or_else(of_tty).ok_or_else(unknown)?;
    Ok(WantedOutput::last(shell))
}

/// Returns the sessions, last used first; with `search`, those in which one record contains all its words.
///
/// # Errors
/// The journal cannot be read.
pub async fn sessions(
    services: &SharedServices,
    limit: usize,
    search: Option<String>,
) -> Result<Vec<SessionInfo>> {
    let journal = services.sessions.journal.clone();
    let words = search_words(&search.unwrap_or_default());
    blocking(move || {
        let mut infos = Vec::new();
        for file in journal.sessions()? {
            if infos.len() == limit {
                break;
            }
            // One file that cannot be read must not hide the other sessions.
            let summary = match journal.summary(&file.id, &words) {
                Ok(summary) => summary,
                Err(e) => Some(SessionSummary {
                    excerpt: e.message,
                    ..SessionSummary::default()
                }),
            };
            infos.extend(summary.map(|summary| info(file.id, file.updated_ms, summary)));
        }
        Ok(infos)
    })
    .await
}

fn info(id: String, updated_ms: u64, summary: SessionSummary) -> SessionInfo {
    SessionInfo {
        id,
        updated_ms,
        prompts: summary.prompts,
        title: summary.title,
        excerpt: summary.excerpt,
        found_record: summary.found_record,
    }
}

/// Returns the entry of one session in the list.
///
/// # Errors
/// The journal cannot be read.
pub async fn session_info(services: &SharedServices, id: &str) -> Result<SessionInfo> {
    let (journal, id) = (services.sessions.journal.clone(), id.to_owned());
    blocking(move || {
        let summary = journal.summary(&id, &[])?.unwrap_or_default();
        let files = journal.sessions()?;
        let file = files.iter().find(|file| file.id == id);
        let updated_ms = file.map_or_else(crate::history::journal::now_ms, |f| f.updated_ms);
        Ok(info(id, updated_ms, summary))
    })
    .await
}

/// Makes a session the shell's own. The result has the time of its last use before this one.
///
/// # Errors
/// There is no such session.
pub async fn continue_session(
    services: &SharedServices,
    shell: &ShellId,
    session: Option<String>,
    record_ids: &RecordIds,
) -> Result<SessionInfo> {
    let choice = session.map_or(SessionChoice::Continue, SessionChoice::Attach);
    let record_ids = &of_shell(record_ids, shell);
    let journal = services.sessions.journal.clone();
    let before = blocking(move || journal.sessions()).await?;
    let sessions = &services.sessions;
    let session = sessions.choose(&choice, Some(shell), record_ids).await?;
    sessions.shell_file_written(shell).await;
    let mut info = session_info(services, &session.id).await?;
    let used = before.iter().find(|file| file.id == info.id);
    info.updated_ms = used.map_or(info.updated_ms, |file| file.updated_ms);
    Ok(info)
}

/// Gives a session a title.
///
/// # Errors
/// There is no such session, or its file cannot be written.
pub async fn rename_session(
    services: &SharedServices,
    session: Option<String>,
    shell: Option<&ShellId>,
    title: &str,
    record_ids: &RecordIds,
) -> Result<SessionInfo> {
    let title = stored_title(title).ok_or_else(|| {
        Error::usage("the title has no visible character").hint("try: llm :rename a short title")
    })?;
    let id = match (
        session,
        shell.map(|s| services.sessions.session_for_shell(s)),
    ) {
        (Some(wanted), _) => services.sessions.find(&wanted).await?,
        (None, Some(Some(id))) => id,
        (None, _) => return Err(Error::usage("this shell has no session yet")),
    };
    let session = services.sessions.get(&id).await?;
    let record_ids = shell.map_or_else(|| record_ids.clone(), |s| of_shell(record_ids, s));
    session
        .record_written(&record_ids, RecordBody::Title { title })
        .await?;
    session_info(services, &id).await
}

/// Adds the shell to the ids of a record.
pub fn of_shell(record_ids: &RecordIds, shell: &ShellId) -> RecordIds {
    RecordIds {
        shell: Some(shell.to_string()),
        ..record_ids.clone()
    }
}

/// Reads files on another thread: a long journal must not block the runtime.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or_else(|e| Err(Error::runtime(format!("the background task failed: {e}"))))
}

/// Creates a session for a shell.
pub async fn new_session(
    services: &SharedServices,
    shell: &ShellId,
    record_ids: &RecordIds,
) -> SessionInfo {
    let record_ids = &of_shell(record_ids, shell);
    let session = services.sessions.create(Some(shell), record_ids);
    services.sessions.shell_file_written(shell).await;
    SessionInfo {
        id: session.id.clone(),
        updated_ms: crate::history::journal::now_ms(),
        ..SessionInfo::default()
    }
}

/// Sets the model of a shell's session.
///
/// # Errors
/// The model does not exist.
pub async fn use_model(
    services: &SharedServices,
    shell: &ShellId,
    model: String,
    record_ids: &RecordIds,
) -> Result<()> {
    // Fails if there is no such model.
    let overrides = ConfigOverrides::default().with_model(Some(model.clone()));
    services.models.config(&overrides)?;
    let record_ids = of_shell(record_ids, shell);
    let sessions = &services.sessions;
    let session = sessions
        .choose(&SessionChoice::Shell, Some(shell), &record_ids)
        .await?;
    session
        .record_written(&record_ids, RecordBody::Model { model })
        .await
}

/// Returns the models of the configuration.
///
/// # Errors
/// The configuration cannot be read.
pub async fn models(
    services: &SharedServices,
    shell: Option<&ShellId>,
    overrides: &BTreeMap<String, String>,
) -> Result<Vec<ModelInfo>> {
    let config = services
        .models
        .config(&ConfigOverrides::from_map(overrides)?)?;
    let current = match session_model(services, shell).await {
        Some(name) => Some(name),
        None => config.current().ok().flatten().map(|m| m.name.clone()),
    };
    Ok(config
        .models
        .values()
        .map(|m| {
            let (context_window, price) = model::window_and_price(m);
            ModelInfo {
                name: m.name.clone(),
                model: m.model.clone(),
                base_url: m.base_url.clone(),
                context_window,
                input_price: price.map(|(input, _)| input),
                output_price: price.map(|(_, output)| output),
                current: current.as_ref() == Some(&m.name),
            }
        })
        .collect())
}

/// Decides on changes of the configuration that were shown.
///
/// # Errors
/// They have changed again, or the decision cannot be stored.
pub async fn decide_on_changes(
    services: &Arc<SharedServices>,
    digest: String,
    accept: bool,
) -> Result<()> {
    let services = services.clone();
    blocking(move || services.models.decide_on_changes(&digest, accept)).await
}

/// Stores the approval of a prompt pack that was shown.
///
/// # Errors
/// It cannot be stored.
pub async fn approve_pack(services: &SharedServices, sha256: String) -> Result<()> {
    let paths = services.paths.clone();
    blocking(move || packs::approve(&paths, &sha256)).await
}

/// The failure that lets a client ask about changes of the configuration.
pub fn config_changed(changes: ConfigChanges) -> RequestFailure {
    let message = "the configuration has changed since a person last saw it";
    let ConfigChanges { digest, lines } = changes;
    RequestFailure {
        config_changes: Some(ConfigDifference { digest, lines }),
        ..RequestFailure::from(&Error::config(message))
    }
}
