//! Checks URLs that a server's metadata names. Without the check, a public server could make this machine send
//! requests into the user's private network (SSRF).

use std::time::Duration;

use reqwest::Url;

use crate::address::{self, NetworkZone};
use crate::error::{Error, ErrorContext, Result};
use crate::http_client::checked_resolver::CheckedResolver;
use crate::http_client::{ProxyUse, client_builder};

/// Time limit for one request.
const REQUEST_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Time limit for establishing a connection.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Checks the requests that a server causes.
#[derive(Debug, Clone)]
pub(super) struct UrlGuard {
    server: Url,
    from: NetworkZone,
    resolver: CheckedResolver,
}

impl UrlGuard {
    /// Creates the guard for a server at the place `from`.
    pub(super) fn new(server: Url, from: NetworkZone) -> UrlGuard {
        let named_by_user = server.host_str().map(str::to_owned).into_iter().collect();
        UrlGuard {
            server,
            from,
            resolver: CheckedResolver::new(from, named_by_user),
        }
    }

    /// URL of the server.
    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Parses and resolves a URL that the server names as its `role`. Rejects URLs that lead to a more private network
    /// than the server itself.
    ///
    /// # Errors
    /// One line with the URL and the reason.
    pub(super) async fn check(&self, role: &str, text: &str) -> Result<Url> {
        let refuse = |reason: String| refusal(&self.server, role, text, &reason);
        let url = Url::parse(text).map_err(|_| refuse("it is not an http or https URL".into()))?;
        address::check_referral(&self.server, self.from, &url).map_err(refuse)?;
        if let Some(host) = url.domain()
            && let Some(Err(reason)) = self.resolver.resolve_checked(host).await
        {
            return Err(refuse(reason));
        }
        Ok(url)
    }

    /// Checks the URL without resolving its host.
    ///
    /// # Errors
    /// Same as [`Self::check`].
    pub(super) fn check_url(&self, role: &str, text: &str) -> Result<()> {
        let refuse = |reason: String| refusal(&self.server, role, text, &reason);
        let url = Url::parse(text).map_err(|_| refuse("it is not an http or https URL".into()))?;
        address::check_referral(&self.server, self.from, &url).map_err(refuse)
    }

    /// Takes the resolver's last refusal. The error of the HTTP client does not contain the reason.
    pub(super) fn take_refusal(&self) -> Option<Error> {
        let (host, reason) = self.resolver.take_refusal()?;
        Some(refusal(&self.server, "host", &host, &reason))
    }

    /// Creates a client that follows no redirects and connects only to addresses that are no more private than the server,
    /// whatever a name resolves to at connection time.
    ///
    /// # Errors
    /// TLS setup failed.
    pub(super) fn client(&self) -> Result<reqwest::Client> {
        let proxy = match self.from {
            NetworkZone::Here => ProxyUse::Direct,
            _ => ProxyUse::System,
        };
        let builder = client_builder(proxy, CONNECT_TIME_LIMIT)
            .https_only(self.server.scheme() == "https")
            .timeout(REQUEST_TIME_LIMIT)
            .dns_resolver(self.resolver.clone());
        builder.build().context(|| "cannot set up HTTPS".into())
    }
}

fn refusal(server: &Url, role: &str, named: &str, reason: &str) -> Error {
    Error::runtime(format!(
        "{server} names {named} as its {role}, which is refused: {reason}"
    ))
    .hint("nothing was sent there; if the server is yours, correct its OAuth metadata")
}

/// Reads a response body of at most [`MAX_BODY_BYTES`].
///
/// # Errors
/// The body is larger or the connection breaks off.
pub(super) async fn read_body(mut response: reqwest::Response) -> Result<Vec<u8>> {
    let url = response.url().clone();
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .context(|| format!("the response of {url} was cut off"))?
    {
        if body.len() + piece.len() > MAX_BODY_BYTES {
            return Err(Error::runtime(format!("{url} sent more than 1 MiB")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(server: &str, from: NetworkZone) -> UrlGuard {
        UrlGuard::new(Url::parse(server).unwrap(), from)
    }

    #[tokio::test]
    async fn private_address_is_refused_at_connection_time() {
        // `localhost` represents any name that its owner points at this machine.
        let public = guard("https://mcp.example.com/", NetworkZone::Outside);
        let client = public.client().unwrap();
        assert!(client.get("https://localhost:1/").send().await.is_err());
        let message = public.take_refusal().unwrap().message;
        assert!(message.contains("localhost as its host"), "{message}");
        assert!(message.contains("is this machine"), "{message}");
        assert!(public.take_refusal().is_none());

        let local = guard("http://127.0.0.1:1/", NetworkZone::Here);
        let client = local.client().unwrap();
        assert!(client.get("http://localhost:1/").send().await.is_err());
        assert!(local.take_refusal().is_none());
    }

    #[tokio::test]
    async fn server_may_name_its_own_host() {
        let named_by_user = guard("https://localhost/", NetworkZone::Outside);
        assert!(
            named_by_user
                .resolver
                .resolve_checked("localhost")
                .await
                .unwrap()
                .is_ok()
        );
        assert!(
            named_by_user
                .check("page", "https://localhost/token")
                .await
                .is_ok()
        );
        let other = guard("https://mcp.example.com/", NetworkZone::Outside);
        assert!(
            other
                .resolver
                .resolve_checked("localhost")
                .await
                .unwrap()
                .is_err()
        );
        assert!(
            other
                .resolver
                .resolve_checked("no-such-host.invalid")
                .await
                .is_none()
        );
    }

    #[tokio::test]
    async fn refusal_names_url_and_reason_in_one_line() {
        let public = guard("https://mcp.example.com/", NetworkZone::Outside);
        let error = public
            .check("token endpoint", "https://169.254.169.254/")
            .await
            .unwrap_err();
        let expected = "https://mcp.example.com/ names https://169.254.169.254/ as its token endpoint, \
                        which is refused: it ";
        assert!(error.message.starts_with(expected), "{}", error.message);
        assert!(!error.message.contains('\n'), "{}", error.message);
    }
}
