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

impl Broker {
    /// Checks a key with a known provider. Returns the provider's best model with the key.
    ///
    /// # Errors
    /// The provider refuses the key or cannot be reached.
    pub async fn try_key(&self, hosted: &HostedProvider, key: Secret) -> Result<ModelEndpoint> {
        let endpoint = ModelEndpoint {
            key: Some(key),
            ..endpoint(hosted.base_url, "")
        };
        if let Some(path) = hosted.private {
            self.check_access(&endpoint, &[path]).await?;
        }
        self.with_model(endpoint, hosted.models).await
    }

    /// Checks a server, with or without a key. Returns its first chat model.
    ///
    /// # Errors
    /// The server refuses access, cannot be reached, or has no chat model.
    pub async fn try_server(&self, base_url: &str, key: Option<Secret>) -> Result<ModelEndpoint> {
        let endpoint = ModelEndpoint {
            key,
            ..endpoint(base_url, "")
        };
        self.with_model(endpoint, &[]).await
    }

    async fn with_model(
        &self,
        mut endpoint: ModelEndpoint,
        wanted: &[&str],
    ) -> Result<ModelEndpoint> {
        let listed = self.probe(&endpoint).await?.models;
        let best = wanted.iter().find(|m| listed.iter().any(|l| l == *m));
        let model = match best {
            Some(model) => Some((*model).to_owned()),
            None => listed.into_iter().find(|m| is_chat_model(m)),
        };
        endpoint.model = model.ok_or_else(|| {
            let at = endpoint.quote_masked(&endpoint.base_url);
            Error::runtime(format!("{at} lists no model to talk to"))
                .hint("load a model there first")
        })?;
        Ok(endpoint)
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
        assert_eq!(taken.unwrap().model, "b", "the best of those listed");
        assert_eq!(requests.await.unwrap().len(), 2);
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
