//! One request with the limits of all: time, size, and the addresses it may lead to.

use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue};
use reqwest::{Response, Url};

use crate::address::{self, NetworkZone};
use crate::error::{Error, ErrorContext, Result};
use crate::http_client::checked_resolver::CheckedResolver;
use crate::http_client::{ProxyUse, client_builder};

/// Maximum size of a response in bytes.
pub(super) const MAX_BODY_BYTES: usize = 2 << 20;

/// Time limit for a page or a search, redirects included.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Time limit for establishing a connection.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Requests to the internet, and to the hosts that the user has named.
pub(super) struct WebClient {
    client: reqwest::Client,
    resolver: CheckedResolver,
}

impl WebClient {
    /// Creates a client that follows no redirects. `named` is the URL that the user has seen; `private` are names that may
    /// resolve to any address.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(named: &Url, private: Vec<String>) -> Result<WebClient> {
        let proxy = match address::is_loopback(named) {
            true => ProxyUse::Direct,
            false => ProxyUse::System,
        };
        let resolver = CheckedResolver::new(NetworkZone::Outside, private);
        let client = client_builder(proxy, CONNECT_TIME_LIMIT)
            .dns_resolver(resolver.clone())
            .build()
            .context(|| "cannot set up HTTPS".into())?;
        Ok(WebClient { client, resolver })
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// The name leads to an address that is refused, or the request fails.
    pub async fn get(&self, url: &Url, accept: &'static str) -> Result<Response> {
        // A proxy resolves the name itself.
        if let Some(host) = url.domain()
            && let Some(Err(reason)) = self.resolver.resolve_checked(host).await
        {
            return Err(refusal(url, &reason));
        }
        let request = self.client.get(url.clone());
        let request = request
            .header(ACCEPT, HeaderValue::from_static(accept))
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request.send().await.map_err(|error| {
            match self.resolver.take_refusal() {
                Some((_, reason)) => refusal(url, &reason),
                // The URL is in the message already.
                None => Error::runtime(format!("{url}: {}", innermost(&error))),
            }
        })
    }
}

/// The error for an address that is not public.
pub(super) fn refusal(url: &Url, reason: &str) -> Error {
    Error::runtime(format!("{url} is refused: {reason}"))
        .hint("name the private address itself, so that the question shows it")
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Reads a body up to [`MAX_BODY_BYTES`], and whether it is longer.
///
/// # Errors
/// The connection fails, or the body is compressed although that was not asked for.
pub(super) async fn read_body(mut response: Response) -> Result<(Vec<u8>, bool)> {
    let url = response.url().clone();
    if let Some(encoding) = response.headers().get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let encoding: String = encoding.to_str().unwrap_or("?").chars().take(40).collect();
        return Err(Error::runtime(format!(
            "{url} is sent compressed ({encoding}), although compression was not requested"
        )));
    }
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| Error::runtime(format!("{url}: {}", innermost(&error))))?
    {
        body.extend_from_slice(&piece);
        if body.len() > MAX_BODY_BYTES {
            body.truncate(MAX_BODY_BYTES);
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// Ends work that takes longer than [`TIME_LIMIT`].
pub(super) async fn within_limit<T>(
    url: &Url,
    limit: Duration,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::runtime(format!(
            "{url} took longer than {} s",
            limit.as_secs()
        ))),
    }
}
