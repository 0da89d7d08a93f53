//! The settings of a session: model, prompt pack and tools.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Config, ConfigOverrides, SERVER_VARIABLE, ToolSelection, packs};
use crate::error::{Error, Result};
use crate::history::record::{RecordBody, RecordIds};
use crate::protocol::{SessionChoice, SessionSetting, SettingName, SettingsRequest, ShellId};
use crate::requests;
use crate::services::{SharedServices, tool_history};
use crate::session::conversation::SharedSession;
use crate::turn::tool_exposure;

/// Changes the settings of a session and returns those in force. All changes are checked before one is made.
///
/// # Errors
/// There is no such session, a value is invalid, or the session's file cannot be written.
pub async fn serve(
    services: &SharedServices,
    request: SettingsRequest,
    record_ids: &RecordIds,
) -> Result<Vec<SessionSetting>> {
    let SettingsRequest {
        session,
        shell,
        changes,
        cwd,
        overrides,
    } = request;
    let mut variables = [SERVER_VARIABLE, "AISH_BASE_URL", "AISH_MODEL"].into_iter();
    let by_variable = variables.find(|name| overrides.contains_key(*name));
    let overrides = ConfigOverrides::from_map(&overrides)?;
    let config = services.models.config(&overrides)?;
    for (name, value) in &changes {
        if let Some(value) = value {
            check(services, (&config, &overrides), *name, value, &cwd).await?;
        }
    }
    let notices = match changes.get(&SettingName::Tools) {
        Some(Some(text)) => {
            let connected = tool_history::catalog(services, Duration::ZERO).await.tools;
            tool_exposure::unknown_names(services, &config, text, &connected).await
        }
        _ => Vec::new(),
    };
    let record_ids = match &shell {
        Some(shell) => &requests::of_shell(record_ids, shell),
        None => record_ids,
    };
    let session = chosen(services, session, shell, !changes.is_empty(), record_ids).await?;
    if let Some(session) = session.as_ref().filter(|_| !changes.is_empty()) {
        session.record_all(record_ids, changes.into_iter().map(setting_record))?;
        session.log_handle()?.written().await?;
    }
    let setting = |name| in_force(&config, by_variable, session.as_ref(), name);
    let mut settings = SettingName::ALL.map(setting);
    let tools = settings.iter_mut().find(|s| s.name == SettingName::Tools);
    if let Some(tools) = tools {
        tools.notices = notices;
    }
    Ok(settings.to_vec())
}

/// Returns the record of a changed setting.
pub fn setting_record((name, value): (SettingName, Option<String>)) -> RecordBody {
    match (name, value) {
        (SettingName::Model, Some(model)) => RecordBody::Model { model },
        (name, value) => RecordBody::SessionSetting {
            setting: name.as_str().to_owned(),
            value,
        },
    }
}

/// Checks changes without making them.
///
/// # Errors
/// A value is invalid.
pub async fn check_all(services: &SharedServices, request: &SettingsRequest) -> Result<()> {
    // Without a change of a setting, the configuration says nothing about the request.
    if request.changes.is_empty() {
        return Ok(());
    }
    let overrides = ConfigOverrides::from_map(&request.overrides)?;
    let config = services.models.config(&overrides)?;
    for (name, value) in &request.changes {
        if let Some(value) = value {
            check(services, (&config, &overrides), *name, value, &request.cwd).await?;
        }
    }
    Ok(())
}

/// Returns the session; `None` for a shell that has none, unless one is to be changed.
async fn chosen(
    services: &SharedServices,
    id: Option<String>,
    shell: Option<ShellId>,
    creates: bool,
    record_ids: &RecordIds,
) -> Result<Option<SharedSession>> {
    let sessions = &services.sessions;
    let id = match (id, &shell) {
        (Some(id), _) => Some(sessions.find(&id).await?),
        (None, Some(shell)) => sessions.session_for_shell(shell),
        (None, None) => return Err(Error::usage("a session or a shell must be named")),
    };
    match (id, creates) {
        (Some(id), _) => Ok(Some(sessions.get(&id).await?)),
        (None, true) => {
            let choice = SessionChoice::Shell;
            let session = sessions.choose(&choice, shell.as_ref(), record_ids).await?;
            Ok(Some(session))
        }
        (None, false) => Ok(None),
    }
}

async fn check(
    services: &SharedServices,
    (config, overrides): (&Config, &ConfigOverrides),
    name: SettingName,
    value: &str,
    cwd: &str,
) -> Result<()> {
    match name {
        SettingName::Model => {
            let overrides = overrides.clone().with_model(Some(value.to_owned()));
            services.models.config(&overrides).map(drop)
        }
        SettingName::Tools => ToolSelection::parse(value, &config.toolsets).map(drop),
        SettingName::Prompt if value == "none" => Ok(()),
        SettingName::Prompt => {
            let (paths, cwd, value) =
                (services.paths.clone(), PathBuf::from(cwd), value.to_owned());
            let find = tokio::task::spawn_blocking(move || packs::find(&paths, &cwd, &value));
            let found = find.await;
            found
                .map_err(|e| Error::runtime(format!("cannot look for prompt packs: {e}")))?
                .map(drop)
        }
    }
}

fn in_force(
    config: &Config,
    by_variable: Option<&str>,
    session: Option<&SharedSession>,
    name: SettingName,
) -> SessionSetting {
    let of_session = session.and_then(|session| match name {
        SettingName::Model => session.model(),
        SettingName::Prompt | SettingName::Tools => session.setting(name.as_str()),
    });
    let (key, of_config) = match name {
        SettingName::Model => {
            let current = config.current().ok().flatten();
            ("default_model", current.map(|model| model.name.clone()))
        }
        SettingName::Prompt => ("default_prompt", config.default_prompt.clone()),
        SettingName::Tools => ("default_tools", config.default_tools.clone()),
    };
    let (value, origin) = match (of_session, of_config) {
        (Some(value), _) => (Some(value), "session"),
        (None, Some(value)) if name == SettingName::Model && by_variable.is_some() => {
            (Some(value), by_variable.unwrap_or_default())
        }
        (None, Some(value)) if name == SettingName::Model && config.default_model.is_none() => {
            (Some(value), "default")
        }
        (None, Some(value)) => (Some(value), key),
        (None, None) => (None, "default"),
    };
    SessionSetting {
        name,
        value,
        origin: origin.to_owned(),
        notices: Vec::new(),
    }
}
