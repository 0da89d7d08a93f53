//! The configuration: what the program needs.
//!
//! [`mod@file`] is what the user wrote, [`source`] decides who wins, and this is
//! what comes out. A key itself is never in here: only where to get it.

mod disk;
mod edit;
pub mod file;
pub mod import;
pub mod key;
pub mod mcp;
mod policy;
pub mod programs;
mod project;
mod rules;
mod servers;
pub mod source;
mod table;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use disk::Stamp;
pub use edit::{
    ALLOWED, add_model, add_servers, allow_always, remove_rule, set_default, toml_string,
};
pub use file::{File, Problem};
pub use project::{Project, may_write, rules_in_force};
pub use rules::nearest;
pub use source::{Overrides, env_overrides};

use crate::address;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::policy::Rules;

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The models by name.
    pub models: BTreeMap<String, Model>,
    /// The one to use where nothing else is said: in force, whoever named it. It exists in `models`.
    pub default_model: Option<String>,
    /// Replaces the built-in one.
    pub system_prompt: Option<String>,
    /// Commands and their output.
    pub shell: Shell,
    /// What the model is told of the shell.
    pub context: Context,
    /// The journal.
    pub history: History,
    /// Tools and their servers.
    pub mcp: mcp::Mcp,
    /// How tools are offered to models.
    pub tools: Tools,
    /// What calls declare.
    pub intent_declaration: IntentDeclaration,
    /// Who may do what: `[policy]`, and `[mcp.auto_approve]`.
    pub policy: Rules,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// A way to talk to models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Provider {
    /// `/chat/completions` as OpenAI and most others have it.
    #[default]
    OpenAi,
}

impl Provider {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
        }
    }
}

/// Where a model's key comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Key {
    /// No key.
    #[default]
    None,
    /// This environment variable.
    Env(String),
    /// The output of this command, run by `/bin/sh -c`.
    Cmd(String),
}

impl fmt::Debug for Key {
    /// Without the command, which may hold the key itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::None => f.write_str("None"),
            Key::Env(name) => write!(f, "Env({name})"),
            Key::Cmd(_) => f.write_str("Cmd"),
        }
    }
}

/// One model.
#[derive(Clone, PartialEq)]
pub struct Model {
    /// Its name here.
    pub name: String,
    /// How to talk to it.
    pub provider: Provider,
    /// The address to which `/chat/completions` is added.
    pub base_url: String,
    /// Its name there.
    pub model: String,
    /// Where its key comes from.
    pub key: Key,
    /// Sent with every request; values may be secrets.
    pub headers: Vec<(String, String)>,
    /// Sent where set.
    pub temperature: Option<f64>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// How many tokens it can look at.
    pub context_window: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
    /// Results of tools are sent in messages of their own, with the role `tool`.
    pub use_tool_role: bool,
    /// It takes pictures, so that those that tools make are sent on.
    pub images: bool,
    /// The server to start for it.
    pub serve: Option<Serve>,
    /// How long its stream may be silent (`timeout` in the file).
    pub idle_timeout: Duration,
    /// Where it stands in the file; 0 if it does not.
    pub line: usize,
    /// Where its `key_env` or `key_cmd` stands; 0 if it does not.
    pub key_line: usize,
}

impl Model {
    /// Seconds of silence that are borne where the file does not say.
    pub(crate) const TIMEOUT: u32 = 120;
}

impl Default for Model {
    fn default() -> Self {
        Model {
            name: String::new(),
            provider: Provider::default(),
            base_url: String::new(),
            model: String::new(),
            key: Key::None,
            headers: Vec::new(),
            temperature: None,
            max_tokens: None,
            context_window: None,
            price: None,
            use_tool_role: true,
            images: false,
            serve: None,
            idle_timeout: Duration::from_secs(Model::TIMEOUT.into()),
            line: 0,
            key_line: 0,
        }
    }
}

impl fmt::Debug for Model {
    /// Without headers and commands: they may hold secrets, and this ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Of the request.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
}

/// A server that the daemon starts when it is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct Serve {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// How long it may go unused before it is stopped.
    pub idle: Duration,
}

impl Serve {
    /// Seconds that a server may go unused where the file does not say.
    pub(crate) const IDLE: u32 = 600;
}

impl fmt::Debug for Serve {
    /// Without the arguments, which may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serve({:?})", self.command.first())
    }
}

/// Programs that draw on the terminal or talk on it, so that their output cannot be captured.
const TERMINAL_PROGRAMS: &[&str] = &[
    "btop", "emacs", "fzf", "gdb", "helix", "htop", "hx", "info", "ipython", "kak", "lazygit",
    "less", "lldb", "lynx", "man", "mc", "micro", "more", "most", "mutt", "mysql", "nano", "ncdu",
    "neomutt", "nnn", "nvim", "psql", "ranger", "screen", "sqlite3", "ssh", "telnet", "tig",
    "tmux", "top", "vi", "view", "vim", "vimdiff", "watch", "w3m", "yazi", "zellij",
];

/// Commands and their output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// Ask before a proposed command runs.
    pub confirm_cmd: bool,
    /// How much of a command's output is kept, head and tail together.
    pub output_bytes: usize,
    /// Programs that get the terminal itself: the built-in ones and the user's.
    pub terminal_programs: Vec<String>,
}

impl Default for Shell {
    fn default() -> Self {
        Shell {
            confirm_cmd: true,
            output_bytes: 16_384,
            terminal_programs: TERMINAL_PROGRAMS.iter().map(|s| (*s).to_string()).collect(),
        }
    }
}

/// What the model is told of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// How many of the last commands; 0 is none.
    pub commands: usize,
    /// Which variables.
    pub env: Vec<String>,
}

impl Default for Context {
    fn default() -> Self {
        // What explains why the same command works in one shell and fails in the next; no secrets.
        let env = [
            "VIRTUAL_ENV",
            "CONDA_DEFAULT_ENV",
            "AWS_PROFILE",
            "KUBECONFIG",
            "DOCKER_CONTEXT",
            "NODE_ENV",
            "LANG",
        ];
        Context {
            commands: 10,
            env: env.map(String::from).to_vec(),
        }
    }
}

/// The journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Sync every record to the disk; without, only what must be there before a command runs.
    pub sync: bool,
    /// How long records are kept, in days.
    pub max_days: u32,
    /// How many records are kept.
    pub max_records: u64,
    /// How much is kept, in bytes.
    pub max_bytes: u64,
}

impl Default for History {
    fn default() -> Self {
        History {
            sync: true,
            max_days: 90,
            max_records: 100_000,
            max_bytes: 256 << 20,
        }
    }
}

/// How tools are offered to models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Each by itself, or through a few.
    pub exposure: Exposure,
    /// With [`Exposure::Auto`]: from so many tools on through a few.
    pub split_threshold: usize,
}

impl Default for Tools {
    fn default() -> Self {
        Tools {
            exposure: Exposure::Auto,
            split_threshold: 40,
        }
    }
}

impl Tools {
    /// Whether so many tools are offered through a few.
    pub fn splits(&self, tools: usize) -> bool {
        match self.exposure {
            Exposure::Direct => false,
            Exposure::Split => tools > 0,
            Exposure::Auto => tools >= self.split_threshold,
        }
    }
}

/// How a model sees the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Each with its schema.
    Direct,
    /// Five, through which it finds and calls the others.
    Split,
    /// As many as there are decide.
    Auto,
}

impl Exposure {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Exposure::Direct => "direct",
            Exposure::Split => "split",
            Exposure::Auto => "auto",
        }
    }
}

/// What calls declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentDeclaration {
    /// A call that the server's word speaks against is rejected; else it is warned of.
    pub strict_server_validation: bool,
}

impl Default for IntentDeclaration {
    fn default() -> Self {
        IntentDeclaration {
            strict_server_validation: true,
        }
    }
}

impl Config {
    /// The model of that name.
    ///
    /// # Errors
    /// There is none; the message has the nearest name.
    pub fn model(&self, name: &str) -> Result<&Model> {
        self.models.get(name).ok_or_else(|| {
            let names = self.models.keys().map(String::as_str);
            Error::config(file::no_such_model(name, names))
                .hint("see them with: aish-helper model list")
        })
    }

    /// The model to use where the request names none; `None` when no model is configured at all.
    ///
    /// # Errors
    /// There are several and none is the default.
    pub fn current(&self) -> Result<Option<&Model>> {
        match &self.default_model {
            Some(name) => self.model(name).map(Some),
            None if self.models.len() <= 1 => Ok(self.models.values().next()),
            None => {
                let names: Vec<&str> = self.models.keys().map(String::as_str).collect();
                Err(Error::config(format!(
                    "several models are configured and none is the default: {}",
                    names.join(", ")
                ))
                .hint("choose one with: aish-helper model use NAME"))
            }
        }
    }
}

/// Reads the file, if there is one.
///
/// # Errors
/// The first thing that is wrong with it, and how many more there are.
pub fn read(paths: &Paths) -> Result<File> {
    disk::read(paths).map_err(|problems| {
        let more = problems.len().saturating_sub(1);
        let first = problems.first().map(Problem::to_string).unwrap_or_default();
        Error::config(first).hint(match more {
            0 => "correct the file, then check it with: aish-helper config check".to_string(),
            n => format!("and {n} more; see all with: aish-helper config check"),
        })
    })
}

/// The configuration in force: [`read`] and [`source::resolve`].
///
/// # Errors
/// The file is wrong, or an override names a model that is not there.
pub fn load(paths: &Paths, over: &Overrides) -> Result<Config> {
    source::resolve(&read(paths)?, over)
}

/// Everything that is wrong with the file, variables that it names and that this process's environment
/// lacks included.
pub fn problems(paths: &Paths) -> Vec<Problem> {
    let file = match disk::read(paths) {
        Ok(file) => file,
        Err(problems) => return problems,
    };
    let Some(path) = &file.path else {
        return Vec::new();
    };
    let set = key::variable_names();
    let models = file.models.iter().filter_map(|(name, model)| {
        let at = model.key.as_ref()?;
        let Key::Env(variable) = &at.value else {
            return None;
        };
        let key = format!("models.{}.key_env", table::shown_key(name));
        Some((key, at.line, variable.as_str()))
    });
    let servers = file.mcp.servers.iter().flat_map(|(alias, server)| {
        let variables = server.variables().into_iter();
        variables.map(move |(key, line, name)| (format!("mcp.servers.{alias}.{key}"), line, name))
    });
    models
        .chain(servers)
        .filter(|(_, _, variable)| !set.iter().any(|s| s == variable))
        .map(|(key, line, variable)| Problem {
            file: path.clone(),
            line: Some(line),
            key,
            message: key::unset(variable, set.iter().map(String::as_str)),
        })
        .collect()
}

/// The file in use, or where it would be.
///
/// # Errors
/// Both `config.toml` and `aish.json` are there.
pub fn path(paths: &Paths) -> Result<(PathBuf, bool)> {
    match disk::find(paths) {
        Ok(Some((path, _))) => Ok((path, true)),
        Ok(None) => Ok((paths.config.join("config.toml"), false)),
        Err(problem) => Err(Error::config(problem.to_string())),
    }
}

/// What is wrong with the address of a server that a person names, with a key to be sent there or
/// without; the same rules as for the file.
///
/// # Errors
/// In words for that person.
pub fn check_base_url(text: &str, with_key: bool) -> std::result::Result<(), String> {
    let url = rules::base_url(text)?;
    if with_key {
        address::clear_text(&url)?;
    }
    Ok(())
}

/// A commented example of every setting.
pub fn starter() -> &'static str {
    include_str!("starter.toml")
}

#[cfg(test)]
mod tests;
