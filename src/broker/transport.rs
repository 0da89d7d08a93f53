//! Sends requests to model providers, with the HTTP client that suits the address.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};

use super::http1;
use super::transport_error::{TransportError, closed_while_idle};
use crate::address::is_loopback;
use crate::error::{ErrorContext, Result};
use crate::http_client::{ProxyUse, client_builder};

/// How long establishing a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A response, whichever client received it.
pub enum HttpResponse {
    /// Received by reqwest.
    Network(reqwest::Response),
    /// Received by the client for plain HTTP to this machine.
    Loopback(http1::Http1Response),
}

/// Why reading a body ended.
#[derive(Debug)]
pub enum BodyEnd {
    /// The body ended.
    Complete,
    /// The body is longer than the limit.
    LimitReached,
    /// The body took longer than the time-out.
    TimedOut,
    /// The connection broke.
    Broken(TransportError),
}

impl HttpResponse {
    /// Returns the status code.
    pub fn status(&self) -> u16 {
        match self {
            HttpResponse::Network(response) => response.status().as_u16(),
            HttpResponse::Loopback(response) => response.status,
        }
    }

    /// Returns the value of a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        match self {
            HttpResponse::Network(response) => Some(response.headers().get(name)?.as_bytes()),
            HttpResponse::Loopback(response) => response.header(name),
        }
    }

    /// Returns the next piece of the body, or `None` at its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection failed, or the body is not valid.
    pub async fn chunk(&mut self) -> std::result::Result<Option<Bytes>, TransportError> {
        match self {
            HttpResponse::Network(response) => {
                response.chunk().await.map_err(TransportError::Network)
            }
            HttpResponse::Loopback(response) => {
                response.chunk().await.map_err(TransportError::Loopback)
            }
        }
    }

    /// Reads up to `limit` bytes of the body for at most `timeout`. Returns the bytes received and why reading ended.
    pub async fn read_body(&mut self, limit: usize, timeout: Duration) -> (Vec<u8>, BodyEnd) {
        let mut body = Vec::new();
        let read = async {
            loop {
                match self.chunk().await {
                    Ok(Some(bytes)) => {
                        let left = limit - body.len();
                        if bytes.len() > left {
                            body.extend_from_slice(&bytes[..left]);
                            return BodyEnd::LimitReached;
                        }
                        body.extend_from_slice(&bytes);
                    }
                    Ok(None) => return BodyEnd::Complete,
                    Err(error) => return BodyEnd::Broken(error),
                }
            }
        };
        let end = tokio::time::timeout(timeout, read).await;
        (body, end.unwrap_or(BodyEnd::TimedOut))
    }
}

/// Which client an address needs.
#[derive(Clone, Copy)]
enum ClientRoute {
    /// `http` to this machine: the client without TLS and proxies.
    Loopback,
    /// TLS or a password to this machine: reqwest without proxies.
    DirectNetwork,
    /// Any other address: reqwest with the system's proxy settings and certificates.
    ProxiedNetwork,
}

impl ClientRoute {
    fn for_url(url: &Url) -> ClientRoute {
        let without_password = url.username().is_empty() && url.password().is_none();
        match (is_loopback(url), url.scheme()) {
            (true, "http") if without_password => ClientRoute::Loopback,
            (true, _) => ClientRoute::DirectNetwork,
            (false, _) => ClientRoute::ProxiedNetwork,
        }
    }
}

/// The HTTP clients of all requests to providers. Each is built when it is first needed, since loading certificates
/// costs time and memory.
#[derive(Debug, Default)]
pub struct HttpTransport {
    loopback: Arc<http1::ConnectionPool>,
    direct: Mutex<Option<Client>>,
    proxied: Mutex<Option<Client>>,
}

impl HttpTransport {
    /// Sends a request and waits for the head of its response. Sends it once more if the server closed an idle
    /// connection just when the connection was used again.
    ///
    /// # Errors
    /// One line with the failure and its location.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<HttpResponse> {
        let (slot, proxy) = match ClientRoute::for_url(url) {
            ClientRoute::Loopback => {
                let connecting = http1::send(
                    &self.loopback,
                    CONNECT_TIMEOUT,
                    &method,
                    url,
                    &headers,
                    &body,
                );
                return connecting
                    .await
                    .map(HttpResponse::Loopback)
                    .map_err(|error| TransportError::Loopback(error).error(url));
            }
            ClientRoute::DirectNetwork => (&self.direct, ProxyUse::Direct),
            ClientRoute::ProxiedNetwork => (&self.proxied, ProxyUse::System),
        };
        let client = shared_client(slot, proxy).context(|| "cannot set up HTTPS".to_owned())?;
        // Cloning `Bytes` does not copy the body for the second attempt.
        let body = Bytes::from(body);
        let attempt = || {
            client
                .request(method.clone(), url.clone())
                .headers(headers.clone())
                .body(body.clone())
                .send()
        };
        let result = match attempt().await {
            Err(error) if closed_while_idle(&error) => attempt().await,
            result => result,
        };
        result
            .map(HttpResponse::Network)
            .map_err(|error| TransportError::Network(error).error(url))
    }
}

/// Returns the client in `slot`, building it if needed.
fn shared_client(slot: &Mutex<Option<Client>>, proxy: ProxyUse) -> reqwest::Result<Client> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = &*slot {
        return Ok(client.clone());
    }
    let client = client_builder(proxy, CONNECT_TIMEOUT).build()?;
    *slot = Some(client.clone());
    Ok(client)
}

#[cfg(test)]
mod tests {
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Answers one request on each connection, and drops the connection once a second one has arrived.
    async fn answer_once_each(listener: TcpListener, tls: TlsAcceptor) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = tls.accept(stream).await.unwrap();
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(response).await.unwrap();
            let _ = stream.read(&mut buffer).await;
            // Without the message that closes TLS.
        }
    }

    #[tokio::test]
    async fn a_request_is_repeated_if_a_server_drops_its_connection_without_closing_tls() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = TlsAcceptor::from(Arc::new(server));
        tokio::spawn(answer_once_each(listener, tls));
        let trusted = reqwest::Certificate::from_der(made.cert.der()).unwrap();
        let client = client_builder(ProxyUse::Direct, CONNECT_TIMEOUT)
            .tls_certs_only([trusted])
            .build()
            .unwrap();
        let transport = HttpTransport {
            direct: Mutex::new(Some(client)),
            ..HttpTransport::default()
        };
        let url = Url::parse(&format!("https://localhost:{port}/")).unwrap();
        for _ in 0..3 {
            let sent = transport.send(Method::GET, &url, HeaderMap::new(), Vec::new());
            sent.await.map(drop).unwrap();
        }
    }
}
