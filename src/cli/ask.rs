//! `aish-helper ask`: the command line of one prompt.

use std::ffi::OsString;
use std::io::IsTerminal;

use super::{args, onboarding};
use crate::client::ask::{self, Outcome};
use crate::client::command;
use crate::client::gather;
use crate::client::output::Format;
use crate::config::env_overrides;
use crate::error::{Kind, Result};
use crate::paths::Paths;
use crate::protocol::{Ask, SessionChoice};

/// Tells the zsh function that commands are proposed.
const PROPOSALS: u8 = 10;

/// zsh's `EPOCHREALTIME`, seconds with a fraction, in milliseconds: as the hooks' events are read.
fn milliseconds(seconds: &str) -> Option<u64> {
    let seconds: f64 = seconds.parse().ok()?;
    // The same steps as there, so that both come to the same number.
    Some((seconds * 1000.0) as u64)
}

/// Asks; where nothing is configured, guides the person and asks again.
///
/// # Errors
/// What failed.
pub fn run(paths: &Paths, args: args::Ask) -> Result<u8> {
    let (text, attachments) = gather::gather(&words(&args.words), &args.files)?;
    let request = Ask {
        session: if args.new {
            SessionChoice::New
        } else if args.continue_ {
            SessionChoice::Continue
        } else {
            args.attach
                .clone()
                .map_or(SessionChoice::Shell, SessionChoice::Attach)
        },
        shell: args.shell,
        model: args.model,
        text,
        attachments,
        cwd: std::env::current_dir()
            .map(|d| d.display().to_string())
            .unwrap_or_default(),
        started_ms: args.started.as_deref().and_then(milliseconds),
        command: args.command,
        overrides: env_overrides()?,
        no_tools: args.no_tools,
        resources: args.resources,
        background: false,
        can_answer: true,
        tty: None,
    };
    let format = match (args.json, args.raw) {
        (true, _) => Format::Json,
        (_, true) => Format::Raw,
        _ => Format::Auto,
    };
    let once = || -> Result<std::result::Result<u8, crate::error::Error>> {
        if args.command {
            return Ok(command::command(paths, request.clone())?.map_or(Ok(0), Err));
        }
        Ok(match ask::ask(paths, request.clone(), format)? {
            Outcome::Answered(answer) if args.offer && answer.proposals > 0 => Ok(PROPOSALS),
            Outcome::Answered(_) => Ok(0),
            Outcome::Unasked => Ok(Kind::Approval.exit_code()),
            Outcome::NothingConfigured(e) => Err(e),
        })
    };
    match once()? {
        Ok(code) => Ok(code),
        // In a script or a pipe nobody expects to be asked.
        Err(e)
            if !args.json
                && std::io::stdin().is_terminal()
                && std::io::stdout().is_terminal()
                && std::io::stderr().is_terminal() =>
        {
            onboarding::run(paths, e)?;
            once()?
        }
        Err(e) => Err(e),
    }
}

/// Words that are not UTF-8 are shown to the model as well as they can be.
fn words(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
    words.join(" ")
}
