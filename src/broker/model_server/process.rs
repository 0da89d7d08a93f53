//! Starts, stops and reaps one server process.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::StartFailure;
use super::output_log::{self, LastLine};
use crate::child_group::ChildGroup;
use crate::error::{Error, ErrorKind, Result};

/// Maximum time from SIGTERM to the exit of a server.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time of reading output after the exit: a program that the server started may hold the output open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

const PORT_PLACEHOLDER: &str = "{port}";

/// How to start a server.
pub(super) struct LaunchSpec {
    pub(super) name: String,
    pub(super) log: PathBuf,
    program: String,
    args: Vec<String>,
    environment: Vec<(OsString, OsString)>,
}

impl LaunchSpec {
    /// Returns a checked specification.
    ///
    /// # Errors
    /// The command is empty, or no argument contains `{port}`.
    pub(super) fn new(
        name: &str,
        command: &[String],
        logs: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<LaunchSpec> {
        let setting = format!("serve.command of model {name}");
        let Some((program, args)) = command.split_first() else {
            return Err(Error::config(format!("{setting} is empty")));
        };
        if !args.iter().any(|arg| arg.contains(PORT_PLACEHOLDER)) {
            return Err(
                Error::config(format!("{setting} has no {PORT_PLACEHOLDER}"))
                    .hint("write {port} where the server wants its port: aish chooses a free one"),
            );
        }
        // A slash in the user's name for the model must not lead to another directory.
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
        Ok(LaunchSpec {
            name: name.to_string(),
            log: logs.join(format!("serve-{file}.log")),
            program: program.clone(),
            args: args.to_vec(),
            environment: environment.to_vec(),
        })
    }
}

/// A running server.
pub(super) struct ServerProcess {
    child: Child,
    /// Held open: the server exits when this is closed, by the daemon or by the end of the daemon.
    stdin: Option<ChildStdin>,
    group: ChildGroup,
    port: u16,
    copying: JoinHandle<()>,
    last: Arc<LastLine>,
}

impl ServerProcess {
    /// Starts a server on a free port. Must run in a runtime, since a task reads the output.
    pub(super) fn spawn(spec: &LaunchSpec) -> std::result::Result<ServerProcess, StartFailure> {
        ServerProcess::try_spawn(spec).map_err(|e| StartFailure {
            kind: ErrorKind::Runtime,
            message: format!(
                "cannot start the server of model {}: {}: {e}",
                spec.name, spec.program
            ),
            hint: format!("check serve.command of model {}", spec.name),
        })
    }

    fn try_spawn(spec: &LaunchSpec) -> io::Result<ServerProcess> {
        let port = free_port()?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(&spec.program);
        command
            .args(
                spec.args
                    .iter()
                    .map(|arg| arg.replace(PORT_PLACEHOLDER, &port.to_string())),
            )
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        // The command holds copies of the write end, which would keep the end of file from coming.
        drop(command);
        // Taken out, because waiting for the child closes its standard input.
        let stdin = child.stdin.take();
        let group = ChildGroup::of(child.id());
        let output = pipe::Receiver::from_owned_fd(reader.into())?;
        let last = Arc::new(LastLine::default());
        let copying = tokio::spawn({
            let (path, last) = (spec.log.clone(), Arc::clone(&last));
            async move { output_log::copy(output, &path, &last).await }
        });
        Ok(ServerProcess {
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

    /// Waits until the server exits by itself and returns how. Cancel-safe.
    pub(super) async fn ended(&mut self) -> String {
        match self.group.exit_of(&mut self.child).await {
            Ok(status) => exit_description(status),
            Err(e) => format!("an unknown status ({e})"),
        }
    }

    /// Returns how the server exited, or `None` if it runs.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        if !self.group.has_ended() {
            return None;
        }
        // Before the server is reaped.
        self.group.signal(Signal::SIGKILL);
        self.child.try_wait().ok().flatten().map(exit_description)
    }

    /// Stops the server and its process group, reaps it, and returns the last line of its output.
    pub(super) async fn stop(mut self) -> String {
        self.group.signal(Signal::SIGTERM);
        drop(self.stdin.take());
        // Whatever remains of the process group is killed, even if the server itself exited in time.
        let _ = timeout(TERMINATION_TIMEOUT, self.group.ended()).await;
        self.group.signal(Signal::SIGKILL);
        if let Err(e) = self.child.wait().await {
            tracing::warn!(error = %e, "cannot wait for a model server");
        }
        if timeout(OUTPUT_DRAIN_TIMEOUT, &mut self.copying)
            .await
            .is_err()
        {
            self.copying.abort();
        }
        self.last.text()
    }
}

fn exit_description(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_string(),
    }
}

/// Returns a free port. Another program may bind it before the server does; see `MAX_START_ATTEMPTS`.
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
