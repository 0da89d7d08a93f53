//! A tool called through the pool of servers, in units of what a bare POST on a kept connection takes to say
//! the same to the same server; and thirteen servers connected, in units of one.
//!
//! `cargo bench --bench mcp`

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/steady.rs"]
mod steady;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use aish::config::mcp::Server;
use aish::mcp::{Credentials, Pool};
use aish::safety::policy::{self, Call, Decision, Grants};
use steady::{Steady, VERSION};
use support::{Samples, row, table};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Calls that count, and those before them that warm everything up.
const CALLS: usize = 2_000;
const WARM: usize = 100;
/// How many times servers are connected.
const ROUNDS: usize = 15;
/// What a server takes to welcome a client.
const DELAY: Duration = Duration::from_millis(100);

/// A POST on a connection that is kept, with nothing around it.
struct Bare(BufReader<TcpStream>);

impl Bare {
    fn new(server: &Steady) -> Bare {
        let stream = TcpStream::connect(server.url().split('/').nth(2).unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        Bare(BufReader::new(stream))
    }

    fn post(&mut self, text: &str) -> String {
        let body = request(text);
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {VERSION}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            self.0.read_line(&mut head).unwrap();
        }
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "))
            .unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        said(&body)
    }
}

fn request(text: &str) -> String {
    let params = serde_json::json!({ "name": "echo", "arguments": { "text": text } });
    let request =
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    request.to_string()
}

fn said(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The same with the HTTP client that everything else uses.
async fn post(client: &reqwest::Client, url: &str, text: &str) -> String {
    let sent = client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .body(request(text))
        .send();
    said(&sent.await.unwrap().bytes().await.unwrap())
}

/// A pool with these servers, and how long it took until the last was ready.
async fn connect(servers: &[Steady], state: &TempDir) -> (Pool, Duration) {
    let start = Instant::now();
    let pool = Pool::new(
        state.path().to_owned(),
        TaskTracker::new(),
        CancellationToken::new(),
    );
    for (n, server) in servers.iter().enumerate() {
        let server = Server::at(format!("s{n}"), server.url());
        pool.start(server, true, async { Ok(Credentials::default()) });
    }
    let catalog = pool.catalog(Duration::from_secs(20)).await;
    assert_eq!(catalog.tools.len(), servers.len(), "{:?}", catalog.without);
    (pool, start.elapsed())
}

/// What the gate does before each call, and the call.
async fn call(pool: &Pool, text: &str) -> String {
    let arguments = serde_json::json!({ "text": text }).to_string();
    let call = Call {
        server: "s0",
        tool: "echo",
        arguments: &arguments,
    };
    let auto = BTreeMap::from([("s0.*".to_owned(), true)]);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let Decision::Allow(approved, _) = policy::decide(&call, &auto, &Grants::default(), now) else {
        panic!("the rule allows it");
    };
    let (events, _seen) = mpsc::channel(16);
    let cancel = CancellationToken::new();
    let result = pool.call(approved, &call, now, 1 << 16, &events, &cancel);
    result.await.unwrap().text
}

async fn calls() {
    let servers = [Steady::start(Duration::ZERO)];
    let state = tempfile::tempdir().unwrap();
    let (pool, _) = connect(&servers, &state).await;
    let mut bare = Bare::new(&servers[0]);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = servers[0].url();
    let mut times: [Samples; 3] = Default::default();
    for round in 0..CALLS + WARM {
        let text = format!("call {round}");
        let mut took = [Duration::ZERO; 3];
        let start = Instant::now();
        let by_bare = bare.post(&text);
        took[0] = start.elapsed();
        let start = Instant::now();
        let by_client = post(&client, &url, &text).await;
        took[1] = start.elapsed();
        let start = Instant::now();
        let by_pool = call(&pool, &text).await;
        took[2] = start.elapsed();
        assert!([by_bare, by_client, by_pool].iter().all(|t| *t == text));
        if round >= WARM {
            for (samples, took) in times.iter_mut().zip(took) {
                samples.time(took);
            }
        }
    }
    pool.shutdown().await;
    println!(
        "Medians (least–most) in milliseconds of {CALLS} calls of a tool that answers at once.\n"
    );
    let [bare, client, pool] = times;
    let ratio = pool.median() / client.median();
    table(&[
        row(["by", "time", "to the POST", "bar"]),
        row(["a bare socket", &bare.shown(), "", ""]),
        row(["a POST, connection kept", &client.shown(), "1", ""]),
        row(["aish", &pool.shown(), &format!("{ratio:.2}"), "< 1.3"]),
    ]);
}

async fn connects() {
    let servers: Vec<_> = (0..13).map(|_| Steady::start(DELAY)).collect();
    let state = tempfile::tempdir().unwrap();
    let (mut one, mut all) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        for (servers, times) in [(&servers[..1], &mut one), (&servers[..], &mut all)] {
            let (pool, took) = connect(servers, &state).await;
            times.time(took);
            pool.shutdown().await;
        }
    }
    println!(
        "Medians (least–most) in milliseconds; each server takes {} ms.\n",
        DELAY.as_millis()
    );
    let ratio = all.median() / one.median();
    table(&[
        row(["connected", "time", "to one", "bar"]),
        row(["1 server", &one.shown(), "1", ""]),
        row(["13 servers", &all.shown(), &format!("{ratio:.2}"), "< 1.3"]),
    ]);
}

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        calls().await;
        connects().await;
    });
    println!("cargo bench --bench mcp");
}
