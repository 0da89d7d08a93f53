//! OAuth login, from the server's 401 to saved tokens.

use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    OAuthClientConfig, ProtectedResourceMetadataInvalidReason as Invalid,
};
use serde::Deserialize;

use super::super::excerpt::excerpt;
use super::refresh::{is_token, root_cause, seconds};
use super::store::{ClientAuthMethod, TokenRecord, TokenStore, server_key, unix_seconds};
use super::url_guard::UrlGuard;
use crate::address::{self, NetworkZone};
use crate::config::mcp::shown_url;
use crate::error::{Error, ErrorContext, Result};
use crate::secret::Secret;

/// Client identity at an authorization server. If empty, the client registers itself (RFC 7591).
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// Client id, and secret if there is one, given out by the server's owner.
    pub given: Option<(String, Option<Secret>)>,
    /// URL of the client's metadata document, for servers that accept it as a client id.
    pub document: Option<String>,
}

/// Parameters of one login.
#[derive(Debug)]
pub struct OAuthLogin<'a> {
    /// Store for the resulting tokens.
    pub tokens: &'a TokenStore,
    /// URL of the MCP server.
    pub server: Url,
    /// Place of the server, which limits the URLs that its metadata may name.
    pub from: NetworkZone,
    /// `WWW-Authenticate` header of the server's 401; requested from the server if `None`.
    pub challenge: Option<String>,
    /// Client identity.
    pub identity: ClientIdentity,
    /// Redirect URI for the authorization server's answer.
    pub redirect: &'a str,
}

/// Parts of a token response that are saved; `rmcp` has validated the rest.
#[derive(Deserialize)]
struct LoginTokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

impl OAuthLogin<'_> {
    /// Discovers the authorization server, sends the person to its login page with `visit`, and saves the tokens.
    ///
    /// `visit` receives the URL of the login page and returns the URL that the browser was finally redirected to.
    ///
    /// # Errors
    /// The server needs no login or names a forbidden URL, the person or the authorization server refuses, or the tokens
    /// cannot be written. Nothing is saved then.
    pub async fn run(self, visit: impl AsyncFnOnce(Url) -> Result<Url>) -> Result<()> {
        let server = server_key(self.server.as_str())?;
        address::check_key_transport(&self.server).map_err(|_| {
            Error::config(format!(
                "no login at {server}: the tokens would cross the network in cleartext"
            ))
            .hint("use https://, or a numeric private address")
        })?;
        let previous = self.tokens.read(&server).unwrap_or_default();
        let guard = UrlGuard::new(self.server.clone(), self.from);
        let client = guard.client()?;
        let challenge = match &self.challenge {
            Some(challenge) => Some(challenge.clone()),
            None => fetch_challenge(&client, &self.server).await?,
        };
        if let Some(named) = challenge.as_deref().and_then(metadata_url) {
            let named = self.server.join(&named).map_or(named, String::from);
            guard.check_url("OAuth metadata", &named)?;
        }
        let login_error = |e: AuthError| login_error(&guard, &server, e);

        // Both use the guarded client; the second also accepts private addresses, as the server has one itself.
        let mut manager = match self.from {
            NetworkZone::Outside => AuthorizationManager::new(self.server.clone()).await,
            _ => AuthorizationManager::new_allowing_private_addresses(self.server.clone()).await,
        }
        .map_err(login_error)?;
        manager.with_client(client).map_err(login_error)?;
        let found = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(login_error)?;
        if !found.source.is_discovered() {
            return Err(no_login_error(&server, challenge.is_some()));
        }
        let metadata = found.metadata;
        let issuer = metadata.issuer.clone().unwrap_or_default();
        guard.check("authorization server", &issuer).await?;
        guard
            .check("login page", &metadata.authorization_endpoint)
            .await?;
        guard
            .check("token endpoint", &metadata.token_endpoint)
            .await?;
        manager.set_metadata(metadata.clone());

        let mut scopes = manager.select_initial_scopes(&[]).await;
        // Scopes that the server has asked for since the last login, and those granted by it.
        for scope in previous.into_iter().flat_map(|k| k.wanted) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let config = self
            .client_config(&mut manager, &guard, &metadata, &scopes)
            .await?;
        manager
            .configure_client(config.clone())
            .map_err(login_error)?;
        let page = manager
            .get_authorization_url(&scopes)
            .await
            .map_err(login_error)?;
        let page = Url::parse(&page).context(|| format!("{issuer} has no login page"))?;

        let answer = visit(page.clone()).await?;
        let callback = parse_callback(&page, &answer, &issuer)?;
        let token = manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.csrf_token,
                callback.issuer.as_deref(),
            )
            .await
            .map_err(login_error)?;
        let answer: LoginTokenResponse = serde_json::to_value(&token)
            .and_then(serde_json::from_value)
            .map_err(|_| Error::runtime(format!("{issuer} did not send a token")))?;
        if !answer.token_type.eq_ignore_ascii_case("bearer") || !is_token(&answer.access_token) {
            return Err(Error::runtime(format!(
                "{issuer} sent a token of an unsupported type: {}",
                excerpt(&answer.token_type)
            )));
        }
        let record = TokenRecord {
            access_token: answer.access_token,
            refresh_token: answer.refresh_token,
            expires_at: answer.expires_in.map(|s| unix_seconds().saturating_add(s)),
            scopes: manager.get_current_scopes().await,
            wanted: Vec::new(),
            issuer,
            proof: auth_method(config.client_secret.is_some(), &metadata),
            token_endpoint: metadata.token_endpoint,
            resource: parameter(&page, "resource").unwrap_or_else(|| server.clone()),
            client_id: config.client_id,
            client_secret: config.client_secret,
            server: server.clone(),
        };
        self.tokens.lock(&server).await?.write(&record).await
    }

    /// Determines the client id: the given one, the metadata document's URL, or a new registration.
    async fn client_config(
        &self,
        manager: &mut AuthorizationManager,
        guard: &UrlGuard,
        metadata: &AuthorizationMetadata,
        scopes: &[&str],
    ) -> Result<OAuthClientConfig> {
        let owned = scopes.iter().map(|s| (*s).to_owned()).collect();
        let takes_documents = metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .is_some_and(|v| v == true);
        if let Some((id, secret)) = &self.identity.given {
            let mut config = OAuthClientConfig::new(id, self.redirect).with_scopes(owned);
            config.client_secret = secret.as_ref().map(|s| s.expose().to_owned());
            return Ok(config);
        }
        if let Some(document) = self.identity.document.as_ref().filter(|_| takes_documents) {
            return Ok(OAuthClientConfig::new(document, self.redirect).with_scopes(owned));
        }
        let Some(endpoint) = &metadata.registration_endpoint else {
            return Err(Error::runtime(format!(
                "{} does not register new clients, so aish cannot log in",
                shown_url(guard.server().as_str())
            ))
            .hint("if its operator issues tokens, provide one with auth_env or auth_cmd of the server"));
        };
        guard.check("registration endpoint", endpoint).await?;
        manager
            .register_client("aish", self.redirect, scopes)
            .await
            .map_err(|e| login_error(guard, &shown_url(guard.server().as_str()), e))
    }
}

/// Returns the server's challenge to a request without a token. `ping` needs no session and leaves none behind.
async fn fetch_challenge(client: &reqwest::Client, server: &Url) -> Result<Option<String>> {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let response = client
        .post(server.clone())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .body(ping)
        .send()
        .await
        .map_err(|e| {
            let server = shown_url(server.as_str());
            Error::runtime(format!("cannot reach {server}: {}", root_cause(&e)))
        })?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    let mut challenges = response
        .headers()
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .filter(|v| v.get(..6).is_some_and(|s| s.eq_ignore_ascii_case("bearer")));
    let first = challenges.next();
    let with_metadata = first.filter(|v| metadata_url(v).is_some());
    let with_metadata = with_metadata.or_else(|| challenges.find(|v| metadata_url(v).is_some()));
    // A 401 without the header counts as a challenge, too.
    Ok(Some(with_metadata.or(first).unwrap_or("Bearer").to_owned()))
}

/// Returns `resource_metadata` of a challenge unchanged. `rmcp` silently ignores values it does not accept and tries other
/// URLs.
fn metadata_url(challenge: &str) -> Option<String> {
    const NAME: &str = "resource_metadata=";
    let at = challenge.to_ascii_lowercase().find(NAME)? + NAME.len();
    let value = challenge.get(at..)?.trim_start();
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => value.split([',', ';', ' ']).next()?,
    };
    Some(value.to_owned())
}

/// Parses the authorization server's answer. `state` must match the request: otherwise an attacker could log the person
/// in to the attacker's account (RFC 6749, section 10.12).
fn parse_callback(page: &Url, answer: &Url, issuer: &str) -> Result<AuthorizationCallback> {
    let state = parameter(answer, "state");
    if state.is_none() || state != parameter(page, "state") {
        return Err(
            Error::runtime(format!("{issuer} answered a different login request"))
                .hint("nothing was saved; log in again, and use only the page that is shown"),
        );
    }
    if let Some(error) = parameter(answer, "error") {
        let description = parameter(answer, "error_description");
        let description = description.map(|m| format!(": {m}")).unwrap_or_default();
        let words = excerpt(&format!("{error}{description}"));
        return Err(if error == "access_denied" {
            Error::runtime(format!("the login was denied ({words})"))
        } else {
            Error::runtime(format!("{issuer} refuses the login: {words}"))
        });
    }
    AuthorizationCallback::from_redirect_url(answer.as_str())
        .map_err(|_| Error::runtime(format!("{issuer} sent an answer without a code")))
}

/// Value of a query parameter; `None` if it occurs twice, which is ambiguous.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut values = url.query_pairs().filter(|(n, _)| n == name);
    let (_, value) = values.next()?;
    values.next().is_none().then(|| value.into_owned())
}

/// Authentication method for token requests. Follows the choice `rmcp` makes for the code exchange.
fn auth_method(secret: bool, metadata: &AuthorizationMetadata) -> ClientAuthMethod {
    let methods = metadata
        .additional_fields
        .get("token_endpoint_auth_methods_supported");
    let takes = |method: &str| {
        let methods = methods.and_then(|m| m.as_array());
        methods.is_some_and(|m| m.iter().any(|m| m == method))
    };
    match secret {
        false => ClientAuthMethod::None,
        true if takes("client_secret_post") && !takes("client_secret_basic") => {
            ClientAuthMethod::Post
        }
        true => ClientAuthMethod::Basic,
    }
}

fn no_login_error(server: &str, challenged: bool) -> Error {
    if challenged {
        Error::runtime(format!(
            "{server} requires a login, but does not name an authorization server"
        ))
        .hint("if its operator issues tokens, provide one with auth_env or auth_cmd of the server")
    } else {
        Error::runtime(format!("{server} does not require a login"))
            .hint("see its state with: llm :mcp list")
    }
}

/// Converts a login error to one line.
fn login_error(guard: &UrlGuard, server: &str, e: AuthError) -> Error {
    if let Some(refused) = guard.take_refusal() {
        return refused;
    }
    let words = match e {
        AuthError::AuthorizationServersUnavailable {
            authorization_servers,
            ..
        } => {
            for named in &authorization_servers {
                if let Err(refused) = guard.check_url("authorization server", named) {
                    return refused;
                }
            }
            format!(
                "{} has no OAuth metadata",
                authorization_servers.join(" or ")
            )
        }
        AuthError::DiscoveryRequestFailed { url, source } => {
            if let Err(refused) = guard.check_url("metadata", url.as_str()) {
                return refused;
            }
            format!("{url}: {}", root_cause(&*source))
        }
        AuthError::ProtectedResourceMetadataInvalid { url, reason } => match *reason {
            Invalid::ResourceMismatch { permitted, .. } => {
                format!("its metadata at {url} belongs to another server, {permitted}")
            }
            reason => format!("its metadata at {url}: {reason}"),
        },
        AuthError::PkceUnsupported => {
            "its authorization server does not support PKCE with S256, which a safe login needs"
                .into()
        }
        e => e.to_string(),
    };
    Error::runtime(format!("cannot log in to {server}: {}", excerpt(&words)))
}
