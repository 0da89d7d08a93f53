//! The Gemini API of Google: the rules that it checks requests by, and its answers. Served by [`super::Provider`].

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Request, Script};

/// Model name in every answer.
pub const MODEL: &str = "gemini-fake-1";

/// A part of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// Reasoning.
    Thought(&'a str),
    /// Text.
    Text(&'a str),
    /// A tool call: id (may be empty), wire name, arguments. The first one is signed for what it answers.
    Call(&'a str, &'a str, &'a str),
    /// The signature of an answer without calls, on an empty text.
    Signature,
}

/// Answers a request with these parts: one event each, CRLF, counts in every event, and no last event.
pub fn answer(request: &Request, parts: &[Part<'_>], reason: &str) -> Script {
    Script::events(events(request, parts, reason).iter().map(String::as_str))
}

/// The events of an answer.
pub fn events(request: &Request, parts: &[Part<'_>], reason: &str) -> Vec<String> {
    let contents = request.json["contents"].as_array().map_or(&[][..], |c| c);
    let signature = signature(&request.json, contents);
    let mut signed = false;
    let mut events = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let part = match *part {
            Part::Thought(text) => json!({"text": text, "thought": true}),
            Part::Text(text) => json!({"text": text}),
            Part::Signature => json!({"text": "", "thoughtSignature": signature}),
            Part::Call(id, name, arguments) => {
                let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
                let mut call = json!({"name": name, "args": arguments});
                if !id.is_empty() {
                    call["id"] = json!(id);
                }
                let mut part = json!({"functionCall": call});
                if !signed {
                    part["thoughtSignature"] = json!(signature);
                    signed = true;
                }
                part
            }
        };
        let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        // Parts may follow the first reason.
        if at + 2 >= parts.len() {
            candidate["finishReason"] = json!(reason);
        }
        events.push(json!({
            "candidates": [candidate], "modelVersion": MODEL, "responseId": "r",
            "usageMetadata": {
                "promptTokenCount": 327, "candidatesTokenCount": at, "thoughtsTokenCount": 30,
                "cachedContentTokenCount": 300, "totalTokenCount": 400,
            },
        }));
    }
    events
        .iter()
        .map(|event| format!("data: {event}\r\n\r\n"))
        .collect()
}

/// The signature of an answer to these contents.
fn signature(body: &Value, contents: &[Value]) -> String {
    let mut digest = Sha256::new();
    digest.update(body["systemInstruction"].to_string());
    digest.update(body["tools"].to_string());
    for content in contents {
        digest.update(content.to_string());
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
    if request.header("x-goog-api-key") != key {
        wrong.push("x-goog-api-key is not what was scripted".to_owned());
    }
    if request.header("authorization").is_some() {
        wrong.push("authorization is for another API".to_owned());
    }
    if !request.path.ends_with(":streamGenerateContent?alt=sse") {
        wrong.push(format!("nothing is at {}", request.path));
    }
    let Some(body) = request.json.as_object() else {
        wrong.push("the body is not a JSON object".to_owned());
        return wrong;
    };
    for (name, value) in body {
        let right = match name.as_str() {
            "contents" => value.as_array().is_some_and(|c| !c.is_empty()),
            "systemInstruction" => value["parts"]
                .as_array()
                .is_some_and(|p| p.iter().all(is_text)),
            "generationConfig" => value.as_object().is_some_and(|g| {
                g.iter().all(|(name, value)| match name.as_str() {
                    "temperature" => value.is_number(),
                    "maxOutputTokens" => value.as_u64().is_some_and(|n| n > 0),
                    "thinkingConfig" => *value == json!({"includeThoughts": true}),
                    _ => false,
                })
            }),
            "tools" => {
                let tools = value[0]["functionDeclarations"].as_array();
                tools.is_some_and(|t| !t.is_empty() && t.iter().all(is_tool))
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("unknown or wrong: {name:?}: {value}"));
        }
    }
    content_violations(&request.json, &mut wrong);
    wrong
}

fn content_violations(body: &Value, wrong: &mut Vec<String>) {
    let contents = body["contents"].as_array().map_or(&[][..], |c| c);
    let mut open: Vec<(Value, Value)> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        if content["role"] != role {
            wrong.push(format!("content {at} is not of the role {role}"));
        }
        let parts = content["parts"].as_array().map_or(&[][..], |p| p);
        if parts.is_empty() {
            wrong.push(format!("content {at} has no parts"));
        }
        let mut answered = Vec::new();
        let mut calls = Vec::new();
        for part in parts {
            let (call, result) = (&part["functionCall"], &part["functionResponse"]);
            let mut right = true;
            if call.is_object() {
                calls.push((call["name"].clone(), call["id"].clone()));
                right &= role == "model" && call["args"].is_object();
                // The first call of a step is signed.
                right &= calls.len() > 1 || part["thoughtSignature"].is_string();
            } else if result.is_object() {
                answered.push((result["name"].clone(), result["id"].clone()));
                right &= role == "user" && result["response"].is_object();
            } else if part["inlineData"].is_object() {
                right &= role == "user" && part["inlineData"]["data"].is_string();
            } else {
                right &= part["text"].is_string();
            }
            if let Some(sent) = part["thoughtSignature"].as_str() {
                let valid = signature(body, &contents[..at]);
                right &= sent == valid || sent == "skip_thought_signature_validator";
            }
            if !right {
                wrong.push(format!("part of content {at} is wrong: {part}"));
            }
        }
        if role == "user" && answered != std::mem::take(&mut open) {
            wrong.push(format!(
                "content {at} does not answer the calls: {answered:?}"
            ));
        }
        if role == "model" {
            open = calls;
        }
    }
    if contents.len().is_multiple_of(2) {
        wrong.push("the last content is not the user's".to_owned());
    }
}

fn is_text(part: &Value) -> bool {
    part["text"].as_str().is_some_and(|t| !t.trim().is_empty())
}

fn is_tool(tool: &Value) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = tool["name"].as_str().unwrap_or_default();
    (1..=64).contains(&name.len())
        && name.chars().all(right)
        && tool["parametersJsonSchema"]["type"] == "object"
        && tool.get("parameters").is_none()
}
