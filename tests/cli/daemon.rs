//! The daemon and its clients: started, stopped, replaced, frozen, and many concurrently.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use aish::protocol::{self, FrameDecoder, Hello, Request, kind};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::cli::prompt::half;
use crate::fakes::provider::{Part, Script, text_event};
use crate::support::helper::{Helper, RunningProgram};

#[test]
fn what_a_detached_daemon_says_before_an_abort_is_in_its_log() {
    let helper = Helper::saying("x");
    helper.call(["start"]).run().ok();
    let stderr = format!("/proc/{}/fd/2", helper.daemon());
    let target = std::fs::read_link(stderr).expect("the daemon's stderr");
    assert_eq!(
        target,
        helper
            .path("state/daemon.log")
            .canonicalize()
            .expect("the log")
    );
}

/// Reads frames of a socket until one of this kind comes.
fn frame(socket: &mut UnixStream, decoder: &mut FrameDecoder, wanted: u8) -> Vec<u8> {
    let mut buffer = [0; 4096];
    loop {
        while let Some((kind, body)) = decoder.next_frame().expect("frames") {
            if kind == wanted {
                return body.to_vec();
            }
        }
        let n = socket.read(&mut buffer).expect("a frame");
        assert!(n > 0, "the peer closed the connection");
        decoder.push(&buffer[..n]);
    }
}

/// The hello frame of another version.
fn hello(version: &str, leaving: bool) -> Vec<u8> {
    let hello = Hello {
        version: version.to_owned(),
        leaving,
        ..Hello::current()
    };
    protocol::json_frame(kind::HELLO, &hello).expect("a frame")
}

impl Helper {
    /// Listens on the socket of the daemon.
    pub(super) fn listen(&self) -> UnixListener {
        use std::os::unix::fs::DirBuilderExt;
        let mut dir = std::fs::DirBuilder::new();
        dir.mode(0o700).create(self.path("run")).expect("run");
        UnixListener::bind(self.path("run/sock")).expect("a socket")
    }

    /// Takes the instance lock of the daemon.
    pub(super) fn lock(&self) -> Flock<std::fs::File> {
        let file = std::fs::File::create(self.path("run/lock")).expect("a lock file");
        Flock::lock(file, FlockArg::LockExclusiveNonblock).expect("the lock")
    }

    /// Sends requests to the daemon like a client of another version.
    fn greet(&self, version: &str, read_only: bool) -> (UnixStream, FrameDecoder, Hello) {
        let mut socket = UnixStream::connect(self.path("run/sock")).expect("the daemon");
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        let hello = Hello {
            version: version.to_owned(),
            read_only,
            ..Hello::current()
        };
        let hello = protocol::json_frame(kind::HELLO, &hello).expect("a frame");
        socket.write_all(&hello).expect("a hello");
        let request = protocol::json_frame(
            kind::REQUEST,
            &Request::Sessions {
                limit: 1,
                search: None,
            },
        );
        socket
            .write_all(&request.expect("a frame"))
            .expect("a request");
        let mut decoder = FrameDecoder::default();
        let body = frame(&mut socket, &mut decoder, kind::HELLO);
        (socket, decoder, protocol::parse(&body).expect("a hello"))
    }

    fn asking(&self, shell: &str) -> RunningProgram {
        self.call(["ask", "--shell", shell, "x"]).start()
    }
}

#[test]
fn start_stop_and_status_report_the_daemon() {
    let helper = Helper::saying("ok");
    let run = |args: &[&str]| helper.call(args).run();
    assert_eq!(
        run(&["status", "--json"]).json(),
        json!({"running": false, "recording": null})
    );
    assert!(run(&["status"]).ok().contains("is not running"));
    assert_eq!(run(&["stop"]).ok(), "the daemon is not running\n");
    assert!(helper.listener().is_none());
    run(&["start"]).ok();
    let pid = helper.daemon();
    run(&["start"]).ok();
    assert_eq!(helper.daemon(), pid);
    helper.ask("x");
    let status = run(&["status", "--json"]).json();
    assert_eq!(status["running"], true);
    assert_eq!(status["pid"], pid.as_raw());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["model"], "fake");
    assert_eq!(status["endpoint"], helper.provider.base_url());
    assert_eq!(status["sessions"], 1);
    assert_eq!(status["turns"], 0);
    assert_eq!(
        status["socket"],
        &*helper.path("run/sock").to_string_lossy()
    );
    assert!(status["memory_bytes"].as_u64().unwrap() > 1_000_000);
    assert!(status["journal_bytes"].as_u64().unwrap() > 100);
    assert!(run(&["status"]).ok().contains(&format!("pid {pid}")));
    assert_eq!(run(&["stop"]).ok(), "the daemon has stopped\n");
    assert!(helper.listener().is_none());
    assert!(!helper.path("run/sock").exists());
}

#[test]
fn a_stop_waits_for_running_turns() {
    let helper = Helper::new([half("on"), Script::tokens(["ok"])]);
    let ask = helper.asking("s1");
    ask.stdout.wait_text("half ");
    let mut stop = helper.call(["stop"]).start();
    stop.stderr.wait_text("waiting for the daemon");
    // A new client waits for the next daemon.
    let mut next = helper.asking("s2");
    next.stderr.wait_text("waiting for the daemon");
    assert!(stop.runs() && next.runs());
    helper.provider.open("on");
    assert_eq!(ask.finish().ok(), "half whole\n");
    assert_eq!(stop.finish().ok(), "the daemon has stopped\n");
    assert_eq!(next.finish().ok(), "ok\n");
}

#[test]
fn a_stop_now_interrupts_running_turns() {
    let helper = Helper::new([half("never"), half("never")]);
    let ask = helper.asking("s1");
    ask.stdout.wait_text("half ");
    helper.call(["stop", "--now"]).run().ok();
    let run = ask.finish();
    assert_eq!((run.code, &*run.stdout), (130, "half \n"), "{run:?}");
    assert_eq!(helper.records_of("assistant")[0]["finish"], "interrupted");

    // It also ends a stop that waits for a turn.
    let ask = helper.asking("s1");
    ask.stdout.wait_text("half ");
    let stop = helper.call(["stop"]).start();
    stop.stderr.wait_text("waiting for the daemon");
    assert_eq!(
        helper.call(["stop", "--now"]).run().ok(),
        "the daemon has stopped\n"
    );
    stop.finish().ok();
    assert_eq!(ask.finish().code, 130);
}

#[test]
fn a_stop_now_does_not_wait_for_a_file_that_does_not_answer() {
    let helper = Helper::saying("ok");
    // Stands for a file system that does not answer. Retention looks at the recordings when the daemon starts.
    let recording = helper.path("data/recordings/0198f3c2-0000-7000-8000-0123456789ab");
    std::fs::create_dir_all(&recording).unwrap();
    let events = recording.join("events.jsonl");
    nix::unistd::mkfifo(&events, nix::sys::stat::Mode::S_IRWXU).unwrap();
    helper.call(["start"]).run().ok();
    let daemon = helper.daemon();
    let stopped = helper.call(["stop", "--now"]).run().ok();
    assert_eq!(stopped, "the daemon has stopped\n");
    helper.until("the daemon has ended", || kill(daemon, None).is_err());
}

#[test]
fn a_client_that_waits_for_a_key_can_be_interrupted() {
    let helper = Helper::saying("ok");
    let gate = helper.home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let began = helper.home.path("began");
    helper.config(&format!(
        "[models.slow]\nbase_url = \"{}\"\nmodel = \"m\"\nkey_cmd = \"touch {}; cat {}\"\n",
        helper.provider.base_url(),
        began.display(),
        gate.display()
    ));
    let ask = || {
        let call = helper.call(["ask", "--shell", "s1", "-m", "slow", "x"]);
        let ask = call.start();
        helper.until("the key is fetched", || began.exists());
        std::fs::remove_file(&began).unwrap();
        ask
    };
    let first = ask();
    first.signal(Signal::SIGINT);
    assert_eq!(first.finish().code, 130);
    // The shell is free immediately, for this model and for others.
    assert_eq!(helper.ask("x"), "ok\n");
    let second = ask();
    second.signal(Signal::SIGKILL);
    assert_eq!(helper.ask("x"), "ok\n");
    let third = ask();
    helper.call(["stop", "--now"]).run().ok();
    assert_eq!(third.finish().code, 130);
}

#[test]
fn a_slow_model_server_is_reported() {
    let helper = Helper::new([]);
    let (script, gate) = (helper.path("server.py"), helper.path("gate"));
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let server = r#"
import http.server, os, sys, threading
open(sys.argv[2]).close()
# As a server of ours must: end with the daemon, however that ends.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        self.do_GET()
        self.wfile.write(b'{"choices":[{"message":{"content":"ok"}}]}')
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;
    std::fs::write(&script, server).unwrap();
    helper.config_file(&format!(
        "default_model = \"own\"\n[models.own]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\nserve = {{ command = [\"python3\", {script:?}, \"{{port}}\", {gate:?}] }}\n"
    ));
    let ask = helper.call(["ask", "x"]).start();
    ask.stderr.wait_text("starting the server of model own");
    // Opened for reading and writing, so that the open does not block.
    let _opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&gate)
        .unwrap();
    assert_eq!(ask.finish().ok(), "ok\n");
}

#[test]
fn prompts_during_restarts_succeed() {
    let helper = Helper::saying("ok");
    helper.call(["start"]).run().ok();
    let mut asks = Vec::new();
    for round in 0..4 {
        let restart = helper.call(["restart"]).start();
        asks.extend((0..5).map(|n| helper.asking(&format!("s{round}-{n}"))));
        restart.finish().ok();
    }
    for ask in asks {
        assert_eq!(ask.finish().ok(), "ok\n");
    }
    assert_eq!(helper.sessions().len(), 20);
    assert_eq!(processes(&helper, "daemon"), [helper.daemon().as_raw()]);
}

#[test]
fn files_are_accessible_only_to_their_user() {
    use std::os::unix::fs::MetadataExt;
    let helper = Helper::saying("ok");
    helper.ask("x");
    let mut all: Vec<_> = ["data", "state", "run"].map(|n| helper.path(n)).into();
    let mut n = 0;
    while let Some(path) = all.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(meta.mode() & 0o077, 0, "{}", path.display());
        if meta.is_dir() {
            all.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        n += 1;
    }
    assert!(n > 8, "{n}");
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let flood = Part::Repeat(text_event("word ").into_bytes(), 1_000_000);
    let helper = Helper::new([Script::events([flood]), Script::tokens(["ok"])]);
    let ask = helper.asking("s1");
    ask.stdout.wait_text("word ");
    ask.signal(Signal::SIGSTOP);
    // Other clients are served.
    let call = helper.call(["ask", "--shell", "s2", "x"]);
    assert_eq!(call.run().ok(), "ok\n");
    helper.call(["stop", "--now"]).run().ok();
    assert!(helper.listener().is_none());
    ask.signal(Signal::SIGCONT);
    assert_ne!(ask.finish().code, 0);
}

#[test]
fn a_frozen_daemon_is_reported_and_can_be_replaced() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    let frozen = helper.daemon();
    kill(frozen, Signal::SIGSTOP).unwrap();
    let since = Instant::now();
    let error = helper.asking("s1").finish().fails(1);
    assert!(since.elapsed() < Duration::from_secs(25));
    assert!(error.contains(&format!("process {frozen}")), "{error}");
    assert!(error.contains("aish-helper restart"), "{error}");
    // Ctrl-C ends a waiting client.
    let asking = helper.asking("s1");
    asking.signal(Signal::SIGINT);
    assert_eq!(asking.finish().code, 130);
    helper.call(["restart"]).run().ok();
    assert_ne!(helper.daemon(), frozen);
    helper.ask("x");
    assert_eq!(helper.messages(1).len(), 4);
}

#[test]
fn files_of_a_dead_daemon_do_not_block_the_next_one() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    helper.kill_daemon();
    assert!(helper.path("run/sock").exists());
    assert_eq!(
        helper.call(["status", "--json"]).run().json()["running"],
        false
    );
    helper.ask("x");
    helper.kill_daemon();
    // A file that is not the FIFO is not overwritten.
    std::fs::remove_file(helper.path("run/events")).unwrap();
    std::fs::write(helper.path("run/events"), "mine").unwrap();
    let error = helper.asking("s1").finish().fails(1);
    assert!(error.contains("run/events is in the way"), "{error}");
    std::fs::remove_file(helper.path("run/events")).unwrap();
    // A socket of another program.
    // The failed daemon may have removed its own socket.
    let _ = std::fs::remove_file(helper.path("run/sock"));
    drop(UnixListener::bind(helper.path("run/sock")).unwrap());
    helper.ask("x");
    assert_eq!(helper.messages(2).len(), 6);
}

#[test]
fn a_deleted_socket_is_replaced() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    let first = helper.daemon();
    // The daemon holds the lock: it notices the missing socket, and exits.
    std::fs::remove_file(helper.path("run/sock")).unwrap();
    helper.ask("x");
    let second = helper.daemon();
    assert_ne!(first, second);
    // Without the lock the next daemon starts immediately, and its socket stays.
    std::fs::remove_dir_all(helper.path("run")).unwrap();
    helper.ask("x");
    let third = helper.daemon();
    assert_ne!(second, third);
    helper.until("the daemon notices the missing socket", || {
        processes(&helper, "daemon") == [third.as_raw()]
    });
    assert_eq!(helper.listener(), Some(third));
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_inherits_nothing_from_the_process_that_started_it() {
    let helper = Helper::saying("ok");
    let zsh = helper.program("zsh").args(["-fc"]);
    let line = "exec 7>held; aish-helper start";
    zsh.args([line]).run().ok();
    let daemon = helper.daemon();
    let inherited: Vec<_> = std::fs::read_dir(format!("/proc/{daemon}/fd"))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter(|file| file.ends_with("held"))
        .collect();
    assert!(inherited.is_empty(), "{inherited:?}");
}

#[test]
fn many_clients_at_once_get_one_daemon() {
    let helper = Helper::saying("ok");
    let asks: Vec<RunningProgram> = (0..50).map(|n| helper.asking(&format!("s{n}"))).collect();
    for ask in asks {
        assert_eq!(ask.finish().ok(), "ok\n");
    }
    assert_eq!(helper.sessions().len(), 50);
    assert_eq!(processes(&helper, "daemon"), [helper.daemon().as_raw()]);
}

/// Processes of this home with this word on their command line.
pub fn processes(helper: &Helper, word: &str) -> Vec<i32> {
    let home = helper.path("");
    let home = format!(
        "AISH_HOME={}\0",
        home.to_string_lossy().trim_end_matches('/')
    );
    let word = format!("\0{word}\0");
    let mut pids = Vec::new();
    let Ok(all) = std::fs::read_dir("/proc") else {
        return vec![helper.daemon().as_raw()];
    };
    for entry in all.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let args = String::from_utf8_lossy(&read("cmdline")).into_owned();
        let env = String::from_utf8_lossy(&read("environ")).into_owned();
        if args.contains(&word) && env.contains(&home) {
            pids.push(pid);
        }
    }
    pids
}

#[test]
fn an_older_idle_daemon_is_replaced() {
    let helper = Helper::saying("ok");
    let listener = helper.listen();
    let lock = helper.lock();
    let ask = helper.asking("s1");
    let (mut socket, _) = listener.accept().unwrap();
    let body = frame(&mut socket, &mut FrameDecoder::default(), kind::HELLO);
    let theirs: Hello = protocol::parse(&body).unwrap();
    assert!(theirs.is_newer("0.0.9"));
    socket.write_all(&hello("0.0.9", true)).unwrap();
    drop((socket, listener));
    std::fs::remove_file(helper.path("run/sock")).unwrap();
    drop(lock);
    assert_eq!(ask.finish().ok(), "ok\n");
}

#[test]
fn an_older_busy_daemon_is_waited_for() {
    let helper = Helper::saying("ok");
    let listener = helper.listen();
    let lock = helper.lock();
    let mut ask = helper.asking("s1");
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(&hello("0.0.9", true)).unwrap();
    drop((socket, listener));
    std::fs::remove_file(helper.path("run/sock")).unwrap();
    ask.stderr.wait_text("waiting for the daemon");
    assert!(ask.runs());
    drop(lock);
    assert_eq!(ask.finish().ok(), "ok\n");
}

#[test]
fn a_client_survives_a_daemon_that_ends_while_it_connects() {
    let helper = Helper::saying("ok");
    let listener = helper.listen();
    let lock = helper.lock();
    let mut ask = helper.asking("s1");
    // The client is in the backlog and has sent its request.
    listener.set_nonblocking(false).unwrap();
    let waiting = || {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    };
    helper.until("the client is connected", waiting);
    assert!(ask.runs());
    drop(listener);
    std::fs::remove_file(helper.path("run/sock")).unwrap();
    drop(lock);
    assert_eq!(ask.finish().ok(), "ok\n");
}

#[test]
fn a_newer_daemon_serves_an_older_client() {
    let helper = Helper::new([]);
    let listener = helper.listen();
    let _lock = helper.lock();
    let ask = helper.call(["ask", "--shell", "s1", "x"]).start();
    let (mut socket, _) = listener.accept().unwrap();
    let mut decoder = FrameDecoder::default();
    frame(&mut socket, &mut decoder, kind::REQUEST);
    socket.write_all(&hello("99.0.0", false)).unwrap();
    // With an event and fields unknown to this version.
    let event = json!({"type": "turn_started", "session": "s", "model": "m", "mood": "good"});
    let answer = json!({"session": "s", "model": "m", "finish": "stop", "seconds": 0.1,
        "proposals": 0, "new_field": 1});
    let mut frames = protocol::json_frame(kind::EVENT, &event).unwrap();
    frames.extend(protocol::json_frame(kind::EVENT, &json!({"type": "hologram"})).unwrap());
    frames.extend(protocol::text_frame("from the future").unwrap());
    frames.extend(protocol::json_frame(kind::REPLY, &answer).unwrap());
    socket.write_all(&frames).unwrap();
    assert_eq!(ask.finish().ok(), "from the future\n");
}

#[test]
fn a_newer_client_ends_the_daemon_when_it_is_idle() {
    let helper = Helper::new([half("on")]);
    let ask = helper.asking("s1");
    ask.stdout.wait_text("half ");
    let daemon = helper.daemon();
    // An older client is served, and so is a read-only one.
    for (version, read_only) in [("0.0.1", false), ("99.0.0", true)] {
        let (mut socket, mut decoder, ours) = helper.greet(version, read_only);
        assert!(!ours.leaving);
        frame(&mut socket, &mut decoder, kind::REPLY);
    }
    let (_, _, ours) = helper.greet("99.0.0", false);
    assert!(ours.leaving);
    assert_eq!(ours.version, env!("CARGO_PKG_VERSION"));
    let status = helper.call(["status"]).run().ok();
    assert!(status.contains("is shutting down"), "{status}");
    // It exits after its turn has ended.
    assert_eq!(helper.daemon(), daemon);
    helper.provider.open("on");
    assert_eq!(ask.finish().ok(), "half whole\n");
    helper.until("the daemon has exited", || helper.listener().is_none());
}

#[test]
fn bytes_of_another_protocol_do_no_harm() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 64],
        b"\x05\0\0\0H{}{}",
    ] {
        let mut socket = UnixStream::connect(helper.path("run/sock")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        socket.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // Closed, with or without a reset.
        let _ = socket.read_to_end(&mut rest);
    }
    helper.ask("x");
    assert_eq!(helper.messages(1).len(), 4);
}

#[test]
fn a_daemon_in_the_foreground_ends_with_its_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let helper = Helper::new([half("never")]);
        let daemon = helper.call(["daemon", "--foreground"]).start();
        daemon.stderr.wait_text("ready");
        let ask = helper.asking("s1");
        ask.stdout.wait_text("half ");
        assert_eq!(helper.daemon(), daemon.pid);
        daemon.signal(Signal::SIGHUP);
        daemon.signal(signal);
        let run = daemon.finish();
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(ask.finish().code, 130);
        assert_eq!(helper.records_of("assistant")[0]["finish"], "interrupted");
        assert!(!helper.path("run/sock").exists());
    }
}
