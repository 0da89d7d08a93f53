//! Compares a configuration with the one that a person has seen last: what asks less, runs something else or sends data
//! elsewhere counts only after a confirmation. Everything else counts at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mcp::ServerSettings;
use super::model::{KeySource, ModelSettings};
use super::settings::Config;
use crate::safety::policy::{PolicyRule, RuleEffect, RuleSubject};
use crate::secret::fingerprint;

/// A line of the difference: `+` or `-`, and a setting. Parts of it come from the file.
pub type ConfigChange = (char, String);

/// What a person has seen of a configuration, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenConfig {
    default: RuleEffect,
    rules: Vec<SeenRule>,
    confirm_cmd: bool,
    strict_server_validation: bool,
    context_commands: usize,
    context_env: Vec<String>,
    default_model: Option<String>,
    servers: BTreeMap<String, SeenServer>,
    models: BTreeMap<String, SeenTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenRule {
    source: String,
    subject: String,
    effect: RuleEffect,
}

/// A program or an address: what was shown of it, and the fingerprint of all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenTarget {
    shown: String,
    fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenServer {
    target: SeenTarget,
    trust_annotations: bool,
    disabled: bool,
    tools: Option<Vec<String>>,
}

impl SeenConfig {
    pub(super) fn of(config: &Config) -> SeenConfig {
        let rule = |rule: &PolicyRule| SeenRule {
            source: rule.source.clone(),
            subject: rule.subject.to_string(),
            effect: rule.effect,
        };
        let servers = config.mcp.servers.iter();
        let models = config.models.iter();
        SeenConfig {
            default: config.policy.default.effect,
            rules: config.policy.list.iter().map(rule).collect(),
            confirm_cmd: config.shell.confirm_cmd,
            strict_server_validation: config.intent_declaration.strict_server_validation,
            context_commands: config.context.commands,
            context_env: config.context.env.clone(),
            default_model: config.default_model.clone(),
            servers: servers
                .map(|(alias, server)| (alias.clone(), SeenServer::of(server)))
                .collect(),
            models: models
                .map(|(name, model)| (name.clone(), SeenTarget::of_model(model)))
                .collect(),
        }
    }
}

impl SeenServer {
    fn of(server: &ServerSettings) -> SeenServer {
        SeenServer {
            target: SeenTarget {
                shown: server.target(),
                fingerprint: server.identity(),
            },
            trust_annotations: server.trust_annotations,
            disabled: server.disabled,
            tools: server.tools.clone(),
        }
    }

    /// Whether this server can do less than another one.
    fn is_loosened_by(&self, new: &SeenServer) -> bool {
        let more_tools = match (&self.tools, &new.tools) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new.iter().any(|tool| !old.contains(tool)),
        };
        let trusted = new.trust_annotations && !self.trust_annotations;
        // A disabled server counts when it is enabled.
        let enabled = self.disabled && !new.disabled;
        let moved = self.target.fingerprint != new.target.fingerprint && !new.disabled;
        moved || enabled || trusted || more_tools
    }

    fn shown(&self) -> String {
        let trust = if self.trust_annotations {
            ", trust_annotations"
        } else {
            ""
        };
        let disabled = if self.disabled { ", disabled" } else { "" };
        format!("{}{trust}{disabled}", self.target.shown)
    }
}

impl SeenTarget {
    fn of_model(model: &ModelSettings) -> SeenTarget {
        let (key, source) = match &model.key {
            KeySource::None => ("no key".to_owned(), ""),
            KeySource::Env(variable) => (format!("key from {variable}"), variable.as_str()),
            KeySource::Cmd(command) => ("key from a command".to_owned(), command.as_str()),
        };
        let words = model.serve.as_ref().map_or(0, |serve| serve.command.len());
        let counts = format!("{words} {}", model.headers.len());
        let command = model.serve.iter().flat_map(|serve| &serve.command);
        let command: Vec<&str> = command.map(String::as_str).collect();
        let serve = command.first().map(|program| format!(", runs {program}"));
        let headers = model.headers.iter();
        let headers = headers.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let fixed = [
            model.base_url.as_str(),
            key.as_str(),
            source,
            counts.as_str(),
        ];
        let all: Vec<&str> = fixed.into_iter().chain(command).chain(headers).collect();
        let fingerprint = fingerprint(all);
        SeenTarget {
            shown: format!(
                "{}, {key}{}",
                super::mcp::shown_url(&model.base_url),
                serve.unwrap_or_default()
            ),
            fingerprint,
        }
    }
}

/// Takes the changes out of `now` that loosen `seen`, and returns them as lines. A server or a model with another target is
/// left out as a whole: the old target may hold secrets, so that it is not kept.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config) -> Vec<ConfigChange> {
    let mut lines = Vec::new();
    rules(seen, now, &mut lines);
    switches(seen, now, &mut lines);
    servers(seen, now, &mut lines);
    models(seen, now, &mut lines);
    lines
}

fn changed(lines: &mut Vec<ConfigChange>, key: &str, old: &str, new: &str) {
    lines.push(('-', format!("{key} = {old}")));
    lines.push(('+', format!("{key} = {new}")));
}

fn rules(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let line = |source: &str, effect: RuleEffect| format!("{source} = \"{}\"", effect.as_str());
    let new = &mut now.policy;
    // With a default of deny, a rule that asks loosens too.
    let loosens = |effect: RuleEffect| effect < seen.default.max(RuleEffect::Ask);
    new.list.retain(|rule| {
        let subject = rule.subject.to_string();
        let mut old = seen.rules.iter();
        let is_new = !old.any(|o| o.subject == subject && o.effect <= rule.effect);
        let taken = loosens(rule.effect) && is_new;
        if taken {
            lines.push(('+', line(&rule.source, rule.effect)));
        }
        !taken
    });
    for old in seen.rules.iter().filter(|o| o.effect != RuleEffect::Allow) {
        let mut rest = new.list.iter();
        if rest.any(|n| n.subject.to_string() == old.subject && n.effect >= old.effect) {
            continue;
        }
        let subject = match old.source.starts_with("mcp.") {
            true => RuleSubject::of_tools(&old.subject),
            false => RuleSubject::parse(&old.subject).ok(),
        };
        let Some(subject) = subject else { continue };
        lines.push(('-', line(&old.source, old.effect)));
        new.list.push(PolicyRule {
            subject,
            effect: old.effect,
            source: old.source.clone(),
        });
    }
    if new.default.effect < seen.default {
        let quoted = |effect: RuleEffect| format!("\"{}\"", effect.as_str());
        let (before, after) = (quoted(seen.default), quoted(new.default.effect));
        changed(lines, "policy.default", &before, &after);
        new.default.effect = seen.default;
    }
}

fn switches(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let new = &mut now.shell.confirm_cmd;
    if seen.confirm_cmd && !*new {
        changed(lines, "shell.confirm_cmd", "true", "false");
        *new = true;
    }
    let new = &mut now.intent_declaration.strict_server_validation;
    if seen.strict_server_validation && !*new {
        let key = "intent_declaration.strict_server_validation";
        changed(lines, key, "true", "false");
        *new = true;
    }
    let (old, new) = (seen.context_commands, &mut now.context.commands);
    if *new > old {
        changed(
            lines,
            "context.commands",
            &old.to_string(),
            &new.to_string(),
        );
        *new = old;
    }
    now.context.env.retain(|name| {
        let known = seen.context_env.contains(name);
        if !known {
            lines.push(('+', format!("context.env: {name}")));
        }
        known
    });
}

fn servers(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    const HIDDEN: &str = " (arguments, environment, headers, token or tools)";
    now.mcp.servers.retain(|alias, server| {
        let (old, new) = (seen.servers.get(alias), SeenServer::of(server));
        let loosens = match old {
            Some(old) => old.is_loosened_by(&new),
            None => !new.disabled,
        };
        if loosens {
            let old = old.map(SeenServer::shown);
            replaced(
                lines,
                &format!("mcp.servers.{alias}"),
                old,
                new.shown(),
                HIDDEN,
            );
        }
        !loosens
    });
}

fn models(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let mut left_out = None;
    now.models.retain(|name, model| {
        let (old, new) = (seen.models.get(name), SeenTarget::of_model(model));
        let loosens = old.is_none_or(|old| old.fingerprint != new.fingerprint);
        if loosens {
            if old.is_some() {
                left_out = Some(name.clone());
            }
            let old = old.map(|old| old.shown.clone());
            replaced(
                lines,
                &format!("models.{name}"),
                old,
                new.shown,
                " (command or headers)",
            );
        }
        !loosens
    });
    let is_default_left = |name: &String| now.models.contains_key(name);
    match &now.default_model {
        Some(name) if !is_default_left(name) && !seen.models.contains_key(name) => {
            now.default_model.clone_from(&seen.default_model);
        }
        // The prompt fails rather than going to a model that is detected.
        None if now.models.is_empty() => now.default_model = left_out,
        _ => {}
    }
}

/// Adds the lines of a changed target. `hidden` is what may have changed if both look the same.
fn replaced(
    lines: &mut Vec<ConfigChange>,
    key: &str,
    old: Option<String>,
    new: String,
    hidden: &str,
) {
    let hidden = if old.as_ref() == Some(&new) {
        hidden
    } else {
        ""
    };
    lines.extend(old.map(|old| ('-', format!("{key}: {old}"))));
    lines.push(('+', format!("{key}: {new}{hidden}")));
}

#[cfg(test)]
mod tests;
