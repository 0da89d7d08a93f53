//! The answers of each dialect as its provider sends them: order of the fields, padding, pings and counts.

use serde_json::{Value, json};

use super::provider::Script;

/// What one dialect adds to the bench.
pub struct DialectBench {
    /// `provider` in the configuration, and the name in figures.
    pub provider: &'static str,
    /// Path of the request after the base URL.
    pub path: &'static str,
    /// Headers that `curl` needs in addition.
    pub headers: &'static [&'static str],
    /// The body of the request for a prompt.
    pub body: fn(&str) -> Value,
    /// An answer of these tokens.
    pub answer: fn(&[&str]) -> Script,
    /// Text near the end of each answer.
    pub last: &'static [u8],
}

/// The dialects; chat completions come first.
pub const DIALECTS: [DialectBench; 4] = [
    DialectBench {
        provider: "chat",
        path: "/chat/completions",
        headers: &[],
        body: |prompt| {
            json!({
                "model": "fake",
                "messages": [
                    { "role": "system", "content": INSTRUCTIONS },
                    { "role": "user", "content": prompt },
                ],
                "stream": true,
                "stream_options": { "include_usage": true },
            })
        },
        answer: |tokens| Script::tokens(tokens),
        last: b"[DONE]",
    },
    DialectBench {
        provider: "openai",
        path: "/responses",
        headers: &[],
        body: |prompt| {
            let content = [json!({ "type": "input_text", "text": prompt })];
            json!({
                "model": "fake", "store": false, "stream": true, "instructions": INSTRUCTIONS,
                "input": [{ "type": "message", "role": "user", "content": content }],
            })
        },
        answer: responses,
        last: b"response.completed",
    },
    DialectBench {
        provider: "anthropic",
        path: "/messages",
        headers: &["anthropic-version: 2023-06-01"],
        body: |prompt| {
            let text = |text: &str| json!([{ "type": "text", "text": text }]);
            json!({
                "model": "fake", "max_tokens": 32000, "stream": true, "system": text(INSTRUCTIONS),
                "messages": [{ "role": "user", "content": text(prompt) }],
            })
        },
        answer: anthropic,
        last: b"message_stop",
    },
    DialectBench {
        provider: "gemini",
        path: "/models/fake:streamGenerateContent?alt=sse",
        headers: &[],
        body: |prompt| {
            json!({
                "systemInstruction": { "parts": [{ "text": INSTRUCTIONS }] },
                "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
            })
        },
        answer: gemini,
        last: b"STOP",
    },
];

const INSTRUCTIONS: &str = "You are measured.";

/// Letters of which padding is cut.
const PADDING: &str = "aZ3kQ9xW1mB7pL5v";

/// The padding of event `n`, between nothing and 15 bytes.
fn padding(n: usize) -> &'static str {
    &PADDING[..n * 7 % 16]
}

/// OpenAI's Responses API: every delta has an id, a number and `obfuscation`; the whole text comes three times at the end.
fn responses(tokens: &[&str]) -> Script {
    let id = "msg_0123456789abcdef0123456789abcdef0123456789abcdef";
    let text = tokens.concat();
    let part = |text: &str| json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text });
    let item = |status: &str, content: &[Value]| {
        json!({
            "id": id, "type": "message", "status": status, "content": content,
            "phase": "final_answer", "role": "assistant",
        })
    };
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({
            "id": "resp_0123456789abcdef", "object": "response", "created_at": 1, "status": status,
            "error": null, "incomplete_details": null, "instructions": INSTRUCTIONS, "model": "gpt-fake",
            "output": output, "parallel_tool_calls": true, "tools": [], "usage": usage,
        })
    };
    let usage = json!({
        "input_tokens": 7, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": tokens.len(), "output_tokens_details": { "reasoning_tokens": 0 },
    });
    let done = item("completed", &[part(&text)]);
    let begun = response("in_progress", &[], Value::Null);
    let place = json!({ "content_index": 0, "item_id": id, "output_index": 0 });
    let mut events = vec![
        ("response.created", json!({ "response": begun })),
        ("response.in_progress", json!({ "response": begun })),
        (
            "response.output_item.added",
            json!({ "item": item("in_progress", &[]), "output_index": 0 }),
        ),
    ];
    events.extend(tokens.iter().enumerate().map(|(n, token)| {
        let delta = json!({
            "content_index": 0, "delta": token, "item_id": id, "logprobs": [],
            "obfuscation": padding(n), "output_index": 0,
        });
        ("response.output_text.delta", delta)
    }));
    let mut whole = place;
    whole["text"] = json!(text);
    events.push(("response.output_text.done", whole));
    events.push((
        "response.output_item.done",
        json!({ "item": done, "output_index": 0 }),
    ));
    events.push((
        "response.completed",
        json!({ "response": response("completed", &[done], usage) }),
    ));
    Script::stream(events.into_iter().enumerate().map(|(n, (name, fields))| {
        let fields = fields.to_string();
        let fields = &fields[1..fields.len() - 1];
        format!("event: {name}\ndata: {{\"type\":\"{name}\",{fields},\"sequence_number\":{n}}}\n\n")
    }))
}

/// Anthropic's Messages API: a line with the event's name, spaces before the last brace, and pings.
fn anthropic(tokens: &[&str]) -> Script {
    let usage = json!({ "input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1 });
    let message = json!({
        "model": "claude-fake", "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut events = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    ];
    for (n, token) in tokens.iter().enumerate() {
        if n % 500 == 0 {
            events.push(json!({ "type": "ping" }));
        }
        let delta = json!({ "type": "text_delta", "text": token });
        events.push(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    }
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
        "usage": { "output_tokens": tokens.len() },
    }));
    events.push(json!({ "type": "message_stop" }));
    Script::stream(events.into_iter().enumerate().map(|(n, event)| {
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        let text = event.to_string();
        let spaces = " ".repeat(padding(n).len());
        format!(
            "event: {name}\ndata: {}{spaces}}}\n\n",
            &text[..text.len() - 1]
        )
    }))
}

/// The Gemini API: CRLF, a space after each colon, and the whole usage, model and id in every event.
fn gemini(tokens: &[&str]) -> Script {
    let last = tokens.len() - 1;
    Script::stream(tokens.iter().enumerate().map(|(n, token)| {
        let text = json!(token);
        let finish = if n == last { r#""finishReason": "STOP","# } else { "" };
        let total = n + 37;
        format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": {text}}}],\"role\": \"model\"}},{finish}\"index\": 0}}],\
             \"usageMetadata\": {{\"promptTokenCount\": 36,\"candidatesTokenCount\": {n},\"totalTokenCount\": {total},\
             \"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 36}}],\"thoughtsTokenCount\": 117,\"serviceTier\": \"standard\"}},\
             \"modelVersion\": \"gemini-fake\",\"responseId\": \"OiYaatSOKZWj_uMP9eGlsQw\"}}\r\n\r\n"
        )
    }))
}
