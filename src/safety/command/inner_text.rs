//! The command that a program runs with its arguments, for searches that compare words only.

use super::interpreters::is_shell;
use super::roles;
use super::shell_options::ShellOptions;
use super::word::program_name;
use super::wrappers::{WrappedCommand, elsewhere};

/// Returns the command that a program runs on this machine with its last arguments, as in `timeout 5 make`, `sh -c make` or
/// `eval make`. `words` begin with the program; quotes in them are not kept.
pub fn inner_text(words: &[String]) -> Option<String> {
    let name = program_name(words.first()?);
    let arguments = words.get(1..).unwrap_or_default();
    let text = |words: &[String]| words.join(" ");
    match roles::wrapped(name, words) {
        Some(_) if elsewhere(name, words).is_some() => None,
        Some(WrappedCommand::At(at)) => words.get(at..).map(text),
        Some(WrappedCommand::Arguments(inner)) => Some(text(&inner)),
        Some(WrappedCommand::Text(inner)) => Some(inner),
        Some(WrappedCommand::Nothing) => None,
        None if name == "eval" => Some(text(arguments)),
        None if is_shell(name) => {
            let options = ShellOptions::read(arguments);
            let inner = arguments.get(options.operand..)?;
            options.has_text.then(|| text(inner))
        }
        None => None,
    }
}
