//! One server process, from its start to its reaping.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Failure;
use super::log::{self, LastLine};
use crate::error::{Error, Kind, Result};

/// How long a server may take to end after SIGTERM.
const TERM: Duration = Duration::from_secs(2);

/// How long to read on after it ended: a program it started may hold its output open.
const DRAIN: Duration = Duration::from_millis(200);

const PORT: &str = "{port}";

/// How to start a server.
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) log: PathBuf,
    program: String,
    args: Vec<String>,
    environment: Vec<(OsString, OsString)>,
}

impl Spec {
    /// Checks the command.
    ///
    /// # Errors
    /// It is empty, or no argument holds `{port}`.
    pub(super) fn new(
        name: &str,
        command: &[String],
        logs: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<Spec> {
        let setting = format!("serve.command of model {name}");
        let Some((program, args)) = command.split_first() else {
            return Err(Error::config(format!("{setting} is empty")));
        };
        if !args.iter().any(|arg| arg.contains(PORT)) {
            return Err(Error::config(format!("{setting} has no {PORT}"))
                .hint("write {port} where the server wants its port: aish chooses a free one"));
        }
        // The name is the user's own, but a slash in it must not lead to another directory.
        let file: String = name
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        Ok(Spec {
            name: name.to_string(),
            log: logs.join(format!("serve-{file}.log")),
            program: program.clone(),
            args: args.to_vec(),
            environment: environment.to_vec(),
        })
    }
}

/// A running server.
pub(super) struct Process {
    child: Child,
    /// Held open: the server ends when it is closed, by us or by the end of this process.
    stdin: Option<ChildStdin>,
    group: Option<Pid>,
    port: u16,
    copying: JoinHandle<()>,
    last: Arc<LastLine>,
}

impl Process {
    /// Starts it on a free port. Only async so far as its output is read by a task.
    pub(super) fn spawn(spec: &Spec) -> std::result::Result<Process, Failure> {
        Process::try_spawn(spec).map_err(|e| Failure {
            kind: Kind::Runtime,
            message: format!(
                "cannot start the server of model {}: {}: {e}",
                spec.name, spec.program
            ),
            hint: format!("check serve.command of model {}", spec.name),
        })
    }

    fn try_spawn(spec: &Spec) -> io::Result<Process> {
        let port = free_port()?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(&spec.program);
        command
            .args(
                spec.args
                    .iter()
                    .map(|arg| arg.replace(PORT, &port.to_string())),
            )
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        // With our copies of the write end, or the reader would never see the end.
        drop(command);
        // Taken out, because waiting for the child closes what it holds.
        let stdin = child.stdin.take();
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let output = pipe::Receiver::from_owned_fd(reader.into())?;
        let last = Arc::new(LastLine::default());
        let copying = tokio::spawn({
            let (path, last) = (spec.log.clone(), Arc::clone(&last));
            async move { log::copy(output, &path, &last).await }
        });
        Ok(Process {
            child,
            stdin,
            group,
            port,
            copying,
            last,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Waits until it ends by itself and says how. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => how(status),
            Err(e) => format!("an unknown status ({e})"),
        }
    }

    /// How it ended, if it has.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(how)
    }

    /// Ends it and all that it started, reaps it, and returns the last line it printed.
    pub(super) async fn stop(mut self) -> String {
        self.signal(Signal::SIGTERM);
        drop(self.stdin.take());
        // Whether or not it ended in time, what is left of its group goes now.
        let _ = timeout(TERM, self.child.wait()).await;
        self.signal(Signal::SIGKILL);
        if let Err(e) = self.child.wait().await {
            tracing::warn!(error = %e, "cannot wait for a model server");
        }
        if timeout(DRAIN, &mut self.copying).await.is_err() {
            self.copying.abort();
        }
        self.last.text()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails when the whole group has ended, which is the aim.
            let _ = killpg(group, signal);
        }
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_string(),
    }
}

/// A port that is free now. The server binds it a moment later; see `PORT_TRIES` for a lost race.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Whether some program listens on the port.
pub(super) fn is_taken(port: u16) -> bool {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => false,
        Err(e) => e.kind() == io::ErrorKind::AddrInUse,
    }
}
