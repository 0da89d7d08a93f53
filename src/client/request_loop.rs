//! Follows a request that can ask the user questions (a prompt, a manual tool call): shows its events, asks its
//! questions and forwards Ctrl-C as a cancellation. A request that only follows a turn can also be left without ending it.

mod stop;
mod wake;

use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};

use super::connect::{self, daemon_gone};
use super::frame_queue::FrameQueue;
use super::output::AnswerOutput;
use super::question_closed::{closed_text, end_by_close};
use super::signals::{CaughtSignals, SignalPipes};
use super::terminal::{self, EchoGuard};
use super::terminal_prompt::{PendingRequest, PromptEnd, PromptResult, TerminalPrompt};
use super::text_format::short_id;
use super::{approve, elicit};
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::tools::{
    ApprovalRequest, ApprovalVerdict, ElicitationAction, ElicitationPrompt, Reaction,
};
use crate::protocol::{self, Event, QuestionOutcome, Request, RequestFailure, kind};
use stop::LoopStop;
use wake::{WakeReason, wait};

/// How long an interrupted turn may take to report the stored part of the answer.
const CANCEL_GRACE: Duration = Duration::from_millis(80);
/// The same after Ctrl-C at a question, when the daemon first writes the denial to disk.
const DENIAL_GRACE: Duration = Duration::from_millis(500);
/// Time before the first frame of the spinner and between frames.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);
/// Pause within an answer after which the spinner appears.
const SPINNER_PAUSE: Duration = Duration::from_secs(1);

/// How a request ended.
#[derive(Debug)]
pub enum RequestEnd {
    /// The body of the daemon's reply.
    Reply(Vec<u8>),
    /// The daemon could not serve the request.
    Failed(RequestFailure),
    /// stdout is closed (`llm … | head`), which is not an error.
    OutputClosed,
}

/// Follows one request until its end.
pub struct RequestLoop<'a> {
    frames: FrameQueue,
    /// Output of the request.
    pub output: &'a mut AnswerOutput,
    signals: CaughtSignals,
    echo: EchoGuard,
    paths: &'a Paths,
    /// Set after Ctrl-C: when to stop waiting for the daemon.
    deadline: Option<Instant>,
    /// Number of tool calls that are running.
    running_calls: usize,
    /// A question was denied because there was no terminal.
    pub missing_terminal: bool,
    /// A question about a call that this client cannot ask. The daemon denies it, unless somebody answers elsewhere.
    unasked: Option<UnaskedQuestion>,
    /// The request follows a turn that it did not start.
    follows: bool,
    /// Arguments of the call whose question is answered with yes, where there is a terminal: not a later one, such as whether its
    /// command runs again outside of the sandbox.
    pub answers_yes: Option<String>,
    /// A signal ended the following, and the turn continues.
    pub left: bool,
    /// This client's terminal, as the daemon names it in events.
    tty: Option<String>,
    /// The last question that was answered here.
    answered: Option<String>,
    /// The session of the turn, once the daemon has reported it.
    pub session: Option<String>,
}

impl<'a> RequestLoop<'a> {
    /// Sends `request`. Until the loop is dropped, signals are caught and typed keys are not echoed.
    ///
    /// # Errors
    /// The daemon cannot be reached or started.
    pub fn begin(
        paths: &'a Paths,
        request: &Request,
        output: &'a mut AnswerOutput,
    ) -> Result<RequestLoop<'a>> {
        let connection = connect::to_daemon(paths, request)?;
        // Not earlier: while connecting to a daemon that hangs, Ctrl-C must end this process.
        let signals = SignalPipes::catch()?;
        let end_signals = signals.end.try_clone();
        output.interruptible(
            end_signals
                .context(|| "cannot set up signals".into())?
                .into(),
        );
        let mut echo = EchoGuard::default();
        echo.suppress();
        Ok(RequestLoop {
            frames: FrameQueue::new(connection),
            output,
            signals,
            echo,
            paths,
            deadline: None,
            running_calls: 0,
            missing_terminal: false,
            unasked: None,
            follows: matches!(request, Request::Attach(_)),
            answers_yes: None,
            left: false,
            tty: terminal::tty_name(),
            answered: None,
            session: None,
        })
    }

    /// Shows events and asks questions until the request ends.
    ///
    /// # Errors
    /// The daemon is gone; [`ErrorKind::Interrupted`] after Ctrl-C, once the daemon had time to reply.
    pub fn follow(&mut self) -> Result<RequestEnd> {
        let mut spin_at = Instant::now() + SPINNER_INTERVAL;
        loop {
            while let Some((kind, body)) = self
                .frames
                .next_frame()
                .context(|| "cannot talk to the daemon".into())?
            {
                match kind {
                    kind::REPLY => {
                        self.settle(None, QuestionOutcome::NoTerminal);
                        return Ok(RequestEnd::Reply(body));
                    }
                    kind::FAILURE => return Ok(RequestEnd::Failed(protocol::parse(&body)?)),
                    _ => {}
                }
                let handled = self.handle_frame(kind, &body);
                if !self.still_read(handled)? {
                    return Ok(RequestEnd::OutputClosed);
                }
                // An event that shows nothing, such as a part of the reasoning, does not put off the spinner.
                if self.output.take_printed() {
                    let pause = match self.output.has_content() && self.running_calls == 0 {
                        true => SPINNER_PAUSE,
                        false => SPINNER_INTERVAL,
                    };
                    spin_at = Instant::now() + pause;
                }
            }
            let may_spin = self.deadline.is_none() && self.output.may_spin();
            if may_spin && Instant::now() >= spin_at {
                self.output.spin();
                spin_at = Instant::now() + SPINNER_INTERVAL;
            }
            let patience = match self.deadline {
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) => Some(left),
                    None => return Err(interrupted()),
                },
                None if may_spin => Some(spin_at.saturating_duration_since(Instant::now())),
                None => None,
            };
            let connection = &mut self.frames.connection;
            match wait(connection, &self.signals, patience, self.deadline.is_none())? {
                WakeReason::Daemon => match connection.fill() {
                    Ok(true) => {}
                    Ok(false) => return Err(self.connection_lost()),
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                        return Err(self.connection_lost());
                    }
                    Err(e) => {
                        return Err(Error::runtime(format!("cannot talk to the daemon: {e}")));
                    }
                },
                WakeReason::End if self.leaves() => {
                    self.left = true;
                    return Err(interrupted());
                }
                WakeReason::End => {
                    self.deadline = Some(Instant::now() + CANCEL_GRACE);
                    // If the daemon is gone, the next read reports it.
                    let _ = self.cancel();
                }
                WakeReason::Resize => self.output.resized(),
                WakeReason::Stop => {
                    self.output.clear_spinner();
                    self.echo.restore();
                    // The default effect of Ctrl-Z, with the terminal modes of the shell. Returns after SIGCONT.
                    let _ = raise(Signal::SIGSTOP);
                }
                WakeReason::Resume => {
                    self.echo.suppress();
                    // The window may have another size than before the stop.
                    self.output.resized();
                }
                WakeReason::Timeout => {}
            }
        }
    }

    /// Writes the end of the output. Returns `false` if stdout is closed.
    ///
    /// # Errors
    /// Writing failed; [`ErrorKind::Interrupted`] after Ctrl-C while stdout accepted nothing.
    pub fn show(
        &mut self,
        write: impl FnOnce(&mut AnswerOutput) -> io::Result<()>,
    ) -> Result<bool> {
        let written = write(self.output).map_err(LoopStop::from);
        self.still_read(written)
    }

    /// Returns `false` if a step found stdout closed.
    fn still_read(&mut self, step: std::result::Result<(), LoopStop>) -> Result<bool> {
        match step {
            Ok(()) => Ok(true),
            Err(LoopStop::Failed(e)) => Err(e),
            Err(LoopStop::OutputClosed) => Ok(false),
            Err(LoopStop::OutputBlocked) if self.leaves() => {
                self.left = true;
                Err(interrupted())
            }
            Err(LoopStop::OutputBlocked) => {
                // The daemon may have received an earlier CANCEL already.
                let _ = self.cancel();
                Err(interrupted())
            }
        }
    }

    /// Returns whether a signal asks to stop following without stopping the turn.
    fn leaves(&self) -> bool {
        self.follows && self.signals.leaves()
    }

    /// Returns whether Ctrl-C was pressed here.
    pub fn was_interrupted(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns the error for a connection that closed before the reply. The daemon closes the connection of a client that
    /// reads too slowly, so the turn may still be running, unless the daemon itself has ended.
    fn connection_lost(&self) -> Error {
        let Some(session) = self.session.as_ref().filter(|_| self.output.has_content()) else {
            return daemon_gone();
        };
        if !connect::is_served(self.paths) {
            return Error::runtime("the answer was cut off: the aish daemon has ended")
                .hint("what has arrived is kept; ask again for the rest");
        }
        Error::runtime("the connection to the aish daemon closed before the end of the answer")
            .hint(format!(
                "show the rest with: llm --attach {}",
                short_id(session)
            ))
    }

    fn cancel(&mut self) -> Result<()> {
        self.frames
            .connection
            .send(&protocol::json_frame(kind::CANCEL, &())?)
    }

    fn handle_frame(&mut self, kind: u8, body: &[u8]) -> std::result::Result<(), LoopStop> {
        match kind {
            kind::TEXT => {
                // The daemon sends whole characters; anything else is shown as replacement characters.
                self.output.text(&String::from_utf8_lossy(body))?;
            }
            kind::EVENT => match protocol::parse::<Event>(body)? {
                Event::EnvRequested { names } => self.frames.connection.send_env(&names)?,
                event => {
                    self.output.event(&event)?;
                    match &event {
                        Event::Attached { session, .. } | Event::TurnStarted { session, .. } => {
                            self.session = Some(session.clone());
                        }
                        Event::ApprovalRequested(question) => self.approve_call(question)?,
                        Event::ElicitationRequested(elicit) => self.elicit(elicit)?,
                        Event::QuestionClosed {
                            id,
                            answered_in,
                            outcome,
                        } if self.answered.as_ref() == Some(id) && *answered_in != self.tty => {
                            let closed = closed_text(answered_in.as_deref(), *outcome);
                            self.output.notice(&format!("too late: {closed}"));
                        }
                        Event::QuestionClosed {
                            id,
                            answered_in,
                            outcome,
                        } if self.unasked.as_ref().is_some_and(|own| own.id == *id) => {
                            self.settle(answered_in.as_deref(), *outcome);
                        }
                        Event::ToolCallStarted(_) => self.running_calls += 1,
                        Event::ToolCallFinished(_) => {
                            self.running_calls = self.running_calls.saturating_sub(1);
                        }
                        _ => {}
                    }
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// Asks about `subject` on the terminal, unless the request was interrupted or the question is closed already.
    fn ask<T>(
        &mut self,
        subject: &str,
        ended_by: &dyn Fn(&Event) -> Option<PromptEnd>,
        ask: impl FnOnce(&mut TerminalPrompt<'_>) -> PromptResult<T>,
    ) -> PromptResult<T> {
        if self.deadline.is_some() {
            return Err(PromptEnd::Interrupted);
        }
        let mut request = PendingRequest {
            frames: &mut self.frames,
            echo: &mut self.echo,
            ended_by,
        };
        if let Some(end) = request.end_in_waiting_frames() {
            if let PromptEnd::AnsweredElsewhere(text) = end {
                self.output.notice(&format!("{subject}: {text}"));
            }
            return Err(PromptEnd::ClosedBefore);
        }
        let answer = TerminalPrompt::open(&self.signals, Some(request))
            .and_then(|mut prompt| ask(&mut prompt));
        match answer {
            // The signal is still in its pipe and ends the loop.
            Err(PromptEnd::Interrupted) if self.leaves() => Err(PromptEnd::ClosedBefore),
            answer => answer,
        }
    }

    /// Asks whether a tool may be called.
    fn approve_call(&mut self, question: &ApprovalRequest) -> std::result::Result<(), LoopStop> {
        let run_dir = &self.paths.run;
        let name = &question.tool.name;
        // Events of other calls do not end the question.
        let ended_by = |event: &Event| end_by_close(event, &question.id);
        let new_tools = self.output.new_tools().cloned();
        let is_answered = self.answers_yes.take_if(|arguments| {
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            value(arguments) == value(&question.arguments)
        });
        let answer = self.ask(name, &ended_by, |prompt| match is_answered {
            // Given on the command line of this terminal. The daemon checks that the terminal is the user's.
            Some(_) => Ok((ApprovalVerdict::Once, question.arguments.clone())),
            None => approve::ask(prompt, question, new_tools.as_ref(), run_dir),
        });
        let (verdict, arguments) = match answer {
            Ok(answer) => answer,
            Err(end) => {
                if end == PromptEnd::Withdrawn {
                    self.output.question_withdrawn();
                }
                let verdict = match end {
                    PromptEnd::NoTerminal(reason) if !self.follows => {
                        self.unasked = Some(UnaskedQuestion {
                            id: question.id.clone(),
                            name: name.clone(),
                            reason,
                        });
                        approve::verdict_without_answer(&end)
                    }
                    _ => self.unanswered(&end, name)?,
                };
                let Some(verdict) = verdict else {
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

    /// Asks the user the question of an MCP server.
    fn elicit(&mut self, question: &ElicitationPrompt) -> std::result::Result<(), LoopStop> {
        // Once its call has ended, the server no longer needs the answer.
        let calls = self.running_calls;
        let ended_by = |event: &Event| match event {
            Event::ToolCallFinished(_) if calls <= 1 => Some(PromptEnd::Withdrawn),
            event => end_by_close(event, &question.id),
        };
        let name = format!("server {}", question.server);
        let answer = self.ask(&name, &ended_by, |prompt| elicit::ask(prompt, question));
        let action = elicit::action(&answer);
        if let Err(end) = &answer {
            let _ = self.unanswered(end, &name)?;
        }
        let Some((action, content)) = action else {
            return Ok(());
        };
        self.react(&Reaction::Elicit {
            id: question.id.clone(),
            digest: question.shown_digest(),
            content,
            action,
        })?;
        if self.deadline.is_some() {
            // If the daemon is gone, the next read reports it.
            let _ = self.cancel();
        }
        Ok(())
    }

    /// Handles a question about `name` that ended without an answer. Returns the verdict to send, if any.
    fn unanswered(
        &mut self,
        end: &PromptEnd,
        name: &str,
    ) -> std::result::Result<Option<ApprovalVerdict>, LoopStop> {
        match end {
            PromptEnd::DaemonGone => return Err(LoopStop::Failed(gone_while_asking())),
            PromptEnd::Interrupted => {
                let _ = self.deadline.get_or_insert(Instant::now() + DENIAL_GRACE);
            }
            PromptEnd::NoTerminal(reason) if self.follows => {
                let text = format!("{name}: {reason}; another terminal can answer");
                self.output.notice(&text);
            }
            PromptEnd::NoTerminal(reason) => {
                self.missing_terminal = true;
                self.output.notice(&format!("{name}: denied: {reason}"));
            }
            PromptEnd::Withdrawn | PromptEnd::AnsweredElsewhere(_) | PromptEnd::ClosedBefore => {}
        }
        Ok(approve::verdict_without_answer(end))
    }

    /// Says what became of a question that this client could not ask.
    fn settle(&mut self, answered_in: Option<&str>, outcome: QuestionOutcome) {
        let Some(UnaskedQuestion { name, reason, .. }) = self.unasked.take() else {
            return;
        };
        let how = match outcome {
            QuestionOutcome::NoTerminal => format!("denied: {reason}"),
            outcome => closed_text(answered_in, outcome),
        };
        self.missing_terminal |= matches!(
            outcome,
            QuestionOutcome::NoTerminal | QuestionOutcome::TimedOut
        );
        self.output.notice(&format!("{name}: {how}"));
    }

    fn react(&mut self, reaction: &Reaction) -> std::result::Result<(), LoopStop> {
        self.answered = match reaction {
            Reaction::Call {
                verdict: ApprovalVerdict::NoTerminal,
                ..
            }
            | Reaction::Elicit {
                action: ElicitationAction::NoTerminal,
                ..
            } => None,
            Reaction::Call { id, .. } | Reaction::Elicit { id, .. } => Some(id.clone()),
        };
        self.output.reacted(reaction)?;
        // If the daemon is gone, the next read reports it.
        let _ = self
            .frames
            .connection
            .send(&protocol::json_frame(kind::REACTION, reaction)?);
        Ok(())
    }
}

fn gone_while_asking() -> Error {
    Error::runtime("the aish daemon exited during the question; the call was not made")
        .hint("ask again; if it fails again, run: aish-helper doctor")
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted")
}

/// See [`RequestLoop::unasked`].
struct UnaskedQuestion {
    id: String,
    name: String,
    /// Why there is no terminal.
    reason: &'static str,
}
