//! A request that may ask the person while it is served (a prompt, a call): shows what comes, asks what is asked, and stops when it
//! is told to.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use super::asking::{Asking, Over, Wire};
use super::connect::{self, Connection, daemon_gone};
use super::output::Output;
use super::signals::{Caught, Signals, took};
use super::terminal::Quiet;
use super::{approve, elicit};
use crate::error::{Context, Error, Kind, Result};
use crate::paths::Paths;
use crate::protocol::tools::{Elicit, Question, Reaction, Verdict};
use crate::protocol::{self, Event, Failure, Request, kind};

/// How long an interrupted turn may take to say what it has kept; the person waits no longer.
const GRACE: Duration = Duration::from_millis(80);
/// The same after a Ctrl-C at a question: what was denied is said, which takes a write to the disk.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Between two frames of the spinner, and before its first.
const TICK: Duration = Duration::from_millis(120);
/// So long nothing may come in the middle of an answer until the spinner shows that it goes on.
const PAUSE: Duration = Duration::from_secs(1);

/// How a request ended.
#[derive(Debug)]
pub enum End {
    /// With the daemon's reply; its body.
    Reply(Vec<u8>),
    /// It was not served.
    Failed(Failure),
    /// stdout is closed: `llm … | head`. That is no failure of ours.
    Closed,
}

/// A request that is being served.
pub struct Serving<'a> {
    wire: Wire,
    /// Where it is shown.
    pub output: &'a mut Output,
    signals: Caught,
    quiet: Quiet,
    /// Where a private file may be.
    run: &'a Path,
    /// It was interrupted; so long it is waited for.
    until: Option<Instant>,
    /// Calls that run now.
    calls: usize,
    /// There was no terminal to ask on.
    pub unasked: bool,
}

impl<'a> Serving<'a> {
    /// Sends a request. While this lives, Ctrl-C is ours and what is typed is not shown.
    ///
    /// # Errors
    /// There is no daemon.
    pub fn begin(
        paths: &'a Paths,
        request: &Request,
        output: &'a mut Output,
    ) -> Result<Serving<'a>> {
        let connection = connect::to_daemon(paths, request)?;
        // Not earlier: whoever waits for a daemon that hangs must be able to end us with Ctrl-C.
        let signals = Signals::catch()?;
        let pipe = signals.end.try_clone();
        output.interruptible(pipe.context(|| "cannot set up signals".into())?.into());
        let mut quiet = Quiet::default();
        quiet.on();
        Ok(Serving {
            wire: Wire::new(connection),
            output,
            signals,
            quiet,
            run: &paths.run,
            until: None,
            calls: 0,
            unasked: false,
        })
    }

    /// Shows and asks until the end.
    ///
    /// # Errors
    /// The daemon has gone; [`Kind::Interrupted`] after Ctrl-C, once the daemon has had its last words.
    pub fn follow(&mut self) -> Result<End> {
        let mut spin_at = Instant::now() + TICK;
        loop {
            while let Some((kind, body)) = self
                .wire
                .next()
                .context(|| "cannot talk to the daemon".into())?
            {
                match kind {
                    kind::REPLY => return Ok(End::Reply(body)),
                    kind::FAILURE => return Ok(End::Failed(protocol::parse(&body)?)),
                    _ => {}
                }
                let taken = self.take(kind, &body);
                if !self.goes_on(taken)? {
                    return Ok(End::Closed);
                }
                if kind == kind::TEXT || kind == kind::EVENT {
                    let pause = match self.output.any() && self.calls == 0 {
                        true => PAUSE,
                        false => TICK,
                    };
                    spin_at = Instant::now() + pause;
                }
            }
            let patience = match self.until {
                Some(until) => match until.checked_duration_since(Instant::now()) {
                    Some(left) => Some(left),
                    None => return Err(interruption()),
                },
                None if self.output.may_spin() => {
                    Some(spin_at.saturating_duration_since(Instant::now()))
                }
                None => None,
            };
            let connection = &mut self.wire.connection;
            match wait(connection, &self.signals, patience, self.until.is_none())? {
                Woken::Daemon => match connection.fill() {
                    Ok(true) => {}
                    Ok(false) => return Err(daemon_gone()),
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                        return Err(daemon_gone());
                    }
                    Err(e) => {
                        return Err(Error::runtime(format!("cannot talk to the daemon: {e}")));
                    }
                },
                Woken::Signal => {
                    self.until = Some(Instant::now() + GRACE);
                    // A daemon that has gone is noticed at the next read.
                    let _ = self.cancel();
                }
                Woken::Resize => self.output.resized(),
                Woken::Stop => {
                    self.output.unspin();
                    self.quiet.off();
                    // What Ctrl-Z does by default, but with the terminal as it was. This call returns when it goes on.
                    let _ = raise(Signal::SIGSTOP);
                }
                Woken::GoesOn => self.quiet.on(),
                Woken::Time => {
                    if self.until.is_none() {
                        self.output.spin();
                        spin_at = Instant::now() + TICK;
                    }
                }
            }
        }
    }

    /// Shows the end of it; whether somebody reads.
    ///
    /// # Errors
    /// It cannot be written; [`Kind::Interrupted`] after a Ctrl-C that nothing else would end.
    pub fn show(&mut self, what: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<bool> {
        let shown = what(self.output).map_err(Stop::from);
        self.goes_on(shown)
    }

    /// Whether somebody reads after this step.
    fn goes_on(&mut self, step: std::result::Result<(), Stop>) -> Result<bool> {
        match step {
            Ok(()) => Ok(true),
            Err(Stop::Failed(e)) => Err(e),
            Err(Stop::Closed) => Ok(false),
            Err(Stop::Stuck) => {
                // The daemon may have heard it already.
                let _ = self.cancel();
                Err(interruption())
            }
        }
    }

    fn cancel(&mut self) -> Result<()> {
        self.wire
            .connection
            .send(&protocol::json_frame(kind::CANCEL, &())?)
    }

    fn take(&mut self, kind: u8, body: &[u8]) -> std::result::Result<(), Stop> {
        match kind {
            kind::TEXT => {
                // The daemon sends whole characters; anything else is shown as replacement characters.
                self.output.text(&String::from_utf8_lossy(body))?;
            }
            kind::EVENT => match protocol::parse::<Event>(body)? {
                Event::EnvRequested { names } => self.wire.connection.send_env(&names)?,
                event => {
                    self.output.event(&event)?;
                    match &event {
                        Event::ApprovalRequested(question) => self.confirm(question)?,
                        Event::ElicitationRequested(elicit) => self.elicit(elicit)?,
                        Event::ToolCallStarted(_) => self.calls += 1,
                        Event::ToolCallFinished(_) => self.calls = self.calls.saturating_sub(1),
                        _ => {}
                    }
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// May this tool be called?
    fn confirm(&mut self, question: &Question) -> std::result::Result<(), Stop> {
        let run = self.run;
        // Only the end of the turn ends the question: other calls may end meanwhile.
        let said = match self.until {
            Some(_) => Err(Over::Stop),
            None => Asking::open(&mut self.wire, &self.signals, &mut self.quiet, &|_| false)
                .and_then(|mut asking| approve::ask(&mut asking, question, run)),
        };
        let (verdict, arguments) = match said {
            Ok(said) => said,
            Err(over) => {
                if over == Over::Withdrawn {
                    self.output.withdrawn();
                }
                let name = &question.tool.name;
                let Some(verdict) = self.unanswered(over, name)? else {
                    return Ok(());
                };
                (verdict, question.arguments.clone())
            }
        };
        self.react(&Reaction::Call {
            id: question.id.clone(),
            digest: question.shown_digest(),
            verdict,
            arguments,
        })
    }

    /// A server asks the person.
    fn elicit(&mut self, asked: &Elicit) -> std::result::Result<(), Stop> {
        // Once its call has ended, nobody wants the answer.
        let ends = |event: &Event| matches!(event, Event::ToolCallFinished(_)) && self.calls <= 1;
        let said = match self.until {
            Some(_) => Err(Over::Stop),
            None => Asking::open(&mut self.wire, &self.signals, &mut self.quiet, &ends)
                .and_then(|mut asking| elicit::ask(&mut asking, asked)),
        };
        let action = elicit::action(&said);
        if let Err(over) = said {
            let name = format!("server {}", asked.server);
            let _ = self.unanswered(over, &name)?;
        }
        let Some((action, content)) = action else {
            return Ok(());
        };
        self.react(&Reaction::Elicit {
            id: asked.id.clone(),
            digest: asked.shown_digest(),
            content,
            action,
        })?;
        if self.until.is_some() {
            // A daemon that has gone is noticed at the next read.
            let _ = self.cancel();
        }
        Ok(())
    }

    /// What it means that nobody answered; nothing is to be sent where the daemon wants nothing.
    fn unanswered(&mut self, over: Over, name: &str) -> std::result::Result<Option<Verdict>, Stop> {
        match &over {
            Over::Gone => return Err(Stop::Failed(gone_while_asking())),
            Over::Stop => {
                let _ = self.until.get_or_insert(Instant::now() + LAST_WORDS);
            }
            Over::NoTerminal(why) => {
                self.unasked = true;
                self.output
                    .notice(&format!("{name}: {why}, so the answer is no"));
            }
            Over::Withdrawn => {}
        }
        Ok(approve::verdict(&over))
    }

    fn react(&mut self, reaction: &Reaction) -> std::result::Result<(), Stop> {
        self.output.reacted(reaction)?;
        // A daemon that has gone is noticed at the next read.
        let _ = self
            .wire
            .connection
            .send(&protocol::json_frame(kind::REACTION, reaction)?);
        Ok(())
    }
}

fn gone_while_asking() -> Error {
    Error::runtime("the aish daemon ended while it asked; the call was denied")
        .hint("ask again, and see: aish-helper doctor")
}

fn interruption() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
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
