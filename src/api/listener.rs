//! Accepts connections and serves HTTP/1.1 on them, within limits: a client that sends nothing, or slowly, is dropped.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use axum::http::{Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::{GuardedRoutes, OwnNames, Transport};
use super::problem::Problem;
use super::wire::{self, BUFFER, DocumentedRefusals};
use crate::session::lock;

/// Time to send the head of a request, and how long a connection may stay idle between two of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections. A further one takes the place of the oldest from which no request has proved who sends it, so
/// that a program that opens many keeps nobody out.
const MAX_CONNECTIONS: usize = 256;
/// TLS handshakes in a second, and as many at once after a pause: each costs milliseconds of the thread that also serves the
/// shells.
const HANDSHAKES: u32 = 20;
/// How long a connection waits for its place, and the pause after a failure to accept, most likely because file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(50);
/// How much of a request that was refused is read, so that its client reads the refusal, and how long its client may pause.
const MAX_IGNORED: usize = 32 << 20;
const LINGER: Duration = Duration::from_secs(2);

/// Decides on the process at the other end of a connection of the unix socket, by its uid and process id.
pub type PeerCheck = Arc<dyn Fn(u32, Option<i32>) -> bool + Send + Sync>;

/// The connections of all listeners.
#[derive(Debug)]
pub struct Connections {
    places: Arc<Semaphore>,
    unserved: Mutex<VecDeque<(u64, CancellationToken)>>,
    last: AtomicU64,
    /// When the next TLS handshake may begin, if all before came as fast as they may.
    next_handshake: Mutex<Option<Instant>>,
    /// The tasks of the connections.
    pub tasks: TaskTracker,
    end: CancellationToken,
    /// Cancelled when the connections that are left must go.
    pub abort: CancellationToken,
}

impl Connections {
    /// Returns connections that end with `end`.
    pub fn new(end: CancellationToken) -> Arc<Connections> {
        Arc::new(Connections {
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            unserved: Mutex::default(),
            last: AtomicU64::new(0),
            next_handshake: Mutex::default(),
            tasks: TaskTracker::new(),
            end,
            abort: CancellationToken::new(),
        })
    }

    /// Admits a connection. Those of the unix socket have proved who they are.
    fn admit(self: &Arc<Connections>, transport: &Transport) -> UnprovenConnection {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let drop_it = self.abort.child_token();
        if matches!(transport, Transport::Tcp(_)) {
            lock(&self.unserved).push_back((number, drop_it.clone()));
        }
        UnprovenConnection {
            connections: self.clone(),
            number,
            drop_it,
        }
    }

    /// Returns a place, or drops a connection that has one.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok();
        if place.is_none()
            && let Some((_, oldest)) = lock(&self.unserved).pop_front()
        {
            oldest.cancel();
        }
        place
    }

    /// Returns how long a TLS handshake has to wait; `None` if too many wait already.
    fn handshake_delay(&self) -> Option<Duration> {
        let second = Duration::from_secs(1);
        let now = Instant::now();
        let mut next = lock(&self.next_handshake);
        let burst = now.checked_sub(second).unwrap_or(now);
        let at = next.map_or(burst, |at| at.max(burst));
        let delay = at.saturating_duration_since(now);
        if delay > 2 * second {
            return None;
        }
        *next = Some(at + second / HANDSHAKES);
        Some(delay)
    }

    /// Keeps a connection: a request of it has proved who sends it.
    fn keep(&self, number: u64) {
        lock(&self.unserved).retain(|(other, _)| *other != number);
    }

    fn serve<S>(
        self: &Arc<Connections>,
        mut stream: S,
        routes: &GuardedRoutes,
        transport: &Transport,
        tls: Option<TlsAcceptor>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let place = self.place();
        let admission = self.admit(transport);
        let (routes, transport) = (routes.clone(), transport.clone());
        let (places, end) = (self.places.clone(), self.end.clone());
        self.tasks.spawn(async move {
            let place = match place {
                Some(place) => Some(place),
                None => {
                    let place = tokio::time::timeout(PAUSE, places.acquire_owned());
                    place.await.ok().and_then(Result::ok)
                }
            };
            let Some(_place) = place else {
                if tls.is_none() {
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    let hint = "close some and try again";
                    let full = Problem::new(status, "limit", "too many connections", hint);
                    refuse(&mut stream, full).await;
                }
                return;
            };
            match tls {
                None => {
                    let service = admission.service(routes, transport);
                    serve_connection(stream, service, &admission, &end).await;
                }
                // In a box, because what TLS holds would make the task of every other connection larger too.
                Some(tls) => {
                    let served = async {
                        if let Some(stream) = handshake(stream, &tls, &admission, &end).await {
                            let service = admission.service(routes, transport);
                            serve_connection(stream, service, &admission, &end).await;
                        }
                    };
                    Box::pin(served).await;
                }
            }
        });
    }
}

/// Returns the encrypted stream; `None` most often for a client that does not know the certificate, or speaks plain HTTP.
async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    tls: &TlsAcceptor,
    admission: &UnprovenConnection,
    end: &CancellationToken,
) -> Option<TlsStream<S>> {
    let delay = admission.connections.handshake_delay()?;
    let accept = async {
        tokio::time::sleep(delay).await;
        tls.accept(stream).await
    };
    tokio::select! {
        accepted = tokio::time::timeout(HEAD_TIMEOUT, accept) => accepted.ok()?.ok(),
        () = admission.drop_it.cancelled() => None,
        () = end.cancelled() => None,
    }
}

/// A connection from which no request with a proof was served yet.
struct UnprovenConnection {
    connections: Arc<Connections>,
    number: u64,
    drop_it: CancellationToken,
}

impl UnprovenConnection {
    /// Returns what answers the requests of the connection, and keeps the connection once one has proved who sends it.
    fn service(
        &self,
        routes: GuardedRoutes,
        transport: Transport,
    ) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
    + Send
    + use<> {
        let (connections, number) = (self.connections.clone(), self.number);
        let served = Arc::new((routes, transport, connections, Once::new()));
        service_fn(move |request| {
            let served = served.clone();
            async move {
                let (routes, transport, connections, kept) = &*served;
                let keep = || kept.call_once(|| connections.keep(number));
                routes.call(transport, keep, request).await
            }
        })
    }
}

impl Drop for UnprovenConnection {
    fn drop(&mut self) {
        self.connections.keep(self.number);
    }
}

async fn serve_connection<S, V>(
    stream: S,
    service: V,
    admission: &UnprovenConnection,
    end: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(DocumentedRefusals::new(stream)), service);
    let mut is_ending = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut connection => break result,
            () = admission.drop_it.cancelled() => return,
            () = end.cancelled(), if !is_ending => {
                is_ending = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    // A client that breaks the protocol or hangs up is not a fault of the server.
    let is_timeout = result.as_ref().is_err_and(hyper::Error::is_timeout);
    let parts = connection.into_parts();
    let mut refusals = parts.io.into_inner();
    // Line ends before a request are not a request: a connection that is idle between two requests needs no reply.
    let has_begun = parts.read_buf.iter().any(|byte| !b"\r\n".contains(byte));
    let goodbye = async {
        let stream = &mut refusals.stream;
        if is_timeout && has_begun {
            let seconds = HEAD_TIMEOUT.as_secs();
            let message = format!("the head of the request did not arrive within {seconds} s");
            let (status, hint) = (StatusCode::REQUEST_TIMEOUT, "send it without delay");
            refuse(stream, Problem::new(status, "limit", message, hint)).await;
        } else if result.is_err() && !is_timeout && !refusals.has_refused {
            return;
        }
        // Without the message of TLS that closes a connection, a client takes an idle one that ends for a fault.
        // To close a connection with unread bytes resets it, and the response may be lost: also where it was sent before the body
        // had arrived.
        let _ = stream.shutdown().await;
        ignore_rest(stream).await;
    };
    tokio::select! {
        // The goodbye begins also where the server stops.
        biased;
        _ = tokio::time::timeout(HEAD_TIMEOUT, goodbye) => {}
        () = admission.drop_it.cancelled() => {}
        () = end.cancelled() => {}
    }
}

/// Reads what the client still sends, until it closes the connection or pauses.
async fn ignore_rest(stream: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = vec![0; BUFFER];
    let mut ignored = 0;
    while ignored < MAX_IGNORED {
        match tokio::time::timeout(LINGER, stream.read(&mut buffer)).await {
            Ok(Ok(count @ 1..)) => ignored += count,
            _ => return,
        }
    }
}

/// Writes a refusal in place of a response. The client may read nothing.
async fn refuse(stream: &mut (impl AsyncWrite + Unpin), problem: Problem) {
    let response = wire::response(problem);
    let _ = tokio::time::timeout(PAUSE, stream.write_all(&response)).await;
}

/// Accepts connections over TCP until the server stops.
pub async fn accept_tcp(
    listener: TcpListener,
    routes: GuardedRoutes,
    names: OwnNames,
    tls: Option<TlsAcceptor>,
    connections: Arc<Connections>,
) {
    let transport = Transport::Tcp(Arc::new(names));
    loop {
        tokio::select! {
            () = connections.end.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Events are small, and must not wait for the next one.
                    let _ = stream.set_nodelay(true);
                    connections.serve(stream, &routes, &transport, tls.clone());
                }
                Err(e) => failed(&e).await,
            }
        }
    }
}

/// Accepts connections on the unix socket until the server stops.
pub async fn accept_unix(
    listener: UnixListener,
    routes: GuardedRoutes,
    may_use: PeerCheck,
    connections: Arc<Connections>,
) {
    loop {
        tokio::select! {
            () = connections.end.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let peer = stream.peer_cred().ok();
                    if peer.is_some_and(|peer| may_use(peer.uid(), peer.pid())) {
                        connections.serve(stream, &routes, &Transport::Unix, None);
                    } else {
                        tracing::warn!("rejected a client of the API: another user, or a program that aish has started");
                    }
                }
                Err(e) => failed(&e).await,
            }
        }
    }
}

async fn failed(error: &std::io::Error) {
    tracing::warn!("cannot accept a client of the API: {error}");
    tokio::time::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio_rustls::TlsConnector;

    use super::*;

    /// TLS of a server, and of a client that trusts it.
    fn tls() -> (TlsAcceptor, TlsConnector) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (
            TlsAcceptor::from(Arc::new(server)),
            TlsConnector::from(Arc::new(client)),
        )
    }

    /// Returns what a client of TLS reads that sends `request` and then nothing.
    async fn read_to_end(request: &[u8], end: CancellationToken) -> std::io::Result<Vec<u8>> {
        let (acceptor, connector) = tls();
        let (here, there) = tokio::io::duplex(1 << 16);
        let connections = Connections::new(end.clone());
        let server = tokio::spawn(async move {
            let admission = connections.admit(&Transport::Unix);
            let stream = acceptor.accept(there).await.unwrap();
            let service = service_fn(|_| async { Ok(Response::default()) });
            serve_connection(stream, service, &admission, &end).await;
        });
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, here).await?;
        stream.write_all(request).await?;
        let mut received = Vec::new();
        let read = stream.read_to_end(&mut received).await;
        drop(stream);
        server.await.unwrap();
        read.map(|_| received)
    }

    #[tokio::test(start_paused = true)]
    async fn tls_is_closed_before_an_idle_connection_and_one_of_a_server_that_stops() {
        let requests = [&b""[..], b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"];
        for request in requests {
            let idle = read_to_end(request, CancellationToken::new()).await;
            assert_eq!(idle.unwrap().is_empty(), request.is_empty());
            let end = CancellationToken::new();
            let stop = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                end.cancel();
            };
            let (stopped, ()) = tokio::join!(read_to_end(request, end.clone()), stop);
            assert_eq!(stopped.unwrap().is_empty(), request.is_empty());
        }
    }
}
