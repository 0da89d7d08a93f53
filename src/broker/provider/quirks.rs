//! Deviations of servers from their formats, learned from their refusals. Pure.

use crate::broker::ModelEndpoint;
use crate::broker::wire_names::WireNames;
use crate::chat::Dialect;

/// The keys of a schema that lead to alternatives, which some servers reject at the root.
pub(super) const ALTERNATIVES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Deviations of a server from the format, learned from its error messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerQuirks {
    /// The server rejects `stream_options`.
    pub no_stream_options: bool,
    /// The server requires `max_completion_tokens` instead of `max_tokens`.
    pub max_completion_tokens: bool,
    /// The server rejects dots in tool names.
    pub no_dots: bool,
    /// The server rejects extra content, which other servers require with their calls.
    pub no_extra: bool,
    /// The server wants the reasoning of answers with calls returned.
    pub returns_reasoning: bool,
    /// The server rejects alternatives at the root of a schema.
    pub no_alternatives: bool,
    /// The model rejects a temperature.
    pub no_temperature: bool,
    /// The model has no reasoning that could be asked for.
    pub no_reasoning: bool,
    /// The server rejects cache markers.
    pub no_cache_control: bool,
    /// The most tokens of an answer that the model accepts.
    pub max_output: Option<u32>,
    /// The server has no Responses API, only chat completions.
    pub no_responses: bool,
}

impl ServerQuirks {
    /// Learns from the rejection (status 400 or 422) of a request with these names. Returns `None` if nothing was
    /// learned, so that a retry would be identical.
    pub fn learn(
        self,
        endpoint: &ModelEndpoint,
        names: &WireNames,
        refusal: &str,
    ) -> Option<ServerQuirks> {
        let mut learned = self;
        if refusal.contains("max_completion_tokens") && endpoint.max_tokens.is_some() {
            learned.max_completion_tokens = true;
        }
        if refusal.contains("stream_options") || refusal.contains("include_usage") {
            learned.no_stream_options = true;
        }
        if names.has_dots() && mentions_name_pattern(&refusal.to_lowercase()) {
            learned.no_dots = true;
        }
        if refusal.contains("reasoning_content") && endpoint.dialect == Dialect::Chat {
            learned.returns_reasoning = true;
        }
        if refusal.contains("extra_content") {
            learned.no_extra = true;
        }
        if refusal.contains("temperature") && endpoint.temperature.is_some() {
            learned.no_temperature = true;
        }
        let lower = refusal.to_lowercase();
        let about_root = "schema must have type 'object'";
        if ALTERNATIVES.iter().any(|key| refusal.contains(key)) || lower.contains(about_root) {
            learned.no_alternatives = true;
        }
        let about_reasoning = match endpoint.dialect {
            Dialect::Responses => {
                let about_summary = endpoint.thinks && lower.contains("reasoning");
                lower.contains("encrypted content") || lower.contains("'include'") || about_summary
            }
            Dialect::Gemini => lower.contains("thinking") || lower.contains("thought"),
            // Signatures of earlier thinking are another matter: nothing would be left out then.
            Dialect::Anthropic => endpoint.thinks && lower.contains("thinking"),
            Dialect::Chat => false,
        };
        learned.no_reasoning |= about_reasoning;
        if refusal.contains("cache_control") && endpoint.dialect == Dialect::Anthropic {
            learned.no_cache_control = true;
        }
        if endpoint.dialect == Dialect::Anthropic && refusal.contains("max_tokens") {
            learned.max_output = allowed_output(refusal).or(learned.max_output);
        }
        (learned != self).then_some(learned)
    }

    /// Returns what requests leave out or change from now on, if a person configured it or would miss it.
    pub fn change(self, learned: ServerQuirks) -> Option<String> {
        let mut words = Vec::new();
        if learned.no_temperature && !self.no_temperature {
            words.push("refuses a temperature, which is left out from now on".to_owned());
        }
        if learned.no_reasoning && !self.no_reasoning {
            words.push(
                "refuses the request for reasoning, which is left out from now on".to_owned(),
            );
        }
        if learned.no_alternatives && !self.no_alternatives {
            words.push("refuses alternatives at the root of a tool's schema, which is simplified from now on".to_owned());
        }
        if learned.no_cache_control && !self.no_cache_control {
            words.push("refuses cache markers, which are left out from now on".to_owned());
        }
        if let Some(limit) = learned
            .max_output
            .filter(|_| learned.max_output != self.max_output)
        {
            words.push(format!("answers with at most {limit} tokens"));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Returns the limit in `max_tokens: 32000 > 8192, which is the maximum allowed …`.
fn allowed_output(refusal: &str) -> Option<u32> {
    let (_, after) = refusal.split_once("max_tokens")?;
    let (_, limit) = after.split_once('>')?;
    let limit = limit.trim_start();
    let digits = limit
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(limit.len());
    limit[..digits].parse().ok().filter(|limit| *limit > 0)
}

/// Whether a rejection is about the characters of a tool name.
fn mentions_name_pattern(lower: &str) -> bool {
    lower.contains("name")
        && [
            "pattern",
            "a-z",
            "alphanumeric",
            "underscore",
            "invalid function",
        ]
        .iter()
        .any(|words| lower.contains(words))
}
