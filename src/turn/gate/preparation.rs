//! Prepares the calls of built-in tools that work on files, commands and pages, before the decision on them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::CallGate;
use super::resolve::{CallResolution, RefusedCall, ResolvedCall};
use crate::safety::policy::{PolicyDecision, RuleEffect};
use crate::tools::builtin::{PrepareError, PreparedCall, READ_FILE, WorkScope, prepare};
use crate::turn::outcome::CallEnd;
use crate::turn::protected_files::{self, ProtectionCheck};
use crate::turn::terminal_output;

/// Time limit of the preparation. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Why a call is asked about that cannot be made, where something allows calls that can be made.
const TELLS: &str = "the reason why it cannot be made would reveal a file that may not be read";

impl CallGate<'_> {
    /// Prepares call number `at`. A call that cannot be made is refused, with the reason for the model.
    pub(super) async fn prepare(&mut self, at: usize) {
        let Some(work) = self.context.request.work.clone() else {
            return;
        };
        let Some(resolved) = self.resolved_call(at).filter(|call| call.is_work()) else {
            return;
        };
        let (tool, arguments) = (resolved.tool.name.clone(), resolved.arguments.clone());
        let scope = work.scope.clone();
        let prepared = prepared(&scope, &tool, &arguments).await;
        match (prepared, self.resolutions.get_mut(at)) {
            (Ok(mut prepared), Some(CallResolution::Call(resolved))) => {
                if let Some(blocked) = &self.blocked {
                    prepared.mark_second_run(blocked);
                }
                resolved.prepared = Some(Box::new(prepared));
            }
            (Err(error), _) => self.refuse(at, &scope, error).await,
            _ => {}
        }
    }

    /// Ends call number `at`, which cannot be made, with the reason for the model. A reason that reveals something of files which the model
    /// may not read is given only after a yes, and none where a rule denies the call.
    async fn refuse(&mut self, at: usize, scope: &Arc<WorkScope>, error: PrepareError) {
        if !error.paths.is_empty() {
            self.renew().await;
            let effect = self.prepare_refusal(at, scope, &error);
            let mut is_told = effect != Some(RuleEffect::Deny);
            for path in &error.paths {
                is_told = is_told && self.may_reveal(scope, &path.absolute).await;
            }
            if !is_told {
                let resolution = self.resolutions.get_mut(at);
                if let Some(CallResolution::Call(resolved)) = resolution
                    && let Some(prepared) = &mut resolved.prepared
                    && effect == Some(RuleEffect::Allow)
                {
                    // A rule that allows changes does not allow to be told of a file.
                    prepared.reason = Some(TELLS.to_owned());
                }
                return;
            }
        }
        let sees_text = match &error.file {
            Some(file) => self.may_reveal(scope, file).await,
            None => false,
        };
        let text = match error.excerpt.filter(|_| sees_text) {
            Some(excerpt) => format!("{}\n{excerpt}", error.message),
            None => error.message,
        };
        let refused = RefusedCall::unread(self.account(at), text);
        if let Some(resolution) = self.resolutions.get_mut(at) {
            *resolution = CallResolution::RefusedCall(Box::new(refused));
        }
    }

    /// Makes a call that only gives the reason out of call number `at`, with the effects that it would have if it could be made. Returns
    /// what the policy decides on it.
    fn prepare_refusal(
        &mut self,
        at: usize,
        scope: &Arc<WorkScope>,
        error: &PrepareError,
    ) -> Option<RuleEffect> {
        let Some(CallResolution::Call(resolved)) = self.resolutions.get_mut(at) else {
            return None;
        };
        resolved.prepared = Some(Box::new(error.refused_call(scope, resolved.tool)));
        let resolved = self.resolved_call(at)?;
        let decided = self.decide(&self.call_request(resolved, &resolved.arguments));
        decided.map(|(decision, _)| decision.effect())
    }

    /// Whether the caller has seen a file, or may read it without a question.
    async fn may_reveal(&self, scope: &Arc<WorkScope>, file: &Path) -> bool {
        if scope.has_seen(file) {
            return true;
        }
        let Some(call) = self.read_call(scope, file).await else {
            return false;
        };
        let decision = self.decide(&self.call_request(&call, &call.arguments));
        matches!(decision, Some((PolicyDecision::Allow(..), _)))
    }

    /// Returns the call by which the model would read a file.
    async fn read_call(&self, scope: &Arc<WorkScope>, file: &Path) -> Option<ResolvedCall<'_>> {
        let mut offered = self.offered_work().iter();
        let tool = offered.find(|tool| tool.name == READ_FILE);
        let arguments = json!({ "path": file.to_str()? }).to_string();
        let mut resolved = ResolvedCall::direct(tool?, arguments);
        let (scope, file) = (scope.clone(), file.to_owned());
        let prepared = on_thread(move || PreparedCall::reading(&scope, &file)).await;
        let prepared = prepared.ok().flatten()?;
        self.renew().await;
        let check = ProtectionCheck::of_prepared(&prepared, &self.context.request.cwd);
        let (paths, overrides) = (
            &self.context.services.paths,
            &self.context.request.overrides,
        );
        let reasons = protected_files::protection_reasons(paths, overrides, vec![check]).await;
        resolved.protected = reasons.into_iter().next().flatten();
        resolved.prepared = Some(Box::new(prepared));
        Some(resolved)
    }

    /// Prepares the calls from `start` on that only read files, so that one sync covers their approvals. They are prepared again
    /// when it is their turn, because an earlier call may have changed the files.
    pub(super) async fn prepare_reads(&mut self, start: usize) {
        for at in start..self.calls.len() {
            let Some(resolved) = self.resolved_call(at) else {
                return;
            };
            if !resolved.is_work() {
                continue;
            }
            if !resolved.tool.annotations.reads_only() {
                return;
            }
            if resolved.prepared.is_none() {
                self.prepare(at).await;
            }
        }
    }

    /// Replaces the arguments of call number `at` by those that the user has edited, and prepares it again.
    pub(super) async fn edit(&mut self, at: usize, arguments: String) {
        if let Some(CallResolution::Call(resolved)) = self.resolutions.get_mut(at) {
            resolved.arguments = arguments;
            resolved.edited = true;
        }
        self.prepare(at).await;
        let reasons = self.protection_reasons(at).await;
        self.set_protected(at, reasons);
    }

    /// Returns the result of a call that reads the output of the user's commands, without secrets; `None` for other calls. An error
    /// ends the call, not the turn: the model can answer without the output.
    pub(super) async fn terminal_output(
        &self,
        resolved: &ResolvedCall<'_>,
    ) -> Result<Option<String>, CallEnd> {
        let wanted = self.context.request.terminal.as_ref();
        let Some(wanted) = wanted.filter(|_| resolved.is_terminal_output()) else {
            return Ok(None);
        };
        let services = self.context.services;
        let text = terminal_output::for_model(services, wanted.clone(), &resolved.arguments);
        text.await.map(Some).map_err(|e| CallEnd::Unread(e.message))
    }
}

/// Prepares a call on another thread.
async fn prepared(
    scope: &Arc<WorkScope>,
    tool: &str,
    arguments: &str,
) -> Result<PreparedCall, PrepareError> {
    let (scope, tool, arguments) = (scope.clone(), tool.to_owned(), arguments.to_owned());
    let deadline = Instant::now() + TIME_LIMIT;
    let preparing = on_thread(move || prepare(&scope, &tool, &arguments, deadline));
    match preparing.await {
        Ok(prepared) => prepared,
        Err(reason) => Err(PrepareError::from(reason.to_owned())),
    }
}

/// Runs `work` on another thread, within the time limit.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    let running = tokio::task::spawn_blocking(work);
    match tokio::time::timeout(TIME_LIMIT, running).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err("the call cannot be prepared"),
        Err(_) => Err("the file system does not answer, or the change is too large"),
    }
}
