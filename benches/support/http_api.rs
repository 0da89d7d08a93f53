//! A client of the HTTP API, and a model server that sends words in a steady rhythm.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::Home;

/// A model server that sends words in the rhythm of a fast model.
pub struct StreamingModel {
    port: u16,
    sent: Arc<Mutex<Vec<Instant>>>,
}

impl StreamingModel {
    /// Starts a server whose answers have this many words, with a pause after each.
    pub fn start(words: usize, pause: Duration) -> StreamingModel {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let written = sent.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let written = written.clone();
                thread::spawn(move || answer(stream.unwrap(), words, pause, &written));
            }
        });
        StreamingModel { port, sent }
    }

    /// The `base_url` of the model.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// When each word of the last answer was sent.
    pub fn sent(&self) -> Vec<Instant> {
        self.sent.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, words: usize, pause: Duration, sent: &Mutex<Vec<Instant>>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
    sent.lock().unwrap().clear();
    for number in 0..words {
        let event =
            serde_json::json!({ "choices": [{ "delta": { "content": format!(" ({number})") } }] });
        sent.lock().unwrap().push(Instant::now());
        if write!(stream, "data: {event}\n\n").is_err() {
            return;
        }
        thread::sleep(pause);
    }
    let _ = stream.write_all(
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn run(home: &Home, args: &[&str]) -> String {
    let output = home.helper(args).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A client of the API.
pub struct ApiClient {
    port: u16,
    token: String,
}

impl ApiClient {
    /// Starts the API of the daemon on a free port.
    pub fn serve(home: &Home) -> ApiClient {
        let port = free_port();
        run(home, &["serve", "--port", &port.to_string()]);
        let token = run(home, &["serve", "token", "show"]);
        let token = token.trim().to_owned();
        ApiClient { port, token }
    }

    /// Creates a session, and returns its id.
    pub fn session(&self) -> String {
        let session = self.post("/v1/sessions", "{}");
        session["id"].as_str().unwrap().to_owned()
    }

    /// Begins to follow the events of a session.
    pub fn follow(&self, session: &str) -> TcpStream {
        let mut stream = self.connect();
        let request = self.head("GET", &format!("/v1/sessions/{session}/events"), "");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a prompt.
    pub fn prompt(&self, session: &str) {
        let path = format!("/v1/sessions/{session}/messages");
        self.post(&path, "{\"content\":\"go\"}");
    }

    /// The head of a request, to which `more` headers are added.
    pub fn head(&self, method: &str, path: &str, more: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n{more}\r\n",
            self.port, self.token
        )
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a request, and returns the body of its response.
    pub fn post(&self, path: &str, body: &str) -> serde_json::Value {
        let mut stream = self.connect();
        let more = format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        let request = self.head("POST", path, &more) + body;
        stream.write_all(request.as_bytes()).unwrap();
        serde_json::from_slice(&read_response(&mut BufReader::new(stream))).unwrap()
    }
}

/// Reads a response with a length, and returns its body.
pub fn read_response(reader: &mut impl BufRead) -> Vec<u8> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}
