//! Latency of tool calls through the daemon and through its server pool, relative to a bare POST on a persistent
//! connection to the same server. The server is a real one, if `./test.sh` has installed it, and a minimal fake, which
//! shows the overhead per call. Also measured: connecting thirteen servers relative to one, the memory of a daemon with
//! many shells in loops of calls, and the in-memory cost of intents and rules.
//!
//! Exits with 1 if a figure exceeds its limit. The limits of the real server apply only where it is installed.
//!
//! `AISH_TEST_TOOLS=$PWD/target/test-tools cargo bench --bench mcp`

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot go on has failed"
)]

#[path = "support/prompt.rs"]
mod prompt;
#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/provider.rs"]
mod provider;
#[path = "../tests/fakes/steady.rs"]
mod steady;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use aish::chat::OperationClass;
use aish::config::mcp::ServerSettings;
use aish::mcp::{ServerCredentials, ServerPool};
use aish::safety::intent::{self, IntentCheck};
use aish::safety::policy::{
    self, ApprovalScope, CallRequest, ExactCall, GrantSet, PolicyDecision, PolicyRule, RuleEffect,
    RuleSet, RuleSubject,
};
use provider::Provider;
use serde_json::json;
use steady::{Steady, VERSION};
use support::{FigureReport, Home, Samples, memory, row};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Measured calls, and warm-up calls before them.
const CALLS: usize = 2_000;
const WARM: usize = 100;
/// The same for the daemon: prompts, and per prompt the rounds of one call or the calls of one round.
const PROMPTS: usize = 20;
const WARM_PROMPTS: usize = 2;
const TURNS: usize = 50;
/// Concurrent shells, and rounds of each.
const SHELLS: usize = 64;
const LOOPS: usize = 8;
/// Number of times the servers are connected.
const ROUNDS: usize = 15;
/// Maximum ratio of a call of the real server to a bare POST.
const REAL_SERVER_BAR: f64 = 1.3;
/// Time that a server takes for the initialization of a client.
const DELAY: Duration = Duration::from_millis(100);

/// A bare POST on a persistent connection.
struct Bare(BufReader<TcpStream>);

impl Bare {
    fn new(server: &Steady) -> Bare {
        let stream = TcpStream::connect(server.url().split('/').nth(2).unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        Bare(BufReader::new(stream))
    }

    fn post(&mut self, text: &str) -> String {
        let body = request("text", text);
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

fn request(argument: &str, text: &str) -> String {
    let params = serde_json::json!({ "name": "echo", "arguments": { argument: text } });
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

/// A POST with the HTTP client of aish.
struct Post {
    client: reqwest::Client,
    url: String,
    session: Option<String>,
}

impl Post {
    async fn new(url: String) -> Post {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut post = Post {
            client,
            url,
            session: None,
        };
        let hello = serde_json::json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": { "name": "bench", "version": "0" },
            },
        });
        let response = post.send(hello.to_string()).await;
        let session = response.headers().get("mcp-session-id");
        post.session = session.map(|s| s.to_str().unwrap().to_owned());
        response.bytes().await.unwrap();
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        post.send(ready.to_owned()).await;
        post
    }

    async fn send(&self, body: String) -> reqwest::Response {
        let mut request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        request.body(body).send().await.unwrap()
    }

    /// Result of the tool `echo`.
    async fn call(&self, argument: &str, text: &str) -> String {
        let response = self.send(request(argument, text)).await;
        let body = response.text().await.unwrap();
        let event = body.lines().find_map(|l| l.strip_prefix("data: {"));
        match event {
            Some(rest) => said(format!("{{{rest}").as_bytes()),
            None => said(body.as_bytes()),
        }
    }
}

/// A real server; stops when dropped.
struct Real(Child, String);

impl Real {
    fn start() -> Option<Real> {
        let tools = PathBuf::from(std::env::var_os("AISH_TEST_TOOLS")?);
        let program = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut child = Command::new("node")
            .arg(tools.join(program))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut ready).unwrap();
        assert!(ready.contains("listening"), "{ready}");
        Some(Real(child, format!("http://127.0.0.1:{port}/mcp")))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a pool with these servers. Returns the time until the last one was ready.
async fn connect(urls: &[String], state: &TempDir) -> (ServerPool, Duration) {
    let start = Instant::now();
    let pool = ServerPool::new(
        state.path().to_owned(),
        TaskTracker::new(),
        CancellationToken::new(),
    );
    for (n, url) in urls.iter().enumerate() {
        let server = ServerSettings::with_url(format!("s{n}"), url);
        pool.start(server, true, async { Ok(ServerCredentials::default()) });
    }
    let catalog = pool.catalog(Duration::from_secs(20)).await;
    assert!(catalog.unavailable.is_empty(), "{:?}", catalog.unavailable);
    (pool, start.elapsed())
}

/// A call with the checks of the gate.
async fn call(pool: &ServerPool, argument: &str, text: &str) -> String {
    let arguments = serde_json::json!({ argument: text }).to_string();
    let catalog = pool.catalog(Duration::ZERO).await;
    let tool = catalog.find("s0.echo").unwrap();
    let call = ExactCall {
        server: &tool.server,
        tool: &tool.tool,
        identity: &tool.identity,
        arguments: &arguments,
    };
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let approved = policy::approve(
        &CallRequest {
            annotations: tool.annotations,
            ..CallRequest::new(call)
        },
        ApprovalScope::Once,
        [],
        &mut GrantSet::default(),
        now,
        "",
    );
    let (events, _seen) = mpsc::channel(16);
    let cancel = CancellationToken::new();
    let result = pool.call(approved, &call, now, 1 << 16, &events, &cancel);
    result.await.unwrap().text
}

/// Bare POSTs and calls through the pool, in turn.
async fn calls(name: &str, url: String, argument: &str, mut bare: Option<Bare>) -> Vec<String> {
    let state = tempfile::tempdir().unwrap();
    let (pool, _) = connect(std::slice::from_ref(&url), &state).await;
    let post = Post::new(url).await;
    let (mut by_hand, mut by_aish, mut by_socket) = <(Samples, Samples, Samples)>::default();
    for round in 0..CALLS + WARM {
        let text = format!("call {round}");
        let start = Instant::now();
        let first = post.call(argument, &text).await;
        let hand = start.elapsed();
        let start = Instant::now();
        let second = call(&pool, argument, &text).await;
        let aish = start.elapsed();
        assert!(
            first == second && second.ends_with(&text),
            "{first} {second}"
        );
        let start = Instant::now();
        if let Some(bare) = &mut bare {
            assert_eq!(bare.post(&text), text);
        }
        if round >= WARM {
            by_hand.time(hand);
            by_aish.time(aish);
            by_socket.time(start.elapsed());
        }
    }
    pool.shutdown().await;
    let ratio = by_aish.median() / by_hand.median();
    let more = by_aish.median() - by_hand.median();
    let socket = bare.map_or(String::new(), |_| by_socket.shown());
    let [ratio, more] = [ratio, more].map(|n| format!("{n:.2}"));
    row([
        name,
        &socket,
        &by_hand.shown(),
        &by_aish.shown(),
        &ratio,
        &more,
    ])
}

async fn all_calls(report: &mut FigureReport) {
    report.text(&format!("A call through the pool: medians (least–most) in milliseconds of {CALLS} calls. The bar is {REAL_SERVER_BAR} for the real server."));
    let head = [
        "server",
        "bare socket",
        "POST",
        "aish",
        "aish / POST",
        "aish − POST",
    ];
    let mut rows = vec![row(head)];
    match Real::start() {
        Some(real) => {
            rows.push(calls("server-everything", real.1.clone(), "message", None).await);
        }
        None => {
            println!("The real server is left out: AISH_TEST_TOOLS does not name a directory.\n")
        }
    }
    let steady = Steady::start(Duration::ZERO);
    let bare = Bare::new(&steady);
    rows.push(calls("one that does nothing", steady.url(), "text", Some(bare)).await);
    if let [_, real, _] = &rows[..] {
        report.at_most("pool_call_real_server", ratio_of(real), REAL_SERVER_BAR);
    }
    report.table(&rows);
}

/// A daemon with this MCP server and a model that makes the calls named in the prompt.
fn daemon(url: &str) -> (Home, Provider) {
    let provider = Provider::answering(prompt::model);
    let home = Home::new(&provider.base_url());
    home.configure(&format!(
        "[mcp]\nmax_tool_depth = 100\n[mcp.servers.s0]\nurl = \"{url}\"\n\
         [mcp.auto_approve]\n\"s0.*\" = true\n"
    ));
    home.start();
    (home, provider)
}

/// Prompts through the daemon and bare POSTs, in turn; `at_once` calls in each round.
async fn prompts(name: &str, url: &str, argument: &str, at_once: usize) -> Vec<String> {
    let (home, _provider) = daemon(url);
    let post = Post::new(url.to_owned()).await;
    let (mut by_hand, mut by_daemon) = <(Samples, Samples)>::default();
    let [rounds, calls] = [TURNS / at_once, at_once].map(|n| n.to_string());
    for n in 0..PROMPTS + WARM_PROMPTS {
        let text = format!("call-{n}");
        for round in 0..TURNS / at_once {
            let start = Instant::now();
            for call in 0..at_once {
                let text = format!("{text}/{round}/{call}");
                let said = post.call(argument, &text).await;
                assert!(said.ends_with(&text), "{said}");
            }
            if n >= WARM_PROMPTS {
                by_hand.time(start.elapsed() / at_once as u32);
            }
        }
        let took = prompt::ask(
            &home,
            None,
            "/",
            [&rounds, &calls, "s0.echo", argument, &text],
        );
        if n >= WARM_PROMPTS {
            let each = took.iter().map(|took| *took / at_once as u32);
            each.for_each(|took| by_daemon.time(took));
        }
    }
    home.stop();
    let ratio = by_daemon.median() / by_hand.median();
    let more = by_daemon.median() - by_hand.median();
    let [ratio, more] = [ratio, more].map(|n| format!("{n:.2}"));
    row([
        name,
        &calls,
        &by_hand.shown(),
        &by_daemon.shown(),
        &ratio,
        &more,
    ])
}

async fn all_prompts(report: &mut FigureReport) {
    report.text(&format!(
        "A call through the daemon, from the model's last word to the end of its calls: medians (least–most) in \
         milliseconds of a call. The bar is {REAL_SERVER_BAR} for the real server. {}",
        synced()
    ));
    let head = [
        "server",
        "calls of an answer",
        "POST",
        "aish",
        "aish / POST",
        "aish − POST",
    ];
    let mut rows = vec![row(head)];
    let real = Real::start();
    let steady = Steady::start(Duration::ZERO);
    for at_once in [1, TURNS] {
        if let Some(real) = &real {
            let row = prompts("server-everything", &real.1, "message", at_once).await;
            let name = format!("daemon_call_real_server_{at_once}");
            report.at_most(&name, ratio_of(&row), REAL_SERVER_BAR);
            rows.push(row);
        }
        rows.push(prompts("one that does nothing", &steady.url(), "text", at_once).await);
    }
    report.table(&rows);
}

/// The ratio in a table row: the last column but one.
fn ratio_of(row: &[String]) -> f64 {
    row[row.len() - 2].parse().unwrap()
}

/// A sentence with the time of syncing one line to this disk.
fn synced() -> String {
    let mut file = tempfile::tempfile().unwrap();
    let mut times = Samples::default();
    for _ in 0..WARM {
        file.write_all(&[b'x'; 400]).unwrap();
        let start = Instant::now();
        file.sync_data().unwrap();
        times.time(start.elapsed());
    }
    format!("Syncing one line takes {} ms here.", times.shown())
}

/// Many concurrent shells, each in a loop of calls.
fn shells(report: &mut FigureReport) {
    let steady = Steady::start(Duration::ZERO);
    let (home, _provider) = daemon(&steady.url());
    std::thread::scope(|scope| {
        for n in 0..SHELLS {
            let home = &home;
            scope.spawn(move || {
                let (shell, rounds) = (format!("shell-{n}"), LOOPS.to_string());
                let asked = [rounds.as_str(), "1", "s0.echo", "text", &shell];
                prompt::ask(home, Some(&shell), "/", asked)
            });
        }
    });
    let peak = memory(home.daemon(), "VmHWM");
    assert_eq!(steady.calls().len(), SHELLS * LOOPS);
    home.stop();
    if let Some(megabytes) = peak {
        report.at_most("daemon_memory_peak", megabytes, 100.0);
    }
    let peak = peak.map_or("unknown here".to_string(), |mb| format!("{mb:.1} MB"));
    report.table(&[
        row(["what", "figure", "bar"]),
        row([
            &format!("daemon memory, peak, {SHELLS} shells in loops of {LOOPS} calls"),
            &peak,
            "< 100 MB",
        ]),
    ]);
}

async fn connects(report: &mut FigureReport) {
    let servers: Vec<_> = (0..13).map(|_| Steady::start(DELAY)).collect();
    let urls: Vec<_> = servers.iter().map(Steady::url).collect();
    let state = tempfile::tempdir().unwrap();
    let (mut one, mut all) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        for (urls, times) in [(&urls[..1], &mut one), (&urls[..], &mut all)] {
            let (pool, took) = connect(urls, &state).await;
            times.time(took);
            pool.shutdown().await;
        }
    }
    report.text(&format!(
        "Connecting: medians (least–most) in milliseconds; each server takes {} ms.",
        DELAY.as_millis()
    ));
    let ratio = all.median() / one.median();
    report.at_most("connect_13_servers", ratio, 1.3);
    report.table(&[
        row(["connected", "time", "to one", "bar"]),
        row(["1 server", &one.shown(), "1", ""]),
        row(["13 servers", &all.shown(), &format!("{ratio:.2}"), "< 1.3"]),
    ]);
}

/// In-memory cost before a call: parsing and checking its intent, and evaluating the rules.
fn checks(report: &mut FigureReport) {
    let reason = "x".repeat(intent::MAX_REASON_CHARS);
    let arguments = json!({ "intent": {
        "operation_type": "read", "data_sensitivity": "private", "reason": reason,
    } });
    let arguments = arguments.as_object().unwrap();
    let rule = |n| PolicyRule {
        subject: RuleSubject::Tool("other".into(), format!("tool{n}")),
        effect: RuleEffect::Deny,
        source: String::new(),
    };
    let rules = RuleSet {
        list: (0..1_000).map(rule).collect(),
        ..RuleSet::default()
    };
    let call = ExactCall {
        server: "s",
        tool: "t",
        identity: "",
        arguments: "{}",
    };
    let (mut checked, mut decided) = (Samples::default(), Samples::default());
    for _ in 0..CALLS {
        let begun = Instant::now();
        let intent = intent::parse_intent(OperationClass::Read, arguments).unwrap();
        let says = intent::check_intent(
            OperationClass::Read,
            &intent,
            "s:t",
            (Default::default(), false),
            true,
        );
        checked.number(begun.elapsed().as_secs_f64() * 1e6);
        assert_eq!(says, IntentCheck::Consistent);
        let wish = CallRequest {
            intent: Some(&intent),
            ..CallRequest::new(call)
        };
        let begun = Instant::now();
        let decision = policy::decide(&wish, &rules, &GrantSet::default(), 0);
        decided.number(begun.elapsed().as_secs_f64() * 1e6);
        assert!(matches!(decision, PolicyDecision::Ask(_)));
    }
    report.at_most("check_intent", checked.median(), 1_000.0);
    report.at_most("decide_1000_rules", decided.median(), 1_000.0);
    report.text("In memory, before every call: medians (least–most) in microseconds.");
    report.table(&[
        row(["what", "time", "bar"]),
        row(["the intent is read and checked", &checked.shown(), "< 1000"]),
        row(["1,000 rules decide", &decided.shown(), "< 1000"]),
    ]);
}

fn main() -> ExitCode {
    let mut report = FigureReport::new("mcp");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        all_calls(&mut report).await;
        all_prompts(&mut report).await;
        connects(&mut report).await;
    });
    shells(&mut report);
    checks(&mut report);
    report.finish()
}
