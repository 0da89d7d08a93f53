//! Reasoning that some servers want returned with the answer that it led to. Pure.
//!
//! DeepSeek and Kimi refuse an answer with tool calls without its `reasoning_content`, and OpenRouter passes `reasoning_details` on
//! to providers that do. Mistral sends reasoning as `thinking` parts of the content, and wants them returned as such.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::chat::{Dialect, NativeAnswer};

/// Maximum size of the kept fields of one answer, in bytes.
const MAX_KEPT: usize = 1 << 20;

/// Hosts that want `reasoning_content` returned. Others say so when they refuse a request.
const HOSTS: [&str; 3] = ["api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn"];

/// Whether the server at `base_url` is known to want `reasoning_content` returned.
pub fn wants_reasoning(base_url: &str) -> bool {
    let url = reqwest::Url::parse(base_url.trim()).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str);
    host.is_some_and(|host| HOSTS.contains(&host))
}

/// The fields of an answer that are returned.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReturnedFields<'a> {
    /// The reasoning as text.
    #[serde(default)]
    pub reasoning: String,
    /// Whether the reasoning is a part of the content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_content: bool,
    /// The items of `reasoning_details`, in order.
    #[serde(borrow, default)]
    pub details: Vec<&'a RawValue>,
}

impl<'a> ReturnedFields<'a> {
    /// Reads the fields of an answer of this model.
    pub fn of(native: Option<&'a NativeAnswer>, model: &str) -> Option<ReturnedFields<'a>> {
        let native = native.filter(|n| n.dialect == Dialect::Chat && n.model == model)?;
        let [fields] = serde_json::from_str(&native.items).ok()?;
        Some(fields)
    }
}

/// Collects the fields while an answer arrives.
#[derive(Debug, Default)]
pub struct KeptReasoning {
    text: String,
    in_content: bool,
    details: Vec<Box<RawValue>>,
    size: usize,
}

impl KeptReasoning {
    /// Adds a piece of the text.
    pub fn push(&mut self, text: &str) {
        if self.has_room(text.len()) {
            self.text.push_str(text);
        }
    }

    /// Notes that the text is a part of the content.
    pub fn in_content(&mut self) {
        self.in_content = true;
    }

    /// Adds items of `reasoning_details`.
    pub fn extend(&mut self, details: Vec<&RawValue>) {
        for item in details {
            if self.has_room(item.get().len()) {
                self.details.push(item.to_owned());
            }
        }
    }

    fn has_room(&mut self, more: usize) -> bool {
        self.size = self.size.saturating_add(more);
        self.size <= MAX_KEPT
    }

    /// Returns the fields as the items of a [`NativeAnswer`], if the answer needs them. Text that is not part of the
    /// content is needed only with calls; a part of it is worthless.
    pub fn items(&self, has_calls: bool) -> Option<String> {
        let is_needed =
            !self.details.is_empty() || (has_calls || self.in_content) && !self.text.is_empty();
        let details = self.details.iter().map(|item| &**item);
        let fields = ReturnedFields {
            reasoning: self.text.clone(),
            in_content: self.in_content,
            details: details.collect(),
        };
        let fits = is_needed && self.size <= MAX_KEPT;
        fits.then(|| serde_json::to_string(&[fields]).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_by_the_same_model() {
        let mut kept = KeptReasoning::default();
        kept.push("a \"é\"");
        assert_eq!(kept.items(false), None);
        let details: Vec<&RawValue> = serde_json::from_str(r#"[{"n":1.50},{"s":"x"}]"#).unwrap();
        kept.extend(details);
        let native = NativeAnswer {
            dialect: Dialect::Chat,
            model: "m".into(),
            prefix_sha256: String::new(),
            items: kept.items(false).unwrap(),
        };
        let fields = ReturnedFields::of(Some(&native), "m").unwrap();
        assert_eq!(fields.reasoning, "a \"é\"");
        assert_eq!(fields.details[0].get(), r#"{"n":1.50}"#);
        assert!(ReturnedFields::of(Some(&native), "other").is_none());
        kept.push(&"x".repeat(MAX_KEPT));
        assert_eq!(kept.items(true), None);
    }

    #[test]
    fn only_known_hosts_want_reasoning() {
        assert!(wants_reasoning("https://api.deepseek.com/v1"));
        for url in [
            "https://api.openai.com/v1",
            "http://127.0.0.1/v1",
            "",
            "https://x.api.deepseek.com.evil",
        ] {
            assert!(!wants_reasoning(url), "{url}");
        }
    }
}
