//! Interprets responses with an error status, and gives the user a next step. Pure.

use reqwest::Url;

use super::endpoint::{ModelEndpoint, authority, place};
use super::provider::{error_message, is_out_of_credit};
use super::refused_part::{RefusedPart, refused_part};
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
    RejectedPrompt,
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
    /// Whether the request had more than one prompt.
    pub has_earlier_prompts: bool,
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
                | ErrorResponseKind::RejectedPrompt
        )
    }

    /// Classifies the response; `lower` is the server's message in lower case.
    fn kind(&self, lower: &str) -> ErrorResponseKind {
        let part = refused_part(self.status, &self.body, lower);
        match self.status {
            413 => ErrorResponseKind::ConversationTooLong,
            _ if part == Some(RefusedPart::Length) => ErrorResponseKind::ConversationTooLong,
            _ if self.mentions_tools(lower) => ErrorResponseKind::ToolsUnsupported,
            _ if self.mentions_tool_role(lower) => ErrorResponseKind::ToolRoleUnsupported,
            400 if self.body.contains("API_KEY_INVALID") => ErrorResponseKind::AccessDenied,
            402 => ErrorResponseKind::OutOfCredit,
            _ if is_out_of_credit(&self.body) => ErrorResponseKind::OutOfCredit,
            300..=399 => ErrorResponseKind::Redirect,
            _ if part == Some(RefusedPart::Prompt) => ErrorResponseKind::RejectedPrompt,
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
                "{} is too long for {model} at {at} ({status}){detail}",
                if self.has_earlier_prompts { "the session" } else { "the prompt" },
            ))
            .hint(match self.has_earlier_prompts {
                true => "`llm :compact` replaces the older part by a summary; or start a new session with `llm --new`, or attach less",
                false => "shorten the prompt, attach less, or use a model with a larger window with -m",
            }),
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
            ErrorResponseKind::RejectedModel
            | ErrorResponseKind::RejectedPrompt
            | ErrorResponseKind::RejectedRequest => {
                let message = format!("{at} rejects the request ({status}){reason}{detail}");
                Error::runtime(message).hint(match kind {
                    ErrorResponseKind::RejectedPrompt => {
                        "change the prompt, attach another image, or use another model with -m"
                    }
                    ErrorResponseKind::RejectedModel => {
                        "`aish-helper model list` shows the models; `aish-helper config show` the settings"
                    }
                    _ => "check the model's settings: aish-helper config show",
                })
            }
        };
        let is_of_request = matches!(
            kind,
            ErrorResponseKind::ConversationTooLong
                | ErrorResponseKind::RejectedModel
                | ErrorResponseKind::RejectedPrompt
                | ErrorResponseKind::RejectedRequest
        );
        if is_of_request {
            error.refusal = refused_part(status, &self.body, &lower).map(|part| match part {
                RefusedPart::Length | RefusedPart::Prompt => Refusal::Prompt,
                RefusedPart::Unclear => Refusal::Request,
            });
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
    use std::time::Duration;

    use super::*;
    use crate::chat::Dialect;

    fn error_of(status: u16, body: &str, has_earlier_prompts: bool) -> Error {
        let url = Url::parse("http://h/v1/chat/completions").unwrap();
        let endpoint = ModelEndpoint {
            dialect: Dialect::Chat,
            is_mistral: false,
            base_url: "http://h/v1".to_owned(),
            model: "m".to_owned(),
            key: None,
            headers: Vec::new(),
            temperature: None,
            max_tokens: None,
            idle_timeout: Duration::from_secs(1),
            thinks: false,
            use_tool_role: true,
            images: false,
            key_name: None,
        };
        let response = ErrorResponse {
            endpoint: &endpoint,
            url: &url,
            sent_tools: true,
            sent_tool_role: true,
            has_earlier_prompts,
            status,
            location: None,
            body: body.to_owned(),
        };
        response.error(GiveUpReason::Permanent)
    }

    #[test]
    fn the_next_step_is_that_of_the_cause() {
        for (status, body, has_earlier_prompts, words, hint, refusal) in [
            (
                400,
                r#"[{"error":{"message":"The input token count (9) exceeds the maximum","code":400}}]"#,
                true,
                ": The input token count (9) exceeds the maximum",
                "`llm :compact` replaces",
                Some(Refusal::Prompt),
            ),
            (
                400,
                r#"{"error":"Cannot truncate prompt with n_keep (9) >= n_ctx (4)"}"#,
                false,
                "is too long for m",
                "shorten the prompt",
                Some(Refusal::Prompt),
            ),
            (
                413,
                "",
                false,
                "is too long for m",
                "shorten the prompt",
                Some(Refusal::Prompt),
            ),
            (
                404,
                r#"{"error":{"message":"No endpoints found that support image input"}}"#,
                false,
                "rejects the request (404)",
                "attach another image",
                Some(Refusal::Prompt),
            ),
            (
                400,
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"at most 1 image\"}}"}}}"#,
                false,
                "Provider returned error: at most 1 image",
                "attach another image",
                Some(Refusal::Prompt),
            ),
            (
                400,
                r#"{"error":{"message":"Request contains an invalid argument."}}"#,
                false,
                "rejects the request (400)",
                "config show",
                Some(Refusal::Request),
            ),
            (
                404,
                r#"{"error":{"message":"The model `x-image` does not exist","code":"model_not_found"}}"#,
                false,
                "has no model",
                "model refresh",
                None,
            ),
        ] {
            let error = error_of(status, body, has_earlier_prompts);
            assert!(error.message.contains(words), "{error:?}");
            let given = error.hint.as_deref().unwrap_or_default();
            assert!(given.contains(hint), "{body}: {given}");
            assert_eq!(error.refusal, refusal, "{body}");
        }
    }
}
