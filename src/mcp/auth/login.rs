//! The way of a login: from the server's refusal to tokens in a file.

use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    OAuthClientConfig, ProtectedResourceMetadataInvalidReason as Invalid,
};
use serde::Deserialize;

use super::super::failure::brief;
use super::guard::Guard;
use super::refresh::{cause, is_token, seconds};
use super::store::{Proof, Record, Tokens, key, now};
use crate::address::{self, Place};
use crate::config::mcp::shown_url;
use crate::error::{Context, Error, Result};
use crate::secret::Secret;

/// Who the client is to an authorization server. With nothing in it, it registers itself.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// An id, and a secret if there is one, that the server's owner has given out.
    pub given: Option<(String, Option<Secret>)>,
    /// Where the client's own metadata document is, for servers that take its URL as an id.
    pub document: Option<String>,
}

/// One login.
#[derive(Debug)]
pub struct Login<'a> {
    /// Where the tokens go.
    pub tokens: &'a Tokens,
    /// The server.
    pub server: Url,
    /// Where it is: nothing that it names may lead further in.
    pub from: Place,
    /// The `WWW-Authenticate` of its 401, if it is at hand; else it is asked.
    pub challenge: Option<String>,
    /// Who asks.
    pub identity: Identity,
    /// Where the authorization server is to send the browser with its answer.
    pub redirect: &'a str,
}

/// The parts of a token answer that are kept; `rmcp` has checked the rest.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

impl Login<'_> {
    /// Finds out where to log in, lets `visit` take the person there, and keeps the tokens. `visit` gets the
    /// page and returns the URL that the browser was sent to in the end.
    ///
    /// # Errors
    /// One line: the server asks for no login, names what it may not, the person or the authorization
    /// server refuses, or the tokens cannot be written. Nothing is kept then.
    pub async fn run(self, visit: impl AsyncFnOnce(Url) -> Result<Url>) -> Result<()> {
        let server = key(self.server.as_str())?;
        address::clear_text(&self.server).map_err(|_| {
            Error::config(format!(
                "no login at {server}: the tokens would cross the network in clear"
            ))
            .hint("use https://, or a numeric private address")
        })?;
        let known = self.tokens.read(&server).unwrap_or_default();
        let guard = Guard::new(self.server.clone(), self.from);
        let client = guard.client()?;
        let challenge = match &self.challenge {
            Some(challenge) => Some(challenge.clone()),
            None => challenge(&client, &self.server).await?,
        };
        if let Some(named) = challenge.as_deref().and_then(metadata_url) {
            let named = self.server.join(&named).map_or(named, String::from);
            guard.look("OAuth metadata", &named)?;
        }
        let said = |e: AuthError| said(&guard, &server, e);

        // With private addresses allowed where the server has one itself; the clients of both are ours.
        let mut manager = match self.from {
            Place::Outside => AuthorizationManager::new(self.server.clone()).await,
            _ => AuthorizationManager::new_allowing_private_addresses(self.server.clone()).await,
        }
        .map_err(said)?;
        manager.with_client(client).map_err(said)?;
        let found = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(said)?;
        if !found.source.is_discovered() {
            return Err(no_login(&server, challenge.is_some()));
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
        // What the server has wanted since the last login, and with it all that was granted then.
        for wanted in known.into_iter().flat_map(|k| k.wanted) {
            if !scopes.contains(&wanted) {
                scopes.push(wanted);
            }
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let config = self
            .identify(&mut manager, &guard, &metadata, &scopes)
            .await?;
        manager.configure_client(config.clone()).map_err(said)?;
        let page = manager.get_authorization_url(&scopes).await.map_err(said)?;
        let page = Url::parse(&page).context(|| format!("{issuer} has no login page"))?;

        let answer = visit(page.clone()).await?;
        let callback = callback(&page, &answer, &issuer)?;
        let token = manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.csrf_token,
                callback.issuer.as_deref(),
            )
            .await
            .map_err(said)?;
        let answer: Answer = serde_json::to_value(&token)
            .and_then(serde_json::from_value)
            .map_err(|_| Error::runtime(format!("{issuer} gave no token")))?;
        if !answer.token_type.eq_ignore_ascii_case("bearer") || !is_token(&answer.access_token) {
            return Err(Error::runtime(format!(
                "{issuer} gave a token of a kind that aish does not know: {}",
                brief(&answer.token_type)
            )));
        }
        let record = Record {
            access_token: answer.access_token,
            refresh_token: answer.refresh_token,
            expires_at: answer.expires_in.map(|s| now().saturating_add(s)),
            scopes: manager.get_current_scopes().await,
            wanted: Vec::new(),
            issuer,
            proof: proof(config.client_secret.is_some(), &metadata),
            token_endpoint: metadata.token_endpoint,
            resource: parameter(&page, "resource").unwrap_or_else(|| server.clone()),
            client_id: config.client_id,
            client_secret: config.client_secret,
            server: server.clone(),
        };
        self.tokens.hold(&server).await?.write(&record)
    }

    /// The client's id: the one that was given, its own document's URL, or one that it registers.
    async fn identify(
        &self,
        manager: &mut AuthorizationManager,
        guard: &Guard,
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
                "{} takes no new clients, so that aish cannot log in there",
                shown_url(guard.server().as_str())
            ))
            .hint("if its owner gives out tokens, put one in auth_env or auth_cmd of the server"));
        };
        guard.check("registration endpoint", endpoint).await?;
        manager
            .register_client("aish", self.redirect, scopes)
            .await
            .map_err(|e| said(guard, &shown_url(guard.server().as_str()), e))
    }
}

/// What the server says to a request without a token. `ping` needs no session and leaves none.
async fn challenge(client: &reqwest::Client, server: &Url) -> Result<Option<String>> {
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
            Error::runtime(format!("cannot reach {server}: {}", cause(&e)))
        })?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    let mut said = response
        .headers()
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .filter(|v| v.get(..6).is_some_and(|s| s.eq_ignore_ascii_case("bearer")));
    let first = said.next();
    let told = first.filter(|v| metadata_url(v).is_some());
    let told = told.or_else(|| said.find(|v| metadata_url(v).is_some()));
    // One that says nothing is a challenge, too.
    Ok(Some(told.or(first).unwrap_or("Bearer").to_owned()))
}

/// The `resource_metadata` of a challenge as it stands there: `rmcp` leaves out what it does not follow,
/// and goes on elsewhere without a word.
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

/// Takes the authorization server's answer apart. Only one to our own question counts: anything else may
/// be somebody's who wants the person logged in as somebody else.
fn callback(page: &Url, answer: &Url, issuer: &str) -> Result<AuthorizationCallback> {
    let state = parameter(answer, "state");
    if state.is_none() || state != parameter(page, "state") {
        return Err(Error::runtime(format!(
            "the answer of {issuer} is to another question than ours"
        ))
        .hint("nothing was kept; log in again, and use only the page that is shown"));
    }
    if let Some(error) = parameter(answer, "error") {
        let more = parameter(answer, "error_description");
        let more = more.map(|m| format!(": {m}")).unwrap_or_default();
        let words = brief(&format!("{error}{more}"));
        return Err(if error == "access_denied" {
            Error::runtime(format!("the login was denied ({words})"))
        } else {
            Error::runtime(format!("{issuer} refuses the login: {words}"))
        });
    }
    AuthorizationCallback::from_redirect_url(answer.as_str())
        .map_err(|_| Error::runtime(format!("{issuer} sent an answer without a code")))
}

/// The value of a parameter; none when it is there twice, since then nobody knows which one counts.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut values = url.query_pairs().filter(|(n, _)| n == name);
    let (_, value) = values.next()?;
    values.next().is_none().then(|| value.into_owned())
}

/// As `rmcp` decides it for the code, so that the refresh is proved the same way.
fn proof(secret: bool, metadata: &AuthorizationMetadata) -> Proof {
    let methods = metadata
        .additional_fields
        .get("token_endpoint_auth_methods_supported");
    let takes = |method: &str| {
        let methods = methods.and_then(|m| m.as_array());
        methods.is_some_and(|m| m.iter().any(|m| m == method))
    };
    match secret {
        false => Proof::None,
        true if takes("client_secret_post") && !takes("client_secret_basic") => Proof::Post,
        true => Proof::Basic,
    }
}

fn no_login(server: &str, challenged: bool) -> Error {
    if challenged {
        Error::runtime(format!("{server} wants a login, but does not say where"))
            .hint("if its owner gives out tokens, put one in auth_env or auth_cmd of the server")
    } else {
        Error::runtime(format!("{server} asks for no login"))
            .hint("see how it is with: llm :mcp list")
    }
}

/// What went wrong, in one line.
fn said(guard: &Guard, server: &str, e: AuthError) -> Error {
    if let Some(refused) = guard.refused() {
        return refused;
    }
    let words = match e {
        AuthError::AuthorizationServersUnavailable {
            authorization_servers,
            ..
        } => {
            for named in &authorization_servers {
                if let Err(refused) = guard.look("authorization server", named) {
                    return refused;
                }
            }
            format!(
                "{} has no OAuth metadata",
                authorization_servers.join(" or ")
            )
        }
        AuthError::DiscoveryRequestFailed { url, source } => {
            if let Err(refused) = guard.look("metadata", url.as_str()) {
                return refused;
            }
            format!("{url}: {}", cause(&*source))
        }
        AuthError::ProtectedResourceMetadataInvalid { url, reason } => match *reason {
            Invalid::ResourceMismatch { permitted, .. } => {
                format!("its metadata at {url} is of another server, {permitted}")
            }
            reason => format!("its metadata at {url}: {reason}"),
        },
        AuthError::PkceUnsupported => {
            "its authorization server has no PKCE with S256, without which a login is not safe"
                .into()
        }
        e => e.to_string(),
    };
    Error::runtime(format!("cannot log in to {server}: {}", brief(&words)))
}
