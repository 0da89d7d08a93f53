//! MCP server with minimal latency and persistent connections, for measurements and for many concurrent clients: real
//! HTTP/1.1 on loopback, with threads. Invalid requests fail the test when the server is dropped.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Protocol version.
pub const VERSION: &str = "2025-11-25";

/// The server; stops when dropped.
pub struct Steady {
    addr: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    delay: Duration,
    calls: Mutex<Vec<Value>>,
    wrong: Mutex<Vec<String>>,
}

impl Steady {
    /// Starts a server that delays the response to `initialize` by `delay`. Its tool `echo` returns its argument `text`.
    pub fn start(delay: Duration) -> Steady {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let seen = Arc::new(Seen {
            delay,
            ..Seen::default()
        });
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                thread::spawn(move || seen.serve(&stream));
            }
        });
        Steady { addr, seen }
    }

    /// URL of the MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Arguments of all calls so far, in order.
    pub fn calls(&self) -> Vec<Value> {
        lock(&self.seen.calls).clone()
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        let wrong = lock(&self.seen.wrong);
        assert!(wrong.is_empty() || thread::panicking(), "{wrong:#?}");
    }
}

impl Seen {
    /// Serves one connection until the client disconnects.
    fn serve(&self, stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Ok(Some((head, body))) = read(&mut reader) {
            let answer = self.answer(&head, &body);
            let mut stream = stream;
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: &[u8]) -> Vec<u8> {
        if !head.starts_with("post ") {
            return response("405 Method Not Allowed", "");
        }
        let message: Value = match serde_json::from_slice(body) {
            Ok(message) => message,
            Err(e) => return self.refuse(&format!("no JSON: {e}")),
        };
        let method = message["method"].as_str().unwrap_or_default();
        if !head.contains("accept: application/json, text/event-stream")
            && !head.contains("accept: text/event-stream, application/json")
        {
            return self.refuse(&format!(
                "{method}: takes not both kinds of answers: {head}"
            ));
        }
        let id = &message["id"];
        if id.is_null() {
            return response("202 Accepted", "");
        }
        let result = match method {
            "initialize" => {
                thread::sleep(self.delay);
                json!({
                    "protocolVersion": VERSION,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "steady", "version": "1" },
                })
            }
            "tools/list" => json!({ "tools": [{
                "name": "echo",
                "description": "Says it again.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "text": { "type": "string" } },
                    "required": ["text"],
                },
            }] }),
            "tools/call" => {
                if !head.contains(&format!("mcp-protocol-version: {VERSION}")) {
                    return self.refuse(&format!("a call without the version: {head}"));
                }
                let arguments = &message["params"]["arguments"];
                lock(&self.calls).push(arguments.clone());
                json!({ "content": [{ "type": "text", "text": arguments["text"] }] })
            }
            "ping" => json!({}),
            _ => {
                let error = json!({ "code": -32601, "message": format!("there is no {method}") });
                let error = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                return response("200 OK", &error.to_string());
            }
        };
        let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        response("200 OK", &message.to_string())
    }

    fn refuse(&self, why: &str) -> Vec<u8> {
        lock(&self.wrong).push(why.to_owned());
        response("400 Bad Request", "")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a request: its head in lower case, and its body. `None` at the end of the stream.
fn read(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Some((head, body)))
}

fn response(status: &str, body: &str) -> Vec<u8> {
    let kind = if body.is_empty() {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{kind}content-length: {length}\r\n\r\n{body}").into_bytes()
}
