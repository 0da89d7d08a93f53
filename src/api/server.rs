//! Starts and stops the listeners of the API.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::credentials::{self, Credentials};
use super::guard::{GuardedRoutes, OwnNames};
use super::listener::{Connections, PeerCheck, accept_tcp, accept_unix};
use super::pairing::{PairingId, PairingOffer};
use super::{ApiParts, ApiState, MAX_STREAMS, routes, tls};
use crate::config::HttpSettings;
use crate::error::{Error, ErrorContext, Result, reason};
use crate::history::journal::now_ms;
use crate::paths::{self, Paths};
use crate::protocol::ServerStatus;
use crate::services::SharedServices;
use crate::session::lock;

/// How long a stop waits for the connections.
const GRACE: Duration = Duration::from_secs(2);

/// The HTTP server of the daemon, running or not.
#[derive(Debug, Default)]
pub struct ApiServer {
    running: Mutex<Option<RunningServer>>,
    /// Why it was not started with the daemon.
    failure: Mutex<Option<String>>,
    /// Held while it is started or stopped.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct RunningServer {
    state: ApiState,
    connections: Arc<Connections>,
    /// Where it listens as it was configured, with the port that it got.
    listens: ListenAddress,
    /// The address of the page, if it has a port.
    url: Option<String>,
    socket: PathBuf,
}

/// Where to listen. Kept in the runtime directory while the server runs, so that the next daemon listens there too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenAddress {
    /// An address, or a name that leads to it.
    pub hostname: String,
    /// The port; 0 for the unix socket only.
    pub port: u16,
}

fn kept_file(paths: &Paths) -> PathBuf {
    paths.run.join("server.json")
}

fn socket_file(paths: &Paths) -> PathBuf {
    paths.socket_dir.join("api.sock")
}

impl ApiServer {
    /// Starts the server if the configuration says so, or if it ran in an earlier daemon since the machine was started.
    pub async fn start_if_wanted(
        &self,
        services: &Arc<SharedServices>,
        cancel: &CancellationToken,
        may_use: PeerCheck,
    ) {
        let kept = fs::read(kept_file(&services.paths)).ok();
        let kept = kept.and_then(|text| serde_json::from_slice::<ListenAddress>(&text).ok());
        let config = services.models.config(&Default::default());
        let settings = config.as_ref().ok().map(|config| &config.server);
        if kept.is_none() && !settings.is_some_and(|settings| settings.enabled) {
            return;
        }
        if let Err(e) = self.start(services, cancel, may_use, kept).await {
            tracing::warn!("the HTTP server is not running: {}", e.message);
            let hint = e.hint.map(|hint| format!("; {hint}"));
            *lock(&self.failure) = Some(e.message + &hint.unwrap_or_default());
        }
    }

    /// Starts the server, unless it runs; `address` is in place of that of the configuration.
    ///
    /// # Errors
    /// The configuration is invalid, or the address is not free or not allowed.
    pub async fn start(
        &self,
        services: &Arc<SharedServices>,
        cancel: &CancellationToken,
        may_use: PeerCheck,
        address: Option<ListenAddress>,
    ) -> Result<ServerStatus> {
        let _changing = self.changing.lock().await;
        self.listen(services, cancel, may_use, address).await
    }

    /// Starts the server; the caller holds `changing`.
    async fn listen(
        &self,
        services: &Arc<SharedServices>,
        cancel: &CancellationToken,
        may_use: PeerCheck,
        address: Option<ListenAddress>,
    ) -> Result<ServerStatus> {
        let config = services.models.config(&Default::default())?;
        let settings = &config.server;
        let is_given = address.is_some();
        let address = address.unwrap_or_else(|| ListenAddress {
            hostname: settings.hostname.clone(),
            // The configuration has checked its range.
            port: u16::try_from(settings.port).unwrap_or(0),
        });
        if let Some(status) = self.status() {
            let is_same = status.hostname == address.hostname && status.port == address.port;
            // A configuration that wants no port does not close the one of `serve --port`.
            if is_same || address.port == 0 && !is_given {
                return Ok(status);
            }
            let place = match status.port {
                0 => "its socket only".to_owned(),
                port => format!("{}:{port}", status.hostname),
            };
            return Err(
                Error::usage(format!("the server is already running on {place}"))
                    .hint("stop it first: aish-helper serve stop"),
            );
        }
        let ip = resolve(&address.hostname).await?;
        let tls = tls(settings)?;
        if !ip.is_loopback() {
            check_public(ip, settings)?;
        }
        let tcp = match address.port {
            0 => None,
            port => Some(bind_tcp(SocketAddr::new(ip, port)).await?),
        };
        let socket = socket_file(&services.paths);
        let unix = bind_unix(&socket)?;
        let names = own_names(&address, ip, tls.is_some());
        let url = tcp.as_ref().and(names.hosts.first());
        let url = url.map(|host| format!("{}://{host}", names.scheme));
        let running = self.run(services, cancel, settings, (address.clone(), url), socket)?;
        let state = running.state.clone();
        let routes = GuardedRoutes::new(state.clone(), routes::router(state));
        let connections = running.connections.clone();
        if let Some(listener) = tcp {
            let accept = accept_tcp(listener, routes.clone(), names, tls, connections.clone());
            connections.tasks.spawn(accept);
        }
        // Their end is waited for too, so that the address is free again.
        let tasks = connections.tasks.clone();
        tasks.spawn(accept_unix(unix, routes, may_use, connections));
        *lock(&self.running) = Some(running);
        *lock(&self.failure) = None;
        keep(&services.paths, &address);
        self.status()
            .ok_or_else(|| Error::runtime("the server has stopped"))
    }

    fn run(
        &self,
        services: &Arc<SharedServices>,
        cancel: &CancellationToken,
        settings: &HttpSettings,
        (listens, url): (ListenAddress, Option<String>),
        socket: PathBuf,
    ) -> Result<RunningServer> {
        let password = settings.password.clone().map(|password| password.0);
        let end = services.leaving.child_token();
        let state = ApiState(Arc::new(ApiParts {
            services: services.clone(),
            credentials: Credentials::load(&services.paths, password)?,
            cors: settings.cors.clone(),
            refusals: Mutex::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            last_cast: Default::default(),
            searched_texts: Default::default(),
            end: end.clone(),
            cancel: cancel.clone(),
        }));
        Ok(RunningServer {
            state,
            connections: Connections::new(end),
            listens,
            url,
            socket,
        })
    }

    /// Stops the server; the next daemon does not start it either. Returns whether it ran.
    pub async fn stop(&self, paths: &Paths) -> bool {
        let _changing = self.changing.lock().await;
        // Usually the file exists only while the server runs.
        let _ = fs::remove_file(kept_file(paths));
        *lock(&self.failure) = None;
        self.end().await
    }

    /// Ends the listeners and the connections, because the daemon ends.
    pub async fn end(&self) -> bool {
        let Some(running) = lock(&self.running).take() else {
            return false;
        };
        running.state.end.cancel();
        let _ = fs::remove_file(&running.socket);
        running.connections.tasks.close();
        // A client that does not read must not delay the daemon.
        let _ = tokio::time::timeout(GRACE, running.connections.tasks.wait()).await;
        running.connections.abort.cancel();
        true
    }

    /// Returns why the server was not started with the daemon, unless it runs or was stopped since.
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Returns where the server listens; `None` if it does not run.
    pub fn status(&self) -> Option<ServerStatus> {
        let running = lock(&self.running);
        let running = running.as_ref()?;
        Some(ServerStatus {
            hostname: running.listens.hostname.clone(),
            port: running.listens.port,
            url: running.url.clone(),
            socket: running.socket.display().to_string(),
            paired_browsers: running.state.credentials.pairings.count(now_ms()),
        })
    }

    /// Makes a ticket with which a browser gets its bearer, and returns the address that opens the page with it.
    ///
    /// # Errors
    /// The server does not run, or has no port.
    pub fn ticket_url(&self, path: &str) -> Result<String> {
        let (state, url) = self.page()?;
        let ticket = state.credentials.ticket();
        Ok(format!("{url}{path}#t={}", ticket.expose()))
    }

    /// Begins to pair a browser. Returns the address that opens the page for it, and the handle of the pairing.
    ///
    /// # Errors
    /// The server does not run, or has no port.
    pub fn pair(&self, path: &str) -> Result<(String, String)> {
        let (state, url) = self.page()?;
        let PairingOffer { handle, ticket } = state.credentials.pairings.offer(now_ms());
        let url = format!("{url}{path}#p={}", ticket.expose());
        Ok((url, handle.expose().to_owned()))
    }

    /// Waits until the browser has opened the page for the pairing with this handle. Returns the code that it shows; `None`
    /// if it has not in time.
    ///
    /// # Errors
    /// The server does not run, or stops meanwhile.
    pub async fn pairing_code(&self, handle: &str) -> Result<Option<String>> {
        let (state, _) = self.page()?;
        tokio::select! {
            () = state.end.cancelled() => Err(Error::runtime("the HTTP server has stopped")),
            code = state.credentials.pairings.code(handle) => Ok(code),
        }
    }

    /// Returns the id of the pairing with this handle.
    ///
    /// # Errors
    /// It does not wait for a decision any more.
    pub fn waiting_pairing(&self, handle: &str) -> Result<PairingId> {
        let (state, _) = self.page()?;
        let waiting = state.credentials.pairings.waiting(handle, now_ms());
        waiting.ok_or_else(pairing_expired)
    }

    /// Decides on the pairing with this handle.
    ///
    /// # Errors
    /// It does not wait for a decision any more.
    pub fn decide_pairing(&self, handle: &str, accept: bool) -> Result<()> {
        let (state, _) = self.page()?;
        let pairings = &state.credentials.pairings;
        let decided = pairings.decide(handle, accept, now_ms());
        decided.map(drop).ok_or_else(pairing_expired)
    }

    /// Ends all pairings, and returns how many browsers were paired.
    pub fn unpair(&self) -> usize {
        let running = lock(&self.running);
        let pairings = |running: &RunningServer| running.state.credentials.pairings.clear(now_ms());
        running.as_ref().map_or(0, pairings)
    }

    /// Returns what the page needs: the running server and its address.
    fn page(&self) -> Result<(ApiState, String)> {
        let running = lock(&self.running);
        let running = running.as_ref();
        let page = running.and_then(|running| Some((running.state.clone(), running.url.clone()?)));
        page.ok_or_else(|| {
            Error::usage("the server has no port that a browser can use").hint(
                "start it again with one: aish-helper serve stop && aish-helper serve --port 4096",
            )
        })
    }

    /// Replaces the token. The old one is void: open streams end, and open pages must be opened again.
    ///
    /// # Errors
    /// The files cannot be written, or the server cannot be started again.
    pub async fn rotate(
        &self,
        services: &Arc<SharedServices>,
        cancel: &CancellationToken,
        may_use: PeerCheck,
    ) -> Result<()> {
        // Nobody may start the server with the old token meanwhile.
        let _changing = self.changing.lock().await;
        let address = self.status().map(|status| ListenAddress {
            hostname: status.hostname,
            port: status.port,
        });
        // First: if it fails, the server continues with the old token.
        credentials::replace(&services.paths)?;
        self.end().await;
        if address.is_some() {
            self.listen(services, cancel, may_use, address).await?;
        }
        Ok(())
    }
}

fn pairing_expired() -> Error {
    Error::runtime("the pairing has expired").hint("start again: aish-helper web --approve")
}

/// Returns the address of a name.
async fn resolve(hostname: &str) -> Result<IpAddr> {
    if hostname == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    if let Ok(ip) = hostname.parse() {
        return Ok(ip);
    }
    let found = tokio::net::lookup_host((hostname, 0)).await;
    let found = found.ok().and_then(|mut addresses| addresses.next());
    found.map(|address| address.ip()).ok_or_else(|| {
        Error::config(format!(
            "hostname is neither an address nor a name that resolves to one: {hostname}"
        ))
        .hint("use 127.0.0.1, ::1 or localhost")
    })
}

/// Checks that an address can be reached by others only with TLS and a password.
fn check_public(ip: IpAddr, settings: &HttpSettings) -> Result<()> {
    if ip.is_unspecified() {
        // Requests are accepted only for a name or an address that is known.
        return Err(
            Error::config(format!("{ip} means every address of this machine"))
                .hint("set hostname to one of them, or to a name that resolves to it"),
        );
    }
    if settings.certificate.is_some() && settings.password.is_some() {
        return Ok(());
    }
    Err(Error::config(format!(
        "without TLS and a password the server listens only on addresses of this machine itself, not on {ip}"
    ))
    .hint("forward the port: ssh -L 4096:127.0.0.1:4096 HOST; or set certificate, certificate_key and password in [server]"))
}

/// Reads the files of the certificate and its key, if they are set.
///
/// # Errors
/// A file cannot be read, has no certificate or key in it, or only one of the two settings is set. The server does not start then.
pub fn check_certificate(settings: &HttpSettings) -> Result<()> {
    tls(settings).map(|_| ())
}

fn tls(settings: &HttpSettings) -> Result<Option<TlsAcceptor>> {
    match (&settings.certificate, &settings.certificate_key) {
        (Some(certificate), Some(key)) => {
            tls::acceptor(Path::new(certificate), Path::new(key)).map(Some)
        }
        (None, None) => Ok(None),
        _ => Err(Error::config(
            "certificate and certificate_key in [server] must be set together",
        )),
    }
}

/// Returns what those who reach the server may call it, first the name for its own links.
fn own_names(address: &ListenAddress, ip: IpAddr, has_tls: bool) -> OwnNames {
    let ip_host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let mut hosts = vec![ip_host];
    let is_name = address.hostname.parse::<IpAddr>().is_err();
    if is_name {
        // Browsers write names in lower case.
        hosts.insert(0, address.hostname.to_ascii_lowercase());
    }
    if ip.is_loopback() {
        hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned));
    }
    let (scheme, usual) = match has_tls {
        true => ("https", 443),
        false => ("http", 80),
    };
    let port = address.port;
    let with_port = |host: String| match port == usual {
        // Browsers leave the usual port out.
        true => vec![host.clone(), format!("{host}:{port}")],
        false => vec![format!("{host}:{port}")],
    };
    OwnNames {
        scheme,
        hosts: hosts.into_iter().flat_map(with_port).collect(),
    }
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| {
        let error = Error::runtime(format!("cannot listen on {address}: {}", reason(&e)));
        match e.kind() {
            std::io::ErrorKind::AddrInUse => error.hint(
                "another program uses the port; choose another one: aish-helper serve --port PORT",
            ),
            _ => error,
        }
    })
}

/// Binds the unix socket. The caller is the only daemon, so a socket that exists is stale.
fn bind_unix(path: &Path) -> Result<UnixListener> {
    let what = || format!("cannot listen on {}", path.display());
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).context(what),
        _ => {}
    }
    let listener = UnixListener::bind(path).context(what)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).context(what)?;
    Ok(listener)
}

fn keep(paths: &Paths, address: &ListenAddress) {
    let text = serde_json::to_vec(address).unwrap_or_default();
    if let Err(e) = paths::replace_unsynced(&kept_file(paths), &text) {
        tracing::warn!(
            "the next daemon will not start the HTTP server: {}",
            e.message
        );
    }
}
