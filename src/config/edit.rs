//! Changes `config.toml` and leaves every other byte as it was.

mod policy_rule;

use std::fs::{self, File as OpenFile};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use policy_rule::{ALLOWED_COMMENT, allow_always, remove_rule};

use nix::unistd::{getpgrp, tcgetpgrp};
use toml::de::DeTable;

use super::disk;
use super::file::{self, ConfigFile, ConfigProblem, FileFormat};
use super::model::no_such_model;
use super::model::{KeySource, ModelSettings};
use super::seen;
use super::table_reader::shown_key;
use super::toml_text::toml_string;
use super::value_checks::check_model_name;
use crate::error::{Error, ErrorContext as _, Result};
use crate::paths::{Paths, link_target, make_dir, replace_secret_file};
use crate::safety::policy::{BuiltinAction, PolicyRule, RuleEffect, RuleSubject};

/// Appends `[models.NAME]` with the lines of `table_text` to `config.toml`, and makes the model the default if
/// `make_default`. Values from elsewhere must be written with [`toml_string`].
///
/// # Errors
/// The file cannot be read or written, is invalid, is `aish.json`, or has a model of that name.
pub fn add_model(paths: &Paths, name: &str, table_text: &str, make_default: bool) -> Result<()> {
    check_model_name(name).map_err(Error::config)?;
    let body = table_text.trim();
    let manual_hint = format!(
        "add to models by hand: {}, with {}",
        shown_key(name),
        shown_body(body)
    );
    edit(paths, &manual_hint, at_terminal(), |old, file, path| {
        if file.config.models.contains_key(name) {
            let message = format!("{}: a model named {name} already exists", path.display());
            return Err(
                Error::config(message).hint("choose another name, or change that one by hand")
            );
        }
        let mut new = if make_default {
            with_default(old, name)
        } else {
            old.to_string()
        };
        append(&mut new, &format!("models.{}", shown_key(name)), body);
        Ok(new)
    })
}

/// Returns the lines of the section of a model: its server, its key and its name, for [`add_model`].
pub fn model_table(model: &ModelSettings) -> String {
    let mut lines = Vec::new();
    let mut line = |key: &str, value: &str| lines.push(format!("{key} = {}", toml_string(value)));
    if let Some(provider) = model.provider {
        line("provider", provider.word());
    }
    line("base_url", &model.base_url);
    line("model", &model.model);
    match &model.key {
        KeySource::None => {}
        KeySource::Env(name) => line("key_env", name),
        KeySource::Cmd(command) => line("key_cmd", command),
    }
    if !model.headers.is_empty() {
        let headers = model.headers.iter();
        let headers =
            headers.map(|(name, value)| format!("{} = {}", toml_string(name), toml_string(value)));
        lines.push(format!(
            "headers = {{ {} }}",
            headers.collect::<Vec<_>>().join(", ")
        ));
    }
    if model.images {
        lines.push("images = true".to_owned());
    }
    if !model.use_tool_role {
        lines.push("use_tool_role = false".to_owned());
    }
    if model.idle_timeout != ModelSettings::default().idle_timeout {
        lines.push(format!("timeout = {}", model.idle_timeout.as_secs()));
    }
    lines.join("\n")
}

/// The lines of a section without those that may hold secrets.
fn shown_body(body: &str) -> String {
    let is_secret = |line: &&str| line.starts_with("headers") || line.starts_with("key_cmd");
    let lines: Vec<&str> = body.lines().filter(|line| !is_secret(line)).collect();
    lines.join(", ")
}

/// Appends a table after an empty line.
fn append(text: &mut String, table: &str, body: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("[{table}]\n{body}\n"));
}

/// Appends `[mcp.servers.ALIAS]` with its lines to `config.toml` for each `(alias, lines)`, and returns the path of the
/// file. Existing servers are not changed.
///
/// # Errors
/// As for [`add_model`].
pub fn add_servers(paths: &Paths, servers: &[(String, String)]) -> Result<PathBuf> {
    let mut written = PathBuf::new();
    let manual_hint = "write them into the file by hand, under mcp.servers";
    edit(paths, manual_hint, at_terminal(), |old, file, path| {
        let mut new = old.to_string();
        for (alias, body) in servers {
            if file.config.mcp.servers.contains_key(alias) {
                let message = format!("{}: a server named {alias} already exists", path.display());
                return Err(Error::config(message).hint("run it again"));
            }
            append(&mut new, &format!("mcp.servers.{}", shown_key(alias)), body);
        }
        written = path.to_path_buf();
        Ok(new)
    })?;
    Ok(written)
}

/// Makes a model the default.
///
/// # Errors
/// As for [`add_model`], or the model does not exist.
pub fn set_default(paths: &Paths, name: &str) -> Result<()> {
    let manual_hint = format!("set default_model by hand to {}", toml_string(name));
    edit(paths, &manual_hint, at_terminal(), |old, file, _| {
        if file.config.models.contains_key(name) {
            return Ok(with_default(old, name));
        }
        let names = file.config.models.keys().map(String::as_str);
        Err(Error::config(no_such_model(name, names)))
    })
}

/// Whether a person started this process at a terminal.
fn at_terminal() -> bool {
    let terminal = OpenFile::open("/dev/tty");
    terminal.is_ok_and(|tty| tcgetpgrp(tty).is_ok_and(|group| group == getpgrp()))
}

/// Rewrites `config.toml` under a lock. The result is checked before it is written. `by_person` is whether it counts as seen
/// by a person.
fn edit(
    paths: &Paths,
    manual_hint: &str,
    by_person: bool,
    change: impl FnOnce(&str, &ConfigFile, &Path) -> Result<String>,
) -> Result<()> {
    make_dir(&paths.config)?;
    // Without the lock, the later of two concurrent changes would undo the earlier.
    let _lock = seen::lock(paths)?;
    let path = match disk::find(paths).map_err(|p| Error::config(p.to_string()))? {
        Some((path, FileFormat::Json)) => {
            let message = format!("cannot change {}: aish writes TOML only", path.display());
            return Err(Error::config(message).hint(manual_hint));
        }
        Some((path, FileFormat::Toml)) => path,
        None => paths.config.join("config.toml"),
    };
    let old = match fs::symlink_metadata(&path) {
        Ok(_) => disk::read_trusted(&path).map_err(|p| Error::config(p.to_string()))?,
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).context(|| format!("cannot read {}", path.display())),
    };
    let check = |text: &str| {
        file::parse(text, FileFormat::Toml, &path).map_err(|problems| {
            Error::config(
                problems
                    .first()
                    .map(ConfigProblem::to_string)
                    .unwrap_or_default(),
            )
        })
    };
    let file = check(&old).map_err(|e| e.hint("correct the file: aish-helper config check"))?;
    let denies = |r: &&PolicyRule| {
        r.subject == RuleSubject::Action(BuiltinAction::FsWrite) && r.effect == RuleEffect::Deny
    };
    // Also one that was taken out of the file, until a person confirms that.
    let confirmed = seen::without_unconfirmed(paths, &file.config);
    if let Some(rule) = confirmed.policy.list.iter().find(denies) {
        let (path, key) = (path.display(), &rule.source);
        let place = file.values.line(key).map(|line| format!(":{line}"));
        let place = place.unwrap_or_default();
        let message = format!("{path}{place}: {key} says deny, so aish does not change this file");
        return Err(Error::config(message).hint(manual_hint));
    }
    // A byte order mark must stay first.
    let (mark, body) = match old.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", old.as_str()),
    };
    let new = format!("{mark}{}", change(body, &file, &path)?);
    let after = check(&new).map_err(|e| {
        let message = format!("the changed file would be wrong: {}", e.message);
        Error::config(message).hint(manual_hint)
    })?;
    // The new text may hold a token, so the file becomes private; a file that is kept elsewhere stays there.
    replace_secret_file(&link_target(&path), new.as_bytes())?;
    if by_person {
        seen::follow(paths, &file, &after);
    }
    Ok(())
}

/// Returns the text with `name` as the default model.
fn with_default(old: &str, name: &str) -> String {
    let value = toml_string(name);
    let value_span =
        default_span(old).and_then(|at| Some((old.get(..at.start)?, old.get(at.end..)?)));
    match value_span {
        Some((before, after)) => format!("{before}{value}{after}"),
        None if old.is_empty() => format!("default_model = {value}\n"),
        // At the top: after the header of a table, the key would belong to that table.
        None => format!("default_model = {value}\n\n{old}"),
    }
}

/// Returns the span of the value of `default_model`.
fn default_span(text: &str) -> Option<std::ops::Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    root.get_ref()
        .get("default_model")
        .map(|value| value.span())
}
