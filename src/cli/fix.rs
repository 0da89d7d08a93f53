//! `aish-helper fix`: explains the last failure of a shell and corrects the command, for `llm :fix` and its key.

use std::io::Read;

use super::args::FixArgs;
use super::call::current_directory;
use crate::client::fix::{self, FailedLine};
use crate::client::terminal::tty_name;
use crate::config::env_overrides;
use crate::error::{ErrorContext, Result};
use crate::paths::{Paths, terminal_variables};
use crate::protocol::AskRequest;

/// Maximum size of the description of a failed command, with the names of all commands of the shell.
const MAX_DESCRIPTION: u64 = 8 << 20;

/// Returns the explanation, NUL, and the command if there is one; the zsh function splits them. The description of the
/// failed command is on stdin, since other users can see arguments.
///
/// # Errors
/// The request to the model failed.
pub fn run(paths: impl FnOnce() -> Result<Paths>, args: FixArgs) -> Result<String> {
    let mut description = Vec::new();
    std::io::stdin()
        .take(MAX_DESCRIPTION)
        .read_to_end(&mut description)
        .context(|| "cannot read the description of the command".into())?;
    let failed = FailedLine::parse(&description)?;
    let correction = match failed.without_model() {
        Some(correction) => correction,
        None => {
            let ask = AskRequest {
                shell: Some(args.shell),
                model: args.model,
                cwd: current_directory(),
                overrides: env_overrides()?,
                tty: tty_name(),
                // A daemon that was restarted does not know where the shell runs.
                terminal: terminal_variables(),
                ..AskRequest::default()
            };
            fix::ask_model(&paths()?, &failed, ask)?
        }
    };
    let command = correction.command.unwrap_or_default();
    Ok(format!("{}\0{command}", correction.explanation.join("\n")))
}
