//! Compares a configuration with the one that a person saw last. Changes with which aish asks less, runs something else, sends data
//! elsewhere or more of it, or keeps less of the history, count only after a confirmation. Everything else takes effect immediately.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mcp::{ServerSettings, ServerTransport, TokenSource, shown_words};
use super::model::{KeySource, LocalServer, ModelSettings};
use super::settings::{
    Config, ContextSettings, HistorySettings, IntentSettings, McpSettings, PolicySettings,
    RecordSettings, RecordedPanes, ShellSettings, ToolSettings,
};
use crate::safety::policy::{PolicyRule, RuleEffect, RuleSet};
use crate::secret::fingerprint;

mod budget;
mod instructions;
mod jobs;
mod limits;
mod prices;
mod rules;
mod sent_parts;
mod server;
mod share;
mod shown_values;
mod switches;

use limits::{
    BYTES, COMMANDS, DAYS, OUTPUT_BYTES, PANES, RECORDS, RESULT_BYTES, SANDBOX, SENT_OUTPUT,
    TOOL_DEPTH,
};
use prices::SeenPrice;
use server::SeenHttp;
use share::SeenShare;
pub(super) use shown_values::changed_values;

/// A line of the difference: `+` or `-`, and a setting. Parts of it come from the file.
pub type ConfigChange = (char, String);

/// The configuration that a person saw last, without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SeenConfig {
    default: RuleEffect,
    rules: Vec<SeenRule>,
    confirm_cmd: bool,
    strict_server_validation: bool,
    sync: bool,
    /// Limits of data that is sent and of actions, which a larger value loosens.
    most: BTreeMap<String, u64>,
    /// Limits of kept data, which a smaller value loosens.
    least: BTreeMap<String, u64>,
    /// Limits of spending by their keys; without an entry there is none.
    #[serde(default)]
    budget: BTreeMap<String, f64>,
    #[serde(default)]
    job_command: Option<String>,
    #[serde(default)]
    search_url: Option<String>,
    #[serde(default)]
    server: SeenHttp,
    #[serde(default)]
    share: SeenShare,
    context_env: Vec<String>,
    #[serde(default)]
    context_off: Vec<String>,
    system_prompt: Option<String>,
    #[serde(default)]
    system_append: Option<String>,
    #[serde(default)]
    default_prompt: Option<String>,
    default_model: Option<String>,
    servers: BTreeMap<String, SeenServer>,
    models: BTreeMap<String, SeenModel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenRule {
    source: String,
    subject: String,
    effect: RuleEffect,
}

/// A program or an address: the text that was shown of it, and the fingerprint of all of it.
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SeenModel {
    target: SeenTarget,
    /// The fingerprint of the address alone.
    address: String,
    images: bool,
    #[serde(default)]
    price: Option<SeenPrice>,
}

impl SeenConfig {
    /// Destructures every section, so that a new setting must be decided on here.
    pub(super) fn of(config: &Config) -> SeenConfig {
        let Config {
            default_model,
            system_prompt,
            system_append,
            default_prompt,
            models,
            shell,
            context,
            history,
            record:
                RecordSettings {
                    panes,
                    // Recordings are for the person, not a record of what aish did.
                    max_days: _,
                    max_bytes: _,
                },
            mcp,
            tools,
            // What is offered, not what is allowed.
            default_tools: _,
            toolsets: _,
            intent_declaration,
            jobs,
            budget,
            server,
            // What is shown.
            ui: _,
            share,
            // Which session the launcher attaches.
            tmux: _,
            approvals,
            policy,
            file: _,
            unconfirmed_models: _,
        } = config;
        let ShellSettings {
            confirm_cmd,
            // Its output is sent with the next prompt otherwise.
            continuation: _,
            output_bytes,
            // Only whether the output is captured.
            terminal_programs: _,
        } = shell;
        let ContextSettings {
            commands,
            env,
            output_bytes: sent_output,
            ..
        } = context;
        let HistorySettings {
            sync,
            max_days,
            max_records,
            max_bytes,
        } = history;
        let McpSettings {
            max_tool_depth,
            max_result_bytes,
            servers,
            // Part of `policy`.
            auto_approve: _,
        } = mcp;
        // How tools are offered, not which ones.
        let ToolSettings {
            exposure: _,
            split_threshold: _,
            // Each call is asked about as the rules say.
            builtin: _,
            sandbox,
            search_url,
        } = tools;
        let IntentSettings {
            strict_server_validation,
        } = intent_declaration;
        // Part of `policy`, except for the time after which a call is denied.
        let PolicySettings {
            default: _,
            wait: _,
            rules: _,
        } = approvals;
        let RuleSet {
            default,
            list,
            // A project only tightens.
            project: _,
        } = policy;
        let rule = |rule: &PolicyRule| SeenRule {
            source: rule.source.clone(),
            subject: rule.subject.to_string(),
            effect: rule.effect,
        };
        let count = |n: &usize| u64::try_from(*n).unwrap_or(u64::MAX);
        let limits = |limits: &[(&str, u64)]| {
            let limits = limits.iter();
            limits.map(|(key, n)| ((*key).to_owned(), *n)).collect()
        };
        SeenConfig {
            default: default.effect,
            rules: list.iter().map(rule).collect(),
            confirm_cmd: *confirm_cmd,
            strict_server_validation: *strict_server_validation,
            sync: *sync,
            most: limits(&[
                (COMMANDS, count(commands)),
                (SENT_OUTPUT, count(sent_output)),
                (OUTPUT_BYTES, count(output_bytes)),
                (TOOL_DEPTH, u64::from(*max_tool_depth)),
                (RESULT_BYTES, count(max_result_bytes)),
                (PANES, u64::from(*panes != RecordedPanes::Off)),
                (SANDBOX, limits::reach(*sandbox)),
            ]),
            least: limits(&[
                (DAYS, u64::from(*max_days)),
                (RECORDS, *max_records),
                (BYTES, *max_bytes),
            ]),
            budget: budget::limits(budget),
            job_command: jobs.command.clone(),
            search_url: search_url.clone(),
            server: SeenHttp::of(server),
            share: SeenShare::of(share),
            context_env: env.clone(),
            context_off: sent_parts::off(context),
            system_prompt: system_prompt.clone(),
            system_append: system_append.clone(),
            default_prompt: default_prompt.clone(),
            default_model: default_model.clone(),
            servers: servers
                .iter()
                .map(|(alias, server)| (alias.clone(), SeenServer::of(server)))
                .collect(),
            models: models
                .iter()
                .map(|(name, model)| (name.clone(), SeenModel::of(model)))
                .collect(),
        }
    }

    /// The model of a request that names none.
    fn current(&self) -> Option<&String> {
        match &self.default_model {
            Some(name) => Some(name),
            None if self.models.len() == 1 => self.models.keys().next(),
            None => None,
        }
    }
}

impl SeenServer {
    fn of(server: &ServerSettings) -> SeenServer {
        let ServerSettings {
            trust_annotations,
            tools,
            disabled,
            // Of the target.
            transport: _,
            alias: _,
            // How long and in which form, not what.
            timeout: _,
            lifecycle: _,
        } = server;
        SeenServer {
            target: SeenTarget {
                shown: server.target(),
                fingerprint: server.identity(),
            },
            trust_annotations: *trust_annotations,
            disabled: *disabled,
            tools: tools.clone(),
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

impl SeenModel {
    fn of(model: &ModelSettings) -> SeenModel {
        let ModelSettings {
            provider,
            base_url,
            model: name,
            headers,
            images,
            serve,
            key,
            fallback,
            price,
            // How the answer is generated and shown.
            temperature: _,
            max_tokens: _,
            context_window: _,
            use_tool_role: _,
            idle_timeout: _,
            // Of the file.
            name: _,
            line: _,
            key_line: _,
            // Not in a file.
            is_aish_server: _,
        } = model;
        let key = match key {
            KeySource::None => ["none", ""],
            KeySource::Env(variable) => ["env", variable],
            KeySource::Cmd(command) => ["cmd", command],
        };
        let command = serve
            .iter()
            .flat_map(|LocalServer { command, idle: _ }| command);
        let command: Vec<&str> = command.map(String::as_str).collect();
        let (provider, counts) = (format!("{provider:?}"), command.len().to_string());
        let headers = headers.iter();
        let headers = headers.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let fixed = [provider.as_str(), base_url, name, &counts];
        let all = fixed.into_iter().chain(key).chain(command.iter().copied());
        let others = fallback.iter().map(String::as_str);
        let all: Vec<&str> = all.chain(headers).chain(others).collect();
        let target = fingerprint(all);
        SeenModel {
            target: SeenTarget {
                shown: shown_model(model, false),
                fingerprint: target,
            },
            address: fingerprint([base_url.as_str()]),
            images: *images,
            price: price.as_ref().map(SeenPrice::of),
        }
    }
}

/// Shows where a model is and what runs for it; the arguments of programs only if it is `whole`, since they may be secret.
fn shown_model(model: &ModelSettings, whole: bool) -> String {
    let url = super::mcp::shown_url(&model.base_url);
    let mut text = format!("{url}, model {}", model.model);
    text.push_str(&match &model.key {
        KeySource::None => ", no key".to_owned(),
        KeySource::Env(variable) => format!(", key from {variable}"),
        KeySource::Cmd(command) if whole => format!(", key from the command: {command}"),
        KeySource::Cmd(_) => ", key from a command".to_owned(),
    });
    if let Some(serve) = &model.serve {
        let words = match whole {
            true => serve.command.clone(),
            false => shown_words(&serve.command),
        };
        text.push_str(&format!(", runs {}", words.join(" ")));
    }
    if !model.fallback.is_empty() {
        text.push_str(&format!(", fallback {}", model.fallback.join(", ")));
    }
    text
}

/// Takes the changes out of `now` that loosen `seen`, and returns them as lines. A server or a model with another target is
/// left out as a whole: the old target may hold secrets, so that it is not kept.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config) -> Vec<ConfigChange> {
    let mut lines = Vec::new();
    rules::take_back(seen, &mut now.policy, &mut lines);
    switches::take_back(seen, now, &mut lines);
    limits::take_back(seen, now, &mut lines);
    budget::tighten(seen, now, &mut lines);
    servers(seen, now, &mut lines);
    models(seen, now, &mut lines);
    jobs::take_back(seen, now, &mut lines);
    jobs::take_back_search(seen, now, &mut lines);
    server::take_back(seen, now, &mut lines);
    share::take_back(seen, now, &mut lines);
    prices::take_back(seen, now, &mut lines);
    lines
}

fn changed(lines: &mut Vec<ConfigChange>, key: &str, old: &str, new: &str) {
    lines.push(('-', format!("{key} = {old}")));
    lines.push(('+', format!("{key} = {new}")));
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
            let token = match &server.transport {
                ServerTransport::Http {
                    auth: TokenSource::Cmd(command),
                    ..
                } => {
                    format!(", token from the command: {command}")
                }
                _ => String::new(),
            };
            let (key, new) = (format!("mcp.servers.{alias}"), new.shown() + &token);
            replaced(lines, &key, old, new, HIDDEN);
        }
        !loosens
    });
}

fn models(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let mut left_out = None;
    let new_default = now.default_model.clone();
    let unconfirmed = &mut now.unconfirmed_models;
    now.models.retain(|name, model| {
        let (old, new) = (seen.models.get(name), SeenModel::of(model));
        let fingerprint = &new.target.fingerprint;
        let loosens = old.is_none_or(|old| old.target.fingerprint != *fingerprint);
        if loosens {
            left_out = old.map(|_| name.clone()).or(left_out.take());
            unconfirmed.insert(name.clone());
            let old = old.map(|old| old.target.shown.clone());
            let (key, new) = (format!("models.{name}"), shown_model(model, true));
            replaced(lines, &key, old, new, " (command or headers)");
        } else if new.images && !old.is_some_and(|old| old.images) {
            changed(lines, &format!("models.{name}.images"), "false", "true");
            model.images = false;
        }
        !loosens
    });
    let is_left = |name: &String| now.models.contains_key(name);
    match &now.default_model {
        Some(name) if !is_left(name) && !seen.models.contains_key(name) => {
            now.default_model.clone_from(&seen.default_model);
        }
        // The prompt fails rather than going to a model that is detected.
        None if now.models.is_empty() => now.default_model = left_out,
        _ => {}
    }
    let address = |name: &String| seen.models.get(name).map(|model| &model.address);
    let new = SeenConfig::of(now);
    // Between models that were seen: prompts go elsewhere.
    if let (Some(old), Some(new)) = (seen.current(), new.current())
        && address(old) != address(new)
    {
        let (was, is) = (format!("{old:?}"), format!("{new:?}"));
        changed(lines, "default_model", &was, &is);
        now.default_model = Some(old.clone());
    }
    // The file may no longer have the model that stays the default: only what needs a model fails.
    if now.default_model != new_default {
        now.unconfirmed_models.extend(now.default_model.clone());
    }
}

/// Adds the lines of a changed target. `hidden` names the part that may have changed if both look the same.
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
