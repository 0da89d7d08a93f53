//! Calls of helpers: warm workers, progress, cancellation, the end of workers.

use std::time::Duration;

use aish::python::WorkerLimits;
use aish::python::call::HelperFault;

use super::{TestSession, runs, until};

const STATE: &str = r#"
import os, sys
from pathlib import Path
count = 0
def pid() -> str:
    "Returns the process."
    global count
    count += 1
    return f"{os.getpid()} {count}"
def wait(fifo: Path) -> str:
    "Prints, then waits for a writer."
    print("waiting", os.getpid())
    print("more\x1b[31m", file=sys.stderr)
    return open(fifo).read()
def where() -> str:
    "Says what it sees."
    stdin = sys.stdin.read()
    names = sorted(name for name in os.environ if name.startswith(("CARGO", "NEXTEST", "AISH_CHILD")))
    return f"{os.getcwd()} {stdin!r} {names} {sys.argv} {os.getpid() == os.getpgrp()}"
def shown():
    "Prints its answer."
    print("one")
    print("two", end="")
def picture() -> list:
    "Returns an image."
    return ["drawn", b"\x89PNG\r\n\x1a\n123"]
def fails(text: str):
    "Raises."
    raise ValueError(text)
"#;

fn fifo(session: &TestSession) -> std::path::PathBuf {
    let path = session.home.work().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    path
}

#[tokio::test]
async fn worker_of_a_session_stays_warm() {
    let session = TestSession::with(STATE).await;
    let first = session.text("pid", "{}").await;
    let second = session.text("pid", "{}").await;
    let (pid, one) = first.split_once(' ').unwrap();
    assert_eq!((one, second.as_str()), ("1", format!("{pid} 2").as_str()));
    // An exception is an answer, not the end of the worker.
    let failed = session.call("fails", r#"{"text": "a\nb"}"#).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text, "ValueError: a b (tools.py, line 29)");
    assert_eq!(session.text("pid", "{}").await, format!("{pid} 3"));
    // Another session has its own worker.
    let other = session.call_in("s2", "pid", "{}", None).await.unwrap().text;
    assert!(other.ends_with(" 1") && !other.starts_with(pid), "{other}");
    assert_eq!(session.workers.waiting(), 2);
    session.workers.end_session("s1").await;
    assert_eq!(session.workers.waiting(), 1);
    assert!(!runs(pid));
    assert!(runs(other.split_once(' ').unwrap().0));
    session.workers.end_all().await;
    assert!(!runs(other.split_once(' ').unwrap().0));
}

#[tokio::test]
async fn prepared_worker_takes_the_call() {
    let session = TestSession::with(STATE).await;
    let catalog = session.home.catalog();
    let directory = session.home.work();
    let scope = session.scope("s1", &directory);
    let function = catalog.find("helper.pid").unwrap();
    session.workers.prepare(function, scope).await.unwrap();
    assert_eq!(session.workers.waiting(), 1);
    session.workers.prepare(function, scope).await.unwrap();
    assert!(session.text("pid", "{}").await.ends_with(" 1"));
    assert_eq!(session.workers.waiting(), 1);
}

#[tokio::test]
async fn process_has_no_input_and_only_harmless_variables() {
    // The environment of this test has some of the names that are looked for.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let session = TestSession::with(STATE).await;
    let work = session.home.work();
    assert_eq!(
        session.text("where", "{}").await,
        format!("{} '' ['AISH_CHILD'] [''] True", work.display())
    );
}

#[tokio::test]
async fn output_is_progress_and_an_answer_where_nothing_is_returned() {
    let mut session = TestSession::with(STATE).await;
    assert_eq!(session.text("shown", "{}").await, "one\ntwo");
    assert_eq!(session.printed(), ["one", "two"]);
    let result = session.call("picture", "{}").await.unwrap();
    assert_eq!(result.text, r#"["drawn", "[image/png, 11 bytes]"]"#);
    assert_eq!(result.images.len(), 1);
    assert_eq!(
        (&*result.images[0].mime, &*result.images[0].data),
        ("image/png", "iVBORw0KGgoxMjM=")
    );
}

#[tokio::test]
async fn numbers_and_texts_of_any_kind_pass() {
    let session = TestSession::with(
        "import os\ndef plus(value: int) -> int:\n    'Adds one.'\n    return value + 1\n\
         def texts() -> list[str]:\n    'Texts.'\n    return [os.fsdecode(b'caf\\xe9'), '\\ud800', '\\U0001f600']\n",
    )
    .await;
    for (value, expected) in [
        ("18446744073709551617", "18446744073709551618"),
        ("-9223372036854775810", "-9223372036854775809"),
        ("7", "8"),
    ] {
        let arguments = format!("{{\"value\":{value}}}");
        assert_eq!(session.text("plus", &arguments).await, expected);
    }
    let digits = "1".repeat(5000);
    let arguments = format!("{{\"value\":{digits}}}");
    assert_eq!(session.text("plus", &arguments).await.len(), 5000);
    assert_eq!(
        session.text("texts", "{}").await,
        "[\"caf\u{fffd}\", \"\u{fffd}\", \"\u{1f600}\"]"
    );
}

#[tokio::test]
async fn progress_arrives_while_the_call_runs() {
    let mut session = TestSession::with(STATE).await;
    let path = fifo(&session);
    let arguments = serde_json::json!({"fifo": path}).to_string();
    let (send, mut lines) = tokio::sync::mpsc::channel(8);
    session.progress = send;
    let watching = async {
        let mut seen = vec![lines.recv().await.unwrap(), lines.recv().await.unwrap()];
        seen.sort();
        // Only now can the call end.
        tokio::task::spawn_blocking(move || std::fs::write(path, "done").unwrap())
            .await
            .unwrap();
        seen
    };
    let (text, seen) = tokio::join!(session.text("wait", &arguments), watching);
    assert_eq!(text, "done");
    assert_eq!(seen[0], "more\x1b[31m");
    assert!(seen[1].starts_with("waiting "));
}

#[tokio::test]
async fn cancelled_call_ends_its_worker() {
    let mut session = TestSession::with(STATE).await;
    let path = fifo(&session);
    let arguments = serde_json::json!({"fifo": path}).to_string();
    let (send, mut lines) = tokio::sync::mpsc::channel(8);
    session.progress = send;
    let cancelling = async {
        let line = loop {
            let line = lines.recv().await.unwrap();
            if line.starts_with("waiting") {
                break line;
            }
        };
        session.cancel.cancel();
        line
    };
    let (called, line) = tokio::join!(session.call("wait", &arguments), cancelling);
    assert_eq!(called, Err(HelperFault::Interrupted));
    let pid = line.strip_prefix("waiting ").unwrap();
    assert!(!runs(pid));
    assert_eq!(session.workers.waiting(), 0);
}

#[tokio::test]
async fn dropped_call_takes_its_worker_along() {
    let mut session = TestSession::with(STATE).await;
    let path = fifo(&session);
    let arguments = serde_json::json!({"fifo": path}).to_string();
    let (send, mut lines) = tokio::sync::mpsc::channel(8);
    session.progress = send;
    let line = {
        let call = session.call("wait", &arguments);
        tokio::pin!(call);
        loop {
            tokio::select! {
                ended = &mut call => panic!("{ended:?}"),
                line = lines.recv() => {
                    let line = line.unwrap();
                    if line.starts_with("waiting") {
                        break line;
                    }
                }
            }
        }
    };
    let pid = line.strip_prefix("waiting ").unwrap().to_owned();
    until("the process is dead", || !runs(&pid)).await;
    assert!(session.text("pid", "{}").await.ends_with(" 1"));
}

#[tokio::test]
async fn idle_worker_is_ended() {
    let limits = WorkerLimits {
        idle: Duration::from_millis(50),
        ..WorkerLimits::default()
    };
    let session = TestSession::limited(STATE, limits).await;
    let first = session.text("pid", "{}").await;
    let pid = first.split_once(' ').unwrap().0.to_owned();
    until("the process is dead", || !runs(&pid)).await;
    until("the place is empty", || session.workers.waiting() == 0).await;
    assert!(session.text("pid", "{}").await.ends_with(" 1"));
}
