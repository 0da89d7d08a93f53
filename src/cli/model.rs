//! `aish-helper model list|use|install`.

use std::path::Path;

use super::args::InstallArgs;
use super::call::current_directory;
use super::model_install::source::ModelSource;
use super::model_install::{gguf_model, listing};
use super::table::model_facts;
use super::{available_models, model_install, print, print_json, print_wrapped};
use crate::client::connect;
use crate::config::{self, LocalServer, env_overrides};
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
        return print_wrapped(match offered.trim_start() {
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
        let confirmed = config::load_confirmed(paths, &config::ConfigOverrides::default())?;
        if let Some(name) = confirmed.unconfirmed_models.first() {
            return Err(confirmed.missing_model(name));
        }
        return print_wrapped(&format!(
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
    print_wrapped(match out.trim_start_matches('\n') {
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
    print_wrapped(&format!("{name} is now the model {scopes}\n"))
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

/// Installs a model that runs on this machine and adds it to the configuration. Without a model, lists those that can be
/// installed.
///
/// # Errors
/// A requirement is missing, or the download fails; the message says what to do.
pub fn install(paths: &Paths, args: &InstallArgs) -> Result<()> {
    let Some(model) = &args.model else {
        return match args.sha256.is_some() || args.name.is_some() {
            true => Err(Error::usage("--sha256 and --name need a model")),
            false => print_wrapped(&listing::listing(paths)),
        };
    };
    let mut printed = Ok(());
    let mut say = |line: &str| {
        if printed.is_ok() {
            printed = print_wrapped(&format!("{}\n", one_line(line, 1000)));
        }
    };
    let (name, note) = if model == model_install::MODEL_NAME {
        if args.sha256.is_some() || args.name.is_some() {
            let message =
                format!("{model} has neither --sha256 nor --name: its packages are pinned");
            return Err(Error::usage(message));
        }
        set_up(paths, &mut say)?;
        let note = format!("\n  {}", model_install::QUALITY_NOTE);
        (model.clone(), note)
    } else {
        let source = ModelSource::parse(model, args.name.as_deref())?;
        set_up_file(paths, &source, args.sha256.as_deref(), &mut say)?;
        (source.name, String::new())
    };
    printed?;
    let confirmed = config::load_confirmed(paths, &config::ConfigOverrides::default())?;
    let next = match confirmed.models.contains_key(&name) {
        true => format!("try: llm -m {name} What is the capital of France?"),
        // A program can install one too.
        false => "it takes effect once you confirm it at the next llm in a terminal".to_owned(),
    };
    print_wrapped(&format!("installed; {next}{note}\n"))
}

/// Installs a model from a GGUF file and adds it to the configuration.
fn set_up_file(
    paths: &Paths,
    source: &ModelSource,
    sha256: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let name = &source.name;
    // Before the download, which takes long.
    check_may_write(paths)?;
    let file = gguf_model::model_file(&paths.data.join("models"), name);
    let configured = |paths: &Paths| -> Result<bool> {
        let config = config::load(paths, &config::ConfigOverrides::default())?;
        let Some(model) = config.models.get(name) else {
            return Ok(false);
        };
        let serves = |server: &LocalServer| server.command.iter().any(|w| Path::new(w) == file);
        if model.serve.as_ref().is_some_and(serves) {
            return Ok(true);
        }
        Err(
            Error::config(format!("another model named {name} is configured"))
                .hint("choose another name: --name NAME"),
        )
    };
    configured(paths)?;
    let installed = gguf_model::install(paths, source, sha256, say)?;
    // The configuration may have changed during the download.
    match configured(paths)? {
        true => Ok(()),
        false => config::add_model(paths, name, &installed.table, false),
    }
}

/// Installs the tiny model and reports each step to `say`.
///
/// # Errors
/// As for [`install`].
pub fn set_up(paths: &Paths, say: &mut dyn FnMut(&str)) -> Result<()> {
    let name = model_install::MODEL_NAME;
    // Before the download, which takes long.
    check_may_write(paths)?;
    let installed = model_install::install(paths, say)?;
    let config = config::load(paths, &config::ConfigOverrides::default())?;
    if config.models.contains_key(name) {
        return Ok(());
    }
    config::add_model(paths, name, &installed.table, false)
}
