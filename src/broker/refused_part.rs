//! Tells what a rejected request was refused for: the prompt, or something that is no part of the conversation. Pure.

use serde_json::Value;

/// What a request was refused for. All later requests would be refused with a prompt that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedPart {
    /// More tokens than the model's window holds.
    Length,
    /// What the prompt says or holds.
    Prompt,
    /// Something that the provider does not name.
    Unclear,
}

/// Returns what a request was refused for; `lower` is the server's message in lower case.
pub(super) fn refused_part(status: u16, body: &str, lower: &str) -> Option<RefusedPart> {
    let names = ErrorNames::of(body);
    match (status, names.is_elsewhere()) {
        (413, false) => return Some(RefusedPart::Length),
        // Too many tokens for a minute can be too many for any.
        (413, true) => return Some(RefusedPart::Unclear),
        (_, true) => return None,
        (_, false) => {}
    }
    let text = without_addresses(lower);
    let rejects = matches!(status, 400 | 422);
    match status {
        400 | 422 if names.has(&LENGTH_CODES) => Some(RefusedPart::Length),
        400 | 422 if mentions_length(&text) => Some(RefusedPart::Length),
        400 | 403 | 422 | 451 if names.has(&CONTENT_CODES) || mentions_moderation(&text) => {
            Some(RefusedPart::Prompt)
        }
        400 | 415 | 422 if mentions_message(&text) => Some(RefusedPart::Prompt),
        404 | 500 if mentions_unsupported_image(&text) => Some(RefusedPart::Prompt),
        // An error without words may be that of a proxy; a router passes these on for any cause.
        _ if matches!(text.trim(), "" | "provider returned error") => None,
        _ if rejects && !is_elsewhere(&text) => Some(RefusedPart::Unclear),
        _ => None,
    }
}

/// The codes of a prompt that is too long.
const LENGTH_CODES: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
];

/// The codes of a prompt that is not accepted. 1301 is that of Zhipu.
const CONTENT_CODES: [&str; 10] = [
    "1301",
    "content_filter",
    "content_policy_violation",
    "cyber_policy",
    "data_inspection_failed",
    "inputtextsensitivecontentdetected",
    "inputimagesensitivecontentdetected",
    "invalid_image",
    "invalid_image_format",
    "invalid_prompt",
];

/// The codes of errors that are not about the conversation.
const OTHER_CODES: [&str; 21] = [
    "access_terminated",
    "account_deactivated",
    "account_suspended",
    "arrearage",
    "authentication_error",
    "billing_hard_limit_reached",
    "budget_exceeded",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_function_parameters",
    "invalid_model",
    "model_decommissioned",
    "model_not_found",
    "not_found_error",
    "overloaded_error",
    "permission_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "tool_use_failed",
    "unknown_parameter",
    "unsupported_parameter",
];

/// The names in an error, in lower case.
#[derive(Default)]
struct ErrorNames {
    /// Code, type and status.
    codes: Vec<String>,
    /// The part of the request.
    param: String,
}

impl ErrorNames {
    fn of(body: &str) -> ErrorNames {
        let mut names = ErrorNames::default();
        names.read(body, 1);
        names
    }

    /// Reads an error, and the error of the provider behind a router in it.
    fn read(&mut self, body: &str, depth: usize) {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return;
        };
        let value = value.get(0).unwrap_or(&value);
        for error in [Some(value), value.get("error")].into_iter().flatten() {
            for key in ["code", "type", "status"] {
                let name = match error.get(key) {
                    Some(Value::String(name)) => name.to_lowercase(),
                    Some(Value::Number(number)) => number.to_string(),
                    _ => continue,
                };
                self.codes.push(name);
            }
            if let Some(param) = error.get("param").and_then(Value::as_str) {
                self.param = param.to_lowercase();
            }
            let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
            if let Some(raw) = raw.filter(|_| depth > 0) {
                self.read(raw, depth - 1);
            }
        }
    }

    fn has(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    /// Whether the error names something that is no part of the conversation.
    fn is_elsewhere(&self) -> bool {
        let of_conversation = ["message", "input", "prompt", "content", "image", "file"];
        let is_of_conversation = |name: &&str| self.param.starts_with(name);
        self.has(&OTHER_CODES)
            || !self.param.is_empty()
                && !self.has(&LENGTH_CODES)
                && !self.has(&CONTENT_CODES)
                && !of_conversation.iter().any(is_of_conversation)
    }
}

/// Removes addresses, whose words say nothing of the cause.
fn without_addresses(lower: &str) -> String {
    let is_address = |word: &&str| word.contains("://");
    let words = lower.split(char::is_whitespace);
    let words: Vec<&str> = words.filter(|word| !is_address(word)).collect();
    words.join(" ")
}

/// Whether an error is about more tokens than the model's window holds.
fn mentions_length(lower: &str) -> bool {
    [
        "context length",
        "context size",
        "context window",
        "context_length",
        "context limit",
        "input is too long",
        "inputs` tokens",
        "maximum model length",
        "n_keep",
        "payload size exceeds",
        "prompt length",
        "range of input length",
        "reduce the length",
        "string too long",
        "token count",
        "token limit",
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
    let is_elsewhere = has(&[
        "banned",
        "deactivated",
        "suspended",
        "temporarily",
        "terminated",
        "unavailable",
    ]);
    !is_elsewhere
        && (is_flagged
            || has(&[
                "content exists risk",
                "content filter",
                "content management",
                "content policy",
                "content_policy",
                "datainspection",
                "guardrail",
                "inappropriate content",
                "prohibited content",
                "safety reasons",
                "safety system",
                "safety_check",
                "sensitive content",
                "usage guidelines",
                "usage policies",
                "usage policy",
            ]))
}

/// Whether an error names a part of the messages, or an image that came with them.
fn mentions_message(lower: &str) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| lower.contains(name));
    // These are parts that no prompt has, or that only earlier messages have.
    let is_elsewhere = has(&[
        "].role",
        "all messages must have",
        "cache_control",
        "expected `thinking`",
        "extra inputs",
        "signature",
        "tool_result",
        "tool_use",
        "unknown variant",
    ]);
    !is_elsewhere
        && (mentions_image(lower)
            || has(&[
                "contents[",
                "'input[",
                "messages.",
                "messages[",
                "messages: ",
                "non-whitespace text",
            ]))
}

/// Whether an error is about images. The name of a model or of a container says nothing.
fn mentions_image(lower: &str) -> bool {
    let is_name = |c: char| matches!(c, '-' | '/' | ':' | '@');
    let has_word = |name: &&str| {
        lower.match_indices(*name).any(|(at, _)| {
            let (before, after) = (&lower[..at], &lower[at + name.len()..]);
            let ends_word = !after.starts_with(is_name) || after.starts_with(": ");
            !before.ends_with(is_name) && !before.ends_with("container ") && ends_word
        })
    };
    ["image", "mmproj", "multimodal"].iter().any(has_word)
}

/// Whether a server or a router says that no model of it takes images, or that it cannot read one.
fn mentions_unsupported_image(lower: &str) -> bool {
    ["support image", "image input", "inputs: image", "mmproj"]
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
    let is_model = lower.contains("model") && !lower.contains("input") && !lower.contains("prompt");
    is_model
        || [
            "account",
            "api key",
            "api_key",
            "archived",
            "billing",
            "budget",
            "busy",
            "cache_control",
            "capacity",
            "country",
            "credit",
            "deprecated",
            "does not exist",
            "effort",
            "extra inputs",
            "failed to load",
            "find field",
            "function",
            "grammar",
            "header",
            "http request",
            "ip address",
            "later",
            "limit reached",
            "location",
            "max_completion_tokens",
            "max_tokens",
            "not available",
            "not found",
            "not loaded",
            "organization",
            "overloaded",
            "per minute",
            "permission",
            "prefill",
            "project",
            "quota",
            "reasoning",
            "region",
            "request argument",
            "role",
            "seed",
            "signature",
            "stop sequence",
            "stream",
            "subscription",
            "temperature",
            "terminated",
            "thinking",
            "tier",
            "tool",
            "top_k",
            "top_p",
            "unavailable",
            "unknown field",
            "unknown name",
            "unknown parameter",
            "unrecognized",
            "unknown variant",
            "unsupported parameter",
            "usage limit",
            "version",
            "workspace",
        ]
        .iter()
        .any(has_word)
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
            (500, "Failed to create new sequence: failed to process inputs: image: unknown format"),
            (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
            (400, "Invalid content type. image_url is only supported by certain models."),
            (400, "Invalid value for parameter 'messages[1].content': contains control characters"),
            (400, "messages: text content blocks must contain non-whitespace text"),
            (400, "Invalid image: corrupt PNG header"),
            (400, "Image conversion failed"),
            (400, "qwen2 is not a multimodal model"),
            (404, "No endpoints found that support image input"),
            (400, "The request was blocked by the guardrail stop policy."),
            (400, "The request is blocked because the prompt contains prohibited content."),
            (400, "Provider returned error: at most 1 image per prompt"),
            (400, r#"{"error":{"code":"1301","message":"x"}}"#),
            (400, r#"[{"error":{"code":"content_filter","message":"blocked"}}]"#),
            (400, r#"{"error":{"type":"content_filter","message":"high risk"}}"#),
            (400, r#"{"error":{"metadata":{"raw":"{\"error\":{\"code\":\"invalid_prompt\"}}"}}}"#),
            (500, "image input is not supported - hint: you may need to provide the mmproj"),
        ]
        .map(|(status, words)| (status, words, Some(RefusedPart::Prompt)));
        let of_request = [
            (400, "invalid request"),
            (400, "Content is empty"),
            (400, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after"),
            (400, "messages.1: all messages must have non-empty content except for the optional final assistant message"),
            (422, "input should be a valid string"),
            (400, "Request contains an invalid argument."),
            (
                400,
                "We could not parse the JSON body. You aren't using your HTTP library correctly.",
            ),
            (
                400,
                "Something stops here: https://host/docs/models/version#tool",
            ),
            (413, r#"{"error":{"code":"rate_limit_exceeded"}}"#),
        ]
        .map(|(status, words)| (status, words, Some(RefusedPart::Unclear)));
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
            (400, ""),
            (400, "Provider returned error"),
            (404, "The model `phi-4-multimodal-instruct` does not exist."),
            (404, "The model `qwen-image-edit` does not exist"),
            (400, "the model qwen-image-edit does not exist"),
            (500, "container image not found"),
            (400, "messages[0].role: unknown variant `developer`, expected `system`"),
            (400, "messages.0.content.0.cache_control: Extra inputs are not permitted"),
            (400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
            (400, "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`"),
            (400, "Failed to parse grammar"),
            (400, r#"{"error":{"message":"It has been exceeded! Current cost: 1","type":"budget_exceeded"}}"#),
            (400, "Moderation service is temporarily unavailable"),
            (400, "Your account has been suspended due to violation of our usage policies."),
            (400, "You have reached your specified API usage limits."),
            (400, "Conversation roles must alternate user/assistant"),
            (400, r#"{"error":{"message":"n_ctx must be greater than 0 to use a context length of 4","param":"n_ctx"}}"#),
            (400, r#"{"error":{"message":"Your access ended","code":"access_terminated"}}"#),
            (400, r#"{"error":{"message":"array lacks items","param":"tools[0].function.parameters"}}"#),
            (400, r#"{"error":{"message":"Please adjust your prompt.","code":"tool_use_failed"}}"#),
            (400, r#"{"error":{"metadata":{"raw":"{\"error\":{\"code\":\"model_not_found\"}}"}}}"#),
            (409, "conflict"),
            (451, "not here"),
            (500, "internal error"),
        ]
        .map(|(status, words)| (status, words, None));
        for (status, words, part) in [&of_prompt[..], &of_request, &elsewhere].concat() {
            assert_eq!(
                refused_part(status, words, &words.to_lowercase()),
                part,
                "{words}"
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
            "Range of input length should be [1, 30720]",
            "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)",
            "Your request exceeded model token limit: 8192",
            "Input is too long for requested model.",
            r#"{"error":{"message":"Please shorten it.","code":"context_length_exceeded","param":"max_tokens"}}"#,
        ] {
            let part = refused_part(400, message, &message.to_lowercase());
            assert_eq!(part, Some(RefusedPart::Length), "{message}");
        }
        let part = refused_part(413, "", "");
        assert_eq!(part, Some(RefusedPart::Length));
    }
}
