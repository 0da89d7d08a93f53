//! The body of a request. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::EncodedRequest;
use super::super::chat::{is_valid_image, parameters};
use super::super::quirks::ServerQuirks;
use super::super::request_parts::{CallIds, PrefixDigest};
use crate::broker::ModelEndpoint;
use crate::broker::wire_names::WireNames;
use crate::chat::{
    AssistantMessage, ChatMessage, Dialect, ImageContent, ToolDefinition, ToolResult,
};
use crate::error::{ErrorContext, Result};

/// Length of the key that leads requests of a session to the same cache, in hex digits.
const CACHE_KEY_DIGITS: usize = 32;

/// Encodes a request for a streamed answer that the provider does not store.
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
    let instructions: Vec<&str> = messages
        .iter()
        .filter(|message| matches!(message, ChatMessage::System(_)))
        .map(ChatMessage::text)
        .collect();
    let instructions = Value::from(instructions.join("\n\n"));
    prefix.part(&instructions)?;
    let tools = declared(tools, names, quirks)?;
    prefix.part(&tools)?;
    let mut input = Input {
        names,
        images: endpoint.images,
        model: &endpoint.model,
        prefix,
        ids: CallIds::default(),
        items: Vec::new(),
        cache_key: None,
        natives: true,
    };
    messages.iter().for_each(|message| input.add(message));
    let mut body = json!({
        "model": endpoint.model,
        "stream": true,
        "store": false,
    });
    let fields = [
        (
            "instructions",
            Some(instructions).filter(|i| *i != json!("")),
        ),
        ("tools", Some(tools).filter(|t| *t != json!([]))),
        // The reasoning comes encrypted, to be sent back.
        (
            "include",
            (!quirks.no_reasoning).then(|| json!(["reasoning.encrypted_content"])),
        ),
        (
            "temperature",
            endpoint
                .temperature
                .filter(|_| !quirks.no_temperature)
                .map(Value::from),
        ),
        (
            "reasoning",
            (endpoint.thinks && !quirks.no_reasoning).then(|| json!({"summary": "auto"})),
        ),
        ("max_output_tokens", endpoint.max_tokens.map(Value::from)),
        ("prompt_cache_key", input.cache_key.map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    let mut body = body.to_string();
    body.pop();
    body.push_str(&format!(r#","input":[{}]}}"#, input.items.join(",")));
    Ok(EncodedRequest {
        body: body.into_bytes(),
        prefix_sha256: input.prefix.hex(),
    })
}

fn declared(tools: &[ToolDefinition], names: &WireNames, quirks: ServerQuirks) -> Result<Value> {
    let declared = tools.iter().map(|tool| {
        let schema: Value = serde_json::from_str(parameters(&tool.schema, quirks)?.get())?;
        Ok(json!({
            "type": "function",
            "name": names.to_wire(&tool.name),
            "description": tool.description,
            "parameters": schema,
            "strict": false,
        }))
    });
    let declared: serde_json::Result<Vec<Value>> = declared.collect();
    let declared = declared.context(|| "cannot write the request as JSON".to_owned())?;
    Ok(Value::Array(declared))
}

/// Writes the items of the conversation.
struct Input<'a> {
    names: &'a WireNames,
    images: bool,
    model: &'a str,
    prefix: PrefixDigest,
    ids: CallIds<'a>,
    items: Vec<String>,
    /// Made of the first message, which stays the same in a session.
    cache_key: Option<String>,
    /// Whether everything so far is what the model saw, so that its reasoning is valid.
    natives: bool,
}

impl<'a> Input<'a> {
    fn add(&mut self, message: &'a ChatMessage) {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(text, images) => {
                let content = self.content(text, images);
                self.push(&json!({"type": "message", "role": "user", "content": content}));
                if self.cache_key.is_none() {
                    let mut key = self.prefix.hex();
                    key.truncate(CACHE_KEY_DIGITS);
                    self.cache_key = Some(key);
                }
            }
            ChatMessage::Tool(result) => self.result(result),
            ChatMessage::Assistant(answer) => {
                if !self.native(answer) {
                    self.answer(answer);
                }
            }
        }
    }

    fn push(&mut self, item: &Value) {
        self.push_text(item.to_string());
    }

    fn push_text(&mut self, item: String) {
        self.prefix.add(&item);
        self.items.push(item);
    }

    fn content(&self, text: &str, images: &[ImageContent]) -> Vec<Value> {
        let images = images.iter().filter(|i| self.images && is_valid_image(i));
        let image = |image: &ImageContent| {
            let url = format!("data:{};base64,{}", image.mime, image.data);
            json!({"type": "input_image", "image_url": url})
        };
        let text = json!({"type": "input_text", "text": text});
        images.map(image).chain([text]).collect()
    }

    fn result(&mut self, result: &'a ToolResult) {
        let has_images = self.images && result.images.iter().any(is_valid_image);
        let output = match has_images {
            true => Value::Array(self.content(&result.text, &result.images)),
            false => Value::from(result.text.as_str()),
        };
        let id = self.ids.of(&result.id);
        let item = json!({"type": "function_call_output", "call_id": id, "output": output});
        self.push(&item);
    }

    /// Sends the items as the provider sent them, if they are still valid.
    fn native(&mut self, answer: &'a AssistantMessage) -> bool {
        #[derive(Deserialize)]
        struct Item {
            r#type: String,
            #[serde(default)]
            call_id: String,
        }
        let Some(native) = &answer.native else {
            return false;
        };
        let is_same = native.dialect == Dialect::Responses
            && native.model == self.model
            && native.prefix_sha256 == self.prefix.hex();
        let items: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(&native.items).unwrap_or_default();
        let heads: Vec<Item> = serde_json::from_str(&native.items).unwrap_or_default();
        let calls = heads
            .into_iter()
            .filter(|item| item.r#type == "function_call");
        let ids: Vec<String> = calls.map(|item| item.call_id).collect();
        self.natives &= is_same && !items.is_empty() && ids.len() == answer.calls.len();
        if !self.natives {
            return false;
        }
        for (call, id) in answer.calls.iter().zip(ids) {
            self.ids.insert(&call.id, id);
        }
        items
            .iter()
            .for_each(|item| self.push_text(item.get().to_owned()));
        true
    }

    fn answer(&mut self, answer: &'a AssistantMessage) {
        if !answer.text.trim().is_empty() {
            let content = json!([{"type": "output_text", "text": answer.text}]);
            self.push(&json!({"type": "message", "role": "assistant", "content": content}));
        }
        for call in &answer.calls {
            let is_object = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
            let id = self.ids.add(&call.id);
            self.push(&json!({
                "type": "function_call",
                "call_id": id,
                "name": self.names.to_wire(&call.name),
                "arguments": if is_object { &call.arguments } else { "{}" },
            }));
        }
    }
}
