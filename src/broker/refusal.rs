//! A status other than success, and what the user can do about it. Pure.

use reqwest::Url;

use super::endpoint::{Endpoint, authority, place};
use super::openai::error_words;
use crate::error::Error;

/// How a server refused a request.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// Who was asked.
    pub endpoint: &'a Endpoint,
    /// For what.
    pub url: &'a Url,
    /// The request had tools.
    pub tools: bool,
    /// The request had messages with the role `tool`.
    pub tool_role: bool,
    /// The status of the response.
    pub status: u16,
    /// Where it redirects to.
    pub location: Option<String>,
    /// The begin of the body. Hostile text, with the key in it perhaps.
    pub body: String,
}

impl Refusal<'_> {
    /// A word for the notice that another try follows.
    pub fn short(&self) -> String {
        let at = authority(self.url);
        match self.status {
            429 => format!("{at} limits the rate"),
            status => format!("{at} answered {status}"),
        }
    }

    /// Whether no wait will help: an account without credit answers 429, and a server that cannot use
    /// tools some 500.
    pub fn for_good(&self) -> bool {
        let lower = self.words().to_lowercase();
        self.out_of_credit() || self.about_tools(&lower) || self.about_tool_role(&lower)
    }

    fn out_of_credit(&self) -> bool {
        self.body.contains("insufficient_quota")
    }

    /// Whether it is tools that the server does not take, as llama.cpp, Ollama, OpenRouter and vLLM say it.
    fn about_tools(&self, lower: &str) -> bool {
        self.tools
            && matches!(self.status, 400 | 404 | 422 | 500 | 501)
            && [
                "support tool",
                "support function",
                "tools param requires",
                "tool choice requires",
                "tools are not supported",
            ]
            .iter()
            .any(|words| lower.contains(words))
    }

    /// Whether it is the role of the results, as strict chat templates say it.
    fn about_tool_role(&self, lower: &str) -> bool {
        self.tool_role
            && matches!(self.status, 400 | 422 | 500)
            && lower.contains("role")
            && ["tool", "alternate", "unknown", "unsupported", "only user"]
                .iter()
                .any(|words| lower.contains(words))
    }

    /// The error for it. `waiting` adds what is to be said about trying again.
    pub fn error(&self, waiting: Option<&str>) -> Error {
        let at = authority(self.url);
        let status = self.status;
        let words = self.words();
        let said = if words.is_empty() {
            String::new()
        } else {
            format!(": {words}")
        };
        let waiting = waiting.map(|w| format!(" {w}")).unwrap_or_default();
        let model = self.endpoint.scrub(&self.endpoint.model);
        let lower = words.to_lowercase();
        let about_model = lower.contains("model");
        if matches!(status, 400 | 413 | 422) && about_length(&lower) || status == 413 {
            return Error::runtime(format!(
                "the conversation is too long for {model} at {at} ({status}){said}"
            ))
            .hint("`llm --new` starts afresh; a smaller attachment helps as well");
        }
        if self.about_tools(&lower) {
            return Error::runtime(format!("{model} at {at} takes no tools ({status}){said}"))
                .hint("use another model with -m, or go without tools: `llm --no-tools`");
        }
        if self.about_tool_role(&lower) {
            return Error::runtime(format!(
                "{model} at {at} rejects results of tools ({status}){said}"
            ))
            .hint("set `use_tool_role = false` under [models.NAME] of this model in the configuration");
        }
        if self.out_of_credit() || status == 402 {
            return Error::runtime(format!(
                "the account at {at} has no credit ({status}){said}"
            ))
            .hint("look at the provider's billing page, or use another model with -m");
        }
        match status {
            300..=399 => {
                let to = self.location.as_deref().map_or_else(String::new, |l| {
                    format!(" to {}", self.endpoint.scrub(without_query(l)))
                });
                Error::runtime(format!(
                    "{} redirects{to} ({status}), which is not followed",
                    place(self.url)
                ))
                .hint("set base_url to where the server is; the key goes nowhere else")
            }
            401 | 403 => {
                let mut error = Error::runtime(format!("{at} refuses access ({status}){said}"));
                error.refused = true;
                match (&self.endpoint.key_name, &self.endpoint.key) {
                    (Some(name), _) => error.hint(format!("check the key in {name}")),
                    (None, Some(_)) => error.hint("check the key of this model"),
                    (None, None) => error
                        .hint("it wants a key: set key_env for this model in the configuration"),
                }
            }
            404 if about_model => Error::runtime(format!("{at} has no model {model} (404){said}"))
                .hint("`aish-helper model list` shows what there is"),
            404 | 405 => Error::runtime(format!("nothing at {} ({status}){said}", place(self.url)))
                .hint("base_url usually ends in /v1; `aish-helper model list` shows the models"),
            429 => Error::runtime(format!("{at} limits the rate (429){waiting}{said}"))
                .hint("try again later, or use another model with -m"),
            500.. => Error::runtime(format!("{at} failed ({status}){waiting}{said}"))
                .hint("try again later; the fault is the server's"),
            _ => {
                let error = Error::runtime(format!(
                    "{at} rejects the request ({status}){waiting}{said}"
                ));
                if about_model {
                    error.hint("`aish-helper model list` shows the models; `aish-helper config show` the settings")
                } else {
                    error.hint("`aish-helper config show` shows what is sent with a request")
                }
            }
        }
    }

    /// What the body says: the message of a JSON error, or else its text.
    fn words(&self) -> String {
        let body = self.body.trim();
        match error_words(body) {
            Some(words) => self.endpoint.scrub(&words),
            None if body.starts_with('<') => self.endpoint.scrub(&without_tags(body)),
            None => self.endpoint.scrub(body),
        }
    }
}

/// Whether an error is about more tokens than the model takes.
fn about_length(lower: &str) -> bool {
    [
        "context length",
        "context size",
        "context window",
        "context_length",
        "too many tokens",
        "prompt is too long",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// A redirect's target may carry a secret in its query.
fn without_query(location: &str) -> &str {
    location.split(['?', '#']).next().unwrap_or("")
}

/// The text of an HTML page, well enough for an error: its title if there is one.
fn without_tags(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    if let Some(start) = lower.find("<title>").map(|i| i + "<title>".len())
        && let Some(end) = lower[start..].find("</title>")
    {
        return html[start..start + end].to_owned();
    }
    let mut text = String::new();
    let mut tag = false;
    for c in html.chars() {
        match c {
            '<' => tag = true,
            '>' => {
                tag = false;
                text.push(' ');
            }
            c if !tag => text.push(c),
            _ => {}
        }
    }
    text
}
