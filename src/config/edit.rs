//! Adds a model or a server to the user's file and leaves every other byte as it was.

mod policy;

use std::fs::{self, File as Fd, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use policy::{ALLOWED, allow_always, remove_rule};

use nix::fcntl::Flock;
use toml::de::DeTable;

use super::disk;
use super::file::{self, File, Format, Problem};
use super::policy::WrittenRule;
use super::rules;
use super::table::shown_key;
use crate::error::{Context as _, Error, Result};
use crate::paths::{Paths, lock_file, make_dir};
use crate::safety::policy::{Own, Subject, Word};

/// Appends `[models.NAME]` with `table_text` as its lines to `config.toml`, and makes it the default
/// if asked. Text in it that came from elsewhere goes through [`toml_string`].
///
/// # Errors
/// The file cannot be read or written, is wrong already, is `aish.json`, or has a model of that name.
pub fn add_model(paths: &Paths, name: &str, table_text: &str, make_default: bool) -> Result<()> {
    rules::model_name(name).map_err(Error::config)?;
    let body = table_text.trim();
    let by_hand = format!(
        "add to models by hand: {}, with {}",
        shown_key(name),
        body.replace('\n', ", ")
    );
    edit(paths, &by_hand, |old, file, path| {
        if file.models.contains_key(name) {
            let message = format!("{}: there is a model named {name} already", path.display());
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

/// Appends a table, with an empty line before it.
fn append(text: &mut String, table: &str, body: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("[{table}]\n{body}\n"));
}

/// Whether `body` can be the lines of `[mcp.servers.ALIAS]`.
///
/// # Errors
/// What is wrong with them, without the place.
pub(super) fn check_server(alias: &str, body: &str) -> std::result::Result<(), String> {
    let text = format!("[mcp.servers.{}]\n{body}\n", shown_key(alias));
    file::parse(&text, Format::Toml, Path::new(""))
        .map(drop)
        .map_err(|problems| {
            let first = problems.first().map(|p| {
                let key = p.key.rsplit('.').next().unwrap_or_default();
                format!("{key} {}", p.message)
            });
            first.unwrap_or_default()
        })
}

/// Appends `[mcp.servers.ALIAS]` with its lines to `config.toml`, for each of them; the file's path. No
/// server that is there is changed.
///
/// # Errors
/// As for [`add_model`].
pub fn add_servers(paths: &Paths, servers: &[(String, String)]) -> Result<PathBuf> {
    let mut written = PathBuf::new();
    let by_hand = "write them into the file by hand, under mcp.servers";
    edit(paths, by_hand, |old, file, path| {
        let mut new = old.to_string();
        for (alias, body) in servers {
            if file.mcp.servers.contains_key(alias) {
                let message = format!("{}: there is a server {alias} already", path.display());
                return Err(Error::config(message).hint("run it again"));
            }
            append(&mut new, &format!("mcp.servers.{}", shown_key(alias)), body);
        }
        written = path.to_path_buf();
        Ok(new)
    })?;
    Ok(written)
}

/// Makes a model of the file the default.
///
/// # Errors
/// As for [`add_model`]; or there is no model of that name.
pub fn set_default(paths: &Paths, name: &str) -> Result<()> {
    let by_hand = format!("set default_model by hand to {}", toml_string(name));
    edit(paths, &by_hand, |old, file, _| {
        if file.models.contains_key(name) {
            return Ok(with_default(old, name));
        }
        let names = file.models.keys().map(String::as_str);
        Err(Error::config(file::no_such_model(name, names)))
    })
}

/// A string as TOML writes it.
pub fn toml_string(text: &str) -> String {
    // TOML's basic strings are JSON's, but for DEL, which TOML wants escaped as well.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
}

/// Changes `config.toml` as a whole, under a lock; the result is checked before it is written.
fn edit(
    paths: &Paths,
    by_hand: &str,
    change: impl FnOnce(&str, &File, &Path) -> Result<String>,
) -> Result<()> {
    make_dir(&paths.config)?;
    // Two at once would each read the same file, and the later would undo the earlier.
    let _lock = lock(paths)?;
    let path = match disk::find(paths).map_err(|p| Error::config(p.to_string()))? {
        Some((path, Format::Json)) => {
            let message = format!("cannot change {}: aish writes TOML only", path.display());
            return Err(Error::config(message).hint(by_hand));
        }
        Some((path, Format::Toml)) => path,
        None => paths.config.join("config.toml"),
    };
    let old = match fs::symlink_metadata(&path) {
        Ok(_) => disk::read_text(&path).map_err(|p| Error::config(p.to_string()))?,
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).context(|| format!("cannot look at {}", path.display())),
    };
    let check = |text: &str| {
        file::parse(text, Format::Toml, &path).map_err(|problems| {
            Error::config(problems.first().map(Problem::to_string).unwrap_or_default())
        })
    };
    let file = check(&old).map_err(|e| e.hint("correct the file: aish-helper config check"))?;
    let denies =
        |r: &&WrittenRule| r.subject == Subject::Own(Own::FsWrite) && r.word.value == Word::Deny;
    if let Some(rule) = file.policy.rules.iter().find(denies) {
        let (path, line, key) = (path.display(), rule.word.line, &rule.key);
        let message = format!("{path}:{line}: {key} says deny, so aish does not change this file");
        return Err(Error::config(message).hint(by_hand));
    }
    // The mark some editors put first must stay first.
    let (mark, body) = match old.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", old.as_str()),
    };
    let new = format!("{mark}{}", change(body, &file, &path)?);
    check(&new).map_err(|e| {
        let message = format!("the changed file would be wrong: {}", e.message);
        Error::config(message).hint(by_hand)
    })?;
    replace(&path, &new)
}

fn lock(paths: &Paths) -> Result<Flock<Fd>> {
    make_dir(&paths.state)?;
    // A file opened for writing: on NFS an exclusive lock wants one, so the directory will not do.
    lock_file(&paths.state.join("config.lock"))
}

/// The text with `name` as its default, where TOML wants it.
fn with_default(old: &str, name: &str) -> String {
    let value = toml_string(name);
    let around = default_span(old).and_then(|at| Some((old.get(..at.start)?, old.get(at.end..)?)));
    match around {
        Some((before, after)) => format!("{before}{value}{after}"),
        None if old.is_empty() => format!("default_model = {value}\n"),
        // At the very top: after the head of a table it would belong to the table.
        None => format!("default_model = {value}\n\n{old}"),
    }
}

/// Where the value of `default_model` stands.
fn default_span(text: &str) -> Option<std::ops::Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    root.get_ref()
        .get("default_model")
        .map(|value| value.span())
}

/// Replaces a file as a whole: at any moment there is the old one or the new one.
pub(super) fn replace(path: &Path, text: &str) -> Result<()> {
    // Through a link, so that a file that lives elsewhere stays there.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) => path.to_path_buf(),
    };
    let mut temp = target.clone().into_os_string();
    temp.push(".aish-new");
    // Whoever holds the lock is alone: one that is there was left by a crash.
    let _ = fs::remove_file(&temp);
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temp, &target)?;
        // The new name is durable once its directory is.
        match target.parent() {
            Some(dir) => Fd::open(dir)?.sync_all(),
            None => Ok(()),
        }
    };
    let written = write();
    if written.is_err() {
        // Best effort: the error that counts is the one above.
        let _ = fs::remove_file(&temp);
    }
    written.context(|| format!("cannot write {}", target.display()))
}
