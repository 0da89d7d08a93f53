//! Checks of the daemon and of the model that it would use.

use std::collections::BTreeMap;

use super::CheckResult;
use crate::client::config_question::CONFIRM_HINT;
use crate::client::connect::{self, ExistingDaemon};
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{DaemonStatus, Request};

/// Asks a running daemon for its status; `None` without a daemon. Never starts one.
pub(super) fn query_status(paths: &Paths) -> Result<Option<DaemonStatus>> {
    let request = Request::Status {
        shell: None,
        // The check of the configuration reports invalid overrides.
        overrides: env_overrides().unwrap_or_else(|_| BTreeMap::new()),
    };
    match connect::existing(paths, &request)? {
        ExistingDaemon::Serves(mut connection) => connection.reply().map(Some),
        // The next llm waits until it exits and starts a new one.
        ExistingDaemon::Leaves(_) | ExistingDaemon::Absent => Ok(None),
    }
}

/// Checks that clients of this user, and nobody else, can reach the daemon.
pub(super) fn check_socket(paths: &Paths, status: &Result<Option<DaemonStatus>>) -> CheckResult {
    let own_version = env!("CARGO_PKG_VERSION");
    match status {
        Err(e) => CheckResult::error("socket", e),
        Ok(Some(status)) if status.version != own_version => CheckResult::warn(
            "socket",
            format!(
                "the daemon is version {}, this program is version {own_version}",
                status.version
            ),
            "run: aish-helper restart",
        ),
        Ok(Some(status)) => CheckResult::ok(
            "socket",
            format!(
                "{}: daemon {} answers, pid {}",
                status.socket, status.version, status.pid
            ),
        ),
        Ok(None) => match paths.check_run() {
            Err(e) => CheckResult::error("socket", &e),
            Ok(_) => CheckResult::ok(
                "socket",
                "no daemon is running; the next llm starts it, or run: aish-helper start",
            ),
        },
    }
}

/// Checks that the model for the next prompt answers.
/// `has_unconfirmed` is whether configured models wait for a confirmation.
pub(super) fn check_endpoint(
    status: &Result<Option<DaemonStatus>>,
    has_unconfirmed: bool,
) -> CheckResult {
    let Ok(Some(status)) = status else {
        return CheckResult::warn(
            "endpoint",
            "not checked: the daemon is not running",
            "run: aish-helper start && aish-helper doctor",
        );
    };
    if status.config_error.is_some() {
        let message = "not checked: the configuration cannot be read";
        return CheckResult::warn("endpoint", message, "correct the configuration first");
    }
    let state = status.endpoint_state.as_deref().unwrap_or("unknown");
    let Some(model) = &status.model else {
        return CheckResult::fail(
            "endpoint",
            state,
            match has_unconfirmed {
                true => CONFIRM_HINT,
                false => {
                    "set OPENAI_API_KEY, start a local server, or run: aish-helper model add, or: aish-helper model install smollm2"
                }
            },
        );
    };
    let place = status.endpoint.as_deref().unwrap_or("unknown");
    let message = format!("{model} at {place}: {state}");
    match state {
        "answers" | "started when needed" => CheckResult::ok("endpoint", message),
        state if state.starts_with("answers, but") => CheckResult::warn(
            "endpoint",
            message,
            "correct `model` in the configuration, or choose another: aish-helper model list",
        ),
        _ => CheckResult::fail(
            "endpoint",
            message,
            "start that server, check its base_url and key, or choose another: aish-helper model list",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;
    use crate::error::Error;

    fn status(model: Option<&str>, state: &str) -> Result<Option<DaemonStatus>> {
        Ok(Some(DaemonStatus {
            config_changes: 0,
            pid: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_seconds: 0,
            socket: "/s".into(),
            memory_bytes: 0,
            model: model.map(Into::into),
            endpoint: model.map(|_| "http://127.0.0.1/v1".into()),
            endpoint_state: Some(state.into()),
            sessions: 0,
            shells: 0,
            turns: 0,
            journal_bytes: 0,
            config: None,
            config_error: None,
            servers: Vec::new(),
            http: None,
            shares: 0,
        }))
    }

    #[test]
    fn the_endpoint_check_follows_the_status() {
        let state = |model, text: &str| check_endpoint(&status(model, text), false).state;
        assert_eq!(state(Some("m"), "answers"), CheckState::Ok);
        assert_eq!(state(Some("m"), "started when needed"), CheckState::Ok);
        assert_eq!(
            state(Some("m"), "answers, but does not list the model x"),
            CheckState::Warn
        );
        assert_eq!(state(Some("m"), "cannot connect to x"), CheckState::Fail);
        assert_eq!(state(None, "no model"), CheckState::Fail);
        assert_eq!(check_endpoint(&Ok(None), false).state, CheckState::Warn);
        let waits = check_endpoint(&status(None, "no model"), true);
        assert_eq!(waits.remedy.as_deref(), Some(CONFIRM_HINT));
        let mut unusable = status(None, "models.m.foo: unknown key");
        if let Ok(Some(status)) = &mut unusable {
            status.config_error = Some("models.m.foo: unknown key".into());
        }
        let check = check_endpoint(&unusable, false);
        assert_eq!(
            check.remedy.as_deref(),
            Some("correct the configuration first")
        );
    }

    #[test]
    fn another_daemon_version_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let mut answer = status(Some("m"), "answers");
        assert_eq!(check_socket(&paths, &answer).state, CheckState::Ok);
        if let Ok(Some(status)) = &mut answer {
            status.version = "0.0.1".into();
        }
        assert_eq!(check_socket(&paths, &answer).state, CheckState::Warn);
        assert_eq!(check_socket(&paths, &Ok(None)).state, CheckState::Ok);
        assert_eq!(
            check_socket(&paths, &Err(Error::runtime("hangs"))).state,
            CheckState::Fail
        );
    }
}
