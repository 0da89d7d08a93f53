//! Which model a prompt goes to, with its key and, where it needs one, its server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Daemon;
use super::audit_log::AuditLog;
use super::client_link::{ClientHandle, ClientVariables};
use super::keys::KeyCommands;
use crate::broker::ModelEndpoint;
use crate::broker::autodetect::{self, DetectedModel};
use crate::broker::model_server::{ModelServers, SERVER_ENVIRONMENT, ServerLease};
use crate::config::{
    self, Config, ConfigFile, ConfigOverrides, ConfigStamp, KeySource, LocalServer, ModelSettings,
};
use crate::error::{Error, Result};
use crate::mcp::learn_configured;
use crate::paths::Paths;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::feed::TurnFeed;
use crate::session::lock;

/// How long a local server that was found is taken to be there.
const FOUND_AGE: Duration = Duration::from_secs(600);
/// A model's server that starts within this time needs no word about it.
const STARTING: Duration = Duration::from_secs(1);

/// What is known about models between two prompts.
#[derive(Debug)]
pub struct ModelRegistry {
    paths: Paths,
    /// Where it is recorded that the rules have changed.
    acts: Arc<AuditLog>,
    file: Mutex<Option<(ConfigStamp, Arc<ConfigFile>)>>,
    /// The configuration resolved last: a turn asks for the same one with each tool call.
    resolved: Mutex<Option<ResolvedConfig>>,
    keys: KeyCommands,
    /// What was found last, when, and with which variables.
    found: Mutex<Option<DetectionCache>>,
    /// What the person was told about it already.
    told: Mutex<BTreeSet<String>>,
    servers: ModelServers,
}

/// A resolved configuration, and what it was resolved from.
type ResolvedConfig = (Arc<ConfigFile>, ConfigOverrides, Arc<Config>);

/// What was found, when, and with which variables.
type DetectionCache = (Instant, BTreeMap<String, String>, DetectedModel);

/// A model, ready to be asked.
#[derive(Debug)]
pub struct ChosenModel {
    /// Its name in the config, or of what was found.
    pub name: String,
    /// Where and how to ask it.
    pub endpoint: ModelEndpoint,
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
    pub serve: Option<LocalServer>,
    /// Holds its server while the prompt is answered.
    lease: Option<ServerLease>,
}

impl ChosenModel {
    /// Whether its key is still to be fetched.
    pub fn lacks_key(&self) -> bool {
        self.key_cmd.is_some() && self.endpoint.key.is_none()
    }
}

impl ModelRegistry {
    /// Nothing is read yet.
    pub fn new(paths: &Paths, acts: Arc<AuditLog>) -> ModelRegistry {
        ModelRegistry {
            paths: paths.clone(),
            acts,
            file: Mutex::default(),
            resolved: Mutex::default(),
            keys: KeyCommands::default(),
            found: Mutex::default(),
            told: Mutex::default(),
            servers: ModelServers::new(
                paths.state.clone(),
                crate::paths::environment(SERVER_ENVIRONMENT),
            ),
        }
    }

    /// The configuration in force; the file is read again only when it has changed.
    ///
    /// # Errors
    /// The file or an override is wrong.
    pub fn config(&self, overrides: &ConfigOverrides) -> Result<Arc<Config>> {
        let stamp = ConfigStamp::of(&self.paths);
        let mut cached = lock(&self.file);
        let file = match &*cached {
            Some((seen, file)) if *seen == stamp => file.clone(),
            _ => {
                let file = Arc::new(config::read_file(&self.paths)?);
                // The rules of the file alone: what else an asking shell brings is no change of them.
                if let Ok(plain) = config::resolve::resolve(&file, &ConfigOverrides::default()) {
                    self.acts.rules(&plain.policy);
                    self.acts.sync_every_record(plain.history.sync);
                    plain.mcp.servers.values().for_each(learn_configured);
                }
                *cached = Some((stamp, file.clone()));
                file
            }
        };
        drop(cached);
        let mut resolved = lock(&self.resolved);
        if let Some((of, with, config)) = &*resolved
            && Arc::ptr_eq(of, &file)
            && with == overrides
        {
            return Ok(config.clone());
        }
        let config = Arc::new(config::resolve::resolve(&file, overrides)?);
        *resolved = Some((file, overrides.clone(), config.clone()));
        Ok(config)
    }

    /// What the commands have printed.
    pub fn keys(&self) -> &KeyCommands {
        &self.keys
    }

    /// A request has failed: what was remembered for it may be out of date.
    pub fn failed(&self, chosen: &ChosenModel, error: &Error) {
        if error.key_rejected
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

/// What the choice of a model needs of the client: collected before the turn starts.
#[derive(Debug)]
pub struct ModelPlan {
    /// The configuration in force for the request.
    pub config: Arc<Config>,
    /// The variables that detection looks at, where it is needed.
    detection: Option<ClientVariables>,
    /// The variable that holds the model's key.
    key: ClientVariables,
}

/// Resolves the configuration and asks the client for the variables that the choice of a model needs.
///
/// The order is: `-m`, the session's choice, the environment, the file; then detection.
///
/// # Errors
/// The configuration is wrong, there is no such model, or the client has hung up.
pub async fn prepare(
    daemon: &Daemon,
    client: &ClientHandle,
    flag: Option<String>,
    of_session: Option<String>,
    overrides: &BTreeMap<String, String>,
) -> Result<ModelPlan> {
    let overrides = ConfigOverrides::from_map(overrides)?.with_model(flag.or(of_session));
    let config = daemon.models.config(&overrides)?;
    let current = config.current()?;
    let detection = match current.is_none() || is_last_resort(&config, current) {
        true => {
            let names = autodetect::variables().map(str::to_string).collect();
            Some(client.variables(names).await?)
        }
        false => None,
    };
    // Asked of the client, whose shell has its present value: the daemon's own environment is that of
    // whichever shell started it.
    let key = match current.map(|model| &model.key) {
        Some(KeySource::Env(name)) => client.variables(vec![name.clone()]).await?,
        _ => ClientVariables::new(),
    };
    Ok(ModelPlan {
        config,
        detection,
        key,
    })
}

/// Returns whether the only model is one with a server of ours: the tiny one, which answers when nothing better is
/// there.
fn is_last_resort(config: &Config, current: Option<&ModelSettings>) -> bool {
    current.is_some_and(|m| m.serve.is_some()) && config.default_model.is_none()
}

/// Chooses the model of a plan and makes it ready: gets its key and starts its server. `None` means that nothing is
/// configured and nothing was detected.
///
/// # Errors
/// The key or the server is not available, or the turn was cancelled.
pub async fn choose(
    daemon: &Daemon,
    plan: &ModelPlan,
    feed: &TurnFeed,
) -> Result<Option<ChosenModel>> {
    let Some(mut chosen) = look(daemon, plan, feed).await? else {
        return Ok(None);
    };
    let models = &daemon.models;
    if let Some(command) = chosen.key_cmd.as_ref().filter(|_| chosen.lacks_key())
        && let Some(model) = chosen.config.current()?
    {
        let whose = format!("the key_cmd of model {}", model.name);
        let read = |output: &[u8]| config::key::key_from_output(&chosen.config, model, output);
        let get = models.keys.get(command, &whose, read);
        chosen.endpoint.key = Some(feed.unless_cancelled(get).await?);
    }
    for (_, value) in &chosen.endpoint.headers {
        global_redactor().add_secret("model-header", value);
    }
    if let Some(key) = &chosen.endpoint.key {
        global_redactor().add_secret("model-key", key.expose().trim());
    }
    if let Some(serve) = chosen.serve.take() {
        let start = models
            .servers
            .ensure(&chosen.name, &serve.command, serve.idle);
        let mut start = pin!(start);
        let soon = async { Ok(tokio::time::timeout(STARTING, start.as_mut()).await.ok()) };
        let lease = match feed.unless_cancelled(soon).await? {
            Some(lease) => lease?,
            None => {
                feed.notice(format!("starting the server of model {} …", chosen.name));
                feed.unless_cancelled(start).await?
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
    plan: &ModelPlan,
    feed: &TurnFeed,
) -> Result<Option<ChosenModel>> {
    let config = plan.config.clone();
    let current = config.current()?;
    if let Some(variables) = &plan.detection
        && let Some(found) = find(daemon, variables, feed).await?
    {
        return Ok(Some(ChosenModel {
            name: found.name,
            endpoint: found.endpoint,
            price: None,
            window: None,
            config,
            notice: None,
            found: Some(found.found_by),
            key_cmd: None,
            serve: None,
            lease: None,
        }));
    }
    let Some(model) = current else {
        return Ok(None);
    };
    let (key, key_cmd) = match &model.key {
        KeySource::None => (None, None),
        KeySource::Env(_) => {
            let key = config::key::key_from_variables(&config, model, &plan.key)?;
            (key.map(Secret::new), None)
        }
        KeySource::Cmd(command) => (daemon.models.keys.known(command), Some(command.clone())),
    };
    let last_resort = is_last_resort(&config, current);
    Ok(Some(ChosenModel {
        name: model.name.clone(),
        endpoint: endpoint(model, key),
        price: model.price.map(|p| (p.input, p.output)),
        window: model.context_window,
        notice: None,
        found: last_resort.then(|| "the tiny model, only for trying things out".to_string()),
        key_cmd,
        serve: model.serve.clone(),
        lease: None,
        config: config.clone(),
    }))
}

/// Looks for keys in the client's environment and for local servers. A hit is remembered for a while.
async fn find(
    daemon: &Daemon,
    variables: &ClientVariables,
    feed: &TurnFeed,
) -> Result<Option<DetectedModel>> {
    if let Some((since, seen, found)) = &*lock(&daemon.models.found)
        && since.elapsed() < FOUND_AGE
        && seen == variables
    {
        return Ok(Some(found.clone()));
    }
    let look = autodetect::detect(&daemon.broker, variables, &autodetect::LOCAL_SERVERS);
    let found = feed.unless_cancelled(look).await?;
    *lock(&daemon.models.found) = found
        .clone()
        .map(|found| (Instant::now(), variables.clone(), found));
    Ok(found)
}

fn endpoint(model: &ModelSettings, key: Option<Secret>) -> ModelEndpoint {
    ModelEndpoint {
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
            KeySource::None => None,
            KeySource::Env(name) => Some(name.clone()),
            KeySource::Cmd(_) => Some(format!("the key_cmd of model {}", model.name)),
        },
    }
}
