//! Stdio MCP server for tests: `mcp-fake-stdio BEHAVIOUR STARTS`. Implements the protocol without `rmcp`, so that it does
//! not share a bug with the client. Appends its process id to the file STARTS, checks all messages, and reports
//! violations of the protocol on stderr in lines that begin with `violation:`.
//!
//! Behaviours: `plain`; `noise` (prints lines that are not messages); `exit-at-once`; `ignore-term` (ignores signals and
//! the end of stdin); `hang` (never responds); `ignore-discover` (does not respond to unknown methods);
//! `exit-at-discover`; `modern` (only 2026-07-28); `wrong-id` (sends unexpected responses once it is ready);
//! `grandchild` (starts a long-running process and appends its id to STARTS); `crash-after-N` calls.

#![allow(clippy::expect_used, reason = "a fake that cannot go on ends its test")]

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

const ESCAPES: &str = "\x1b]0;owned\x07\x1b[2J\u{202e}evil\u{200b}";

fn main() {
    let mut args = std::env::args().skip(1);
    let behaviour = args.next().expect("a behaviour");
    let starts = args.next().expect("a file for the starts");
    add(&starts, std::process::id());
    eprintln!("fake: {behaviour} begins");
    match behaviour.as_str() {
        "exit-at-once" => {
            eprintln!("\x1b[31mcannot find my config\x1b[0m");
            exit(3);
        }
        "ignore-term" => {
            for signal in [nix::libc::SIGTERM, nix::libc::SIGINT, nix::libc::SIGHUP] {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
                    .expect("a handler");
            }
        }
        "grandchild" => {
            let child = Command::new("sleep").arg("1000").spawn();
            add(&starts, child.expect("a child").id());
        }
        _ => {}
    }
    let fake = Arc::new(Fake::new(&behaviour));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        match serde_json::from_str(&line) {
            Ok(message) => fake.handle(&message),
            Err(e) => violation(&format!("not JSON: {e}: {line}")),
        }
    }
    eprintln!("fake: end of input");
    if behaviour == "ignore-term" {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

fn add(file: &str, pid: u32) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .expect("the file of the starts");
    file.write_all(format!("{pid}\n").as_bytes())
        .expect("a line");
}

fn violation(what: &str) {
    eprintln!("violation: {what}");
}

struct Fake {
    behaviour: String,
    crash_after: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ids: HashSet<String>,
    /// `initialize` was answered.
    begun: bool,
    /// `notifications/initialized` was received.
    ready: bool,
    calls: usize,
    grown: bool,
    cancel: HashMap<String, Arc<AtomicBool>>,
    asked: HashMap<String, mpsc::Sender<Value>>,
}

impl Fake {
    fn new(behaviour: &str) -> Fake {
        let crash_after = behaviour.strip_prefix("crash-after-");
        Fake {
            crash_after: crash_after.map(|n| n.parse().expect("a number")),
            behaviour: behaviour.to_owned(),
            state: Mutex::default(),
        }
    }

    fn is(&self, behaviour: &str) -> bool {
        self.behaviour == behaviour
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("state")
    }

    fn say(&self, message: &Value) {
        // One lock for the whole output, so that threads do not interleave lines.
        let mut out = std::io::stdout().lock();
        if self.is("noise") {
            let noise =
                "Server running on stdio\n{\"level\":30,\"msg\":\"hi\"}\n[1, 2]\n\n\u{1b}[2J\n";
            let _ = out.write_all(noise.as_bytes());
        }
        if self.is("wrong-id") && self.state().ready {
            let wrong = json!({"jsonrpc": "2.0", "id": 987_654, "result": {"content": []}});
            let _ = out.write_all(format!("{wrong}\n").as_bytes());
        }
        // Fails if the client has exited.
        let _ = out.write_all(format!("{message}\n").as_bytes());
        let _ = out.flush();
    }

    fn answer(&self, id: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&self, id: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn handle(self: &Arc<Self>, message: &Value) {
        if message["jsonrpc"] != "2.0" {
            violation(&format!("not 2.0: {message}"));
        }
        if self.is("hang") {
            return;
        }
        match (
            message.get("method").and_then(Value::as_str),
            message.get("id"),
        ) {
            (Some(method), Some(id)) => self.request(method, id, &message["params"]),
            (Some(method), None) => self.notified(method, &message["params"]),
            (None, Some(id)) => {
                let waiting = self.state().asked.remove(&id.to_string());
                match waiting {
                    Some(waiting) => waiting.send(message.clone()).expect("the call waits"),
                    None => violation(&format!("unexpected response: {message}")),
                }
            }
            (None, None) => violation(&format!("neither request nor response: {message}")),
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => self.state().ready = true,
            "notifications/cancelled" => {
                if let Some(flag) = self.state().cancel.get(&params["requestId"].to_string()) {
                    flag.store(true, Ordering::Relaxed);
                }
                eprintln!("fake: cancelled: {}", params["reason"]);
            }
            _ => eprintln!("fake: notified of {method}"),
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, params: &Value) {
        let modern = self.is("modern");
        {
            let mut state = self.state();
            if !state.ids.insert(id.to_string()) {
                violation(&format!("duplicate id {id}"));
            }
            let early = !matches!(method, "initialize" | "ping" | "server/discover");
            if early && !state.ready && !modern {
                violation(&format!("{method} before the session has begun"));
            }
            let version = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
            if modern && version != "2026-07-28" {
                violation(&format!("{method} names the version {version}"));
            }
        }
        match method {
            "server/discover" if modern => self.answer(
                id,
                json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1.2.3"}},
                }),
            ),
            "server/discover" if self.is("exit-at-discover") => {
                eprintln!("fake: what is server/discover");
                exit(1);
            }
            "initialize" if modern => self.refuse(id, -32601, "no such method"),
            "initialize" => self.initialize(id, params),
            "ping" => self.answer(id, json!({})),
            "tools/list" => self.list(id),
            "tools/call" => self.call(id, params),
            "resources/list" => self.answer(
                id,
                json!({"resources": [{"uri": "fake://one", "name": "one", "mimeType": "text/plain"}]}),
            ),
            "resources/templates/list" => self.answer(id, json!({"resourceTemplates": []})),
            "resources/read" => self.answer(
                id,
                json!({"contents": [{"uri": params["uri"], "text": "the text of one"}]}),
            ),
            "prompts/list" => self.answer(
                id,
                json!({"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}]}),
            ),
            "prompts/get" => {
                let who = params["arguments"]["who"].as_str().unwrap_or_default();
                let content = json!({"type": "text", "text": format!("Greet {who}.")});
                self.answer(
                    id,
                    json!({"messages": [{"role": "user", "content": content}]}),
                );
            }
            _ if self.is("ignore-discover") => eprintln!("fake: ignored {method}"),
            _ => self.refuse(id, -32601, &format!("no such method: {method}")),
        }
    }

    fn initialize(&self, id: &Value, params: &Value) {
        if std::mem::replace(&mut self.state().begun, true) {
            violation("initialize came twice");
        }
        let version = params["protocolVersion"].as_str().unwrap_or_default();
        if !["2025-03-26", "2025-06-18", "2025-11-25"].contains(&version) {
            violation(&format!("initialize with the version {version:?}"));
        }
        if params["clientInfo"]["name"].as_str().is_none() {
            violation("no clientInfo");
        }
        self.answer(
            id,
            json!({
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "fake", "version": "1.2.3"},
            }),
        );
    }

    fn list(&self, id: &Value) {
        let tool = |name: &str, description: &str, properties: Value| {
            json!({
                "name": name,
                "description": description,
                "inputSchema": {"type": "object", "properties": properties},
            })
        };
        let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
        let mut tools = vec![
            tool("echo", "Says it again.", json!({"text": text})),
            tool(
                "add",
                "Adds two numbers.",
                json!({"a": number, "b": number}),
            ),
            tool("slow", "Takes its time.", json!({"steps": number})),
            tool("big", "Says a lot.", json!({"bytes": number})),
            tool(
                "line",
                "Says a line that does not end.",
                json!({"bytes": number}),
            ),
            tool("escapes", ESCAPES, json!({})),
            tool("env", "Says what it was started with.", json!({})),
            tool("elicit", "Asks back.", json!({"message": text})),
            tool("torn", "Answers what is no JSON.", json!({})),
            tool("grow", "Gets one more tool.", json!({})),
            tool("die", "Ends the server.", json!({"code": number})),
        ];
        if self.state().grown {
            tools.push(tool("more", "Was not there before.", json!({})));
        }
        let modern = self.is("modern");
        let mut result = json!({"tools": tools});
        if modern {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        self.answer(id, result);
    }

    fn call(self: &Arc<Self>, id: &Value, params: &Value) {
        let calls = {
            let mut state = self.state();
            state.calls += 1;
            state.calls
        };
        if self.crash_after.is_some_and(|n| calls > n) {
            eprintln!("fake: that was one call too many");
            exit(9);
        }
        let says = |text: &str| {
            let mut result = json!({"content": [{"type": "text", "text": text}]});
            if self.is("modern") {
                result["resultType"] = "complete".into();
            }
            result
        };
        let arguments = &params["arguments"];
        let number = |key: &str| arguments[key].as_f64().unwrap_or_default();
        match params["name"].as_str().unwrap_or_default() {
            "echo" => self.answer(id, says(arguments["text"].as_str().unwrap_or_default())),
            "add" => self.answer(id, says(&(number("a") + number("b")).to_string())),
            "big" => self.answer(id, says(&"x".repeat(number("bytes") as usize))),
            "line" => {
                let chunk = vec![b'x'; 1 << 16];
                let mut out = std::io::stdout().lock();
                for _ in 0..(number("bytes") as usize).div_ceil(chunk.len()) {
                    if out.write_all(&chunk).is_err() {
                        return;
                    }
                }
                let _ = out.flush();
            }
            "escapes" => self.answer(id, says(ESCAPES)),
            "env" => {
                let env: HashMap<String, String> = std::env::vars().collect();
                let group = nix::unistd::getpgrp().as_raw();
                let pid = std::process::id();
                let cwd = std::env::current_dir().unwrap_or_default();
                let env = json!({"env": env, "group": group, "pid": pid, "cwd": cwd});
                self.answer(id, says(&env.to_string()));
            }
            "torn" => {
                let mut out = std::io::stdout().lock();
                let torn = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"\ud800"}}}}"#);
                let _ = out.write_all(format!("{torn}\n").as_bytes());
                let _ = out.flush();
            }
            "grow" => {
                self.state().grown = true;
                self.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                self.answer(id, says("grown"));
            }
            "die" => {
                eprintln!("fake: as you wish");
                exit(number("code") as i32);
            }
            "slow" => self.slow(id, params),
            "elicit" => self.elicit(id, arguments),
            name => self.refuse(id, -32602, &format!("no such tool: {name}")),
        }
    }

    /// Reports progress every 20 ms until the steps are done or the call is cancelled.
    fn slow(self: &Arc<Self>, id: &Value, params: &Value) {
        let (fake, id) = (Arc::clone(self), id.clone());
        let steps = params["arguments"]["steps"].as_u64().unwrap_or(u64::MAX);
        let token = params["_meta"]["progressToken"].clone();
        let cancelled = Arc::new(AtomicBool::new(false));
        let key = id.to_string();
        self.state().cancel.insert(key, Arc::clone(&cancelled));
        std::thread::spawn(move || {
            for step in 1..=steps {
                std::thread::sleep(Duration::from_millis(20));
                if cancelled.load(Ordering::Relaxed) {
                    return;
                }
                if !token.is_null() {
                    fake.say(&json!({
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {
                            "progressToken": token,
                            "progress": step,
                            "total": steps,
                            "message": format!("step {step}"),
                        },
                    }));
                }
            }
            let content = json!({"type": "text", "text": format!("{steps} steps")});
            fake.answer(&id, json!({"content": [content]}));
        });
    }

    /// Sends an elicitation and returns the answer as text.
    fn elicit(self: &Arc<Self>, id: &Value, arguments: &Value) {
        let (fake, id) = (Arc::clone(self), id.clone());
        let asks = json!(format!("ask-{id}"));
        let (sender, answer) = mpsc::channel();
        self.state().asked.insert(asks.to_string(), sender);
        self.say(&json!({
            "jsonrpc": "2.0",
            "id": asks,
            "method": "elicitation/create",
            "params": {
                "message": arguments["message"],
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        }));
        std::thread::spawn(move || {
            // Without an answer, the call gets no response.
            if let Ok(answer) = answer.recv() {
                let text = answer.get("result").or_else(|| answer.get("error"));
                let text = text.map(Value::to_string).unwrap_or_default();
                let content = json!({"type": "text", "text": text});
                fake.answer(&id, json!({"content": [content]}));
            }
        });
    }
}
