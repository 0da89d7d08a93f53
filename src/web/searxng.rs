//! Searches the web with a SearXNG server that the user has configured.

use reqwest::Url;
use serde::Deserialize;

use super::web_request::{TIME_LIMIT, WebClient, read_body, within_limit};
use crate::error::{Error, Result};

/// Maximum number of hits.
const MAX_HITS: usize = 20;

/// Maximum number of characters of a title and of a snippet.
const MAX_TITLE_CHARS: usize = 200;
const MAX_SNIPPET_CHARS: usize = 500;

/// Maximum length of the address of a hit and of a query in bytes.
const MAX_URL_BYTES: usize = 2000;
const MAX_QUERY_BYTES: usize = 1000;

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebHit {
    /// Title on one line.
    pub title: String,
    /// An http or https URL.
    pub url: String,
    /// Text of the page around the words, on one line.
    pub snippet: String,
}

#[derive(Deserialize)]
struct SearchReply {
    #[serde(default)]
    results: Vec<SearchResult>,
}

#[derive(Deserialize)]
struct SearchResult {
    title: Option<String>,
    url: Option<String>,
    content: Option<String>,
}

/// Searches with the server at `base`, which may be in a private network. Returns at most 20 hits.
///
/// # Errors
/// The base is not an http or https URL, the query is empty, or the server does not answer with results in time.
pub async fn searxng(base: &str, query: &str) -> Result<Vec<WebHit>> {
    let query = query.trim();
    if query.is_empty() || query.len() > MAX_QUERY_BYTES {
        return Err(Error::usage("the query must have 1 to 1,000 bytes"));
    }
    let base = Url::parse(&format!("{}/", base.trim_end_matches('/')));
    let base = base
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    let base =
        base.ok_or_else(|| Error::config("the search server is not an http or https URL"))?;
    let mut url = base
        .join("search")
        .map_err(|_| Error::config("the search server is not a valid URL"))?;
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("format", "json");
    let host = base.host_str().map(str::to_owned);
    let client = WebClient::new(&base, host.into_iter().collect())?;
    within_limit(&base, TIME_LIMIT, search(&client, &base, &url)).await
}

async fn search(client: &WebClient, base: &Url, url: &Url) -> Result<Vec<WebHit>> {
    let response = client.get(url, "application/json").await?;
    let status = response.status();
    if !status.is_success() {
        let error = Error::runtime(format!("search server {base}: HTTP {status}"));
        return Err(match status.as_u16() {
            403 => error.hint("enable json in search.formats of its settings.yml"),
            _ => error,
        });
    }
    let (body, is_cut) = read_body(response).await?;
    let reply = serde_json::from_slice::<SearchReply>(&body);
    match reply {
        Ok(reply) if !is_cut => Ok(reply
            .results
            .into_iter()
            .filter_map(hit)
            .take(MAX_HITS)
            .collect()),
        _ => Err(Error::runtime(format!(
            "search server {base}: the answer is not SearXNG's JSON"
        ))
        .hint("enable json in search.formats of its settings.yml")),
    }
}

fn hit(found: SearchResult) -> Option<WebHit> {
    let url = found.url.filter(|url| url.len() <= MAX_URL_BYTES)?;
    let url = Url::parse(&url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(WebHit {
        title: one_line(&found.title.unwrap_or_default(), MAX_TITLE_CHARS),
        url: url.to_string(),
        snippet: one_line(&found.content.unwrap_or_default(), MAX_SNIPPET_CHARS),
    })
}

fn one_line(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(limit)
        .collect()
}
