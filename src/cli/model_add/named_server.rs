//! The servers that a user can name: by name, or by address.

use reqwest::Url;

use crate::broker::autodetect::{HOSTED_PROVIDERS, HostedProvider, LOCAL_SERVERS};
use crate::config;

/// The server that the user names.
#[derive(Debug)]
pub enum NamedServer {
    /// A hosted provider.
    Hosted(&'static HostedProvider),
    /// A server by its base URL, and a name for it.
    Other {
        /// The base URL.
        base_url: String,
        /// The name: that of a local server, or the host.
        name: String,
        /// Whether it was named by its name, not by an address.
        is_known: bool,
    },
}

impl NamedServer {
    /// Whether it was named by its name, not by an address.
    pub fn is_known(&self) -> bool {
        match self {
            NamedServer::Hosted(_) => true,
            NamedServer::Other { is_known, .. } => *is_known,
        }
    }

    /// Its name: that of a provider or local server, or the host.
    pub fn name(&self) -> &str {
        match self {
            NamedServer::Hosted(hosted) => hosted.name,
            NamedServer::Other { name, .. } => name,
        }
    }

    /// Returns the server that a name or a base URL identifies; a bare address of a provider is the provider.
    ///
    /// # Errors
    /// A message for the user.
    pub fn from_words(typed: &str) -> Result<NamedServer, String> {
        let typed = typed.trim();
        let lower = typed.to_lowercase();
        if let Some(hosted) = HOSTED_PROVIDERS.iter().find(|hosted| hosted.name == lower) {
            return Ok(NamedServer::Hosted(hosted));
        }
        if let Some(local) = LOCAL_SERVERS.iter().find(|local| local.name == lower) {
            return Ok(NamedServer::Other {
                base_url: format!("http://127.0.0.1:{}/v1", local.port),
                name: local.name.to_owned(),
                is_known: true,
            });
        }
        if !typed.contains("://") {
            return Err(
                "is neither a known server nor an address with http:// or https://".to_owned(),
            );
        }
        config::check_base_url(typed, false).map_err(|reason| format!("it {reason}"))?;
        let url = Url::parse(typed).map_err(|e| e.to_string())?;
        let host = url.host_str().unwrap_or_default();
        let is_same = |hosted: &&HostedProvider| {
            let own = Url::parse(hosted.base_url).ok();
            own.is_some_and(|own| {
                own.origin() == url.origin()
                    && [own.path(), "", "/"].contains(&url.path().trim_end_matches('/'))
            })
        };
        if let Some(hosted) = HOSTED_PROVIDERS.iter().find(is_same) {
            return Ok(NamedServer::Hosted(hosted));
        }
        Ok(NamedServer::Other {
            base_url: typed.to_owned(),
            name: host.trim_matches(['[', ']']).to_owned(),
            is_known: false,
        })
    }
}

/// Returns the names of the hosted providers.
pub fn hosted_names() -> String {
    HOSTED_PROVIDERS
        .each_ref()
        .map(|hosted| hosted.name)
        .join(", ")
}

/// Returns the names of the servers that users run on their own machine.
pub fn local_names() -> String {
    LOCAL_SERVERS.each_ref().map(|local| local.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(typed: &str) -> String {
        match NamedServer::from_words(typed) {
            Ok(NamedServer::Hosted(hosted)) => format!("hosted {}", hosted.name),
            Ok(NamedServer::Other { base_url, name, .. }) => format!("{name} at {base_url}"),
            Err(reason) => reason,
        }
    }

    #[test]
    fn names_and_addresses_of_providers_are_known() {
        assert_eq!(named(" Anthropic "), "hosted anthropic");
        for address in [
            "https://api.anthropic.com",
            "https://api.anthropic.com/",
            "https://api.anthropic.com/v1/",
        ] {
            assert_eq!(named(address), "hosted anthropic");
        }
        assert_eq!(named("ollama"), "ollama at http://127.0.0.1:11434/v1");
        // Not the address of the provider itself: another path may be a proxy's, and the other scheme sends in clear.
        assert_eq!(
            named("https://api.anthropic.com/other"),
            "api.anthropic.com at https://api.anthropic.com/other"
        );
        assert_eq!(
            named("http://api.openai.com/v1"),
            "api.openai.com at http://api.openai.com/v1"
        );
        assert_eq!(named("http://[::1]:8000"), "::1 at http://[::1]:8000");
        // A host of that name is not the server on this machine.
        let host = NamedServer::from_words("http://ollama:11434");
        assert!(host.is_ok_and(|server| !server.is_known()));
        assert!(named("openai.com").contains("neither a known server"));
        assert!(named("ftp://h/").contains("must begin with"));
    }
}
