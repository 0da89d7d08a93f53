//! The Responses API of OpenAI: the rules that it checks requests by, and its answers. Served by [`super::Provider`].

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Request, Script};

/// Model name in every answer.
pub const MODEL: &str = "gpt-fake-1";

/// An item of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// Encrypted reasoning with a summary, valid only after what it answers.
    Reasoning(&'a str),
    /// Text.
    Text(&'a str),
    /// A tool call: id, wire name, arguments.
    Call(&'a str, &'a str, &'a str),
}

/// Answers a request with these items: padded, with text, summaries and arguments in small pieces, and the items' ids
/// different in every event, as some hosts send them.
pub fn answer(request: &Request, items: &[Item<'_>], status: &str) -> Script {
    Script::events(events(request, items, status).iter().map(String::as_str))
}

/// The events of an answer.
pub fn events(request: &Request, items: &[Item<'_>], status: &str) -> Vec<String> {
    let body = &request.json;
    let input = body["input"].as_array().map_or(&[][..], |i| i);
    let response = |status: &str, usage: Value| {
        let reason = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        json!({
            "id": "resp_1", "object": "response", "status": status, "model": MODEL, "error": null,
            "incomplete_details": reason, "instructions": body["instructions"], "tools": body["tools"],
            "output": [], "usage": usage,
        })
    };
    let created = response("in_progress", Value::Null);
    let mut events = vec![
        json!({"type": "response.created", "response": created}),
        json!({"type": "response.in_progress", "response": created}),
    ];
    for (at, item) in items.iter().enumerate() {
        let (whole, kind, pieces) = parts(*item, &seal(body, input));
        let mut added = whole.clone();
        added["id"] = json!(format!("added_{at}"));
        added["encrypted_content"] = json!("not this one");
        added["status"] = json!("in_progress");
        events
            .push(json!({"type": "response.output_item.added", "output_index": at, "item": added}));
        for (n, piece) in pieces.iter().enumerate() {
            events.push(json!({
                "type": format!("response.{kind}.delta"), "item_id": format!("piece_{at}_{n}"),
                "output_index": at, "content_index": 0, "summary_index": 0, "delta": piece,
            }));
        }
        let all = pieces.concat();
        events.push(
            json!({"type": format!("response.{kind}.done"), "output_index": at, "text": all}),
        );
        events
            .push(json!({"type": "response.output_item.done", "output_index": at, "item": whole}));
    }
    let usage = json!({
        "input_tokens": 327, "input_tokens_details": {"cached_tokens": 300},
        "output_tokens": 40, "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 367,
    });
    events.push(json!({"type": format!("response.{status}"), "response": response(status, usage)}));
    let padded = events.iter().enumerate().map(|(n, event)| {
        let mut event = event.clone();
        event["sequence_number"] = json!(n);
        event["obfuscation"] = json!("aZ3kQ9xW1mB7pL5v"[..n * 7 % 16]);
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    });
    padded.collect()
}

/// The item as it is at its end, the kind of its pieces, and the pieces.
fn parts(item: Item<'_>, seal: &str) -> (Value, &'static str, Vec<String>) {
    let pieces = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters
            .chunks(3)
            .map(|piece| piece.iter().collect())
            .collect()
    };
    match item {
        Item::Reasoning(text) => {
            let summary = json!([{"type": "summary_text", "text": text}]);
            let item = json!({
                "id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": seal,
            });
            (item, "reasoning_summary_text", pieces(text))
        }
        Item::Text(text) => {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            let item = json!({
                "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "phase": "final_answer", "content": content,
            });
            (item, "output_text", pieces(text))
        }
        Item::Call(id, name, arguments) => {
            let item = json!({
                "id": "fc_1", "type": "function_call", "call_id": id, "name": name,
                "arguments": arguments, "status": "completed",
            });
            (item, "function_call_arguments", pieces(arguments))
        }
    }
}

/// The encrypted content of reasoning that answers this input.
fn seal(body: &Value, input: &[Value]) -> String {
    let mut digest = Sha256::new();
    digest.update(body["instructions"].to_string());
    digest.update(body["tools"].to_string());
    for item in input {
        digest.update(item.to_string());
    }
    let hex = digest
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect::<String>();
    format!("gAAAA+/{hex}==")
}

/// Violations of the API's rules.
pub fn violations(request: &Request) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(body) = request.json.as_object() else {
        return vec!["the body is not a JSON object".to_owned()];
    };
    for (name, value) in body {
        let right = match name.as_str() {
            "model" => value.as_str().is_some_and(|m| !m.is_empty()),
            "stream" => *value == json!(true),
            "store" => *value == json!(false),
            "reasoning" => *value == json!({ "summary": "auto" }),
            "include" => *value == json!(["reasoning.encrypted_content"]),
            "instructions" => value.as_str().is_some_and(|i| !i.is_empty()),
            "input" => value.as_array().is_some_and(|i| !i.is_empty()),
            "temperature" => value.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)),
            "max_output_tokens" => value.as_u64().is_some_and(|n| n >= 16),
            "prompt_cache_key" => value.as_str().is_some_and(|k| (1..=64).contains(&k.len())),
            "tools" => value
                .as_array()
                .is_some_and(|t| !t.is_empty() && t.iter().all(is_tool)),
            _ => false,
        };
        if !right {
            wrong.push(format!("unknown or wrong: {name:?}: {value}"));
        }
    }
    for name in ["model", "input", "stream", "store"] {
        if !body.contains_key(name) {
            wrong.push(format!("{name} is missing"));
        }
    }
    input_violations(&request.json, &mut wrong);
    wrong
}

fn input_violations(body: &Value, wrong: &mut Vec<String>) {
    let input = body["input"].as_array().map_or(&[][..], |i| i);
    let mut open: Vec<&str> = Vec::new();
    // Where the answer began that an item belongs to.
    let mut begin = 0;
    for (at, item) in input.iter().enumerate() {
        let role = item["role"].as_str().unwrap_or_default();
        let id = item["call_id"].as_str().unwrap_or_default();
        let right = match item["type"].as_str().unwrap_or_default() {
            "message" if role == "user" => {
                let part = |part: &Value| match part["type"].as_str() {
                    Some("input_text") => part["text"].is_string(),
                    Some("input_image") => part["image_url"]
                        .as_str()
                        .is_some_and(|u| u.starts_with("data:image/")),
                    _ => false,
                };
                item["content"]
                    .as_array()
                    .is_some_and(|c| !c.is_empty() && c.iter().all(part))
            }
            "message" => {
                let part = |part: &Value| part["type"] == "output_text" && part["text"].is_string();
                role == "assistant"
                    && item["content"]
                        .as_array()
                        .is_some_and(|c| c.iter().all(part))
            }
            "function_call" => {
                open.push(id);
                let arguments = item["arguments"].as_str().unwrap_or_default();
                (1..=64).contains(&id.len())
                    && serde_json::from_str::<Value>(arguments).is_ok_and(|a| a.is_object())
            }
            "function_call_output" => {
                let is_open = open.iter().position(|call| *call == id);
                is_open.map(|call| open.remove(call)).is_some()
                    && (item["output"].is_string() || item["output"].is_array())
            }
            "reasoning" => item["encrypted_content"] == seal(body, &input[..begin]),
            _ => false,
        };
        let is_answer = role == "assistant"
            || matches!(item["type"].as_str(), Some("function_call" | "reasoning"));
        if !is_answer {
            begin = at + 1;
        }
        if !right || item.get("id").is_some() {
            wrong.push(format!("item {at} is wrong: {item}"));
        }
        if role == "user" && !open.is_empty() {
            wrong.push(format!("item {at} comes before the results of {open:?}"));
        }
    }
}

fn is_tool(tool: &Value) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = tool["name"].as_str().unwrap_or_default();
    tool["type"] == "function"
        && (1..=64).contains(&name.len())
        && name.chars().all(right)
        && tool["strict"] == json!(false)
        && tool["parameters"]["type"] == "object"
        && tool["description"].is_string()
}
