//! The rules in force for a request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::protocol::{AskRequest, ShellId};

/// Where a request comes from: decides which rules are in force.
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

/// Adds the rules of the projects around a directory to those of the configuration. Returns what is wrong with
/// the projects' files, a line each.
///
/// # Errors
/// The rules cannot be read; then nothing may be decided.
pub async fn apply(config: &mut Arc<Config>, cwd: &str) -> Result<Vec<String>> {
    let (own, cwd) = (config.clone(), PathBuf::from(cwd));
    // On another thread: a disk that does not answer delays this request only.
    let found = tokio::task::spawn_blocking(move || config::rules_in_force(&own, &cwd)).await;
    let (rules, notices) =
        found.map_err(|e| Error::runtime(format!("cannot look for .aish.toml: {e}")))?;
    if rules != config.policy {
        Arc::make_mut(config).policy = rules;
    }
    Ok(notices)
}
