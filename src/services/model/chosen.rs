//! The model of a prompt.

use std::sync::Arc;

use crate::broker::ModelEndpoint;
use crate::broker::model_server::ServerLease;
use crate::chat::Dialect;
use crate::config::{Config, CostSetting, LocalServer};
use crate::protocol::ShownCost;
use crate::safety::budget::ModelPrice;

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
    /// Returns what is shown of the cost of its answers.
    pub fn shown_cost(&self) -> ShownCost {
        let is_free = match &self.price {
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
