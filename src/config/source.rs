//! Who wins: flags, then the environment, then the file, then the defaults;
//! and for each value, which of them it was.

mod mcp;
mod policy;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::file::{COMMANDS, File, WrittenModel, no_such_model};
use super::table::At;
use super::{Config, Context, History, Key, Model, Price, Provider, Serve, Shell, rules};
use crate::address;
use crate::error::{Error, Result};

/// The variables that set something here. The plugin has others of its own.
///
/// - `AISH_MODEL`: the model to use, by its name in the file.
/// - `AISH_BASE_URL`: makes a model out of the environment alone, which is used: `AISH_MODEL` is its
///   name on that server then, and `AISH_KEY_ENV` names the variable that holds its key.
/// - `AISH_SYSTEM_PROMPT`, `AISH_CONFIRM_CMD`, `AISH_CONTEXT_COMMANDS`: as `system_prompt`,
///   `shell.confirm_cmd` and `context.commands` in the file.
pub const VARIABLES: [&str; 6] = [
    "AISH_MODEL",
    "AISH_BASE_URL",
    "AISH_KEY_ENV",
    "AISH_SYSTEM_PROMPT",
    "AISH_CONFIRM_CMD",
    "AISH_CONTEXT_COMMANDS",
];

/// The name of the model that `AISH_BASE_URL` makes.
const ENV_MODEL: &str = "env";

/// Where a value came from, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file, on this line.
    File(usize),
    /// This variable.
    Env(&'static str),
    /// This flag.
    Flag(&'static str),
}

/// What the environment and the command line set. Made by the client's side of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    flag_model: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    key_env: Option<String>,
    system_prompt: Option<String>,
    confirm_cmd: Option<bool>,
    commands: Option<u32>,
}

/// This process's variables out of [`VARIABLES`]; one that is set to nothing counts as unset.
///
/// # Errors
/// One of them is not UTF-8.
pub fn env_overrides() -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for name in VARIABLES {
        match std::env::var_os(name).map(std::ffi::OsString::into_string) {
            None => {}
            Some(Ok(value)) if value.is_empty() => {}
            Some(Ok(value)) => {
                map.insert(name.to_string(), value);
            }
            Some(Err(_)) => return Err(bad_variable(name, "is not UTF-8")),
        }
    }
    Ok(map)
}

fn bad_variable(name: &str, message: impl std::fmt::Display) -> Error {
    Error::config(format!("the environment variable {name}: {message}"))
        .hint(format!("set it right, or run: unset {name}"))
}

impl Overrides {
    /// Reads a map such as [`env_overrides`] makes. Names that are not known are left alone.
    ///
    /// # Errors
    /// A value makes no sense; the message names the variable.
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Overrides> {
        let get = |name: &str| map.get(name).filter(|v| !v.is_empty()).cloned();
        let overrides = Overrides {
            flag_model: None,
            model: get("AISH_MODEL"),
            base_url: get("AISH_BASE_URL"),
            key_env: get("AISH_KEY_ENV"),
            system_prompt: get("AISH_SYSTEM_PROMPT"),
            confirm_cmd: get("AISH_CONFIRM_CMD")
                .map(|v| boolean(&v).map_err(|m| bad_variable("AISH_CONFIRM_CMD", m)))
                .transpose()?,
            commands: get("AISH_CONTEXT_COMMANDS")
                .map(|v| {
                    v.parse()
                        .ok()
                        .filter(|n| COMMANDS.contains(n))
                        .ok_or_else(|| {
                            let (low, high) = (COMMANDS.start(), COMMANDS.end());
                            let message = format!("must be a whole number from {low} to {high}");
                            bad_variable("AISH_CONTEXT_COMMANDS", message)
                        })
                })
                .transpose()?,
        };
        if let Some(name) = &overrides.key_env {
            rules::variable_name(name).map_err(|m| bad_variable("AISH_KEY_ENV", m))?;
        }
        let Some(base_url) = &overrides.base_url else {
            return match overrides.key_env {
                Some(_) => Err(bad_variable("AISH_KEY_ENV", "is set without AISH_BASE_URL")),
                None => Ok(overrides),
            };
        };
        let url = rules::base_url(base_url).map_err(|m| bad_variable("AISH_BASE_URL", m))?;
        if overrides.key_env.is_some() {
            address::clear_text(&url).map_err(|m| bad_variable("AISH_BASE_URL", m))?;
        }
        if overrides.model.is_none() {
            let message = "needs AISH_MODEL, the model's name on that server";
            return Err(bad_variable("AISH_BASE_URL", message));
        }
        Ok(overrides)
    }

    /// Adds what `-m NAME` asks for.
    #[must_use]
    pub fn with_model(mut self, name: Option<String>) -> Overrides {
        self.flag_model = name.or(self.flag_model);
        self
    }
}

fn boolean(text: &str) -> std::result::Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("must be true or false"),
    }
}

/// One value in force, fit to be shown: secrets are already taken out.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key with all its tables.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Who set it.
    pub origin: Origin,
}

/// Stands where a secret was.
pub const REDACTED: &str = "[REDACTED]";

/// Chooses each value and notes who gave it.
#[derive(Default)]
struct Picker(Vec<Setting>);

impl Picker {
    fn note(&mut self, key: impl Into<String>, value: impl Into<Value>, origin: Origin) {
        self.0.push(Setting {
            key: key.into(),
            value: value.into(),
            origin,
        });
    }

    /// The strongest of environment, file and default.
    fn pick<T: Clone + Into<Value>>(
        &mut self,
        key: &str,
        env: Option<(&'static str, T)>,
        file: &Option<At<T>>,
        default: T,
    ) -> T {
        let (origin, value) = match (env, file) {
            (Some((name, value)), _) => (Origin::Env(name), value),
            (None, Some(at)) => (Origin::File(at.line), at.value.clone()),
            (None, None) => (Origin::Default, default),
        };
        self.note(key, value.clone(), origin);
        value
    }

    /// A value that has no default: shown only where somebody set it.
    fn optional<T: Clone + Into<Value>>(
        &mut self,
        key: &str,
        env: Option<(&'static str, T)>,
        file: &Option<At<T>>,
    ) -> Option<T> {
        match (&env, file) {
            (None, None) => None,
            (Some((_, value)), _) | (None, Some(At { value, .. })) => {
                let value = value.clone();
                Some(self.pick(key, env, file, value))
            }
        }
    }
}

/// The configuration in force.
///
/// # Errors
/// `-m` or `AISH_MODEL` names a model that is not there.
pub fn resolve(file: &File, over: &Overrides) -> Result<Config> {
    resolve_noting(file, over).map(|(config, _)| config)
}

/// The same, with every value and who gave it.
///
/// # Errors
/// As for [`resolve`].
pub fn resolve_noting(file: &File, over: &Overrides) -> Result<(Config, Vec<Setting>)> {
    let mut p = Picker::default();
    let mut models = BTreeMap::new();
    for (name, written) in &file.models {
        models.insert(name.clone(), model(&mut p, name, written));
    }
    if let (Some(base_url), Some(id)) = (&over.base_url, &over.model) {
        models.insert(ENV_MODEL.into(), env_model(&mut p, base_url, id, over));
    }
    let default_model = default_model(&mut p, file, over, &models)?;
    let system_prompt = p.optional(
        "system_prompt",
        over.system_prompt
            .clone()
            .map(|v| ("AISH_SYSTEM_PROMPT", v)),
        &file.system_prompt,
    );

    let shell = Shell::default();
    let added = file.terminal_programs.as_ref();
    let terminal_programs: Vec<String> = shell
        .terminal_programs
        .into_iter()
        .chain(added.into_iter().flat_map(|at| at.value.iter().cloned()))
        .collect();
    let shell = Shell {
        confirm_cmd: p.pick(
            "shell.confirm_cmd",
            over.confirm_cmd.map(|v| ("AISH_CONFIRM_CMD", v)),
            &file.confirm_cmd,
            shell.confirm_cmd,
        ),
        output_bytes: usize_of(p.pick(
            "shell.output_bytes",
            None,
            &file.output_bytes,
            u32::try_from(shell.output_bytes).unwrap_or(u32::MAX),
        )),
        terminal_programs,
    };
    let origin = added.map_or(Origin::Default, |at| Origin::File(at.line));
    p.note(
        "shell.terminal_programs",
        json!(shell.terminal_programs),
        origin,
    );

    let context = Context::default();
    let context = Context {
        commands: usize_of(p.pick(
            "context.commands",
            over.commands.map(|v| ("AISH_CONTEXT_COMMANDS", v)),
            &file.commands,
            u32::try_from(context.commands).unwrap_or(u32::MAX),
        )),
        env: p.pick("context.env", None, &file.env, context.env),
    };
    let (history, mcp) = (history(&mut p, file), mcp::resolve(&mut p, &file.mcp));
    let config = Config {
        models,
        default_model,
        system_prompt,
        shell,
        context,
        history,
        mcp,
        tools: policy::tools(&mut p, file),
        intent_declaration: policy::intent_declaration(&mut p, file),
        policy: policy::resolve(&mut p, file),
        file: file.path.clone(),
    };
    Ok((config, p.0))
}

fn history(p: &mut Picker, file: &File) -> History {
    let default = History::default();
    History {
        sync: p.pick("history.sync", None, &file.sync, default.sync),
        max_days: p.pick("history.max_days", None, &file.max_days, default.max_days),
        max_records: p.pick(
            "history.max_records",
            None,
            &file.max_records,
            default.max_records,
        ),
        max_bytes: p.pick(
            "history.max_bytes",
            None,
            &file.max_bytes,
            default.max_bytes,
        ),
    }
}

fn usize_of(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The one thing there is. A model with a server of its own is a last resort and no default: what is
/// found in the environment or on this machine comes first.
fn only_one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

fn default_model(
    p: &mut Picker,
    file: &File,
    over: &Overrides,
    models: &BTreeMap<String, Model>,
) -> Result<Option<String>> {
    let (name, origin) = if let Some(name) = &over.flag_model {
        (name.clone(), Origin::Flag("--model"))
    } else if over.base_url.is_some() {
        (ENV_MODEL.to_string(), Origin::Env("AISH_BASE_URL"))
    } else if let Some(name) = &over.model {
        (name.clone(), Origin::Env("AISH_MODEL"))
    } else if let Some(at) = &file.default_model {
        (at.value.clone(), Origin::File(at.line))
    } else if let Some(only) = only_one(models.values().filter(|m| m.serve.is_none())) {
        (only.name.clone(), Origin::Default)
    } else {
        return Ok(None);
    };
    if !models.contains_key(&name) {
        let message = no_such_model(&name, models.keys().map(String::as_str));
        return Err(match origin {
            Origin::Env(variable) => bad_variable(variable, message),
            _ => Error::config(message).hint("see them with: aish-helper model list"),
        });
    }
    p.note("default_model", name.clone(), origin);
    Ok(Some(name))
}

fn model(p: &mut Picker, name: &str, w: &WrittenModel) -> Model {
    let prefix = format!("models.{}", super::table::shown_key(name));
    let key = |k: &str| format!("{prefix}.{k}");
    let provider = w
        .provider
        .clone()
        .map(|at| at.map(|v| v.word().to_string()));
    p.pick(
        &key("provider"),
        None,
        &provider,
        Provider::OpenAi.word().to_string(),
    );
    p.note(
        key("base_url"),
        w.base_url.value.clone(),
        Origin::File(w.base_url.line),
    );
    p.note(
        key("model"),
        w.model.value.clone(),
        Origin::File(w.model.line),
    );
    if let Some(at) = &w.key {
        match &at.value {
            Key::None => {}
            Key::Env(variable) => p.note(key("key_env"), variable.clone(), Origin::File(at.line)),
            Key::Cmd(command) => {
                p.note(key("key_cmd"), program_only(command), Origin::File(at.line))
            }
        }
    }
    for (header, value) in &w.headers {
        let shown = if rules::is_public_header(header) {
            &value.value
        } else {
            REDACTED
        };
        let header = super::table::shown_key(header);
        p.note(
            key(&format!("headers.{header}")),
            shown,
            Origin::File(value.line),
        );
    }
    let temperature = p.optional(&key("temperature"), None, &w.temperature);
    let max_tokens = p.optional(&key("max_tokens"), None, &w.max_tokens);
    let context_window = p.optional(&key("context_window"), None, &w.context_window);
    let price = w.price.as_ref().map(|(input, output)| Price {
        input: p.pick(&key("price.input"), None, &Some(input.clone()), 0.0),
        output: p.pick(&key("price.output"), None, &Some(output.clone()), 0.0),
    });
    let serve = w.serve.as_ref().map(|serve| {
        let shown = program_only(&serve.command.value.join(" "));
        p.note(
            key("serve.command"),
            shown,
            Origin::File(serve.command.line),
        );
        Serve {
            command: serve.command.value.clone(),
            idle: seconds(p.pick(&key("serve.idle"), None, &serve.idle, Serve::IDLE)),
        }
    });
    Model {
        name: name.to_string(),
        provider: w.provider.as_ref().map_or(Provider::OpenAi, |at| at.value),
        base_url: w.base_url.value.clone(),
        model: w.model.value.clone(),
        key: w.key.as_ref().map_or(Key::None, |at| at.value.clone()),
        headers: w
            .headers
            .iter()
            .map(|(n, v)| (n.clone(), v.value.clone()))
            .collect(),
        temperature,
        max_tokens,
        context_window,
        price,
        use_tool_role: p.pick(&key("use_tool_role"), None, &w.use_tool_role, true),
        images: p.pick(&key("images"), None, &w.images, false),
        serve,
        idle_timeout: seconds(p.pick(&key("timeout"), None, &w.timeout, Model::TIMEOUT)),
        line: w.line,
        key_line: w.key.as_ref().map_or(0, |at| at.line),
    }
}

fn env_model(p: &mut Picker, base_url: &str, id: &str, over: &Overrides) -> Model {
    // It replaces a model of that name in the file, so what was noted of that one goes.
    p.0.retain(|s| !s.key.starts_with("models.env."));
    p.note(
        "models.env.base_url",
        base_url,
        Origin::Env("AISH_BASE_URL"),
    );
    p.note("models.env.model", id, Origin::Env("AISH_MODEL"));
    if let Some(variable) = &over.key_env {
        p.note(
            "models.env.key_env",
            variable.clone(),
            Origin::Env("AISH_KEY_ENV"),
        );
    }
    Model {
        name: ENV_MODEL.into(),
        base_url: base_url.to_string(),
        model: id.to_string(),
        key: over.key_env.clone().map_or(Key::None, Key::Env),
        ..Model::default()
    }
}

fn seconds(n: u32) -> Duration {
    Duration::from_secs(n.into())
}

/// A command's first word: what follows may be the secret itself.
fn program_only(command: &str) -> String {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    // `KEY=value program`: even the first word may be one.
    let first = if first.contains('=') { "" } else { first };
    match (first, words.next()) {
        ("", _) => REDACTED.to_string(),
        (first, None) => first.to_string(),
        (first, Some(_)) => format!("{first} …"),
    }
}

/// Whether colours are wanted: `NO_COLOR` is unset (<https://no-color.org>) and the terminal is no dumb one.
pub fn wants_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_some_and(|t| !t.is_empty() && t != "dumb")
}
