//! The client is killed at any system call of a prompt with an approval, a tool call and a command: the prompt of the
//! shell comes back, and nothing runs twice.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, mkfifo};
use serde_json::json;

use crate::fakes::mcp_http::{self, FakeMcpServer};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::{helper as helper_path, source_plugin};
use crate::support::pty::Zsh;

/// Appends, so that a second run would show.
const COMMAND: &str = "print -r -- ran >>ran";

/// Replaces the helper: announces each client to the tracer and waits for it.
const WRAPPER: &str = r#"#!/bin/sh
[ -e "$HOME/untraced" ] && exec HELPER "$@"
case $1 in ask | propose | exec-done | capture) ;; *) exec HELPER "$@" ;; esac
echo $$ >"$HOME/clients"
read -r go <"$HOME/go"
exec HELPER "$@"
"#;

fn world() -> (Helper, FakeMcpServer) {
    let helper = Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        match last["role"].as_str() {
            Some("tool") => Script::tokens([format!("CMD: {COMMAND}\n")]),
            _ if last["content"].as_str().is_some_and(|c| c.ends_with("go")) => {
                Script::calls("", &[("a", "fs.write", "{\"n\":1}")])
            }
            _ => Script::tokens(["still here"]),
        }
    }));
    let server = FakeMcpServer::start();
    server.set_tools(json!([mcp_http::tool("write")]));
    let url = server.url();
    helper.config(&format!("[mcp.servers.fs]\nurl = \"{url}\"\n"));
    for fifo in ["clients", "go"] {
        mkfifo(&helper.home.path(fifo), Mode::S_IRWXU).expect("a FIFO");
    }
    let wrapper = WRAPPER.replace("HELPER", helper_path());
    helper.home.program("traced-helper", &wrapper);
    helper.home.zshrc(&format!(
        "AISH_HELPER=$HOME/bin/traced-helper\n{}",
        source_plugin()
    ));
    (helper, server)
}

/// Traces the clients of a shell, each in a separate thread: the output pump runs beside others.
struct Tracer {
    thread: JoinHandle<usize>,
    home: PathBuf,
    killed: Arc<Mutex<Option<Instant>>>,
}

impl Tracer {
    /// Kills the client at the `at`th beginning or end of a system call, counted over all clients, from 1.
    fn start(helper: &Helper, at: Option<usize>) -> Tracer {
        let home = helper.home.path("");
        let killed = Arc::new(Mutex::new(None));
        let thread = std::thread::spawn({
            let (home, killed) = (home.clone(), killed.clone());
            move || {
                let count = AtomicUsize::new(0);
                // Open for writing as well, so that reading does not end between two clients.
                let clients = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(home.join("clients"));
                let mut lines = BufReader::new(clients.expect("the FIFO")).lines();
                // Opening it for reading and writing does not wait for the client, which is stopped at first.
                let go = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(home.join("go"));
                let go = &go.expect("the FIFO");
                std::thread::scope(|scope| {
                    while let Ok(pid) = lines.next().expect("a line").expect("text").trim().parse()
                    {
                        let (count, killed) = (&count, &*killed);
                        scope.spawn(move || trace(Pid::from_raw(pid), go, at, count, killed));
                    }
                });
                count.into_inner()
            }
        });
        Tracer {
            thread,
            home,
            killed,
        }
    }

    /// Returns the number of beginnings and ends of system calls.
    fn end(self) -> usize {
        let clients = OpenOptions::new()
            .write(true)
            .open(self.home.join("clients"));
        clients
            .expect("the FIFO")
            .write_all(b"end\n")
            .expect("room");
        self.thread.join().expect("the tracer")
    }
}

fn trace(
    pid: Pid,
    mut go: &File,
    at: Option<usize>,
    count: &AtomicUsize,
    killed: &Mutex<Option<Instant>>,
) {
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE;
    // It may have been killed with the client before it.
    if ptrace::seize(pid, options) == Err(Errno::ESRCH) {
        return;
    }
    ptrace::interrupt(pid).expect("a descendant may be traced");
    go.write_all(b"go\n").expect("room");
    let flags = WaitPidFlag::__WALL;
    // Threads of the client, which are traced as well.
    let mut threads = HashSet::from([pid]);
    while !threads.is_empty() {
        for thread in threads.clone() {
            let waited = waitpid(thread, Some(flags | WaitPidFlag::WNOHANG));
            let signal = match waited {
                Ok(WaitStatus::StillAlive) => continue,
                Ok(WaitStatus::PtraceSyscall(_)) => {
                    let n = count.fetch_add(1, Ordering::Relaxed) + 1;
                    if at == Some(n) {
                        kill(pid, Signal::SIGKILL).expect("it lives");
                        *killed.lock().expect("killed") = Some(Instant::now());
                    }
                    None
                }
                Ok(WaitStatus::PtraceEvent(_, _, event)) => {
                    if event == nix::libc::PTRACE_EVENT_CLONE {
                        let new = ptrace::getevent(thread).expect("the new thread");
                        threads.insert(Pid::from_raw(i32::try_from(new).expect("a pid")));
                    }
                    None
                }
                Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
                _ => {
                    threads.remove(&thread);
                    continue;
                }
            };
            let _ = ptrace::syscall(thread, signal);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// One prompt, answered as a person does; the client is killed on the way. Returns its progress: whether the server was
/// called, and whether the command ran.
fn prompt(at: Option<usize>) -> (usize, bool, bool) {
    let what = format!("killed at {at:?}");
    let (helper, server) = world();
    helper.call(["start"]).run().ok();
    let tracer = Tracer::start(&helper, at);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm go\r");
    let questions = ["[?]", "[q]"];
    let mut answered = 0;
    let is_back = |screen: &vt100::Screen| {
        screen
            .contents()
            .lines()
            .last()
            .is_some_and(|line| line.contains("<2>"))
    };
    loop {
        let question = questions.get(answered).copied().unwrap_or("\0");
        zsh.wait_for(&format!("a question or the prompt, {what}"), |screen| {
            is_back(screen) || screen.contents().contains(question)
        });
        if answered == questions.len()
            || zsh
                .screen()
                .lines()
                .last()
                .is_some_and(|l| l.contains("<2>"))
        {
            break;
        }
        let next = questions.get(answered + 1).copied().unwrap_or("\0");
        let asked = zsh.screen();
        zsh.answer("y", |screen| {
            let text = screen.contents();
            is_back(screen) || text.contains(next) && !asked.contains(next)
        });
        answered += 1;
    }
    zsh.prompt();
    // Only reported: the tests of other threads run beside this one.
    if let Some(killed) = *tracer.killed.lock().expect("killed") {
        eprintln!(
            "{what}: prompt back after {} ms",
            killed.elapsed().as_millis()
        );
    }
    let count = tracer.end();
    // A call that was approved before the kill may still be on its way.
    helper.until("the turn has ended", || {
        let status = helper.call(["status", "--json"]).run().ok();
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["turns"] == 0
    });
    let calls = || {
        server
            .requests()
            .into_iter()
            .filter(|r| r.method() == "tools/call")
            .count()
    };
    let runs = || helper.home.read("ran").lines().count();
    let (called, ran) = (calls(), runs());
    assert!(
        called <= 1 && ran <= 1,
        "{what}: {called} calls, {ran} runs"
    );
    // Without the tracer the shell and the daemon go on, and nothing is done again.
    File::create(helper.home.path("untraced")).expect("a new file");
    // Ctrl-U first: a key that the killed client did not read is on the line.
    zsh.send("\x15");
    zsh.run("llm and now");
    zsh.wait_text("still here");
    assert_eq!((calls(), runs()), (called, ran), "{what}");
    let records = helper.records();
    let has = |kind: &str, key: &str, value: &str| {
        records
            .iter()
            .filter(|r| r["type"] == kind && r[key] == value)
            .count()
    };
    assert_eq!(
        has("approval", "decision", "once").max(called),
        has("approval", "decision", "once"),
        "{what}"
    );
    assert!(has("command_approval", "choice", "run") >= ran, "{what}");
    (count, called == 1, ran == 1)
}

#[test]
fn killing_the_client_at_any_system_call_runs_nothing_twice() {
    let (total, called, ran) = prompt(None);
    assert!(called && ran);
    assert!(total > 500, "{total}");
    // All of them take ten minutes; AISH_TEST_KILLS=all asks for that.
    let stride = match std::env::var("AISH_TEST_KILLS").as_deref() {
        Ok("all") => 1,
        _ => total / 30,
    };
    let points: Vec<usize> = (1..=total).step_by(stride).collect();
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(n) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (_, called, ran) = prompt(Some(*n));
                    seen.lock().expect("seen").insert((called, ran));
                }
            });
        }
    });
    let seen = seen.into_inner().expect("seen");
    for far in [(false, false), (true, false), (true, true)] {
        assert!(seen.contains(&far), "{far:?}: {seen:?}");
    }
}
