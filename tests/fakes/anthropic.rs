//! The Messages API of Anthropic: the rules that it checks requests by, and its answers. Served by
//! [`super::Provider`].

use std::collections::HashSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Request, Script};

/// Model name in every answer.
pub const MODEL: &str = "claude-fake-1";

/// A content block of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Block<'a> {
    /// Reasoning, signed for the request that it answers.
    Thinking(&'a str),
    /// Reasoning that only the provider can read.
    Redacted(&'a str),
    /// Text.
    Text(&'a str),
    /// A call of a tool that the provider runs itself, after which it pauses the answer.
    ServerTool(&'a str),
    /// A tool call: id, wire name, arguments.
    Call(&'a str, &'a str, &'a str),
}

/// Answers a request with these blocks: padded, with pings, and with text and arguments in small pieces.
pub fn answer(request: &Request, blocks: &[Block<'_>], reason: &str) -> Script {
    Script::events(events(request, blocks, reason).iter().map(String::as_str))
}

/// The events of an answer.
pub fn events(request: &Request, blocks: &[Block<'_>], reason: &str) -> Vec<String> {
    let body = &request.json;
    let messages = body["messages"].as_array().map_or(&[][..], |m| m);
    let usage = json!({
        "input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300,
        "output_tokens": 1, "service_tier": "standard",
    });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = parts(*block, &signature(body, messages));
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "ping"}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 40},
    }));
    events.push(json!({"type": "message_stop"}));
    let padded = events.iter().enumerate().map(|(n, event)| {
        let (text, name) = (
            event.to_string(),
            event["type"].as_str().unwrap_or_default(),
        );
        let text = text.strip_suffix('}').unwrap_or(&text);
        format!(
            "event: {name}\ndata: {text}{}}}\n\n",
            " ".repeat(n * 7 % 16)
        )
    });
    padded.collect()
}

fn parts(block: Block<'_>, signature: &str) -> (Value, Vec<Value>) {
    let pieces = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters
            .chunks(3)
            .map(|piece| piece.iter().collect())
            .collect()
    };
    match block {
        Block::Thinking(text) => {
            let delta = |piece| json!({"type": "thinking_delta", "thinking": piece});
            let mut deltas: Vec<Value> = pieces(text).into_iter().map(delta).collect();
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                deltas,
            )
        }
        Block::Redacted(data) => (json!({"type": "redacted_thinking", "data": data}), vec![]),
        Block::ServerTool(id) => (
            json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}}),
            vec![],
        ),
        Block::Text(text) => {
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            (
                json!({"type": "text", "text": ""}),
                pieces(text).into_iter().map(delta).collect(),
            )
        }
        Block::Call(id, name, arguments) => {
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let first = delta(String::new());
            let deltas = std::iter::once(first).chain(pieces(arguments).into_iter().map(delta));
            (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                deltas.collect(),
            )
        }
    }
}

/// The signature of reasoning in an answer to these messages.
fn signature(body: &Value, messages: &[Value]) -> String {
    let mut digest = Sha256::new();
    digest.update(body["system"].to_string());
    digest.update(body["tools"].to_string());
    for message in messages {
        digest.update(message.to_string());
    }
    let hex = digest
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect::<String>();
    format!("sig+/{hex}==")
}

/// Violations of the API's rules.
pub fn violations(request: &Request, key: Option<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    if request.header("x-api-key") != key {
        wrong.push("x-api-key is not what was scripted".to_owned());
    }
    if request.header("authorization").is_some() {
        wrong.push("authorization is for another API".to_owned());
    }
    if request.header("anthropic-version") != Some("2023-06-01") {
        wrong.push("anthropic-version is missing".to_owned());
    }
    let Some(body) = request.json.as_object() else {
        wrong.push("the body is not a JSON object".to_owned());
        return wrong;
    };
    for (name, value) in body {
        let right = match name.as_str() {
            "model" => value.as_str().is_some_and(|m| !m.is_empty()),
            "max_tokens" => value.as_u64().is_some_and(|n| n > 0),
            "messages" => value.as_array().is_some_and(|m| !m.is_empty()),
            "stream" => *value == json!(true),
            "temperature" => value.as_f64().is_some_and(|t| (0.0..=1.0).contains(&t)),
            "cache_control" => *value == json!({"type": "ephemeral"}),
            "thinking" => *value == json!({"type": "adaptive", "display": "summarized"}),
            "system" => value.as_array().is_some_and(|s| s.iter().all(is_text)),
            "tools" => value
                .as_array()
                .is_some_and(|t| !t.is_empty() && t.iter().all(is_tool)),
            _ => false,
        };
        if !right {
            wrong.push(format!("unknown or wrong: {name:?}: {value}"));
        }
    }
    for name in ["model", "max_tokens", "messages", "stream"] {
        if !body.contains_key(name) {
            wrong.push(format!("{name} is missing"));
        }
    }
    message_violations(&request.json, &mut wrong);
    wrong
}

fn message_violations(body: &Value, wrong: &mut Vec<String>) {
    let messages = body["messages"].as_array().map_or(&[][..], |m| m);
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let is_paused = |message: &Value| {
        let blocks = message["content"].as_array();
        let last = blocks.and_then(|blocks| blocks.last());
        last.is_some_and(|block| block["type"] == "server_tool_use")
    };
    let mut role = "assistant";
    for (at, message) in messages.iter().enumerate() {
        // The parts of a paused answer follow each other.
        role = match role {
            "assistant" if at == 0 || !is_paused(&messages[at - 1]) => "user",
            _ => "assistant",
        };
        if message["role"] != role {
            wrong.push(format!("message {at} is not of the role {role}"));
        }
        let content = message["content"].as_array().map_or(&[][..], |c| c);
        if content.is_empty() {
            wrong.push(format!("message {at} has no content"));
        }
        let mut answered: Vec<&str> = Vec::new();
        let mut other = false;
        for block in content {
            let kind = block["type"].as_str().unwrap_or_default();
            let right = match (role, kind) {
                (_, "text") => is_text(block),
                ("user", "image") => {
                    block["source"]["data"].is_string() && block["source"]["type"] == "base64"
                }
                ("user", "tool_result") => {
                    answered.push(block["tool_use_id"].as_str().unwrap_or_default());
                    // Results come first.
                    !other && block["content"].is_array()
                }
                ("assistant", "tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    open.push(id);
                    block["input"].is_object()
                        && is_name(&block["name"])
                        && is_name(&block["id"])
                        && ids.insert(id)
                }
                ("assistant", "thinking") => {
                    block["thinking"].is_string()
                        && block["signature"] == signature(body, &messages[..at])
                }
                ("assistant", "server_tool_use") => block["input"] == json!({"query": "x"}),
                ("assistant", "redacted_thinking") => block["data"].is_string(),
                _ => false,
            };
            other |= kind != "tool_result";
            if !right {
                wrong.push(format!("block of message {at} is wrong: {block}"));
            }
        }
        if role == "user" && answered != std::mem::take(&mut open) {
            wrong.push(format!(
                "message {at} does not answer the calls: {answered:?}"
            ));
        }
    }
    if role == "assistant" && !messages.last().is_some_and(is_paused) {
        wrong.push("the last message is not the user's".to_owned());
    }
}

fn is_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|t| !t.trim().is_empty())
}

fn is_tool(tool: &Value) -> bool {
    let schema = &tool["input_schema"];
    let plain = ["anyOf", "oneOf", "allOf"]
        .iter()
        .all(|key| schema.get(*key).is_none());
    is_name(&tool["name"]) && schema["type"] == "object" && plain
}

fn is_name(name: &Value) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.as_str()
        .is_some_and(|n| (1..=64).contains(&n.len()) && n.chars().all(right))
}
