//! Settings from the environment and the command line.

use std::collections::BTreeMap;

use super::setting::SectionType;
use super::settings::Config;
use super::value_checks::{base_url, check_variable_name};
use crate::address;
use crate::error::{Error, Result};

/// The variables that choose a model. The other ones belong to settings.
///
/// - `AISH_SERVER`: the other aish server that answers; `aish attach` sets it.
/// - `AISH_MODEL`: the model to use, by its name in the file.
/// - `AISH_BASE_URL`: defines a model by the environment alone, and uses it: `AISH_MODEL` is then its name on that
///   server, and `AISH_KEY_ENV` names the variable that holds its key.
const MODEL_VARIABLES: [&str; 4] = [
    SERVER_VARIABLE,
    "AISH_MODEL",
    "AISH_BASE_URL",
    "AISH_KEY_ENV",
];

/// Names the other aish server that answers the prompts of a shell.
pub const SERVER_VARIABLE: &str = "AISH_SERVER";

/// Variables of the shell that say where its files and those of aish are. They override nothing: the check of arguments for
/// protected files uses them.
pub const PLACE_VARIABLES: [&str; 4] = [
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "ZDOTDIR",
];

/// The variables that override the configuration. The plugin reads others itself.
pub fn override_variables() -> impl Iterator<Item = &'static str> {
    let settings = Config::SECTION.overridable();
    let settings = settings.into_iter().filter_map(|spec| spec.variable);
    MODEL_VARIABLES.into_iter().chain(settings)
}

/// Values from the environment and the command line, checked. They are collected by the client of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigOverrides {
    /// The model of `--model`.
    pub(super) flag_model: Option<String>,
    /// `AISH_SERVER`.
    pub(super) server: Option<String>,
    /// `AISH_MODEL`.
    pub(super) model: Option<String>,
    /// `AISH_BASE_URL`.
    pub(super) base_url: Option<String>,
    /// `AISH_KEY_ENV`.
    pub(super) key_env: Option<String>,
    /// The variables of settings that are set.
    pub(super) settings: BTreeMap<String, String>,
}

/// Returns the variables of this process that override the configuration, and [`PLACE_VARIABLES`]. An empty variable counts
/// as unset.
///
/// # Errors
/// One of them is not UTF-8.
pub fn env_overrides() -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for name in override_variables() {
        match std::env::var_os(name).map(std::ffi::OsString::into_string) {
            None => {}
            Some(Ok(value)) if value.is_empty() => {}
            Some(Ok(value)) => {
                map.insert(name.to_string(), value);
            }
            Some(Err(_)) => return Err(bad_variable(name, "is not UTF-8")),
        }
    }
    for name in PLACE_VARIABLES {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        map.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(map)
}

/// The error for a variable with a wrong value.
pub(super) fn bad_variable(name: &str, message: impl std::fmt::Display) -> Error {
    Error::config(format!("the environment variable {name}: {message}"))
        .hint(format!("correct the variable, or run: unset {name}"))
}

impl ConfigOverrides {
    /// Checks a map such as that of [`env_overrides`]. Unknown names are ignored.
    ///
    /// # Errors
    /// A value is wrong; the message names the variable.
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<ConfigOverrides> {
        if map.is_empty() {
            return Ok(ConfigOverrides::default());
        }
        let get = |name: &str| map.get(name).filter(|v| !v.is_empty()).cloned();
        let mut settings = BTreeMap::new();
        for spec in Config::SECTION.overridable() {
            if let Some(name) = spec.variable
                && let Some(text) = get(name)
            {
                (spec.check_override)(spec, &text).map_err(|m| bad_variable(name, m))?;
                settings.insert(name.to_owned(), text);
            }
        }
        let overrides = ConfigOverrides {
            flag_model: None,
            server: get(SERVER_VARIABLE),
            model: get("AISH_MODEL"),
            base_url: get("AISH_BASE_URL"),
            key_env: get("AISH_KEY_ENV"),
            settings,
        };
        if let Some(name) = &overrides.key_env {
            check_variable_name(name).map_err(|m| bad_variable("AISH_KEY_ENV", m))?;
        }
        let Some(address) = &overrides.base_url else {
            return match overrides.key_env {
                Some(_) => Err(bad_variable("AISH_KEY_ENV", "is set without AISH_BASE_URL")),
                None => Ok(overrides),
            };
        };
        let url = base_url(address).map_err(|m| bad_variable("AISH_BASE_URL", m))?;
        if overrides.key_env.is_some() {
            address::check_key_transport(&url).map_err(|m| bad_variable("AISH_BASE_URL", m))?;
        }
        if overrides.model.is_none() {
            let message = "needs AISH_MODEL, the model's name on that server";
            return Err(bad_variable("AISH_BASE_URL", message));
        }
        Ok(overrides)
    }

    /// Adds the model of `-m NAME`.
    #[must_use]
    pub fn with_model(mut self, name: Option<String>) -> ConfigOverrides {
        self.flag_model = name.or(self.flag_model);
        self
    }
}
