//! `aish-helper model list|use|install`.

use std::path::Path;

use super::call::cwd;
use super::{model_install, print, print_json};
use crate::client::connect;
use crate::config::{self, env_overrides};
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{ModelInfo, Request, ShellId};
use crate::safety::text::one_line;

/// Lists the models of the config.
///
/// # Errors
/// The config is wrong.
pub fn list(paths: &Paths, json: bool, shell: Option<ShellId>) -> Result<()> {
    let request = Request::Models {
        shell,
        overrides: env_overrides()?,
    };
    let models: Vec<ModelInfo> = connect::request(paths, &request)?;
    if json {
        return print_json(&models);
    }
    if models.is_empty() {
        let (path, _) = config::path(paths)?;
        return print(&format!(
            "no models are configured in {}; llm uses what it finds: a key in the environment or a local server\n",
            path.display()
        ));
    }
    let mut out = String::new();
    for m in models {
        let mark = if m.current { '*' } else { ' ' };
        out.push_str(&format!(
            "{mark} {:<16} {:<28} {}\n",
            m.name,
            one_line(&m.model, 28),
            m.base_url
        ));
    }
    print(&out)
}

/// Chooses the default model, or that of one shell's conversation.
///
/// # Errors
/// There is no such model, or the config cannot be changed.
pub fn choose(paths: &Paths, name: &str, shell: Option<ShellId>, json: bool) -> Result<()> {
    let place = match shell {
        Some(shell) => {
            connect::request::<()>(
                paths,
                &Request::UseModel {
                    shell,
                    model: name.to_string(),
                },
            )?;
            "of this conversation"
        }
        None => {
            may_write(paths)?;
            config::set_default(paths, name)?;
            "by default"
        }
    };
    if json {
        return print_json(&serde_json::json!({"model": name}));
    }
    print(&format!("{name} is the model {place} now\n"))
}

/// Whether the projects around let the configuration be written.
///
/// # Errors
/// They do not, or it cannot be read.
pub fn may_write(paths: &Paths) -> Result<()> {
    let config = config::load(paths, &config::Overrides::default())?;
    config::may_write(&config, Path::new(&cwd()))
}

/// Installs the tiny model and its entry in the config.
///
/// # Errors
/// Something that it needs is missing; the message says what to install.
pub fn install(paths: &Paths) -> Result<()> {
    let mut said = Ok(());
    set_up(paths, &mut |line| {
        if said.is_ok() {
            said = print(&format!("{line}\n"));
        }
    })?;
    said?;
    print(&format!(
        "installed; try: llm -m {} What is the capital of France?\n  {}\n",
        model_install::NAME,
        model_install::NOTE
    ))
}

/// The same, with `say` told what goes on.
///
/// # Errors
/// As for [`install`].
pub fn set_up(paths: &Paths, say: &mut dyn FnMut(&str)) -> Result<()> {
    let name = model_install::NAME;
    // Before what takes long.
    may_write(paths)?;
    let installed = model_install::install(paths, name, say)?;
    let config = config::load(paths, &config::Overrides::default())?;
    if config.models.contains_key(name) {
        return Ok(());
    }
    config::add_model(paths, name, &installed.table, false)
}
