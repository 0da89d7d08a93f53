//! Workers of Python helpers: the start of one, compared with a bare interpreter, and a call of a warm one.
//!
//! The two starts take turns, so that load on the machine affects both; medians are compared. Exits with 1 if a figure exceeds
//! its limit.
//!
//! `cargo bench --bench python`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aish::paths::Paths;
use aish::python::WorkerLimits;
use aish::python::call::CallScope;
use aish::python::catalog::HelperCatalog;
use aish::python::registration::{read_candidate, register};
use aish::python::workers::HelperWorkers;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const STARTS: usize = 31;
const CALLS: usize = 1001;
/// Maximum time of a start beyond that of the interpreter, and of a warm call.
const MAX_START: Duration = Duration::from_millis(15);
const MAX_CALL: Duration = Duration::from_millis(2);

const SOURCE: &str = "def add(a: int, b: int) -> int:\n    \"Adds.\"\n    return a + b\n";

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure())
}

async fn measure() -> ExitCode {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::under(dir.path(), nix::unistd::getuid().as_raw()).unwrap();
    let file = dir.path().join("sums.py");
    std::fs::write(&file, SOURCE).unwrap();
    let cancel = CancellationToken::new();
    let candidate = read_candidate(&paths, &file).unwrap();
    let limits = WorkerLimits::default();
    let mut silent = |_: &str| {};
    let registered = register(&paths, candidate, &limits, &cancel, &mut silent);
    let python = registered.await.unwrap().python;
    let catalog = HelperCatalog::load(&paths);
    let function = catalog.find("add").unwrap();
    let workers = HelperWorkers::new(limits);
    let (progress, _lines) = mpsc::channel(16);
    let scope = |session| CallScope {
        session,
        directory: dir.path(),
        workspace: dir.path(),
        limit: None,
        progress: &progress,
        cancel: &cancel,
    };
    let arguments = r#"{"a": 1, "b": 2}"#;
    let (mut bare, mut ready, mut first) = (Vec::new(), Vec::new(), Vec::new());
    // Each start belongs to a separate session.
    let sessions: Vec<String> = (0..STARTS).map(|n| n.to_string()).collect();
    for session in &sessions {
        let started = Instant::now();
        let mut command = Command::new(&python);
        command.args(["-I", "-S", "-c", "pass"]);
        command.env_clear().stdin(Stdio::null());
        assert!(command.status().unwrap().success());
        bare.push(started.elapsed());
        let started = Instant::now();
        workers.prepare(function, scope(session)).await.unwrap();
        ready.push(started.elapsed());
        let called = workers.call(function, arguments, scope(session)).await;
        first.push(started.elapsed());
        assert_eq!(called.unwrap().text, "3");
        workers.end_all().await;
    }
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        let result = workers
            .call(function, arguments, scope("warm"))
            .await
            .unwrap();
        calls.push(started.elapsed());
        assert_eq!(result.text, "3");
    }
    workers.end_all().await;
    let (bare, ready, call) = (median(bare), median(ready), median(calls));
    let first = median(first);
    let extra = ready.saturating_sub(bare);
    println!("bare interpreter, start and end   {bare:?}");
    println!("worker, start until ready         {ready:?} (+ {extra:?}; limit + {MAX_START:?})");
    println!("start and first call              {first:?}");
    println!("call of a warm worker             {call:?} (limit {MAX_CALL:?})");
    match extra <= MAX_START && call <= MAX_CALL {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
