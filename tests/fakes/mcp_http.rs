//! Scripted MCP server over HTTP. It follows the protocol except where the test scripts a different response.
//!
//! A real HTTP/1.1 server on loopback, with threads. It checks every request against the client requirements of the
//! specification; violations fail the test when the server is dropped.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

/// Time limit of a wait; only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Index of the connection, from 0.
    pub connection: usize,
    pub verb: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// Body; `Null` if it is not JSON.
    pub json: Value,
}

impl Request {
    /// Value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// JSON-RPC method of the body, or the HTTP method if there is none.
    pub fn method(&self) -> &str {
        self.json["method"].as_str().unwrap_or(&self.verb)
    }

    pub fn id(&self) -> Value {
        self.json["id"].clone()
    }

    /// JSON-RPC response with this result.
    pub fn result(&self, result: Value) -> McpResponse {
        McpResponse::json(json!({ "jsonrpc": "2.0", "id": self.id(), "result": result }))
    }

    /// JSON-RPC response with this error.
    pub fn error(&self, code: i64, message: &str) -> McpResponse {
        let error = json!({ "code": code, "message": message });
        McpResponse::json(json!({ "jsonrpc": "2.0", "id": self.id(), "error": error }))
    }
}

/// Part of a streamed body.
#[derive(Debug, Clone)]
pub enum BodyPart {
    Event(Value),
    Bytes(Vec<u8>),
    /// The bytes, repeated.
    Repeat(Vec<u8>, usize),
    /// Waits until the test opens the gate of this name or the client disconnects.
    Gate(&'static str),
    /// Closes the connection in the middle of the response.
    Cut,
}

/// Response to a request.
#[derive(Debug, Clone)]
pub enum McpResponse {
    /// Status, headers and complete body.
    Whole(u16, Vec<(String, String)>, Vec<u8>),
    /// Status 200, a content type, and one chunk per part.
    Stream(&'static str, Vec<BodyPart>),
    /// No response while the client is connected.
    Hang,
    /// Closes the connection without a response.
    Close,
}

impl McpResponse {
    pub fn json(body: Value) -> McpResponse {
        McpResponse::status(200, body)
    }

    pub fn status(code: u16, body: Value) -> McpResponse {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        McpResponse::Whole(code, headers, body.to_string().into_bytes())
    }

    pub fn accepted() -> McpResponse {
        McpResponse::Whole(202, Vec::new(), Vec::new())
    }

    pub fn events(parts: impl IntoIterator<Item = BodyPart>) -> McpResponse {
        McpResponse::Stream("text/event-stream", parts.into_iter().collect())
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> McpResponse {
        if let McpResponse::Whole(_, headers, _) = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

type Behaviour = Box<dyn FnMut(&Request) -> Option<McpResponse> + Send>;

struct State {
    behaviour: Behaviour,
    tools: Value,
    version: &'static str,
    session: Option<String>,
    list_changed: bool,
    bearer: Option<String>,
    requests: Vec<Request>,
    violations: Vec<String>,
    reached: HashSet<&'static str>,
    open: HashSet<&'static str>,
    connections: Vec<TcpStream>,
    closed: usize,
    stopped: bool,
}

impl State {
    /// Response of a server that follows the protocol.
    fn protocol_response(&self, request: &Request) -> McpResponse {
        match request.method() {
            "initialize" => {
                let answer = request.result(json!({
                    "protocolVersion": self.version,
                    "capabilities": { "tools": { "listChanged": self.list_changed } },
                    "serverInfo": { "name": "fake", "version": "1.2.3" },
                }));
                match &self.session {
                    Some(id) => answer.with("mcp-session-id", id),
                    None => answer,
                }
            }
            "server/discover" if self.version >= "2026" => request.result(json!({
                "resultType": "complete",
                "supportedVersions": [self.version],
                "capabilities": { "tools": { "listChanged": self.list_changed } },
                "serverInfo": { "name": "fake", "version": "1.2.3" },
                "ttlMs": 0,
                "cacheScope": "private",
            })),
            "tools/list" => request.result(json!({
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
                "tools": self.tools,
            })),
            "tools/call" => request.result(text(&request.json["params"]["arguments"].to_string())),
            "GET" => McpResponse::Whole(405, Vec::new(), Vec::new()),
            "DELETE" => McpResponse::Whole(200, Vec::new(), Vec::new()),
            _ if request.id().is_null() => McpResponse::accepted(),
            _ => request.error(-32601, "method not found"),
        }
    }

    /// Violations of the protocol in a request.
    fn violations(&self, request: &Request) -> Vec<String> {
        let mut wrong = Vec::new();
        let bearer = self.bearer.as_ref().map(|b| format!("Bearer {b}"));
        if request.header("authorization") != bearer.as_deref() {
            wrong.push("wrong authorization header".to_owned());
        }
        let agent = request.header("user-agent").unwrap_or_default();
        if !agent.starts_with("aish/") {
            wrong.push(format!("user-agent {agent:?}"));
        }
        let accept = request.header("accept").unwrap_or_default();
        if request.verb != "DELETE" && !accept.contains("text/event-stream") {
            wrong.push(format!("accept {accept:?}"));
        }
        if request.verb == "POST" {
            if !accept.contains("application/json") {
                wrong.push(format!("accept {accept:?}"));
            }
            if request.header("content-type") != Some("application/json") {
                wrong.push("content-type is not application/json".to_owned());
            }
            if request.json["jsonrpc"] != "2.0" {
                wrong.push("not JSON-RPC 2.0".to_owned());
            }
        }
        let version = request.header("mcp-protocol-version");
        match request.method() {
            "initialize" => {
                let params = &request.json["params"];
                if params["protocolVersion"] != "2025-11-25" {
                    wrong.push(format!("initialize with {}", params["protocolVersion"]));
                }
                if params["clientInfo"]["name"] != "aish" {
                    wrong.push(format!("clientInfo {}", params["clientInfo"]));
                }
                let capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
                if params["capabilities"] != capabilities {
                    wrong.push(format!("capabilities {}", params["capabilities"]));
                }
            }
            "server/discover" => {}
            _ if version != Some(self.version) => wrong.push(format!("version {version:?}")),
            _ => {}
        }
        wrong
    }
}

/// Tool result with one text block.
pub fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A tool without arguments.
pub fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "does", "inputSchema": { "type": "object" } })
}

struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
    /// Notified together with `changed`, for async waits.
    seen: watch::Sender<()>,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        self.seen.send_replace(());
        result
    }
}

/// The server; stops when dropped.
pub struct FakeMcpServer {
    addr: SocketAddr,
    shared: Arc<SharedState>,
}

impl FakeMcpServer {
    /// Starts a server of 2025-11-25 with one tool, `echo`, and without sessions.
    pub fn start() -> FakeMcpServer {
        FakeMcpServer::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// Starts a server at a given address, to replace one that was stopped.
    pub fn at(addr: SocketAddr) -> FakeMcpServer {
        FakeMcpServer::on(TcpListener::bind(addr).unwrap())
    }

    fn on(listener: TcpListener) -> FakeMcpServer {
        let addr = listener.local_addr().unwrap();
        let state = State {
            behaviour: Box::new(|_| None),
            tools: json!([tool("echo")]),
            version: "2025-11-25",
            session: None,
            list_changed: false,
            bearer: None,
            requests: Vec::new(),
            violations: Vec::new(),
            reached: HashSet::new(),
            open: HashSet::new(),
            connections: Vec::new(),
            closed: 0,
            stopped: false,
        };
        let shared = Arc::new(SharedState {
            state: Mutex::new(state),
            changed: Condvar::new(),
            seen: watch::Sender::new(()),
        });
        let accept = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let kept = stream.try_clone().unwrap();
                let id = accept.update(|s| {
                    s.connections.push(kept);
                    s.connections.len() - 1
                });
                if accept.lock().stopped {
                    break;
                }
                let shared = Arc::clone(&accept);
                thread::spawn(move || serve(&shared, stream, id));
            }
        });
        FakeMcpServer { addr, shared }
    }

    /// Scripts responses; where `behaviour` returns `None`, the server follows the protocol.
    #[must_use]
    pub fn scripted(
        self,
        behaviour: impl FnMut(&Request) -> Option<McpResponse> + Send + 'static,
    ) -> FakeMcpServer {
        self.script(behaviour);
        self
    }

    /// Scripts the responses from now on.
    pub fn script(&self, behaviour: impl FnMut(&Request) -> Option<McpResponse> + Send + 'static) {
        self.shared.lock().behaviour = Box::new(behaviour);
    }

    /// Sets the protocol version.
    #[must_use]
    pub fn version(self, version: &'static str) -> FakeMcpServer {
        self.shared.lock().version = version;
        self
    }

    /// Enables sessions, with this id.
    #[must_use]
    pub fn session(self, id: &str) -> FakeMcpServer {
        self.shared.lock().session = Some(id.to_owned());
        self
    }

    /// Announces `listChanged` for tools.
    #[must_use]
    pub fn list_changes(self) -> FakeMcpServer {
        self.shared.lock().list_changed = true;
        self
    }

    /// Requires this bearer token.
    #[must_use]
    pub fn bearer(self, token: &str) -> FakeMcpServer {
        self.shared.lock().bearer = Some(token.to_owned());
        self
    }

    /// Sets the tools.
    pub fn set_tools(&self, tools: Value) {
        self.shared.update(|s| s.tools = tools);
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Number of requests with this JSON-RPC method, or HTTP method.
    pub fn count(&self, method: &str) -> usize {
        let state = self.shared.lock();
        state
            .requests
            .iter()
            .filter(|r| r.method() == method)
            .count()
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Opens the gate of this name for all responses.
    pub fn open(&self, gate: &'static str) {
        self.shared.update(|s| s.open.insert(gate));
    }

    /// Waits until a response has reached the gate of this name.
    pub async fn reached(&self, gate: &'static str) {
        self.wait(gate, |s| s.reached.contains(gate)).await;
    }

    /// Waits until there were `times` requests with this method.
    pub async fn asked(&self, method: &str, times: usize) {
        let count = |s: &State| s.requests.iter().filter(|r| r.method() == method).count();
        self.wait(method, |s| count(s) >= times).await;
    }

    /// Waits until clients have closed this many connections.
    pub async fn closed(&self, n: usize) {
        self.wait("closed", |s| s.closed >= n).await;
    }

    async fn wait(&self, what: &str, done: impl Fn(&State) -> bool) {
        let mut seen = self.shared.seen.subscribe();
        let wait = async {
            while !done(&self.shared.lock()) {
                seen.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(
            waited.is_ok(),
            "time limit reached while waiting for {what}: {:#?}",
            self.requests()
        );
    }

    /// Closes all connections, like a restart of the server.
    pub fn cut(&self) {
        for connection in &self.shared.lock().connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Takes the violations found so far.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }
}

impl Drop for FakeMcpServer {
    fn drop(&mut self) {
        let violations = self.shared.update(|s| {
            s.stopped = true;
            std::mem::take(&mut s.violations)
        });
        self.cut();
        // Wakes the accepting thread so that it ends.
        let _ = TcpStream::connect(self.addr);
        if !thread::panicking() {
            assert!(violations.is_empty(), "wrong requests: {violations:#?}");
        }
    }
}

/// Serves one connection. A second thread reads, so that a disconnect is noticed during a response.
fn serve(shared: &Arc<SharedState>, mut stream: TcpStream, id: usize) {
    let (sender, requests) = mpsc::channel();
    let gone = Arc::new(AtomicBool::new(false));
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (reading, left) = (Arc::clone(shared), Arc::clone(&gone));
    thread::spawn(move || {
        while let Ok(Some(request)) = read_request(&mut reader, id) {
            if sender.send(request).is_err() {
                break;
            }
        }
        left.store(true, Ordering::SeqCst);
        reading.update(|s| s.closed += 1);
    });
    for request in requests {
        let answer = shared.update(|s| {
            let n = s.requests.len();
            let wrong = s.violations(&request);
            let named = wrong
                .into_iter()
                .map(|w| format!("request {n} ({}): {w}", request.method()));
            s.violations.extend(named);
            s.requests.push(request.clone());
            (s.behaviour)(&request).unwrap_or_else(|| s.protocol_response(&request))
        });
        let mut writer = ResponseWriter {
            shared,
            gone: &gone,
            stream: &mut stream,
        };
        if writer.answer(&answer).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn read_request(reader: &mut impl BufRead, connection: usize) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (verb, path) = (words.next(), words.next());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        connection,
        verb: verb.unwrap_or_default(),
        path: path.unwrap_or_default(),
        headers,
        json: Value::Null,
    };
    let length = request.header("content-length").unwrap_or("0");
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    reader.read_exact(&mut body)?;
    request.json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(request))
}

struct ResponseWriter<'a> {
    shared: &'a SharedState,
    gone: &'a AtomicBool,
    stream: &'a mut TcpStream,
}

impl ResponseWriter<'_> {
    /// Writes a response. An error means that the connection has to be closed.
    fn answer(&mut self, answer: &McpResponse) -> io::Result<()> {
        match answer {
            McpResponse::Whole(code, headers, body) => {
                let length = body.len();
                let mut head = format!("HTTP/1.1 {code} Scripted\r\ncontent-length: {length}\r\n");
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                head.push_str("\r\n");
                self.stream.write_all(&[head.as_bytes(), body].concat())?;
                let closes = |(n, v): &(String, String)| n == "connection" && v == "close";
                if headers.iter().any(closes) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok(())
            }
            McpResponse::Stream(content_type, parts) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
                );
                self.stream.write_all(head.as_bytes())?;
                for part in parts {
                    match part {
                        BodyPart::Event(json) => {
                            self.chunk(format!("data: {json}\n\n").as_bytes())?
                        }
                        BodyPart::Bytes(bytes) => self.chunk(bytes)?,
                        BodyPart::Repeat(bytes, times) => {
                            for _ in 0..*times {
                                self.chunk(bytes)?;
                            }
                        }
                        BodyPart::Gate(gate) => self.gate(gate)?,
                        BodyPart::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
                    }
                }
                self.stream.write_all(b"0\r\n\r\n")
            }
            McpResponse::Hang => self.gate("hang"),
            McpResponse::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.stream.write_all(&chunk)
    }

    fn gate(&mut self, gate: &'static str) -> io::Result<()> {
        self.shared.update(|s| s.reached.insert(gate));
        let mut state = self.shared.lock();
        while !state.open.contains(gate) {
            if state.stopped || self.gone.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}
