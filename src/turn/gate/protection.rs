//! Marks the calls that reach protected files.

use super::CallGate;
use super::resolve::CallResolution;
use crate::turn::protected_files::{self, ProtectionCheck};

impl CallGate<'_> {
    /// Returns for each call from `start` on why it must be asked about.
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
        let checks = self.resolutions.iter().skip(start).map(check).collect();
        protected_files::protection_reasons(
            &services.paths,
            &self.context.request.overrides,
            checks,
        )
        .await
    }

    /// Stores the reasons of the calls from `start` on.
    pub(super) fn set_protected(&mut self, start: usize, reasons: Vec<Option<String>>) {
        let calls = self.resolutions.iter_mut().skip(start);
        for (resolution, reason) in calls.zip(reasons) {
            if let CallResolution::Call(resolved) = resolution {
                resolved.protected = reason;
            }
        }
    }
}
