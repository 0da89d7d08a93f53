//! The real binary in an isolated home, with a scripted provider. Processes still running at the end of a test are killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use aish::client::connect::listener_pid;
use aish::paths::Paths;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::PATIENCE;
use super::home::{Home, helper};
use crate::fakes::provider::{Provider, Script};

/// An isolated home with one model, and its provider.
pub struct Helper {
    pub provider: Provider,
    pub home: Home,
    transcript: Arc<Mutex<String>>,
}

impl Helper {
    /// Creates a home whose provider answers with these scripts, in order.
    pub fn new(queue: impl IntoIterator<Item = Script>) -> Helper {
        Helper::with(Provider::start(queue))
    }

    /// Creates a home whose provider answers every request with `text`.
    pub fn saying(text: &'static str) -> Helper {
        Helper::with(Provider::answering(move |_| Script::tokens([text])))
    }

    /// Creates a home for this provider.
    pub fn with(provider: Provider) -> Helper {
        let helper = Helper {
            provider,
            home: Home::new(),
            transcript: Arc::default(),
        };
        helper.config("");
        helper
    }

    /// Writes a config with the model `fake`, followed by `more`.
    pub fn config(&self, more: &str) {
        // Most tests count tools and compare requests: only those of the built-in tools offer these.
        let builtin = match more.contains("[tools]") {
            true => "",
            false => "[tools]\nbuiltin = false\n",
        };
        self.config_file(&format!(
            "default_model = \"fake\"\n{builtin}[models.fake]\nbase_url = \"{}\"\nmodel = \"fake-1\"\n{more}",
            self.provider.base_url()
        ));
    }

    /// Writes this text as the config, which counts as seen by a person.
    pub fn config_file(&self, text: &str) {
        self.change_config(text);
        let paths = aish::paths::Paths::under(&self.path(""), nix::unistd::getuid().as_raw());
        let paths = paths.expect("paths");
        // An invalid one was not seen.
        if let Ok(changes) = aish::config::pending_changes(&paths) {
            let digest = changes.map(|changes| changes.digest).unwrap_or_default();
            aish::config::confirm(&paths, &digest).expect("a state directory");
        }
        // A running daemon may have compared the two in between.
        let file = std::fs::File::options()
            .append(true)
            .open(self.path("config/config.toml"));
        let file = file.expect("the config");
        file.set_modified(std::time::SystemTime::now())
            .expect("a time");
    }

    /// Writes this text as the config, as any program can.
    pub fn change_config(&self, text: &str) {
        let path = self.path("config");
        std::fs::create_dir_all(&path).expect("the config directory");
        // At once, since a daemon may be reading it.
        std::fs::write(path.join("new"), text).expect("the config");
        std::fs::rename(path.join("new"), path.join("config.toml")).expect("the config");
    }

    /// Path below `AISH_HOME`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path("aish").join(name)
    }

    /// Counts the processes of Python workers for workspaces in this home, by their command lines: in the sandbox they have
    /// process ids of their own.
    pub fn workers(&self) -> usize {
        let home = self.home.path("").canonicalize().expect("a home");
        let home = home.to_str().expect("UTF-8");
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let is_worker = |process: &std::fs::DirEntry| {
            let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words);
            words.contains("aish-runtime") && words.contains(home)
        };
        processes.filter(is_worker).count()
    }

    /// Prepares a call of the helper, with empty stdin.
    pub fn call<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> ProgramCall {
        self.program(helper()).args(args)
    }

    /// Prepares a call of another program in the same environment.
    pub fn program(&self, program: impl AsRef<OsStr>) -> ProgramCall {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.home.env())
            .current_dir(self.home.path(""))
            .stdin(Stdio::null());
        ProgramCall {
            command,
            input: None,
            elsewhere: false,
            transcript: Arc::clone(&self.transcript),
        }
    }

    /// Sends a prompt from the shell `s1` and returns the answer.
    pub fn ask(&self, words: &str) -> String {
        self.call(["ask", "--shell", "s1", "--", words]).run().ok()
    }

    /// Process id of the daemon.
    pub fn daemon(&self) -> Pid {
        self.listener().expect("a daemon")
    }

    /// Process id of the daemon, if one runs.
    pub fn listener(&self) -> Option<Pid> {
        let uid = nix::unistd::getuid().as_raw();
        let paths = Paths::under(&self.path(""), uid).expect("paths");
        listener_pid(&paths).map(Pid::from_raw)
    }

    /// Kills the daemon with SIGKILL and waits until it is dead.
    pub fn kill_daemon(&self) {
        let pid = self.daemon();
        kill(pid, Signal::SIGKILL).expect("the daemon lives");
        self.until("the daemon is dead", || {
            self.listener().is_none_or(|now| now != pid)
        });
    }

    /// Limits the size of the daemon's files, to simulate a full disk. `None` removes the limit.
    #[cfg(target_os = "linux")]
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |b| b.to_string());
        let call = self.program("prlimit").args([
            format!("--pid={}", self.daemon()),
            format!("--fsize={limit}:unlimited"),
        ]);
        call.run().ok();
    }

    /// Journal files of the sessions, oldest first.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.path("data/journal"));
        let mut files: Vec<_> = dir
            .into_iter()
            .flatten()
            .map(|e| e.expect("an entry").path())
            .filter(|p| !p.ends_with("shells.jsonl") && !p.ends_with("audit.jsonl"))
            .collect();
        files.sort();
        files
    }

    /// Records of all sessions; every line must be complete.
    pub fn records(&self) -> Vec<Value> {
        self.sessions().iter().flat_map(records).collect()
    }

    /// Records of actions outside of conversations.
    pub fn audit_records(&self) -> Vec<Value> {
        let file = self.path("data/journal/audit.jsonl");
        match file.exists() {
            true => records(&file),
            false => Vec::new(),
        }
    }

    /// Records of one type.
    pub fn records_of(&self, kind: &str) -> Vec<Value> {
        let mut records = self.records();
        records.retain(|r| r["type"] == kind);
        records
    }

    /// Messages of a chat request, as role and content.
    pub fn messages(&self, request: usize) -> Vec<(String, String)> {
        let text = |v: &Value| v.as_str().expect("text").to_owned();
        let requests = self.provider.requests();
        let messages = requests[request].json["messages"].as_array();
        messages
            .expect("messages")
            .iter()
            .map(|m| (text(&m["role"]), text(&m["content"])))
            .collect()
    }

    /// Content of the last message of the last chat request.
    pub fn content(&self) -> String {
        let last = self.provider.requests().len() - 1;
        self.messages(last).pop().expect("a message").1
    }

    /// Polls until `holds` returns true, for conditions without an event.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(
                Instant::now() < deadline,
                "time limit reached while waiting until {what}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the last answer is recorded with this `finish`.
    pub fn until_finish(&self, finish: &str) {
        self.until(&format!("the answer is recorded as {finish}"), || {
            // An incomplete last line is still being written.
            self.sessions().iter().any(|file| {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                text.ends_with('\n')
                    && text
                        .lines()
                        .last()
                        .is_some_and(|l| l.contains(&format!("\"finish\":\"{finish}\"")))
            })
        });
    }

    fn dump(&self) {
        eprintln!("{}", self.transcript.lock().expect("transcript"));
        let mut files = self.sessions();
        files.push(self.path("data/journal/shells.jsonl"));
        files.push(self.path("state/daemon.log"));
        for file in files {
            let text = std::fs::read(&file).unwrap_or_default();
            let shown: String = String::from_utf8_lossy(&text).chars().take(4000).collect();
            eprintln!("--- {}\n{shown}", file.display());
        }
        eprintln!("--- violations\n{:#?}", self.provider.take_violations());
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dump();
        }
        let log = std::fs::read_to_string(self.path("state/daemon.log")).unwrap_or_default();
        // SIGKILL also ends a stopped or hanging daemon.
        if let Some(pid) = self.listener() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        super::open_gates(&self.path("."));
        super::open_gates(&self.path(".."));
        if !std::thread::panicking() {
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

/// Records of a file, whose lines must be complete JSON.
pub fn records(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a journal file");
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "an incomplete line: {text:?}"
    );
    let parse = |line| serde_json::from_str(line).expect("a whole record");
    text.lines().map(parse).collect()
}

/// A prepared call of a program.
pub struct ProgramCall {
    command: Command,
    input: Option<Vec<u8>>,
    elsewhere: bool,
    transcript: Arc<Mutex<String>>,
}

impl ProgramCall {
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> ProgramCall {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> ProgramCall {
        self.command.env(name, value);
        self
    }

    pub fn env_remove(mut self, name: &str) -> ProgramCall {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory; it is the home otherwise.
    pub fn dir(mut self, dir: PathBuf) -> ProgramCall {
        self.command.current_dir(dir);
        self
    }

    /// Sets the input, sent through a pipe.
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> ProgramCall {
        self.command.stdin(Stdio::piped());
        self.input = Some(input.into());
        self
    }

    /// Sets a file as stdin.
    pub fn stdin_file(mut self, path: PathBuf) -> ProgramCall {
        self.command.stdin(File::open(path).expect("a file"));
        self
    }

    /// Sets stdout.
    pub fn stdout(mut self, to: impl Into<Stdio>) -> ProgramCall {
        self.command.stdout(to);
        self.elsewhere = true;
        self
    }

    /// Runs the program to its end.
    pub fn run(self) -> ProgramResult {
        self.start().finish()
    }

    /// Starts the program.
    pub fn start(mut self) -> RunningProgram {
        if !self.elsewhere {
            self.command.stdout(Stdio::piped());
        }
        self.command.stderr(Stdio::piped());
        let label = format!("{:?}", self.command);
        let mut child = self.command.spawn().expect("the program starts");
        if let (Some(input), Some(mut stdin)) = (self.input, child.stdin.take()) {
            // Fails if the program does not read its whole input.
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let stdout = match child.stdout.take() {
            Some(pipe) => TerminalOutput::of(pipe),
            None => TerminalOutput::of(std::io::empty()),
        };
        let stderr = TerminalOutput::of(child.stderr.take().expect("stderr"));
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let (send, done) = channel();
        std::thread::spawn(move || {
            // Fails if the test has ended already.
            let _ = send.send(child.wait().expect("its end"));
        });
        RunningProgram {
            label,
            pid,
            stdout,
            stderr,
            done,
            status: None,
            transcript: self.transcript,
        }
    }
}

/// A running program; killed when dropped.
pub struct RunningProgram {
    label: String,
    pub pid: Pid,
    pub stdout: TerminalOutput,
    pub stderr: TerminalOutput,
    done: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
    transcript: Arc<Mutex<String>>,
}

impl RunningProgram {
    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal).expect("it lives");
    }

    /// Waits until the program has ended.
    pub fn finish(mut self) -> ProgramResult {
        let status = match self.done.recv_timeout(PATIENCE) {
            Ok(status) => status,
            Err(e) => panic!(
                "{} did not end: {e}\n{:?}\n{:?}",
                self.label,
                self.stdout.so_far(),
                self.stderr.so_far()
            ),
        };
        self.status = Some(status);
        let run = ProgramResult {
            code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().expect("a code or a signal")),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        };
        let short = |s: &str| s.chars().take(2000).collect::<String>();
        self.transcript
            .lock()
            .expect("transcript")
            .push_str(&format!(
                "--- {}\n{}\nstdout: {:?}\nstderr: {:?}\n",
                short(&self.label),
                run.code,
                short(&run.stdout),
                short(&run.stderr)
            ));
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        run
    }

    /// Whether the program still runs.
    pub fn runs(&mut self) -> bool {
        match self.done.try_recv() {
            Ok(status) => {
                self.status = Some(status);
                false
            }
            Err(_) => self.status.is_none(),
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Not waited for yet, so it would outlive the test.
        if self.status.is_none()
            && self.done.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Timeout)
        {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}

/// Output received through a pipe.
#[derive(Clone, Default)]
pub struct TerminalOutput(Arc<(Mutex<Pipe>, Condvar)>);

#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    closed: bool,
}

impl TerminalOutput {
    fn of(mut pipe: impl Read + Send + 'static) -> TerminalOutput {
        let heard = TerminalOutput::default();
        let shared = heard.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                let n = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = shared.0.0.lock().expect("heard");
                state.bytes.extend_from_slice(&buffer[..n]);
                state.closed = n == 0;
                shared.0.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        heard
    }

    fn wait(&self, what: &str, done: impl Fn(&Pipe) -> bool) -> String {
        let state = self.0.0.lock().expect("heard");
        let (state, late) = self
            .0
            .1
            .wait_timeout_while(state, PATIENCE, |s| !done(s))
            .expect("heard");
        let text = String::from_utf8_lossy(&state.bytes).into_owned();
        drop(state);
        assert!(
            !late.timed_out(),
            "time limit reached while waiting for {what}: {text:?}"
        );
        text
    }

    /// Waits until `text` was received.
    pub fn wait_text(&self, text: &str) {
        let bytes = text.as_bytes();
        self.wait(text, |pipe| {
            pipe.closed || pipe.bytes.windows(bytes.len()).any(|w| w == bytes)
        });
        assert!(self.so_far().contains(text), "{:?}", self.so_far());
    }

    /// Output received so far.
    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().expect("heard").bytes).into_owned()
    }

    fn all(&self) -> String {
        self.wait("its end", |pipe| pipe.closed)
    }
}

/// Result of a program.
#[derive(Debug)]
pub struct ProgramResult {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl ProgramResult {
    /// Returns stdout; the exit code must be 0.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Parses stdout as one JSON value; the exit code must be 0.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }

    /// Returns stderr; the exit code must be `code`, and the error one or two lines.
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let error: Vec<&str> = self
            .stderr
            .lines()
            .skip_while(|l| l.starts_with("[aish]"))
            .collect();
        assert!((1..=2).contains(&error.len()), "{self:?}");
        assert!(error[0].starts_with("aish: "), "{self:?}");
        self.stderr
    }
}
