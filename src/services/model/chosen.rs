//! The model of a prompt.

use std::sync::Arc;

use chrono::Utc;

use super::{ModelPlan, exposed};
use crate::broker::ModelEndpoint;
use crate::broker::catalog::{self, KnownModel};
use crate::broker::model_server::ServerLease;
use crate::broker::provider::is_mistral;
use crate::chat::Dialect;
use crate::config::{
    self, Config, CostSetting, KeySource, LocalServer, ModelSettings, ProviderKind,
};
use crate::error::{Error, Result};
use crate::protocol::ShownCost;
use crate::safety::budget::{ModelPrice, TokenRates};
use crate::secret::Secret;
use crate::services::SharedServices;

/// A model that is ready for requests.
#[derive(Debug)]
pub struct ChosenModel {
    /// The name in the configuration, or that of the detected model.
    pub name: String,
    /// The endpoint.
    pub endpoint: ModelEndpoint,
    /// The price; `None` if it is unknown.
    pub price: Option<ModelPrice>,
    /// The most tokens that an answer has, where that is known.
    pub max_output: Option<u32>,
    /// Context window in tokens.
    pub window: Option<u32>,
    /// The configuration in force for this prompt.
    pub config: Arc<Config>,
    /// A notice for the user about the choice.
    pub notice: Option<String>,
    /// Whether it is another aish server.
    pub is_aish_server: bool,
    /// How the model was detected; `None` if it is configured.
    pub(super) found: Option<String>,
    /// The command that prints the key.
    pub(super) key_cmd: Option<String>,
    /// The model server that the daemon starts on demand.
    pub serve: Option<LocalServer>,
    /// Keeps the model server running while the prompt is answered.
    pub(super) lease: Option<ServerLease>,
}

impl ChosenModel {
    /// Returns how the cost of its answers is shown.
    pub fn shown_cost(&self) -> ShownCost {
        let is_free = match &self.price {
            // The request costs nothing here, but there.
            _ if self.is_aish_server => false,
            Some(price) => price.is_free(),
            // Usually a model server of the user.
            None => self.endpoint.dialect == Dialect::Chat && self.endpoint.is_on_this_machine(),
        };
        match self.config.ui.cost {
            CostSetting::Always => ShownCost::Always,
            CostSetting::Auto if !is_free => ShownCost::OnTerminal,
            CostSetting::Auto | CostSetting::Never => ShownCost::Nothing,
        }
    }

    /// Returns whether the key has not been fetched yet.
    pub fn lacks_key(&self) -> bool {
        self.key_cmd.is_some() && self.endpoint.key.is_none()
    }
}

/// Returns a model of the configuration.
pub(super) fn configured(
    services: &SharedServices,
    plan: &ModelPlan,
    model: &ModelSettings,
) -> Result<ChosenModel> {
    let config = &plan.config;
    let mut endpoint = endpoint(model);
    let mut key_cmd = None;
    match &model.key {
        KeySource::None => {}
        KeySource::Env(_) => {
            let found = config::key::key_from_variables(config, model, &exposed(&plan.key))?;
            let (name, key) = found.unzip();
            endpoint.key = key.map(Secret::new);
            endpoint.key_name = name;
        }
        KeySource::Cmd(command) => {
            endpoint.key = services.models.keys.known(command);
            endpoint.key_name = Some(format!("the key_cmd of model {}", model.name));
            key_cmd = Some(command.clone());
        }
    }
    if model.is_aish_server {
        endpoint.key = config::server_tokens::load(&services.paths, &model.base_url)?;
        if endpoint.key.is_none() {
            let message = format!("no token is stored for {}", model.base_url);
            let hint = format!("store it: aish attach {}", model.base_url);
            return Err(Error::config(message).hint(hint));
        }
    }
    let known = facts(model, &endpoint);
    Ok(ChosenModel {
        name: model.name.clone(),
        endpoint,
        price: known.price,
        max_output: known.max_output,
        window: known.window,
        notice: None,
        is_aish_server: model.is_aish_server,
        found: None,
        key_cmd,
        serve: model.serve.clone(),
        lease: None,
        config: config.clone(),
    })
}

/// Returns the facts about a configured model: from the configuration, else from the catalogue.
fn facts(model: &ModelSettings, endpoint: &ModelEndpoint) -> KnownModel {
    if model.is_aish_server {
        return KnownModel {
            price: Some(ModelPrice::default()),
            ..KnownModel::default()
        };
    }
    let known = known(endpoint);
    let configured = model.price.map(|price| {
        ModelPrice::flat(TokenRates {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        })
    });
    // A model that aish runs itself costs nothing.
    let own = model.serve.as_ref().map(|_| ModelPrice::default());
    KnownModel {
        price: configured.or(own).or(known.price),
        window: model.context_window.or(known.window),
        max_output: known.max_output,
    }
}

/// Returns the context window of a configured model, and its prices per million tokens in and out, where they are known.
pub fn window_and_price(model: &ModelSettings) -> (Option<u32>, Option<(f64, f64)>) {
    let facts = facts(model, &endpoint(model));
    let rates = facts.price.map(|price| price.current.base);
    (facts.window, rates.map(|rates| (rates.input, rates.output)))
}

/// Returns the facts about a model in the catalogue.
pub(super) fn known(endpoint: &ModelEndpoint) -> KnownModel {
    let section = catalog::section(endpoint.dialect, endpoint.is_mistral, &endpoint.base_url);
    let known = section.and_then(|section| catalog::find(section, &endpoint.model, Utc::now()));
    known.unwrap_or_default()
}

fn endpoint(model: &ModelSettings) -> ModelEndpoint {
    let dialect = match model.provider {
        Some(ProviderKind::Chat | ProviderKind::Mistral) => Dialect::Chat,
        Some(ProviderKind::OpenAi) => Dialect::Responses,
        Some(ProviderKind::Gemini) => Dialect::Gemini,
        Some(ProviderKind::Anthropic) => Dialect::Anthropic,
        None => Dialect::of_host(&model.base_url),
    };
    ModelEndpoint {
        dialect,
        is_mistral: match model.provider {
            Some(provider) => provider == ProviderKind::Mistral,
            None => is_mistral(&model.base_url),
        },
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        key: None,
        headers: model.headers.clone(),
        temperature: model.temperature,
        max_tokens: model.max_tokens,
        idle_timeout: model.idle_timeout,
        thinks: false,
        use_tool_role: model.use_tool_role,
        images: model.images,
        key_name: None,
    }
}
