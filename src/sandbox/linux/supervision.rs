//! Waits for a stage: forwards signals, reads its report, traces the command where there are no namespaces, and ends the
//! processes that it leaves behind.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, WaitStatus};

use super::metadata_calls;
use super::private_tmp::{PrivateTmp, TmpSize};
use crate::error::{Error, ErrorContext, Result};
use crate::sandbox::END_SIGNAL;
use crate::sandbox::path_rules::PathRules;
use crate::sandbox::policy::SandboxPolicy;

/// Signals that are passed on to the command.
const FORWARDED: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Interval between measurements of the private temporary directory.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// Maximum time to end the processes that the command leaves behind.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Maximum size of the report of a stage.
const MAX_REPORT: usize = 4096;

/// How a stage ended.
#[derive(Debug)]
pub(super) struct SupervisionEnd {
    /// Exit code of the command.
    pub code: u8,
    /// Version of Landlock, as the stage reported it.
    pub landlock_abi: i32,
    /// Time that the stage took to restrict itself, in microseconds.
    pub policy_us: u64,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// The state that is watched where there are no namespaces.
struct Watch<'a> {
    tmp: &'a PrivateTmp,
    max_bytes: u64,
    max_processes: usize,
    rules: PathRules,
    next: Instant,
    /// The last measurement could not list everything.
    is_unknown: bool,
}

/// A running stage.
pub(super) struct Supervision<'a> {
    main: Pid,
    signals: SignalFd,
    status: Option<File>,
    report: Vec<u8>,
    watch: Option<Watch<'a>>,
    traced: BTreeSet<i32>,
    code: Option<u8>,
    notices: Vec<String>,
    is_killed: bool,
}

/// Signals that a supervising process receives as events.
fn supervised_signals() -> SigSet {
    let mut mask: SigSet = FORWARDED.iter().copied().collect();
    mask.extend([Signal::SIGCHLD, END_SIGNAL]);
    mask
}

/// Lets the command receive the signals that its supervisor blocked.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn unblock_signals() -> Result<()> {
    supervised_signals()
        .thread_unblock()
        .context(|| "cannot receive signals".into())
}

impl<'a> Supervision<'a> {
    /// Starts a stage and supervises it. `status` is the pipe on which it reports, if it reports to this process.
    ///
    /// # Errors
    /// Signals cannot be received, or the stage cannot be started.
    pub(super) fn start(command: &mut Command, status: Option<File>) -> Result<Supervision<'a>> {
        let what = || "cannot receive signals".to_owned();
        // Before the start: a signal between the two would end this process, and so the command, without its clean-up. The
        // stage inherits the blocked signals.
        let mask = supervised_signals();
        mask.thread_block().context(what)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&mask, flags).context(what)?;
        let child = command
            .spawn()
            .context(|| "cannot start the sandbox".into())?;
        Ok(Supervision {
            main: Pid::from_raw(i32::try_from(child.id()).unwrap_or_default()),
            signals,
            status,
            report: Vec::new(),
            watch: None,
            traced: BTreeSet::new(),
            code: None,
            notices: Vec::new(),
            is_killed: false,
        })
    }

    /// Bounds the private temporary directory and the number of processes, and makes changes of modes and times.
    pub(super) fn watch(&mut self, tmp: &'a PrivateTmp, policy: &SandboxPolicy) {
        self.watch = Some(Watch {
            tmp,
            max_bytes: policy.limits.temporary_mib.saturating_mul(1 << 20),
            max_processes: usize::try_from(policy.limits.processes).unwrap_or(usize::MAX),
            rules: PathRules::new(policy),
            next: Instant::now() + MEASURE_EVERY,
            is_unknown: false,
        });
    }

    /// Waits until the stage ends. `ends_tree` says that its descendants can outlive it and are to be ended. The inner error is what
    /// the stage reports instead of a sandbox.
    ///
    /// # Errors
    /// Waiting failed, or the stage refuses how it is used.
    pub(super) fn run(mut self, ends_tree: bool) -> Result<Result<SupervisionEnd>> {
        if ends_tree {
            // Processes that lose their parent become children of this one.
            let _ = set_child_subreaper(true);
        }
        self.reap()?;
        while self.code.is_none() {
            self.wait_for_event()?;
            self.forward_signals()?;
            self.reap()?;
            self.measure();
        }
        if ends_tree {
            self.end_tree();
        }
        while self.status.is_some() {
            self.read_report();
        }
        self.result()
    }

    fn wait_for_event(&self) -> Result<()> {
        let mut files = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        files.extend(
            self.status
                .as_ref()
                .map(|status| PollFd::new(status.as_fd(), PollFlags::POLLIN)),
        );
        let timeout = match &self.watch {
            Some(watch) => {
                let left = watch.next.saturating_duration_since(Instant::now());
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            }
            None => PollTimeout::NONE,
        };
        match poll(&mut files, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(Error::runtime(format!("cannot wait for the command: {e}"))),
        }
    }

    fn forward_signals(&mut self) -> Result<()> {
        let status_is_ready = self.status.is_some();
        while let Ok(Some(info)) = self.signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            let Ok(signal) = Signal::try_from(number) else {
                continue;
            };
            match signal {
                Signal::SIGCHLD => continue,
                END_SIGNAL => {
                    self.kill_traced();
                    continue;
                }
                _ => {}
            }
            let group = Pid::from_raw(-self.main.as_raw());
            // The stage leads its own group as soon as it has started.
            if kill(group, signal).is_err() {
                let _ = kill(self.main, Signal::SIGKILL);
            }
        }
        if status_is_ready {
            self.poll_report();
        }
        Ok(())
    }

    fn poll_report(&mut self) {
        let Some(status) = &self.status else { return };
        let mut files = [PollFd::new(status.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut files, PollTimeout::ZERO), Ok(1..)) {
            self.read_report();
        }
    }

    fn read_report(&mut self) {
        let mut buffer = [0; 512];
        let read = self.status.as_mut().map(|status| status.read(&mut buffer));
        match read {
            Some(Ok(count)) if count > 0 && self.report.len() < MAX_REPORT => {
                self.report.extend(buffer.get(..count).unwrap_or_default());
            }
            Some(Err(e)) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => self.status = None,
        }
    }

    /// Handles every child that changed its state.
    fn reap(&mut self) -> Result<()> {
        while let Some((pid, status)) = next_state()? {
            if self.handle(pid, status) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether the command ended.
    fn handle(&mut self, pid: Pid, status: WaitStatus) -> bool {
        if status.stopped() {
            self.resume(pid, status);
            return false;
        }
        self.traced.remove(&pid.as_raw());
        if pid == self.main {
            self.code = Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
                (_, Some(signal)) => code_of_signal(signal),
                _ => u8::MAX,
            });
        }
        self.code.is_some()
    }

    /// Lets a traced process continue after a stop.
    fn resume(&mut self, pid: Pid, status: WaitStatus) {
        let is_new = self.traced.insert(pid.as_raw());
        if is_new && self.is_killed {
            // It was being started when the others were killed.
            let _ = kill(pid, Signal::SIGKILL);
        }
        if is_new && pid == self.main {
            let options = ptrace::Options::PTRACE_O_EXITKILL
                | ptrace::Options::PTRACE_O_TRACESECCOMP
                | ptrace::Options::PTRACE_O_TRACEFORK
                | ptrace::Options::PTRACE_O_TRACEVFORK
                | ptrace::Options::PTRACE_O_TRACECLONE
                | ptrace::Options::PTRACE_O_TRACEEXEC;
            // Where it fails, system calls that are traced fail with ENOSYS.
            let _ = ptrace::setoptions(pid, options);
        }
        let event = status.as_raw() >> 16;
        if event == libc::PTRACE_EVENT_SECCOMP
            && let Some(watch) = &self.watch
        {
            metadata_calls::perform(pid, &watch.rules);
        }
        self.bound_processes();
        let signal = status.stopping_signal().filter(|_| event == 0);
        let signal = signal.and_then(|signal| Signal::try_from(signal).ok());
        // A stop of the job control would be permanent: there is no terminal to continue from.
        let is_stop = |signal: &Signal| {
            matches!(
                signal,
                Signal::SIGSTOP | Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU
            )
        };
        // It may have been killed meanwhile.
        let _ = ptrace::cont(pid, signal.filter(|signal| !is_stop(signal)));
    }

    fn bound_processes(&mut self) {
        let Some(watch) = &self.watch else { return };
        if self.traced.len() > watch.max_processes && !self.is_killed {
            self.notices.push(format!(
                "the command was killed: it started more than {} processes",
                watch.max_processes
            ));
            self.kill_traced();
        }
    }

    fn kill_traced(&mut self) {
        for pid in &self.traced {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        let _ = kill(self.main, Signal::SIGKILL);
        self.is_killed = true;
    }

    fn measure(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let now = Instant::now();
        if now < watch.next || self.is_killed {
            return;
        }
        watch.next = now + MEASURE_EVERY;
        let size = watch.tmp.measure(watch.max_bytes);
        // A test may make a directory that cannot be listed for a moment.
        let was_unknown = std::mem::replace(&mut watch.is_unknown, size == TmpSize::Unknown);
        let mib = watch.max_bytes >> 20;
        let reason = match size {
            TmpSize::Above => {
                format!("it wrote more than {mib} MiB to its temporary directory")
            }
            TmpSize::Unknown if was_unknown => {
                "its temporary directory contains a directory whose size cannot be measured"
                    .to_owned()
            }
            _ => return,
        };
        self.notices
            .push(format!("the command was killed: {reason}"));
        self.kill_traced();
    }

    /// Ends every descendant of the command.
    fn end_tree(&mut self) {
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until {
            for pid in self.traced.iter().copied().chain(children()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            // Thousands of processes would take seconds if all were killed again for each one that has ended.
            while Instant::now() < until {
                match next_state() {
                    Ok(Some((pid, status))) if status.stopped() => {
                        let _ = kill(pid, Signal::SIGKILL);
                        let _ = ptrace::cont(pid, None);
                    }
                    Ok(Some((pid, _))) => {
                        self.traced.remove(&pid.as_raw());
                    }
                    // None is left.
                    Err(_) => return,
                    Ok(None) => break,
                }
            }
            let mut files = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut files, PollTimeout::from(20u8));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }

    fn result(self) -> Result<Result<SupervisionEnd>> {
        let report = String::from_utf8_lossy(&self.report).into_owned();
        let mut lines = report.split('\n');
        let state = lines.next().unwrap_or_default();
        let first = lines.next().unwrap_or_default();
        let second = lines.next().unwrap_or_default();
        let told = |error: Error| match second {
            "" => error,
            hint => error.hint(hint),
        };
        match state {
            "failed" => return Ok(Err(told(Error::config(first)))),
            "refused" => return Err(told(Error::usage(first))),
            _ => {}
        }
        Ok(Ok(SupervisionEnd {
            code: self.code.unwrap_or(u8::MAX),
            landlock_abi: first.parse().unwrap_or_default(),
            policy_us: second.parse().unwrap_or_default(),
            notices: self.notices,
        }))
    }
}

/// Exit code of a command that a signal ended, as in a shell.
pub(super) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

/// Returns a child that changed its state; `None` if there is none at the moment.
fn next_state() -> Result<Option<(Pid, WaitStatus)>> {
    // Threads of a traced process too.
    let every = u32::try_from(libc::__WALL).unwrap_or(1 << 30);
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(every);
    match rustix::process::wait(options) {
        Ok(Some((pid, status))) => Ok(Some((Pid::from_raw(pid.as_raw_nonzero().get()), status))),
        Ok(None) => Ok(None),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(e) => Err(Error::runtime(format!("cannot wait for the command: {e}"))),
    }
}

/// Children of this process.
fn children() -> Vec<i32> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
