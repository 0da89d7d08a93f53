//! Adds a model to the user's file and leaves every other byte as it was.

use std::fs::{self, File as Fd, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use toml::de::DeTable;

use super::disk;
use super::file::{self, Format};
use super::rules;
use super::table::shown_key;
use crate::error::{Context as _, Error, Result};
use crate::paths::{Paths, make_dir};

/// Appends `[models.NAME]` with `table_text` as its lines to `config.toml`, and makes it the default
/// if asked. The result is checked before it replaces the file.
///
/// # Errors
/// The file cannot be read or written, is wrong already, is `aish.json`, or has a model of that name.
pub fn add_model(paths: &Paths, name: &str, table_text: &str, make_default: bool) -> Result<()> {
    rules::model_name(name).map_err(Error::config)?;
    make_dir(&paths.config)?;
    // Two at once would each read the same file and the later would undo the earlier.
    let dir =
        Fd::open(&paths.config).context(|| format!("cannot open {}", paths.config.display()))?;
    let _lock = Flock::lock(dir, FlockArg::LockExclusive)
        .map_err(|(_, e)| e)
        .context(|| format!("cannot lock {}", paths.config.display()))?;

    let by_hand = || {
        format!(
            "add it by hand: {} with the settings {}",
            shown_key(name),
            table_text.trim().replace('\n', ", ")
        )
    };
    let path = match disk::find(paths).map_err(|p| Error::config(p.to_string()))? {
        Some((path, Format::Toml)) => path,
        Some((path, Format::Json)) => {
            let message = format!(
                "cannot add a model to {}: aish writes TOML only",
                path.display()
            );
            return Err(Error::config(message).hint(by_hand()));
        }
        None => paths.config.join("config.toml"),
    };
    let old = match fs::symlink_metadata(&path) {
        Ok(_) => disk::read_text(&path).map_err(|p| Error::config(p.to_string()))?,
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).context(|| format!("cannot look at {}", path.display())),
    };
    let first_fault = |text: &str| match file::parse(text, Format::Toml, &path) {
        Ok(file) => Ok(file),
        Err(problems) => {
            let first = problems
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            Err(Error::config(first))
        }
    };
    let before = first_fault(&old)
        .map_err(|e| e.hint("correct the file, then try again: aish-helper config check"))?;
    if before.models.contains_key(name) {
        let message = format!("{}: there is a model named {name} already", path.display());
        return Err(Error::config(message).hint("choose another name, or change that one by hand"));
    }
    let new = with_model(&old, name, table_text, make_default);
    first_fault(&new).map_err(|e| e.hint(by_hand()))?;
    replace(&path, &new)
}

/// The text with the table at its end and the default where TOML wants it.
fn with_model(old: &str, name: &str, table_text: &str, make_default: bool) -> String {
    let (bom, body) = match old.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", old),
    };
    let mut new = String::from(bom);
    if make_default {
        match default_span(body) {
            // The span is of the value as the parser saw it, so it ends on character boundaries.
            Some(span) => {
                new.push_str(body.get(..span.start).unwrap_or_default());
                new.push_str(&format!("\"{name}\""));
                new.push_str(body.get(span.end..).unwrap_or_default());
            }
            // At the very top: after a table's head it would belong to the table.
            None => {
                new.push_str(&format!("default_model = \"{name}\"\n"));
                if !body.is_empty() {
                    new.push('\n');
                }
                new.push_str(body);
            }
        }
    } else {
        new.push_str(body);
    }
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    if !new.is_empty() {
        new.push('\n');
    }
    new.push_str(&format!(
        "[models.{}]\n{}\n",
        shown_key(name),
        table_text.trim_end()
    ));
    new
}

/// Where the value of `default_model` stands.
fn default_span(text: &str) -> Option<std::ops::Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    root.get_ref()
        .get("default_model")
        .map(|value| value.span())
}

/// Replaces a file as a whole: at any moment there is the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    // Through a link, so that a file that lives elsewhere stays there.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) => path.to_path_buf(),
    };
    let temp = sibling(&target);
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

fn sibling(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    target.with_file_name(name)
}
