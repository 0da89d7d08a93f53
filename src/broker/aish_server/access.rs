//! Who a server is, and whether it accepts a token.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::call::{ServerCall, plain_line};
use crate::broker::{Broker, ModelEndpoint};
use crate::chat::Dialect;
use crate::error::Result;
use crate::secret::Secret;

/// Maximum silence of a server.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Returns the endpoint of the server with this origin.
pub fn server_endpoint(origin: &str, token: Option<Secret>) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Chat,
        is_mistral: false,
        base_url: origin.to_owned(),
        model: origin.to_owned(),
        key: token,
        headers: Vec::new(),
        temperature: None,
        max_tokens: None,
        idle_timeout: MAX_SILENCE,
        thinks: false,
        use_tool_role: true,
        images: false,
        key_name: None,
    }
}

/// The description that another server gives of itself.
#[derive(Deserialize)]
struct VersionReply {
    name: String,
    version: String,
}

impl Broker {
    /// Asks a server for its version. The endpoint needs no token.
    ///
    /// # Errors
    /// The server is not reached, or is not an aish server.
    pub async fn server_version(&self, endpoint: &ModelEndpoint) -> Result<String> {
        let call = ServerCall::new(&self.transport, endpoint);
        let version: VersionReply = call.reply(Method::GET, &["version"], None).await?;
        if version.name != "aish" {
            return Err(call.not_aish());
        }
        Ok(plain_line(&version.version, 40))
    }

    /// Checks that a server accepts the token.
    ///
    /// # Errors
    /// The server refuses it ([`crate::error::Error::key_rejected`]), or does not answer.
    pub async fn check_server_token(&self, endpoint: &ModelEndpoint) -> Result<()> {
        let call = ServerCall::new(&self.transport, endpoint);
        let path = ["v1", "agents"];
        call.reply::<Value>(Method::GET, &path, None)
            .await
            .map(drop)
    }
}
