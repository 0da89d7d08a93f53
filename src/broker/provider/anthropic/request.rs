//! The body of a request. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::EncodedRequest;
use super::super::chat::{is_valid_image, without_alternatives};
use super::super::quirks::ServerQuirks;
use super::super::request_parts::{CallIds, PrefixDigest};
use crate::broker::ModelEndpoint;
use crate::broker::wire_names::WireNames;
use crate::chat::{
    AssistantMessage, ChatMessage, Dialect, ImageContent, ToolDefinition, ToolResult,
};
use crate::error::Result;

/// Sent where the configuration sets no limit, because the API requires one. Models that allow less say so, see
/// [`ServerQuirks::max_output`].
const DEFAULT_MAX_TOKENS: u32 = 32_000;

/// Sent in place of a message without content, which the API refuses.
const EMPTY: &str = "(empty)";

/// Encodes a request for a streamed answer.
///
/// # Errors
/// A part cannot be written as JSON, which no known input causes.
pub fn encode(
    endpoint: &ModelEndpoint,
    messages: &[ChatMessage],
    tools: &[ToolDefinition],
    names: &WireNames,
    quirks: ServerQuirks,
) -> Result<EncodedRequest> {
    let mut prefix = PrefixDigest::default();
    let system = prefix.part(&system(messages))?;
    let tools: Vec<Value> = tools.iter().map(|tool| declared(tool, names)).collect();
    let tools = prefix.part(&Value::Array(tools))?;
    let mut conversation = MessageList {
        names,
        images: endpoint.images,
        model: &endpoint.model,
        prefix,
        ids: CallIds::default(),
        sent: Vec::new(),
        user: Vec::new(),
        natives: true,
    };
    for message in messages {
        conversation.add(message)?;
    }
    conversation.end_user()?;
    let max_tokens = endpoint.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let max_tokens = quirks
        .max_output
        .map_or(max_tokens, |most| most.min(max_tokens));
    let mut body = format!(
        r#"{{"model":{},"max_tokens":{max_tokens},"stream":true"#,
        Value::from(endpoint.model.as_str())
    );
    let temperature = endpoint.temperature.filter(|_| !quirks.no_temperature);
    if let Some(temperature) = temperature {
        body.push_str(&format!(r#","temperature":{temperature}"#));
    }
    if endpoint.thinks && !quirks.no_reasoning {
        body.push_str(r#","thinking":{"type":"adaptive","display":"summarized"}"#);
    }
    if !quirks.no_cache_control {
        // The longest prefix that was sent before is read from the cache, and the rest is written to it.
        body.push_str(r#","cache_control":{"type":"ephemeral"}"#);
    }
    for (name, part) in [("system", &system), ("tools", &tools)] {
        if part != "[]" {
            body.push_str(&format!(r#","{name}":{part}"#));
        }
    }
    body.push_str(&format!(
        r#","messages":[{}]}}"#,
        conversation.sent.join(",")
    ));
    Ok(EncodedRequest {
        body: body.into_bytes(),
        prefix_sha256: conversation.prefix.hex(),
    })
}

/// Returns the instructions, marked as the first part of the prefix that is cached.
fn system(messages: &[ChatMessage]) -> Value {
    let texts = messages.iter().filter_map(|message| match message {
        ChatMessage::System(text) if !text.trim().is_empty() => {
            Some(json!({"type": "text", "text": text}))
        }
        _ => None,
    });
    Value::Array(texts.collect())
}

fn declared(tool: &ToolDefinition, names: &WireNames) -> Value {
    let mut declared = json!({
        "name": names.to_wire(&tool.name),
        "input_schema": input_schema(&tool.schema),
    });
    if !tool.description.is_empty() {
        declared["description"] = tool.description.as_str().into();
    }
    declared
}

/// Returns the schema of the arguments. At its root the API accepts an object without alternatives only; the tool checks
/// the arguments itself.
fn input_schema(schema: &str) -> Value {
    Value::Object(without_alternatives(schema))
}

/// Writes the messages.
struct MessageList<'a> {
    names: &'a WireNames,
    images: bool,
    model: &'a str,
    prefix: PrefixDigest,
    ids: CallIds<'a>,
    sent: Vec<String>,
    /// The content of the user's message that is not complete yet: results of tools, then text.
    user: Vec<Value>,
    /// Whether everything so far is what the model saw, so that its reasoning is valid.
    natives: bool,
}

impl<'a> MessageList<'a> {
    fn add(&mut self, message: &'a ChatMessage) -> Result<()> {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(text, images) => {
                let images = images.iter().filter(|i| self.images && is_valid_image(i));
                let images: Vec<Value> = images.map(image).collect();
                self.user.extend(images);
                self.user.extend(text_block(text));
            }
            ChatMessage::Tool(result) => {
                let block = self.result(result);
                self.user.push(block);
            }
            ChatMessage::Assistant(answer) => {
                self.end_user()?;
                let content = match self.native(answer) {
                    Some(content) => content,
                    None => self.content(answer).to_string(),
                };
                self.push("assistant", &content);
            }
        }
        Ok(())
    }

    /// Ends the message of the user, if one is open.
    fn end_user(&mut self) -> Result<()> {
        if !self.user.is_empty() {
            let content = Value::Array(std::mem::take(&mut self.user));
            self.push("user", &content.to_string());
        }
        Ok(())
    }

    fn push(&mut self, role: &str, content: &str) {
        let message = format!(r#"{{"role":"{role}","content":{content}}}"#);
        self.prefix.add(&message);
        self.sent.push(message);
    }

    /// Returns the content as the provider sent it, if it is still valid.
    fn native(&mut self, answer: &'a AssistantMessage) -> Option<String> {
        let native = answer.native.as_ref()?;
        let is_same = native.dialect == Dialect::Anthropic
            && native.model == self.model
            && native.prefix_sha256 == self.prefix.hex();
        let ids = call_ids(&native.items).filter(|ids| ids.len() == answer.calls.len());
        let Some(ids) = ids.filter(|_| is_same && self.natives) else {
            self.natives = false;
            return None;
        };
        for (call, id) in answer.calls.iter().zip(ids) {
            self.ids.insert(&call.id, id);
        }
        Some(native.items.clone())
    }

    fn content(&mut self, answer: &'a AssistantMessage) -> Value {
        let mut content: Vec<Value> = text_block(&answer.text).into_iter().collect();
        for call in &answer.calls {
            let id = self.ids.add(&call.id);
            let arguments: Map<String, Value> =
                serde_json::from_str(&call.arguments).unwrap_or_default();
            content.push(json!({
                "type": "tool_use",
                "id": id,
                "name": self.names.to_wire(&call.name),
                "input": arguments,
            }));
        }
        if content.is_empty() {
            content.push(json!({"type": "text", "text": EMPTY}));
        }
        Value::Array(content)
    }

    fn result(&self, result: &ToolResult) -> Value {
        let mut content: Vec<Value> = text_block(&result.text).into_iter().collect();
        let images = result
            .images
            .iter()
            .filter(|i| self.images && is_valid_image(i));
        content.extend(images.map(image));
        let id = self.ids.of(&result.id);
        json!({"type": "tool_result", "tool_use_id": id, "content": content})
    }
}

/// Returns the block of a text; `None` for a blank one, which the API refuses.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn image(image: &ImageContent) -> Value {
    let source = json!({"type": "base64", "media_type": image.mime, "data": &*image.data});
    json!({"type": "image", "source": source})
}

/// Returns the ids of the calls in an answer; `None` if the text is not a list of blocks.
fn call_ids(items: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Block {
        r#type: String,
        #[serde(default)]
        id: String,
    }
    let blocks: Vec<Block> = serde_json::from_str(items).ok()?;
    let calls = blocks
        .into_iter()
        .filter(|block| block.r#type == "tool_use");
    Some(calls.map(|block| block.id).collect())
}
