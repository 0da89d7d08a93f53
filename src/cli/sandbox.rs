//! `aish-helper sandbox`: runs a command in a sandbox.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::args::SandboxArgs;
use super::print_json;
use crate::error::{Error, ErrorContext, Result};
use crate::paths;
use crate::safety::text;
use crate::sandbox::{self, PathRules, SandboxInvocation, SandboxPolicy};

/// Runs the command and returns its exit code.
///
/// # Errors
/// The sandbox is unavailable or cannot be built; the command has not run.
pub fn run(args: SandboxArgs) -> Result<u8> {
    let is_trial = args.trial && args.stage.is_none();
    let invocation = invocation(args)?;
    if invocation.stage.is_none() {
        for path in hidden_all_the_same(&invocation.policy) {
            let path = path.display();
            let line = format!(
                "{path} stays hidden: no option opens keys, histories, start-up files and files of aish"
            );
            // As below.
            let _ = writeln!(std::io::stderr(), "aish: {}", text::one_line(&line, 1000));
        }
    }
    let outcome = sandbox::run(invocation)?;
    for notice in &outcome.notices {
        // A closed stderr cannot be reported anywhere.
        let _ = writeln!(std::io::stderr(), "aish: {}", text::one_line(notice, 1000));
    }
    if is_trial {
        print_json(&outcome.support)?;
    }
    Ok(outcome.code)
}

/// Returns the paths of `--read` and `--write` that have no effect, because they are hidden.
fn hidden_all_the_same(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut rules_of = policy.clone();
    rules_of.home = rules_of.home.as_ref().map(real);
    rules_of.hidden.extend(policy.hidden.iter().map(real));
    let rules = PathRules::new(&rules_of);
    let asked = policy.read.iter().chain(&policy.write);
    asked
        .filter(|path| rules.is_hidden(&real(path)))
        .cloned()
        .collect()
}

fn invocation(args: SandboxArgs) -> Result<SandboxInvocation> {
    let dir = match args.dir {
        Some(dir) => dir,
        None => std::env::current_dir().context(|| "cannot find the working directory".into())?,
    };
    let mut policy = SandboxPolicy::new(args.level.into(), dir);
    policy.write = args.write;
    policy.read = args.read;
    policy.hidden = args.hide;
    policy.shown = args.show;
    policy.network = args.network;
    policy.variables = args.env.into_iter().map(variable).collect::<Result<_>>()?;
    policy.keep_fd = args.keep_fd;
    policy.adopts = args.adopt;
    policy.namespaces = !args.no_namespaces;
    let limits = &mut policy.limits;
    limits.memory_mib = args.max_memory;
    limits.cpu_seconds = args.max_cpu;
    limits.temporary_mib = args.max_temporary.unwrap_or(limits.temporary_mib);
    limits.file_mib = args.max_file.unwrap_or(limits.file_mib);
    limits.processes = args.max_processes.unwrap_or(limits.processes);
    policy.home = args.home;
    policy.is_root = nix::unistd::geteuid().is_root();
    if args.stage.is_none() {
        policy.home = policy
            .home
            .or_else(|| paths::variable("HOME").map(Into::into));
        // Without a home directory aish has no directories either.
        if let Ok(own) = paths::Paths::from_env() {
            policy
                .hidden
                .extend([own.config, own.data, own.state, own.run, own.socket_dir]);
        }
    }
    let programs = paths::variable("PATH").unwrap_or_default();
    let mut invocation = SandboxInvocation {
        policy,
        command: args.command,
        environment: paths::sandbox_environment(),
        programs: std::env::split_paths(&programs)
            .filter(|dir| dir.is_absolute())
            .collect(),
        stage: args.stage.map(Into::into),
        status_fd: args.status_fd,
    };
    invocation.set_prepared(args.private_tmp, args.guard);
    Ok(invocation)
}

/// Splits `NAME=VALUE`.
fn variable(word: OsString) -> Result<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=');
    match equals.and_then(|at| bytes.split_at_checked(at)) {
        Some((name, value)) if !name.is_empty() => Ok((
            OsString::from_vec(name.to_vec()),
            OsString::from_vec(value.iter().skip(1).copied().collect()),
        )),
        _ => Err(Error::usage("--env takes NAME=VALUE")),
    }
}
