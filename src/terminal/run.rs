//! Runs the command of a terminal.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::{MAX_BYTES, MAX_LINES, TerminalIdentity};
use crate::error::{Error, Result};
use crate::paths::{TERMINAL_VARIABLES, child_environment};

/// Variables of the daemon that the command gets.
const ENVIRONMENT: &[&str] = &[
    "HOME",
    "PATH",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "TMUX_TMPDIR",
];

/// Runs the first of these programs that exists, as [`output`] does.
///
/// # Errors
/// None exists, or the first that does cannot be run, fails, or prints too much.
pub async fn first_output(
    identity: &TerminalIdentity,
    programs: &[&str],
    args: &[&str],
) -> Result<String> {
    for program in programs {
        if let Some(output) = run(identity, program, args).await? {
            return Ok(output);
        }
    }
    let programs = programs.join(", ");
    Err(Error::runtime(format!(
        "{programs}: not in the PATH of the daemon"
    )))
}

/// Runs a program with the variables that identify the terminal, and returns its output.
///
/// # Errors
/// It cannot be run, fails, or prints too much.
pub async fn output(identity: &TerminalIdentity, program: &str, args: &[&str]) -> Result<String> {
    first_output(identity, &[program], args).await
}

/// Returns the output of a program; `None` if it does not exist.
async fn run(identity: &TerminalIdentity, program: &str, args: &[&str]) -> Result<Option<String>> {
    // Any process of the user can name variables to the daemon; others, such as PATH, would choose what it runs.
    let mut terminal_variables = identity.variables.clone();
    terminal_variables.retain(|name, _| TERMINAL_VARIABLES.contains(&name.as_str()));
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(child_environment(ENVIRONMENT))
        .envs(terminal_variables)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let failed = |what: &str| Error::runtime(format!("{program} {what}"));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&format!("cannot be run: {e}"))),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (printed, errors) = tokio::join!(read(stdout, MAX_BYTES), read(stderr, 4096));
    let Some(printed) = printed else {
        return Err(failed("printed too much"));
    };
    let status = child.wait().await;
    let status = status.map_err(|e| failed(&format!("could not be waited for: {e}")))?;
    if !status.success() {
        let errors = errors.unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors);
        let line = errors.lines().find(|line| !line.trim().is_empty());
        let line = line.unwrap_or("it failed without a message");
        return Err(failed(&format!("failed: {}", line.trim())));
    }
    if printed.contains(&0) {
        return Err(failed("printed binary data"));
    }
    if has_too_many_lines(&printed) {
        return Err(failed("printed too many lines"));
    }
    Ok(Some(String::from_utf8_lossy(&printed).into_owned()))
}

/// Whether a text has more lines than a terminal may report. kitty separates the rows of a wrapped line by CR.
pub fn has_too_many_lines(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'\n', b'\r', text).count() > MAX_LINES
}

/// Reads to the end; `None` if there is more than the limit.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let pipe = pipe?;
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    pipe.take(more).read_to_end(&mut bytes).await.ok()?;
    (bytes.len() <= limit).then_some(bytes)
}
