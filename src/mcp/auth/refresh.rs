//! Access tokens for requests: read, renewed before they expire, replaced after a 401.

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use rmcp::transport::auth::WWWAuthenticateParams;
use serde::Deserialize;

use super::super::excerpt::excerpt;
use super::store::{
    ClientAuthMethod, TokenLock, TokenRecord, TokenStore, server_key, unix_seconds,
};
use super::url_guard::{UrlGuard, read_body};
use crate::address::NetworkZone;
use crate::error::{Error, ErrorContext, Result};
use crate::secret::Secret;

/// A token with fewer seconds left is renewed before use.
const RENEWAL_MARGIN: u64 = 60;

/// Response of a token endpoint: tokens or an error (RFC 6749, sections 5.1 and 5.2).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    scope: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Number of seconds; some servers send it as a string.
pub(super) fn seconds<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<u64>, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    })
}

impl TokenStore {
    /// Returns the access token for the server at `url`, renewing it if it has expired. `None`: a person has to log in.
    ///
    /// # Errors
    /// The file cannot be read or written, or the expired token cannot be renewed now.
    pub async fn access_token(&self, url: &str) -> Result<Option<Secret>> {
        let server = server_key(url)?;
        match self.read(&server)? {
            None => return Ok(None),
            Some(record) if record.is_valid_for(RENEWAL_MARGIN) => {
                return Ok(Some(record.bearer()));
            }
            Some(_) => {}
        }
        let lock = self.lock(&server).await?;
        // Another process may have renewed the token before this one got the lock.
        match lock.read()? {
            None => Ok(None),
            Some(record) if record.is_valid_for(RENEWAL_MARGIN) => Ok(Some(record.bearer())),
            Some(record) => match renew(&lock, &record).await {
                Ok(Some(token)) => Ok(Some(token)),
                // The renewal failed, but the token is still valid for some seconds.
                _ if record.is_valid_for(0) => Ok(Some(record.bearer())),
                failed => failed,
            },
        }
    }

    /// Returns a replacement for a token that the server has refused (401). `None`: a person has to log in. Call this at
    /// most once per request.
    ///
    /// # Errors
    /// Same as [`Self::access_token`].
    pub async fn replace_refused(&self, url: &str, token: &Secret) -> Result<Option<Secret>> {
        let server = server_key(url)?;
        if self.read(&server)?.is_none() {
            return Ok(None);
        }
        let lock = self.lock(&server).await?;
        match lock.read()? {
            None => Ok(None),
            Some(record) if record.access_token != token.expose() && record.is_valid_for(0) => {
                Ok(Some(record.bearer()))
            }
            Some(record) => renew(&lock, &record).await,
        }
    }

    /// Records the scopes that a 403 with `insufficient_scope` in `WWW-Authenticate` asks for, for the next login.
    /// Returns whether a new login can help: not if all the scopes are granted already, and not after another error.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub async fn request_scopes(&self, url: &str, challenge: &str) -> Result<bool> {
        let server = server_key(url)?;
        let base =
            Url::parse(&server).context(|| format!("{server} is not an http or https URL"))?;
        let parsed = WWWAuthenticateParams::parse(challenge, &base);
        let scopes = parsed.scope.clone().unwrap_or_default();
        if !parsed.is_insufficient_scope() || self.read(&server)?.is_none() {
            return Ok(false);
        }
        let lock = self.lock(&server).await?;
        let Some(mut record) = lock.read()? else {
            return Ok(false);
        };
        let mut requested = record.scopes.clone();
        for scope in scopes.split_whitespace() {
            if !requested.iter().any(|w| w == scope) {
                requested.push(scope.to_owned());
            }
        }
        if requested.len() == record.scopes.len() {
            return Ok(false);
        }
        record.wanted = requested;
        lock.write(&record).await?;
        Ok(true)
    }
}

impl TokenRecord {
    fn bearer(&self) -> Secret {
        Secret::new(&*self.access_token)
    }
}

/// Exchanges the refresh token for new tokens and saves them. The caller's lock is held throughout: a refresh token
/// used twice looks stolen, and the server then revokes all tokens.
async fn renew(lock: &TokenLock, record: &TokenRecord) -> Result<Option<Secret>> {
    let Some(refresh) = &record.refresh_token else {
        return Ok(None);
    };
    let server = Url::parse(&record.server)
        .context(|| format!("{} is not an http or https URL", record.server))?;
    let from = NetworkZone::named(&server);
    let guard = UrlGuard::new(server, from);
    let endpoint = guard
        .check("token endpoint", &record.token_endpoint)
        .await?;
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
        ("resource", &record.resource),
    ];
    let mut request = guard.client()?.post(endpoint.clone());
    let secret = record.client_secret.as_deref().unwrap_or_default();
    match record.proof {
        ClientAuthMethod::Basic => {
            request =
                request.basic_auth(form_encoded(&record.client_id), Some(form_encoded(secret)));
        }
        ClientAuthMethod::Post => {
            form.extend([("client_id", &*record.client_id), ("client_secret", secret)])
        }
        ClientAuthMethod::None => form.push(("client_id", &*record.client_id)),
    }
    let form: Vec<String> = form
        .iter()
        .map(|(name, value)| format!("{name}={}", form_encoded(value)))
        .collect();
    let response = request
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(form.join("&"))
        .send()
        .await;
    let cannot = || format!("cannot renew the token at {endpoint}");
    let response = match response {
        Ok(response) => response,
        Err(e) => {
            let reason = guard.take_refusal();
            return Err(reason
                .unwrap_or_else(|| Error::runtime(format!("{}: {}", cannot(), root_cause(&e)))));
        }
    };
    let status = response.status();
    let body = read_body(response).await?;
    let answer: Option<TokenResponse> = serde_json::from_slice(&body).ok();
    let Some(answer) = answer else {
        return Err(Error::runtime(format!(
            "{}: HTTP {}",
            cannot(),
            status.as_u16()
        )));
    };
    match (answer.access_token.filter(|t| is_token(t)), answer.error) {
        (Some(token), None) if status.is_success() => {
            let mut renewed = record.clone();
            renewed.access_token = token;
            // Without a new refresh token, the old one stays valid (RFC 6749, section 6).
            renewed.refresh_token = answer.refresh_token.or(renewed.refresh_token);
            renewed.expires_at = answer.expires_in.map(|s| unix_seconds().saturating_add(s));
            if let Some(scope) = answer.scope {
                renewed.scopes = scope.split_whitespace().map(str::to_owned).collect();
            }
            lock.write(&renewed).await?;
            Ok(Some(renewed.bearer()))
        }
        // The refresh token or the client registration has expired or was revoked.
        (_, Some(error)) if error == "invalid_grant" || error == "invalid_client" => {
            let mut renewed = record.clone();
            renewed.refresh_token = None;
            lock.write(&renewed).await?;
            Ok(None)
        }
        (_, error) => {
            let words = [error, answer.error_description];
            let words: Vec<String> = words.into_iter().flatten().collect();
            let mut words = excerpt(&words.join(": "));
            if words.is_empty() {
                words = format!("HTTP {}", status.as_u16());
            }
            Err(Error::runtime(format!("{}: {words}", cannot())))
        }
    }
}

/// Whether the text is valid in an `Authorization` header.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// The innermost error message, which names the actual problem.
pub(super) fn root_cause(e: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = e;
    while let Some(source) = inner.source() {
        inner = source;
    }
    excerpt(&inner.to_string())
}

/// Percent-encodes a form value.
fn form_encoded(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(b).to_string()
            }
            b => format!("%{b:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_values_are_percent_encoded() {
        assert_eq!(form_encoded("a b&c=d/é~"), "a%20b%26c%3Dd%2F%C3%A9~");
    }

    #[test]
    fn expires_in_may_be_a_number_or_a_string() {
        let of = |text: &str| {
            serde_json::from_str::<TokenResponse>(text)
                .unwrap()
                .expires_in
        };
        assert_eq!(of(r#"{"expires_in": 60}"#), Some(60));
        assert_eq!(of(r#"{"expires_in": "60"}"#), Some(60));
        assert_eq!(of(r#"{"expires_in": null}"#), None);
        assert_eq!(of(r#"{"expires_in": -1}"#), None);
        assert_eq!(of("{}"), None);
    }

    #[test]
    fn tokens_with_invalid_header_characters_are_rejected() {
        assert!(is_token("eyJ.a-b_c~+/="));
        for bad in ["", "a b", "a\r\nb", "é"] {
            assert!(!is_token(bad), "{bad:?}");
        }
    }
}
