//! With a real program that serves `/health`: started, found, lost, stopped and reaped for real.

use std::fs;
use std::path::Path;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use nix::sys::signal::Signal;

use super::*;

/// `server.py PORT MODE`, which leaves a line with its pid in the file `starts`.
const SERVER: &str = r#"
import http.server, os, signal, subprocess, sys, threading, time
port, mode, here = int(sys.argv[1]), sys.argv[2], os.path.dirname(sys.argv[0])
first = not os.path.exists(here + "/starts")
with open(here + "/starts", "a") as f:
    f.write("%d\n" % os.getpid())
with open(here + "/environment", "w") as f:
    f.write("\n".join(sorted(os.environ)))
if mode == "broken":
    print("loading\nno such model: x.gguf\n", flush=True)
    sys.exit(3)
if mode == "robbed" and first:
    thief = subprocess.Popen([sys.executable, "-c", """
import socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
time.sleep(5)
""", str(port)], start_new_session=True, stdout=subprocess.PIPE)
    thief.stdout.readline()
    sys.exit("address in use")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    def end():
        while os.read(0, 100): pass
        os._exit(0)
    threading.Thread(target=end, daemon=True).start()
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        self.send_response(503 if mode == "deaf" or asked < 3 else 200)
        self.end_headers()
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

struct Bench {
    dir: tempfile::TempDir,
    servers: ModelServers,
    python: String,
}

const LONG: Duration = Duration::from_secs(600);

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().expect("a scratch directory");
        fs::write(dir.path().join("server.py"), SERVER).expect("a file");
        let path = std::env::var_os("PATH").expect("PATH");
        let environment = vec![("PATH".into(), path), ("HOME".into(), dir.path().into())];
        let servers = ModelServers::new(dir.path().to_path_buf(), environment);
        Bench {
            dir,
            servers,
            python: python(),
        }
    }

    fn command(&self, mode: &str) -> Vec<String> {
        let script = self.dir.path().join("server.py");
        let script = script.to_str().expect("UTF-8");
        [self.python.as_str(), script, "{port}", mode]
            .map(String::from)
            .to_vec()
    }

    async fn ensure(&self, mode: &str, idle: Duration) -> Result<ServerLease> {
        self.servers.ensure("tiny", &self.command(mode), idle).await
    }

    fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.path().join("starts")).expect("started");
        text.lines().map(|l| l.parse().expect("a pid")).collect()
    }
}

/// Python itself: the program found as `python3` may be a wrapper that sets variables.
fn python() -> String {
    let said = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.executable, end='')"])
        .output()
        .expect("python3");
    String::from_utf8(said.stdout).expect("UTF-8")
}

fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

/// A connection to the server; its end is the server's.
async fn connect(lease: &ServerLease) -> TcpStream {
    let address = lease.base_url().trim_start_matches("http://");
    let address = address.trim_end_matches("/v1");
    TcpStream::connect(address).await.expect("a server")
}

async fn until_closed(mut stream: TcpStream) {
    let mut byte = [0];
    // Closed or reset: either way it has ended.
    let _ = stream.read(&mut byte).await;
}

#[tokio::test]
async fn many_callers_at_once_get_one_server() {
    let bench = Bench::new();
    let mut asking = tokio::task::JoinSet::new();
    let bench = Arc::new(bench);
    for _ in 0..20 {
        let bench = Arc::clone(&bench);
        asking.spawn(async move { bench.ensure("plain", LONG).await });
    }
    let leases: Vec<ServerLease> = asking
        .join_all()
        .await
        .into_iter()
        .map(|lease| lease.expect("a server"))
        .collect();
    assert!(leases.iter().all(|l| l.base_url() == leases[0].base_url()));
    assert_eq!(bench.pids().len(), 1);
    assert_eq!(bench.servers.running(), ["tiny"]);
    bench.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_gets_the_named_variables_only() {
    let bench = Bench::new();
    let _lease = bench.ensure("plain", LONG).await.expect("a server");
    let names = fs::read_to_string(bench.dir.path().join("environment")).expect("names");
    // Python itself adds LC_CTYPE in the C locale.
    let names: Vec<&str> = names.lines().filter(|n| *n != "LC_CTYPE").collect();
    assert_eq!(names, ["HOME", "PATH"]);
    bench.servers.shutdown().await;
}

#[tokio::test]
async fn an_early_end_is_told_with_its_last_line_and_tried_anew() {
    let bench = Bench::new();
    for starts in 1..=2 {
        let e = bench.ensure("broken", LONG).await.expect_err("no server");
        assert_eq!(
            e.message,
            "the server of model tiny ended with exit code 3: no such model: x.gguf"
        );
        let log = bench.dir.path().join("serve-tiny.log");
        assert!(
            e.hint
                .expect("a hint")
                .contains(log.to_str().expect("UTF-8"))
        );
        assert!(
            fs::read_to_string(log)
                .expect("a log")
                .starts_with("loading\n")
        );
        assert_eq!(bench.pids().len(), starts);
        assert!(bench.servers.running().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_is_never_ready_is_given_up_and_ended() {
    let mut bench = Bench::new();
    bench.servers.start_timeout = Duration::from_secs(3);
    let e = bench.ensure("deaf", LONG).await.expect_err("no server");
    assert!(e.message.contains("did not answer /health"), "{e}");
    assert!(!is_alive(bench.pids()[0]));
}

#[tokio::test]
async fn a_port_that_another_program_took_is_tried_again() {
    let bench = Bench::new();
    let _lease = bench.ensure("robbed", LONG).await.expect("a server");
    assert_eq!(bench.pids().len(), 2);
    bench.servers.shutdown().await;
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_started_again_when_needed() {
    let bench = Bench::new();
    let idle = Duration::from_millis(100);
    let lease = bench.ensure("plain", idle).await.expect("a server");
    let stream = connect(&lease).await;
    // Three times the idle time with a lease: it must stay.
    let stays = tokio::time::timeout(idle * 3, until_closed(connect(&lease).await));
    assert!(stays.await.is_err(), "stopped under a lease");
    drop(lease);
    until_closed(stream).await;
    let _lease = bench.ensure("plain", idle).await.expect("a new server");
    assert_eq!(bench.pids().len(), 2);
    bench.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_died_is_replaced() {
    let bench = Bench::new();
    let lease = bench.ensure("plain", LONG).await.expect("a server");
    let stream = connect(&lease).await;
    let pid = nix::unistd::Pid::from_raw(bench.pids()[0]);
    nix::sys::signal::kill(pid, Signal::SIGKILL).expect("killed");
    until_closed(stream).await;
    // The end of the process is seen a moment after that of its sockets.
    while !bench.servers.running().is_empty() {
        tokio::task::yield_now().await;
    }
    let other = bench.ensure("plain", LONG).await.expect("a new server");
    assert_ne!(other.base_url(), lease.base_url());
    bench.servers.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_even_a_server_that_does_not_want_to() {
    let bench = Bench::new();
    let _lease = bench.ensure("stubborn", LONG).await.expect("a server");
    let before = std::time::Instant::now();
    bench.servers.shutdown().await;
    assert!(before.elapsed() < Duration::from_secs(4));
    assert!(!is_alive(bench.pids()[0]));
    let e = bench.ensure("plain", LONG).await.expect_err("none");
    assert!(e.message.contains("aish is stopping"));
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_start() {
    let bench = Arc::new(Bench::new());
    let asking = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.ensure("deaf", LONG).await.err() }
    });
    while !bench.dir.path().join("environment").exists() {
        tokio::task::yield_now().await;
    }
    bench.servers.shutdown().await;
    let e = asking.await.expect("joined").expect("no server");
    assert!(e.message.contains("aish is stopping"), "{e}");
    assert!(!is_alive(bench.pids()[0]));
}

#[tokio::test]
async fn a_wrong_command_is_an_error_that_names_the_setting() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let servers = ModelServers::new(dir.path().to_path_buf(), Vec::new());
    let cases: [(&[&str], &str, u8); 3] = [
        (&[], "serve.command of model a/b is empty", 3),
        (&["server"], "serve.command of model a/b has no {port}", 3),
        (&["/nonexistent/server", "{port}"], "/nonexistent/server", 1),
    ];
    for (command, part, code) in cases {
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        let e = servers
            .ensure("a/b", &command, LONG)
            .await
            .expect_err("no server");
        assert!(e.message.contains(part), "{e}");
        assert_eq!(e.kind.exit_code(), code);
        assert!(servers.running().is_empty());
    }
}

#[test]
fn a_name_with_a_slash_stays_in_the_directory_of_logs() {
    let command = ["s".to_string(), "{port}".to_string()];
    let spec = LaunchSpec::new("../a b", &command, Path::new("/logs"), &[]).expect("a command");
    assert_eq!(spec.log, Path::new("/logs/serve-___a_b.log"));
}
