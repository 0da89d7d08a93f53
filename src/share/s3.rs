//! Pages and recordings in a bucket of an S3 server, one object each. Requests carry a signature that is valid for a short time; the secret
//! key itself is never sent.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use serde::{Deserialize, Serialize};

use super::object::ShareObject;
use crate::address;
use crate::error::{Error, ErrorContext, Result};
use crate::http_client::tls_failure::{TlsFailure, tls_failure};
use crate::http_client::{ProxyUse, client_builder};
use crate::safety::redact::global_redactor;
use crate::safety::text::one_line;
use crate::secret::Secret;

/// Addresses of `localhost`; the port is that of the URL.
const THIS_MACHINE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];
/// How long connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long sending a page may take.
const UPLOAD_LIMIT: Duration = Duration::from_secs(120);
/// How long any other request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
/// How long a signature is valid.
const SIGNATURE_LIFE: Duration = Duration::from_secs(300);
/// Number of bytes that are read of an error.
const MAX_ERROR: usize = 16 << 10;
/// Number of characters that are shown of it.
const MAX_SHOWN: usize = 200;

/// An object in a bucket. The register keeps it, so that a page can be removed after the configuration has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct S3Place {
    /// The address of the server.
    pub endpoint: String,
    /// The bucket.
    pub bucket: String,
    /// Its region.
    pub region: String,
    /// Whether the bucket is a part of the path, not of the host.
    pub path_style: bool,
    /// The name of the object.
    pub key: String,
    /// The address at which others read it.
    pub url: String,
    /// Where the credentials come from.
    pub variables: CredentialVariables,
}

/// The names of the environment variables that hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialVariables {
    /// That of the id of the access key.
    pub access_key: String,
    /// That of the secret key.
    pub secret_key: String,
    /// That of the session token.
    pub session_token: Option<String>,
}

impl CredentialVariables {
    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        [&self.access_key, &self.secret_key]
            .into_iter()
            .chain(&self.session_token)
    }

    /// Returns the credentials, and lets the redactor know them.
    ///
    /// # Errors
    /// A variable is not set.
    pub fn credentials(&self, values: &BTreeMap<String, Secret>) -> Result<S3Credentials> {
        let value = |name: &String| match values.get(name).map(|value| value.expose().trim()) {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(Error::config(format!(
                "the variable {name}, which holds credentials of the bucket, is not set"
            ))
            .hint(format!("run: export {name}=…, then try again"))),
        };
        let (key, secret) = (value(&self.access_key)?, value(&self.secret_key)?);
        global_redactor().add_secret("s3-key", &secret);
        let Some(token) = &self.session_token else {
            return Ok(S3Credentials(Credentials::new(key, secret)));
        };
        let token = value(token)?;
        global_redactor().add_secret("s3-token", &token);
        Ok(S3Credentials(Credentials::new_with_token(
            key, secret, token,
        )))
    }
}

/// The credentials of a bucket; their `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct S3Credentials(Credentials);

impl S3Place {
    /// Returns the object of this name; its address begins with `public_url`, if there is one.
    ///
    /// # Errors
    /// The endpoint is invalid, or cannot be addressed by host.
    pub fn with_key(mut self, key: String, public_url: Option<&str>) -> Result<S3Place> {
        let bucket = self.bucket()?;
        let url = bucket.object_url(&key);
        self.url = match public_url {
            Some(base) => {
                let path = url.path().strip_prefix(bucket.base_url().path());
                format!("{}/{}", base.trim_end_matches('/'), path.unwrap_or(&key))
            }
            None => url.to_string(),
        };
        self.key = key;
        Ok(self)
    }

    /// Returns another object of the share of this id, whose page this is.
    pub fn beside(&self, id: &str, object: ShareObject) -> S3Place {
        let (page, name) = (ShareObject::Page.name(id), object.name(id));
        let beside = |of: &str| match of.strip_suffix(&page) {
            Some(folder) => format!("{folder}{name}"),
            None => of.to_owned(),
        };
        S3Place {
            key: beside(&self.key),
            url: beside(&self.url),
            ..self.clone()
        }
    }

    /// Whether both are in the same bucket of the same server.
    pub fn is_same_bucket(&self, other: &S3Place) -> bool {
        (&self.endpoint, &self.bucket) == (&other.endpoint, &other.bucket)
    }

    /// Returns the host of the server, for messages.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.endpoint).ok();
        let host = url.and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_else(|| self.endpoint.clone())
    }

    fn bucket(&self) -> Result<Bucket> {
        let style = match self.path_style {
            true => UrlStyle::Path,
            false => UrlStyle::VirtualHost,
        };
        let invalid = |reason: String| {
            Error::config(format!(
                "bucket {} at {}: {reason}",
                self.bucket, self.endpoint
            ))
            .hint("check endpoint, bucket and path_style in [share] of the configuration")
        };
        let endpoint = Url::parse(&self.endpoint).map_err(|e| invalid(e.to_string()))?;
        if endpoint.scheme() != "https" && !address::is_loopback(&endpoint) {
            return Err(invalid("must begin with https://".to_owned()));
        }
        Bucket::new(endpoint, style, self.bucket.clone(), self.region.clone())
            .map_err(|e| invalid(e.to_string()))
    }

    fn client(&self, bucket: &Bucket) -> Result<Client> {
        let is_here = Url::parse(&self.endpoint).is_ok_and(|url| address::is_loopback(&url));
        let builder = match (is_here, bucket.base_url().domain()) {
            (false, _) => client_builder(ProxyUse::System, CONNECT_LIMIT),
            (true, None) => client_builder(ProxyUse::Direct, CONNECT_LIMIT),
            // Not every resolver knows that `BUCKET.localhost` is this machine. One that asks a name server would send the page
            // unencrypted to where that leads.
            (true, Some(host)) => client_builder(ProxyUse::Direct, CONNECT_LIMIT)
                .resolve_to_addrs(host, &THIS_MACHINE),
        };
        builder.build().context(|| "cannot prepare requests".into())
    }

    /// Uploads the object.
    ///
    /// # Errors
    /// The server cannot be reached or refuses it.
    pub async fn put(
        &self,
        credentials: &S3Credentials,
        content_type: &'static str,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let bucket = self.bucket()?;
        let mut action = bucket.put_object(Some(&credentials.0), &self.key);
        action.headers_mut().insert("content-type", content_type);
        let request = self
            .client(&bucket)?
            .put(action.sign(SIGNATURE_LIFE))
            .header(CONTENT_TYPE, content_type)
            .header(CONTENT_LENGTH, bytes.len())
            .body(Body::from(bytes));
        let response = self.send(request.timeout(UPLOAD_LIMIT)).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(self.refusal("cannot upload the share", response).await),
        }
    }

    /// Removes the object and verifies that it is gone.
    ///
    /// # Errors
    /// The server cannot be reached or refuses it, or the object is still there.
    pub async fn remove(&self, credentials: &S3Credentials) -> Result<()> {
        let bucket = self.bucket()?;
        let client = self.client(&bucket)?;
        let action = bucket.delete_object(Some(&credentials.0), &self.key);
        let request = client.delete(action.sign(SIGNATURE_LIFE));
        let response = self.send(request.timeout(REQUEST_LIMIT)).await?;
        if !response.status().is_success() && response.status() != StatusCode::NOT_FOUND {
            return Err(self.refusal("cannot remove the share", response).await);
        }
        let action = bucket.head_object(Some(&credentials.0), &self.key);
        let request = client.request(Method::HEAD, action.sign(SIGNATURE_LIFE));
        let response = self.send(request.timeout(REQUEST_LIMIT)).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() => Err(Error::runtime(format!(
                "the server {} said that it has removed the page, but the page is still there: {}",
                self.host(),
                self.url
            ))
            .hint("check versioning and object locks of the bucket, then try again")),
            StatusCode::FORBIDDEN => Err(Error::runtime(format!(
                "the server {} does not say whether the page is gone (HTTP 403)",
                self.host()
            ))
            .hint("the credentials need the right to list the bucket (s3:ListBucket)")),
            _ => Err(self
                .refusal("cannot verify that the page is gone", response)
                .await),
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        request.send().await.map_err(|error| {
            let host = self.host();
            match tls_failure(&error) {
                Some(TlsFailure::NotSpoken) => {
                    return Error::runtime(format!("{host} does not speak TLS"))
                        .hint("check endpoint in [share] of the configuration");
                }
                Some(TlsFailure::Refused { reason, hint }) => {
                    return Error::runtime(format!("no secure connection to {host}: {reason}"))
                        .hint(hint);
                }
                None => {}
            }
            let failure = match error.is_timeout() {
                true => "it did not answer in time".to_owned(),
                // Without the URL, which has the signature.
                false => root_cause(&error.without_url()),
            };
            Error::runtime(format!("cannot reach {host}: {failure}"))
                .hint("check the network and endpoint in [share] of the configuration")
        })
    }

    /// Returns the error for a response. Its body may be anything.
    async fn refusal(&self, what: &str, mut response: Response) -> Error {
        let status = response.status();
        let mut body = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            let left = MAX_ERROR - body.len();
            body.extend_from_slice(piece.get(..left).unwrap_or(&piece));
            if body.len() >= MAX_ERROR {
                break;
            }
        }
        let words = error_words(&String::from_utf8_lossy(&body));
        let said = match words.is_empty() {
            true => String::new(),
            false => format!(": {words}"),
        };
        let host = self.host();
        let CredentialVariables {
            access_key,
            secret_key,
            ..
        } = &self.variables;
        Error::runtime(format!(
            "{what}: {host} answered HTTP {}{said}",
            status.as_u16()
        ))
        .hint(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
                "check {access_key} and {secret_key}, the permissions of the key, and region in [share]"
            ),
            StatusCode::NOT_FOUND => "check endpoint and bucket in [share]".to_owned(),
            status if status.is_redirection() => {
                "redirects are not followed: check endpoint, region and path_style in [share]"
                    .to_owned()
            }
            _ => "try again later".to_owned(),
        })
    }
}

/// Returns code and message of an error of S3, or the beginning of any other text, without secrets and on one line.
fn error_words(body: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text)
    };
    let words = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}, {message}"),
        (Some(code), None) => code.to_owned(),
        _ => body.to_owned(),
    };
    one_line(&global_redactor().redact(&words), MAX_SHOWN)
}

/// Returns the innermost cause.
fn root_cause(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path_style: bool) -> S3Place {
        S3Place {
            endpoint: "https://s3.example.com".to_owned(),
            bucket: "pages".to_owned(),
            region: "r".to_owned(),
            path_style,
            key: String::new(),
            url: String::new(),
            variables: CredentialVariables {
                access_key: "A".to_owned(),
                secret_key: "B".to_owned(),
                session_token: None,
            },
        }
    }

    #[test]
    fn the_address_of_a_page_is_that_of_the_object_or_of_the_public_server() {
        let url = |place: S3Place, base: Option<&str>| {
            place
                .with_key("shares/1.html".to_owned(), base)
                .unwrap()
                .url
        };
        assert_eq!(
            url(place(true), None),
            "https://s3.example.com/pages/shares/1.html"
        );
        assert_eq!(
            url(place(false), None),
            "https://pages.s3.example.com/shares/1.html"
        );
        assert_eq!(
            url(place(false), Some("https://pages.example.com/")),
            "https://pages.example.com/shares/1.html"
        );
        let unusual = place(false).with_key(
            "my pages/a+b%20.html".to_owned(),
            Some("https://p.example/x"),
        );
        assert_eq!(
            unusual.unwrap().url,
            "https://p.example/x/my%20pages/a%2Bb%2520.html"
        );
        let mut by_address = place(false);
        by_address.endpoint = "http://127.0.0.1:1".to_owned();
        assert!(by_address.bucket().is_err());
        let mut plain = place(true);
        plain.endpoint = "http://s3.example.com".to_owned();
        assert!(plain.bucket().is_err());
    }

    #[test]
    fn an_error_is_shown_as_one_line_of_text() {
        let xml = "<?xml?><Error><Code>AccessDenied</Code><Message>no\nway \u{1b}[31m</Message><StringToSign>x</StringToSign>";
        let words = error_words(xml);
        assert!(words.starts_with("AccessDenied, no"), "{words}");
        assert!(!words.contains(['\n', '\u{1b}']) && !words.contains("StringToSign"));
        assert!(error_words(&"x".repeat(10_000)).chars().count() <= MAX_SHOWN + 1);
        assert_eq!(error_words(""), "");
    }
}
