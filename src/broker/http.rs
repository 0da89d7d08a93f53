//! The HTTP clients, and what their failures mean in words.

use std::error::Error as StdError;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Response, Url};

use super::endpoint::authority;
use crate::error::{Context, Error, Result};

/// A connection that is not there by then will not be.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept warm; most servers close theirs before.
const POOL_IDLE: Duration = Duration::from_secs(300);

/// Which client a URL needs.
#[derive(Clone, Copy)]
enum Lane {
    /// `http` to this machine: no proxy, and no certificates, which cost time and memory to load.
    Local,
    /// `https` to this machine: no proxy.
    LocalTls,
    /// Anything else: the system's proxy settings and certificates.
    Network,
}

impl Lane {
    fn of(url: &Url) -> Lane {
        // The brackets around an IPv6 address are part of `host_str`.
        let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
        let loopback = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        match (loopback, url.scheme() == "https") {
            (true, false) => Lane::Local,
            (true, true) => Lane::LocalTls,
            (false, _) => Lane::Network,
        }
    }
}

/// The shared clients. Each is built when it is first needed.
#[derive(Debug, Default)]
pub struct Clients {
    built: Mutex<[Option<Client>; 3]>,
}

impl Clients {
    /// The client for `url`.
    ///
    /// # Errors
    /// The system's certificates or proxy settings cannot be used.
    pub fn get(&self, url: &Url) -> Result<Client> {
        let lane = Lane::of(url);
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match lane {
            Lane::Local => &mut built[0],
            Lane::LocalTls => &mut built[1],
            Lane::Network => &mut built[2],
        };
        if let Some(client) = slot {
            return Ok(client.clone());
        }
        let client = build(lane).context(|| "cannot set up HTTPS".to_owned())?;
        *slot = Some(client.clone());
        Ok(client)
    }
}

fn build(lane: Lane) -> std::result::Result<Client, Box<dyn StdError>> {
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
    if !matches!(lane, Lane::Network) {
        builder = builder.no_proxy();
    }
    if matches!(lane, Lane::Local) {
        let provider = rustls::crypto::ring::default_provider();
        let unused = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder = builder.tls_backend_preconfigured(unused);
    }
    Ok(builder.build()?)
}

/// Whether a connection from the pool had been closed by the server just when it was used again.
/// The request was not answered at all, so that asking once more is right.
pub fn closed_while_idle(error: &reqwest::Error) -> bool {
    !error.is_connect()
        && causes(error).any(|e| {
            let text = e.to_string();
            text.contains("connection closed before message completed")
                || io_kind(e) == Some(io::ErrorKind::ConnectionReset)
        })
}

/// Says in one line why a request to `url` got no answer, or lost the answer that it was getting.
pub fn failure(url: &Url, error: &reqwest::Error) -> Error {
    let at = authority(url);
    if let Some(tls) = causes(error).find_map(tls_error) {
        let why = match tls {
            rustls::Error::InvalidMessage(_) => {
                return Error::runtime(format!("{at} does not speak TLS")).hint(
                    "if the server speaks plain HTTP, base_url begins with http://, not https://",
                );
            }
            rustls::Error::InvalidCertificate(why) => {
                format!("its certificate is not trusted: {why:?}")
            }
            other => other.to_string(),
        };
        return Error::runtime(format!("no secure connection to {at}: {why}")).hint(
            "a private certificate authority belongs in the system's certificates, or in SSL_CERT_FILE of the daemon",
        );
    }
    if causes(error).any(|e| e.to_string().starts_with("dns error")) {
        let host = url.host_str().unwrap_or("?");
        return Error::runtime(format!("cannot find the host {host}"))
            .hint("check base_url in the configuration, and whether the network is up");
    }
    let last = causes(error)
        .last()
        .map_or_else(|| "no reason given".to_owned(), ToString::to_string);
    if error.is_connect() {
        let why = if error.is_timeout() {
            format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())
        } else {
            match causes(error).find_map(io_kind) {
                Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
                _ => last,
            }
        };
        return Error::runtime(format!("cannot connect to {at}: {why}"))
            .hint("is the server running? base_url in the configuration says where it is");
    }
    let last = if error.is_builder() {
        "the request cannot be built".to_owned()
    } else {
        last
    };
    Error::runtime(format!("the connection to {at} broke: {last}"))
        .hint("try again; if it stays so, look at the server's log")
}

/// The error and everything that caused it.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// The error inside IO errors, which may wrap each other and which `source` steps over.
fn innermost<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    while let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        error = inner;
    }
    error
}

fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    innermost(error).downcast_ref().map(io::Error::kind)
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    innermost(error).downcast_ref()
}

/// A body's begin, at most `limit` bytes; what breaks off is kept as far as it came.
/// A server that dribbles is left after `patience`.
pub async fn read_some(response: &mut Response, limit: usize, patience: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            let left = limit - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(left)]);
            if body.len() == limit {
                break;
            }
        }
    };
    // What has arrived by then is what there is.
    let _ = tokio::time::timeout(patience, read).await;
    body
}
