//! The address and settings of one model, and how messages name them.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    USER_AGENT,
};

use crate::address::is_loopback;
use crate::chat::Dialect;
use crate::error::{Error, Result};
use crate::http_client;
use crate::safety::redact::global_redactor;
use crate::secret::{REDACTED, Secret};

/// The version of the Messages API of Anthropic.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Maximum number of characters quoted from a server's text.
const MAX_QUOTE_CHARS: usize = 300;

/// One model at one server, with everything that a request needs.
#[derive(Clone)]
pub struct ModelEndpoint {
    /// The wire format.
    pub dialect: Dialect,
    /// Whether the server accepts ids of nine letters and digits only, and no user's message after a tool's (Mistral).
    pub is_mistral: bool,
    /// The base of every URL, usually ending in `/v1`.
    pub base_url: String,
    /// The model's name as the server knows it.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<Secret>,
    /// Additional headers, which replace the default ones. Their values may be secrets.
    pub headers: Vec<(String, String)>,
    /// The server decides if `None`.
    pub temperature: Option<f64>,
    /// The server decides if `None`.
    pub max_tokens: Option<u32>,
    /// Maximum silence of the server.
    pub idle_timeout: Duration,
    /// Whether the reasoning is to be shown: it is asked for where a provider sends none otherwise.
    pub thinks: bool,
    /// Whether tool results are sent with the role `tool` (`use_tool_role`).
    pub use_tool_role: bool,
    /// Whether the model accepts images (`images`).
    pub images: bool,
    /// The user's name for the key (`OPENAI_API_KEY`, `key_cmd of model fast`), for hints.
    pub key_name: Option<String>,
}

impl fmt::Debug for ModelEndpoint {
    /// Omits the headers and the URL, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("model", &self.model)
            .field("key", &self.key)
            .field("key_name", &self.key_name)
            .finish_non_exhaustive()
    }
}

impl ModelEndpoint {
    /// Returns the host of the server.
    pub fn host(&self) -> Option<String> {
        let url = Url::parse(self.base_url.trim()).ok()?;
        url.host_str().map(str::to_owned)
    }

    /// Returns whether the server runs on this machine.
    pub fn is_on_this_machine(&self) -> bool {
        Url::parse(self.base_url.trim()).is_ok_and(|url| is_loopback(&url))
    }

    /// Returns the same model in another wire format.
    #[must_use]
    pub fn with_dialect(&self, dialect: Dialect) -> ModelEndpoint {
        ModelEndpoint {
            dialect,
            ..self.clone()
        }
    }

    /// Returns the URL of `path` under `base_url`; a query, as Azure needs it, stays at the end.
    ///
    /// # Errors
    /// `base_url` is not an http or https URL.
    pub fn url(&self, path: &[&str]) -> Result<Url> {
        let wrong = |why: &str| {
            Error::config(format!(
                "base_url {:?} of model {}: {why}",
                self.quote_masked(&self.base_url),
                self.model
            ))
            .hint("it looks like https://api.example.com/v1 or http://127.0.0.1:8080/v1")
        };
        let mut url = Url::parse(self.base_url.trim()).map_err(|e| wrong(&e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("neither http nor https"));
        }
        url.path_segments_mut()
            .map_err(|()| wrong("not a URL with a path"))?
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }

    /// Returns the headers of every request, including the key.
    ///
    /// # Errors
    /// A header's name or value is invalid; the error does not show the value.
    pub fn header_map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::with_capacity(6 + self.headers.len());
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        map.insert(
            ACCEPT,
            HeaderValue::from_static("text/event-stream, application/json"),
        );
        // Without this header any encoding would be allowed.
        map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        map.insert(
            USER_AGENT,
            HeaderValue::from_static(http_client::USER_AGENT),
        );
        if self.dialect == Dialect::Anthropic {
            let version = HeaderValue::from_static(ANTHROPIC_VERSION);
            map.insert(HeaderName::from_static("anthropic-version"), version);
        }
        if let Some(key) = &self.key {
            let (name, scheme) = match self.dialect {
                Dialect::Chat | Dialect::Responses => (AUTHORIZATION, "Bearer "),
                Dialect::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
                Dialect::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            };
            let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose().trim()))
                .map_err(|_| {
                    let name = self.key_name.as_deref().unwrap_or("the key");
                    Error::config(format!(
                        "{name} contains a character that cannot be part of a key"
                    ))
                    .hint("look for a line break or a quote in it")
                })?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        for (name, value) in &self.headers {
            let wrong =
                |what| Error::config(format!("header {name:?} of model {}: {what}", self.model));
            let key = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("not a valid header name"))?;
            let mut value =
                HeaderValue::from_str(value).map_err(|_| wrong("not a valid header value"))?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(map)
    }

    /// Returns a server's text as one short line without secrets. They are masked before the text is cut, so that no part of
    /// them remains.
    pub fn quote_masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(key) = &self.key {
            text = Secret::new(key.expose().trim()).mask(&text);
        }
        for (_, value) in self.headers.iter().filter(|(_, v)| v.len() >= 8) {
            text = text.replace(value.as_str(), REDACTED);
        }
        one_line(&global_redactor().redact(&text))
    }
}

/// Returns the first [`MAX_QUOTE_CHARS`] characters, with each run of white space and control characters as one space.
fn one_line(text: &str) -> String {
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty());
    let mut line = String::new();
    let mut left = MAX_QUOTE_CHARS;
    for word in words {
        let space = usize::from(!line.is_empty());
        let length = word.chars().count();
        if space + length > left {
            line.extend(" ".repeat(space).chars().chain(word.chars()).take(left));
            line.push('…');
            return line;
        }
        if space > 0 {
            line.push(' ');
        }
        line.push_str(word);
        left -= space + length;
    }
    line
}

/// Returns `host:port`, which error messages about connections name.
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Returns the URL without user, password and query, which may be secrets.
pub fn place(url: &Url) -> String {
    let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
    let host = url.host_str().unwrap_or("?");
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> ModelEndpoint {
        ModelEndpoint {
            dialect: Dialect::Chat,
            is_mistral: false,
            base_url: base_url.to_owned(),
            model: "m".to_owned(),
            key: Some(Secret::new("sk-secret\n")),
            headers: vec![("x-team".to_owned(), "team-secret".to_owned())],
            temperature: None,
            max_tokens: None,
            idle_timeout: Duration::from_secs(1),
            thinks: false,
            use_tool_role: true,
            images: false,
            key_name: Some("SOME_KEY".to_owned()),
        }
    }

    #[test]
    fn paths_join_with_and_without_a_final_slash_and_before_a_query() {
        for (base, expected) in [
            ("http://h:1/v1", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
            ("https://h", "https://h/chat/completions"),
            (" https://h/a?b=c ", "https://h/a/chat/completions?b=c"),
        ] {
            let url = endpoint(base).url(&["chat", "completions"]).unwrap();
            assert_eq!(url.as_str(), expected);
        }
    }

    #[test]
    fn an_invalid_base_url_is_a_configuration_error() {
        for base in ["", "localhost:8080/v1", "ftp://h/v1", "data:x", "http://"] {
            let error = endpoint(base).url(&["models"]).unwrap_err();
            assert_eq!(error.kind, crate::error::ErrorKind::Config, "{base}");
        }
    }

    #[test]
    fn places_hold_no_secrets() {
        let url = Url::parse("https://user:pass@h/v1?key=sk-1").unwrap();
        assert_eq!(place(&url), "https://h/v1");
        assert_eq!(authority(&url), "h:443");
    }

    #[test]
    fn text_is_masked_before_it_is_cut() {
        let text = format!("{} sk-secret", "x".repeat(MAX_QUOTE_CHARS - 4));
        let line = endpoint("http://h").quote_masked(&text);
        assert!(!line.contains("sk-"), "{line}");
        assert_eq!(line.chars().count(), MAX_QUOTE_CHARS + 1);
        let other = format!(
            "{} postgres://app:{}@h",
            "x".repeat(MAX_QUOTE_CHARS - 25),
            "S3cretPw9".repeat(3)
        );
        let line = endpoint("http://h").quote_masked(&other);
        assert!(!line.contains("S3c"), "{line}");
        assert_eq!(
            endpoint("http://h").quote_masked("a\r\n\x1b[31m  team-secret\u{85}b"),
            "a [31m [REDACTED] b"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", endpoint("http://u:pass@h"));
        assert!(
            !shown.contains("secret") && !shown.contains("pass"),
            "{shown}"
        );
    }

    #[test]
    fn a_broken_key_is_named_and_not_shown() {
        let mut e = endpoint("http://h");
        e.key = Some(Secret::new("sk\n-secret"));
        let error = e.header_map().unwrap_err().to_string();
        assert!(
            error.contains("SOME_KEY") && !error.contains("secret"),
            "{error}"
        );
    }
}
