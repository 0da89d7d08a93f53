//! The rules in force, and what a person wants to know of them and take back.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, Config};
use crate::error::{Error, Result};

/// Adds the rules of the projects around a directory to those of the configuration; what is wrong with them, a line
/// each for the person.
///
/// # Errors
/// They cannot be known: then nothing may be decided.
pub async fn in_force(config: &mut Arc<Config>, cwd: &str) -> Result<Vec<String>> {
    let (own, cwd) = (config.policy.clone(), PathBuf::from(cwd));
    // Elsewhere: a disk that does not answer holds up this prompt, and nobody's answer.
    let found = tokio::task::spawn_blocking(move || config::rules_in_force(&own, &cwd)).await;
    let (rules, notices) =
        found.map_err(|e| Error::runtime(format!("cannot look for .aish.toml: {e}")))?;
    if rules != config.policy {
        Arc::make_mut(config).policy = rules;
    }
    Ok(notices)
}
