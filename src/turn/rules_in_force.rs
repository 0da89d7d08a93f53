//! Determines the policy rules in force for a request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::protocol::{AskRequest, ShellId};

/// The origin of a request, which determines the rules in force.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The working directory.
    pub cwd: String,
    /// The shell.
    pub shell: Option<ShellId>,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
}

impl From<&AskRequest> for RequestContext {
    fn from(ask: &AskRequest) -> RequestContext {
        RequestContext {
            cwd: ask.cwd.clone(),
            shell: ask.shell.clone(),
            overrides: ask.overrides.clone(),
        }
    }
}

/// Adds the rules of the `.aish.toml` files at and above `cwd` to those of the configuration. Returns a notice for each
/// fault in these files.
///
/// # Errors
/// The rules cannot be read; the request must then fail.
pub async fn apply(config: &mut Arc<Config>, cwd: &str) -> Result<Vec<String>> {
    let (user_config, cwd) = (config.clone(), PathBuf::from(cwd));
    // On another thread: a hanging disk delays only this request.
    let found =
        tokio::task::spawn_blocking(move || config::rules_in_force(&user_config, &cwd)).await;
    let (rules, notices) =
        found.map_err(|e| Error::runtime(format!("cannot look for .aish.toml: {e}")))?;
    if rules != config.policy {
        Arc::make_mut(config).policy = rules;
    }
    Ok(notices)
}
