//! Says what a command line does, as far as its text shows: whether it reads, writes, destroys, uses the network or runs
//! downloaded code, and why.
//!
//! A text is screened for what only zsh knows (`zsh_screen`), parsed with the grammar of bash (`syntax`), and its commands
//! are compared with a table of programs (`programs`). What is not understood is [`CommandClass::Unknown`]. The result
//! only ever raises what is asked: it is not a sandbox, and what a program that the table trusts really does is not known. Aliases
//! and functions of the user are not known either: only the names of programs count.
//!
//! Pure: no IO, no clock, no environment.

mod assessor;
mod class;
mod code;
mod findings;
mod inner_text;
mod interpreters;
mod programs;
mod roles;
mod shell_options;
mod special;
mod syntax;
mod targets;
mod word;
mod wrappers;
mod zsh_screen;

pub use class::CommandClass;
pub use inner_text::inner_text;
pub use targets::{CommandPlace, is_run_later_at_home, run_later_places};

use std::collections::BTreeSet;

use crate::chat::OperationClass;
use assessor::Assessor;

/// Longest command that is analysed, in bytes. Longer ones are [`CommandClass::Unknown`].
const MAX_COMMAND: usize = 16 << 10;

/// Maximum number of reasons.
const MAX_REASONS: usize = 5;

/// Effects of a command line, as far as its text shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAssessment {
    /// The worst of the effects.
    pub class: CommandClass,
    /// Why, one line each, the worst first. Names from the command are in them: they are not yet fit for a terminal.
    pub reasons: Vec<String>,
    /// All effects seen.
    pub effects: BTreeSet<CommandClass>,
}

impl CommandAssessment {
    /// Makes the assessment of a command that was not analysed, for a reason.
    pub fn unknown(reason: &str) -> CommandAssessment {
        CommandAssessment {
            class: CommandClass::Unknown,
            reasons: vec![reason.to_owned()],
            effects: BTreeSet::from([CommandClass::Unknown]),
        }
    }

    /// Returns the operation class for the policy.
    pub fn operation(&self) -> OperationClass {
        match self.class {
            CommandClass::Reads => OperationClass::Read,
            CommandClass::Writes | CommandClass::Network => OperationClass::Write,
            CommandClass::Unknown | CommandClass::Destroys | CommandClass::RunsDownloadedCode => {
                OperationClass::Destructive
            }
        }
    }

    /// Whether a person must type the whole word to approve the command.
    pub fn needs_typed_yes(&self) -> bool {
        matches!(
            self.class,
            CommandClass::Destroys | CommandClass::RunsDownloadedCode
        )
    }

    /// Returns the line that warns of the command, if it needs one.
    pub fn warning(&self) -> Option<String> {
        let reason = self.reasons.first();
        match self.class {
            CommandClass::Reads | CommandClass::Writes | CommandClass::Network => None,
            CommandClass::Unknown => Some(match reason {
                Some(reason) => format!("could not be analysed: {reason}"),
                None => "could not be analysed".to_owned(),
            }),
            CommandClass::Destroys | CommandClass::RunsDownloadedCode => {
                Some(reason.map_or_else(|| self.class.as_str().to_owned(), Clone::clone))
            }
        }
    }
}

/// Assesses a command line.
pub fn assess(command: &str, place: &CommandPlace<'_>) -> CommandAssessment {
    let mut assessor = Assessor::new(place);
    match command.len() <= MAX_COMMAND {
        true => assessor.run(command),
        false => assessor
            .findings
            .add(CommandClass::Unknown, "it is too long"),
    }
    let mut effects = assessor.findings.classes();
    let class = effects.last().copied().unwrap_or(CommandClass::Reads);
    effects.insert(class);
    CommandAssessment {
        class,
        reasons: assessor.findings.reasons(MAX_REASONS),
        effects,
    }
}

#[cfg(test)]
mod tests;
