//! Marks the calls that reach protected files.

use super::CallGate;
use super::resolve::{CallResolution, ResolvedCall};
use crate::turn::code_blocks;
use crate::turn::protected_files::{self, ProtectionCheck};

/// Why a block of code is asked about.
const BLOCK: &str = "it is in the text of the answer, which no rule and no earlier answer covers";

impl CallGate<'_> {
    /// Returns why a call must be asked about, for number `start` and those that may run concurrently with it. The check reads the file
    /// system, so it is made for no call twice.
    pub(super) async fn protection_reasons(&self, start: usize) -> Vec<Option<String>> {
        let services = self.context.services;
        let check = |resolution: &CallResolution<'_>| {
            let resolved = resolution.call();
            if let Some(prepared) = resolved.and_then(|resolved| resolved.prepared.as_ref()) {
                return ProtectionCheck::of_prepared(prepared, &self.context.request.cwd);
            }
            let arguments = resolved.map_or("null", |resolved| resolved.arguments.as_str());
            let tool = resolved.map(|resolved| resolved.tool);
            let reads = tool.is_some_and(|tool| tool.trusted && tool.annotations.reads_only());
            let server = tool.and_then(|tool| services.mcp.server(&tool.server));
            let cwd = &self.context.request.cwd;
            ProtectionCheck::of_call(arguments, reads, cwd, server.as_ref())
        };
        let calls = self.resolutions.iter().skip(start);
        let is_alone = |one: &CallResolution<'_>| one.call().is_some_and(ResolvedCall::is_builtin);
        let alone = calls.clone().take(1).any(is_alone);
        let following = calls
            .clone()
            .skip(1)
            .take_while(|one| !alone && !is_alone(one));
        let checks = calls.clone().take(1).chain(following).map(check).collect();
        protected_files::protection_reasons(
            &services.paths,
            &self.context.request.overrides,
            checks,
        )
        .await
    }

    /// Stores the reasons of the calls from `start` on.
    pub(super) fn set_protected(&mut self, start: usize, reasons: Vec<Option<String>>) {
        let calls = self.resolutions.iter_mut().zip(self.calls).skip(start);
        for ((resolution, call), reason) in calls.zip(reasons) {
            if let CallResolution::Call(resolved) = resolution {
                // A model quotes code that it has read; nobody but the person knows whether it is meant to run.
                let is_block = call.id.starts_with(code_blocks::ID_PREFIX);
                let of_block = is_block.then(|| BLOCK.to_owned());
                resolved.protected = reason.or(of_block);
            }
        }
    }
}
