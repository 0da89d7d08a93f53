//! The body of a request. Pure.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::EncodedRequest;
use super::super::chat::{is_valid_image, parameters};
use super::super::quirks::ServerQuirks;
use super::super::request_parts::PrefixDigest;
use crate::broker::ModelEndpoint;
use crate::broker::wire_names::WireNames;
use crate::chat::{
    AssistantMessage, ChatMessage, Dialect, ImageContent, ToolDefinition, ToolResult,
};
use crate::error::{ErrorContext, Result};

/// In place of the signature of a call that another model made, without which the API refuses the call.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

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
    let system: Vec<Value> = messages
        .iter()
        .filter(|message| matches!(message, ChatMessage::System(_)))
        .filter_map(|message| text_part(message.text()))
        .collect();
    let system = json!({ "parts": system });
    prefix.part(&system)?;
    let tools = declared(tools, names, quirks)?;
    prefix.part(&tools)?;
    let mut conversation = ContentList {
        names,
        images: endpoint.images,
        model: &endpoint.model,
        prefix,
        ids: HashMap::new(),
        sent: Vec::new(),
        user: Vec::new(),
        natives: true,
    };
    messages
        .iter()
        .for_each(|message| conversation.add(message));
    conversation.end_user();
    let mut generation = Map::new();
    let fields = [
        (
            "temperature",
            endpoint
                .temperature
                .filter(|_| !quirks.no_temperature)
                .map(Value::from),
        ),
        ("maxOutputTokens", endpoint.max_tokens.map(Value::from)),
        (
            "thinkingConfig",
            (!quirks.no_reasoning).then(|| json!({"includeThoughts": true})),
        ),
    ];
    for (name, value) in fields {
        generation.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mut body = json!({ "generationConfig": generation });
    if system["parts"] != json!([]) {
        body["systemInstruction"] = system;
    }
    if tools != json!([]) {
        body["tools"] = json!([{ "functionDeclarations": tools }]);
    }
    let mut body = body.to_string();
    body.pop();
    body.push_str(&format!(
        r#","contents":[{}]}}"#,
        conversation.sent.join(",")
    ));
    Ok(EncodedRequest {
        body: body.into_bytes(),
        prefix_sha256: conversation.prefix.hex(),
    })
}

fn declared(tools: &[ToolDefinition], names: &WireNames, quirks: ServerQuirks) -> Result<Value> {
    let declared = tools.iter().map(|tool| {
        let schema: Value = serde_json::from_str(parameters(&tool.schema, quirks)?.get())?;
        Ok(json!({
            "name": names.to_wire(&tool.name),
            "description": tool.description,
            "parametersJsonSchema": schema,
        }))
    });
    let declared: serde_json::Result<Vec<Value>> = declared.collect();
    let declared = declared.context(|| "cannot write the request as JSON".to_owned())?;
    Ok(Value::Array(declared))
}

/// Writes the contents of the conversation.
struct ContentList<'a> {
    names: &'a WireNames,
    images: bool,
    model: &'a str,
    prefix: PrefixDigest,
    /// The ids of calls that had one when the provider sent them.
    ids: HashMap<&'a str, String>,
    sent: Vec<String>,
    /// The parts of the user's content that is not complete yet: results of tools, then text.
    user: Vec<Value>,
    /// Whether the model saw everything so far, so that its signatures are valid.
    natives: bool,
}

impl<'a> ContentList<'a> {
    fn add(&mut self, message: &'a ChatMessage) {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(text, images) => {
                self.add_images(images);
                self.user.extend(text_part(text));
            }
            ChatMessage::Tool(result) => self.result(result),
            ChatMessage::Assistant(answer) => {
                self.end_user();
                let parts = match self.native(answer) {
                    Some(parts) => parts,
                    None => self.parts(answer).to_string(),
                };
                self.push("model", &parts);
            }
        }
    }

    /// Ends the content of the user, if one is open.
    fn end_user(&mut self) {
        if !self.user.is_empty() {
            let parts = Value::Array(std::mem::take(&mut self.user));
            self.push("user", &parts.to_string());
        }
    }

    fn push(&mut self, role: &str, parts: &str) {
        let content = format!(r#"{{"role":"{role}","parts":{parts}}}"#);
        self.prefix.add(&content);
        self.sent.push(content);
    }

    fn add_images(&mut self, images: &[ImageContent]) {
        let part = |image: &ImageContent| json!({"inlineData": {"mimeType": image.mime, "data": &*image.data}});
        let images = images.iter().filter(|i| self.images && is_valid_image(i));
        self.user.extend(images.map(part));
    }

    fn result(&mut self, result: &'a ToolResult) {
        let mut response = json!({
            "name": self.names.to_wire(&result.name),
            "response": {"output": result.text},
        });
        if let Some(id) = self.ids.get(result.id.as_str()) {
            response["id"] = id.as_str().into();
        }
        self.user.push(json!({ "functionResponse": response }));
        self.add_images(&result.images);
    }

    /// Returns the parts as the provider sent them, if they are still valid.
    fn native(&mut self, answer: &'a AssistantMessage) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Part {
            function_call: Option<Call>,
        }
        #[derive(Deserialize)]
        struct Call {
            id: Option<String>,
        }
        let native = answer.native.as_ref()?;
        let is_same = native.dialect == Dialect::Gemini
            && native.model == self.model
            && native.prefix_sha256 == self.prefix.hex();
        let parts: Vec<Part> = serde_json::from_str(&native.items).unwrap_or_default();
        let calls: Vec<Call> = parts
            .into_iter()
            .filter_map(|part| part.function_call)
            .collect();
        self.natives &= is_same && calls.len() == answer.calls.len();
        if !self.natives {
            return None;
        }
        for (call, sent) in answer.calls.iter().zip(calls) {
            self.ids.extend(sent.id.map(|id| (call.id.as_str(), id)));
        }
        Some(native.items.clone())
    }

    fn parts(&self, answer: &AssistantMessage) -> Value {
        let mut parts: Vec<Value> = text_part(&answer.text).into_iter().collect();
        for (n, call) in answer.calls.iter().enumerate() {
            let arguments: Map<String, Value> =
                serde_json::from_str(&call.arguments).unwrap_or_default();
            let name = self.names.to_wire(&call.name);
            let mut part = json!({"functionCall": {"name": name, "args": arguments}});
            // Of parallel calls only the first one is signed.
            if n == 0 {
                part["thoughtSignature"] = NO_SIGNATURE.into();
            }
            parts.push(part);
        }
        if parts.is_empty() {
            parts.push(json!({ "text": EMPTY }));
        }
        Value::Array(parts)
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}
