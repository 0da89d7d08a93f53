//! `aish-helper doctor`: checks everything aish needs and prints a remedy for each fault.
//!
//! The doctor depends on nothing that it checks: it starts no daemon (which may be what fails) and needs neither
//! a readable configuration nor a home directory.

mod daemon;
mod files;
mod mcp;
mod model;
mod output;
mod sandbox;
mod shell;
mod terminal;

use serde::Serialize;

use super::{print_hanging, print_json};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// Maximum number of characters shown of a message or a remedy.
const MAX_MESSAGE: usize = 500;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    /// Works, or may work, with a limitation.
    Warn,
    Fail,
}

/// One check with its result and remedy.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct CheckResult {
    check: &'static str,
    state: CheckState,
    message: String,
    remedy: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, message: impl Into<String>) -> CheckResult {
        CheckResult {
            check,
            state: CheckState::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    fn warn(
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> CheckResult {
        CheckResult {
            state: CheckState::Warn,
            remedy: Some(remedy.into()),
            ..CheckResult::ok(check, message)
        }
    }

    fn fail(
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> CheckResult {
        CheckResult {
            state: CheckState::Fail,
            remedy: Some(remedy.into()),
            ..CheckResult::ok(check, message)
        }
    }

    /// A failed check from an error, whose hint is the remedy.
    fn error(check: &'static str, e: &Error) -> CheckResult {
        CheckResult {
            state: CheckState::Fail,
            remedy: e.hint.clone(),
            ..CheckResult::ok(check, &e.message)
        }
    }

    /// Formats the result as one line, with the remedy on the next.
    fn lines(&self) -> String {
        let mark = match self.state {
            CheckState::Ok => "ok  ",
            CheckState::Warn => "warn",
            CheckState::Fail => "fail",
        };
        let mut out = format!(
            "{mark}  {:<11} {}\n",
            self.check,
            one_line(&self.message, MAX_MESSAGE)
        );
        if let Some(remedy) = &self.remedy {
            out.push_str(&format!("{:18}→ {}\n", "", one_line(remedy, MAX_MESSAGE)));
        }
        out
    }
}

/// Runs all checks; the exit code is 1 if one fails. An error in `paths` is reported as a failed check.
///
/// # Errors
/// Writing to stdout failed.
pub fn run(paths: Result<Paths>, json: bool) -> Result<u8> {
    let checks = run_checks(paths);
    if json {
        print_json(&checks)?;
    } else {
        print_hanging(
            &checks.iter().map(CheckResult::lines).collect::<String>(),
            18,
        )?;
    }
    let failed = checks.iter().any(|c| c.state == CheckState::Fail);
    Ok(u8::from(failed))
}

fn run_checks(paths: Result<Paths>) -> Vec<CheckResult> {
    let zsh = shell::ZshInstallation::find();
    let mut checks = vec![shell::check_version(zsh.as_ref())];
    match paths {
        Ok(paths) => {
            let status = daemon::query_status(&paths);
            let shells = status.as_ref().ok().and_then(|s| Some(s.as_ref()?.shells));
            checks.push(shell::check_plugin(zsh.as_ref(), shells));
            checks.push(shell::check_hooks(&paths.events(), shells));
            checks.push(shell::check_other_llm());
            checks.push(daemon::check_socket(&paths, &status));
            checks.extend(files::permissions(&paths));
            checks.push(files::journal(&paths));
            checks.extend(files::shares(&paths));
            checks.extend(model::check_config(&paths));
            checks.extend(model::check_keys(&paths));
            let has_unconfirmed = model::has_unconfirmed(&paths);
            checks.push(daemon::check_endpoint(&status, has_unconfirmed));
            checks.extend(mcp::check_servers(&paths, &status));
            checks.push(output::check_output(Some(&paths)));
        }
        Err(e) => {
            checks.push(shell::check_plugin(zsh.as_ref(), None));
            checks.push(shell::check_other_llm());
            checks.push(CheckResult::error("directories", &e));
            checks.push(output::check_output(None));
        }
    }
    checks.push(sandbox::check_sandbox());
    checks.push(terminal::check_terminal(&terminal::TerminalFacts::current()));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_on_the_line_below_the_check() {
        assert_eq!(
            CheckResult::ok("zsh", "5.9").lines(),
            "ok    zsh         5.9\n"
        );
        assert_eq!(
            CheckResult::fail("socket", "a\nb\u{1b}[31m", "rm it").lines(),
            "fail  socket      a‹\\n›b‹\\x1b›[31m\n                  → rm it\n"
        );
    }

    #[test]
    fn json_has_four_fields() {
        let check = CheckResult::warn("llm", "m", "r");
        assert_eq!(
            serde_json::to_string(&check).unwrap(),
            r#"{"check":"llm","state":"warn","message":"m","remedy":"r"}"#
        );
    }
}
