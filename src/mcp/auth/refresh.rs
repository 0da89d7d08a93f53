//! The token of a server, fresh: what the daemon asks for before it connects, and when a token is refused.

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use rmcp::transport::auth::WWWAuthenticateParams;
use serde::Deserialize;

use super::super::failure::brief;
use super::guard::{Guard, body};
use super::store::{Hold, Proof, Record, Tokens, key, now};
use crate::address::Place;
use crate::error::{Context, Error, Result};
use crate::secret::Secret;

/// A token with less than these seconds left is renewed before it is used.
const MARGIN: u64 = 60;

/// What a token endpoint says, well or not.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    scope: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// A number; some servers write it as a string.
pub(super) fn seconds<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<u64>, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    })
}

impl Tokens {
    /// The token for a server, renewed if it has expired; `None` when there is none: a person has to log in.
    ///
    /// # Errors
    /// The file cannot be read or written, or the token has expired and cannot be renewed now.
    pub async fn bearer(&self, url: &str) -> Result<Option<Secret>> {
        let server = key(url)?;
        match self.read(&server)? {
            None => return Ok(None),
            Some(record) if record.lasts(MARGIN) => return Ok(Some(record.bearer())),
            Some(_) => {}
        }
        let hold = self.hold(&server).await?;
        // Whoever had the lock before may have renewed it.
        match hold.read()? {
            None => Ok(None),
            Some(record) if record.lasts(MARGIN) => Ok(Some(record.bearer())),
            Some(record) => match renew(&hold, &record).await {
                Ok(Some(token)) => Ok(Some(token)),
                // It is good for some seconds yet.
                _ if record.lasts(0) => Ok(Some(record.bearer())),
                failed => failed,
            },
        }
    }

    /// Another token in the place of one that the server has refused (401); `None` when there is none: a
    /// person has to log in. It is to be asked for once a request.
    ///
    /// # Errors
    /// As for [`Tokens::bearer`].
    pub async fn refused(&self, url: &str, token: &Secret) -> Result<Option<Secret>> {
        let server = key(url)?;
        if self.read(&server)?.is_none() {
            return Ok(None);
        }
        let hold = self.hold(&server).await?;
        match hold.read()? {
            None => Ok(None),
            Some(record) if record.access_token != token.expose() && record.lasts(0) => {
                Ok(Some(record.bearer()))
            }
            Some(record) => renew(&hold, &record).await,
        }
    }

    /// Notes what a server wants beyond what its token allows (403 with `insufficient_scope` in
    /// `WWW-Authenticate`), for the next login. Whether a login can help: it cannot when all of it was
    /// granted already, and when the server says something else.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub async fn wants(&self, url: &str, challenge: &str) -> Result<bool> {
        let server = key(url)?;
        let base = Url::parse(&server).context(|| format!("{server} is no web address"))?;
        let said = WWWAuthenticateParams::parse(challenge, &base);
        let scopes = said.scope.clone().unwrap_or_default();
        if !said.is_insufficient_scope() || self.read(&server)?.is_none() {
            return Ok(false);
        }
        let hold = self.hold(&server).await?;
        let Some(mut record) = hold.read()? else {
            return Ok(false);
        };
        let mut wanted = record.scopes.clone();
        for scope in scopes.split_whitespace() {
            if !wanted.iter().any(|w| w == scope) {
                wanted.push(scope.to_owned());
            }
        }
        if wanted.len() == record.scopes.len() {
            return Ok(false);
        }
        record.wanted = wanted;
        hold.write(&record)?;
        Ok(true)
    }
}

impl Record {
    fn bearer(&self) -> Secret {
        Secret::new(&*self.access_token)
    }
}

/// Trades the refresh token for new tokens and keeps them. The lock is held all the while: a refresh token
/// that is used twice looks stolen to the server, which then takes back everything.
async fn renew(hold: &Hold, record: &Record) -> Result<Option<Secret>> {
    let Some(refresh) = &record.refresh_token else {
        return Ok(None);
    };
    let server =
        Url::parse(&record.server).context(|| format!("{} is no address", record.server))?;
    let from = Place::named(&server);
    let guard = Guard::new(server, from);
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
        Proof::Basic => {
            request = request.basic_auth(encoded(&record.client_id), Some(encoded(secret)));
        }
        Proof::Post => form.extend([("client_id", &*record.client_id), ("client_secret", secret)]),
        Proof::None => form.push(("client_id", &*record.client_id)),
    }
    let form: Vec<String> = form
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let sent = request
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(form.join("&"))
        .send()
        .await;
    let cannot = || format!("cannot renew the token at {endpoint}");
    let response = match sent {
        Ok(response) => response,
        Err(e) => {
            let why = guard.refused();
            return Err(
                why.unwrap_or_else(|| Error::runtime(format!("{}: {}", cannot(), cause(&e))))
            );
        }
    };
    let status = response.status();
    let body = body(response).await?;
    let answer: Option<Answer> = serde_json::from_slice(&body).ok();
    let Some(answer) = answer else {
        return Err(Error::runtime(format!(
            "{}: HTTP {}",
            cannot(),
            status.as_u16()
        )));
    };
    match (answer.access_token.filter(|t| is_token(t)), answer.error) {
        (Some(token), None) if status.is_success() => {
            let mut new = record.clone();
            new.access_token = token;
            // A server that gives no new one lets the old one stand.
            new.refresh_token = answer.refresh_token.or(new.refresh_token);
            new.expires_at = answer.expires_in.map(|s| now().saturating_add(s));
            if let Some(scope) = answer.scope {
                new.scopes = scope.split_whitespace().map(str::to_owned).collect();
            }
            hold.write(&new)?;
            Ok(Some(new.bearer()))
        }
        // It has expired or was taken back, or the server knows us no more.
        (_, Some(error)) if error == "invalid_grant" || error == "invalid_client" => {
            let mut new = record.clone();
            new.refresh_token = None;
            hold.write(&new)?;
            Ok(None)
        }
        (_, error) => {
            let words = [error, answer.error_description];
            let words: Vec<String> = words.into_iter().flatten().collect();
            let mut words = brief(&words.join(": "));
            if words.is_empty() {
                words = format!("HTTP {}", status.as_u16());
            }
            Err(Error::runtime(format!("{}: {words}", cannot())))
        }
    }
}

/// Whether it can stand in a header.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// The innermost reason, which is what a person can do something about.
pub(super) fn cause(e: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = e;
    while let Some(source) = inner.source() {
        inner = source;
    }
    brief(&inner.to_string())
}

/// As a form has it.
fn encoded(text: &str) -> String {
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
    fn a_form_holds_what_would_end_a_field() {
        assert_eq!(encoded("a b&c=d/é~"), "a%20b%26c%3Dd%2F%C3%A9~");
    }

    #[test]
    fn seconds_may_be_a_number_or_a_string() {
        let of = |text: &str| serde_json::from_str::<Answer>(text).unwrap().expires_in;
        assert_eq!(of(r#"{"expires_in": 60}"#), Some(60));
        assert_eq!(of(r#"{"expires_in": "60"}"#), Some(60));
        assert_eq!(of(r#"{"expires_in": null}"#), None);
        assert_eq!(of(r#"{"expires_in": -1}"#), None);
        assert_eq!(of("{}"), None);
    }

    #[test]
    fn what_could_end_a_header_is_no_token() {
        assert!(is_token("eyJ.a-b_c~+/="));
        for bad in ["", "a b", "a\r\nb", "é"] {
            assert!(!is_token(bad), "{bad:?}");
        }
    }
}
