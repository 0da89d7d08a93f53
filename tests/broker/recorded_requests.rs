//! Recorded requests of every dialect as messages of aish.
//!
//! A request with content that aish never sends is left out: its tokens would say nothing of the estimate.

use aish::chat::{ImageContent, ToolCall};
use serde_json::{Value, json};

use super::*;

/// A request as aish would have it.
#[derive(Default)]
pub struct Request {
    pub dialect: Dialect,
    pub model: String,
    pub messages: Vec<ChatMessage>,
    pub tools: Vec<ToolDefinition>,
    /// Tokens that the provider counted.
    pub real: u64,
    pub file: String,
}

/// Why a recorded request is left out.
pub type Reason = &'static str;

pub type Converted<T> = std::result::Result<T, Reason>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the reasoning that goes back with an answer, in the form of its provider.
fn native(dialect: Dialect, reasoning: Vec<Value>) -> Option<Arc<NativeAnswer>> {
    let answer = || NativeAnswer {
        dialect,
        model: String::new(),
        prefix_sha256: String::new(),
        items: Value::Array(reasoning.clone()).to_string(),
    };
    (!reasoning.is_empty()).then(|| Arc::new(answer()))
}

/// The text and the images of a message.
#[derive(Default)]
struct Content {
    text: String,
    images: Vec<ImageContent>,
}

impl Content {
    /// Reads a string, or parts in the form of any provider.
    fn of(value: &Value) -> Converted<Content> {
        let mut content = Content::default();
        content.text.push_str(text(value));
        for part in list(value) {
            content.add(part)?;
        }
        Ok(content)
    }

    fn add(&mut self, part: &Value) -> Converted<()> {
        match text(&part["type"]) {
            "text" | "input_text" | "output_text" => self.add_text(&part["text"]),
            "image_url" | "input_image" => self.add_image(match &part["image_url"] {
                Value::Object(image) => text(&image["url"]),
                url => text(url),
            })?,
            "image" => self.add_image(match text(&part["source"]["data"]) {
                "" => text(&part["source"]["url"]),
                data => data,
            })?,
            _ => return Err("other content"),
        }
        Ok(())
    }

    fn add_text(&mut self, part: &Value) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text(part));
    }

    fn add_image(&mut self, source: &str) -> Converted<()> {
        let data = source.split_once("base64,").map_or(source, |split| split.1);
        if data.is_empty() || data.starts_with("http") {
            return Err("image without data");
        }
        self.images.push(ImageContent {
            mime: String::new(),
            data: data.into(),
        });
        Ok(())
    }

    fn user(self) -> ChatMessage {
        ChatMessage::User(self.text, self.images)
    }

    fn result(self, id: &Value) -> ChatMessage {
        ChatMessage::Tool(ToolResult {
            id: text(id).into(),
            text: self.text,
            images: self.images,
            ..ToolResult::default()
        })
    }
}

fn answer(text: String, calls: Vec<ToolCall>, native: Option<Arc<NativeAnswer>>) -> ChatMessage {
    ChatMessage::Assistant(AssistantMessage {
        text,
        calls,
        native,
    })
}

fn call(id: &Value, name: &Value, arguments: String) -> ToolCall {
    ToolCall {
        id: text(id).into(),
        name: text(name).into(),
        arguments,
        extra: None,
    }
}

fn tool(definition: &Value, schema: &Value) -> Converted<ToolDefinition> {
    if !definition["name"].is_string() {
        return Err("tool of the provider");
    }
    Ok(ToolDefinition {
        name: text(&definition["name"]).into(),
        description: text(&definition["description"]).into(),
        schema: schema.to_string(),
        ..ToolDefinition::default()
    })
}

/// Fails if a field that adds tokens, and that aish never sends, is set.
fn without(body: &Value, fields: &[&str]) -> Converted<()> {
    let is_set = |field: &&str| !body.pointer(field).unwrap_or(&Value::Null).is_null();
    match fields.iter().any(is_set) {
        true => Err("field that aish does not send"),
        false => Ok(()),
    }
}

fn of_chat(body: &Value, request: &mut Request) -> Converted<()> {
    without(
        body,
        &["/web_search_options", "/plugins", "/audio", "/documents"],
    )?;
    if body["response_format"]["type"] == "json_schema" {
        return Err("field that aish does not send");
    }
    for message in list(&body["messages"]) {
        let mut content = Content::of(&message["content"])?;
        request.messages.push(match text(&message["role"]) {
            "system" | "developer" => ChatMessage::System(content.text),
            "user" => content.user(),
            "tool" => content.result(&message["tool_call_id"]),
            "assistant" => {
                let calls = list(&message["tool_calls"]).iter().map(|c| {
                    let function = &c["function"];
                    call(
                        &c["id"],
                        &function["name"],
                        text(&function["arguments"]).into(),
                    )
                });
                let fields = ["reasoning_content", "reasoning"].map(|name| text(&message[name]));
                let details = &message["reasoning_details"];
                let has_any = fields.concat().len() + list(details).len() > 0;
                let reasoning = json!({ "reasoning": fields.concat(), "details": details });
                let reasoning = has_any.then_some(reasoning).into_iter().collect();
                // Reasoning in tags is not sent back.
                if let Some((_, after)) = content.text.split_once("</think>") {
                    content.text = after.trim_start().to_owned();
                }
                answer(
                    content.text,
                    calls.collect(),
                    native(Dialect::Chat, reasoning),
                )
            }
            _ => return Err("other role"),
        });
    }
    for definition in list(&body["tools"]) {
        let function = &definition["function"];
        request.tools.push(tool(function, &function["parameters"])?);
    }
    Ok(())
}

/// Returns the answer that the last messages belong to: its text, its calls and its reasoning came as items.
fn last_answer(messages: &mut Vec<ChatMessage>) -> &mut AssistantMessage {
    if !matches!(messages.last(), Some(ChatMessage::Assistant(_))) {
        messages.push(ChatMessage::assistant(""));
    }
    match messages.last_mut() {
        Some(ChatMessage::Assistant(answer)) => answer,
        _ => unreachable!(),
    }
}

fn of_responses(body: &Value, request: &mut Request) -> Converted<()> {
    without(body, &["/previous_response_id", "/conversation", "/prompt"])?;
    if body["text"]["format"]["type"] == "json_schema" {
        return Err("field that aish does not send");
    }
    let messages = &mut request.messages;
    if body["instructions"].is_string() {
        messages.push(ChatMessage::System(text(&body["instructions"]).into()));
    }
    if let Value::String(prompt) = &body["input"] {
        messages.push(ChatMessage::user(prompt));
    }
    for item in list(&body["input"]) {
        match (text(&item["type"]), text(&item["role"])) {
            ("function_call", _) => {
                let arguments = text(&item["arguments"]).into();
                let call = call(&item["call_id"], &item["name"], arguments);
                last_answer(messages).calls.push(call);
            }
            ("function_call_output", _) => {
                messages.push(Content::of(&item["output"])?.result(&item["call_id"]));
            }
            ("reasoning", _) => {
                let answer = last_answer(messages);
                let before = answer.native.take();
                let before = before.and_then(|native| serde_json::from_str(&native.items).ok());
                let mut reasoning: Vec<Value> = before.unwrap_or_default();
                reasoning.push(item.clone());
                answer.native = native(Dialect::Responses, reasoning);
            }
            ("" | "message", role) => {
                let content = Content::of(&item["content"])?;
                match role {
                    "system" | "developer" => messages.push(ChatMessage::System(content.text)),
                    "user" => messages.push(content.user()),
                    "assistant" => last_answer(messages).text += &content.text,
                    _ => return Err("other role"),
                }
            }
            _ => return Err("other content"),
        }
    }
    for definition in list(&body["tools"]) {
        request
            .tools
            .push(tool(definition, &definition["parameters"])?);
    }
    Ok(())
}

fn of_anthropic(body: &Value, request: &mut Request) -> Converted<()> {
    without(
        body,
        &[
            "/output_format",
            "/output_config/format",
            "/context_management",
            "/mcp_servers",
            "/container",
        ],
    )?;
    let system = Content::of(&body["system"])?.text;
    if !system.is_empty() {
        request.messages.push(ChatMessage::System(system));
    }
    for message in list(&body["messages"]) {
        let blocks = match &message["content"] {
            Value::String(text) => &[json!({ "type": "text", "text": text })],
            blocks => list(blocks),
        };
        let (mut content, mut calls, mut reasoning) = (Content::default(), vec![], vec![]);
        for block in blocks {
            match text(&block["type"]) {
                "tool_use" => calls.push(call(
                    &block["id"],
                    &block["name"],
                    block["input"].to_string(),
                )),
                "tool_result" => {
                    let result = Content::of(&block["content"])?;
                    request.messages.push(result.result(&block["tool_use_id"]));
                }
                "thinking" | "redacted_thinking" => reasoning.push(block.clone()),
                _ => content.add(block)?,
            }
        }
        let is_answer = message["role"] == "assistant";
        if is_answer {
            request.messages.push(answer(
                content.text,
                calls,
                native(Dialect::Anthropic, reasoning),
            ));
        } else if !content.text.is_empty() || !content.images.is_empty() {
            request.messages.push(content.user());
        }
    }
    for definition in list(&body["tools"]) {
        if !matches!(text(&definition["type"]), "" | "custom") {
            return Err("tool of the provider");
        }
        request
            .tools
            .push(tool(definition, &definition["input_schema"])?);
    }
    Ok(())
}

fn of_gemini(body: &Value, request: &mut Request) -> Converted<()> {
    without(
        body,
        &[
            "/generationConfig/responseSchema",
            "/generationConfig/responseJsonSchema",
            "/cachedContent",
        ],
    )?;
    for part in list(&body["systemInstruction"]["parts"]) {
        request
            .messages
            .push(ChatMessage::System(text(&part["text"]).into()));
    }
    for message in list(&body["contents"]) {
        let (mut content, mut calls, mut reasoning) = (Content::default(), vec![], vec![]);
        for part in list(&message["parts"]) {
            if part["thought"] == true || part["thoughtSignature"].is_string() {
                reasoning.push(part.clone());
            }
            if let Some(called) = part.get("functionCall") {
                let arguments = called["args"].to_string();
                calls.push(call(&called["id"], &called["name"], arguments));
            } else if let Some(returned) = part.get("functionResponse") {
                without(returned, &["/parts"])?;
                let result = Content {
                    text: returned["response"].to_string(),
                    ..Content::default()
                };
                request.messages.push(result.result(&returned["id"]));
            } else if part["thought"] == true {
                continue;
            } else if part["text"].is_string() {
                content.add_text(&part["text"]);
            } else if text(&part["inlineData"]["mimeType"]).starts_with("image/") {
                content.add_image(text(&part["inlineData"]["data"]))?;
            } else {
                return Err("other content");
            }
        }
        if message["role"] == "model" {
            request.messages.push(answer(
                content.text,
                calls,
                native(Dialect::Gemini, reasoning),
            ));
        } else if !content.text.is_empty() || !content.images.is_empty() {
            request.messages.push(content.user());
        }
    }
    for group in list(&body["tools"]) {
        let Some(definitions) = group.get("functionDeclarations") else {
            return Err("tool of the provider");
        };
        for definition in list(definitions) {
            let schemas = [
                &definition["parameters"],
                &definition["parametersJsonSchema"],
            ];
            let schema = schemas.into_iter().find(|schema| schema.is_object());
            request
                .tools
                .push(tool(definition, schema.unwrap_or(&Value::Null))?);
        }
    }
    Ok(())
}

/// Returns the tokens of the request by the answer: a JSON text, or events.
fn counted(dialect: Dialect, answer: &str) -> u64 {
    let events: Vec<Value> = match serde_json::from_str(answer) {
        Ok(Value::Array(values)) => values,
        Ok(value) => vec![value],
        Err(_) => answer
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok())
            .collect(),
    };
    let count = |event: &Value, fields: &[&str]| -> u64 {
        let of = |field: &&str| event.pointer(field).and_then(Value::as_u64);
        fields.iter().filter_map(of).sum()
    };
    let counts = events.iter().map(|event| match dialect {
        Dialect::Chat => count(event, &["/usage/prompt_tokens"]),
        Dialect::Gemini => count(event, &["/usageMetadata/promptTokenCount"]),
        Dialect::Responses => count(
            event,
            &["/usage/input_tokens", "/response/usage/input_tokens"],
        ),
        Dialect::Anthropic => {
            let fields = [
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ];
            let under = |parent: &str| {
                let fields = fields.map(|field| format!("{parent}/{field}"));
                count(event, &fields.each_ref().map(String::as_str))
            };
            under("/usage").max(under("/message/usage"))
        }
    });
    counts.max().unwrap_or_default()
}

/// Whether the model was free to call tools: otherwise providers add other instructions, or leave the tools out.
fn has_free_choice(body: &Value) -> bool {
    let choices = [
        &body["tool_choice"],
        &body["tool_choice"]["type"],
        &body["toolConfig"]["functionCallingConfig"]["mode"],
    ];
    let mut names = choices.into_iter().filter_map(Value::as_str);
    names.all(|name| name.eq_ignore_ascii_case("auto"))
}

/// Converts an exchange, a line of `exchanges.jsonl`.
pub fn converted(line: &str) -> Converted<Request> {
    let exchange: Value = serde_json::from_str(line).map_err(|_| "not JSON")?;
    let (url, body) = (text(&exchange["url"]), &exchange["request"]);
    let path = url.split('?').next().unwrap_or_default();
    let mut request = Request {
        file: text(&exchange["file"]).to_owned(),
        model: text(&body["model"]).to_owned(),
        ..Request::default()
    };
    type Read = fn(&Value, &mut Request) -> Converted<()>;
    let (dialect, read): (_, Read) = if path.ends_with("enerateContent") {
        (Dialect::Gemini, of_gemini)
    } else if path.ends_with("/messages") || path.ends_with("awPredict") {
        (Dialect::Anthropic, of_anthropic)
    } else if path.ends_with("/responses") {
        (Dialect::Responses, of_responses)
    } else if path.ends_with("/chat/completions") {
        (Dialect::Chat, of_chat)
    } else {
        return Err("another API");
    };
    if request.model.is_empty() {
        let model = path.rsplit('/').next().unwrap_or_default();
        request.model = model.split(':').next().unwrap_or_default().to_owned();
    }
    // These servers search the web for each prompt, and count some of the results.
    if url.contains("perplexity") || request.model.contains("groq/compound") {
        return Err("server that adds content");
    }
    if !has_free_choice(body) {
        return Err("tools not up to the model");
    }
    request.dialect = dialect;
    read(body, &mut request)?;
    request.real = counted(dialect, text(&exchange["answer"]));
    match request.real {
        0 => Err("no count"),
        _ => Ok(request),
    }
}
