//! Questions on the terminal that set up a model: the first run and `aish-helper model add`.
//!
//! The dialog uses `/dev/tty`, because stdout belongs to the answer. A key is stored in its own file once the
//! server has listed its models with it; it never appears in an argument, log or history.

use std::io::Write;
use std::path::PathBuf;

use super::model;
use crate::broker::ModelEndpoint;
use crate::client::edit_line;
use crate::client::styled_line::wrap_text;
use crate::client::terminal::{ControllingTty, size};
use crate::config::{self, KeySource, ModelSettings, key};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::safety::text::{one_line, prose};
use crate::secret::Secret;

/// Maximum number of characters shown of an error or of a name from elsewhere.
pub const MAX_SHOWN: usize = 300;

/// A terminal to ask on, and the means to try out an answer.
#[derive(Debug)]
pub struct SetupDialog<'a> {
    paths: &'a Paths,
    tty: ControllingTty,
}

impl<'a> SetupDialog<'a> {
    /// Opens the terminal.
    ///
    /// # Errors
    /// The process has no controlling terminal.
    pub fn open(paths: &'a Paths) -> Result<SetupDialog<'a>> {
        let tty = ControllingTty::open()?;
        Ok(SetupDialog { paths, tty })
    }

    /// Reads a line; `None` means that the user leaves. The terminal mode is changed only while reading.
    ///
    /// # Errors
    /// The terminal is lost, or Ctrl-C.
    pub fn ask(&self, question: &str, echo: bool) -> Result<Option<String>> {
        let keys = self.tty.raw_keys()?;
        self.print(question)?;
        edit_line::read(&self.tty, &keys, echo)
    }

    /// Returns the pasted text if it can be a key, and reports the reason otherwise, in which it is called `noun`.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn checked_key(&self, typed: &str, noun: &str) -> Result<Option<Secret>> {
        match key::checked(typed.as_bytes()) {
            Ok(key) if key.contains("://") => {
                self.print(&format!("  The pasted text is an address, not a {noun}.\n"))?;
                Ok(None)
            }
            Ok(key) => Ok(Some(Secret::new(key))),
            Err(reason) => {
                let reason = reason.replacen("a key", &format!("a {noun}"), 1);
                self.print(&format!("  The pasted text {reason}.\n"))?;
                Ok(None)
            }
        }
    }

    /// Reports what failed, without the hint, which refers to a configuration that does not exist yet.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn report_failure(&self, e: &Error) -> Result<()> {
        self.print(&format!(
            "  That failed: {}.\n",
            one_line(&e.message, MAX_SHOWN)
        ))
    }

    /// Prints text with untrusted parts through the text sink, wrapped at word ends.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn print(&self, text: &str) -> Result<()> {
        let text = wrap_text(&prose(text), size(&self.tty.file).0, 2);
        (&self.tty.file)
            .write_all(text.as_bytes())
            .context(|| "cannot write to the terminal".into())
    }

    /// Writes a verified model to the configuration as the default one, stores its key, and says so.
    ///
    /// # Errors
    /// The key cannot be stored, or the configuration cannot be changed.
    pub fn save_default(&self, name: &str, endpoint: &ModelEndpoint) -> Result<()> {
        let key = write_model(self.paths, name, endpoint, None, true)?;
        let (file, _) = config::config_path(self.paths)?;
        let key = key.map(|key| format!(",\n  the key in {}", key.display()));
        self.print(&format!(
            "  {name} is now the default model ({}); it is configured in\n  {}{}\n\n",
            one_line(&endpoint.model, MAX_SHOWN),
            file.display(),
            key.unwrap_or_default()
        ))
    }
}

/// Writes a verified model to the configuration. Its key is named by its variable, or else stored in a file, which is
/// returned.
///
/// # Errors
/// The key cannot be stored, or the configuration cannot be changed: a model of this name exists, or a project file
/// denies it.
pub fn write_model(
    paths: &Paths,
    name: &str,
    endpoint: &ModelEndpoint,
    variable: Option<&str>,
    make_default: bool,
) -> Result<Option<PathBuf>> {
    model::check_may_write(paths)?;
    let stored = match (variable, &endpoint.key) {
        (None, Some(key)) => Some(key::store_key(paths, name, key)?),
        _ => None,
    };
    let settings = ModelSettings {
        base_url: endpoint.base_url.clone(),
        model: endpoint.model.clone(),
        images: endpoint.images,
        key: match (variable, &stored) {
            (Some(variable), _) => KeySource::Env(variable.to_owned()),
            (None, Some(stored)) => KeySource::Cmd(stored.command.clone()),
            (None, None) => KeySource::None,
        },
        ..ModelSettings::default()
    };
    let file = stored.map(|stored| stored.file);
    config::add_model(paths, name, &config::model_table(&settings), make_default).inspect_err(
        |_| {
            // Best effort: the error says what matters.
            if let Some(file) = &file {
                let _ = std::fs::remove_file(file);
            }
        },
    )?;
    Ok(file)
}

/// Returns a runtime for the requests of a dialog.
///
/// # Errors
/// The system has no resources left.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())
}
