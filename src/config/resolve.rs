//! Computes the configuration in force: flags take precedence over the environment, the environment over the file, the
//! file over the defaults.

use super::file::ConfigFile;
use super::known_servers::model_on_server;
use super::model::{KeySource, ModelSettings, no_such_model};
use super::origin::{EffectiveSetting, SettingLog, SettingOrigin};
use super::overrides::{ConfigOverrides, SERVER_VARIABLE, bad_variable};
use super::setting::SectionType;
use super::settings::Config;
use crate::address;
use crate::error::{Error, Result};

/// The name of the model that `AISH_BASE_URL` defines.
const ENV_MODEL: &str = "env";

/// Returns the configuration in force.
///
/// # Errors
/// `-m` or `AISH_MODEL` names a model that does not exist.
pub fn resolve(file: &ConfigFile, overrides: &ConfigOverrides) -> Result<Config> {
    resolve_with(file, overrides, &mut SettingLog::default())
}

/// Returns the configuration in force, and each value with its origin.
///
/// # Errors
/// As for [`resolve`].
pub fn resolve_with_origins(
    file: &ConfigFile,
    overrides: &ConfigOverrides,
) -> Result<(Config, Vec<EffectiveSetting>)> {
    let mut log = file.values.clone();
    let config = resolve_with(file, overrides, &mut log)?;
    Ok((config, log.into_entries()))
}

fn resolve_with(
    file: &ConfigFile,
    overrides: &ConfigOverrides,
    log: &mut SettingLog,
) -> Result<Config> {
    let mut config = file.config.clone();
    config.apply_overrides("", &overrides.settings, log);
    if let (Some(base_url), Some(id)) = (&overrides.base_url, &overrides.model) {
        let model = env_model(log, base_url, id, overrides);
        config.models.insert(ENV_MODEL.into(), model);
    }
    let Some((name, origin)) = choose_model(&config, file, overrides) else {
        return Ok(config);
    };
    let mut name = name;
    if !config.models.contains_key(&name) {
        let is_server = name.contains("://") || origin == SettingOrigin::Env(SERVER_VARIABLE);
        let model = match is_server {
            true => Some(aish_server(&name, origin)?),
            false => model_on_server(&config, &name),
        };
        if let Some(model) = model {
            name.clone_from(&model.name);
            config.models.insert(name.clone(), model);
        }
    }
    if !config.models.contains_key(&name) {
        let is_unconfirmed = config.unconfirmed_models.contains(&name);
        match origin {
            // Requests that need a model fail, and everything else works.
            SettingOrigin::File(_) if is_unconfirmed => {}
            SettingOrigin::Env(variable) if !is_unconfirmed => {
                let names = config.models.keys().map(String::as_str);
                return Err(bad_variable(variable, no_such_model(&name, names)));
            }
            _ => return Err(config.missing_model(&name)),
        }
    }
    log.set("default_model", name.clone(), origin);
    config.default_model = Some(name);
    Ok(config)
}

/// Returns the model that is another aish server. Its token is read when a prompt needs it.
fn aish_server(url: &str, origin: SettingOrigin) -> Result<ModelSettings> {
    let origin = address::server_origin(url).map_err(|why| {
        // The URL is not repeated: it may contain a password.
        let message = format!("the URL of the other aish server {why}");
        match origin {
            SettingOrigin::Env(variable) => bad_variable(variable, message),
            _ => Error::config(message).hint("name it as in: llm -m https://HOST:4096"),
        }
    })?;
    Ok(ModelSettings {
        name: origin.clone(),
        base_url: origin.clone(),
        model: origin,
        is_aish_server: true,
        ..ModelSettings::default()
    })
}

fn choose_model(
    config: &Config,
    file: &ConfigFile,
    overrides: &ConfigOverrides,
) -> Option<(String, SettingOrigin)> {
    if let Some(name) = &overrides.flag_model {
        return Some((name.clone(), SettingOrigin::Flag("--model")));
    }
    if let Some(origin) = &overrides.server {
        return Some((origin.clone(), SettingOrigin::Env(SERVER_VARIABLE)));
    }
    if overrides.base_url.is_some() {
        return Some((ENV_MODEL.into(), SettingOrigin::Env("AISH_BASE_URL")));
    }
    if let Some(name) = &overrides.model {
        return Some((name.clone(), SettingOrigin::Env("AISH_MODEL")));
    }
    if let Some(name) = &config.default_model {
        let line = file.values.line("default_model").unwrap_or_default();
        return Some((name.clone(), SettingOrigin::File(line)));
    }
    // A model with `serve` is a last resort and never the default: a model that is found in the environment or on this
    // machine takes precedence.
    let mut candidates = config.models.values().filter(|m| m.serve.is_none());
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => Some((only.name.clone(), SettingOrigin::Default)),
        _ => None,
    }
}

fn env_model(
    log: &mut SettingLog,
    base_url: &str,
    id: &str,
    overrides: &ConfigOverrides,
) -> ModelSettings {
    // It replaces a model of that name in the file.
    log.remove_table("models.env.");
    log.set(
        "models.env.base_url",
        base_url,
        SettingOrigin::Env("AISH_BASE_URL"),
    );
    log.set("models.env.model", id, SettingOrigin::Env("AISH_MODEL"));
    if let Some(variable) = &overrides.key_env {
        log.set(
            "models.env.key_env",
            variable.clone(),
            SettingOrigin::Env("AISH_KEY_ENV"),
        );
    }
    ModelSettings {
        name: ENV_MODEL.into(),
        base_url: base_url.to_string(),
        model: id.to_string(),
        key: overrides
            .key_env
            .clone()
            .map_or(KeySource::None, KeySource::Env),
        ..ModelSettings::default()
    }
}
