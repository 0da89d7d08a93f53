//! Prepares the calls of built-in tools that work on files, commands and pages, before the decision on them.

use std::time::Duration;

use super::CallGate;
use super::resolve::{CallResolution, RefusedCall, ResolvedCall};
use crate::error::ErrorKind;
use crate::tools::builtin::{PrepareError, prepare};
use crate::turn::outcome::CallEnd;
use crate::turn::terminal_output;

/// Time limit of the preparation. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(20);

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
        let preparing = tokio::task::spawn_blocking(move || prepare(&scope, &tool, &arguments));
        let prepared = match tokio::time::timeout(TIME_LIMIT, preparing).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(_)) => Err(PrepareError::from("the call cannot be prepared".to_owned())),
            Err(_) => Err(PrepareError::from(
                "the file system does not answer".to_owned(),
            )),
        };
        match (prepared, self.resolutions.get_mut(at)) {
            (Ok(prepared), Some(CallResolution::Call(resolved))) => {
                resolved.prepared = Some(Box::new(prepared));
            }
            (Err(error), _) => {
                // Text of a file goes only to a model that has read that file.
                let may_see = error
                    .file
                    .as_ref()
                    .is_some_and(|file| work.scope.has_read(file));
                let text = match error.excerpt.filter(|_| may_see) {
                    Some(excerpt) => format!("{}\n{excerpt}", error.message),
                    None => error.message,
                };
                let refused = RefusedCall::unread(self.account(at), text);
                if let Some(resolution) = self.resolutions.get_mut(at) {
                    *resolution = CallResolution::RefusedCall(Box::new(refused));
                }
            }
            _ => {}
        }
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
    /// that the model can correct ends the call, not the turn.
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
        text.await.map(Some).map_err(|e| match e.kind {
            ErrorKind::Usage => CallEnd::Unread(e.message),
            _ => CallEnd::Failed(e.message),
        })
    }
}
