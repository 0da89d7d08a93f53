//! Which model a prompt goes to, with its key and, where it needs one, its server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Daemon;
use super::connection::Connection;
use super::session::lock;
use crate::broker::Endpoint;
use crate::broker::detect::{self, Found};
use crate::broker::serve::{ENVIRONMENT, Lease, Servers};
use crate::config::{self, Config, File, Key, Model, Overrides, Serve, Stamp};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::{Event, kind};
use crate::secret::Secret;

/// How long a `key_cmd` may take: it may ask a person to unlock a store.
const KEY_CMD: Duration = Duration::from_secs(60);
/// How long the output of a `key_cmd` is used before it is run again.
const KEY_AGE: Duration = Duration::from_secs(3600);
/// How long a local server that was found is taken to be there.
const FOUND_AGE: Duration = Duration::from_secs(600);

/// What is known about models between two prompts.
#[derive(Debug)]
pub struct Models {
    paths: Paths,
    file: Mutex<Option<(Stamp, Arc<File>)>>,
    keys: tokio::sync::Mutex<HashMap<String, (Instant, Secret)>>,
    /// What was found last, when, and with which variables.
    found: tokio::sync::Mutex<Option<Remembered>>,
    /// What the person was told about it already.
    told: Mutex<BTreeSet<String>>,
    servers: Servers,
}

/// What was found, when, and with which variables.
type Remembered = (Instant, BTreeMap<String, String>, Found);

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
    /// How it was found, where it is not configured.
    found: Option<String>,
    /// Its server, which is started by us when it is needed.
    pub serve: Option<Serve>,
    /// Holds its server while the prompt is answered.
    lease: Option<Lease>,
}

impl Models {
    /// Nothing is read yet.
    pub fn new(paths: &Paths) -> Models {
        Models {
            paths: paths.clone(),
            file: Mutex::default(),
            keys: tokio::sync::Mutex::default(),
            found: tokio::sync::Mutex::default(),
            told: Mutex::default(),
            servers: Servers::new(paths.state.clone(), crate::paths::environment(ENVIRONMENT)),
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

    /// A request has failed: what was remembered may be out of date.
    pub async fn failed(&self) {
        self.keys.lock().await.clear();
        *self.found.lock().await = None;
    }

    /// Stops the model servers.
    pub async fn shutdown(&self) {
        self.servers.shutdown().await;
    }
}

/// What to say when there is no model at all.
pub fn nothing_found() -> Error {
    Error::config("no model: nothing is configured, no key is set and no local server answers").hint(
        "set OPENAI_API_KEY, or start a local server (ollama serve), or run: aish-helper model install smollm2",
    )
}

/// Chooses the model for a prompt and makes it ready: gets its key and starts its server.
///
/// The order is: `-m`, the session's choice, the environment, the file; then what is found. `None` is
/// nothing configured and nothing found.
///
/// # Errors
/// The config is wrong, there is no such model, or its key or its server cannot be had.
pub async fn choose(
    daemon: &Daemon,
    connection: &mut Connection,
    flag: Option<String>,
    of_session: Option<&str>,
    overrides: &BTreeMap<String, String>,
) -> Result<Option<Chosen>> {
    let chosen = look(daemon, connection, flag, of_session, overrides).await?;
    let Some(mut chosen) = chosen else {
        return Ok(None);
    };
    if let Some(serve) = chosen.serve.take() {
        let models = &daemon.models;
        let start = models
            .servers
            .ensure(&chosen.name, &serve.command, serve.idle);
        let lease = connection.unless_cancelled(start).await?;
        chosen.endpoint.base_url = lease.base_url().to_string();
        chosen.lease = Some(lease);
    }
    if let Some(how) = &chosen.found {
        let news = format!(
            "using {} at {} ({how})",
            chosen.endpoint.model, chosen.endpoint.base_url
        );
        chosen.notice = lock(&daemon.models.told)
            .insert(news.clone())
            .then_some(news);
    }
    Ok(Some(chosen))
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
    let current = config.current()?;
    // A sole model with a server of ours is the tiny one: it answers when nothing better is there.
    let last_resort = current.filter(|m| m.serve.is_some() && config.default_model.is_none());
    if (current.is_none() || last_resort.is_some())
        && let Some(found) = find(daemon, connection).await?
    {
        return Ok(Some(Chosen {
            name: found.name,
            endpoint: found.endpoint,
            price: None,
            window: None,
            config,
            notice: None,
            found: Some(found.how),
            serve: None,
            lease: None,
        }));
    }
    let Some(model) = current else {
        return Ok(None);
    };
    let key = key(&daemon.models, connection, &config, model).await?;
    Ok(Some(Chosen {
        name: model.name.clone(),
        endpoint: endpoint(model, key),
        price: model.price.map(|p| (p.input, p.output)),
        window: model.context_window,
        notice: None,
        found: last_resort.map(|_| "the tiny model, only for trying things out".to_string()),
        serve: model.serve.clone(),
        lease: None,
        config: config.clone(),
    }))
}

/// Looks for keys in the client's environment and for local servers; a hit is remembered for a while.
async fn find(daemon: &Daemon, connection: &mut Connection) -> Result<Option<Found>> {
    let names = detect::variables().map(str::to_string).collect();
    let variables = variables(connection, names).await?;
    let mut remembered = daemon.models.found.lock().await;
    if let Some((since, seen, found)) = &*remembered
        && since.elapsed() < FOUND_AGE
        && *seen == variables
    {
        return Ok(Some(found.clone()));
    }
    let found = detect::detect(&daemon.broker, &variables, &detect::LOCALS).await?;
    *remembered = found
        .clone()
        .map(|found| (Instant::now(), variables, found));
    Ok(found)
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
            let get = async {
                let mut keys = models.keys.lock().await;
                if let Some((since, key)) = keys.get(command)
                    && since.elapsed() < KEY_AGE
                {
                    return Ok(Some(key.clone()));
                }
                let output = run_key_cmd(command, &model.name).await?;
                let key = Secret::new(config::key::from_output(config, model, &output)?);
                keys.insert(command.clone(), (Instant::now(), key.clone()));
                Ok(Some(key))
            };
            connection.unless_cancelled(get).await
        }
    }
}

/// Asks the client for variables of its environment. The answer has those that are set.
async fn variables(
    connection: &mut Connection,
    names: Vec<String>,
) -> Result<BTreeMap<String, String>> {
    connection
        .send_json(kind::EVENT, &Event::NeedEnv { names })
        .await?;
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
