//! Which model a prompt goes to, with its key and, where it needs one, its server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Daemon;
use super::acts::Acts;
use super::connection::Connection;
use super::keys::Keys;
use super::session::lock;
use crate::broker::Endpoint;
use crate::broker::detect::{self, Found};
use crate::broker::serve::{ENVIRONMENT, Lease, Servers};
use crate::config::{self, Config, File, Key, Model, Overrides, Serve, Stamp};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::{Event, kind};
use crate::safety::redact::ours;
use crate::secret::Secret;

/// How long a local server that was found is taken to be there.
const FOUND_AGE: Duration = Duration::from_secs(600);
/// A model's server that starts within this time needs no word about it.
const STARTING: Duration = Duration::from_secs(1);

/// What is known about models between two prompts.
#[derive(Debug)]
pub struct Models {
    paths: Paths,
    /// Where it is recorded that the rules have changed.
    acts: Arc<Acts>,
    file: Mutex<Option<(Stamp, Arc<File>)>>,
    keys: Keys,
    /// What was found last, when, and with which variables.
    found: Mutex<Option<Remembered>>,
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
    /// The command that prints its key.
    key_cmd: Option<String>,
    /// Its server, which is started by us when it is needed.
    pub serve: Option<Serve>,
    /// Holds its server while the prompt is answered.
    lease: Option<Lease>,
}

impl Chosen {
    /// Whether its key is still to be fetched.
    pub fn lacks_key(&self) -> bool {
        self.key_cmd.is_some() && self.endpoint.key.is_none()
    }
}

impl Models {
    /// Nothing is read yet.
    pub fn new(paths: &Paths, acts: Arc<Acts>) -> Models {
        Models {
            paths: paths.clone(),
            acts,
            file: Mutex::default(),
            keys: Keys::default(),
            found: Mutex::default(),
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
                // The rules of the file alone: what else an asking shell brings is no change of them.
                if let Ok(plain) = config::source::resolve(&file, &Overrides::default()) {
                    self.acts.rules(&plain.policy);
                }
                *cached = Some((stamp, file.clone()));
                file
            }
        };
        drop(cached);
        config::source::resolve(&file, overrides).map(Arc::new)
    }

    /// What the commands have printed.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A request has failed: what was remembered for it may be out of date.
    pub fn failed(&self, chosen: &Chosen, error: &Error) {
        if error.refused
            && let (Some(command), Some(key)) = (&chosen.key_cmd, &chosen.endpoint.key)
        {
            self.keys.forget(command, key);
        }
        if chosen.found.is_some() {
            *lock(&self.found) = None;
        }
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
    let models = &daemon.models;
    if let Some(command) = chosen.key_cmd.as_ref().filter(|_| chosen.lacks_key())
        && let Some(model) = chosen.config.current()?
    {
        let whose = format!("the key_cmd of model {}", model.name);
        let read = |output: &[u8]| config::key::from_output(&chosen.config, model, output);
        let get = models.keys.get(command, &whose, read);
        chosen.endpoint.key = Some(connection.unless_cancelled(get).await?);
    }
    for (_, value) in &chosen.endpoint.headers {
        ours().know("model-header", value);
    }
    if let Some(key) = &chosen.endpoint.key {
        ours().know("model-key", key.expose().trim());
    }
    if let Some(serve) = chosen.serve.take() {
        let start = models
            .servers
            .ensure(&chosen.name, &serve.command, serve.idle);
        let mut start = pin!(start);
        let soon = async { Ok(tokio::time::timeout(STARTING, start.as_mut()).await.ok()) };
        let lease = match connection.unless_cancelled(soon).await? {
            Some(lease) => lease?,
            None => {
                let text = format!("starting the server of model {} …", chosen.name);
                let notice = Event::Notice { text };
                connection.send_json(kind::EVENT, &notice).await?;
                connection.unless_cancelled(start).await?
            }
        };
        chosen.endpoint.base_url = lease.base_url().to_string();
        chosen.lease = Some(lease);
    }
    if let Some(how) = &chosen.found {
        let news = format!(
            "using {} at {} ({how})",
            chosen.endpoint.model, chosen.endpoint.base_url
        );
        chosen.notice = lock(&models.told).insert(news.clone()).then_some(news);
    }
    Ok(Some(chosen))
}

/// As [`choose`], without starting a server or running a `key_cmd`.
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
            key_cmd: None,
            serve: None,
            lease: None,
        }));
    }
    let Some(model) = current else {
        return Ok(None);
    };
    let (key, key_cmd) = match &model.key {
        Key::None => (None, None),
        // Asked of the client, whose shell has its present value: the daemon's own environment is that
        // of whatever shell started it.
        Key::Env(name) => {
            let variables = variables(connection, vec![name.clone()]).await?;
            let key = config::key::from_env(&config, model, &variables)?;
            (key.map(Secret::new), None)
        }
        Key::Cmd(command) => (daemon.models.keys.known(command), Some(command.clone())),
    };
    Ok(Some(Chosen {
        name: model.name.clone(),
        endpoint: endpoint(model, key),
        price: model.price.map(|p| (p.input, p.output)),
        window: model.context_window,
        notice: None,
        found: last_resort.map(|_| "the tiny model, only for trying things out".to_string()),
        key_cmd,
        serve: model.serve.clone(),
        lease: None,
        config: config.clone(),
    }))
}

/// Looks for keys in the client's environment and for local servers; a hit is remembered for a while.
async fn find(daemon: &Daemon, connection: &mut Connection) -> Result<Option<Found>> {
    let names = detect::variables().map(str::to_string).collect();
    let variables = variables(connection, names).await?;
    if let Some((since, seen, found)) = &*lock(&daemon.models.found)
        && since.elapsed() < FOUND_AGE
        && *seen == variables
    {
        return Ok(Some(found.clone()));
    }
    let look = detect::detect(&daemon.broker, &variables, &detect::LOCALS);
    let found = connection.unless_cancelled(look).await?;
    *lock(&daemon.models.found) = found
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
        use_tool_role: model.use_tool_role,
        images: model.images,
        key_name: match &model.key {
            Key::None => None,
            Key::Env(name) => Some(name.clone()),
            Key::Cmd(_) => Some(format!("the key_cmd of model {}", model.name)),
        },
    }
}

/// Asks the client for variables of its environment. The answer has those that are set, or where none is, the
/// names of all others.
///
/// # Errors
/// The client has gone.
pub async fn variables(
    connection: &mut Connection,
    names: Vec<String>,
) -> Result<BTreeMap<String, String>> {
    connection
        .send_json(kind::EVENT, &Event::EnvRequested { names })
        .await?;
    connection.expect(kind::ENV).await
}
