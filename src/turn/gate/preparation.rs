//! Prepares the calls of built-in tools that work on files, commands and pages, before the decision on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::CallGate;
use super::resolve::{CallResolution, RefusedCall, ResolvedCall};
use crate::safety::policy::PolicyDecision;
use crate::tools::builtin::{PrepareError, PreparedCall, READ_FILE, WorkScope, prepare};
use crate::turn::outcome::CallEnd;
use crate::turn::protected_files::{self, ProtectionCheck};
use crate::turn::terminal_output;

/// Time limit of the preparation. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// What the model may learn about a file without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Its text.
    Text,
    /// Why a change of it cannot be made: it is in the workspace.
    Reasons,
    /// Nothing.
    Nothing,
}

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
            (Ok(prepared), Some(CallResolution::Call(resolved))) => {
                resolved.prepared = Some(Box::new(prepared));
            }
            (Err(error), _) => self.refuse(at, &scope, error).await,
            _ => {}
        }
    }

    /// Ends call number `at`, which cannot be made, with the reason for the model. A reason that reveals something about files
    /// which the model has not read, and which are asked about each time, is given only after a yes.
    async fn refuse(&mut self, at: usize, scope: &Arc<WorkScope>, error: PrepareError) {
        let mut unread = None;
        for path in &error.paths {
            if self.sight(scope, &path.absolute).await == Sight::Nothing {
                unread.get_or_insert(path);
            }
        }
        if unread.is_some()
            && let Some(CallResolution::Call(resolved)) = self.resolutions.get_mut(at)
        {
            resolved.prepared = Some(Box::new(error.asked_about(scope)));
            return;
        }
        let sees_text = match &error.file {
            Some(file) => self.sight(scope, file).await == Sight::Text,
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

    /// Returns what the caller may learn about a file without a question.
    async fn sight(&self, scope: &Arc<WorkScope>, file: &Path) -> Sight {
        if scope.may_see(file) {
            return Sight::Text;
        }
        let Some(call) = self.read_call(scope, file).await else {
            return Sight::Nothing;
        };
        let decision = self.decide(&self.call_request(&call, &call.arguments));
        match decision.map(|(decision, _)| decision) {
            Some(PolicyDecision::Allow(..)) => Sight::Text,
            Some(PolicyDecision::Ask(_)) if call.asks_only_for_the_workspace() => Sight::Reasons,
            _ => Sight::Nothing,
        }
    }

    /// Returns the call by which the model would read a file.
    async fn read_call(&self, scope: &Arc<WorkScope>, file: &Path) -> Option<ResolvedCall<'_>> {
        let mut offered = self.offered_work().iter();
        let tool = offered.find(|tool| tool.name == READ_FILE);
        let arguments = json!({ "path": file.to_str()? }).to_string();
        let mut resolved = ResolvedCall::direct(tool?, arguments);
        let prepared = prepared(scope, READ_FILE, &resolved.arguments).await.ok()?;
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
    /// when it is their turn, because an earlier call may have changed what is there.
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
    let preparing = tokio::task::spawn_blocking(move || prepare(&scope, &tool, &arguments));
    match tokio::time::timeout(TIME_LIMIT, preparing).await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(_)) => Err(PrepareError::from("the call cannot be prepared".to_owned())),
        Err(_) => Err(PrepareError::from(format!(
            "the call was not prepared within {} s: the file system does not answer, or the change is too large",
            TIME_LIMIT.as_secs()
        ))),
    }
}
