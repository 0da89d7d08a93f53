//! Servers that are children: what they get, how they end, and what stays of them. Nothing may.

use std::collections::BTreeMap;
use std::time::Duration;

use aish::config::mcp::{Lifecycle, Server, Transport};
use aish::mcp::{CallEvent, Credentials, Elicited, Status};
use aish::secret::Secret;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Bench, PATIENCE, failure, names};
use crate::support::example;
use crate::support::helper::Helper;

/// A pool with one such server, whose first try has ended.
struct Child {
    bench: Bench,
    server: Server,
}

impl Child {
    async fn new(behaviour: &str) -> Child {
        Child::with(behaviour, Lifecycle::Legacy).await
    }

    async fn with(behaviour: &str, lifecycle: Lifecycle) -> Child {
        let child = Child::unsettled(behaviour, lifecycle);
        child.bench.pool.catalog(PATIENCE).await;
        child
    }

    fn unsettled(behaviour: &str, lifecycle: Lifecycle) -> Child {
        let bench = Bench::new();
        let starts = bench.state.path().join("starts");
        let mut server = Server::at("fs", "");
        server.transport = Transport::Stdio {
            command: example("mcp-fake-stdio").to_str().unwrap().to_owned(),
            args: vec![behaviour.to_owned(), starts.to_str().unwrap().to_owned()],
            env: Vec::new(),
        };
        server.lifecycle = lifecycle;
        let child = Child { bench, server };
        child.start(&[]);
        child
    }

    fn start(&self, env: &[(&str, &str)]) {
        let env = env.iter().map(|(n, v)| ((*n).to_owned(), Secret::new(*v)));
        let credentials = Credentials {
            bearer: None,
            env: env.chain([path()]).collect(),
        };
        let start = async { Ok(credentials) };
        self.bench.pool.start(self.server.clone(), true, start);
    }

    async fn says(&self, tool: &str, arguments: Value) -> String {
        let called = self.bench.call("fs", tool, &arguments.to_string()).await;
        called.unwrap().text
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.state.path().join(name)).unwrap_or_default()
    }

    fn log(&self) -> String {
        self.file("mcp-fs.log")
    }

    /// The processes that were started so far, with those that they have started.
    fn pids(&self) -> Vec<i32> {
        let starts = self.file("starts");
        let whole = starts.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|l| l.parse().unwrap()).collect()
    }

    async fn started(&self, count: usize) -> Vec<i32> {
        until("so many have started", || self.pids().len() >= count).await;
        self.pids()
    }

    /// Ends everything; nothing is left, and the server has found nothing to complain of.
    async fn end(self) -> Duration {
        let (pids, log) = (self.pids(), self.log());
        assert!(!log.contains("violation:"), "{log}");
        let begun = Instant::now();
        self.bench.end().await;
        let took = begun.elapsed();
        until("all are gone", || !pids.iter().any(|pid| lives(*pid))).await;
        took
    }
}

fn path() -> (String, Secret) {
    ("PATH".to_owned(), Secret::new("/usr/bin:/bin"))
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A zombie that nobody has reaped still lives, unless it is a grandchild: those are init's.
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
async fn a_server_is_started_listed_called_and_ended() {
    let child = Child::new("plain").await;
    let state = child.bench.state("fs");
    assert_eq!(state.status, Status::Ready, "{state:?}");
    assert_eq!(state.version.as_deref(), Some("fake 1.2.3"));
    assert_eq!(state.protocol.as_deref(), Some("2025-11-25"));
    let catalog = child.bench.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog)[..2], ["fs.echo", "fs.add"]);
    assert_eq!(child.says("add", json!({"a": 2, "b": 40})).await, "42");
    let calls = (0..50).map(|i| child.says("echo", json!({"text": i.to_string()})));
    let said = futures_of(calls).await;
    assert_eq!(said, (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!(child.pids().len(), 1, "one process for all calls");
    assert!(
        child.end().await < Duration::from_millis(500),
        "it is told to leave, and does"
    );
}

/// All at once.
async fn futures_of<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
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
async fn its_environment_is_what_was_listed_and_nothing_else() {
    let child = Child::new("plain").await;
    child.start(&[("API_KEY", "sk-12345678"), ("EMPTY", "")]);
    let pids = child.started(2).await;
    child.bench.pool.catalog(PATIENCE).await;
    let said: Value = serde_json::from_str(&child.says("env", json!({})).await).unwrap();
    assert_eq!(
        said["env"],
        json!({"API_KEY": "sk-12345678", "EMPTY": "", "PATH": "/usr/bin:/bin"})
    );
    assert_eq!(said["pid"], pids[1]);
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        said["cwd"],
        here.to_str().unwrap(),
        "ours, where there is no HOME"
    );
    assert_eq!(
        said["group"], said["pid"],
        "signals of a terminal go to other groups"
    );
    child.end().await;
}

#[tokio::test]
async fn it_begins_at_home() {
    let child = Child::new("plain").await;
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (there, gone) = (home.to_str().unwrap(), home.join("gone"));
    let here = std::env::current_dir().unwrap();
    for (home, cwd) in [
        (there, there),
        (gone.to_str().unwrap(), here.to_str().unwrap()),
    ] {
        child.start(&[("HOME", home)]);
        child.bench.pool.catalog(PATIENCE).await;
        let said: Value = serde_json::from_str(&child.says("env", json!({})).await).unwrap();
        assert_eq!(said["cwd"], cwd);
    }
    child.end().await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn what_it_complains_of_goes_to_its_log_and_no_terminal() {
    use std::os::unix::fs::PermissionsExt as _;
    let child = Child::new("plain").await;
    assert_eq!(child.log(), "fake: plain begins\n");
    let log = child.bench.state.path().join("mcp-fs.log");
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
async fn noise_on_its_output_is_skipped_and_kept_in_its_log() {
    let child = Child::new("noise").await;
    assert_eq!(
        child.says("echo", json!({"text": "through"})).await,
        "through"
    );
    let log = child.log();
    assert!(log.contains("Server running on stdio\n"), "{log}");
    child.end().await;
}

#[tokio::test]
async fn answers_that_nobody_asked_for_do_no_harm() {
    let child = Child::new("wrong-id").await;
    assert_eq!(child.says("echo", json!({"text": "b"})).await, "b");
    child.end().await;
}

#[tokio::test]
async fn one_that_exits_at_once_is_told_of_in_a_line_and_tried_again() {
    let child = Child::new("exit-at-once").await;
    let why = "it exited with 3; its last words: cannot find my config";
    let state = child.bench.until("fs", Status::Failed).await;
    assert_eq!(state.error.as_deref(), Some(why));
    child.started(3).await;
    child.end().await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    let mut child = Child::new("plain").await;
    let Transport::Stdio { command, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *command = "no-such-server".into();
    child.start(&[]);
    child.bench.pool.catalog(PATIENCE).await;
    let error = child.bench.until("fs", Status::Failed).await.error.unwrap();
    assert_eq!(
        error,
        "cannot start no-such-server: No such file or directory (os error 2)"
    );
    child.end().await;
}

#[tokio::test]
async fn one_that_ignores_all_signals_is_gone_within_a_second_or_so() {
    let child = Child::new("ignore-term").await;
    assert_eq!(child.says("echo", json!({"text": "a"})).await, "a");
    let took = child.end().await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn what_it_has_started_goes_with_it() {
    let child = Child::new("grandchild").await;
    assert_eq!(child.pids().len(), 2);
    child.end().await;
    // And when it ends by itself.
    let child = Child::new("grandchild").await;
    let pids = child.pids();
    let why = failure(child.bench.call("fs", "die", r#"{"code":4}"#).await);
    assert_eq!(why, "it exited with 4; its last words: fake: as you wish");
    until("the grandchild is gone", || {
        !pids.iter().any(|pid| lives(*pid))
    })
    .await;
    child.end().await;
}

#[tokio::test]
async fn one_that_dies_is_started_again() {
    let child = Child::new("crash-after-2").await;
    for _ in 0..2 {
        assert_eq!(child.says("echo", json!({"text": "a"})).await, "a");
    }
    let why = failure(child.bench.call("fs", "echo", "{}").await);
    assert_eq!(
        why,
        "it exited with 9; its last words: fake: that was one call too many"
    );
    child.started(2).await;
    child.bench.until("fs", Status::Ready).await;
    assert_eq!(child.says("echo", json!({"text": "again"})).await, "again");
    child.end().await;
}

#[tokio::test]
async fn a_line_of_64_mb_ends_the_connection_and_the_next_call_works() {
    let child = Child::new("plain").await;
    let call = child
        .bench
        .call("fs", "line", r#"{"bytes":67108864}"#)
        .await;
    assert_eq!(failure(call), "it sent a line of more than 16 MB");
    child.started(2).await;
    child.bench.until("fs", Status::Ready).await;
    assert_eq!(child.says("echo", json!({"text": "again"})).await, "again");
    child.end().await;
}

#[tokio::test]
async fn large_results_come_through_and_are_cut() {
    let child = Child::new("plain").await;
    let called = child
        .bench
        .call("fs", "big", r#"{"bytes":15000000}"#)
        .await
        .unwrap();
    assert_eq!(called.bytes, 15_000_000);
    assert!(called.text.len() <= 1 << 20);
    assert!(called.text.ends_with(" of 15000000 bytes left out]"));
    child.end().await;
}

/// What comes from a server is passed on as it is, for a model; what is said of it goes through the sink.
#[tokio::test]
async fn escape_sequences_stay_in_the_text_and_out_of_lines_of_our_own() {
    let evil = "\x1b]0;owned\x07\x1b[2J\u{202e}evil\u{200b}";
    let child = Child::new("plain").await;
    let catalog = child.bench.pool.catalog(PATIENCE).await;
    let tool = catalog.find("fs.escapes").unwrap();
    assert_eq!(tool.description, evil);
    assert_eq!(child.says("escapes", json!({})).await, evil);
    let why = failure(child.bench.call("fs", "echo\u{1b}[2J", "{}").await);
    assert_eq!(why.lines().count(), 1, "{why}");
    child.end().await;
}

/// A value of its environment that it prints is in no error and no log.
#[tokio::test]
async fn its_secrets_stay_secret() {
    let mut child = Child::new("plain").await;
    let Transport::Stdio { command, args, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *command = "sh".into();
    *args = vec!["-c".into(), "echo bad key: $KEY >&2; exit 1".into()];
    child.start(&[("KEY", "sk-12345678")]);
    child.bench.pool.catalog(PATIENCE).await;
    let error = child.bench.until("fs", Status::Failed).await.error.unwrap();
    assert_eq!(
        error,
        "it exited with 1; its last words: bad key: [REDACTED]"
    );
    assert!(!child.log().contains("sk-12345678"));
    // One that complains where messages should be.
    let Transport::Stdio { args, .. } = &mut child.server.transport else {
        unreachable!()
    };
    *args = vec!["-c".into(), "echo usage: $KEY; exit 2".into()];
    child.start(&[("KEY", "sk-12345678")]);
    child.bench.pool.catalog(PATIENCE).await;
    let error = child.bench.until("fs", Status::Failed).await.error.unwrap();
    assert_eq!(error, "it exited with 2; its last words: usage: [REDACTED]");
    child.end().await;
}

#[tokio::test]
async fn an_answer_that_is_no_json_fails_its_call_at_once() {
    let child = Child::new("plain").await;
    let why = failure(child.bench.call("fs", "torn", "{}").await);
    assert!(why.starts_with("its answer cannot be read: "), "{why}");
    assert_eq!(child.says("echo", json!({"text": "a"})).await, "a");
    assert_eq!(child.pids().len(), 1);
    child.end().await;
}

#[tokio::test]
async fn one_that_hangs_at_the_start_holds_up_nobody_for_long() {
    let child = Child::unsettled("hang", Lifecycle::Legacy);
    let begun = Instant::now();
    let catalog = child.bench.pool.catalog(Duration::from_secs(1)).await;
    assert!(begun.elapsed() < Duration::from_millis(1500));
    assert_eq!(
        catalog.without,
        [("fs".to_owned(), "still starting".to_owned())]
    );
    child.started(1).await;
    let took = child.end().await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn the_ways_to_begin() {
    for (behaviour, lifecycle, protocol, starts) in [
        ("plain", Lifecycle::Auto, "2025-11-25", 1),
        ("modern", Lifecycle::Auto, "2026-07-28", 1),
        ("modern", Lifecycle::Modern, "2026-07-28", 1),
        // Started again, and asked in the old way.
        ("exit-at-discover", Lifecycle::Auto, "2025-11-25", 2),
        ("exit-at-discover", Lifecycle::Legacy, "2025-11-25", 1),
        ("ignore-discover", Lifecycle::Legacy, "2025-11-25", 1),
    ] {
        let case = format!("{behaviour} {lifecycle:?}");
        let begun = Instant::now();
        let child = Child::with(behaviour, lifecycle).await;
        let state = child.bench.state("fs");
        assert_eq!(
            state.protocol.as_deref(),
            Some(protocol),
            "{case} {state:?}"
        );
        assert_eq!(
            child.says("echo", json!({"text": "a"})).await,
            "a",
            "{case}"
        );
        assert_eq!(child.pids().len(), starts, "{case}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{case}");
        child.end().await;
    }
    let child = Child::with("plain", Lifecycle::Modern).await;
    child.bench.until("fs", Status::Failed).await;
    child.end().await;
}

#[tokio::test]
async fn one_that_ignores_discovery_costs_ten_seconds_and_is_not_started_again() {
    let begun = Instant::now();
    let child = Child::with("ignore-discover", Lifecycle::Auto).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(child.says("echo", json!({"text": "a"})).await, "a");
    assert_eq!(child.pids().len(), 1);
    child.end().await;
}

#[tokio::test]
async fn how_far_a_call_has_got_is_told_and_it_can_be_stopped() {
    let child = Child::new("plain").await;
    let (events, mut seen) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let call = child
        .bench
        .call_with("fs", "slow", r#"{"steps":3}"#, &events, &cancel);
    assert_eq!(call.await.unwrap().text, "3 steps");
    let Some(CallEvent::Progress(line)) = seen.recv().await else {
        panic!("no progress");
    };
    assert!(line.contains("step 1"), "{line}");
    let forever = child.bench.call_with("fs", "slow", "{}", &events, &cancel);
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
    until("the server knows", || {
        child.log().contains("fake: cancelled")
    })
    .await;
    child.end().await;
}

#[tokio::test]
async fn what_it_asks_reaches_the_person_and_the_answer_it() {
    let child = Child::new("plain").await;
    let (events, mut seen) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let arguments = json!({"message": "Who are you?"}).to_string();
    let call = child
        .bench
        .call_with("fs", "elicit", &arguments, &events, &cancel);
    let person = async {
        let Some(CallEvent::Elicit(asked, answer)) = seen.recv().await else {
            panic!("nobody asks");
        };
        assert_eq!(
            (asked.server.as_str(), asked.message.as_str()),
            ("fs", "Who are you?")
        );
        let said = json!({"name": "me"});
        answer.send(Elicited::Accept(Some(said))).unwrap();
    };
    let (called, ()) = tokio::join!(call, person);
    let said: Value = serde_json::from_str(&called.unwrap().text).unwrap();
    assert_eq!(said, json!({"action": "accept", "content": {"name": "me"}}));
    child.end().await;
}

#[tokio::test]
async fn a_list_that_changes_is_asked_for_again() {
    let child = Child::new("plain").await;
    assert_eq!(child.says("grow", json!({})).await, "grown");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let catalog = child.bench.pool.catalog(PATIENCE).await;
        if names(&catalog).contains(&"fs.more") {
            break;
        }
        assert!(Instant::now() < deadline, "no new list");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child.end().await;
}

#[tokio::test]
async fn resources_and_prompts_can_be_read() {
    let child = Child::new("plain").await;
    let (pool, cancel) = (&child.bench.pool, CancellationToken::new());
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
async fn many_start_at_once_and_end_at_once() {
    let child = Child::new("plain").await;
    let begun = Instant::now();
    for i in 0..12 {
        let mut server = child.server.clone();
        server.alias = format!("s{i}");
        let credentials = Credentials {
            bearer: None,
            env: vec![path()],
        };
        child
            .bench
            .pool
            .start(server, true, async { Ok(credentials) });
    }
    let catalog = child.bench.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 13 * 11);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(child.pids().len(), 13);
    child.end().await;
}

/// A whole daemon, whose config has such a server.
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
async fn the_daemon_gives_it_what_the_config_lists_and_takes_it_along() {
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
    assert_eq!(given, ["KEY=sk-12345678", "PLAIN=as it is"]);
    let fds = std::fs::read_dir(format!("/proc/{}/fd", pids[0])).unwrap();
    let mut fds: Vec<_> = fds.map(|fd| fd.unwrap().file_name()).collect();
    fds.sort();
    assert_eq!(fds, ["0", "1", "2"]);
    let begun = Instant::now();
    helper.call(["stop"]).run().ok();
    until("it is gone", || !pids.iter().any(|pid| lives(*pid))).await;
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_daemon_that_is_killed_closes_its_input() {
    let (helper, pids) = daemon("plain");
    helper.kill_daemon();
    until("it is gone", || !pids.iter().any(|pid| lives(*pid))).await;
}
