//! Fetches a page and returns its readable text.

use encoding_rs::{Encoding, UTF_8};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, LOCATION};

use super::page_text::page_text;
use super::web_request::{TIME_LIMIT, WebClient, read_body, refusal, within_limit};
use crate::address::NetworkZone;
use crate::error::{Error, ErrorContext, Result};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 8192;

/// The accepted content types.
const ACCEPT: &str =
    "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8";

/// Number of bytes in which a page can declare its encoding.
const ENCODING_BYTES: usize = 1024;

/// Number of bytes in which a page is recognized.
const HEAD_BYTES: usize = 4096;

/// How HTML begins.
const HTML_STARTS: [&str; 16] = [
    "<!doctype html",
    "<html",
    "<head",
    "<script",
    "<iframe",
    "<h1",
    "<div",
    "<font",
    "<table",
    "<a",
    "<style",
    "<title",
    "<b",
    "<body",
    "<br",
    "<p",
];

/// Whether the name in the URL may resolve to an address in a private network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateHost {
    /// Only if the URL itself shows it: `localhost`, or a numeric address.
    Refuse,
    /// Yes: the user knows what the name means.
    Allow,
}

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPage {
    /// URL after redirects.
    pub url: String,
    /// Type of the content, such as `text/html`, or that there is none.
    pub content_type: String,
    /// The text; HTML as Markdown.
    pub text: String,
    /// The page is longer than 2 MB.
    pub is_cut: bool,
}

impl FetchedPage {
    /// Returns the text below a line that says where it is from.
    pub fn for_model(&self) -> String {
        let cut = match self.is_cut {
            true => "; only the beginning",
            false => "",
        };
        let text = match self.text.trim() {
            "" => "[the page has no text]",
            _ => self.text.as_str(),
        };
        format!("[{} ({}){cut}]\n{text}", self.url, self.content_type)
    }
}

/// Fetches `url`, which the user has approved, and returns its text.
///
/// Redirects may lead to any public address, but not from https to http. A private address is reached only if the URL names
/// it itself, and a redirect to one only at the same origin.
///
/// # Errors
/// The URL is invalid or refused, the server fails or takes longer than 20 s, or the content is not text.
pub async fn fetch_url(url: &str, private: PrivateHost) -> Result<FetchedPage> {
    let approved = web_url(url)?;
    let mut named = Vec::new();
    let zone = NetworkZone::named(&approved);
    if zone != NetworkZone::Outside || private == PrivateHost::Allow {
        named.extend(approved.host_str().map(str::to_owned));
    }
    let client = WebClient::new(&approved, named)?;
    within_limit(&approved, TIME_LIMIT, follow(&client, &approved)).await
}

async fn follow(client: &WebClient, approved: &Url) -> Result<FetchedPage> {
    let mut url = approved.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = client.get(&url, ACCEPT).await?;
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let next = location.and_then(|text| url.join(text).ok());
            let next = next.ok_or_else(|| {
                Error::runtime(format!("{url}: HTTP {status} without a valid address"))
            })?;
            url = checked_redirect(approved, &url, next)?;
            continue;
        }
        if !status.is_success() {
            return Err(Error::runtime(format!("{url}: HTTP {status}")));
        }
        let declared = response.headers().get(CONTENT_TYPE);
        let declared = declared
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let content = ContentType::parse(declared);
        if !content.is_text() {
            let kind = content.shown();
            return Err(Error::runtime(format!("{url} is not text, but {kind}")));
        }
        let (body, is_cut) = read_body(response).await?;
        let base = url.clone();
        // Two megabytes of tags take a moment, in which the runtime must serve others.
        let page = tokio::task::spawn_blocking(move || content.into_page(base, &body, is_cut));
        return page.await.context(|| "cannot read the page".into())?;
    }
    Err(Error::runtime(format!(
        "{approved}: more than {MAX_REDIRECTS} redirects"
    )))
}

/// Reads a URL of the web.
///
/// # Errors
/// It is too long, is not a URL, is not of http or https, or contains a user name.
pub fn web_url(text: &str) -> Result<Url> {
    let invalid = |reason: &str| Error::usage(format!("invalid URL: {reason}"));
    if text.len() > MAX_URL_BYTES {
        return Err(invalid("it is longer than 8,192 bytes"));
    }
    let url = Url::parse(text.trim()).map_err(|error| match text.contains("://") {
        true => invalid(&error.to_string()),
        false => invalid("it must begin with https:// or http://"),
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid("only http and https can be fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it contains a user name"));
    }
    Ok(url)
}

fn checked_redirect(approved: &Url, from: &Url, to: Url) -> Result<Url> {
    let zone = NetworkZone::named(&to);
    let refuse = |reason: &str| {
        Err(Error::runtime(format!(
            "{from} redirects to {to}, which is refused: {reason}"
        )))
    };
    if web_url(to.as_str()).is_err() {
        return refuse("it is not a web address");
    }
    if from.scheme() == "https" && to.scheme() != "https" {
        return refuse("it is not https");
    }
    if zone != NetworkZone::Outside && to.origin() != approved.origin() {
        return Err(refusal(&to, "a redirect leads to a private address"));
    }
    Ok(to)
}

/// A `Content-Type` header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ContentType {
    /// In lower case; empty if the server declares none.
    media_type: String,
    charset: Option<String>,
}

impl ContentType {
    fn parse(header: &str) -> ContentType {
        let mut parts = header.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim_matches('"').to_owned();
            name.eq_ignore_ascii_case("charset").then_some(value)
        });
        ContentType {
            media_type,
            charset,
        }
    }

    fn is_html(&self) -> bool {
        matches!(
            self.media_type.as_str(),
            "text/html" | "application/xhtml+xml"
        )
    }

    fn is_text(&self) -> bool {
        let name = self.media_type.as_str();
        name.is_empty()
            || name.starts_with("text/")
            || name.ends_with("+json")
            || name.ends_with("+xml")
            || matches!(
                name,
                "application/json"
                    | "application/xml"
                    | "application/javascript"
                    | "application/x-ndjson"
                    | "application/yaml"
                    | "application/toml"
            )
    }

    fn shown(&self) -> String {
        if self.media_type.is_empty() {
            return "no content type".to_owned();
        }
        self.media_type
            .chars()
            .filter(|c| !c.is_control())
            .take(100)
            .collect()
    }

    fn into_page(self, url: Url, body: &[u8], is_cut: bool) -> Result<FetchedPage> {
        if self.charset.is_none() && body.get(..HEAD_BYTES).unwrap_or(body).contains(&0) {
            return Err(Error::runtime(format!("{url} is not text")));
        }
        let content = match self.media_type.is_empty() && looks_like_html(body) {
            true => ContentType {
                media_type: "text/html".to_owned(),
                ..self
            },
            false => self,
        };
        let (text, _, _) = content.encoding(body).decode(body);
        let text = match content.is_html() {
            true => page_text(&text, |href| {
                let target = url.join(href).ok()?;
                // A link within the page only repeats its address.
                let is_link = matches!(target.scheme(), "http" | "https") && !href.starts_with('#');
                is_link.then(|| target.to_string())
            }),
            false => text.into_owned(),
        };
        Ok(FetchedPage {
            content_type: content.shown(),
            url: url.to_string(),
            text,
            is_cut,
        })
    }

    /// The encoding by the header, else by the page's `<meta charset>`, else UTF-8.
    fn encoding(&self, body: &[u8]) -> &'static Encoding {
        if let Some(charset) = &self.charset {
            return Encoding::for_label(charset.as_bytes()).unwrap_or(UTF_8);
        }
        if !self.is_html() {
            return UTF_8;
        }
        let head = body.get(..ENCODING_BYTES).unwrap_or(body);
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let declared = head.split_once("charset=").map(|(_, rest)| {
            let rest = rest.trim_start_matches(['"', '\'']);
            rest.split(['"', '\'', '>', ';', ' ', '/'])
                .next()
                .unwrap_or_default()
        });
        declared
            .and_then(|name| Encoding::for_label(name.as_bytes()))
            .unwrap_or(UTF_8)
    }
}

/// Whether a body of no declared type begins as HTML does, after space, comments and a byte order mark. The tags are those by which
/// browsers recognise it.
fn looks_like_html(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(body.get(..HEAD_BYTES).unwrap_or(body)).to_ascii_lowercase();
    let mut text = head.trim_start_matches('\u{FEFF}').trim_start();
    while let Some((_, rest)) = text
        .strip_prefix("<!--")
        .and_then(|text| text.split_once("-->"))
    {
        text = rest.trim_start();
    }
    HTML_STARTS.iter().any(|start| {
        let rest = text.strip_prefix(start);
        rest.is_some_and(|rest| rest.starts_with([' ', '\t', '\r', '\n', '>']))
    })
}

#[cfg(test)]
mod tests;
