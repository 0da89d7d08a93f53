//! Interprets responses with an error status, and gives the user a next step. Pure.

use reqwest::Url;

use super::endpoint::{ModelEndpoint, authority, place};
use super::provider::{error_message, is_out_of_credit};
use super::retry::GiveUpReason;
use crate::error::Error;

/// Cause of an error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorResponseKind {
    ConversationTooLong,
    ToolsUnsupported,
    ToolRoleUnsupported,
    OutOfCredit,
    Redirect,
    AccessDenied,
    UnknownModel,
    NotFound,
    RateLimited,
    ServerFailure,
    RejectedModel,
    RejectedRequest,
}

/// An error response of a provider.
#[derive(Debug)]
pub struct ErrorResponse<'a> {
    /// The endpoint that answered.
    pub endpoint: &'a ModelEndpoint,
    /// The address of the request.
    pub url: &'a Url,
    /// Whether the request declared tools.
    pub sent_tools: bool,
    /// Whether the request had messages with the role `tool`.
    pub sent_tool_role: bool,
    /// The status code.
    pub status: u16,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The beginning of the body: untrusted text that may repeat the key.
    pub body: String,
}

impl ErrorResponse<'_> {
    /// Returns a few words for the notice about a retry.
    pub fn summary(&self) -> String {
        let at = authority(self.url);
        match self.status {
            429 => format!("{at} limits the rate"),
            status => format!("{at} answered {status}"),
        }
    }

    /// Whether a retry is useless although the status is one of a temporary failure: accounts without credit answer
    /// 429, and some servers without support for tools answer 500.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self.kind(&self.server_message().to_lowercase()),
            ErrorResponseKind::ConversationTooLong
                | ErrorResponseKind::ToolsUnsupported
                | ErrorResponseKind::ToolRoleUnsupported
                | ErrorResponseKind::OutOfCredit
        )
    }

    /// Classifies the response; `lower` is the server's message in lower case.
    fn kind(&self, lower: &str) -> ErrorResponseKind {
        match self.status {
            413 => ErrorResponseKind::ConversationTooLong,
            400 | 422 if mentions_length(lower) => ErrorResponseKind::ConversationTooLong,
            _ if self.mentions_tools(lower) => ErrorResponseKind::ToolsUnsupported,
            _ if self.mentions_tool_role(lower) => ErrorResponseKind::ToolRoleUnsupported,
            400 if self.body.contains("API_KEY_INVALID") => ErrorResponseKind::AccessDenied,
            402 => ErrorResponseKind::OutOfCredit,
            _ if is_out_of_credit(&self.body) => ErrorResponseKind::OutOfCredit,
            300..=399 => ErrorResponseKind::Redirect,
            403 if mentions_moderation(lower) => ErrorResponseKind::RejectedRequest,
            401 | 403 => ErrorResponseKind::AccessDenied,
            404 if lower.contains("model") => ErrorResponseKind::UnknownModel,
            404 | 405 => ErrorResponseKind::NotFound,
            429 => ErrorResponseKind::RateLimited,
            500.. => ErrorResponseKind::ServerFailure,
            _ if lower.contains("model") => ErrorResponseKind::RejectedModel,
            _ => ErrorResponseKind::RejectedRequest,
        }
    }

    /// Whether the server does not support tools, in the words of llama.cpp, Ollama, OpenRouter and vLLM.
    fn mentions_tools(&self, lower: &str) -> bool {
        self.sent_tools
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

    /// Whether the server does not support the role of tool results, in the words of strict chat templates.
    fn mentions_tool_role(&self, lower: &str) -> bool {
        self.sent_tool_role
            && matches!(self.status, 400 | 422 | 500)
            && lower.contains("role")
            && ["tool", "alternate", "unknown", "unsupported", "only user"]
                .iter()
                .any(|words| lower.contains(words))
    }

    /// Returns the error for the user; `reason` is why the request is not retried.
    pub fn error(&self, reason: GiveUpReason) -> Error {
        let at = authority(self.url);
        let status = self.status;
        let message = self.server_message();
        let model = self.endpoint.quote_masked(&self.endpoint.model);
        let lower = message.to_lowercase();
        let kind = self.kind(&lower);
        let detail = if message.is_empty() {
            String::new()
        } else {
            format!(": {message}")
        };
        match kind {
            ErrorResponseKind::ConversationTooLong => Error::runtime(format!(
                "the session is too long for {model} at {at} ({status}){detail}"
            ))
            .hint("`llm :compact` replaces the older part by a summary; or start a new session with `llm --new`, or attach less")
            .refusal(),
            ErrorResponseKind::ToolsUnsupported => Error {
                takes_no_tools: true,
                ..Error::runtime(format!("{model} at {at} takes no tools ({status}){detail}"))
                    .hint("use another model with -m, or offer no tools: `llm --no-tools`")
            },
            ErrorResponseKind::ToolRoleUnsupported => Error::runtime(format!(
                "{model} at {at} rejects results of tools ({status}){detail}"
            ))
            .hint("set `use_tool_role = false` under [models.NAME] of this model in the configuration"),
            ErrorResponseKind::OutOfCredit => Error::runtime(format!(
                "the account at {at} has no credit ({status}){detail}"
            ))
            .hint("look at the provider's billing page, or use another model with -m"),
            ErrorResponseKind::Redirect => {
                let target = self.location.as_deref().map_or_else(String::new, |location| {
                    format!(" to {}", self.endpoint.quote_masked(without_query(location)))
                });
                Error::runtime(format!(
                    "{} redirects{target} ({status}), which is not followed",
                    place(self.url)
                ))
                .hint("set base_url to the address of the server; the key is sent nowhere else")
            }
            ErrorResponseKind::AccessDenied => {
                let mut error = Error::runtime(format!("{at} refuses access ({status}){detail}"));
                error.key_rejected = true;
                match (&self.endpoint.key_name, &self.endpoint.key) {
                    (Some(name), _) => error.hint(format!("check the key in {name}")),
                    (None, Some(_)) => error.hint("check the key of this model"),
                    (None, None) => error
                        .hint("the server requires a key: set key_env for this model in the configuration"),
                }
            }
            ErrorResponseKind::UnknownModel => {
                Error::runtime(format!("{at} has no model {model} (404){detail}"))
                    .hint("aish-helper model refresh, then llm :model --filter WORD, shows what the server offers")
            }
            ErrorResponseKind::NotFound => {
                Error::runtime(format!("nothing at {} ({status}){detail}", place(self.url)))
                    .hint("base_url usually ends in /v1; `aish-helper model list` shows the models")
            }
            ErrorResponseKind::RateLimited => {
                Error::runtime(format!("{at} limits the rate (429){reason}{detail}"))
                    .hint("try again later, or use another model with -m")
            }
            ErrorResponseKind::ServerFailure => {
                Error::runtime(format!("{at} failed ({status}){reason}{detail}"))
                    .hint("try again later; the problem is on the server")
            }
            ErrorResponseKind::RejectedModel | ErrorResponseKind::RejectedRequest => {
                let message = format!("{at} rejects the request ({status}){reason}{detail}");
                let error = Error::runtime(message);
                let error = match may_blame_prompt(status, &lower) {
                    true => error.refusal(),
                    false => error,
                };
                error.hint(match kind {
                    ErrorResponseKind::RejectedModel => {
                        "`aish-helper model list` shows the models; `aish-helper config show` the settings"
                    }
                    _ => "check the model's settings: aish-helper config show",
                })
            }
        }
    }

    /// Returns the message of a JSON error, or else the text of the body.
    fn server_message(&self) -> String {
        let body = self.body.trim();
        match error_message(body) {
            Some(words) => self.endpoint.quote_masked(&words),
            None if body.starts_with('<') => self.endpoint.quote_masked(&without_tags(body)),
            None => self.endpoint.quote_masked(body),
        }
    }
}

/// Whether an error is about more tokens than the model's window holds.
fn mentions_length(lower: &str) -> bool {
    [
        "context length",
        "context size",
        "context window",
        "context_length",
        "context limit",
        "prompt length",
        "string too long",
        "token count",
        "too many tokens",
        "prompt is too long",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// Whether an error is about text that the provider does not accept, which some answer with 403.
fn mentions_moderation(lower: &str) -> bool {
    lower.contains("flagged") || lower.contains("moderation")
}

/// Whether a rejected request may have been rejected for its prompt, with which all later requests would be rejected too. It was
/// not if the message names a setting, the account, the place or, without a part of the prompt, the model.
fn may_blame_prompt(status: u16, lower: &str) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| lower.contains(name));
    let is_elsewhere = has(&[
        "account",
        "api key",
        "billing",
        "country",
        "deprecated",
        "does not exist",
        "effort",
        "header",
        "location",
        "max_completion_tokens",
        "max_tokens",
        "not available",
        "not found",
        "organization",
        "parameter",
        "permission",
        "quota",
        "reasoning",
        "region",
        "stream",
        "subscription",
        "temperature",
        "thinking",
        "tool",
        "top_k",
        "top_p",
        "unavailable",
        "version",
    ]);
    let is_model = lower.contains("model")
        && !has(&[
            "audio", "content", "image", "input", "length", "message", "prompt", "text", "token",
            "too long",
        ]);
    match status {
        403 => true,
        400 | 422 => mentions_moderation(lower) || !(is_elsewhere || is_model),
        _ => false,
    }
}

/// Removes the query of a redirect's target, which may hold a secret.
fn without_query(location: &str) -> &str {
    location.split(['?', '#']).next().unwrap_or("")
}

/// Returns the title of an HTML page, or else its text without tags.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_prompt_may_have_caused_is_a_refusal_of_it() {
        for (status, message) in [
            (400, ""),
            (400, "invalid argument"),
            (400, "the prompt was flagged"),
            (
                400,
                "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            ),
            (
                400,
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            ),
            (
                400,
                "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
            ),
            (
                400,
                "Invalid content type. image_url is only supported by certain models.",
            ),
            (
                400,
                "Your input image may contain content that is not allowed by our safety system.",
            ),
            (
                403,
                "the model requires moderation, and your input was flagged",
            ),
            (422, "input should be a valid string"),
        ] {
            assert!(
                may_blame_prompt(status, &message.to_lowercase()),
                "{message}"
            );
        }
        for (status, message) in [
            (400, "the model fake is not available in your region"),
            (400, "User location is not supported for the API use."),
            (400, "Invalid model name"),
            (
                400,
                "Unsupported parameter: 'temperature' is not supported with this model.",
            ),
            (400, "temperature: Extra inputs are not permitted"),
            (
                400,
                "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens",
            ),
            (400, "Your organization must be verified to use the model"),
            (400, "anthropic-version: header is required"),
            (400, "tools.0.name: String should match pattern"),
            (422, "the account is not active"),
            (409, "conflict"),
            (451, "not here"),
        ] {
            assert!(
                !may_blame_prompt(status, &message.to_lowercase()),
                "{message}"
            );
        }
    }

    #[test]
    fn a_prompt_that_exceeds_the_window_is_too_long_in_the_words_of_all() {
        for message in [
            "This model's maximum context length is 8192 tokens.",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Invalid 'messages[0].content': string too long.",
            "prompt is too long: 200001 tokens > 199999 maximum",
        ] {
            assert!(mentions_length(&message.to_lowercase()), "{message}");
        }
    }
}
