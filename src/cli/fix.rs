//! `aish-helper fix`: explains the last failure of a shell and corrects the command, for `llm :fix` and its key.

use std::io::Read;

use super::args::FixArgs;
use super::call::current_directory;
use crate::client::fix::{self, FailedLine};
use crate::client::prompt_input;
use crate::client::terminal::tty_name;
use crate::config::env_overrides;
use crate::error::{ErrorContext, Result};
use crate::paths::{self, Paths, terminal_variables};
use crate::protocol::AskRequest;
use crate::safety::command::{self, CommandPlace};
use crate::safety::text::one_line;

/// Maximum size of the description of a failed command, with the names of all commands of the shell.
const MAX_DESCRIPTION: u64 = 8 << 20;

/// Maximum number of characters of a warning.
const MAX_DANGER: usize = 200;

/// Returns the explanation, NUL, and the command if there is one; the zsh function splits them. The description of the
/// failed command is on stdin, since other users can see arguments.
///
/// # Errors
/// The request to the model failed.
pub fn run(own_paths: impl FnOnce() -> Result<Paths>, args: FixArgs) -> Result<String> {
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
                line: prompt_input::read_line(args.line_fd),
                ..AskRequest::default()
            };
            fix::ask_model(&own_paths()?, &failed, ask)?
        }
    };
    let command = correction.command.unwrap_or_default();
    let mut explanation = correction.explanation;
    explanation.extend(warning(&command));
    Ok(format!("{}\0{command}", explanation.join("\n")))
}

/// Names the danger of a command that is put on the command line, where one key runs it.
fn warning(command: &str) -> Option<String> {
    let home = paths::variable("HOME").unwrap_or_default();
    let place = CommandPlace {
        cwd: &current_directory(),
        home: &home.to_string_lossy(),
        workspace: &[],
    };
    let assessed = command::assess(command, &place);
    let danger = assessed.warning().filter(|_| assessed.needs_typed_yes())?;
    Some(format!("Careful: {}", one_line(&danger, MAX_DANGER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_danger_of_a_correction_is_named() {
        let named = warning("rm -rf ~").expect("a danger");
        assert!(named.starts_with("Careful: "), "{named}");
        assert_eq!(warning("git status"), None);
        assert_eq!(warning(""), None);
    }
}
