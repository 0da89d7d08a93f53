//! Helpers that misbehave: each failure is one clear line, and the next call gets a new worker.

use std::time::{Duration, Instant};

use aish::python::WorkerLimits;
use aish::python::call::{HelperFault, HelperResult};

use super::{TestSession, runs, until};

const TOOLS: &str = r#"
import os, signal, subprocess, sys, threading, time
from pathlib import Path

def _channel():
    for number in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                return number
        except OSError:
            pass

def pid() -> str:
    "Returns the process."
    return str(os.getpid())

def exits():
    "Exits."
    sys.exit(3)

def exits_hard():
    "Exits."
    print("last words")
    os._exit(3)

def crashes():
    "Crashes."
    os.kill(os.getpid(), signal.SIGSEGV)

def recurses():
    "Recurses."
    recurses()

def eats() -> int:
    "Eats memory."
    return len([bytearray(64 << 20) for _ in range(64)])

def garbage():
    "Writes on the channel."
    os.write(_channel(), b"hello\n")
    time.sleep(60)

def other_id():
    "Answers a question that was not asked."
    os.write(_channel(), b'{"id": 99, "text": "x"}\n')
    time.sleep(60)

def forges():
    "Answers its own question, in another form."
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    number = frame.f_locals["request"]["id"]
    os.write(_channel(), b'{"jsonrpc": "2.0", "id": %d, "result": "forged"}\n' % number)
    time.sleep(60)

def calls():
    "Calls another helper, which only code may."
    os.write(_channel(), b'{"call": "pid", "arguments": {}, "id": 1}\n')
    time.sleep(60)

def long_line():
    "Writes a long line on the channel."
    while True:
        os.write(_channel(), b"x" * 65536)

def closes():
    "Closes the channel."
    os.close(_channel())
    time.sleep(60)

def large() -> str:
    "Returns too much."
    return "x" * (9 << 20)

def odd() -> str:
    "Returns what JSON cannot say."
    return object()

def raw() -> bytes:
    "Returns bytes."
    return b"\x00\x01"

def deep() -> list:
    "Returns a list in itself."
    x = []
    x.append(x)
    return x

def stubborn(file: Path):
    "Ignores signals."
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file.write_text(str(os.getpid()))
    while True:
        pass

def stops(file: Path):
    "Stops itself."
    file.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)

def binary():
    "Prints binary data."
    sys.stdout.buffer.write(bytes(range(256)) * 200)
    sys.stdout.buffer.flush()

def floods() -> str:
    "Prints much."
    for i in range(100000):
        print("line", i)
    return "done"

def forks(file: Path) -> str:
    "Leaves a process."
    child = subprocess.Popen(["sleep", "600"])
    file.write_text(str(child.pid))
    return "started"

def forks_itself(file: Path) -> str:
    "Leaves a copy of itself, which returns too."
    child = os.fork()
    if child:
        file.write_text(str(child))
        return "parent"
    time.sleep(600)
    return "child"

def daemon(file: Path) -> str:
    "Leaves a process in a session of its own."
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    file.write_text(str(child.pid))
    while True:
        time.sleep(1)

def threads() -> str:
    "Leaves a thread."
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return "started"

def closes_output():
    "Closes its outputs."
    sys.stdout.close()
    os.close(1)
    os.close(2)
"#;

async fn session() -> TestSession {
    TestSession::with(TOOLS).await
}

/// Calls a function between two calls of `pid`. Returns the result, and whether the worker is still the same.
async fn around(
    session: &TestSession,
    name: &str,
    arguments: &str,
    limit: Option<Duration>,
) -> (Result<HelperResult, HelperFault>, bool) {
    let before = session.text("pid", "{}").await;
    let result = session.call_in("s1", name, arguments, limit).await;
    let after = session.text("pid", "{}").await;
    assert!(before == after || !runs(&before), "{name}: {before} lives");
    (result, before == after)
}

/// The worker gives no answer.
#[tokio::test]
async fn failure_of_the_process_is_one_line() {
    let session = session().await;
    for (name, reason) in [
        ("exits_hard", "exited with code 3 before it had a result"),
        (
            "crashes",
            "was killed by signal 11 (SIGSEGV) before it had a result",
        ),
        ("garbage", "sent something that is not an answer"),
        ("other_id", "sent something that is not an answer"),
        ("forges", "sent something that is not an answer"),
        ("calls", "sent something that is not an answer"),
        ("long_line", "sent a line of more than 8 MB"),
        ("closes", "closed its channel"),
    ] {
        let (result, is_same) = around(&session, name, "{}", None).await;
        let expected = format!("the process of helper {name} {reason}");
        assert_eq!(result, Err(HelperFault::Failed(expected)));
        assert!(!is_same, "{name}");
    }
}

/// The worker answers with an error.
#[tokio::test]
async fn failure_of_the_function_is_one_line() {
    let session = session().await;
    for (name, text, stays) in [
        ("exits", "it called sys.exit(3) (tools.py, line 19)", false),
        (
            "recurses",
            "RecursionError: maximum recursion depth exceeded (tools.py, line 32)",
            false,
        ),
        (
            "eats",
            "MemoryError: it needs more memory than the limit (tools.py, line 36)",
            false,
        ),
        (
            "large",
            "the result is larger than 8 MB; return less, or write it to a file",
            true,
        ),
        (
            "odd",
            "TypeError: the result has the type object, which has no form in JSON",
            true,
        ),
        (
            "raw",
            "TypeError: the result contains bytes that are not a PNG, JPEG or GIF image",
            true,
        ),
        (
            "deep",
            "TypeError: the result is nested more than 64 levels deep",
            true,
        ),
    ] {
        let (result, is_same) = around(&session, name, "{}", None).await;
        let result = result.unwrap();
        assert!(result.is_error);
        assert_eq!((result.text.as_str(), is_same), (text, stays), "{name}");
    }
}

#[tokio::test]
async fn time_limit_ends_what_ignores_signals() {
    let session = session().await;
    let file = session.home.work().join("pid");
    let arguments = serde_json::json!({"file": file}).to_string();
    for name in ["stubborn", "stops", "daemon"] {
        let started = Instant::now();
        let limit = Some(Duration::from_millis(700));
        let (result, is_same) = around(&session, name, &arguments, limit).await;
        let expected =
            format!("the process of helper {name} was killed after 0.7 s without a result");
        assert_eq!(result, Err(HelperFault::Failed(expected)));
        assert!(!is_same);
        // Of `daemon`, the process that left the process group.
        let pid = std::fs::read_to_string(&file).unwrap();
        until("the process is dead", || !runs(&pid)).await;
        assert!(started.elapsed() < Duration::from_secs(15), "{name}");
    }
}

#[tokio::test]
async fn processes_and_threads_do_not_outlive_the_call() {
    let session = session().await;
    let file = session.home.work().join("pid");
    let arguments = serde_json::json!({"file": file}).to_string();
    for (name, text) in [("forks", "started"), ("forks_itself", "parent")] {
        let (result, is_same) = around(&session, name, &arguments, None).await;
        let result = result.unwrap();
        assert_eq!((result.text.as_str(), result.is_error), (text, false));
        assert_eq!(
            result.notes,
            ["the helper left a process running, which was killed"]
        );
        assert!(!is_same);
        let pid = std::fs::read_to_string(&file).unwrap();
        until("the process is dead", || !runs(&pid)).await;
    }
    let (result, is_same) = around(&session, "threads", "{}", None).await;
    let expected = ["the helper left a thread running, which was killed"];
    assert_eq!(result.unwrap().notes, expected);
    assert!(!is_same);
}

#[tokio::test]
async fn output_of_any_kind_is_bounded_text() {
    let mut session = session().await;
    let (result, is_same) = around(&session, "binary", "{}", None).await;
    assert!(!result.unwrap().is_error && is_same);
    let lines = session.printed();
    assert!(lines.len() > 100);
    assert!(lines.iter().all(|line| !line.contains('\n')));
    let (result, is_same) = around(&session, "floods", "{}", None).await;
    assert_eq!((result.unwrap().text.as_str(), is_same), ("done", true));
    let lines = session.printed();
    assert_eq!(lines.len(), 2000);
    assert_eq!(lines[1999], "further output is not shown");
    let (result, _) = around(&session, "closes_output", "{}", None).await;
    assert!(!result.unwrap().is_error);
}

#[tokio::test]
async fn arguments_are_bounded_and_must_be_an_object() {
    let session = session().await;
    for arguments in ["", "[]", "{", "1"] {
        let called = session.call("pid", arguments).await;
        let expected = "the arguments are not a JSON object".to_owned();
        assert_eq!(called, Err(HelperFault::Failed(expected)));
    }
    let large = serde_json::json!({"file": "x".repeat(9 << 20)}).to_string();
    let called = session.call("forks", &large).await;
    let expected = "the arguments of helper forks are larger than 8 MB".to_owned();
    assert_eq!(called, Err(HelperFault::Failed(expected)));
}

#[tokio::test]
async fn interpreter_that_cannot_be_started_is_named() {
    let session = session().await;
    let catalog = session.home.catalog();
    let mut function = (**catalog.find("pid").unwrap()).clone();
    let mut file = (*function.file).clone();
    file.python = session.home.write("python", "#!/nowhere\n");
    function.file = std::sync::Arc::new(file);
    let directory = session.home.work();
    let scope = session.scope("s1", &directory);
    let called = session.workers.call(&function, "{}", scope).await;
    let Err(HelperFault::Failed(reason)) = called else {
        panic!("{called:?}");
    };
    assert!(
        reason.starts_with("the process of helper pid cannot be started: /"),
        "{reason}"
    );
}

#[tokio::test]
async fn processor_time_and_files_are_limited() {
    let limits = WorkerLimits {
        file_bytes: 1 << 20,
        open_files: 32,
        ..WorkerLimits::default()
    };
    let source = r#"
import resource
def writes() -> int:
    "Writes a large file."
    with open("large", "wb") as file:
        return file.write(b"x" * (2 << 20))
def opens() -> int:
    "Opens many files."
    return len([open("/dev/null") for _ in range(100)])
def seconds() -> int:
    "Returns its limit."
    return resource.getrlimit(resource.RLIMIT_CPU)[0]
"#;
    let session = TestSession::limited(source, limits).await;
    let result = session.call("writes", "{}").await.unwrap();
    assert!(
        result.is_error && result.text.contains("File too large"),
        "{result:?}"
    );
    let result = session.call("opens", "{}").await.unwrap();
    assert!(
        result.is_error && result.text.contains("Too many open files"),
        "{result:?}"
    );
    let limit = Some(Duration::from_secs(5));
    let result = session.call_in("s1", "seconds", "{}", limit).await.unwrap();
    let seconds: u64 = result.text.parse().unwrap();
    assert!((5..=10).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn network_is_refused_unless_it_is_declared() {
    let source = r#"
import socket
__aish__ = {"declared": {"network": True}}
def _reach(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return connection.recv(5).decode()
def undeclared(port: int) -> str:
    "Connects."
    return _reach(port)
def declared(port: int) -> str:
    "Connects."
    return _reach(port)
"#;
    let session = TestSession::with(source).await;
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        std::io::Write::write_all(&mut connection, b"hello").unwrap();
    });
    let arguments = serde_json::json!({"port": port}).to_string();
    let result = session.call("undeclared", &arguments).await.unwrap();
    assert!(
        result.is_error && result.text.contains("the network is not allowed here"),
        "{result:?}"
    );
    assert_eq!(session.text("declared", &arguments).await, "hello");
    serving.join().unwrap();
    let tools = session.home.catalog().definitions();
    let open: Vec<Option<bool>> = tools.iter().map(|t| t.annotations.open_world).collect();
    assert_eq!(open, [Some(false), Some(true)]);
}
