//! Where a server may send us. Its metadata names URLs that this machine then asks: one that leads further
//! in than the server itself would make us its arm inside the user's network.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::{self, Place};
use crate::error::{Context, Error, Result};
use crate::paths;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that is not there by then will not be.
const CONNECT: Duration = Duration::from_secs(10);

/// The most that a server may say in one answer.
const MAX_BYTES: usize = 1 << 20;

/// What is checked before a request that a server has caused.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    server: Url,
    from: Place,
    names: Names,
}

impl Guard {
    /// For a server that is at `from`.
    pub(super) fn new(server: Url, from: Place) -> Guard {
        let mut own: Vec<String> = server.host_str().map(str::to_owned).into_iter().collect();
        // The person has named the proxy, as they have the server; it is mostly inside.
        for name in ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"]
            .iter()
            .chain(&["all_proxy", "ALL_PROXY"])
        {
            let proxy = paths::variable(name).and_then(|v| v.into_string().ok());
            let url =
                proxy.and_then(|p| Url::parse(&p).or(Url::parse(&format!("http://{p}"))).ok());
            own.extend(url.and_then(|u| u.host_str().map(str::to_owned)));
        }
        Guard {
            server,
            from,
            names: Names {
                from,
                own: own.into(),
                refused: Arc::default(),
            },
        }
    }

    /// The server.
    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Takes a URL that the server has named for `what`, unless it leads further in than the server is.
    ///
    /// # Errors
    /// One line that names it and says why.
    pub(super) async fn check(&self, what: &str, text: &str) -> Result<Url> {
        let refuse = |why: String| refusal(&self.server, what, text, &why);
        let url = Url::parse(text).map_err(|_| refuse("it is no web address".into()))?;
        address::named_by(&self.server, self.from, &url).map_err(refuse)?;
        if let Some(host) = url.domain()
            && let Some(Err(why)) = self.names.look_up(host).await
        {
            return Err(refuse(why));
        }
        Ok(url)
    }

    /// As far as the URL itself says.
    ///
    /// # Errors
    /// As for [`Guard::check`].
    pub(super) fn look(&self, what: &str, text: &str) -> Result<()> {
        let refuse = |why: String| refusal(&self.server, what, text, &why);
        let url = Url::parse(text).map_err(|_| refuse("it is no web address".into()))?;
        address::named_by(&self.server, self.from, &url).map_err(refuse)
    }

    /// What the resolver has refused, in words; the client's own error does not say so.
    pub(super) fn refused(&self) -> Option<Error> {
        let refused = self.names.refused.lock();
        let (host, why) = refused.unwrap_or_else(PoisonError::into_inner).take()?;
        Some(refusal(&self.server, "host", &host, &why))
    }

    /// A client that follows no redirect and connects to no address further in than the server is, whatever
    /// a name resolves to at that moment.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(super) fn client(&self) -> Result<reqwest::Client> {
        // Fails only when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            // A redirect would carry a code or a token to wherever it points.
            .redirect(reqwest::redirect::Policy::none())
            .https_only(self.server.scheme() == "https")
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .user_agent(concat!("aish/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(self.names.clone());
        if self.from == Place::Here {
            builder = builder.no_proxy();
        }
        builder.build().context(|| "cannot set up HTTPS".into())
    }
}

fn refusal(server: &Url, what: &str, named: &str, why: &str) -> Error {
    Error::runtime(format!(
        "{server} names {named} as its {what}, which is refused: {why}"
    ))
    .hint("nothing was sent there; if the server is yours, correct its OAuth metadata")
}

/// Reads a body that is not too large.
///
/// # Errors
/// It is, or it breaks off.
pub(super) async fn body(mut response: reqwest::Response) -> Result<Vec<u8>> {
    let url = response.url().clone();
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .context(|| format!("{url} broke off"))?
    {
        if body.len() + piece.len() > MAX_BYTES {
            return Err(Error::runtime(format!("{url} says too much")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The system's resolver, whose answers are checked. A name that is checked once and resolved again later
/// may have changed between, so the check is here.
#[derive(Debug, Clone)]
struct Names {
    from: Place,
    /// Hosts that the person has named.
    own: Arc<[String]>,
    refused: Arc<Mutex<Option<(String, String)>>>,
}

impl Names {
    /// The addresses of a name; `None` when it has none, `Err` when one leads too far in.
    async fn look_up(&self, host: &str) -> Option<std::result::Result<Vec<SocketAddr>, String>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await.ok()?.collect();
        if self.own.iter().any(|own| own == host) {
            return Some(Ok(found));
        }
        let checked = found.iter().try_for_each(|a| self.from.admits(a.ip()));
        Some(
            checked
                .map(|()| found)
                .map_err(|why| format!("it leads to {why}")),
        )
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            match names.look_up(host).await {
                Some(Ok(found)) => Ok(Box::new(found.into_iter()) as Addrs),
                Some(Err(why)) => {
                    let refused = (host.to_owned(), why.clone());
                    *names.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                    Err(why.into())
                }
                None => Err(format!("{host} has no address").into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(server: &str, from: Place) -> Guard {
        Guard::new(Url::parse(server).unwrap(), from)
    }

    #[tokio::test]
    async fn a_name_that_leads_in_is_refused_where_the_connection_is_made() {
        // `localhost` stands for any name whose owner lets it lead here: it goes to the real resolver.
        let public = guard("https://mcp.example.com/", Place::Outside);
        let client = public.client().unwrap();
        assert!(client.get("https://localhost:1/").send().await.is_err());
        let said = public.refused().unwrap().message;
        assert!(said.contains("localhost as its host"), "{said}");
        assert!(said.contains("is this machine"), "{said}");
        assert!(public.refused().is_none());

        let local = guard("http://127.0.0.1:1/", Place::Here);
        let client = local.client().unwrap();
        assert!(client.get("http://localhost:1/").send().await.is_err());
        assert!(local.refused().is_none());
    }

    #[tokio::test]
    async fn a_server_may_name_itself_wherever_its_name_leads() {
        let own = guard("https://localhost/", Place::Outside);
        assert!(own.names.look_up("localhost").await.unwrap().is_ok());
        assert!(own.check("page", "https://localhost/token").await.is_ok());
        let other = guard("https://mcp.example.com/", Place::Outside);
        assert!(other.names.look_up("localhost").await.unwrap().is_err());
        assert!(other.names.look_up("no-such-host.invalid").await.is_none());
    }

    #[tokio::test]
    async fn a_refusal_is_one_line_that_says_what_and_why() {
        let public = guard("https://mcp.example.com/", Place::Outside);
        let said = public
            .check("token endpoint", "https://169.254.169.254/")
            .await
            .unwrap_err();
        assert_eq!(
            said.message,
            "https://mcp.example.com/ names https://169.254.169.254/ as its token endpoint, \
             which is refused: it is no address for a server"
        );
    }
}
