//! Sends requests, by the client that fits where they go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};

use super::failure::{Failure, closed_while_idle};
use super::plain;
use crate::address::is_loopback;
use crate::error::{Context, Result};

/// A connection that is not there by then will not be.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept warm; most servers close theirs before.
pub const POOL_IDLE: Duration = Duration::from_secs(300);

/// A response, whichever client it came by.
pub enum Incoming {
    /// Over the network.
    Network(reqwest::Response),
    /// From this machine.
    Plain(plain::Response),
}

impl Incoming {
    /// The status code.
    pub fn status(&self) -> u16 {
        match self {
            Incoming::Network(response) => response.status().as_u16(),
            Incoming::Plain(response) => response.status,
        }
    }

    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        match self {
            Incoming::Network(response) => Some(response.headers().get(name)?.as_bytes()),
            Incoming::Plain(response) => response.header(name),
        }
    }

    /// The next piece of the body. Nothing is lost when the future is dropped.
    pub async fn chunk(&mut self) -> std::result::Result<Option<Bytes>, Failure> {
        match self {
            Incoming::Network(response) => response.chunk().await.map_err(Failure::Network),
            Incoming::Plain(response) => response.chunk().await.map_err(Failure::Plain),
        }
    }

    /// The body's begin, at most `limit` bytes; what breaks off is kept as far as it came.
    /// A server that dribbles is left after `patience`.
    pub async fn read_some(&mut self, limit: usize, patience: Duration) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(bytes)) = self.chunk().await {
                let left = limit.saturating_sub(body.len()).min(bytes.len());
                body.extend_from_slice(&bytes[..left]);
                if body.len() >= limit {
                    break;
                }
            }
        };
        // What has arrived by then is what there is.
        let _ = tokio::time::timeout(patience, read).await;
        body
    }
}

/// Which client a URL needs.
#[derive(Clone, Copy)]
enum Lane {
    /// `http` to this machine: the plain client.
    Plain,
    /// To this machine, but with TLS or a password: no proxy.
    Local,
    /// Anything else: the system's proxy settings and certificates.
    Network,
}

impl Lane {
    fn of(url: &Url) -> Lane {
        let bare = url.username().is_empty() && url.password().is_none();
        match (is_loopback(url), url.scheme()) {
            (true, "http") if bare => Lane::Plain,
            (true, _) => Lane::Local,
            (false, _) => Lane::Network,
        }
    }
}

/// The shared clients. Each is built when it is first needed: certificates cost time and memory to load.
#[derive(Debug, Default)]
pub struct Clients {
    plain: Arc<plain::Pool>,
    local: Mutex<Option<Client>>,
    network: Mutex<Option<Client>>,
}

impl Clients {
    /// Sends a request and waits for the head of its response. A request whose connection turns out to
    /// have been closed while it was idle is sent once more.
    ///
    /// # Errors
    /// One line that says what failed and where.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Incoming> {
        let (slot, proxy) = match Lane::of(url) {
            Lane::Plain => {
                let sent = plain::send(&self.plain, &method, url, &headers, &body).await;
                return sent
                    .map(Incoming::Plain)
                    .map_err(|e| Failure::Plain(e).error(url));
            }
            Lane::Local => (&self.local, false),
            Lane::Network => (&self.network, true),
        };
        let client = built(slot, proxy).context(|| "cannot set up HTTPS".to_owned())?;
        // Cheap to clone, unlike the vector.
        let body = Bytes::from(body);
        let once = || {
            client
                .request(method.clone(), url.clone())
                .headers(headers.clone())
                .body(body.clone())
                .send()
        };
        let result = match once().await {
            Err(e) if closed_while_idle(&e) => once().await,
            result => result,
        };
        result
            .map(Incoming::Network)
            .map_err(|e| Failure::Network(e).error(url))
    }
}

/// The client in `slot`, which is built if it is not there yet.
fn built(slot: &Mutex<Option<Client>>, proxy: bool) -> reqwest::Result<Client> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = &*slot {
        return Ok(client.clone());
    }
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        // A redirect would carry the key to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_idle_timeout(POOL_IDLE)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(10));
    if !proxy {
        builder = builder.no_proxy();
    }
    let client = builder.build()?;
    *slot = Some(client.clone());
    Ok(client)
}
