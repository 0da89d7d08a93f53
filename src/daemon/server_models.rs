//! The models that the servers of the configuration and the known servers offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::config::key::key_variables;
use crate::config::{
    Config, ConfigOverrides, KNOWN_SERVERS, KeySource, KnownServer, ModelSettings, model_on_server,
};
use crate::error::Result;
use crate::protocol::{AvailableModel, ServerModels};
use crate::services::SharedServices;
use crate::services::client_handle::{ClientHandle, ClientVariables};
use crate::services::model;

/// A server, and whether it is left out where it does not answer.
struct ListedServer {
    name: String,
    settings: ModelSettings,
    is_guess: bool,
}

/// Asks every server for its models: those of the configuration, those on this machine at their usual ports, and the
/// known ones whose key is in the client's environment.
///
/// # Errors
/// The configuration is invalid, or the client has hung up.
pub async fn list(
    services: &Arc<SharedServices>,
    client: &ClientHandle,
    overrides: &BTreeMap<String, String>,
) -> Result<Vec<ServerModels>> {
    let config = services
        .models
        .config(&ConfigOverrides::from_map(overrides)?)?;
    let configured = config.models.values().flat_map(key_variables);
    let mut names: BTreeSet<String> = configured.map(str::to_owned).collect();
    let known = KNOWN_SERVERS.iter().flat_map(KnownServer::key_variables);
    names.extend(known.map(str::to_owned));
    let keys = client.variables(names.into_iter().collect()).await?;
    let mut asked = JoinSet::new();
    for (at, server) in servers(&config, &keys).into_iter().enumerate() {
        let (services, config, keys) = (services.clone(), config.clone(), keys.clone());
        let feed = client.feed.clone();
        asked.spawn(async move {
            let settings = &server.settings;
            let offered = model::offered(&services, &config, settings, &keys, &feed).await;
            let (models, error) = match offered {
                Ok(ids) => (available(&server, ids), None),
                Err(_) if server.is_guess => return None,
                Err(e) => (Vec::new(), Some(e.message)),
            };
            let listed = ServerModels {
                base_url: server.settings.base_url,
                server: server.name,
                models,
                error,
            };
            Some((at, listed))
        });
    }
    let work = async { Ok(asked.join_all().await) };
    let mut all: Vec<_> = client
        .unless_cancelled(work)
        .await?
        .into_iter()
        .flatten()
        .collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, listed)| listed).collect())
}

/// The servers to ask, each address once.
fn servers(config: &Config, keys: &ClientVariables) -> Vec<ListedServer> {
    let mut all: Vec<ListedServer> = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, settings) in config
        .models
        .iter()
        .filter(|(_, model)| model.serve.is_none() && !model.is_aish_server)
    {
        // Models on one server may have different keys, and so different lists.
        if seen.insert((settings.base_url.clone(), key_name(settings))) {
            all.push(ListedServer {
                name: server_name(config, name, settings),
                settings: settings.clone(),
                is_guess: false,
            });
        }
    }
    let is_set = |name| keys.get(name).is_some_and(|key| !key.expose().is_empty());
    let has_key =
        |known: &KnownServer| known.key_env.is_none() || known.key_variables().any(is_set);
    for known in KNOWN_SERVERS.iter().filter(|known| has_key(known)) {
        let is_configured = config.models.contains_key(known.name)
            || seen.iter().any(|(base_url, _)| base_url == known.base_url);
        if !is_configured {
            all.push(ListedServer {
                name: known.name.to_owned(),
                settings: known.on_server("unknown"),
                is_guess: known.key_env.is_none(),
            });
        }
    }
    all
}

/// The name by which a server is listed: a model that was written down as SERVER/MODEL belongs to SERVER.
fn server_name(config: &Config, name: &str, settings: &ModelSettings) -> String {
    let server = name.split_once('/').map(|(server, _)| server);
    let same = |server: &&str| {
        model_on_server(config, &format!("{server}/x"))
            .is_some_and(|model| model.base_url == settings.base_url && model.key == settings.key)
    };
    server.filter(same).unwrap_or(name).to_owned()
}

fn key_name(settings: &ModelSettings) -> String {
    match &settings.key {
        KeySource::None => String::new(),
        KeySource::Env(name) => format!("env {name}"),
        KeySource::Cmd(command) => format!("cmd {command:?}"),
    }
}

fn available(server: &ListedServer, mut ids: Vec<String>) -> Vec<AvailableModel> {
    ids.retain(|id| !id.is_empty() && !id.contains(char::is_whitespace));
    ids.sort();
    ids.dedup();
    let facts = |id: String| {
        let settings = ModelSettings {
            model: id.clone(),
            context_window: None,
            price: None,
            ..server.settings.clone()
        };
        let (context_window, price) = model::window_and_price(&settings);
        AvailableModel {
            name: format!("{}/{id}", server.name),
            model: id,
            context_window,
            input_price: price.map(|(input, _)| input),
            output_price: price.map(|(_, output)| output),
        }
    };
    ids.into_iter().map(facts).collect()
}
