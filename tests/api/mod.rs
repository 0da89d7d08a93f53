//! The HTTP API: the real daemon over real connections. Only models and MCP servers are fakes.

mod document;
mod events;
mod guard;
mod limits;
mod logs;
mod questions;
mod schema;
mod schemathesis;
mod secrets;
mod sessions;
mod shares;
mod socket;
mod tls;
mod tool_calls;
mod tui;
mod waiting;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::helper::Helper;

/// A running server of a home.
pub struct Server {
    pub port: u16,
    pub token: String,
}

/// A port that is free now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Server {
    pub fn start(helper: &Helper) -> Server {
        let port = free_port();
        let number = port.to_string();
        helper.call(["serve", "--port", &number]).run().ok();
        let token = helper.call(["serve", "token", "show"]).run().ok();
        Server {
            port,
            token: token.trim().to_owned(),
        }
    }

    /// Sends a request with the token.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let token = format!("authorization: Bearer {}\r\n", self.token);
        self.send_with(method, path, &token, body)
    }

    /// Sends a request with these header lines.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&Value>,
    ) -> Response {
        let body = body.map(Value::to_string);
        let content = body.as_ref().map(|body| {
            let length = body.len();
            format!("content-type: application/json\r\ncontent-length: {length}\r\n")
        });
        self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n{headers}{}\r\n{}",
            self.port,
            content.unwrap_or_default(),
            body.unwrap_or_default()
        ))
    }

    /// Sends these bytes and reads the response.
    pub fn raw(&self, request: &str) -> Response {
        let mut stream = self.connect();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request.as_bytes());
        Response::read(&mut BufReader::new(stream))
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    pub fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).json(200)
    }

    pub fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        self.send("POST", path, Some(body)).json(status)
    }

    /// Creates a session and returns its id.
    pub fn session(&self) -> String {
        let session = self.post("/v1/sessions", &json!({}), 201);
        session["id"].as_str().expect("an id").to_owned()
    }

    /// Returns the id of the session that was used last.
    pub fn last_session(&self) -> String {
        let sessions = self.get("/v1/sessions");
        sessions["sessions"][0]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }

    /// Sends a prompt to a session.
    pub fn prompt(&self, session: &str, text: &str) -> Value {
        let path = format!("/v1/sessions/{session}/messages");
        self.post(&path, &json!({ "content": text }), 202)
    }

    /// Opens a stream of events.
    pub fn events(&self, path: &str) -> EventStream {
        self.events_with(path, &self.token)
    }

    /// Opens a stream of events with this bearer.
    pub fn events_with(&self, path: &str, bearer: &str) -> EventStream {
        let mut stream = self.connect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {bearer}\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut reader = BufReader::new(stream);
        let (status, head) = read_head(&mut reader).expect("a response");
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        EventStream {
            reader,
            text: String::new(),
        }
    }

    /// Returns all events of a session after a cursor.
    pub fn all_events(&self, session: &str, since: &str) -> Vec<ServerEvent> {
        let path = format!("/v1/sessions/{session}/events?follow=false{since}");
        let mut stream = self.events(&path);
        std::iter::from_fn(|| stream.next()).collect()
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    fn read(reader: &mut impl BufRead) -> Response {
        let Some((status, head)) = read_head(reader) else {
            return Response {
                status: 0,
                head: String::new(),
                body: Vec::new(),
            };
        };
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            while let Some(chunk) = read_chunk(reader) {
                body.extend(chunk);
            }
        } else {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(u64::MAX, |length| length.parse().expect("a length"));
            // The connection may be reset after the body.
            let _ = reader.take(length).read_to_end(&mut body);
        }
        Response { status, head, body }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body; the status must be this one.
    pub fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{} {}", self.head, self.text());
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Checks that this is a problem document, and returns it.
    pub fn problem(&self, status: u16) -> Value {
        let problem = self.json(status);
        assert!(
            self.head.contains("content-type: application/problem+json"),
            "{}",
            self.head
        );
        schema::check_as("Problem", &problem);
        assert_eq!(problem["status"], status);
        for name in [
            "content-security-policy",
            "referrer-policy",
            "cross-origin-",
        ] {
            assert!(self.head.contains(name), "{name}: {}", self.head);
        }
        assert_eq!(
            status == 405,
            self.head.contains("\nallow: "),
            "{}",
            self.head
        );
        for field in ["type", "title", "detail", "kind", "message", "hint"] {
            let text = problem[field].as_str().expect("a text");
            assert!(
                !text.is_empty() && !text.contains('\n'),
                "{field}: {text:?}"
            );
        }
        problem
    }
}

/// Reads the head of a response; `None` if the connection was closed.
fn read_head(reader: &mut impl BufRead) -> Option<(u16, String)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.replace("\r\n", "\n").to_lowercase()))
}

/// Reads a chunk; `None` at the end.
fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEvent {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

/// A stream of server-sent events.
pub struct EventStream {
    reader: BufReader<TcpStream>,
    text: String,
}

impl EventStream {
    /// Returns the next event; `None` when the stream ends or the connection is lost.
    pub fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = parse(event);
                self.text = rest.to_owned();
                return Some(event);
            }
            let chunk = read_chunk(&mut self.reader)?;
            self.text
                .push_str(std::str::from_utf8(&chunk).expect("whole characters"));
        }
    }

    /// Returns the next event of this type, and those before it.
    pub fn until(&mut self, kind: &str) -> (ServerEvent, Vec<ServerEvent>) {
        let mut before = Vec::new();
        let start = Instant::now();
        // Heartbeats come for ever.
        while let Some(event) = self.next().filter(|_| start.elapsed() < PATIENCE) {
            if event.kind == kind {
                return (event, before);
            }
            before.push(event);
        }
        panic!("the stream has ended, or waited too long, before {kind}: {before:#?}");
    }
}

fn parse(text: &str) -> ServerEvent {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().to_owned()
    };
    let event = ServerEvent {
        id: field("id: "),
        kind: field("event: "),
        data: serde_json::from_str(&field("data: ")).expect("JSON"),
    };
    assert_eq!(event.data["type"], event.kind);
    for name in ["session_id", "agent_id", "seq", "ts", "payload"] {
        assert!(event.data.get(name).is_some(), "{name}: {text}");
    }
    schema::check_as("EventEnvelope", &event.data);
    event
}

/// Returns the text of all deltas of a message.
pub fn text_of(events: &[ServerEvent], message: &str) -> String {
    let deltas = events.iter().filter(|event| {
        event.kind == "message.delta" && event.data["payload"]["message_id"] == message
    });
    deltas
        .filter_map(|event| event.data["payload"]["text"].as_str())
        .collect()
}
