//! Interprets responses with an error status, and gives the user a next step. Pure.

use reqwest::Url;

use super::endpoint::{ModelEndpoint, authority, place};
use super::provider::{error_message, is_out_of_credit};
use super::retry::GiveUpReason;
use crate::error::{Error, Refusal};

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
        let mut error = match kind {
            ErrorResponseKind::ConversationTooLong => Error::runtime(format!(
                "the session is too long for {model} at {at} ({status}){detail}"
            ))
            .hint("`llm :compact` replaces the older part by a summary; or start a new session with `llm --new`, or attach less")
            .refusal(Refusal::Prompt),
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
                Error::runtime(message).hint(match kind {
                    ErrorResponseKind::RejectedModel => {
                        "`aish-helper model list` shows the models; `aish-helper config show` the settings"
                    }
                    _ => "check the model's settings: aish-helper config show",
                })
            }
        };
        let is_of_request = matches!(
            kind,
            ErrorResponseKind::RejectedModel
                | ErrorResponseKind::RejectedRequest
                | ErrorResponseKind::UnknownModel
                | ErrorResponseKind::NotFound
                | ErrorResponseKind::ServerFailure
        );
        if is_of_request {
            error.refusal = refused_part(status, &lower);
        }
        error
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
    let has = |names: &[&str]| names.iter().any(|name| lower.contains(name));
    // An account or an address can be flagged too.
    let is_flagged = has(&["flagged", "moderation"])
        && !has(&[
            "account",
            "ip address",
            "organization",
            "project",
            "workspace",
        ]);
    is_flagged
        || has(&[
            "content exists risk",
            "content filter",
            "content management",
            "content policy",
            "content_policy",
            "datainspection",
            "inappropriate content",
            "safety reasons",
            "safety system",
            "safety_check",
            "sensitive content",
            "usage guidelines",
            "usage policies",
            "usage policy",
        ])
}

/// Whether an error names a part of the messages, or an image that came with them.
fn mentions_message(lower: &str) -> bool {
    [
        "contents[",
        "image",
        "'input[",
        "messages.",
        "messages[",
        "messages: ",
        "mmproj",
        "multimodal",
        "non-whitespace text",
        "range of input length",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// Whether an error is about something that is no part of the conversation: a setting, the account, the place, or the server's load.
fn is_elsewhere(lower: &str) -> bool {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let has_word = |name: &&str| {
        lower.match_indices(*name).any(|(at, _)| {
            let (before, after) = (&lower[..at], &lower[at + name.len()..]);
            let after = after.strip_prefix('s').unwrap_or(after);
            !before.ends_with(is_in_word) && !after.starts_with(is_in_word)
        })
    };
    [
        "account",
        "api key",
        "api_key",
        "archived",
        "argument",
        "billing",
        "busy",
        "capacity",
        "country",
        "deprecated",
        "disabled",
        "does not exist",
        "effort",
        "extra inputs",
        "failed to load",
        "field",
        "header",
        "http",
        "ip address",
        "later",
        "limit reached",
        "location",
        "max_completion_tokens",
        "max_tokens",
        "not allowed",
        "not available",
        "not found",
        "not loaded",
        "organization",
        "overloaded",
        "parameter",
        "permission",
        "project",
        "quota",
        "reasoning",
        "region",
        "seed",
        "stop",
        "stream",
        "subscription",
        "temperature",
        "thinking",
        "tier",
        "tool",
        "top_k",
        "top_p",
        "unavailable",
        "unknown name",
        "version",
        "workspace",
    ]
    .iter()
    .any(has_word)
}

/// Returns what a rejected request was refused for. All later requests would be refused with a prompt that is to blame.
fn refused_part(status: u16, lower: &str) -> Option<Refusal> {
    let is_model = lower.contains("model") && !lower.contains("input") && !lower.contains("prompt");
    match status {
        400 | 403 | 422 | 451 if mentions_moderation(lower) => Some(Refusal::Prompt),
        400 | 404 | 415 | 422 | 500 if mentions_message(lower) => Some(Refusal::Prompt),
        400 | 422 if !is_model && !is_elsewhere(lower) => Some(Refusal::Request),
        _ => None,
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
    fn what_is_refused_is_told_by_the_words_of_providers() {
        let of_prompt = [
            (400, "the prompt was flagged"),
            (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
            (400, "Invalid prompt: we've limited access to this content for safety reasons."),
            (400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."),
            (400, "Upstream error from Azure: the prompt triggered the content management policy"),
            (400, "Output blocked by content filtering policy"),
            (400, "Your input image may contain content that is not allowed by our safety system."),
            (400, "Your request was rejected by our safety system. See your account for details."),
            (403, "Content violates usage guidelines. Team: t, API key ID: k, Model: grok, Failed check: SAFETY_CHECK_TYPE_BIO"),
            (400, "<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content."),
            (403, "the model requires moderation, and your input was flagged"),
            (451, "The request was blocked: content_policy_violation"),
            (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
            (400, "Invalid content type. image_url is only supported by certain models."),
            (400, "Invalid value for parameter 'messages[1].content': contains control characters"),
            (400, "messages: text content blocks must contain non-whitespace text"),
            (400, "InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
            (400, "Invalid image: corrupt PNG header"),
            (400, "Image conversion failed"),
            (400, "qwen2 is not a multimodal model"),
            (404, "No endpoints found that support image input"),
            (500, "image input is not supported - hint: you may need to provide the mmproj"),
        ]
        .map(|(status, words)| (status, words, Some(Refusal::Prompt)));
        let of_request = [
            (400, ""),
            (400, "invalid request"),
            (400, "Content is empty"),
            (422, "input should be a valid string"),
        ]
        .map(|(status, words)| (status, words, Some(Refusal::Request)));
        let elsewhere = [
            (400, "the model fake is not available in your region"),
            (400, "User location is not supported for the API use."),
            (400, "Invalid model name"),
            (
                400,
                "Unsupported parameter: 'temperature' is not supported with this model.",
            ),
            (
                400,
                "Unrecognized request argument supplied: frequency_bias",
            ),
            (400, "temperature: Extra inputs are not permitted"),
            (
                400,
                "Invalid JSON payload received. Unknown name \"seed\": Cannot find field.",
            ),
            (
                400,
                "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens",
            ),
            (400, "Your organization must be verified to use the model"),
            (400, "Your account has been flagged for unusual activity"),
            (403, "Your IP address has been flagged"),
            (400, "The plain HTTP request was sent to HTTPS port"),
            (
                400,
                "This model is overloaded, try again later. No input was processed.",
            ),
            (
                400,
                "Model input capacity exceeded, please retry your message later",
            ),
            (
                400,
                "Failed to load model: out of memory while allocating the context buffers",
            ),
            (400, "Requests per minute limit reached"),
            (400, "The api_key client option must be set"),
            (400, "anthropic-version: header is required"),
            (400, "tools.0.name: String should match pattern"),
            (422, "the account is not active"),
            (404, "no such page"),
            (409, "conflict"),
            (451, "not here"),
            (500, "internal error"),
        ]
        .map(|(status, words)| (status, words, None));
        for (status, words, part) in [&of_prompt[..], &of_request, &elsewhere].concat() {
            assert_eq!(refused_part(status, &words.to_lowercase()), part, "{words}");
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
