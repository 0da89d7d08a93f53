//! Whether an endpoint answers, and which models it has.

use std::time::{Duration, Instant};

use reqwest::{Method, Url};
use serde::Deserialize;

use super::endpoint::place;
use super::http::Incoming;
use super::{Broker, Endpoint, body, refused};
use crate::error::{Error, Result};

/// The most that a list of models may take; the longest known is under one MiB.
const MAX_LIST: usize = 8 << 20;

/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// From the request to the end of the answer.
    pub latency: Duration,
    /// The ids of the models, in the server's order.
    pub models: Vec<String>,
    /// The endpoint's model is one of them.
    pub has_model: bool,
}

impl Broker {
    /// Asks the server for its list of models. Needs no tokens, and shows whether the key is taken.
    ///
    /// # Errors
    /// The server is not reached, refuses, or answers with something else than a list of models.
    pub async fn probe(&self, endpoint: &Endpoint) -> Result<ProbeReport> {
        self.probe_within(endpoint, PATIENCE).await
    }

    /// The same, within `patience` from the connection to the last byte.
    pub(super) async fn probe_within(
        &self,
        endpoint: &Endpoint,
        patience: Duration,
    ) -> Result<ProbeReport> {
        let start = Instant::now();
        let (url, mut response) = self.ask_for(endpoint, &["models"], patience).await?;
        let left = patience.saturating_sub(start.elapsed());
        let body = response.read_some(MAX_LIST, left).await;
        let Some(models) = model_ids(&body) else {
            let text = String::from_utf8_lossy(&body);
            return Err(Error::runtime(format!(
                "{} sent something else than a list of models: {}",
                place(&url),
                endpoint.scrub(text.lines().find(|l| !l.trim().is_empty()).unwrap_or(""))
            ))
            .hint("base_url may point at a web page or another API; it usually ends in /v1"));
        };
        let latest = format!("{}:latest", endpoint.model);
        Ok(ProbeReport {
            latency: start.elapsed(),
            has_model: models.iter().any(|m| *m == endpoint.model || *m == latest),
            models,
        })
    }
}

impl Broker {
    /// Whether what is at `path` is there for this key.
    ///
    /// # Errors
    /// It is not, or the server is not reached.
    pub(super) async fn get(&self, endpoint: &Endpoint, path: &[&str]) -> Result<()> {
        self.ask_for(endpoint, path, PATIENCE).await.map(|_| ())
    }

    async fn ask_for(
        &self,
        endpoint: &Endpoint,
        path: &[&str],
        patience: Duration,
    ) -> Result<(Url, Incoming)> {
        let url = endpoint.url(path)?;
        let headers = endpoint.header_map()?;
        let request = self.clients.send(Method::GET, &url, headers, Vec::new());
        let Ok(response) = tokio::time::timeout(patience, request).await else {
            return Err(body::silent(&url, patience));
        };
        let response = response?;
        if !matches!(response.status(), 200..=299) {
            let (refusal, _) = refused(endpoint, &url, response).await;
            return Err(refusal.error(None));
        }
        Ok((url, response))
    }
}

/// The ids in `{"data": [{"id": "…"}, …]}` or, as one provider has it, in the bare list;
/// `None` if the body is something else. Pure.
pub fn model_ids(body: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum List {
        Wrapped { data: Vec<Model> },
        Bare(Vec<Model>),
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    let (List::Wrapped { data } | List::Bare(data)) = list;
    Some(data.into_iter().map(|m| m.id).collect())
}

/// Whether a model can be talked to, going by its name: servers list embedders and the like as well.
pub fn chats(id: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "embed",
        "whisper",
        "rerank",
        "tts",
        "bge-",
        "minilm",
        "moderation",
        "dall-e",
        "image",
        "transcri",
        "realtime",
        "audio",
        "ocr",
    ];
    let id = id.to_lowercase();
    !OTHERS.iter().any(|other| id.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_models_is_one() {
        let ids = |s: &str| model_ids(s.as_bytes());
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"a","object":"model"},{"id":"b"}]}"#),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(
            ids(r#"[{"id":"a","type":"chat"}]"#),
            Some(vec!["a".to_owned()])
        );
        assert_eq!(ids(r#"{"data":[]}"#), Some(vec![]));
        for other in [
            "",
            "<html>",
            "{}",
            "[1]",
            r#"{"data":{}}"#,
            r#"{"data":["a"]}"#,
            r#"{"data":[{"name":"a"}]}"#,
            r#"{"error":"no"}"#,
            "\u{0}\u{1}",
        ] {
            assert_eq!(ids(other), None, "{other}");
        }
    }

    #[test]
    fn embedders_do_not_chat() {
        for id in [
            "nomic-embed-text:latest",
            "whisper-1",
            "bge-m3",
            "Qwen3-Reranker-4B",
        ] {
            assert!(!chats(id), "{id}");
        }
        for id in [
            "llama3.2:latest",
            "gpt-6-luna",
            "qwen3-coder",
            "SmolLM2-135M-Instruct",
        ] {
            assert!(chats(id), "{id}");
        }
    }
}
