//! The body of a request, and what a server turns out not to understand of it. Pure.

use std::borrow::Cow;
use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::turns::{Turn, turns};
use crate::broker::Endpoint;
use crate::broker::names::{Names, takes_dots};
use crate::chat::{Image, Message, Tool, ToolCall};
use crate::error::{Context, Result};

/// What a server turned out not to understand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks {
    /// It rejects `stream_options`.
    pub no_stream_options: bool,
    /// It wants `max_completion_tokens` where others want `max_tokens`.
    pub max_completion_tokens: bool,
    /// It rejects dots in the names of tools.
    pub no_dots: bool,
    /// It rejects what another server wants to have back with its calls.
    pub no_extra: bool,
}

impl Quirks {
    /// What a refusal (status 400 or 422) of a request with these names teaches about the server, if
    /// that is a reason to ask again.
    pub fn learn(self, endpoint: &Endpoint, names: &Names, refusal: &str) -> Option<Quirks> {
        let mut learnt = self;
        if refusal.contains("max_completion_tokens") && endpoint.max_tokens.is_some() {
            learnt.max_completion_tokens = true;
        }
        if refusal.contains("stream_options") || refusal.contains("include_usage") {
            learnt.no_stream_options = true;
        }
        if names.dotted() && about_names(&refusal.to_lowercase()) {
            learnt.no_dots = true;
        }
        if refusal.contains("extra_content") {
            learnt.no_extra = true;
        }
        (learnt != self).then_some(learnt)
    }
}

/// Whether a refusal is about the letters in a name.
fn about_names(lower: &str) -> bool {
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

/// What the tools of a request are called, and all that its messages mention.
pub fn names(url: &Url, messages: &[Message], tools: &[Tool], quirks: Quirks) -> Names {
    let called = messages.iter().flat_map(|m| match m {
        Message::Assistant(_, calls) => calls.as_slice(),
        _ => &[],
    });
    Names::new(
        tools.iter().map(|t| t.name.as_str()),
        called.map(|c| c.name.as_str()),
        takes_dots(url) && !quirks.no_dots,
    )
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<RequestMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<RequestTool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
}

#[derive(Serialize)]
struct RequestMessage<'a> {
    role: &'static str,
    /// `null` where there are calls alone.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<RequestCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

/// `data:image/png;base64,…`, written without a copy in between.
struct DataUrl<'a>(&'a Image);

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.0.mime, self.0.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Serialize)]
struct RequestCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: RequestFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct RequestFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct RequestTool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The body of a request for a streamed answer; `names` has all the names in it.
///
/// # Errors
/// None that is known: every part is a string, a number or JSON that was looked at.
pub fn request_body(
    endpoint: &Endpoint,
    messages: &[Message],
    tools: &[Tool],
    names: &Names,
    quirks: Quirks,
) -> Result<Vec<u8>> {
    let new_name = quirks.max_completion_tokens;
    let turns = turns(messages, endpoint.use_tool_role, endpoint.images);
    let json = || "cannot write the request as JSON".to_owned();
    let request = Request {
        model: &endpoint.model,
        messages: turns
            .iter()
            .map(|turn| message(turn, names, !quirks.no_extra))
            .collect(),
        tools: tools
            .iter()
            .map(|tool| declared(tool, names))
            .collect::<serde_json::Result<_>>()
            .context(json)?,
        stream: true,
        stream_options: (!quirks.no_stream_options).then_some(StreamOptions {
            include_usage: true,
        }),
        temperature: endpoint.temperature,
        max_tokens: endpoint.max_tokens.filter(|_| !new_name),
        max_completion_tokens: endpoint.max_tokens.filter(|_| new_name),
    };
    serde_json::to_vec(&request).context(json)
}

fn message<'a>(turn: &'a Turn<'_>, names: &'a Names, extra: bool) -> RequestMessage<'a> {
    let text = turn.text.as_ref();
    let content = if turn.images.is_empty() {
        Content::Text(text)
    } else {
        let picture = |image| ContentPart::ImageUrl {
            image_url: ImageUrl {
                url: DataUrl(image),
            },
        };
        let pictures = turn.images.iter().copied().map(picture);
        Content::Parts(
            std::iter::once(ContentPart::Text { text })
                .chain(pictures)
                .collect(),
        )
    };
    RequestMessage {
        role: turn.role,
        content: (turn.calls.is_empty() || !text.is_empty()).then_some(content),
        tool_calls: turn
            .calls
            .iter()
            .map(|call| called(call, names, extra))
            .collect(),
        tool_call_id: turn.result_of,
    }
}

fn called<'a>(call: &'a ToolCall, names: &'a Names, extra: bool) -> RequestCall<'a> {
    // Many servers parse the arguments and fail on anything but an object: one broken call would break
    // every later request of its conversation.
    let sound = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
    RequestCall {
        id: &call.id,
        r#type: "function",
        function: RequestFunction {
            name: names.wire(&call.name),
            arguments: if sound { &call.arguments } else { "{}" },
        },
        // From the history it may come as anything.
        extra_content: call
            .extra
            .as_deref()
            .filter(|_| extra)
            .and_then(|extra| serde_json::from_str(extra).ok()),
    }
}

fn declared<'a>(tool: &'a Tool, names: &'a Names) -> serde_json::Result<RequestTool<'a>> {
    Ok(RequestTool {
        r#type: "function",
        function: Declaration {
            name: names.wire(&tool.name),
            description: &tool.description,
            parameters: parameters(&tool.schema)?,
        },
    })
}

/// The keys of a schema that some servers insist on.
#[derive(Deserialize)]
struct Schema<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
}

/// The schema as it is, where it has all that servers insist on; what is no schema lets anything pass.
fn parameters(schema: &str) -> serde_json::Result<Cow<'_, RawValue>> {
    let (kind, properties, rest) = match serde_json::from_str::<Schema<'_>>(schema) {
        Ok(found) => {
            let (kind, properties) = (found.kind.is_some(), found.properties.is_some());
            match schema.trim_start().strip_prefix('{') {
                Some(_) if kind && properties => {
                    return serde_json::from_str(schema).map(Cow::Borrowed);
                }
                Some(rest) => (kind, properties, rest.trim_start()),
                None => (false, false, "}"),
            }
        }
        Err(_) => (false, false, "}"),
    };
    let mut first = String::new();
    if !kind {
        first.push_str(r#""type":"object","#);
    }
    if !properties {
        first.push_str(r#""properties":{},"#);
    }
    if rest.starts_with('}') {
        first.pop();
    }
    RawValue::from_string(format!("{{{first}{rest}")).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_get_what_servers_insist_on() {
        let whole = r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#;
        assert!(matches!(parameters(whole).unwrap(), Cow::Borrowed(_)));
        for (schema, expected) in [
            (whole, whole),
            (
                r#" { "type": "object" } "#,
                r#"{"properties":{},"type": "object" } "#,
            ),
            ("{}", r#"{"type":"object","properties":{}}"#),
            (
                r#"{"properties":{}}"#,
                r#"{"type":"object","properties":{}}"#,
            ),
            ("", r#"{"type":"object","properties":{}}"#),
            ("[1,2]", r#"{"type":"object","properties":{}}"#),
            ("[null,null]", r#"{"type":"object","properties":{}}"#),
            (r#"{"type":"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"a":1}}, "x": {"#,
                r#"{"type":"object","properties":{}}"#,
            ),
            (
                r#"{"type":null,"type":1}"#,
                r#"{"type":"object","properties":{}}"#,
            ),
        ] {
            assert_eq!(
                parameters(schema).unwrap().get(),
                expected.trim(),
                "{schema}"
            );
        }
    }
}
