//! Checks the parts of the sandbox on this machine.

use super::CheckResult;
use crate::error::Error;
use crate::sandbox;

/// Builds a sandbox without a command.
pub(super) fn check_sandbox() -> CheckResult {
    let built = std::env::current_exe()
        .map_err(|e| Error::runtime(format!("cannot find this program: {e}")))
        .and_then(|helper| sandbox::support(&helper));
    match built {
        Ok(support) => CheckResult::ok("sandbox", support.describe()),
        Err(e) => CheckResult::warn("sandbox", &e.message, e.hint.unwrap_or_default()),
    }
}
