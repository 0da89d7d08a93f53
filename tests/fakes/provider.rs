//! Scripted model provider: real HTTP/1.1 on loopback, with threads.
//!
//! It checks every request by the rules of a strict provider; violations fail the test when the provider is dropped.
//! Nothing sleeps: a script waits at a named gate until the test opens it, and a test waits for requests and
//! disconnects.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

#[path = "anthropic.rs"]
pub mod anthropic;
#[path = "gemini.rs"]
pub mod gemini;
#[path = "responses.rs"]
pub mod responses;

/// Time limit of a wait; only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Part of a scripted body.
#[derive(Debug, Clone)]
pub enum Part {
    /// Bytes, in one write.
    Bytes(Vec<u8>),
    /// The bytes, repeated.
    Repeat(Vec<u8>, usize),
    /// Waits until the test opens the gate of this name or the client disconnects.
    Gate(&'static str),
    /// Closes the connection in the middle of the response.
    Cut,
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Part::Bytes(text.as_bytes().to_vec())
    }
}

/// Response to a request.
#[derive(Debug, Clone)]
pub enum Script {
    /// A whole answer with one event, one HTTP chunk and one write per token, as fast as the socket accepts them.
    /// [`Script::tokens`] encodes it in advance, so that encoding costs no time while the answer is sent.
    Tokens {
        /// The response up to the event with the finish reason.
        stream: Arc<[u8]>,
        /// End of each HTTP chunk of `stream`; empty if the server sends `stream` in one write.
        chunk_ends: Arc<[usize]>,
        /// What follows: for a chat completion the usage event, sent if a request has `include_usage`, and `[DONE]`.
        usage: Option<String>,
    },
    /// Status 200 with this content type; one HTTP chunk per part.
    Body(&'static str, Vec<Part>),
    /// A status with headers and a body of known length.
    Status(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Raw bytes, status line included; then closes the connection.
    Raw(Vec<Part>),
    /// No response while the client is connected.
    Hang,
}

impl Script {
    /// An answer of these tokens.
    pub fn tokens<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Script {
        let tokens = tokens.into_iter().map(|t| text_event(t.as_ref()));
        Script::answer(tokens, "stop")
    }

    /// An answer of this text, if any, and these calls, as OpenAI sends them.
    pub fn calls(text: &str, calls: &[Call<'_>]) -> Script {
        Script::calls_in(Shape::Fragments, text, calls)
    }

    /// The same in another shape.
    pub fn calls_in(shape: Shape, text: &str, calls: &[Call<'_>]) -> Script {
        if shape == Shape::Message {
            let calls: Vec<Value> = calls.iter().map(|call| whole(call, None)).collect();
            let message = json!({ "role": "assistant", "content": text, "tool_calls": calls });
            let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
            let body = json!({ "object": "chat.completion", "model": MODEL, "choices": [choice] });
            return Script::status(200, &body.to_string());
        }
        let text = Some(text).filter(|t| !t.is_empty()).map(text_event);
        let events = text.into_iter().chain(call_events(shape, calls));
        let reason = match shape {
            Shape::Stop => "stop",
            _ => "tool_calls",
        };
        Script::answer(events, reason)
    }

    fn answer(events: impl Iterator<Item = String>, reason: &str) -> Script {
        let role = json!({ "role": "assistant", "content": "" });
        let mut n = 0;
        let events = events.inspect(|_| n += 1);
        let first = std::iter::once_with(|| event(&role, &Value::Null));
        let last = std::iter::once_with(|| finish_event(reason));
        let mut script = Script::stream(first.chain(events).chain(last));
        if let Script::Tokens { usage, .. } = &mut script {
            let count = json!({ "prompt_tokens": 7, "completion_tokens": n });
            let count = json!({ "choices": [], "usage": count });
            *usage = Some(format!("data: {count}\n\n"));
        }
        script
    }

    /// An answer of these events, each in one HTTP chunk and one write, as fast as the socket accepts them.
    pub fn stream(events: impl Iterator<Item = String>) -> Script {
        let mut stream = head_of(200, "text/event-stream").into_bytes();
        let mut chunk_ends = Vec::new();
        for event in events {
            stream.extend_from_slice(&chunk(event.as_bytes()));
            chunk_ends.push(stream.len());
        }
        Script::Tokens {
            stream: stream.into(),
            chunk_ends: chunk_ends.into(),
            usage: None,
        }
    }

    /// The same answer from a server that writes many HTTP chunks in one go.
    pub fn buffered(mut self) -> Script {
        if let Script::Tokens { chunk_ends, .. } = &mut self {
            *chunk_ends = Arc::new([]);
        }
        self
    }

    /// An event stream of these parts.
    pub fn events<T: Into<Part>>(parts: impl IntoIterator<Item = T>) -> Script {
        Script::Body(
            "text/event-stream",
            parts.into_iter().map(Into::into).collect(),
        )
    }

    /// A status with a JSON body.
    pub fn status(code: u16, body: &str) -> Script {
        Script::Status(
            code,
            vec![("content-type", "application/json".to_owned())],
            body.as_bytes().to_vec(),
        )
    }
}

/// A tool call: id, wire name, arguments.
pub type Call<'a> = (&'a str, &'a str, &'a str);

/// Form in which a server sends tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Id and name first, then the arguments in pieces.
    Fragments,
    /// The same, with the pieces of all calls interleaved.
    Interleaved,
    /// Id and name with every piece.
    Repeated,
    /// Another id with every piece.
    NewIds,
    /// All calls in one event.
    Whole,
    /// All calls in one event, without an index.
    NoIndex,
    /// One event per call, all with the index 0.
    SameIndex,
    /// Without an id.
    NoId,
    /// All with the same id.
    SameId,
    /// Without index and id.
    Bare,
    /// The arguments as the object itself.
    Object,
    /// The finish reason is `stop` instead of `tool_calls`.
    Stop,
    /// A completion without streaming.
    Message,
}

impl Shape {
    pub const ALL: [Shape; 13] = [
        Shape::Fragments,
        Shape::Interleaved,
        Shape::Repeated,
        Shape::NewIds,
        Shape::Whole,
        Shape::NoIndex,
        Shape::SameIndex,
        Shape::NoId,
        Shape::SameId,
        Shape::Bare,
        Shape::Object,
        Shape::Stop,
        Shape::Message,
    ];
}

/// Events of these calls in a streaming shape.
pub fn call_events(shape: Shape, calls: &[Call<'_>]) -> Vec<String> {
    let one = |calls: &[Value]| event(&json!({ "tool_calls": calls }), &Value::Null);
    let each = |change: &dyn Fn(&mut Value)| -> Vec<Value> {
        let made = calls.iter().enumerate().map(|(index, call)| {
            let mut call = whole(call, Some(index));
            change(&mut call);
            call
        });
        made.collect()
    };
    match shape {
        Shape::Whole => vec![one(&each(&|_| ()))],
        Shape::NoIndex | Shape::Message => vec![one(&each(&|call| drop_key(call, "index")))],
        Shape::SameIndex => {
            let all = each(&|call| call["index"] = json!(0));
            all.iter()
                .map(|call| one(std::slice::from_ref(call)))
                .collect()
        }
        Shape::NoId => vec![one(&each(&|call| drop_key(call, "id")))],
        Shape::SameId => vec![one(&each(&|call| call["id"] = json!("same")))],
        Shape::Bare => vec![one(&each(&|call| {
            drop_key(call, "index");
            drop_key(call, "id");
        }))],
        Shape::Object => vec![one(&each(&|call| {
            let text = call["function"]["arguments"].as_str().unwrap_or_default();
            call["function"]["arguments"] = serde_json::from_str(text).unwrap_or(Value::Null);
        }))],
        Shape::Fragments | Shape::Interleaved | Shape::Repeated | Shape::NewIds | Shape::Stop => {
            let mut events: Vec<(usize, String)> = Vec::new();
            for (index, (id, name, arguments)) in calls.iter().enumerate() {
                let mut opening = whole(&(id, name, ""), Some(index));
                events.push((0, one(&[opening.clone()])));
                let letters: Vec<char> = arguments.chars().collect();
                for (n, piece) in letters.chunks(3).enumerate() {
                    let piece: String = piece.iter().collect();
                    let call = match shape {
                        Shape::Repeated => {
                            opening["function"]["arguments"] = json!(piece);
                            opening.clone()
                        }
                        Shape::NewIds => {
                            json!({ "index": index, "id": format!("{id}-{n}"), "function": { "arguments": piece } })
                        }
                        _ => json!({ "index": index, "function": { "arguments": piece } }),
                    };
                    events.push((n + 1, one(&[call])));
                }
            }
            if shape == Shape::Interleaved {
                events.sort_by_key(|(n, _)| *n);
            }
            events.into_iter().map(|(_, event)| event).collect()
        }
    }
}

/// A whole call as JSON.
fn whole((id, name, arguments): &Call<'_>, index: Option<usize>) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    let mut call = json!({ "index": index, "id": id, "type": "function", "function": function });
    if index.is_none() {
        drop_key(&mut call, "index");
    }
    call
}

fn drop_key(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}

/// One event with a piece of text.
pub fn text_event(text: &str) -> String {
    event(&json!({ "content": text }), &Value::Null)
}

/// The event with the finish reason.
pub fn finish_event(reason: &str) -> String {
    event(&json!({}), &json!(reason))
}

/// Number of events made so far; decides the form and the padding of the next one.
static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// One event, padded in turn as OpenAI, Mistral, Anthropic and llama.cpp do: the bytes around the text differ
/// from event to event.
fn event(delta: &Value, finish: &Value) -> String {
    const LETTERS: &str = "aZ3kQ9xW1mB7pL5vT2rY8cN4";
    let count = EVENTS.fetch_add(1, Ordering::Relaxed);
    let pad = &LETTERS[count.wrapping_mul(7) % LETTERS.len()..];
    let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
    let chunk = format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"{MODEL}","choices":[{choice}]"#
    );
    let tail = match count % 4 {
        0 => format!(r#","usage":null,"obfuscation":"{pad}""#),
        1 => format!(r#","p":"{pad}""#),
        2 => " ".repeat(pad.len()),
        _ => format!(r#","timings":{{"predicted_n":{count},"predicted_ms":{count}.5}}"#),
    };
    format!("data: {chunk}{tail}}}\n\n")
}

/// Model name in every answer, whichever model the request names.
pub const MODEL: &str = "fake-model-1";

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Index of the connection, from 0.
    pub connection: usize,
    pub method: String,
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

    /// Violations of a strict provider's rules.
    fn violations(&self, key: Option<&str>) -> Vec<String> {
        if self.path == "/v1/messages" {
            return anthropic::violations(self, key);
        }
        if self.path.contains(":streamGenerateContent") {
            return gemini::violations(self, key);
        }
        let mut wrong = Vec::new();
        let expected = key.map(|k| format!("Bearer {k}"));
        let is_anthropic = self.header("anthropic-version").is_some();
        if !is_anthropic && self.header("authorization") != expected.as_deref() {
            wrong.push("authorization is not what was scripted".to_owned());
        }
        if self.header("accept-encoding") != Some("identity") {
            wrong.push("accept-encoding must be identity".to_owned());
        }
        if !self
            .header("user-agent")
            .is_some_and(|v| v.starts_with("aish/"))
        {
            wrong.push("user-agent must be aish/VERSION".to_owned());
        }
        match (self.method.as_str(), self.path.as_str()) {
            ("GET", "/v1/models") => {}
            ("POST", "/v1/chat/completions") => self.chat_violations(&mut wrong),
            ("POST", "/v1/responses") => wrong.extend(responses::violations(self)),
            (method, path) => wrong.push(format!("nothing is at {method} {path}")),
        }
        wrong
    }

    fn chat_violations(&self, wrong: &mut Vec<String>) {
        if self.header("content-type") != Some("application/json") {
            wrong.push("content-type must be application/json".to_owned());
        }
        let Some(body) = self.json.as_object() else {
            wrong.push("the body is not a JSON object".to_owned());
            return;
        };
        for (key, value) in body {
            let right = match key.as_str() {
                "model" => value.as_str().is_some_and(|m| !m.is_empty()),
                "messages" => value.is_array(),
                "stream" => *value == json!(true),
                "stream_options" => *value == json!({ "include_usage": true }),
                "temperature" => value.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)),
                "max_tokens" | "max_completion_tokens" => value.as_u64().is_some_and(|n| n > 0),
                "tools" => value
                    .as_array()
                    .is_some_and(|t| !t.is_empty() && t.iter().all(is_tool)),
                _ => false,
            };
            if !right {
                wrong.push(format!("unknown or wrong: {key:?}: {value}"));
            }
        }
        for key in ["model", "messages", "stream"] {
            if !body.contains_key(key) {
                wrong.push(format!("{key} is missing"));
            }
        }
        if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
            wrong.push("max_tokens and max_completion_tokens exclude each other".to_owned());
        }
        let messages = self.json["messages"].as_array().map_or(&[][..], |m| m);
        talk_violations(messages, wrong);
        let mut names = HashSet::new();
        for name in self.tool_names() {
            if !names.insert(name) {
                wrong.push(format!("two tools are named {name:?}"));
            }
        }
        for name in self.names() {
            if !is_name(name, true) {
                wrong.push(format!("no tool can be named {name:?}"));
            }
        }
    }

    /// Names in `tools`, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.json["tools"].as_array().map_or(&[][..], |t| t);
        tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap_or_default())
            .collect()
    }

    /// All tool names in the request.
    fn names(&self) -> Vec<&str> {
        let messages = self.json["messages"].as_array().map_or(&[][..], |m| m);
        let calls = messages
            .iter()
            .flat_map(|m| m["tool_calls"].as_array().map_or(&[][..], |c| c));
        let called = calls.map(|call| call["function"]["name"].as_str().unwrap_or_default());
        self.tool_names().into_iter().chain(called).collect()
    }
}

/// Violations in the messages: each call must be followed by exactly one result, in the order of the calls, each result
/// must have a call, and other roles must alternate.
fn talk_violations(messages: &[Value], wrong: &mut Vec<String>) {
    let mut open = VecDeque::new();
    let mut ids = HashSet::new();
    let mut before = "";
    for (i, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let may_follow = match role {
            "system" => i == 0,
            "user" => matches!(before, "system" | "assistant" | "tool"),
            "assistant" => matches!(before, "user" | "tool"),
            "tool" => matches!(before, "assistant" | "tool"),
            _ => false,
        };
        if !may_follow || (i == 0 && role != "system") {
            wrong.push(format!("message {i} is of {role:?} after {before:?}"));
        }
        if role != "tool" && !open.is_empty() {
            wrong.push(format!("no results for {open:?} in front of message {i}"));
            open.clear();
        }
        let calls = message["tool_calls"].as_array();
        let content = match &message["content"] {
            Value::String(text) => !text.is_empty(),
            Value::Array(parts) if role == "assistant" => is_thoughtful(parts),
            Value::Array(parts) => role == "user" && !parts.is_empty() && parts.iter().all(is_part),
            Value::Null => message.get("content").is_some() && calls.is_some(),
            _ => false,
        };
        if !content {
            wrong.push(format!("message {i} has no content"));
        }
        let keys: &[&str] = match role {
            "assistant" => &[
                "role",
                "content",
                "tool_calls",
                "reasoning_content",
                "reasoning_details",
            ],
            "tool" => &["role", "content", "tool_call_id"],
            _ => &["role", "content"],
        };
        let known = |(key, _): (&String, _)| keys.contains(&key.as_str());
        if !message.as_object().is_some_and(|m| m.iter().all(known)) {
            wrong.push(format!("message {i} has other keys than {keys:?}"));
        }
        if message
            .get("reasoning_content")
            .is_some_and(|r| r == "" || !r.is_string())
        {
            wrong.push(format!("message {i} has empty reasoning"));
        }
        if calls.is_some_and(Vec::is_empty) {
            wrong.push(format!("message {i} has an empty list of calls"));
        }
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if id.is_empty() || !ids.insert(id.clone()) {
                wrong.push(format!("message {i}: {id:?} is no id of its own"));
            }
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let object = serde_json::from_str::<Value>(arguments).is_ok_and(|a| a.is_object());
            if call["type"] != "function" || !object {
                wrong.push(format!("message {i}: no such call is made: {call}"));
            }
            open.push_back(id);
        }
        if role == "tool" {
            let id = message["tool_call_id"].as_str().map(str::to_owned);
            let expected = open.pop_front();
            if id.is_none() || id != expected {
                wrong.push(format!(
                    "message {i} is the result of {id:?}, not of {expected:?}"
                ));
            }
        }
        before = role;
    }
    if !matches!(before, "user" | "tool") || !open.is_empty() {
        wrong.push(format!(
            "the last message is of {before:?}, without results: {open:?}"
        ));
    }
}

fn is_tool(tool: &Value) -> bool {
    let function = &tool["function"];
    let parameters = &function["parameters"];
    tool["type"] == "function"
        && function["name"].is_string()
        && function.get("description").is_none_or(Value::is_string)
        && parameters.get("type").is_some()
        && parameters.get("properties").is_some()
}

/// Whether this is the content of an answer of Mistral with reasoning: a thinking part, then text.
fn is_thoughtful(parts: &[Value]) -> bool {
    let is_text = |part: &Value| {
        part["type"] == "text" && part["text"].as_str().is_some_and(|t| !t.is_empty())
    };
    let Some((first, rest)) = parts.split_first() else {
        return false;
    };
    let thinking = first["thinking"].as_array().map_or(&[][..], |t| t);
    first["type"] == "thinking" && !thinking.is_empty() && thinking.iter().chain(rest).all(is_text)
}

fn is_part(part: &Value) -> bool {
    let url = part["image_url"]["url"].as_str().unwrap_or_default();
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().is_some_and(|t| !t.is_empty()),
        Some("image_url") => url.starts_with("data:image/") && url.contains(";base64,"),
        _ => false,
    }
}

/// Whether a provider accepts this tool name, with or without dots.
fn is_name(name: &str, dots: bool) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c) || (dots && c == '.');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

type Answer = Box<dyn FnMut(&Request) -> Script + Send>;

/// State shared by the threads and the test.
#[derive(Default)]
struct State {
    queue: VecDeque<Script>,
    /// Answers when the queue is empty.
    answer: Option<Answer>,
    models: Option<Script>,
    key: Option<String>,
    /// Any other key gets a 401 and is not counted as a violation.
    refuses: bool,
    /// Tool names with dots get a 400.
    strict: bool,
    requests: Vec<Request>,
    violations: Vec<String>,
    reached: HashSet<&'static str>,
    open: HashSet<&'static str>,
    connections: Vec<TcpStream>,
    closed: usize,
    stopped: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("queue", &self.queue)
            .field("requests", &self.requests)
            .field("violations", &self.violations)
            .field("reached", &self.reached)
            .field("open", &self.open)
            .field("connections", &self.connections.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }
}

/// The server; stops when dropped.
pub struct Provider {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Provider {
    /// Starts a server on a free port that answers with these scripts in order.
    pub fn start(queue: impl IntoIterator<Item = Script>) -> Provider {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.lock().queue = queue.into_iter().collect();
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
        Provider { addr, shared }
    }

    /// Starts a server whose responses are chosen by `answer`.
    pub fn answering(answer: impl FnMut(&Request) -> Script + Send + 'static) -> Provider {
        let provider = Provider::start([]);
        provider.shared.lock().answer = Some(Box::new(answer));
        provider
    }

    /// Requires this key in every request. By default no key may be sent.
    #[must_use]
    pub fn key(self, key: &str) -> Provider {
        self.shared.lock().key = Some(key.to_owned());
        self
    }

    /// Accepts only this key; the 401 for others contains escape sequences.
    #[must_use]
    pub fn only_key(self, key: &str) -> Provider {
        self.shared.lock().refuses = true;
        self.key(key)
    }

    /// Rejects dots in tool names, with the error message of OpenAI.
    #[must_use]
    pub fn strict(self) -> Provider {
        self.shared.lock().strict = true;
        self
    }

    /// Sets the response of `/v1/models`, by default a list of one model.
    #[must_use]
    pub fn models(self, script: Script) -> Provider {
        self.shared.lock().models = Some(script);
        self
    }

    /// Address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `base_url` of its models.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
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
    pub fn wait_gate(&self, gate: &'static str) {
        self.wait(&format!("gate {gate:?} reached"), |s| {
            s.reached.contains(gate)
        });
    }

    /// Waits until this many requests have arrived.
    pub fn wait_requests(&self, n: usize) {
        self.wait(&format!("{n} requests"), |s| s.requests.len() >= n);
    }

    /// Waits until clients have closed this many connections.
    pub fn wait_closed(&self, n: usize) {
        self.wait(&format!("{n} connections closed"), |s| s.closed >= n);
    }

    /// Takes the violations found so far.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }

    fn wait(&self, what: &str, mut done: impl FnMut(&State) -> bool) {
        let state = self.shared.lock();
        let (state, timeout) = self
            .shared
            .changed
            .wait_timeout_while(state, DEADLINE, |s| !done(s))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(
            !timeout.timed_out(),
            "waited in vain for {what}: {state:#?}"
        );
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let (violations, unused) = self.shared.update(|s| {
            s.stopped = true;
            for connection in &s.connections {
                // Fails if the connection is closed already.
                let _ = connection.shutdown(Shutdown::Both);
            }
            (std::mem::take(&mut s.violations), s.queue.len())
        });
        // Wakes the accepting thread so that it ends.
        let _ = TcpStream::connect(self.addr);
        if !thread::panicking() {
            assert!(violations.is_empty(), "wrong requests: {violations:#?}");
            assert_eq!(unused, 0, "scripted answers were not requested");
        }
    }
}

/// Serves one connection. A second thread reads, so that a disconnect is noticed during a response.
fn serve(shared: &Arc<Shared>, mut stream: TcpStream, id: usize) {
    let (sender, requests) = mpsc::channel();
    let gone = Arc::new(AtomicBool::new(false));
    let reader = BufReader::new(stream.try_clone().unwrap());
    let (reading, left) = (Arc::clone(shared), Arc::clone(&gone));
    thread::spawn(move || {
        let mut reader = reader;
        while let Ok(Some(request)) = read_request(&mut reader, id) {
            if sender.send(request).is_err() {
                break;
            }
        }
        left.store(true, Ordering::SeqCst);
        reading.update(|s| s.closed += 1);
    });
    for request in requests {
        let script = shared.update(|s| {
            let expected = s.key.as_ref().map(|k| format!("Bearer {k}"));
            if s.refuses && request.header("authorization") != expected.as_deref() {
                s.requests.push(request.clone());
                let body = r#"{"error":{"message":"not with \u202ethis key"}}"#;
                return Script::status(401, body);
            }
            let wrong = request.violations(s.key.as_deref());
            let n = s.requests.len();
            if s.strict && request.names().iter().any(|name| !is_name(name, false)) {
                s.requests.push(request.clone());
                let body = r#"{"error":{"message":"Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.","code":"invalid_value"}}"#;
                return Script::status(400, body);
            }
            s.violations
                .extend(wrong.into_iter().map(|w| format!("request {n}: {w}")));
            s.requests.push(request.clone());
            if request.path == "/v1/models" {
                return s.models.clone().unwrap_or_else(|| {
                    let list =
                        json!({ "object": "list", "data": [{ "id": MODEL, "object": "model" }] });
                    Script::status(200, &list.to_string())
                });
            }
            match (s.queue.pop_front(), &mut s.answer) {
                (Some(script), _) => script,
                (None, Some(answer)) => answer(&request),
                (None, None) => {
                    s.violations.push(format!("request {n} was not expected"));
                    Script::status(500, r#"{"error":{"message":"nothing is scripted"}}"#)
                }
            }
        });
        let usage = request.json.get("stream_options").is_some();
        let mut writer = Writer {
            shared,
            gone: &gone,
            stream: &mut stream,
        };
        if writer.answer(&script, usage).is_err() {
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
    let (method, path) = (words.next(), words.next());
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
        method: method.unwrap_or_default(),
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
    /// Writes the scripted response. An error means that the connection has to be closed.
    fn answer(&mut self, script: &Script, usage: bool) -> io::Result<()> {
        match script {
            Script::Tokens {
                stream,
                chunk_ends,
                usage: count,
            } => {
                let mut end = Vec::new();
                if let Some(count) = count {
                    if usage {
                        end.extend(chunk(count.as_bytes()));
                    }
                    end.extend(chunk(b"data: [DONE]\n\n"));
                }
                end.extend_from_slice(b"0\r\n\r\n");
                // A short answer is one packet, like that of a buffering server.
                if stream.len() < 64 * 1024 {
                    return self.stream.write_all(&[&stream[..], &end].concat());
                }
                let mut start = 0;
                for chunk_end in chunk_ends.iter().copied().chain([stream.len()]) {
                    self.stream.write_all(&stream[start..chunk_end])?;
                    start = chunk_end;
                }
                self.stream.write_all(&end)
            }
            Script::Body(content_type, parts) => {
                let head = head_of(200, content_type);
                self.stream.write_all(head.as_bytes())?;
                self.parts(parts, true)?;
                self.stream.write_all(b"0\r\n\r\n")
            }
            Script::Status(code, headers, body) => {
                let mut head = format!(
                    "HTTP/1.1 {code} Scripted\r\ncontent-length: {}\r\n",
                    body.len()
                );
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                head.push_str("\r\n");
                self.stream.write_all(head.as_bytes())?;
                self.stream.write_all(body)
            }
            Script::Raw(parts) => {
                self.parts(parts, false)?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Script::Hang => self.gate("hang"),
        }
    }

    fn parts(&mut self, parts: &[Part], chunked: bool) -> io::Result<()> {
        for part in parts {
            match part {
                Part::Bytes(bytes) => self.write(bytes, chunked)?,
                Part::Repeat(bytes, times) => {
                    for _ in 0..*times {
                        self.write(bytes, chunked)?;
                    }
                }
                Part::Gate(gate) => self.gate(gate)?,
                Part::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], chunked: bool) -> io::Result<()> {
        if chunked {
            self.stream.write_all(&chunk(bytes))
        } else {
            self.stream.write_all(bytes)
        }
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

fn head_of(code: u16, content_type: &str) -> String {
    format!(
        "HTTP/1.1 {code} Scripted\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}
