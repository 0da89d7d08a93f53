//! The HTTP client settings of the whole crate: model providers, MCP servers, and their logins.

pub mod checked_resolver;
pub mod tls_failure;

use std::time::Duration;

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

/// How long an idle connection is kept for the next request; most servers close theirs sooner.
pub const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

/// The `User-Agent` of every request.
pub const USER_AGENT: &str = concat!("aish/", env!("CARGO_PKG_VERSION"));

/// Whether requests go through the proxy that the system is configured to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyUse {
    /// Never: the server is on this machine.
    Direct,
    /// Where the system's settings say so.
    System,
}

/// Returns the settings that all clients share. A caller adds its own, such as a redirect policy.
///
/// No redirect is followed, since a redirect would carry a key to any host that the server names.
pub fn client_builder(proxy: ProxyUse, connect_timeout: Duration) -> ClientBuilder {
    // Fails only if a TLS provider is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .user_agent(USER_AGENT)
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(10));
    match proxy {
        ProxyUse::Direct => builder.no_proxy(),
        ProxyUse::System => builder,
    }
}
