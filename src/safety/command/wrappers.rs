//! Programs that run another command: where that command begins in their arguments.

mod table;

use table::WRAPPERS;

/// A program, or a subcommand of one, that runs its last arguments.
struct CommandWrapper {
    /// The names, and the subcommand words, if any.
    names: &'static [&'static str],
    subcommands: &'static [&'static str],
    /// Options that take a value in the next argument.
    takes: &'static [&'static str],
    /// Operands before the command.
    skip: usize,
    form: WrappedForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrappedForm {
    /// A program and its arguments.
    Arguments,
    /// The arguments, joined by spaces, are a text for a shell.
    Text,
    /// The command begins behind `--`.
    AfterDashes,
}

/// What a wrapper runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrappedCommand {
    /// The command begins at this argument; the name of the wrapper is argument 0.
    At(usize),
    /// A text for a shell.
    Text(String),
    /// Nothing; the wrapper stands alone.
    Nothing,
}

/// Returns what a wrapper runs, or `None` if the program is no wrapper. `arguments` begin with the name.
pub fn wrapped(name: &str, arguments: &[String]) -> Option<WrappedCommand> {
    let first = arguments
        .iter()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let mut known = WRAPPERS
        .iter()
        .filter(|wrapper| wrapper.names.contains(&name));
    let wrapper = known.find(|wrapper| {
        wrapper.subcommands.is_empty()
            || first.is_some_and(|first| wrapper.subcommands.contains(&first.as_str()))
    })?;
    let mut at = 1;
    if !wrapper.subcommands.is_empty() {
        while arguments
            .get(at)
            .is_some_and(|argument| Some(argument) != first)
        {
            at += 1;
        }
        at += 1;
    }
    if wrapper.form == WrappedForm::AfterDashes {
        let dashes = arguments.iter().position(|argument| argument == "--");
        return Some(match dashes {
            Some(dashes) if dashes + 1 < arguments.len() => WrappedCommand::At(dashes + 1),
            _ => WrappedCommand::Nothing,
        });
    }
    let mut skip = wrapper.skip;
    while let Some(argument) = arguments.get(at) {
        if argument == "--" {
            at += 1;
            continue;
        }
        if argument.starts_with('-') && argument.len() > 1 {
            let takes_next = wrapper.takes.contains(&argument.as_str()) || {
                // The last letter of a cluster takes the value.
                let is_cluster = !argument.starts_with("--") && argument.len() > 2;
                let last = argument.chars().next_back().map(|c| format!("-{c}"));
                is_cluster
                    && argument.chars().skip(1).all(|c| c.is_ascii_alphabetic())
                    && last.is_some_and(|last| wrapper.takes.contains(&last.as_str()))
            };
            at += 1 + usize::from(takes_next);
            continue;
        }
        // `sudo A=1 program`, `env A=1 program`.
        let is_assignment = argument.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if is_assignment && matches!(name, "sudo" | "doas" | "command") {
            at += 1;
            continue;
        }
        if skip > 0 {
            skip -= 1;
            at += 1;
            continue;
        }
        if wrapper.form == WrappedForm::Text {
            let text = arguments.get(at..).unwrap_or_default().join(" ");
            return Some(WrappedCommand::Text(text));
        }
        return Some(WrappedCommand::At(at));
    }
    Some(WrappedCommand::Nothing)
}
