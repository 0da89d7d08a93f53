//! The inner stages: they restrict themselves and become the command, or wait for it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, close, setsid};

use super::landlock_rules::{self, LandlockScope};
use super::namespaces::{self, NamespacePlan};
use super::supervision::{self, Supervision};
use super::syscall_filter::{self, FilterScope, MetadataCalls};
use super::{close_kept, descriptors, limits, metadata_calls, stage_command, writable_dirs};
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::sandbox::path_rules::PathRules;
use crate::sandbox::policy::SandboxPolicy;
use crate::sandbox::{SandboxInvocation, SandboxOutcome, SandboxStage, SandboxSupport, not_run};

/// First version of Landlock that also restricts truncation; without namespaces nothing else would.
const ABI_WITH_TRUNCATION: i32 = 3;

/// First version of Landlock that restricts signals.
const ABI_WITH_SIGNALS: i32 = 6;

/// Exit code of a stage that reports why there is no sandbox.
const NO_SANDBOX: u8 = 125;

/// Runs a stage. A failure goes to the supervisor, which reports it or tries another stage.
pub(super) fn run(stage: SandboxStage, invocation: SandboxInvocation) -> Result<SandboxOutcome> {
    let status = StatusReport {
        fd: invocation.status_fd,
    };
    let done = match stage {
        SandboxStage::Namespaces => enter_namespaces(&invocation, &status),
        SandboxStage::First => run_first(&invocation, &status),
        SandboxStage::Plain => run_plain(&invocation, &status),
    };
    match done {
        Ok(outcome) => Ok(outcome),
        Err(e) => {
            // Another stage would not help against a wrong use.
            let state = match e.kind {
                ErrorKind::Usage => "refused",
                _ => "failed",
            };
            let report = format!("{state}\n{}\n{}", e.message, e.hint.unwrap_or_default());
            // Without a reader the report is not needed.
            let _ = status.send(&report);
            Ok(ended(NO_SANDBOX, Vec::new()))
        }
    }
}

fn ended(code: u8, notices: Vec<String>) -> SandboxOutcome {
    SandboxOutcome {
        code,
        notices,
        support: SandboxSupport::default(),
    }
}

/// The pipe to the supervisor.
struct StatusReport {
    fd: Option<i32>,
}

impl StatusReport {
    /// Writes the report. Its reader takes the end of the pipe as the end of the report.
    ///
    /// # Errors
    /// The supervisor has ended, perhaps before this process asked to end with it: nothing would end the command.
    fn send(&self, report: &str) -> Result<()> {
        let Some(fd) = self.fd else { return Ok(()) };
        let sent = OpenOptions::new()
            .write(true)
            .open(format!("/proc/self/fd/{fd}"))
            .and_then(|mut pipe| pipe.write_all(report.as_bytes()));
        self.close();
        sent.context(|| "the supervisor of the sandbox has ended".into())
    }

    fn close(&self) {
        if let Some(fd) = self.fd {
            let _ = close(fd);
        }
    }
}

/// The kernel kills this process when its parent ends.
fn end_with_parent() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).context(|| "cannot tie the sandbox to its supervisor".into())
}

fn enter_namespaces(
    invocation: &SandboxInvocation,
    status: &StatusReport,
) -> Result<SandboxOutcome> {
    end_with_parent()?;
    let policy = &invocation.policy;
    let directory =
        std::env::current_dir().context(|| "cannot find the working directory".into())?;
    let tmp = policy.private_tmp.as_deref().ok_or_else(no_tmp)?;
    namespaces::enter(&NamespacePlan {
        writable: &writable_dirs(policy),
        private_tmp: (tmp, policy.limits.temporary_mib),
        hidden: &PathRules::new(policy).hidden,
        guarded: &policy.guarded,
        network: policy.network,
    })?;
    descriptors::reopen_standard()?;
    let mut command = stage_command(
        invocation,
        SandboxStage::First,
        status.fd.unwrap_or_default(),
    );
    // By its path: the directory that is open is not the one that is mounted there now.
    if !directory.is_dir() {
        // Another directory is mounted there.
        return Err(Error::usage(format!(
            "{} does not exist in the sandbox and cannot be the working directory",
            directory.display()
        ))
        .hint("start in another directory"));
    }
    let supervision = Supervision::start(command.current_dir(directory), None)?;
    status.close();
    close_kept(policy);
    supervision
        .run(false)?
        .map(|end| ended(end.code, end.notices))
}

fn no_tmp() -> Error {
    Error::usage("an inner stage of the sandbox needs --private-tmp")
}

fn run_first(invocation: &SandboxInvocation, status: &StatusReport) -> Result<SandboxOutcome> {
    end_with_parent()?;
    leave_session();
    let policy = &invocation.policy;
    namespaces::mount_proc(policy.limits.processes)?;
    let ready = restrict(policy, true, MetadataCalls::Allowed)?;
    status.send(&ready)?;
    let Some(mut command) = command(invocation) else {
        return Ok(ended(0, Vec::new()));
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return Ok(could_not_run(&invocation.command, &e)),
    };
    close_kept(policy);
    let main = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
    Ok(ended(reap_until(main), Vec::new()))
}

/// Reaps every process of the namespace until `main` ends.
fn reap_until(main: Pid) -> u8 {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == main => {
                return u8::try_from(code).unwrap_or(u8::MAX);
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                return supervision::code_of_signal(signal as i32);
            }
            Ok(_) | Err(Errno::EINTR | Errno::EINVAL) => {}
            Err(_) => return NO_SANDBOX,
        }
    }
}

fn run_plain(invocation: &SandboxInvocation, status: &StatusReport) -> Result<SandboxOutcome> {
    end_with_parent()?;
    leave_session();
    let metadata = match metadata_calls::SUPPORTED && nix::sys::ptrace::traceme().is_ok() {
        // The supervisor now sets which events it wants to see.
        true => raise(Signal::SIGSTOP).map(|()| MetadataCalls::Traced),
        false => Ok(MetadataCalls::Denied),
    };
    let metadata = metadata.context(|| "cannot wait for the supervisor".into())?;
    let ready = restrict(&invocation.policy, false, metadata)?;
    if invocation.policy.adopts {
        set_child_subreaper(true).context(|| "cannot adopt orphaned processes".into())?;
    }
    status.send(&ready)?;
    let Some(mut command) = command(invocation) else {
        return Ok(ended(0, Vec::new()));
    };
    // Returns only if it fails.
    let e = command.exec();
    Ok(could_not_run(&invocation.command, &e))
}

/// A new session has no controlling terminal. The leader of a group cannot leave its session, but no stage is one.
fn leave_session() {
    let _ = setsid();
}

fn command(invocation: &SandboxInvocation) -> Option<Command> {
    let (program, arguments) = invocation.command.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(invocation.policy.variables.iter().cloned());
    Some(command)
}

fn could_not_run(command: &[OsString], e: &std::io::Error) -> SandboxOutcome {
    let (code, notice) = not_run(command, e);
    ended(code, vec![notice])
}

/// Restricts this process for good. Returns the report: the version of Landlock, and how long it took.
fn restrict(policy: &SandboxPolicy, namespaces: bool, metadata: MetadataCalls) -> Result<String> {
    supervision::unblock_signals()?;
    limits::apply(&policy.limits, namespaces)?;
    namespaces::drop_capabilities()?;
    let start = Instant::now();
    let scope = LandlockScope {
        network: policy.network,
        namespaces,
    };
    let abi = landlock_rules::restrict(&PathRules::new(policy), &scope)?;
    if !namespaces && abi < ABI_WITH_TRUNCATION {
        return Err(Error::config(format!(
            "the sandbox is unavailable: this kernel has version {abi} of Landlock and no user namespaces"
        ))
        .hint("allow user namespaces or use Linux 6.2, or set sandbox = \"off\" to run commands without the sandbox"));
    }
    syscall_filter::apply(FilterScope {
        network: policy.network,
        namespaces,
        signals_are_scoped: namespaces || abi >= ABI_WITH_SIGNALS,
        metadata,
    })?;
    Ok(format!("ready\n{abi}\n{}", start.elapsed().as_micros()))
}
