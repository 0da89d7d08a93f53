//! Which model a prompt goes to, with its key and, where it needs one, its server.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Daemon;
use super::connection::Connection;
use super::session::lock;
use crate::broker::Endpoint;
use crate::config::{self, Config, File, Key, Model, Overrides, Stamp};
use crate::error::{Error, Kind, Result};
use crate::paths::Paths;
use crate::protocol::{Event, kind};
use crate::secret::Secret;

/// How long a `key_cmd` may take: it may ask a person to unlock a store.
const KEY_CMD: Duration = Duration::from_secs(60);
/// How long the output of a `key_cmd` is used before it is run again.
const KEY_AGE: Duration = Duration::from_secs(3600);

/// What is known about models between two prompts.
#[derive(Debug)]
pub struct Models {
    paths: Paths,
    file: Mutex<Option<(Stamp, Arc<File>)>>,
    keys: tokio::sync::Mutex<HashMap<String, (Instant, Secret)>>,
}

/// A model, ready to be asked.
#[derive(Debug)]
pub struct Chosen {
    /// Its name in the config, or of what was found.
    pub name: String,
    /// Where and how to ask it.
    pub endpoint: Endpoint,
    /// US dollars per million tokens in and out.
    pub price: Option<(f64, f64)>,
    /// Its context window in tokens.
    pub window: Option<u32>,
    /// The config in force for this prompt.
    pub config: Arc<Config>,
    /// What to tell the person about the choice.
    pub notice: Option<String>,
    /// Its server is started by us, and does not run just to be looked at.
    pub on_demand: bool,
}

impl Models {
    /// Nothing is read yet.
    pub fn new(paths: &Paths) -> Models {
        Models {
            paths: paths.clone(),
            file: Mutex::default(),
            keys: tokio::sync::Mutex::default(),
        }
    }

    /// The configuration in force; the file is read again only when it has changed.
    ///
    /// # Errors
    /// The file or an override is wrong.
    pub fn config(&self, overrides: &Overrides) -> Result<Arc<Config>> {
        let stamp = Stamp::of(&self.paths);
        let mut cached = lock(&self.file);
        let file = match &*cached {
            Some((seen, file)) if *seen == stamp => file.clone(),
            _ => {
                let file = Arc::new(config::read(&self.paths)?);
                *cached = Some((stamp, file.clone()));
                file
            }
        };
        drop(cached);
        config::source::resolve(&file, overrides).map(Arc::new)
    }

    /// A request to this model has failed: what was remembered of it may be out of date.
    pub async fn forget(&self, e: &Error) {
        if e.kind == Kind::Config {
            self.keys.lock().await.clear();
        }
    }

    /// Stops the model servers.
    pub async fn shutdown(&self) {}
}

/// What to say when there is no model at all.
pub fn nothing_found() -> Error {
    Error::config("no model: nothing is configured, no key is set and no local server answers").hint(
        "set OPENAI_API_KEY, or start a local server (ollama serve), or run: aish-helper model install smollm2",
    )
}

/// Chooses the model for a prompt and makes it ready: gets its key.
///
/// The order is: `-m`, the session's choice, the environment, the file. `None` is nothing configured
/// and nothing found.
///
/// # Errors
/// The config is wrong, there is no such model, or its key cannot be had.
pub async fn choose(
    daemon: &Daemon,
    connection: &mut Connection,
    flag: Option<String>,
    of_session: Option<&str>,
    overrides: &BTreeMap<String, String>,
) -> Result<Option<Chosen>> {
    look(daemon, connection, flag, of_session, overrides).await
}

/// As [`choose`], without starting a server.
///
/// # Errors
/// As for [`choose`].
pub async fn look(
    daemon: &Daemon,
    connection: &mut Connection,
    flag: Option<String>,
    of_session: Option<&str>,
    overrides: &BTreeMap<String, String>,
) -> Result<Option<Chosen>> {
    let wanted = flag.or_else(|| of_session.map(str::to_string));
    let overrides = Overrides::from_map(overrides)?.with_model(wanted);
    let config = daemon.models.config(&overrides)?;
    let Some(model) = config.current()? else {
        return Ok(None);
    };
    let key = key(&daemon.models, connection, &config, model).await?;
    Ok(Some(Chosen {
        name: model.name.clone(),
        endpoint: endpoint(model, key),
        price: model.price.map(|p| (p.input, p.output)),
        window: model.context_window,
        notice: None,
        on_demand: model.serve.is_some(),
        config: config.clone(),
    }))
}

fn endpoint(model: &Model, key: Option<Secret>) -> Endpoint {
    Endpoint {
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        key,
        headers: model.headers.clone(),
        temperature: model.temperature,
        max_tokens: model.max_tokens,
        idle_timeout: model.idle_timeout,
        key_name: match &model.key {
            Key::None => None,
            Key::Env(name) => Some(name.clone()),
            Key::Cmd(_) => Some(format!("the key_cmd of model {}", model.name)),
        },
    }
}

/// The key of a model. A variable is asked of the client, whose shell has its present value: the
/// daemon's own environment is that of whatever shell started it.
async fn key(
    models: &Models,
    connection: &mut Connection,
    config: &Config,
    model: &Model,
) -> Result<Option<Secret>> {
    match &model.key {
        Key::None => Ok(None),
        Key::Env(name) => {
            let variables = variables(connection, vec![name.clone()]).await?;
            Ok(config::key::from_env(config, model, &variables)?.map(Secret::new))
        }
        Key::Cmd(command) => {
            let mut keys = models.keys.lock().await;
            if let Some((since, key)) = keys.get(command) {
                if since.elapsed() < KEY_AGE {
                    return Ok(Some(key.clone()));
                }
            }
            let output = run_key_cmd(command, &model.name).await?;
            let key = Secret::new(config::key::from_output(config, model, &output)?);
            keys.insert(command.clone(), (Instant::now(), key.clone()));
            Ok(Some(key))
        }
    }
}

/// Asks the client for variables of its environment. The answer has those that are set.
async fn variables(connection: &mut Connection, names: Vec<String>) -> Result<BTreeMap<String, String>> {
    connection.send_json(kind::EVENT, &Event::NeedEnv { names }).await?;
    connection.expect(kind::ENV).await
}

/// Runs a `key_cmd`; what it prints goes into no message, since it may be the key.
async fn run_key_cmd(command: &str, model: &str) -> Result<Vec<u8>> {
    let failed = |why: String| {
        Error::config(format!("the key_cmd of model {model} {why}"))
            .hint("try it in a shell: it must print the key alone")
    };
    let child = tokio::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(KEY_CMD, child)
        .await
        .map_err(|_| failed(format!("did not end within {} s", KEY_CMD.as_secs())))?
        .map_err(|e| failed(format!("could not be run: {e}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed ({})", output.status)));
    }
    Ok(output.stdout)
}
