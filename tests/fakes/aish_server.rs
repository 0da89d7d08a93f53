//! A server that answers as one of aish does, except where a test says otherwise.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::request_head::RequestHead;

/// A request that the server got.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    pub method: String,
    pub target: String,
    pub authorization: Option<String>,
    pub body: String,
}

/// The server; it answers until the test ends.
pub struct FakeServer {
    port: u16,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeServer {
    /// Starts a server. `special` answers a request itself and returns true, or leaves it to the usual answer.
    pub fn start(
        special: impl Fn(&SeenRequest, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let special = Arc::new(special);
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (special, log) = (special.clone(), log.clone());
                // A client may leave at any time.
                thread::spawn(move || drop(serve(stream, &*special, &log)));
            }
        });
        FakeServer { port, seen }
    }

    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Requests so far.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("requests").clone()
    }
}

fn serve(
    mut stream: TcpStream,
    special: &(dyn Fn(&SeenRequest, &mut TcpStream) -> bool + Send + Sync),
    log: &Mutex<Vec<SeenRequest>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let head = RequestHead::read(&mut reader)?;
    let length = head.headers.get("content-length");
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = SeenRequest {
        method: head.method,
        target: head.target,
        authorization: head.headers.get("authorization").cloned(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    log.lock().expect("requests").push(request.clone());
    if special(&request, &mut stream) {
        return Ok(());
    }
    let session = json!({ "id": "s-1", "next_cursor": "1.0.0..0..0.0.0", "status": "idle" });
    match (&*request.method, &*request.target) {
        ("GET", "/version") => {
            let version = json!({ "name": "aish", "version": "9.9.9", "api": "v1" });
            reply(&mut stream, 200, "", &version);
        }
        ("POST", "/v1/sessions") => reply(&mut stream, 201, "", &session),
        ("GET", "/v1/sessions/s-1") => reply(&mut stream, 200, "", &session),
        ("POST", "/v1/sessions/s-1/messages") => {
            let accepted = json!({ "message_id": "p-1", "session_id": "s-1" });
            reply(&mut stream, 202, "", &accepted);
        }
        ("GET", target) if target.contains("/events") => {
            begin_events(&mut stream);
            stream.write_all(answer("Fine.\n").as_bytes())?;
        }
        _ => reply(&mut stream, 200, "", &json!({ "agents": [] })),
    }
    Ok(())
}

/// Sends a response with these header lines.
pub fn reply(stream: &mut TcpStream, status: u16, headers: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    let _ = stream.write_all(response.as_bytes());
}

/// Sends the head of a stream of events.
pub fn begin_events(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
}

/// An event.
pub fn event(kind: &str, payload: &Value) -> String {
    let data = json!({ "type": kind, "session_id": "s-1", "seq": 1, "ts": "", "payload": payload });
    format!("id: 2.0.0..0..0.0.0\nevent: {kind}\ndata: {data}\n\n")
}

/// The events of an answer up to its text.
pub fn begin_answer(text: &str) -> String {
    [
        event(
            "message.start",
            &json!({ "message_id": "p-1", "role": "user" }),
        ),
        event(
            "message.start",
            &json!({ "message_id": "r-1", "role": "assistant" }),
        ),
        event(
            "message.delta",
            &json!({ "message_id": "r-1", "text": text }),
        ),
    ]
    .concat()
}

/// All events of an answer.
pub fn answer(text: &str) -> String {
    let end = json!({ "message_id": "r-1", "finish": "stop", "length": text.len() });
    let idle = json!({ "status": "idle", "questions": [] });
    begin_answer(text) + &event("message.end", &end) + &event("agent.status", &idle)
}
