//! `aish-helper model list|use|install`.

use std::path::Path;

use super::call::current_directory;
use super::table::model_facts;
use super::{available_models, model_install, print, print_json};
use crate::client::connect;
use crate::config::{self, env_overrides};
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{ModelInfo, Request, ShellId};
use crate::safety::text::one_line;

/// Number of models that an error names.
const MATCHES: usize = 5;

/// Lists the configured models, and what servers offered when they were asked last.
///
/// # Errors
/// The configuration is invalid.
pub fn list(
    paths: &Paths,
    shell: Option<ShellId>,
    filter: Option<String>,
    available: bool,
    json: bool,
) -> Result<()> {
    if available && json {
        let word = filter.as_deref().unwrap_or_default();
        return print_json(&available_models::matching(paths, word));
    }
    let offered = available_models::list(paths, filter.as_deref());
    if available {
        return print(match offered.trim_start() {
            "" => "no models; ask the servers with: aish-helper model refresh\n",
            text => text,
        });
    }
    let request = Request::Models {
        shell,
        overrides: env_overrides()?,
    };
    let mut models: Vec<ModelInfo> = connect::request(paths, &request)?;
    let is_empty = models.is_empty();
    if let Some(word) = filter.as_ref().map(|word| word.to_lowercase()) {
        models.retain(|m| {
            format!("{} {}", m.name, m.model)
                .to_lowercase()
                .contains(&word)
        });
    }
    if json {
        return print_json(&models);
    }
    if is_empty {
        let (path, _) = config::config_path(paths)?;
        return print(&format!(
            "no models are configured in {}; llm uses a key in the environment or a local server\n{offered}",
            path.display()
        ));
    }
    let mut out = String::new();
    for m in models {
        let mark = if m.current { '*' } else { ' ' };
        let facts = model_facts(m.context_window, m.input_price.zip(m.output_price));
        out.push_str(&format!(
            "{mark} {:<16} {:<28} {}{facts}\n",
            m.name,
            one_line(&m.model, 28),
            m.base_url,
        ));
    }
    out.push_str(&offered);
    print(match out.trim_start_matches('\n') {
        "" => "no model matches\n",
        text => text,
    })
}

/// Prints the names of the configured models and of those that servers offered.
///
/// # Errors
/// The configuration is invalid.
pub fn names(paths: &Paths) -> Result<()> {
    let overrides = config::ConfigOverrides::from_map(&env_overrides()?)?;
    let config = config::load_confirmed(paths, &overrides)?;
    let offered = available_models::matching(paths, "");
    let names = config.models.into_keys();
    let names = names.chain(offered.into_iter().map(|model| model.name));
    // A name with other characters cannot be typed.
    let plain = |name: &String| name.chars().all(|c| c.is_ascii_graphic());
    print(
        &names
            .filter(plain)
            .map(|name| name + "\n")
            .collect::<String>(),
    )
}

/// Sets the default model, or the model of one shell's session. With `save`, or without a shell, a model that is named as
/// SERVER/MODEL is added to the configuration.
///
/// # Errors
/// The model is unknown, or the configuration cannot be changed.
pub fn choose(
    paths: &Paths,
    name: &str,
    shell: Option<ShellId>,
    save: bool,
    json: bool,
) -> Result<()> {
    let scopes = match (&shell, save) {
        (Some(_), false) => "of this session",
        (Some(_), true) => "of this session and by default",
        (None, _) => "by default",
    };
    if save || shell.is_none() {
        write_default(paths, name).map_err(|e| with_matches(paths, name, e))?;
    }
    if let Some(shell) = shell {
        let request = Request::UseModel {
            shell,
            model: name.to_owned(),
        };
        connect::request::<()>(paths, &request).map_err(|e| with_matches(paths, name, e))?;
    }
    if json {
        return print_json(&serde_json::json!({"model": name}));
    }
    print(&format!("{name} is now the model {scopes}\n"))
}

/// Writes the default model, and the model itself if the file has none of that name.
fn write_default(paths: &Paths, name: &str) -> Result<()> {
    check_may_write(paths)?;
    let plain = config::load(paths, &config::ConfigOverrides::default())?;
    if plain.models.contains_key(name) {
        return config::set_default(paths, name);
    }
    let overrides = config::ConfigOverrides::default().with_model(Some(name.to_owned()));
    let config = config::load_confirmed(paths, &overrides)?;
    config::add_model(paths, name, &config::model_table(config.model(name)?), true)
}

/// Adds the models that servers offer and whose name contains the word to the error about an unknown model.
fn with_matches(paths: &Paths, name: &str, error: Error) -> Error {
    let found = available_models::matching(paths, name);
    if found.is_empty() || error.kind != ErrorKind::Config {
        return error;
    }
    let shown = found.iter().take(MATCHES);
    let mut names: Vec<String> = shown.map(|model| one_line(&model.name, 80)).collect();
    if found.len() > MATCHES {
        names.push("…".to_owned());
    }
    error.hint(format!("servers offer: {}", names.join(", ")))
}

/// Checks that no project file in the current directory or above denies writing the configuration.
///
/// # Errors
/// A project file denies it, or the configuration cannot be read.
pub fn check_may_write(paths: &Paths) -> Result<()> {
    let config = config::load_confirmed(paths, &config::ConfigOverrides::default())?;
    config::check_may_write(&config, Path::new(&current_directory()))
}

/// Installs the tiny model and adds it to the configuration.
///
/// # Errors
/// A requirement is missing; the message says what to install.
pub fn install(paths: &Paths) -> Result<()> {
    let mut printed = Ok(());
    set_up(paths, &mut |line| {
        if printed.is_ok() {
            printed = print(&format!("{line}\n"));
        }
    })?;
    printed?;
    print(&format!(
        "installed; try: llm -m {} What is the capital of France?\n  {}\n",
        model_install::MODEL_NAME,
        model_install::QUALITY_NOTE
    ))
}

/// Installs the tiny model and reports each step to `say`.
///
/// # Errors
/// As for [`install`].
pub fn set_up(paths: &Paths, say: &mut dyn FnMut(&str)) -> Result<()> {
    let name = model_install::MODEL_NAME;
    // Before the download, which takes long.
    check_may_write(paths)?;
    let installed = model_install::install(paths, name, say)?;
    let config = config::load(paths, &config::ConfigOverrides::default())?;
    if config.models.contains_key(name) {
        return Ok(());
    }
    config::add_model(paths, name, &installed.table, false)
}
