//! Requests the list of models of a server, which also shows whether the server accepts the key.

use std::time::{Duration, Instant};

use reqwest::{Method, Url};
use serde::Deserialize;

use super::endpoint::{authority, place};
use super::retry::{self, GiveUpReason};
use super::transport::{BodyEnd, HttpResponse};
use super::{Broker, ModelEndpoint, read_error, transport_error};
use crate::error::{Error, Result};

/// Maximum size of a list of models; the longest known list is under 1 MiB.
const MAX_LIST_BYTES: usize = 8 << 20;

/// Maximum time from the connection to the last byte of the list.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The response to a request for the list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// Time from the request to the end of the answer.
    pub latency: Duration,
    /// Ids of the models, in the server's order.
    pub models: Vec<String>,
    /// Whether the endpoint's model is in the list.
    pub has_model: bool,
}

impl Broker {
    /// Requests the list of models of the server. Uses no tokens.
    ///
    /// # Errors
    /// The server is not reached, refuses access, or does not send a whole list of models in time.
    pub async fn probe(&self, endpoint: &ModelEndpoint) -> Result<ProbeReport> {
        self.probe_within(endpoint, PROBE_TIMEOUT).await
    }

    /// Like [`Broker::probe`], with another time-out.
    pub(super) async fn probe_within(
        &self,
        endpoint: &ModelEndpoint,
        timeout: Duration,
    ) -> Result<ProbeReport> {
        let start = Instant::now();
        let (url, mut response) = self.get_path(endpoint, &["models"], timeout).await?;
        let left = timeout.saturating_sub(start.elapsed());
        let (body, end) = response.read_body(MAX_LIST_BYTES, left).await;
        // A server may send the whole list and keep the body open.
        let Some(models) = model_ids(&body) else {
            return Err(no_list(endpoint, &url, &body, &end, timeout));
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
    /// Checks that the server gives access to `path` with this key.
    ///
    /// # Errors
    /// The server refuses access or is not reached.
    pub(super) async fn check_access(&self, endpoint: &ModelEndpoint, path: &[&str]) -> Result<()> {
        self.get_path(endpoint, path, PROBE_TIMEOUT)
            .await
            .map(|_| ())
    }

    async fn get_path(
        &self,
        endpoint: &ModelEndpoint,
        path: &[&str],
        timeout: Duration,
    ) -> Result<(Url, HttpResponse)> {
        let url = endpoint.url(path)?;
        let headers = endpoint.header_map()?;
        let request = self.transport.send(Method::GET, &url, headers, Vec::new());
        let Ok(response) = tokio::time::timeout(timeout, request).await else {
            return Err(transport_error::silence_error(&url, timeout));
        };
        let response = response?;
        if !matches!(response.status(), 200..=299) {
            let (refusal, _) = read_error(endpoint, &url, response).await;
            return Err(refusal.error(GiveUpReason::Permanent));
        }
        Ok((url, response))
    }
}

/// Returns the error for a body that is not a list of models.
fn no_list(
    endpoint: &ModelEndpoint,
    url: &Url,
    body: &[u8],
    end: &BodyEnd,
    timeout: Duration,
) -> Error {
    let at = authority(url);
    match end {
        BodyEnd::Complete => {
            let text = String::from_utf8_lossy(body);
            let line = text.lines().find(|line| !line.trim().is_empty());
            Error::runtime(format!(
                "{} sent something other than a list of models: {}",
                place(url),
                endpoint.quote_masked(line.unwrap_or(""))
            ))
            .hint("base_url may point at a web page or another API; it usually ends in /v1")
        }
        BodyEnd::TimedOut => Error::runtime(format!(
            "{at} did not send its list of models within {}",
            retry::readable(timeout)
        ))
        .hint("try again; the server may be overloaded"),
        BodyEnd::LimitReached => Error::runtime(format!(
            "{at} sent more than 8 MiB instead of a list of models"
        ))
        .hint("base_url may point at another API; it usually ends in /v1"),
        BodyEnd::Broken(error) => error.error(url),
    }
}

/// Returns the ids in `{"data": [{"id": "…"}, …]}`, in `{"models": [{"name": "models/…"}, …]}` or in the bare list that
/// one provider sends; `None` for any other body. Pure.
pub fn model_ids(body: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ModelList {
        Wrapped { data: Vec<ListedModel> },
        Gemini { models: Vec<NamedModel> },
        Bare(Vec<ListedModel>),
    }
    #[derive(Deserialize)]
    struct ListedModel {
        id: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NamedModel {
        name: String,
        supported_generation_methods: Option<Vec<String>>,
    }
    let list: ModelList = serde_json::from_slice(body).ok()?;
    Some(match list {
        ModelList::Wrapped { data } | ModelList::Bare(data) => {
            data.into_iter().map(|m| m.id).collect()
        }
        ModelList::Gemini { models } => {
            let generates = |model: &NamedModel| {
                let methods = model.supported_generation_methods.as_ref();
                methods.is_none_or(|m| m.iter().any(|m| m == "generateContent"))
            };
            let models = models.into_iter().filter(generates);
            models
                .map(|m| m.name.trim_start_matches("models/").to_owned())
                .collect()
        }
    })
}

/// Whether a model answers prompts, judged by its name: servers list embedding models and others as well.
pub fn is_chat_model(id: &str) -> bool {
    const OTHER_KINDS: [&str; 13] = [
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
    !OTHER_KINDS.iter().any(|other| id.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request to a server that sends these bytes and then keeps the connection open.
    async fn probe_error(sent: &'static str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(sent.as_bytes()).await.unwrap();
            // Ends when the client closes the connection.
            let _ = stream.read_u8().await;
        };
        let endpoint = super::super::autodetect::endpoint(&base_url, "m");
        let broker = Broker::new();
        let timeout = Duration::from_millis(200);
        let (result, ()) = tokio::join!(broker.probe_within(&endpoint, timeout), server);
        result.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_slow_list_is_reported_as_slow() {
        for sent in [
            "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\":[{\"id\":\"a\"},",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            let error = probe_error(sent).await;
            let expected = "did not send its list of models within 0.2 s";
            assert!(error.contains(expected), "{error}");
        }
        let error = probe_error("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz").await;
        assert!(
            error.contains("broke: the chunks of the answer are broken"),
            "{error}"
        );
    }

    #[test]
    fn only_a_list_of_models_has_ids() {
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
    fn embedding_models_are_not_chat_models() {
        for id in [
            "nomic-embed-text:latest",
            "whisper-1",
            "bge-m3",
            "Qwen3-Reranker-4B",
        ] {
            assert!(!is_chat_model(id), "{id}");
        }
        for id in [
            "llama3.2:latest",
            "gpt-6-luna",
            "qwen3-coder",
            "SmolLM2-135M-Instruct",
        ] {
            assert!(is_chat_model(id), "{id}");
        }
    }
}
