//! `aish-helper session config`: shows and changes the settings of a session.

use std::collections::{BTreeMap, VecDeque};

use super::args::SessionConfigCommand;
use super::call::current_directory;
use super::table::table;
use super::{columns, env_overrides, print, print_json};
use crate::client::connect;
use crate::client::output::print_notice;
use crate::client::text_format::cut;
use crate::config::nearest_name;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::{Request, SessionSetting, SettingName, SettingsRequest, ShellId};
use crate::safety::text::one_line;

/// Maximum number of characters shown of a value.
const MAX_VALUE: usize = 200;

/// Runs a `session config` subcommand.
///
/// # Errors
/// There is no such session or setting, or a value is invalid.
pub fn run(paths: &Paths, command: SessionConfigCommand) -> Result<()> {
    let (words, shell, json) = match &command {
        SessionConfigCommand::Get { words, shell, json }
        | SessionConfigCommand::Set { words, shell, json }
        | SessionConfigCommand::Unset { words, shell, json } => (words, shell, *json),
    };
    let mut words: VecDeque<&str> = words.iter().map(String::as_str).collect();
    let session = match shell {
        Some(_) => None,
        None => Some(words.pop_front().ok_or_else(no_session)?),
    };
    let mut shown = SettingName::ALL.to_vec();
    let mut changes = BTreeMap::new();
    match &command {
        SessionConfigCommand::Get { .. } => {
            if !words.is_empty() {
                shown = words.into_iter().map(name).collect::<Result<_>>()?;
            }
        }
        SessionConfigCommand::Set { .. } => {
            for word in words {
                let (key, value) = word.split_once('=').ok_or_else(|| {
                    Error::usage(format!("no value: {word:?}"))
                        .hint("write SETTING=VALUE, as prompt=@coding")
                })?;
                let value = Some(value.to_owned()).filter(|value| !value.is_empty());
                changes.insert(name(key)?, value);
            }
        }
        SessionConfigCommand::Unset { .. } => {
            for word in words {
                changes.insert(name(word)?, None);
            }
        }
    }
    if changes.is_empty() && !matches!(command, SessionConfigCommand::Get { .. }) {
        return Err(Error::usage("no setting was given").hint("settings: model, prompt, tools"));
    }
    let mut settings = request(paths, session, shell.as_ref(), changes)?;
    for notice in settings.iter().flat_map(|setting| &setting.notices) {
        print_notice(notice);
    }
    settings.retain(|setting| shown.contains(&setting.name));
    if json {
        return print_json(&settings);
    }
    print(
        &table(
            settings.iter().map(row).collect::<Vec<_>>().iter(),
            columns(),
            cut,
        )
        .concat(),
    )
}

fn request(
    paths: &Paths,
    session: Option<&str>,
    shell: Option<&ShellId>,
    changes: BTreeMap<SettingName, Option<String>>,
) -> Result<Vec<SessionSetting>> {
    let request = Request::SessionSettings(SettingsRequest {
        session: session.map(str::to_owned),
        shell: shell.cloned(),
        changes,
        cwd: current_directory(),
        overrides: env_overrides()?,
    });
    connect::request(paths, &request)
}

fn no_session() -> Error {
    Error::usage("no session was given").hint("llm :sessions lists them")
}

fn name(word: &str) -> Result<SettingName> {
    let known = SettingName::ALL
        .into_iter()
        .find(|name| name.as_str() == word);
    known.ok_or_else(|| {
        let names = SettingName::ALL.map(SettingName::as_str);
        let message = match nearest_name(word, names) {
            Some(near) => format!("no setting named {word:?}; did you mean {near}?"),
            None => format!("no setting named {word:?}"),
        };
        Error::usage(message).hint(format!("settings: {}", names.join(", ")))
    })
}

fn row(setting: &SessionSetting) -> [String; 3] {
    let value = match (&setting.value, setting.name) {
        (Some(value), _) => one_line(value, MAX_VALUE),
        (None, SettingName::Tools) => "all".into(),
        (None, SettingName::Model) => "the first that is found".into(),
        (None, _) => "none".into(),
    };
    let origin = match setting.origin.as_str() {
        "session" => "this session".to_owned(),
        variable if variable.starts_with("AISH_") => variable.to_owned(),
        "default" if setting.value.is_none() => "built in".to_owned(),
        "default" if setting.name == SettingName::Model => "the only model".to_owned(),
        "default" => "built in".to_owned(),
        key => format!("{} in the configuration", one_line(key, MAX_VALUE)),
    };
    [setting.name.as_str().to_owned(), value, origin]
}
