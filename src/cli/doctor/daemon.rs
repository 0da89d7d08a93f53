//! The daemon behind its socket, and the model behind the daemon.

use std::collections::BTreeMap;

use super::Check;
use crate::client::connect::{self, Existing};
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{Request, Status};

/// What the daemon says; `None` when there is none. Nobody starts one for this.
pub(super) fn ask(paths: &Paths) -> Result<Option<Status>> {
    let request = Request::Status {
        shell: None,
        // What is wrong with them is said by the check of the configuration.
        overrides: env_overrides().unwrap_or_else(|_| BTreeMap::new()),
    };
    match connect::existing(paths, &request)? {
        Existing::Serves(mut connection) => connection.reply().map(Some),
        // The next llm waits for its end and starts the next.
        Existing::Leaves(_) | Existing::Absent => Ok(None),
    }
}

/// Can a client reach it, and nobody else?
pub(super) fn socket(paths: &Paths, answer: &Result<Option<Status>>) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    match answer {
        Err(e) => Check::error("socket", e),
        Ok(Some(status)) if status.version != ours => Check::warn(
            "socket",
            format!("the daemon is version {}, this is {ours}", status.version),
            "run: aish-helper restart",
        ),
        Ok(Some(status)) => Check::ok(
            "socket",
            format!(
                "{}: daemon {} answers, pid {}",
                status.socket, status.version, status.pid
            ),
        ),
        Ok(None) => match paths.check_run() {
            Err(e) => Check::error("socket", &e),
            Ok(_) => Check::ok(
                "socket",
                "no daemon runs; the first llm starts it, or: aish-helper start",
            ),
        },
    }
}

/// Does the model that a prompt would go to answer?
pub(super) fn endpoint(answer: &Result<Option<Status>>) -> Check {
    let Ok(Some(status)) = answer else {
        return Check::warn(
            "endpoint",
            "not asked: the daemon does not run",
            "run: aish-helper start && aish-helper doctor",
        );
    };
    let state = status.endpoint_state.as_deref().unwrap_or("unknown");
    let Some(model) = &status.model else {
        return Check::fail(
            "endpoint",
            state,
            "set OPENAI_API_KEY, start a local server, or run: aish-helper model install smollm2",
        );
    };
    let place = status.endpoint.as_deref().unwrap_or("unknown");
    let message = format!("{model} at {place}: {state}");
    match state {
        "answers" | "started when needed" => Check::ok("endpoint", message),
        state if state.starts_with("answers, but") => Check::warn(
            "endpoint",
            message,
            "correct `model` in the configuration, or choose another: aish-helper model list",
        ),
        _ => Check::fail(
            "endpoint",
            message,
            "start that server, check its base_url and key, or choose another: aish-helper model list",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use crate::error::Error;

    fn status(model: Option<&str>, state: &str) -> Result<Option<Status>> {
        Ok(Some(Status {
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
            servers: Vec::new(),
        }))
    }

    #[test]
    fn the_endpoint_is_what_the_daemon_says() {
        let state = |model, text: &str| endpoint(&status(model, text)).state;
        assert_eq!(state(Some("m"), "answers"), State::Ok);
        assert_eq!(state(Some("m"), "started when needed"), State::Ok);
        assert_eq!(
            state(Some("m"), "answers, but does not list the model x"),
            State::Warn
        );
        assert_eq!(state(Some("m"), "cannot connect to x"), State::Fail);
        assert_eq!(state(None, "no model"), State::Fail);
        assert_eq!(endpoint(&Ok(None)).state, State::Warn);
    }

    #[test]
    fn another_version_is_told() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let mut answer = status(Some("m"), "answers");
        assert_eq!(socket(&paths, &answer).state, State::Ok);
        if let Ok(Some(status)) = &mut answer {
            status.version = "0.0.1".into();
        }
        assert_eq!(socket(&paths, &answer).state, State::Warn);
        assert_eq!(socket(&paths, &Ok(None)).state, State::Ok);
        assert_eq!(
            socket(&paths, &Err(Error::runtime("hangs"))).state,
            State::Fail
        );
    }
}
