//! `aish-helper model list|use|install`.

use std::path::Path;

use super::call::current_directory;
use super::{model_install, print, print_json};
use crate::client::connect;
use crate::config::{self, env_overrides};
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{ModelInfo, Request, ShellId};
use crate::safety::text::one_line;

/// Lists the configured models.
///
/// # Errors
/// The configuration is invalid.
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
        let (path, _) = config::config_path(paths)?;
        return print(&format!(
            "no models are configured in {}; llm uses a key in the environment or a local server\n",
            path.display()
        ));
    }
    let mut out = String::new();
    for m in models {
        let mark = if m.current { '*' } else { ' ' };
        let facts = facts(&m);
        out.push_str(&format!(
            "{mark} {:<16} {:<28} {}{facts}\n",
            m.name,
            one_line(&m.model, 28),
            m.base_url,
        ));
    }
    print(&out)
}

/// Formats the window and the prices, where they are known: ` · 400k · $1.25 in, $10 out per million`.
fn facts(model: &ModelInfo) -> String {
    let mut out = String::new();
    match model.context_window {
        Some(window @ 1_000_000..) => {
            out.push_str(&format!(" · {}M", f64::from(window / 10_000) / 100.0));
        }
        Some(window @ 1000..) => out.push_str(&format!(" · {}k", window / 1000)),
        Some(window) => out.push_str(&format!(" · {window}")),
        None => {}
    }
    match (model.input_price, model.output_price) {
        (Some(input), Some(output)) if input + output == 0.0 => out.push_str(" · free"),
        (Some(input), Some(output)) => {
            out.push_str(&format!(" · ${input} in, ${output} out per million"));
        }
        _ => {}
    }
    out
}

/// Sets the default model, or the model of one shell's session.
///
/// # Errors
/// The model is unknown, or the configuration cannot be changed.
pub fn choose(paths: &Paths, name: &str, shell: Option<ShellId>, json: bool) -> Result<()> {
    let scope = match shell {
        Some(shell) => {
            connect::request::<()>(
                paths,
                &Request::UseModel {
                    shell,
                    model: name.to_string(),
                },
            )?;
            "of this session"
        }
        None => {
            check_may_write(paths)?;
            config::set_default(paths, name)?;
            "by default"
        }
    };
    if json {
        return print_json(&serde_json::json!({"model": name}));
    }
    print(&format!("{name} is now the model {scope}\n"))
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
