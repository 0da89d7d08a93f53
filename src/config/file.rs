//! What the user wrote: every setting of the file, with its line, or all
//! that is wrong with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::policy::{self, WrittenPolicy};
use super::rules;
use super::servers::{self, WrittenMcp};
use super::table::{At, Fault, Faults, Table};
use super::tree::{self, SyntaxError};
use super::{Exposure, Key, Provider};
use crate::address;

/// The providers by the word that names them.
const PROVIDERS: &[(&str, Provider)] = &[("openai", Provider::OpenAi)];

/// How tools may be offered, by the word that names it.
const EXPOSURES: &[(&str, Exposure)] = &[
    ("direct", Exposure::Direct),
    ("split", Exposure::Split),
    ("auto", Exposure::Auto),
];

/// A configuration file that was read without a fault.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// Which file; none when there is none.
    pub path: Option<PathBuf>,
    pub(super) models: BTreeMap<String, WrittenModel>,
    pub(super) default_model: Option<At<String>>,
    pub(super) system_prompt: Option<At<String>>,
    pub(super) confirm_cmd: Option<At<bool>>,
    pub(super) output_bytes: Option<At<u32>>,
    pub(super) terminal_programs: Option<At<Vec<String>>>,
    pub(super) commands: Option<At<u32>>,
    pub(super) env: Option<At<Vec<String>>>,
    pub(super) sync: Option<At<bool>>,
    pub(super) max_days: Option<At<u32>>,
    pub(super) max_records: Option<At<u64>>,
    pub(super) max_bytes: Option<At<u64>>,
    pub(super) mcp: WrittenMcp,
    pub(super) exposure: Option<At<Exposure>>,
    pub(super) split_threshold: Option<At<u32>>,
    pub(super) strict_server_validation: Option<At<bool>>,
    pub(super) policy: WrittenPolicy,
}

/// One `[models.NAME]`.
#[derive(Clone)]
pub(super) struct WrittenModel {
    pub line: usize,
    pub provider: Option<At<Provider>>,
    pub base_url: At<String>,
    pub model: At<String>,
    pub key: Option<At<Key>>,
    pub headers: Vec<(String, At<String>)>,
    pub temperature: Option<At<f64>>,
    pub max_tokens: Option<At<u32>>,
    pub context_window: Option<At<u32>>,
    pub price: Option<(At<f64>, At<f64>)>,
    pub use_tool_role: Option<At<bool>>,
    pub images: Option<At<bool>>,
    pub serve: Option<WrittenServe>,
    pub timeout: Option<At<u32>>,
}

/// `serve` of a model.
#[derive(Clone)]
pub(super) struct WrittenServe {
    pub command: At<Vec<String>>,
    pub idle: Option<At<u32>>,
}

impl fmt::Debug for WrittenModel {
    /// Names the model alone: headers and commands may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenModel")
            .field("line", &self.line)
            .field("model", &self.model.value)
            .finish_non_exhaustive()
    }
}

/// One thing that is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; none when the file as a whole is meant.
    pub line: Option<usize>,
    /// The key with all its tables, such as `models.gpt.base_url`; empty when the line is no key.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    /// One line: `/path/config.toml:12: models.gpt.base_urll: unknown key; did you mean base_url?`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The two ways to write the same things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Json,
}

/// Reads the text of a file; on failure every fault, in the order of the lines.
pub(super) fn parse(text: &str, format: Format, path: &Path) -> Result<File, Vec<Problem>> {
    let problem = |line, key, message| Problem {
        file: path.to_path_buf(),
        line: Some(line),
        key,
        message,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = match format {
        Format::Toml => tree::parse_toml(text),
        Format::Json => tree::parse_json(text),
    }
    .map_err(|SyntaxError { line, message }| vec![problem(line, String::new(), message)])?;

    let faults: Faults = RefCell::default();
    let file = Table::root(&root, &faults).map(read);
    let mut faults = faults.into_inner();
    match file {
        Some(file) if faults.is_empty() => Ok(File {
            path: Some(path.to_path_buf()),
            ..file
        }),
        _ => {
            faults.sort_by_key(|f| f.line);
            Err(faults
                .into_iter()
                .map(|Fault { line, key, message }| problem(line, key, message))
                .collect())
        }
    }
}

fn read(mut root: Table<'_>) -> File {
    let mut file = File {
        default_model: root.string("default_model"),
        system_prompt: root.string("system_prompt"),
        ..File::default()
    };
    let mut names = Vec::new();
    if let Some(models) = root.table("models") {
        for (name, table) in models.named_tables() {
            names.push(name);
            if let Err(message) = rules::model_name(name) {
                models.fault(table.line(), name, message);
            }
            if let Some(model) = read_model(table) {
                file.models.insert(name.to_string(), model);
            }
        }
    }
    if let Some(wanted) = &file.default_model
        && !names.contains(&wanted.value.as_str())
    {
        root.fault(
            wanted.line,
            "default_model",
            no_such_model(&wanted.value, names),
        );
    }
    if let Some(mut shell) = root.table("shell") {
        file.confirm_cmd = shell.boolean("confirm_cmd");
        file.output_bytes = shell.integer("output_bytes", 256..=1_048_576);
        file.terminal_programs = shell.strings("terminal_programs", program_name);
        shell.finish();
    }
    if let Some(mut context) = root.table("context") {
        file.commands = context.integer("commands", COMMANDS);
        file.env = context.strings("env", rules::told_variable);
        context.finish();
    }
    if let Some(mut history) = root.table("history") {
        let long = |at: At<u32>| at.map(u64::from);
        file.sync = history.boolean("sync");
        file.max_days = history.integer("max_days", 1..=36_500);
        file.max_records = history.integer("max_records", 1..=4_000_000_000).map(long);
        // Whoever means megabytes must not lose all that there is.
        file.max_bytes = history
            .integer("max_bytes", 1_048_576..=4_000_000_000)
            .map(long);
        history.finish();
    }
    let mut aliases = Vec::new();
    if let Some(mcp) = root.table("mcp") {
        file.mcp = servers::read(mcp, &mut aliases);
    }
    if let Some(mut tools) = root.table("tools") {
        file.exposure = tools.word("exposure", EXPOSURES);
        file.split_threshold = tools.integer("split_threshold", 1..=10_000);
        tools.finish();
    }
    if let Some(mut intent) = root.table("intent_declaration") {
        file.strict_server_validation = intent.boolean("strict_server_validation");
        intent.finish();
    }
    if let Some(policy) = root.table("policy") {
        let fs = aliases.contains(&policy::FS);
        file.policy = policy::read(policy, &aliases, |subject, word| {
            policy::unfit(subject, word).or_else(|| policy::typed(subject, word, fs))
        });
    }
    root.finish();
    file
}

/// How many commands the model may be told.
pub(super) const COMMANDS: std::ops::RangeInclusive<u32> = 0..=100;

/// What to say of a model that is not there.
pub(super) fn no_such_model<'n>(
    name: &str,
    names: impl IntoIterator<Item = &'n str> + Clone,
) -> String {
    let shown = super::table::shown_key(name);
    match rules::nearest(name, names.clone()) {
        Some(near) => format!("no model is named {shown}; did you mean {near}?"),
        None => {
            let all: Vec<&str> = names.into_iter().collect();
            if all.is_empty() {
                format!("no model is named {shown}: no model is configured")
            } else {
                format!(
                    "no model is named {shown}; the models are {}",
                    all.join(", ")
                )
            }
        }
    }
}

fn program_name(name: &str) -> Result<(), String> {
    if name.contains('/') || name.chars().any(char::is_whitespace) {
        Err("a program's name alone, without its directory or options".into())
    } else {
        Ok(())
    }
}

fn read_model(mut t: Table<'_>) -> Option<WrittenModel> {
    let provider = t.word("provider", PROVIDERS);
    t.require("base_url");
    let base_url = t.checked("base_url", |url| rules::base_url(url).map(drop));
    t.require("model");
    let model = t.string("model");
    let key_env = t.checked("key_env", rules::variable_name);
    let key_cmd = t.string("key_cmd");
    if let (Some(_), Some(cmd)) = (&key_env, &key_cmd) {
        t.fault(cmd.line, "key_cmd", "give key_env or key_cmd, not both");
    }
    let key = key_env
        .map(|at| at.map(Key::Env))
        .or(key_cmd.map(|at| at.map(Key::Cmd)));
    let headers = t.table("headers").map_or(Vec::new(), |headers| {
        let all = headers.named_strings();
        for (name, value) in &all {
            if let Err(message) = rules::header(name, &value.value) {
                headers.fault(value.line, name, message);
            } else if key.is_some() && name.eq_ignore_ascii_case("authorization") {
                headers.fault(value.line, name, "the key is sent in this header already");
            }
        }
        all
    });
    let temperature = t.number("temperature", 0.0..=2.0);
    let max_tokens = t.integer("max_tokens", 1..=10_000_000);
    let context_window = t.integer("context_window", 256..=100_000_000);
    let price = t.table("price").and_then(|mut price| {
        price.require("input");
        price.require("output");
        let pair = price
            .number("input", 0.0..=100_000.0)
            .zip(price.number("output", 0.0..=100_000.0));
        price.finish();
        pair
    });
    let use_tool_role = t.boolean("use_tool_role");
    let images = t.boolean("images");
    let serve = t.table("serve").and_then(|mut serve| {
        serve.require("command");
        let command = serve.strings("command", |_| Ok(()));
        if let Some(command) = &command {
            let has_port = command.value.iter().any(|word| word.contains("{port}"));
            if command.value.is_empty() {
                serve.fault(command.line, "command", "must not be empty");
            } else if !has_port {
                let message = "must have {port} in it, where the port goes that aish chooses";
                serve.fault(command.line, "command", message);
            }
        }
        let idle = serve.integer("idle", 1..=604_800);
        serve.finish();
        Some(WrittenServe {
            command: command?,
            idle,
        })
    });
    let timeout = t.integer("timeout", 1..=86_400);
    if let Some(at) = &base_url
        && let Ok(url) = rules::base_url(&at.value)
    {
        let secret = key.is_some() || headers.iter().any(|(n, _)| !rules::is_public_header(n));
        if secret && let Err(message) = address::clear_text(&url) {
            t.fault(at.line, "base_url", message);
        }
        if serve.is_some() && !address::is_loopback(&url) {
            t.fault(
                at.line,
                "base_url",
                "must be on this machine (http://127.0.0.1:PORT/v1), where serve starts the server",
            );
        }
    }
    let line = t.line();
    t.finish();
    Some(WrittenModel {
        line,
        provider,
        base_url: base_url?,
        model: model?,
        key,
        headers,
        temperature,
        max_tokens,
        context_window,
        price,
        use_tool_role,
        images,
        serve,
        timeout,
    })
}
