//! An MCP server over HTTP that behaves as it is told: polite where the test says nothing.
//!
//! A real HTTP/1.1 server on loopback, in threads. It checks every request against what the protocol asks
//! of a client, and what it finds wrong fails the test when it is dropped.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

/// How long anything is waited for before a test fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which connection it came on, from 0.
    pub connection: usize,
    pub verb: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// `Null` when there is none.
    pub json: Value,
}

impl Request {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// The JSON-RPC method of a POST, else the verb.
    pub fn method(&self) -> &str {
        self.json["method"].as_str().unwrap_or(&self.verb)
    }

    pub fn id(&self) -> Value {
        self.json["id"].clone()
    }

    /// The answer with this result.
    pub fn result(&self, result: Value) -> Answer {
        Answer::json(json!({ "jsonrpc": "2.0", "id": self.id(), "result": result }))
    }

    /// The answer with this error.
    pub fn error(&self, code: i64, message: &str) -> Answer {
        let error = json!({ "code": code, "message": message });
        Answer::json(json!({ "jsonrpc": "2.0", "id": self.id(), "error": error }))
    }
}

/// A piece of a streamed body.
#[derive(Debug, Clone)]
pub enum Part {
    Event(Value),
    Bytes(Vec<u8>),
    /// These bytes many times over.
    Repeat(Vec<u8>, usize),
    /// Nothing until the test opens the gate of this name, or the client leaves.
    Gate(&'static str),
    /// The connection is closed here, in the middle of it all.
    Cut,
}

/// What a request is answered with.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status with headers and a whole body.
    Whole(u16, Vec<(String, String)>, Vec<u8>),
    /// Status 200, a content type, and one chunk per part.
    Stream(&'static str, Vec<Part>),
    /// No answer for as long as the client stays.
    Hang,
    /// The connection is closed without one.
    Close,
}

impl Answer {
    pub fn json(body: Value) -> Answer {
        Answer::status(200, body)
    }

    pub fn status(code: u16, body: Value) -> Answer {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Answer::Whole(code, headers, body.to_string().into_bytes())
    }

    pub fn accepted() -> Answer {
        Answer::Whole(202, Vec::new(), Vec::new())
    }

    pub fn events(parts: impl IntoIterator<Item = Part>) -> Answer {
        Answer::Stream("text/event-stream", parts.into_iter().collect())
    }

    /// The same with a header more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Answer {
        if let Answer::Whole(_, headers, _) = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

type Behaviour = Box<dyn FnMut(&Request) -> Option<Answer> + Send>;

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
    /// What a server does that keeps to the protocol.
    fn polite(&self, request: &Request) -> Answer {
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
            "GET" => Answer::Whole(405, Vec::new(), Vec::new()),
            "DELETE" => Answer::Whole(200, Vec::new(), Vec::new()),
            _ if request.id().is_null() => Answer::accepted(),
            _ => request.error(-32601, "method not found"),
        }
    }

    /// What is wrong with a request.
    fn violations(&self, request: &Request) -> Vec<String> {
        let mut wrong = Vec::new();
        let bearer = self.bearer.as_ref().map(|b| format!("Bearer {b}"));
        if request.header("authorization") != bearer.as_deref() {
            wrong.push("authorization is not what it should be".to_owned());
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
                wrong.push("no JSON-RPC".to_owned());
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

/// A result of one text block.
pub fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A tool without arguments.
pub fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "does", "inputSchema": { "type": "object" } })
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The same for those who must not block.
    seen: watch::Sender<()>,
}

impl Shared {
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

/// The server, for as long as this value lives.
pub struct McpHttp {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl McpHttp {
    /// A polite server of 2025-11-25 with one tool, `echo`, and without sessions.
    pub fn start() -> McpHttp {
        McpHttp::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// The same at an address that was another's before.
    pub fn at(addr: SocketAddr) -> McpHttp {
        McpHttp::on(TcpListener::bind(addr).unwrap())
    }

    fn on(listener: TcpListener) -> McpHttp {
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
        let shared = Arc::new(Shared {
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
        McpHttp { addr, shared }
    }

    /// Asks `behaviour` first; where it says nothing, the server is polite.
    #[must_use]
    pub fn behaving(
        self,
        behaviour: impl FnMut(&Request) -> Option<Answer> + Send + 'static,
    ) -> McpHttp {
        self.behave(behaviour);
        self
    }

    /// The same from now on.
    pub fn behave(&self, behaviour: impl FnMut(&Request) -> Option<Answer> + Send + 'static) {
        self.shared.lock().behaviour = Box::new(behaviour);
    }

    /// The protocol's version that it speaks.
    #[must_use]
    pub fn version(self, version: &'static str) -> McpHttp {
        self.shared.lock().version = version;
        self
    }

    /// It keeps sessions, and gives this id.
    #[must_use]
    pub fn session(self, id: &str) -> McpHttp {
        self.shared.lock().session = Some(id.to_owned());
        self
    }

    /// It says that its list of tools may change.
    #[must_use]
    pub fn list_changes(self) -> McpHttp {
        self.shared.lock().list_changed = true;
        self
    }

    /// It wants this token.
    #[must_use]
    pub fn bearer(self, token: &str) -> McpHttp {
        self.shared.lock().bearer = Some(token.to_owned());
        self
    }

    /// Its tools, from now on.
    pub fn set_tools(&self, tools: Value) {
        self.shared.update(|s| s.tools = tools);
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Everything that was asked so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// How often this was asked: a JSON-RPC method, or GET or DELETE.
    pub fn count(&self, method: &str) -> usize {
        let state = self.shared.lock();
        state
            .requests
            .iter()
            .filter(|r| r.method() == method)
            .count()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Lets answers pass the gate of this name, now and later.
    pub fn open(&self, gate: &'static str) {
        self.shared.update(|s| s.open.insert(gate));
    }

    /// Waits until an answer stands at the gate of this name.
    pub async fn reached(&self, gate: &'static str) {
        self.wait(gate, |s| s.reached.contains(gate)).await;
    }

    /// Waits until this was asked so often.
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
            "waited in vain for {what}: {:#?}",
            self.requests()
        );
    }

    /// Closes every connection, as a server does that is restarted.
    pub fn cut(&self) {
        for connection in &self.shared.lock().connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// What was wrong with the requests so far, after which it is forgotten.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }
}

impl Drop for McpHttp {
    fn drop(&mut self) {
        let violations = self.shared.update(|s| {
            s.stopped = true;
            std::mem::take(&mut s.violations)
        });
        self.cut();
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.addr);
        if !thread::panicking() {
            assert!(violations.is_empty(), "wrong requests: {violations:#?}");
        }
    }
}

/// One connection: a thread reads, so that a client that leaves is noticed while this one writes.
fn serve(shared: &Arc<Shared>, mut stream: TcpStream, id: usize) {
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
            (s.behaviour)(&request).unwrap_or_else(|| s.polite(&request))
        });
        let mut writer = Writer {
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

struct Writer<'a> {
    shared: &'a Shared,
    gone: &'a AtomicBool,
    stream: &'a mut TcpStream,
}

impl Writer<'_> {
    /// An error means that the connection is to be closed.
    fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        match answer {
            Answer::Whole(code, headers, body) => {
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
            Answer::Stream(content_type, parts) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
                );
                self.stream.write_all(head.as_bytes())?;
                for part in parts {
                    match part {
                        Part::Event(json) => self.chunk(format!("data: {json}\n\n").as_bytes())?,
                        Part::Bytes(bytes) => self.chunk(bytes)?,
                        Part::Repeat(bytes, times) => {
                            for _ in 0..*times {
                                self.chunk(bytes)?;
                            }
                        }
                        Part::Gate(gate) => self.gate(gate)?,
                        Part::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
                    }
                }
                self.stream.write_all(b"0\r\n\r\n")
            }
            Answer::Hang => self.gate("hang"),
            Answer::Close => Err(io::ErrorKind::ConnectionAborted.into()),
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
