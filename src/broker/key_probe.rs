//! Checks a key or a server that the user enters: which provider the key belongs to, and whether it works.

use super::autodetect::{HOSTED_PROVIDERS, HostedProvider, endpoint};
use super::model_list::is_chat_model;
use super::{Broker, ModelEndpoint};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// The provider that a key belongs to, judged by the key's form.
#[derive(Debug)]
pub enum KeyOwner {
    /// A known provider.
    Known(&'static HostedProvider),
    /// Any provider.
    Unknown,
}

/// Key prefixes that only one provider uses. Many providers use a bare `sk-`.
const PREFIXES: [(&str, &str); 9] = [
    ("AIza", "gemini"),
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
    ("csk-", "cerebras"),
    ("tgp_", "together"),
];

/// Returns the provider that a key belongs to.
pub fn key_owner(key: &Secret) -> KeyOwner {
    let key = key.expose();
    let name = PREFIXES
        .iter()
        .find(|(begin, _)| key.starts_with(begin))
        .map(|(_, name)| *name)
        // Part of every OpenAI key from before OpenAI used prefixes.
        .or_else(|| key.contains("T3BlbkFJ").then_some("openai"));
    match name.and_then(|name| HOSTED_PROVIDERS.iter().find(|h| h.name == name)) {
        Some(hosted) => KeyOwner::Known(hosted),
        None => KeyOwner::Unknown,
    }
}

/// A server that gave access, and its models.
#[derive(Debug)]
pub struct ServerOffer {
    /// The endpoint, with the first of the models.
    pub endpoint: ModelEndpoint,
    /// Its models for conversations, best first; never empty.
    pub models: Vec<String>,
}

impl Broker {
    /// Checks a key with a known provider.
    ///
    /// # Errors
    /// The provider refuses the key or cannot be reached.
    pub async fn try_key(&self, hosted: &HostedProvider, key: Secret) -> Result<ServerOffer> {
        let endpoint = ModelEndpoint {
            key: Some(key),
            images: hosted.images,
            ..endpoint(hosted.base_url, "")
        };
        if let Some(path) = hosted.private {
            self.check_access(&endpoint, &[path]).await?;
        }
        self.offer(endpoint, hosted.models).await
    }

    /// Checks a server, with or without a key. Where the address has no list of models, the same address with `/v1` is
    /// tried.
    ///
    /// # Errors
    /// The server refuses access, cannot be reached, or has no chat model.
    pub async fn try_server(&self, base_url: &str, key: Option<Secret>) -> Result<ServerOffer> {
        let mut first = None;
        for base_url in addresses(base_url) {
            let endpoint = ModelEndpoint {
                key: key.clone(),
                ..endpoint(&base_url, "")
            };
            match self.offer(endpoint, &[]).await {
                Ok(offer) => return Ok(offer),
                // No other path of the server helps.
                Err(e) if e.key_rejected || e.is_outage => return Err(e),
                Err(e) => first.get_or_insert(e),
            };
        }
        Err(first.unwrap_or_else(|| Error::config("the address is empty")))
    }

    /// Asks a server for its models.
    async fn offer(&self, mut endpoint: ModelEndpoint, wanted: &[&str]) -> Result<ServerOffer> {
        let listed = self.probe(&endpoint).await?.models;
        let is_listed = |wanted: &&str| listed.iter().any(|id| id == wanted);
        let best = wanted.iter().copied().filter(is_listed).map(str::to_owned);
        let mut models: Vec<String> = best.collect();
        let others = listed.iter().filter(|id| is_chat_model(id));
        let others = others.filter(|id| !wanted.contains(&id.as_str()));
        models.extend(others.cloned());
        let Some(first) = models.first() else {
            let at = endpoint.quote_masked(&endpoint.base_url);
            return Err(Error::runtime(format!("{at} lists no chat model"))
                .hint("load a model there first"));
        };
        endpoint.model = first.clone();
        Ok(ServerOffer { endpoint, models })
    }
}

/// Returns the base URLs to try for an address that a user typed. The APIs are below `/v1` on nearly all servers.
fn addresses(typed: &str) -> Vec<String> {
    let typed = typed.trim().trim_end_matches('/');
    let with_version = format!("{typed}/v1");
    let path = typed.split_once("://").map_or(typed, |(_, rest)| rest);
    match path.rsplit_once('/').map(|(_, last)| last) {
        None => vec![with_version, typed.to_owned()],
        Some(last)
            if last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            vec![typed.to_owned()]
        }
        Some(_) => vec![typed.to_owned(), with_version],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_only_to_its_provider() {
        let name = |key: &str| match key_owner(&Secret::new(key)) {
            KeyOwner::Known(hosted) => hosted.name,
            KeyOwner::Unknown => "unknown",
        };
        assert_eq!(name("sk-or-v1-0123"), "openrouter");
        assert_eq!(name("sk-proj-0123"), "openai");
        assert_eq!(name("sk-0123T3BlbkFJ4567"), "openai");
        assert_eq!(name("gsk_0123"), "groq");
        assert_eq!(name("xai-0123"), "xai");
        assert_eq!(name("csk-0123"), "cerebras");
        assert_eq!(name("sk-ant-api03-0123"), "anthropic");
        assert_eq!(name("AIzaSy0123"), "gemini");
        // Keys of OpenAI, DeepSeek and others: the user has to choose, since a guess could disclose the key.
        assert_eq!(name("sk-0123456789abcdef0123456789abcdef"), "unknown");
        assert_eq!(name(""), "unknown");
    }

    /// A server that sends these answers in order, and the request lines that it received.
    async fn server(
        answers: Vec<(u16, &'static str)>,
    ) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = tokio::spawn(async move {
            let mut requests = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                requests.push(head.lines().next().unwrap().to_owned());
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            requests
        });
        (base_url, requests)
    }

    #[tokio::test]
    async fn a_public_list_does_not_prove_a_key() {
        let hosted = |base_url: String| HostedProvider {
            other_variable: None,
            variable: "X",
            name: "x",
            base_url: base_url.leak(),
            models: &["b"],
            images: false,
            private: Some("key"),
        };
        let (base_url, requests) = server(vec![(401, "{}")]).await;
        let refused = Broker::new()
            .try_key(&hosted(base_url), Secret::new("k"))
            .await;
        assert!(refused.unwrap_err().message.contains("401"));
        assert_eq!(requests.await.unwrap(), ["GET /v1/key HTTP/1.1"]);

        let list = r#"{"data":[{"id":"a"},{"id":"b"}]}"#;
        let (base_url, requests) = server(vec![(200, "{}"), (200, list)]).await;
        let taken = Broker::new()
            .try_key(&hosted(base_url), Secret::new("k"))
            .await;
        assert_eq!(
            taken.unwrap().models,
            ["b", "a"],
            "the best of those listed"
        );
        assert_eq!(requests.await.unwrap().len(), 2);
    }

    #[test]
    fn a_version_is_added_to_an_address_without_one() {
        assert_eq!(
            addresses("http://h:8000"),
            ["http://h:8000/v1", "http://h:8000"]
        );
        assert_eq!(addresses(" http://h/ "), ["http://h/v1", "http://h"]);
        assert_eq!(addresses("https://h/v1/"), ["https://h/v1"]);
        assert_eq!(addresses("https://h/v1beta"), ["https://h/v1beta"]);
        assert_eq!(
            addresses("https://h/openai"),
            ["https://h/openai", "https://h/openai/v1"]
        );
        assert_eq!(
            addresses("https://h/vü"),
            ["https://h/vü", "https://h/vü/v1"]
        );
    }

    #[tokio::test]
    async fn the_version_is_found_and_a_refused_key_is_not_tried_again() {
        let list = r#"{"data":[{"id":"text-embed"},{"id":"a"}]}"#;
        let (base_url, requests) = server(vec![(404, "<html>"), (200, list)]).await;
        let base_url = base_url.replace("/v1", "/openai");
        let offer = Broker::new().try_server(&base_url, None).await.unwrap();
        assert_eq!(offer.endpoint.base_url, format!("{base_url}/v1"));
        assert_eq!(
            (offer.models, offer.endpoint.model.as_str()),
            (vec!["a".to_owned()], "a")
        );
        let requests = requests.await.unwrap();
        assert_eq!(
            requests,
            [
                "GET /openai/models HTTP/1.1",
                "GET /openai/v1/models HTTP/1.1"
            ]
        );

        let (base_url, requests) = server(vec![(401, "{}")]).await;
        let bare = base_url.trim_end_matches("/v1");
        let refused = Broker::new().try_server(bare, Some(Secret::new("k"))).await;
        assert!(refused.unwrap_err().key_rejected);
        assert_eq!(requests.await.unwrap(), ["GET /v1/models HTTP/1.1"]);
    }

    #[test]
    fn every_prefix_names_a_provider() {
        for (begin, name) in PREFIXES {
            assert!(HOSTED_PROVIDERS.iter().any(|h| h.name == name), "{begin}");
        }
    }

    #[test]
    fn a_key_with_a_known_prefix_is_redacted() {
        let random = "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo";
        for (prefix, _) in PREFIXES {
            let key = format!("{prefix}{random}{random}");
            let redacted = crate::safety::redact::Redactor::default()
                .redact(&key)
                .into_owned();
            assert!(!redacted.contains(&random[..8]), "{prefix}: {redacted}");
        }
    }
}
