//! The HTTP API: a request against a bare hyper server with the same body, events to a hundred clients of which half do not read,
//! and the memory that both cost.
//!
//! Requests to both servers take turns. The time of an event counts from the write of the model server to its arrival at a client.
//! Exits with 1 if a figure exceeds its limit.
//!
//! `cargo bench --bench api`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use support::http_api::{ApiClient, StreamingModel, read_response};
use support::{FigureReport, Home, Samples, memory};

/// Rounds of requests to each server, and requests in each.
const ROUNDS: usize = 40;
const REQUESTS: usize = 250;
/// Set in the process that is the bare server: the body that it sends. In a separate process like the daemon, so that the
/// kernel wakes both alike.
const BARE: &str = "AISH_BENCH_BARE";
/// Clients of the events, half of which do not read.
const CLIENTS: usize = 100;
/// Words of the answer, and the time between two of them.
const WORDS: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    if let Ok(body) = std::env::var(BARE) {
        bare_server(body.into_bytes());
    }
    let mut report = FigureReport::new("api");
    let provider = StreamingModel::start(WORDS, PAUSE);
    let home = Home::new(&provider.base_url());
    home.start();
    let pid = home.daemon();
    let before = memory(pid, "VmRSS").unwrap();
    let server = ApiClient::serve(&home);
    server.post("/v1/sessions", "{}");
    let listening = memory(pid, "VmRSS").unwrap();
    requests(&server, &mut report);
    events(&server, pid, &provider, &mut report);
    report.text(&format!(
        "Memory of the daemon: {:.1} MB more while it listens (bar 2 MB).",
        listening - before
    ));
    report.at_most("listening_memory", listening - before, 2.0);
    report.finish()
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

fn events(server: &ApiClient, pid: u32, provider: &StreamingModel, report: &mut FigureReport) {
    // Memory that the first answer of a daemon loads is not memory of a client.
    let session = server.session();
    let first = server.follow(&session);
    server.prompt(&session);
    read_words(first, &Mutex::default());
    let session = server.session();
    let before = memory(pid, "VmRSS").unwrap();
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| server.follow(&session)).collect();
    let arrivals: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
    let readers: Vec<_> = streams[..CLIENTS / 2]
        .iter()
        .map(|stream| {
            let (stream, arrivals) = (stream.try_clone().unwrap(), arrivals.clone());
            thread::spawn(move || read_words(stream, &arrivals))
        })
        .collect();
    server.prompt(&session);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    let after = memory(pid, "VmRSS").unwrap();
    let sent = provider.sent();
    let arrivals = arrivals.lock().unwrap();
    let mut added: Vec<f64> = arrivals
        .iter()
        .map(|(word, at)| (*at - sent[*word]).as_secs_f64() * 1e3)
        .collect();
    added.sort_by(f64::total_cmp);
    let p99 = added[added.len() * 99 / 100];
    let each = (after - before) * 1024.0 / CLIENTS as f64;
    report.text(&format!(
        "Events of an answer of {WORDS} words, 100 a second, to {CLIENTS} clients, {} of which do not read: {} arrivals, p99 {p99:.2} ms after the model server has sent the word (bar 10 ms; each ends with a bracket: a delta that may continue waits for the next one); {each:.1} KiB a client (bar 16 KiB).",
        CLIENTS / 2,
        added.len()
    ));
    report.at_most("events_p99", p99, 10.0);
    report.at_most("client_memory", each, 16.0);
}

/// Notes when each word of the answer arrives.
fn read_words(stream: TcpStream, arrivals: &Mutex<Vec<(usize, Instant)>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let (mut ends, mut unfinished) = (0, String::new());
    while reader.read_line(&mut line).unwrap_or(0) > 0 {
        if let Some(data) = line.strip_prefix("data: ") {
            let at = Instant::now();
            let event: serde_json::Value = serde_json::from_str(data).unwrap();
            match event["type"].as_str() {
                // The first one is the prompt.
                Some("message.delta") if ends > 0 => {
                    unfinished += event["payload"]["text"].as_str().unwrap();
                    while let Some((number, rest)) = first_word(&unfinished) {
                        arrivals.lock().unwrap().push((number, at));
                        unfinished = rest;
                    }
                }
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

/// Returns the number of the first complete word, `(7)`, and the text after it.
fn first_word(text: &str) -> Option<(usize, String)> {
    let (word, rest) = text.split_once(')')?;
    let (_, number) = word.split_once('(')?;
    Some((number.parse().unwrap(), rest.to_owned()))
}
