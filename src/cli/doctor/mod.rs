//! `aish-helper doctor`: each thing that aish needs, with its remedy.
//!
//! It is for the day on which nothing works, so it needs nothing that it checks: no daemon (it
//! starts none, since that may be what fails), no readable configuration, no home directory.

mod daemon;
mod files;
mod mcp;
mod model;
mod shell;
mod terminal;

use serde::Serialize;

use super::{print, print_json};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// The most that is shown of a message or a remedy.
const CHARS: usize = 500;

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, or may, but not as it should.
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    message: String,
    remedy: Option<String>,
}

impl Check {
    fn ok(check: &'static str, message: impl Into<String>) -> Check {
        Check {
            check,
            state: State::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    fn warn(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            state: State::Warn,
            remedy: Some(remedy.into()),
            ..Check::ok(check, message)
        }
    }

    fn fail(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            state: State::Fail,
            remedy: Some(remedy.into()),
            ..Check::ok(check, message)
        }
    }

    /// An error of the program itself, which has its remedy with it.
    fn error(check: &'static str, e: &Error) -> Check {
        Check {
            state: State::Fail,
            remedy: e.hint.clone(),
            ..Check::ok(check, &e.message)
        }
    }

    /// Its line, and below it the remedy.
    fn lines(&self) -> String {
        let mark = match self.state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        let mut out = format!(
            "{mark}  {:<11} {}\n",
            self.check,
            one_line(&self.message, CHARS)
        );
        if let Some(remedy) = &self.remedy {
            out.push_str(&format!("{:18}→ {}\n", "", one_line(remedy, CHARS)));
        }
        out
    }
}

/// Checks everything; the exit code is 1 where something fails. `paths` may be what is wrong.
///
/// # Errors
/// stdout is closed.
pub fn run(paths: Result<Paths>, json: bool) -> Result<u8> {
    let checks = all(paths);
    if json {
        print_json(&checks)?;
    } else {
        print(&checks.iter().map(Check::lines).collect::<String>())?;
    }
    let failed = checks.iter().any(|c| c.state == State::Fail);
    Ok(u8::from(failed))
}

fn all(paths: Result<Paths>) -> Vec<Check> {
    let zsh = shell::Zsh::find();
    let mut checks = vec![shell::version(zsh.as_ref())];
    match paths {
        Ok(paths) => {
            let answer = daemon::ask(&paths);
            let shells = answer.as_ref().ok().and_then(|s| Some(s.as_ref()?.shells));
            checks.push(shell::plugin(zsh.as_ref(), shells));
            checks.push(shell::hooks(&paths.events(), shells));
            checks.push(shell::other_llm());
            checks.push(daemon::socket(&paths, &answer));
            checks.extend(files::permissions(&paths));
            checks.push(files::journal(&paths));
            checks.extend(model::config(&paths));
            checks.extend(model::keys(&paths));
            checks.push(daemon::endpoint(&answer));
            checks.extend(mcp::servers(&paths, &answer));
        }
        Err(e) => {
            checks.push(shell::plugin(zsh.as_ref(), None));
            checks.push(shell::other_llm());
            checks.push(Check::error("directories", &e));
        }
    }
    checks.push(terminal::check(&terminal::Facts::here()));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_its_remedy_the_next() {
        assert_eq!(Check::ok("zsh", "5.9").lines(), "ok    zsh         5.9\n");
        assert_eq!(
            Check::fail("socket", "a\nb\u{1b}[31m", "rm it").lines(),
            "fail  socket      a‹\\n›b‹\\x1b›[31m\n                  → rm it\n"
        );
    }

    #[test]
    fn json_has_the_four_names() {
        let check = Check::warn("llm", "m", "r");
        assert_eq!(
            serde_json::to_string(&check).unwrap(),
            r#"{"check":"llm","state":"warn","message":"m","remedy":"r"}"#
        );
    }
}
