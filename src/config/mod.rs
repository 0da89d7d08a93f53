//! The configuration: `config.toml` or `aish.json`, the environment and the command line.
//!
//! Every setting is declared once, in [`settings`], [`model`] or [`mcp`]. [`mod@file`] parses a file by these declarations,
//! [`resolve`](mod@resolve) applies the overrides, and [`reference`](mod@reference) renders the documentation. A key itself
//! is never in here: only the place to get it from.

mod check;
mod continue_setting;
mod disk;
mod edit;
pub mod file;
mod http_settings;
pub mod import;
pub mod key;
mod known_servers;
mod loosening;
mod masking;
pub mod mcp;
pub mod model;
pub mod origin;
mod overrides;
pub mod packs;
mod policy_rules;
pub mod preferences;
mod project_rules;
pub mod reference;
pub mod resolve;
mod sandbox_setting;
mod section;
mod seen;
pub mod server_tokens;
pub mod setting;
mod setting_types;
pub mod settings;
mod share_settings;
mod syntax_tree;
mod table_reader;
mod toml_text;
mod toolsets;
mod value_checks;

use std::path::PathBuf;

pub use check::{file_problems, is_program, mistakes};
pub use continue_setting::ContinueSetting;
pub use disk::ConfigStamp;
pub use edit::{
    ALLOWED_COMMENT, add_model, add_servers, allow_always, model_table, remove_rule, set_default,
};
pub use file::{ConfigFile, ConfigProblem};
pub use http_settings::HttpSettings;
pub use known_servers::{KNOWN_SERVERS, KnownServer, model_on_server};
pub use model::{KeySource, LocalServer, ModelSettings, ProviderKind};
pub use overrides::{
    ConfigOverrides, PLACE_VARIABLES, SERVER_VARIABLE, env_overrides, override_variables,
};
pub use project_rules::{ProjectRules, check_may_write, rules_in_force};
pub use sandbox_setting::SandboxSetting;
pub use seen::{ConfigChanges, confirm, load_confirmed, pending_changes, read_confirmed};
pub use settings::{
    Config, ContextSettings, CostSetting, ExposureSetting, HistorySettings, IntentSettings,
    McpSettings, PolicySettings, RecordSettings, RecordedPanes, ShellSettings, TmuxSettings,
    ToolSettings,
};
pub use share_settings::{ShareMode, ShareSettings, ShareTarget};
pub use toml_text::toml_string;
pub use toolsets::{ToolSelection, Toolsets};
pub use value_checks::{check_model_name, nearest_name};

use crate::address;
use crate::error::{Error, Result};
use crate::paths::Paths;

/// Reads the configuration file, if there is one.
///
/// # Errors
/// The first fault of the file, and the number of other faults.
pub fn read_file(paths: &Paths) -> Result<ConfigFile> {
    disk::read(paths).map_err(|problems| {
        let more = problems.len().saturating_sub(1);
        let first = problems
            .first()
            .map(ConfigProblem::to_string)
            .unwrap_or_default();
        Error::config(first).hint(match more {
            0 => "correct the file, then check it with: aish-helper config check".to_string(),
            n => format!("and {n} more; see all with: aish-helper config check"),
        })
    })
}

/// Returns the configuration in force: [`read_file`] and [`resolve::resolve`].
///
/// # Errors
/// The file is wrong, or an override names a model that does not exist.
pub fn load(paths: &Paths, overrides: &ConfigOverrides) -> Result<Config> {
    resolve::resolve(&read_file(paths)?, overrides)
}

/// Returns the path of the file and whether it exists; without one, the path where it would be.
///
/// # Errors
/// Both `config.toml` and `aish.json` exist.
pub fn config_path(paths: &Paths) -> Result<(PathBuf, bool)> {
    match disk::find(paths) {
        Ok(Some((path, _))) => Ok((path, true)),
        Ok(None) => Ok((paths.config.join("config.toml"), false)),
        Err(problem) => Err(Error::config(problem.to_string())),
    }
}

/// Checks the address of a model's server that the user entered, by the rules of the file. `with_key` is whether a key
/// would be sent there.
///
/// # Errors
/// A message for the user.
pub fn check_base_url(text: &str, with_key: bool) -> std::result::Result<(), String> {
    let url = value_checks::base_url(text)?;
    if with_key {
        address::check_key_transport(&url)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
