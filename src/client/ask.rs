//! One prompt, from the words to the last line: sends it, shows what comes, and stops when it is told to.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use super::connect::{self, Connection, daemon_gone};
use super::output::{Format, Output};
use super::signals::{Signals, took};
use super::terminal::Quiet;
use crate::error::{Context, Error, Kind, Result};
use crate::paths::Paths;
use crate::protocol::{self, Answer, Ask, Attachment, Event, Failure, Request, kind};

/// More than this is no prompt but a mistake.
const MAX_INPUT: u64 = 24 << 20;
/// How long an interrupted turn may take to say what it has kept; the person waits no longer.
const GRACE: Duration = Duration::from_millis(80);
/// Between two frames of the spinner, and before its first.
const TICK: Duration = Duration::from_millis(120);
/// So long nothing may come in the middle of an answer until the spinner shows that it goes on.
const PAUSE: Duration = Duration::from_secs(1);

/// What became of a prompt.
#[derive(Debug)]
pub enum Outcome {
    /// It was answered; so many commands are proposed.
    Answered(Answer),
    /// Nothing is configured and nothing was found.
    NothingConfigured(Error),
}

/// The prompt's words, or stdin where there are none, and the attachments.
///
/// # Errors
/// There is no prompt, or a file cannot be read as text.
pub fn gather(words: &str, files: &[PathBuf]) -> Result<(String, Vec<Attachment>)> {
    let mut attachments = Vec::new();
    let mut left = MAX_INPUT;
    for path in files {
        let file = File::open(path).map_err(|e| {
            Error::usage(format!("cannot read {}: {e}", path.display()))
                .hint("give -f a file with text in it")
        })?;
        let text = read_text(file, &path.display().to_string(), &mut left)?;
        attachments.push(Attachment {
            name: path.display().to_string(),
            text,
        });
    }
    let stdin = io::stdin();
    let mut text = words.to_string();
    if stdin.is_terminal() {
        if text.trim().is_empty() {
            text = read_lines(&stdin)?;
        }
    } else if gives_data() {
        let read = read_text(stdin.lock(), "stdin", &mut left)?;
        if text.trim().is_empty() {
            text = read;
        } else if !read.is_empty() {
            attachments.push(Attachment {
                name: "stdin".to_string(),
                text: read,
            });
        }
    }
    if text.trim().is_empty() {
        return Err(Error::usage("there is no prompt").hint("try: llm why is the sky blue?"));
    }
    Ok((text, attachments))
}

/// Whether stdin is something that a person has put there: `/dev/null` and other devices are not.
fn gives_data() -> bool {
    let stdin = io::stdin();
    let Ok(file) = stdin.as_fd().try_clone_to_owned().map(File::from) else {
        return false;
    };
    file.metadata().is_ok_and(|m| {
        let kind = m.file_type();
        kind.is_file() || kind.is_fifo() || kind.is_socket()
    })
}

fn read_text(reader: impl Read, name: &str, left: &mut u64) -> Result<String> {
    let mut bytes = Vec::new();
    reader
        .take(*left + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
    if bytes.len() as u64 > *left {
        return Err(Error::usage(format!(
            "{name} is too large: a prompt takes at most {} MB",
            MAX_INPUT >> 20
        ))
        .hint("attach the part that matters, for example with head or grep"));
    }
    *left -= bytes.len() as u64;
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return Err(Error::usage(format!("{name} is not text")).hint("attach text only"));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// A prompt of several lines, typed.
fn read_lines(stdin: &io::Stdin) -> Result<String> {
    let _ = writeln!(
        io::stderr(),
        "Your prompt; end it with Ctrl-D on a line of its own:"
    );
    let mut bytes = Vec::new();
    stdin
        .lock()
        .read_to_end(&mut bytes)
        .context(|| "cannot read the terminal".into())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sends a prompt and shows the answer.
///
/// # Errors
/// What failed; [`Kind::Interrupted`] after Ctrl-C.
pub fn ask(paths: &Paths, ask: Ask, format: Format) -> Result<Outcome> {
    let mut output = Output::new(format);
    let request = Request::Ask(Box::new(ask));
    let mut connection = connect::to_daemon(paths, &request)?;
    drop(request);
    // Not earlier: whoever waits for a daemon that hangs must be able to end us with Ctrl-C.
    let signals = Signals::catch()?;
    let pipe = signals.end.try_clone();
    output.interruptible(pipe.context(|| "cannot set up signals".into())?.into());
    let mut quiet = Quiet::default();
    quiet.on();
    let result = follow(&mut connection, &mut output, &signals, &mut quiet);
    let result = match result {
        Err(e) if e.kind == Kind::Interrupted => Err(interrupted_by_person(&output)),
        other => other,
    };
    match &result {
        Ok(Outcome::Answered(answer)) if answer.finish == "interrupted" => {
            Err(interrupted_by_person(&output))
        }
        Err(e) => {
            output.failed(e);
            result
        }
        _ => result,
    }
}

fn follow(
    connection: &mut Connection,
    output: &mut Output,
    signals: &Signals,
    quiet: &mut Quiet,
) -> Result<Outcome> {
    let mut interrupted: Option<Instant> = None;
    let mut spin_at = Instant::now() + TICK;
    loop {
        while let Some((kind, body)) = connection
            .buffered()
            .context(|| "cannot talk to the daemon".into())?
        {
            if kind == kind::TEXT || kind == kind::EVENT {
                spin_at = spin_at.max(Instant::now() + if output.any() { PAUSE } else { TICK });
            }
            match take(connection, output, kind, &body) {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::Closed) => return Ok(Outcome::Answered(nobody_reads())),
                Err(Stop::Stuck) => {
                    // The daemon may have heard it already.
                    let _ = connection.send(&protocol::json_frame(kind::CANCEL, &())?);
                    return Err(interruption());
                }
            }
        }
        let patience = match interrupted {
            Some(since) => match GRACE.checked_sub(since.elapsed()) {
                Some(left) => Some(left),
                None => return Err(interruption()),
            },
            None if output.may_spin() => Some(spin_at.saturating_duration_since(Instant::now())),
            None => None,
        };
        match wait(connection, signals, patience, interrupted.is_none())? {
            Woken::Daemon => match connection.fill() {
                Ok(true) => {}
                Ok(false) => return Err(daemon_gone()),
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(daemon_gone()),
                Err(e) => return Err(Error::runtime(format!("cannot talk to the daemon: {e}"))),
            },
            Woken::Signal => {
                interrupted = Some(Instant::now());
                // A daemon that has gone is noticed at the next read.
                let _ = connection.send(&protocol::json_frame(kind::CANCEL, &())?);
            }
            Woken::Resize => output.resized(),
            Woken::Stop => {
                output.unspin();
                quiet.off();
                // What Ctrl-Z does by default, but with the terminal as it was. This call returns when it goes on.
                let _ = raise(Signal::SIGSTOP);
            }
            Woken::GoesOn => quiet.on(),
            Woken::Time => {
                if interrupted.is_none() {
                    output.spin();
                    spin_at = Instant::now() + TICK;
                }
            }
        }
    }
}

fn interruption() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
}

fn interrupted_by_person(output: &Output) -> Error {
    if output.any() {
        Error::new(Kind::Interrupted, "interrupted; what has arrived is kept")
    } else {
        interruption()
    }
}

enum Stop {
    Failed(Error),
    /// stdout is closed: `llm … | head`.
    Closed,
    /// Ctrl-C came while stdout took nothing: `llm … | less`.
    Stuck,
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Failed(e)
    }
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Stop {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Stop::Closed,
            io::ErrorKind::Interrupted => Stop::Stuck,
            _ => Stop::Failed(Error::runtime(format!("cannot write the answer: {e}"))),
        }
    }
}

fn take(
    connection: &mut Connection,
    output: &mut Output,
    kind: u8,
    body: &[u8],
) -> std::result::Result<Option<Outcome>, Stop> {
    match kind {
        kind::TEXT => {
            // The daemon sends whole characters; anything else is shown as replacement characters.
            output.text(&String::from_utf8_lossy(body))?;
        }
        kind::EVENT => match protocol::parse::<Event>(body)? {
            Event::NeedEnv { names } => connection.send_env(&names)?,
            event => output.event(&event)?,
        },
        kind::REPLY => {
            let answer: Answer = protocol::parse(body)?;
            output.answer(&answer)?;
            return Ok(Some(Outcome::Answered(answer)));
        }
        kind::FAILURE => {
            let failure: Failure = protocol::parse(body)?;
            if failure.nothing_configured {
                return Ok(Some(Outcome::NothingConfigured(failure.into())));
            }
            return Err(Stop::Failed(failure.into()));
        }
        _ => {}
    }
    Ok(None)
}

/// Nobody reads the answer any more; that is no failure of ours.
fn nobody_reads() -> Answer {
    Answer {
        session: String::new(),
        model: String::new(),
        finish: "stop".to_string(),
        prompt_tokens: None,
        completion_tokens: None,
        seconds: 0.0,
        cost: None,
        proposals: 0,
    }
}

enum Woken {
    Daemon,
    Signal,
    Stop,
    GoesOn,
    Resize,
    Time,
}

/// The signal that ends a turn is left in its pipe, so that from then on no write waits.
fn wait(
    connection: &Connection,
    signals: &Signals,
    patience: Option<Duration>,
    interruptible: bool,
) -> Result<Woken> {
    let timeout = match patience {
        None => PollTimeout::NONE,
        // Rounded up, so that a rest of a millisecond does not spin.
        Some(p) => PollTimeout::try_from(p + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
    };
    let interest = match interruptible {
        true => PollFlags::POLLIN,
        false => PollFlags::empty(),
    };
    loop {
        let mut fds = [
            PollFd::new(connection.fd(), PollFlags::POLLIN),
            PollFd::new(signals.end.as_fd(), interest),
            PollFd::new(signals.resize.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.goes_on.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(e) => return Err(Error::runtime(format!("cannot wait for the daemon: {e}"))),
            Ok(0) => return Ok(Woken::Time),
            Ok(_) => {}
        }
        let ready = fds.map(|fd| fd.any().unwrap_or(true));
        if ready[1] {
            return Ok(Woken::Signal);
        }
        if ready[3] && took(&signals.stop) {
            return Ok(Woken::Stop);
        }
        if ready[4] && took(&signals.goes_on) {
            return Ok(Woken::GoesOn);
        }
        if ready[2] && took(&signals.resize) {
            return Ok(Woken::Resize);
        }
        if ready[0] {
            return Ok(Woken::Daemon);
        }
    }
}

/// Words to one command: prints it and nothing else.
///
/// # Errors
/// What failed; an answer without a command is a failure.
pub fn command(paths: &Paths, ask: Ask) -> Result<Option<Error>> {
    let request = Request::Ask(Box::new(ask));
    let mut connection = connect::to_daemon(paths, &request)?;
    let mut text = String::new();
    loop {
        match connection
            .read()
            .context(|| "cannot talk to the daemon".into())?
        {
            Some((kind::TEXT, body)) => text.push_str(&String::from_utf8_lossy(&body)),
            Some((kind::EVENT, body)) => match protocol::parse(&body)? {
                Event::NeedEnv { names } => connection.send_env(&names)?,
                // A model that knows the other instructions may answer with their mark.
                Event::Proposal { command } => text.push_str(&format!("\n{command}\n")),
                _ => {}
            },
            Some((kind::REPLY, _)) => break,
            Some((kind::FAILURE, body)) => {
                let failure: Failure = protocol::parse(&body)?;
                if failure.nothing_configured {
                    return Ok(Some(failure.into()));
                }
                return Err(failure.into());
            }
            Some(_) => {}
            None => return Err(daemon_gone()),
        }
    }
    match bare_command(&text) {
        Some(command) => {
            let line = format!("{command}\n");
            io::stdout()
                .write_all(line.as_bytes())
                .context(|| "cannot write the command".into())?;
            Ok(None)
        }
        None => Err(Error::runtime("the model answered with no command")
            .hint("say it in other words, or ask another model")),
    }
}

/// The first line that is no decoration: models put commands in fences and backticks all the same.
///
/// A line that holds a control or invisible character is no command: it goes into an edit buffer.
fn bare_command(text: &str) -> Option<&str> {
    let line = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with("```"))?;
    let line = line.strip_prefix("CMD:").map_or(line, str::trim);
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = match line.strip_prefix('`').and_then(|l| l.strip_suffix('`')) {
        Some(inner) if !inner.contains('`') => inner,
        _ => line,
    };
    // What the strict sink would mark could hide a part of the command from the eye.
    let plain = crate::safety::text::strict(line) == line;
    (!line.is_empty() && plain).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::bare_command;

    #[test]
    fn a_command_is_found_in_what_models_say() {
        for (said, command) in [
            ("ls -l\n", Some("ls -l")),
            ("```zsh\nls -l\n```\n", Some("ls -l")),
            ("`ls`", Some("ls")),
            ("$ ls", Some("ls")),
            ("CMD: ls", Some("ls")),
            ("echo `date`", Some("echo `date`")),
            ("\n\n", None),
            ("```\n```", None),
            ("ls \u{202e}", None),
            ("ls\x1b[2K", None),
            ("ls                                   ; evil", None),
            ("ls\u{a0}x", None),
        ] {
            assert_eq!(bare_command(said), command, "{said:?}");
        }
    }
}
