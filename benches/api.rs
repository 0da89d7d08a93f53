//! The HTTP API: a request against a bare hyper server with the same body, events to a hundred clients of which half do not read,
//! and the memory that both cost.
//!
//! Requests to both servers take turns. The time of an event counts from its arrival at the first client to that at another one.
//! Exits with 1 if a figure exceeds its limit.
//!
//! `cargo bench --bench api`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use support::{FigureReport, Home, Samples, memory};

/// Rounds of requests to each server, and requests in each.
const ROUNDS: usize = 40;
const REQUESTS: usize = 250;
/// Set in the process that is the bare server: the body that it sends. In a process of its own like the daemon, so that the
/// kernel wakes both alike.
const BARE: &str = "AISH_BENCH_BARE";
/// Clients of the events, half of which do not read.
const CLIENTS: usize = 100;
/// Tokens of the answer, and the time between two of them.
const TOKENS: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    if let Ok(body) = std::env::var(BARE) {
        bare_server(body.into_bytes());
    }
    let mut report = FigureReport::new("api");
    let provider = provider();
    let home = Home::new(&format!("http://127.0.0.1:{provider}/v1"));
    home.start();
    let pid = home.daemon();
    let before = memory(pid, "VmRSS").unwrap();
    let port = free_port();
    run(&home, &["serve", "--port", &port.to_string()]);
    let token = run(&home, &["serve", "token", "show"]);
    let server = ApiClient {
        port,
        token: token.trim().to_owned(),
    };
    server.post("/v1/sessions", "{}");
    let listening = memory(pid, "VmRSS").unwrap();
    requests(&server, &mut report);
    events(&server, pid, &mut report);
    report.text(&format!(
        "Memory of the daemon: {:.1} MB more while it listens (bar 2 MB).",
        listening - before
    ));
    report.at_most("listening_memory", listening - before, 2.0);
    report.finish()
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

/// A model server that sends tokens in the rhythm of a fast model. Returns its port.
fn provider() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
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
    for number in 0..TOKENS {
        let event = serde_json::json!({ "choices": [{ "delta": { "content": format!("token {number} ") } }] });
        if write!(stream, "data: {event}\n\n").is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
    let _ = stream.write_all(
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
}

struct ApiClient {
    port: u16,
    token: String,
}

impl ApiClient {
    fn head(&self, method: &str, path: &str, more: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n{more}\r\n",
            self.port, self.token
        )
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn post(&self, path: &str, body: &str) -> serde_json::Value {
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
fn read_response(reader: &mut impl BufRead) -> Vec<u8> {
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

/// Sends requests on one connection, and returns the time and the last body.
fn burst(stream: &TcpStream, request: &str) -> (Duration, Vec<u8>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream.try_clone().unwrap();
    let mut body = Vec::new();
    let start = Instant::now();
    for _ in 0..REQUESTS {
        writer.write_all(request.as_bytes()).unwrap();
        body = read_response(&mut reader);
    }
    (start.elapsed(), body)
}

/// Serves nothing but this body, and prints its port.
fn bare_server(body: Vec<u8>) -> ! {
    let body = axum::body::Bytes::from(body);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let body = body.clone();
            let service = service_fn(move |_| {
                let response = hyper::Response::builder()
                    .header("content-type", "application/json")
                    .body(Body::from(body.clone()));
                async move { Ok::<_, Infallible>(response.unwrap()) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

/// A running bare server.
struct BareServer {
    process: Child,
    port: u16,
}

impl BareServer {
    fn start(body: Vec<u8>) -> BareServer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(BARE, String::from_utf8(body).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        BareServer { process, port }
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn requests(server: &ApiClient, report: &mut FigureReport) {
    let mut rows = vec![
        ["request", "bare hyper", "aish", "bare / aish", "bar"]
            .map(String::from)
            .to_vec(),
    ];
    for (name, path) in [("models", "/v1/models"), ("version", "/version")] {
        let request = server.head("GET", path, "");
        let own = server.connect();
        let (_, body) = burst(&own, &request);
        let bare = BareServer::start(body);
        let other = TcpStream::connect((Ipv4Addr::LOCALHOST, bare.port)).unwrap();
        other.set_nodelay(true).unwrap();
        let (mut bare_times, mut own_times) = (Samples::default(), Samples::default());
        for _ in 0..ROUNDS {
            bare_times.time(burst(&other, &request).0 / REQUESTS as u32);
            own_times.time(burst(&own, &request).0 / REQUESTS as u32);
        }
        let ratio = bare_times.median() / own_times.median();
        rows.push(vec![
            format!("`{path}`"),
            bare_times.shown(),
            own_times.shown(),
            format!("{ratio:.2}"),
            "≥ 0.8".to_owned(),
        ]);
        report.at_least(&format!("request_{name}"), ratio, 0.8);
    }
    report.text("Requests on one connection, in milliseconds; both servers take turns.");
    report.table(&rows);
}

fn events(server: &ApiClient, pid: u32, report: &mut FigureReport) {
    let session = server.post("/v1/sessions", "{}");
    let session = session["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{session}/events");
    let before = memory(pid, "VmRSS").unwrap();
    let request = server.head("GET", &path, "");
    let streams: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let arrivals: Arc<Mutex<HashMap<u64, Vec<Instant>>>> = Arc::default();
    let readers: Vec<_> = streams[..CLIENTS / 2]
        .iter()
        .map(|stream| {
            let (stream, arrivals) = (stream.try_clone().unwrap(), arrivals.clone());
            thread::spawn(move || read_deltas(stream, &arrivals))
        })
        .collect();
    server.post(
        &format!("/v1/sessions/{session}/messages"),
        "{\"content\":\"go\"}",
    );
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    let after = memory(pid, "VmRSS").unwrap();
    let mut added = Vec::new();
    for times in arrivals.lock().unwrap().values() {
        let first = times.iter().min().unwrap();
        added.extend(
            times
                .iter()
                .map(|time| (*time - *first).as_secs_f64() * 1e3),
        );
    }
    added.sort_by(f64::total_cmp);
    let p99 = added[added.len() * 99 / 100];
    let each = (after - before) * 1024.0 / CLIENTS as f64;
    report.text(&format!(
        "Events of an answer of {TOKENS} tokens, 100 a second, to {CLIENTS} clients, {} of which do not read: {} arrivals, p99 {p99:.2} ms after the first client (bar 10 ms); {each:.1} KiB a client (bar 16 KiB).",
        CLIENTS / 2,
        added.len()
    ));
    report.at_most("events_p99", p99, 10.0);
    report.at_most("client_memory", each, 16.0);
}

/// Notes when each delta of the answer arrives, by its number.
fn read_deltas(stream: TcpStream, arrivals: &Mutex<HashMap<u64, Vec<Instant>>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut ends = 0;
    while reader.read_line(&mut line).unwrap_or(0) > 0 {
        if let Some(data) = line.strip_prefix("data: ") {
            let at = Instant::now();
            let event: serde_json::Value = serde_json::from_str(data).unwrap();
            match event["type"].as_str() {
                Some("message.delta") => {
                    let seq = event["seq"].as_u64().unwrap();
                    arrivals.lock().unwrap().entry(seq).or_default().push(at);
                }
                // That of the prompt, then that of the answer.
                Some("message.end") => {
                    ends += 1;
                    if ends == 2 {
                        return;
                    }
                }
                _ => {}
            }
        }
        line.clear();
    }
}
