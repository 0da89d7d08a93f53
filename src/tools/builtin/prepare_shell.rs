//! Prepares commands of the tool `shell`: where they run, what they may reach, and what they would damage.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::prepared::{PrepareError, PreparedCall, PreparedWork, ShellWork, on_paths, resolve};
use super::scope::WorkScope;
use crate::chat::OperationClass;
use crate::safety::command::{self, CommandPlace};
use crate::safety::policy::BuiltinAction;
use crate::sandbox::SandboxLevel;
use crate::workspace::shown_path;

/// Time limit of a command, if the call sets none.
pub(super) const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShellArguments {
    command: String,
    dir: Option<String>,
    timeout: Option<u64>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    outside_sandbox: bool,
}

/// Prepares a command: the rights that it has, and what its text says that it does.
pub(super) fn shell(scope: &WorkScope, call: ShellArguments) -> Result<PreparedCall, PrepareError> {
    if call.command.trim().is_empty() {
        return Err(PrepareError::from("the command is empty".to_owned()));
    }
    if call.command.contains('\0') {
        return Err(PrepareError::from("the command has a NUL byte".to_owned()));
    }
    let dir = match &call.dir {
        Some(dir) => {
            let dir = resolve(scope, dir)?;
            // What is outside is looked at after the yes.
            if dir.workspace.is_some() {
                dir.open_dir().map_err(|e| PrepareError {
                    paths: vec![dir.clone()],
                    ..PrepareError::from(e.message)
                })?;
            }
            dir
        }
        None => scope
            .workspace
            .resolve_path(scope.workspace.cwd())
            .map_err(|e| PrepareError::from(e.message))?,
    };
    let outside = call.outside_sandbox || scope.shell.sandbox.is_none();
    let work = PreparedWork::Shell(ShellWork {
        command: call.command.clone(),
        dir: dir.absolute.clone(),
        time_limit: call.timeout.map_or(DEFAULT_TIME_LIMIT, Duration::from_secs),
        network: call.network,
        outside,
    });
    let mut prepared = on_paths(scope, BuiltinAction::Shell, &[&dir], work);
    // The directory is not a file that is read or written: the command decides what happens there.
    prepared.files.clear();
    let roots: Vec<&Path> = scope.workspace.roots().collect();
    let workspace: Vec<String> = roots
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    let assessed = command::assess(
        &call.command,
        &CommandPlace {
            cwd: &dir.absolute.to_string_lossy(),
            home: &scope.home.to_string_lossy(),
            workspace: &workspace.iter().map(String::as_str).collect::<Vec<_>>(),
        },
    );
    let raised = assessed.operation();
    prepared.second_action = call.network.then_some(BuiltinAction::Network);
    prepared.operation = (raised > OperationClass::Write).then_some(raised);
    prepared.danger = assessed.warning();
    prepared.typed_yes = assessed.needs_typed_yes();
    prepared.reason = match (&prepared.reason, outside, call.network) {
        (Some(reason), ..) => Some(reason.clone()),
        (None, true, _) => Some("it runs outside of the sandbox".to_owned()),
        (None, false, true) => Some("it uses the network".to_owned()),
        (None, false, false) => None,
    };
    let reach = match (outside, call.network) {
        (true, _) => Some("your files and the network, outside of the sandbox"),
        (false, true) => Some("the workspace and the network"),
        (false, false) => None,
    };
    let is_foreign = !roots.iter().any(|root| dir.absolute.starts_with(root));
    let reads = |level: SandboxLevel| {
        let policy = scope.sandbox_policy(level, &dir.absolute, call.network);
        policy.read.contains(&dir.absolute)
    };
    let shown = shown_path(&dir.absolute);
    let what = match scope.shell.sandbox.filter(|_| !outside) {
        _ if !is_foreign => prepared.statement,
        None => Some(format!("in {shown}")),
        Some(level) if reads(level) => Some(format!("reads {shown}, changes nothing there")),
        Some(_) => Some(format!("in {shown}, with no additional rights there")),
    };
    let parts: Vec<String> = what.into_iter().chain(reach.map(str::to_owned)).collect();
    prepared.statement = (!parts.is_empty()).then(|| parts.join("; "));
    prepared.command = Some(call.command);
    Ok(prepared)
}
