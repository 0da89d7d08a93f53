//! Imitation of `lmcp`, a minimal server of 2025-03-26: answers every POST with one JSON document and
//! `Connection: close`, and a GET with one `event: endpoint` before it closes the connection.

use serde_json::{Value, json};

use super::mcp_http::{BodyPart, FakeMcpServer, McpResponse, Request, text};

/// Starts a server that requires this token and offers the tools `greet` and `fail`.
pub fn start(token: &str) -> FakeMcpServer {
    let expected = format!("Bearer {token}");
    FakeMcpServer::start()
        .version("2025-03-26")
        .bearer(token)
        .scripted(move |request| Some(answer(request, &expected)))
}

fn answer(request: &Request, expected: &str) -> McpResponse {
    if request.header("authorization") != Some(expected) {
        let refusal = json!({ "error": "unauthorized" });
        return McpResponse::status(401, refusal).with("connection", "close");
    }
    if request.verb == "GET" {
        let endpoint = b"event: endpoint\ndata: /mcp\n\n".to_vec();
        return McpResponse::events([BodyPart::Bytes(endpoint), BodyPart::Cut]);
    }
    if request.verb != "POST" {
        return McpResponse::status(405, Value::Null).with("connection", "close");
    }
    let params = &request.json["params"];
    let answer = match request.method() {
        "initialize" => request
            .result(json!({
                "protocolVersion": "2025-03-26",
                "capabilities": { "tools": { "listChanged": false } },
                "serverInfo": { "name": "lmcp", "version": "0.9" },
            }))
            .with("mcp-session-id", "lmcp-1"),
        "notifications/initialized" => McpResponse::accepted(),
        "tools/list" => request.result(json!({ "tools": [
            {
                "name": "greet",
                "description": "Says hello.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "name": { "type": "string" } },
                    "required": ["name"],
                },
            },
            { "name": "fail", "description": "Fails.", "inputSchema": { "type": "object" } },
        ] })),
        "tools/call" => match params["name"].as_str() {
            Some("greet") => {
                let name = params["arguments"]["name"].as_str().unwrap_or_default();
                request.result(text(&format!("hello, {name}")))
            }
            Some("fail") => request.result(json!({
                "content": [{ "type": "text", "text": "the handler failed" }],
                "isError": true,
            })),
            _ => request.error(-32601, "unknown tool"),
        },
        _ if request.id().is_null() => McpResponse::accepted(),
        _ => request.error(-32601, "method not found"),
    };
    answer.with("connection", "close")
}
