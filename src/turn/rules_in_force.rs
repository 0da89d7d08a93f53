//! Determines the policy rules in force for a request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::surroundings::Surroundings;
use super::terminal_output::WantedOutput;
use crate::chat::OperationClass;
use crate::config::packs::PromptPack;
use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::protocol::{AskRequest, ShellId};
use crate::safety::policy::{BuiltinAction, DESTRUCTIVE, RuleEffect};
use crate::tools::builtin::OfferedWork;

/// The origin of a request, which determines the rules in force.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The working directory.
    pub cwd: String,
    /// The shell.
    pub shell: Option<ShellId>,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
    /// The prompt pack, if one is used.
    pub pack: Option<Arc<PromptPack>>,
    /// Facts for the model about the place and the time.
    pub surroundings: Surroundings,
    /// The shell whose output the model may ask for; `None` if its terminal cannot be read.
    pub terminal: Option<WantedOutput>,
    /// The built-in tools that work on files, commands and pages; `None` if none is offered.
    pub work: Option<Arc<OfferedWork>>,
}

impl From<&AskRequest> for RequestContext {
    fn from(ask: &AskRequest) -> RequestContext {
        RequestContext {
            cwd: ask.cwd.clone(),
            shell: ask.shell.clone(),
            overrides: ask.overrides.clone(),
            pack: None,
            surroundings: Surroundings::default(),
            terminal: None,
            work: None,
        }
    }
}

/// The source of the decision on a command that no rule covers.
pub const DEFAULT_SOURCE: &str = "shell.confirm_cmd";

/// Returns what the rules say about a command that a model proposed, and which rule. With `asked_by`, the name of a rule of aish
/// itself, the command is always asked about.
pub fn command_effect(config: &Config, asked_by: Option<&str>) -> (RuleEffect, String) {
    let (effect, source) = match config.policy.rule_for_action(BuiltinAction::Shell) {
        Some(rule) => (rule.effect, rule.source.clone()),
        None => {
            let effect = match config.shell.confirm_cmd {
                true => RuleEffect::Ask,
                false => RuleEffect::Allow,
            };
            (effect, DEFAULT_SOURCE.to_owned())
        }
    };
    match (effect, asked_by) {
        (RuleEffect::Allow, Some(rule)) => (RuleEffect::Ask, rule.to_owned()),
        _ => (effect, source),
    }
}

/// Returns the decision of the rules about a command line of this class: at least the one about commands in general. A command that
/// may destroy something is asked about unless a rule about its class allows it.
pub fn classified_effect(config: &Config, operation: OperationClass) -> (RuleEffect, String) {
    let (policy, default) = (&config.policy, &config.policy.default);
    let general = command_effect(config, None);
    let covers =
        policy.rule_for_action(BuiltinAction::Shell).is_some() || policy.allows_class(operation);
    let (effect, source) = match policy.rule_for_class(operation) {
        Some(rule) if rule.effect > general.0 => (rule.effect, rule.source.clone()),
        // Whether commands are asked about says `shell.confirm_cmd`, not a default of ask.
        None if !covers && default.effect == RuleEffect::Deny => {
            (default.effect, default.source.clone())
        }
        _ => general,
    };
    let is_allowed = effect == RuleEffect::Allow;
    if is_allowed && operation == OperationClass::Destructive && !policy.allows_class(operation) {
        return (RuleEffect::Ask, DESTRUCTIVE.to_owned());
    }
    (effect, source)
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
