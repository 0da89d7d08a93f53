//! The request body. Pure.

use std::borrow::Cow;
use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::quirks::{ALTERNATIVES, ServerQuirks};
use super::super::request_parts::CallIds;
use super::returned::ReturnedFields;
use super::turns::{ChatTurn, separate_results, turns};
use crate::broker::ModelEndpoint;
use crate::broker::wire_names::{WireNames, accepts_dots};
use crate::chat::{ChatMessage, ImageContent, ToolCall, ToolDefinition};
use crate::error::{ErrorContext, Result};

/// Returns the wire names of the tools of a request, and of all tools that its messages mention.
pub fn names(
    url: &Url,
    messages: &[ChatMessage],
    tools: &[ToolDefinition],
    quirks: ServerQuirks,
) -> WireNames {
    let called = messages.iter().flat_map(|m| match m {
        ChatMessage::Assistant(answer) => answer.calls.as_slice(),
        _ => &[],
    });
    WireNames::new(
        tools.iter().map(|t| t.name.as_str()),
        called.map(|c| c.name.as_str()),
        accepts_dots(url) && !quirks.no_dots,
    )
}

#[derive(Serialize)]
struct ChatRequest<'a> {
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
    /// `null` if there are only calls.
    content: Option<MessageContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<RequestCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(&'a str),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    /// Reasoning, as Mistral sends it.
    Thinking {
        thinking: [Box<ContentPart<'a>>; 1],
    },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

/// `data:image/png;base64,…`, written without a copy.
struct DataUrl<'a>(&'a ImageContent);

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
    function: FunctionDeclaration<'a>,
}

#[derive(Serialize)]
struct FunctionDeclaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Encodes a request for a streamed answer; `names` has the wire name of every tool in it.
///
/// # Errors
/// A part cannot be written as JSON, which no known input causes.
pub fn request_body(
    endpoint: &ModelEndpoint,
    messages: &[ChatMessage],
    tools: &[ToolDefinition],
    names: &WireNames,
    quirks: ServerQuirks,
) -> Result<Vec<u8>> {
    let new_name = quirks.max_completion_tokens;
    let mut turns = turns(messages, endpoint.use_tool_role, endpoint.images);
    let mut ids = CallIds::default();
    if endpoint.is_mistral {
        turns = separate_results(turns);
        let calls = turns.iter().flat_map(|turn| turn.calls);
        calls.for_each(|call| ids.add_short(&call.id));
    }
    let json = || "cannot write the request as JSON".to_owned();
    let request = ChatRequest {
        model: &endpoint.model,
        messages: turns
            .iter()
            .map(|turn| message(turn, endpoint, names, &ids, quirks))
            .collect(),
        tools: tools
            .iter()
            .map(|tool| declared(tool, names, quirks))
            .collect::<serde_json::Result<_>>()
            .context(json)?,
        stream: true,
        stream_options: (!quirks.no_stream_options).then_some(StreamOptions {
            include_usage: true,
        }),
        temperature: endpoint.temperature.filter(|_| !quirks.no_temperature),
        max_tokens: endpoint.max_tokens.filter(|_| !new_name),
        max_completion_tokens: endpoint.max_tokens.filter(|_| new_name),
    };
    serde_json::to_vec(&request).context(json)
}

fn message<'a>(
    turn: &'a ChatTurn<'_>,
    endpoint: &ModelEndpoint,
    names: &'a WireNames,
    ids: &'a CallIds<'_>,
    quirks: ServerQuirks,
) -> RequestMessage<'a> {
    let text = turn.text.as_ref();
    let returned = ReturnedFields::of(turn.native, &endpoint.model);
    let (reasoning, in_content, reasoning_details) =
        returned.map_or_else(Default::default, |r| (r.reasoning, r.in_content, r.details));
    let is_part = in_content && !reasoning.is_empty();
    // A server that wants it refuses an empty one.
    let reasoning = if reasoning.is_empty() {
        " ".to_owned()
    } else {
        reasoning
    };
    let text_part = |text| ContentPart::Text { text };
    let content = if is_part {
        let thinking = ContentPart::Thinking {
            thinking: [Box::new(text_part(Cow::Owned(reasoning.clone())))],
        };
        let text = (!text.is_empty()).then(|| text_part(text.into()));
        MessageContent::Parts(std::iter::once(thinking).chain(text).collect())
    } else if turn.images.is_empty() {
        MessageContent::Text(text)
    } else {
        let image_part = |image| ContentPart::ImageUrl {
            image_url: ImageUrl {
                url: DataUrl(image),
            },
        };
        let images = turn.images.iter().copied().map(image_part);
        MessageContent::Parts(
            std::iter::once(text_part(text.into()))
                .chain(images)
                .collect(),
        )
    };
    RequestMessage {
        role: turn.role.name(),
        content: (turn.calls.is_empty() || !text.is_empty() || is_part).then_some(content),
        tool_calls: turn
            .calls
            .iter()
            .map(|call| called(call, names, ids, !quirks.no_extra))
            .collect(),
        tool_call_id: turn.result_of.map(|id| ids.of(id)),
        reasoning_content: (quirks.returns_reasoning && !turn.calls.is_empty())
            .then_some(reasoning),
        reasoning_details,
    }
}

fn called<'a>(
    call: &'a ToolCall,
    names: &'a WireNames,
    ids: &'a CallIds<'_>,
    extra: bool,
) -> RequestCall<'a> {
    // Many servers parse the arguments and fail on anything but an object: one broken call would break every later
    // request of its conversation.
    let is_object = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
    RequestCall {
        id: ids.of(&call.id),
        r#type: "function",
        function: RequestFunction {
            name: names.to_wire(&call.name),
            arguments: if is_object { &call.arguments } else { "{}" },
        },
        // The journal may hold anything here.
        extra_content: call
            .extra
            .as_deref()
            .filter(|_| extra)
            .and_then(|extra| serde_json::from_str(extra).ok()),
    }
}

fn declared<'a>(
    tool: &'a ToolDefinition,
    names: &'a WireNames,
    quirks: ServerQuirks,
) -> serde_json::Result<RequestTool<'a>> {
    Ok(RequestTool {
        r#type: "function",
        function: FunctionDeclaration {
            name: names.to_wire(&tool.name),
            description: &tool.description,
            parameters: parameters(&tool.schema, quirks)?,
        },
    })
}

/// Whether a server may reject the root of a schema.
fn has_alternatives(schema: &str) -> bool {
    let schema: Map<String, Value> = serde_json::from_str(schema).unwrap_or_default();
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    !is_object || ALTERNATIVES.iter().any(|key| schema.contains_key(*key))
}

/// Returns the schema of an object without alternatives at its root; the tool checks the arguments itself.
pub fn without_alternatives(schema: &str) -> Map<String, Value> {
    let mut schema: Map<String, Value> = serde_json::from_str(schema).unwrap_or_default();
    for alternatives in ALTERNATIVES {
        schema.remove(alternatives);
    }
    schema.insert("type".to_owned(), "object".into());
    schema
}

/// The keys of a schema that some servers require.
#[derive(Deserialize)]
struct SchemaKeys<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
}

/// Returns the schema unchanged if it has the keys that servers require, and with these keys otherwise. Anything that
/// is not a schema becomes one that allows any arguments.
pub fn parameters(schema: &str, quirks: ServerQuirks) -> serde_json::Result<Cow<'_, RawValue>> {
    if quirks.no_alternatives && has_alternatives(schema) {
        let plain = serde_json::to_string(&without_alternatives(schema))?;
        return parameters(&plain, ServerQuirks::default()).map(|raw| Cow::Owned(raw.into_owned()));
    }
    let (kind, properties, rest) = match serde_json::from_str::<SchemaKeys<'_>>(schema) {
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
    fn schemas_get_the_required_keys() {
        let quirks = ServerQuirks::default();
        let whole = r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#;
        assert!(matches!(
            parameters(whole, quirks).unwrap(),
            Cow::Borrowed(_)
        ));
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
                parameters(schema, quirks).unwrap().get(),
                expected.trim(),
                "{schema}"
            );
        }
    }
}
