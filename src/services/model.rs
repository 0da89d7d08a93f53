//! Chooses the model of a prompt, gets its key and starts its model server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::SharedServices;
use super::audit_log::AuditLog;
use super::client_handle::{ClientHandle, ClientVariables};
use super::key_commands::KeyCommands;
use crate::broker::ModelEndpoint;
use crate::broker::autodetect::{self, DetectedModel};
use crate::broker::model_server::{ModelServers, SERVER_ENVIRONMENT};
use crate::config::{
    self, Config, ConfigChanges, ConfigFile, ConfigOverrides, ConfigStamp, ModelSettings,
};
use crate::error::{Error, Result};
use crate::mcp::learn_configured;
use crate::paths::Paths;
use crate::protocol::RequestFailure;
use crate::safety::budget::ModelPrice;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::feed::TurnFeed;
use crate::session::lock;

mod chosen;

pub use self::chosen::{ChosenModel, window_and_price};
use self::chosen::{configured, known};

/// How long a detected model is used before detection runs again.
const DETECTION_MAX_AGE: Duration = Duration::from_secs(600);
/// A model server that takes longer to start is reported to the user.
const QUICK_START: Duration = Duration::from_secs(1);

/// The configuration, keys and detected models, cached between prompts.
#[derive(Debug)]
pub struct ModelRegistry {
    paths: Paths,
    /// Records changes of the rules.
    audit_log: Arc<AuditLog>,
    file: Mutex<Option<(ConfigStamp, Arc<ConfigFile>)>>,
    /// Changes of the file that loosen it and wait for a person, and the digest of those that a person has declined.
    changes: Mutex<(Option<ConfigChanges>, String)>,
    /// The configuration resolved last: a turn uses the same one for each tool call.
    resolved: Mutex<Option<ResolvedConfig>>,
    keys: KeyCommands,
    /// The last detection.
    found: Mutex<Option<DetectionCache>>,
    /// Notices about detected models that were shown already.
    shown_notices: Mutex<BTreeSet<String>>,
    /// Models that have refused tools, as address and name.
    without_tools: Mutex<BTreeSet<(String, String)>>,
    servers: ModelServers,
}

/// A configuration file, overrides, and the configuration resolved from them.
type ResolvedConfig = (Arc<ConfigFile>, ConfigOverrides, Arc<Config>);

/// Time and variables of a detection, and the detected model.
type DetectionCache = (Instant, ClientVariables, DetectedModel);

impl ModelRegistry {
    /// Creates an empty registry.
    pub fn new(paths: &Paths, audit_log: Arc<AuditLog>) -> ModelRegistry {
        ModelRegistry {
            paths: paths.clone(),
            audit_log,
            file: Mutex::default(),
            changes: Mutex::default(),
            resolved: Mutex::default(),
            keys: KeyCommands::default(),
            found: Mutex::default(),
            shown_notices: Mutex::default(),
            without_tools: Mutex::default(),
            servers: ModelServers::new(
                paths.state.clone(),
                crate::paths::child_environment(SERVER_ENVIRONMENT),
            ),
        }
    }

    /// Remembers that a model takes no tools.
    pub fn set_takes_no_tools(&self, endpoint: &ModelEndpoint) {
        let key = (endpoint.base_url.to_string(), endpoint.model.clone());
        lock(&self.without_tools).insert(key);
    }

    /// Whether a model has refused tools since the daemon started.
    pub fn takes_no_tools(&self, endpoint: &ModelEndpoint) -> bool {
        let key = (endpoint.base_url.to_string(), endpoint.model.clone());
        lock(&self.without_tools).contains(&key)
    }

    /// Reads the configuration on another thread if the file has changed, so that a slow disk does not delay the other
    /// requests of the daemon. [`ModelRegistry::config`] reports faults in the file.
    pub async fn refresh(&self) {
        let stamp = ConfigStamp::of(&self.paths);
        let is_current = |(seen, _): &(ConfigStamp, Arc<ConfigFile>)| *seen == stamp;
        if lock(&self.file).as_ref().is_some_and(is_current) {
            return;
        }
        let paths = self.paths.clone();
        let read = tokio::task::spawn_blocking(move || config::read_confirmed(&paths));
        if let Ok(Ok((file, changes))) = read.await {
            self.store(&mut lock(&self.file), stamp, file, changes);
        }
    }

    /// Puts a file that was read into the cache.
    fn store(
        &self,
        cached: &mut Option<(ConfigStamp, Arc<ConfigFile>)>,
        stamp: ConfigStamp,
        file: ConfigFile,
        changes: Option<ConfigChanges>,
    ) -> Arc<ConfigFile> {
        let file = Arc::new(file);
        lock(&self.changes).0 = changes;
        for mistake in config::mistakes(&file) {
            tracing::warn!("{mistake}");
        }
        // Without overrides: only changes of the file are recorded, not the environment of a shell.
        if let Ok(plain) = config::resolve::resolve(&file, &ConfigOverrides::default()) {
            self.audit_log.rules(&plain.policy);
            self.audit_log.sync_every_record(plain.history.sync);
            plain.mcp.servers.values().for_each(learn_configured);
        }
        *cached = Some((stamp, file.clone()));
        file
    }

    /// Returns the configuration in force, without changes that wait for a confirmation. The file is read again only if it
    /// has changed since [`ModelRegistry::refresh`].
    ///
    /// # Errors
    /// The file or an override is invalid.
    pub fn config(&self, overrides: &ConfigOverrides) -> Result<Arc<Config>> {
        let stamp = ConfigStamp::of(&self.paths);
        let mut cached = lock(&self.file);
        let file = match &*cached {
            Some((seen, file)) if *seen == stamp => file.clone(),
            _ => {
                let (file, changes) = config::read_confirmed(&self.paths)?;
                self.store(&mut cached, stamp, file, changes)
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

    /// Returns the changes of the configuration that wait for a confirmation.
    pub fn pending_changes(&self) -> Option<ConfigChanges> {
        // A file that cannot be read is reported by the request.
        self.config(&ConfigOverrides::default()).ok()?;
        lock(&self.changes).0.clone()
    }

    /// Returns those that no person has declined yet.
    pub fn unseen_changes(&self) -> Option<ConfigChanges> {
        let changes = self.pending_changes()?;
        (changes.digest != lock(&self.changes).1).then_some(changes)
    }

    /// Uses the changes that a person was shown, or keeps the stricter configuration until the file changes again.
    ///
    /// # Errors
    /// As for [`config::confirm`].
    pub fn decide_on_changes(&self, digest: &str, accept: bool) -> Result<()> {
        if !accept {
            digest.clone_into(&mut lock(&self.changes).1);
            return Ok(());
        }
        config::confirm(&self.paths, digest)?;
        *lock(&self.file) = None;
        Ok(())
    }

    /// Returns the keys printed by commands.
    pub fn keys(&self) -> &KeyCommands {
        &self.keys
    }

    /// Drops cached data that may have caused a failed request: a rejected key, a detected model.
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

/// Returns the error when no model is detected, and none is configured or all wait for a confirmation.
pub fn nothing_found(config: &Config) -> Error {
    if let Some(name) = config.unconfirmed_models.first() {
        let e = config.missing_model(name);
        return Error {
            message: format!("no model: {}", e.message),
            ..e
        };
    }
    Error::config("no model: nothing is configured, no key is set and no local server answers").hint(
        "set OPENAI_API_KEY, or start a local server (ollama serve), or run: aish-helper model add, or: aish-helper model install smollm2",
    )
}

/// Returns the failure of a prompt for [`nothing_found`].
pub fn nothing_configured(config: &Config) -> RequestFailure {
    RequestFailure {
        nothing_configured: config.unconfirmed_models.is_empty(),
        ..RequestFailure::from(&nothing_found(config))
    }
}

/// Input for the choice of a model, collected from the client before the turn starts.
#[derive(Debug)]
pub struct ModelPlan {
    /// The configuration in force for the request.
    pub config: Arc<Config>,
    /// Variables for detection; `None` if a model is configured.
    detection: Option<ClientVariables>,
    /// The variables that hold the keys of the model and of its fallbacks.
    key: ClientVariables,
}

/// The purpose that a model is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelJob {
    /// A prompt.
    Prompt,
    /// A single command: `[jobs] command`.
    Command,
}

/// Resolves the configuration and asks the client for the variables that the choice of a model needs.
///
/// The order is: `-m`, the session's choice, the environment, the file; then detection.
///
/// # Errors
/// The configuration is wrong, there is no such model, or the client has hung up.
pub async fn prepare(
    services: &SharedServices,
    client: &ClientHandle,
    flag: Option<String>,
    of_session: Option<String>,
    overrides: &BTreeMap<String, String>,
    job: ModelJob,
) -> Result<ModelPlan> {
    let has_flag = flag.is_some();
    let overrides = ConfigOverrides::from_map(overrides)?.with_model(flag.or(of_session));
    let mut config = services.models.config(&overrides)?;
    if let (ModelJob::Command, false, Some(name)) = (job, has_flag, config.jobs.command.clone()) {
        config = services.models.config(&overrides.with_model(Some(name)))?;
    }
    let current = config.current()?;
    let detection = match current.is_none() || is_last_resort(&config, current) {
        true => {
            let names = autodetect::variables().map(str::to_string).collect();
            Some(client.variables(names).await?)
        }
        false => None,
    };
    // Requested from the client, whose shell has the current value: the daemon's own environment is that of the shell
    // that started it.
    let fallbacks = current.into_iter().flat_map(|model| &model.fallback);
    let fallbacks = fallbacks.filter_map(|name| config.models.get(name));
    let names: BTreeSet<String> = current
        .into_iter()
        .chain(fallbacks)
        .flat_map(config::key::key_variables)
        .map(str::to_owned)
        .collect();
    let key = match names.is_empty() {
        false => client.variables(names.into_iter().collect()).await?,
        true => ClientVariables::new(),
    };
    Ok(ModelPlan {
        config,
        detection,
        key,
    })
}

/// Returns whether the configured model is only a fallback: one with its own model server that is not the default, such
/// as the bundled tiny model.
fn is_last_resort(config: &Config, current: Option<&ModelSettings>) -> bool {
    current.is_some_and(|m| m.serve.is_some()) && config.default_model.is_none()
}

/// Chooses the model of a plan and makes it ready: gets its key and starts its server. `None` means that nothing is
/// configured and nothing was detected.
///
/// # Errors
/// The key or the server is not available, or the turn was cancelled.
pub async fn choose(
    services: &SharedServices,
    plan: &ModelPlan,
    feed: &TurnFeed,
) -> Result<Option<ChosenModel>> {
    let Some(mut chosen) = look(services, plan, feed).await? else {
        return Ok(None);
    };
    make_ready(services, &mut chosen, feed).await?;
    Ok(Some(chosen))
}

/// Returns the fallback of this name, ready for requests.
///
/// # Errors
/// As for [`choose`].
pub async fn fallback(
    services: &SharedServices,
    plan: &ModelPlan,
    name: &str,
    feed: &TurnFeed,
) -> Result<ChosenModel> {
    let model = plan.config.models.get(name);
    // The configuration was checked when it was read.
    let model = model.ok_or_else(|| Error::config(format!("no model named {name}")))?;
    let mut chosen = configured(services, plan, model)?;
    make_ready(services, &mut chosen, feed).await?;
    Ok(chosen)
}

/// Asks the server of a model for its models, with the key of this model.
///
/// # Errors
/// The key is not available, or the server does not answer with a list.
pub async fn offered(
    services: &SharedServices,
    config: &Arc<Config>,
    model: &ModelSettings,
    key: &ClientVariables,
    feed: &TurnFeed,
) -> Result<Vec<String>> {
    let plan = ModelPlan {
        config: config.clone(),
        detection: None,
        key: key.clone(),
    };
    let mut chosen = configured(services, &plan, model)?;
    make_ready(services, &mut chosen, feed).await?;
    Ok(services.broker.probe(&chosen.endpoint).await?.models)
}

/// Gets the key of a model and starts its server.
async fn make_ready(
    services: &SharedServices,
    chosen: &mut ChosenModel,
    feed: &TurnFeed,
) -> Result<()> {
    let models = &services.models;
    if let Some(command) = chosen.key_cmd.as_ref().filter(|_| chosen.lacks_key())
        && let Some(model) = chosen.config.models.get(&chosen.name)
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
        let soon = async { Ok(tokio::time::timeout(QUICK_START, start.as_mut()).await.ok()) };
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
        let notice = format!(
            "using {} at {} ({how})",
            chosen.endpoint.model, chosen.endpoint.base_url
        );
        let is_new = lock(&models.shown_notices).insert(notice.clone());
        chosen.notice = is_new.then_some(notice);
    }
    Ok(())
}

/// Chooses the model like [`choose`], without starting a server or running a `key_cmd`.
///
/// # Errors
/// As for [`choose`].
pub async fn look(
    services: &SharedServices,
    plan: &ModelPlan,
    feed: &TurnFeed,
) -> Result<Option<ChosenModel>> {
    let config = plan.config.clone();
    let current = config.current()?;
    if let Some(variables) = &plan.detection
        && let Some(found) = find(services, variables, feed).await?
    {
        let known = known(&found.endpoint);
        // Without a key the server is one of those on this machine.
        let is_local = found.endpoint.key.is_none();
        return Ok(Some(ChosenModel {
            name: found.name,
            endpoint: found.endpoint,
            price: if is_local {
                Some(ModelPrice::default())
            } else {
                known.price
            },
            max_output: known.max_output,
            window: known.window,
            config,
            notice: None,
            is_aish_server: false,
            found: Some(found.found_by),
            key_cmd: None,
            serve: None,
            lease: None,
        }));
    }
    let Some(model) = current else {
        return Ok(None);
    };
    let mut chosen = configured(services, plan, model)?;
    if is_last_resort(&config, current) {
        chosen.found = Some(match model.name.as_str() {
            "smollm2" => "the tiny model, only for trying things out".to_owned(),
            _ => "installed on this machine".to_owned(),
        });
    }
    Ok(Some(chosen))
}

/// Detects a model from keys in the client's environment and local servers. A hit is cached.
async fn find(
    services: &SharedServices,
    variables: &ClientVariables,
    feed: &TurnFeed,
) -> Result<Option<DetectedModel>> {
    if let Some((since, seen, found)) = &*lock(&services.models.found)
        && since.elapsed() < DETECTION_MAX_AGE
        && seen == variables
    {
        return Ok(Some(found.clone()));
    }
    let environment = exposed(variables);
    let look = autodetect::detect(&services.broker, &environment, &autodetect::LOCAL_SERVERS);
    let found = feed.unless_cancelled(look).await?;
    *lock(&services.models.found) = found
        .clone()
        .map(|found| (Instant::now(), variables.clone(), found));
    Ok(found)
}

/// Returns the variables as plain text, for functions that read a key from them. Do not store the result.
fn exposed(variables: &ClientVariables) -> BTreeMap<String, String> {
    let expose = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
    variables.iter().map(expose).collect()
}
