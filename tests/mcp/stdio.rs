//! Stdio servers: their environment, messages, and how they end. No process may be left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use aish::config::mcp::{HandshakeMode, ServerSettings, ServerTransport};
use aish::mcp::{CallEvent, ConnectionStatus, ElicitationResponse, ServerCredentials};
use aish::secret::Secret;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, TestPool, failure, names};
use crate::support::example;
use crate::support::helper::Helper;

/// A pool with one stdio server.
struct StdioTest {
    test: TestPool,
    server: ServerSettings,
}

impl StdioTest {
    async fn new(behaviour: &str) -> StdioTest {
        StdioTest::with(behaviour, HandshakeMode::Legacy).await
    }

    async fn with(behaviour: &str, lifecycle: HandshakeMode) -> StdioTest {
        let child = StdioTest::unsettled(behaviour, lifecycle);
        child.test.pool.catalog(PATIENCE).await;
        child
    }

    fn unsettled(behaviour: &str, lifecycle: HandshakeMode) -> StdioTest {
        let test = TestPool::new();
        let starts = test.state.path().join("starts");
        let mut server = ServerSettings::with_url("fs", "");
        server.transport = ServerTransport::Stdio {
            command: example("mcp-fake-stdio").to_str().unwrap().to_owned(),
            args: vec![behaviour.to_owned(), starts.to_str().unwrap().to_owned()],
            env: Vec::new(),
        };
        server.lifecycle = lifecycle;
        let child = StdioTest { test, server };
        child.start(&[]);
        child
    }

    fn start(&self, env: &[(&str, &str)]) {
        let env = env.iter().map(|(n, v)| ((*n).to_owned(), Secret::new(*v)));
        let credentials = ServerCredentials {
            bearer: None,
            env: env.chain([path()]).collect(),
        };
        let start = async { Ok(credentials) };
        self.test.pool.start(self.server.clone(), true, start);
    }

    async fn call_text(&self, tool: &str, arguments: Value) -> String {
        let called = self.test.call("fs", tool, &arguments.to_string()).await;
        called.unwrap().text
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.test.state.path().join(name)).unwrap_or_default()
    }

    fn log(&self) -> String {
        self.file("mcp-fs.log")
    }

    /// Ids of all processes started so far, including those started by the server.
    fn pids(&self) -> Vec<i32> {
        let starts = self.file("starts");
        let whole = starts.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|l| l.parse().unwrap()).collect()
    }

    async fn started(&self, count: usize) -> Vec<i32> {
        until("the processes have started", || self.pids().len() >= count).await;
        self.pids()
    }

    /// Shuts down; checks that no process is left and that the server has seen no violation of the protocol.
    async fn end(self) -> Duration {
        let (pids, log) = (self.pids(), self.log());
        assert!(!log.contains("violation:"), "{log}");
        let begun = Instant::now();
        self.test.end().await;
        let took = begun.elapsed();
        until("all processes are gone", || {
            !pids.iter().any(|pid| lives(*pid))
        })
        .await;
        took
    }
}

fn path() -> (String, Secret) {
    ("PATH".to_owned(), Secret::new("/usr/bin:/bin"))
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "time limit reached while waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process exists. An unreaped zombie counts, except for grandchildren, which init reaps.
fn lives(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.map_or("", str::trim).to_owned()
    };
    if cfg!(target_os = "linux") {
        let ours = field("PPid:") == std::process::id().to_string();
        !status.is_empty() && (ours || !field("State:").starts_with('Z'))
    } else {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
    }
}

#[tokio::test]
async fn stdio_server_is_started_listed_called_and_ended() {
    let child = StdioTest::new("plain").await;
    let state = child.test.state("fs");
    assert_eq!(state.status, ConnectionStatus::Ready, "{state:?}");
    assert_eq!(state.version.as_deref(), Some("fake 1.2.3"));
    assert_eq!(state.protocol.as_deref(), Some("2025-11-25"));
    let catalog = child.test.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog)[..2], ["fs.echo", "fs.add"]);
    assert_eq!(child.call_text("add", json!({"a": 2, "b": 40})).await, "42");
    let calls = (0..50).map(|i| child.call_text("echo", json!({"text": i.to_string()})));
    let result = join_all(calls).await;
    assert_eq!(result, (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!(child.pids().len(), 1, "one process for all calls");
    assert!(
        child.end().await < Duration::from_millis(500),
        "the server exits when stdin is closed"
    );
}

/// Polls all futures concurrently.
async fn join_all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: BTreeMap<usize, T> = BTreeMap::new();
    std::future::poll_fn(|context| {
        for (i, future) in futures.iter_mut().enumerate() {
            if !done.contains_key(&i)
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                done.insert(i, value);
            }
        }
        match done.len() == futures.len() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_values().collect()
}

#[tokio::test]
async fn environment_contains_only_the_listed_variables() {
    let child = StdioTest::new("plain").await;
    child.start(&[("API_KEY", "sk-12345678"), ("EMPTY", "")]);
    let pids = child.started(2).await;
    child.test.pool.catalog(PATIENCE).await;
    let result: Value = serde_json::from_str(&child.call_text("env", json!({})).await).unwrap();
    assert_eq!(
        result["env"],
        json!({"AISH_CHILD": "1", "API_KEY": "sk-12345678", "EMPTY": "", "PATH": "/usr/bin:/bin"})
    );
    assert_eq!(result["pid"], pids[1]);
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        result["cwd"],
        here.to_str().unwrap(),
        "without HOME, the directory of the parent"
    );
    assert_eq!(
        result["group"], result["pid"],
        "the server has its own process group"
    );
    child.end().await;
}

#[tokio::test]
async fn working_directory_is_home() {
    let child = StdioTest::new("plain").await;
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (there, gone) = (home.to_str().unwrap(), home.join("gone"));
    let here = std::env::current_dir().unwrap();
    for (home, cwd) in [
        (there, there),
        (gone.to_str().unwrap(), here.to_str().unwrap()),
    ] {
        child.start(&[("HOME", home)]);
        child.test.pool.catalog(PATIENCE).await;
        let result: Value = serde_json::from_str(&child.call_text("env", json!({})).await).unwrap();
        assert_eq!(result["cwd"], cwd);
    }
    child.end().await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn stderr_goes_to_the_log_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let child = StdioTest::new("plain").await;
    assert_eq!(child.log(), "fake: plain begins\n");
    let log = child.test.state.path().join("mcp-fs.log");
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let pid = child.pids()[0];
    for fd in 0..3 {
        let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
        let its = link(&pid.to_string());
        assert_ne!(its, link("self"), "{fd}");
        assert!(!its.to_string_lossy().contains("/dev/"), "{its:?}");
    }
    child.end().await;
}

#[tokio::test]
async fn output_that_is_not_a_message_goes_to_the_log_file() {
    let child = StdioTest::new("noise").await;
    assert_eq!(
        child.call_text("echo", json!({"text": "through"})).await,
        "through"
    );
    let log = child.log();
    assert!(log.contains("Server running on stdio\n"), "{log}");
    child.end().await;
}

#[tokio::test]
async fn unexpected_responses_are_ignored() {
    let child = StdioTest::new("wrong-id").await;
    assert_eq!(child.call_text("echo", json!({"text": "b"})).await, "b");
    child.end().await;
}

#[tokio::test]
async fn server_that_exits_at_once_is_reported_and_restarted() {
    let child = StdioTest::new("exit-at-once").await;
    let why = "it exited with 3; last output: cannot find my config";
    let state = child.test.until("fs", ConnectionStatus::Failed).await;
    assert_eq!(state.error.as_deref(), Some(why));
    child.started(3).await;
    child.end().await;
}

#[tokio::test]
async fn missing_command_is_named_in_the_error() {
    let mut child = StdioTest::new("plain").await;
    let ServerTransport::Stdio { command, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *command = "no-such-server".into();
    child.start(&[]);
    child.test.pool.catalog(PATIENCE).await;
    let error = child
        .test
        .until("fs", ConnectionStatus::Failed)
        .await
        .error
        .unwrap();
    assert_eq!(
        error,
        "cannot start no-such-server: No such file or directory (os error 2)"
    );
    child.end().await;
}

#[tokio::test]
async fn server_that_ignores_signals_is_killed() {
    let child = StdioTest::new("ignore-term").await;
    assert_eq!(child.call_text("echo", json!({"text": "a"})).await, "a");
    let took = child.end().await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn processes_of_a_server_end_with_it() {
    let child = StdioTest::new("grandchild").await;
    assert_eq!(child.pids().len(), 2);
    child.end().await;
    // Also when the server exits by itself.
    let child = StdioTest::new("grandchild").await;
    let pids = child.pids();
    let why = failure(child.test.call("fs", "die", r#"{"code":4}"#).await);
    assert_eq!(why, "it exited with 4; last output: fake: as you wish");
    until("the grandchild is gone", || {
        !pids.iter().any(|pid| lives(*pid))
    })
    .await;
    child.end().await;
}

#[tokio::test]
async fn crashed_server_is_restarted() {
    let child = StdioTest::new("crash-after-2").await;
    for _ in 0..2 {
        assert_eq!(child.call_text("echo", json!({"text": "a"})).await, "a");
    }
    let why = failure(child.test.call("fs", "echo", "{}").await);
    assert_eq!(
        why,
        "it exited with 9; last output: fake: that was one call too many"
    );
    child.started(2).await;
    child.test.until("fs", ConnectionStatus::Ready).await;
    assert_eq!(
        child.call_text("echo", json!({"text": "again"})).await,
        "again"
    );
    child.end().await;
}

#[tokio::test]
async fn line_of_64_mb_ends_the_connection_and_the_server_is_restarted() {
    let child = StdioTest::new("plain").await;
    let call = child.test.call("fs", "line", r#"{"bytes":67108864}"#).await;
    assert_eq!(failure(call), "it sent a line of more than 16 MB");
    child.started(2).await;
    child.test.until("fs", ConnectionStatus::Ready).await;
    assert_eq!(
        child.call_text("echo", json!({"text": "again"})).await,
        "again"
    );
    child.end().await;
}

#[tokio::test]
async fn large_results_are_received_and_truncated() {
    let child = StdioTest::new("plain").await;
    let called = child
        .test
        .call("fs", "big", r#"{"bytes":15000000}"#)
        .await
        .unwrap();
    assert_eq!(called.bytes, 15_000_000);
    assert!(called.text.len() <= 1 << 20);
    assert!(called.text.ends_with(" of 15000000 bytes left out]"));
    child.end().await;
}

/// Text for the model is unchanged; aish's own messages contain no escape sequences of a server.
#[tokio::test]
async fn escape_sequences_are_kept_in_results_and_removed_from_errors() {
    let evil = "\x1b]0;owned\x07\x1b[2J\u{202e}evil\u{200b}";
    let child = StdioTest::new("plain").await;
    let catalog = child.test.pool.catalog(PATIENCE).await;
    let tool = catalog.find("fs.escapes").unwrap();
    assert_eq!(tool.description, evil);
    assert_eq!(child.call_text("escapes", json!({})).await, evil);
    let why = failure(child.test.call("fs", "echo\u{1b}[2J", "{}").await);
    assert_eq!(why.lines().count(), 1, "{why}");
    child.end().await;
}

/// Environment values that a server prints appear in no error and no log.
#[tokio::test]
async fn secrets_of_the_environment_are_masked() {
    let mut child = StdioTest::new("plain").await;
    let ServerTransport::Stdio { command, args, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *command = "sh".into();
    *args = vec!["-c".into(), "echo bad key: $KEY >&2; exit 1".into()];
    child.start(&[("KEY", "sk-12345678")]);
    child.test.pool.catalog(PATIENCE).await;
    let error = child
        .test
        .until("fs", ConnectionStatus::Failed)
        .await
        .error
        .unwrap();
    assert_eq!(error, "it exited with 1; last output: bad key: [REDACTED]");
    assert!(!child.log().contains("sk-12345678"));
    // Printed on stdout.
    let ServerTransport::Stdio { args, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *args = vec!["-c".into(), "echo usage: $KEY; exit 2".into()];
    child.start(&[("KEY", "sk-12345678")]);
    child.test.pool.catalog(PATIENCE).await;
    let error = child
        .test
        .until("fs", ConnectionStatus::Failed)
        .await
        .error
        .unwrap();
    assert_eq!(error, "it exited with 2; last output: usage: [REDACTED]");
    child.end().await;
}

#[tokio::test]
async fn malformed_response_fails_its_call_at_once() {
    let child = StdioTest::new("plain").await;
    let why = failure(child.test.call("fs", "torn", "{}").await);
    assert!(why.starts_with("its answer cannot be read: "), "{why}");
    assert_eq!(child.call_text("echo", json!({"text": "a"})).await, "a");
    assert_eq!(child.pids().len(), 1);
    child.end().await;
}

#[tokio::test]
async fn server_that_hangs_at_the_start_delays_a_prompt_by_its_patience() {
    let child = StdioTest::unsettled("hang", HandshakeMode::Legacy);
    let patience = Duration::from_millis(50);
    let catalog = child.test.pool.catalog(patience).await;
    assert_eq!(
        catalog.unavailable,
        [("fs".to_owned(), "still starting".to_owned())]
    );
    child.started(1).await;
    let took = child.end().await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn lifecycles() {
    for (behaviour, lifecycle, protocol, starts) in [
        ("plain", HandshakeMode::Auto, "2025-11-25", 1),
        ("modern", HandshakeMode::Auto, "2026-07-28", 1),
        ("modern", HandshakeMode::Modern, "2026-07-28", 1),
        // Restarted, then connected with `initialize`.
        ("exit-at-discover", HandshakeMode::Auto, "2025-11-25", 2),
        ("exit-at-discover", HandshakeMode::Legacy, "2025-11-25", 1),
        ("ignore-discover", HandshakeMode::Legacy, "2025-11-25", 1),
    ] {
        let case = format!("{behaviour} {lifecycle:?}");
        let begun = Instant::now();
        let child = StdioTest::with(behaviour, lifecycle).await;
        let state = child.test.state("fs");
        assert_eq!(
            state.protocol.as_deref(),
            Some(protocol),
            "{case} {state:?}"
        );
        assert_eq!(
            child.call_text("echo", json!({"text": "a"})).await,
            "a",
            "{case}"
        );
        assert_eq!(child.pids().len(), starts, "{case}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{case}");
        child.end().await;
    }
    let child = StdioTest::with("plain", HandshakeMode::Modern).await;
    child.test.until("fs", ConnectionStatus::Failed).await;
    child.end().await;
}

#[tokio::test]
async fn ignored_discovery_costs_ten_seconds_and_no_restart() {
    let child = StdioTest::unsettled("ignore-discover", HandshakeMode::Auto);
    until("discovery has been ignored", || {
        child.log().contains("fake: ignored server/discover")
    })
    .await;
    let begun = Instant::now();
    super::advance(Duration::from_secs(10)).await;
    child.test.until("fs", ConnectionStatus::Ready).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(child.call_text("echo", json!({"text": "a"})).await, "a");
    assert_eq!(child.pids().len(), 1);
    child.end().await;
}

#[tokio::test]
async fn progress_is_reported_and_a_call_can_be_cancelled() {
    let child = StdioTest::new("plain").await;
    let (events, mut seen) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let call = child
        .test
        .call_with("fs", "slow", r#"{"steps":3}"#, &events, &cancel);
    assert_eq!(call.await.unwrap().text, "3 steps");
    let Some(CallEvent::Progress(line)) = seen.recv().await else {
        panic!("no progress");
    };
    assert!(line.contains("step 1"), "{line}");
    let forever = child.test.call_with("fs", "slow", "{}", &events, &cancel);
    let stop = async {
        while let Some(event) = seen.recv().await {
            if matches!(event, CallEvent::Progress(line) if line.contains("step 2")) {
                cancel.cancel();
                break;
            }
        }
    };
    let (called, ()) = tokio::join!(forever, stop);
    assert_eq!(called, Err(aish::mcp::CallError::Interrupted));
    until("the server got the cancellation", || {
        child.log().contains("fake: cancelled")
    })
    .await;
    child.end().await;
}

#[tokio::test]
async fn elicitation_reaches_the_person_and_the_answer_the_server() {
    let child = StdioTest::new("plain").await;
    let (events, mut seen) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let arguments = json!({"message": "Who are you?"}).to_string();
    let call = child
        .test
        .call_with("fs", "elicit", &arguments, &events, &cancel);
    let person = async {
        let Some(CallEvent::Elicit(asked, answer)) = seen.recv().await else {
            panic!("no question reached the person");
        };
        assert_eq!(
            (asked.server.as_str(), asked.message.as_str()),
            ("fs", "Who are you?")
        );
        let result = json!({"name": "me"});
        answer
            .send(ElicitationResponse::Accept(Some(result)))
            .unwrap();
    };
    let (called, ()) = tokio::join!(call, person);
    let result: Value = serde_json::from_str(&called.unwrap().text).unwrap();
    assert_eq!(
        result,
        json!({"action": "accept", "content": {"name": "me"}})
    );
    child.end().await;
}

#[tokio::test]
async fn changed_tool_list_of_a_stdio_server_is_fetched_again() {
    let child = StdioTest::new("plain").await;
    let before = child.test.state("fs").tools;
    assert_eq!(child.call_text("grow", json!({})).await, "grown");
    child.test.until_tools("fs", before + 1).await;
    let catalog = child.test.pool.catalog(PATIENCE).await;
    assert!(names(&catalog).contains(&"fs.more"));
    child.end().await;
}

#[tokio::test]
async fn resources_and_prompts_of_a_stdio_server() {
    let child = StdioTest::new("plain").await;
    let (pool, cancel) = (&child.test.pool, CancellationToken::new());
    let resources = pool.resources(Some("fs"), &cancel).await.unwrap();
    assert_eq!(resources[0].uri, "fake://one");
    let text = pool
        .resource("fs", "fake://one", 100, &cancel)
        .await
        .unwrap();
    assert_eq!(text, "the text of one");
    let prompts = pool.prompts(Some("fs"), &cancel).await.unwrap();
    assert_eq!(prompts[0].name, "fs.greet");
    let who = [("who".to_owned(), "the world".to_owned())];
    let text = pool.prompt("fs", "greet", &who, &cancel).await.unwrap();
    assert_eq!(text, "Greet the world.");
    child.end().await;
}

#[tokio::test]
async fn many_servers_start_and_end_at_once() {
    let child = StdioTest::new("plain").await;
    let begun = Instant::now();
    for i in 0..12 {
        let mut server = child.server.clone();
        server.alias = format!("s{i}");
        let credentials = ServerCredentials {
            bearer: None,
            env: vec![path()],
        };
        child
            .test
            .pool
            .start(server, true, async { Ok(credentials) });
    }
    let catalog = child.test.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 13 * 11);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(child.pids().len(), 13);
    child.end().await;
}

/// A daemon with a stdio server, and the ids of the server's processes.
fn daemon(behaviour: &str) -> (Helper, Vec<i32>) {
    let helper = Helper::saying("fine");
    let starts = helper.path("starts");
    helper.config(&format!(
        "[mcp.servers.fs]\ncommand = {:?}\nargs = [{behaviour:?}, {starts:?}]\n\
         env = {{ KEY = \"$MY_KEY\", PLAIN = \"as it is\" }}\n",
        example("mcp-fake-stdio")
    ));
    let call = helper
        .call(["mcp", "tools", "fs", "--json"])
        .env("MY_KEY", "sk-12345678")
        .env("OTHER_KEY", "sk-87654321");
    let tools = call.run().json();
    assert_eq!(tools[0]["name"], "fs.echo", "{tools}");
    let pids = std::fs::read_to_string(starts).unwrap();
    let pids = pids.lines().map(|l| l.parse().unwrap()).collect();
    (helper, pids)
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn daemon_passes_the_configured_environment_and_ends_the_server() {
    let (helper, pids) = daemon("ignore-term");
    let environ = std::fs::read_to_string(format!("/proc/{}/environ", pids[0])).unwrap();
    let mut given: Vec<&str> = environ.split_terminator('\0').collect();
    given.retain(|v| {
        let base = [
            "HOME", "LOGNAME", "USER", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
            "TMPDIR", "TERM",
        ];
        !v.split_once('=')
            .is_some_and(|(name, _)| base.contains(&name))
    });
    given.sort_unstable();
    assert_eq!(given, ["AISH_CHILD=1", "KEY=sk-12345678", "PLAIN=as it is"]);
    let fds = std::fs::read_dir(format!("/proc/{}/fd", pids[0])).unwrap();
    let mut fds: Vec<_> = fds.map(|fd| fd.unwrap().file_name()).collect();
    fds.sort();
    assert_eq!(fds, ["0", "1", "2"]);
    let begun = Instant::now();
    helper.call(["stop"]).run().ok();
    until("the server is gone", || !pids.iter().any(|pid| lives(*pid))).await;
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn server_ends_after_the_daemon_is_killed() {
    let (helper, pids) = daemon("plain");
    helper.kill_daemon();
    until("the server is gone", || !pids.iter().any(|pid| lives(*pid))).await;
}
