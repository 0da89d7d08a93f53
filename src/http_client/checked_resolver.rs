//! Name resolution that refuses addresses further inside than a network zone (SSRF).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::NetworkZone;
use crate::paths;

/// System resolver with a check of its results. Checking at connection time prevents DNS rebinding: a name may resolve
/// differently between an earlier check and the connection.
#[derive(Debug, Clone)]
pub struct CheckedResolver {
    from: NetworkZone,
    /// Hosts named by the user: the server and the proxies.
    named_by_user: Arc<[String]>,
    last_refusal: Arc<Mutex<Option<(String, String)>>>,
}

impl CheckedResolver {
    /// Creates a resolver for requests on behalf of someone in the zone `from`. The hosts in `named_by_user` and the proxies
    /// of the system, which are usually inside the private network, may have any address.
    pub fn new(from: NetworkZone, mut named_by_user: Vec<String>) -> CheckedResolver {
        for name in ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"]
            .iter()
            .chain(&["all_proxy", "ALL_PROXY"])
        {
            let proxy = paths::variable(name).and_then(|v| v.into_string().ok());
            let url =
                proxy.and_then(|p| Url::parse(&p).or(Url::parse(&format!("http://{p}"))).ok());
            named_by_user.extend(url.and_then(|u| u.host_str().map(str::to_owned)));
        }
        CheckedResolver {
            from,
            named_by_user: named_by_user.into(),
            last_refusal: Arc::default(),
        }
    }

    /// Takes the last refusal, host and reason. The error of the HTTP client does not contain it.
    pub fn take_refusal(&self) -> Option<(String, String)> {
        let mut refused = self
            .last_refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        refused.take()
    }

    /// Resolves a name. `None`: it has no address; `Err`: an address is refused.
    pub async fn resolve_checked(&self, host: &str) -> Option<Result<Vec<SocketAddr>, String>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await.ok()?.collect();
        if self
            .named_by_user
            .iter()
            .any(|named_by_user| named_by_user == host)
        {
            return Some(Ok(found));
        }
        let checked = found.iter().try_for_each(|a| self.from.admits(a.ip()));
        Some(
            checked
                .map(|()| found)
                .map_err(|reason| format!("it resolves to {reason}")),
        )
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            match resolver.resolve_checked(host).await {
                Some(Ok(found)) => Ok(Box::new(found.into_iter()) as Addrs),
                Some(Err(reason)) => {
                    let refused = (host.to_owned(), reason.clone());
                    *resolver
                        .last_refusal
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(refused);
                    Err(reason.into())
                }
                None => Err(format!("{host} has no address").into()),
            }
        })
    }
}
