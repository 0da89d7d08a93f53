//! Finds commands that run a text which they do not show: the output of a decoder or a download, given to a shell.

use super::ANY;
use super::programs::{INTERPRETERS, SHELLS, TEXT_MAKERS};
use super::shell_words::{SimpleCommand, simple_commands};

/// Whether a command runs a text that is not part of it. `program` is the name of its program, `operands` the words after it.
///
/// `eval "$(ssh-agent)"` is not such a command: it runs what one program prints for this purpose.
pub(super) fn runs_unknown_text(
    command: &SimpleCommand,
    program: &str,
    operands: &[String],
) -> bool {
    let makes_text = || command.substitutions.iter().any(|text| makes_text(text));
    let is_made = |word: &str| word.contains(ANY) && makes_text();
    // The end of a group.
    let operands = operands.strip_suffix(&["}".to_owned()]).unwrap_or(operands);
    let first = operands.first().map_or("", String::as_str);
    match program {
        "eval" => first.starts_with('$') || operands.iter().any(|word| is_made(word)),
        "." | "source" => is_input(first) || is_whole(first) && makes_text(),
        // These run a text of their own, or elsewhere.
        "parallel" | "ssh" | "trap" | "watch" | "xargs" => false,
        name if SHELLS.contains(&name) || INTERPRETERS.contains(&name) => {
            let option = operands.iter().position(|word| is_text_option(word));
            match option.and_then(|at| operands.get(at + 1)) {
                Some(text) => text.starts_with('$') || is_made(text),
                None => {
                    command.is_piped && reads_input(operands)
                        || script(operands).is_some_and(is_whole) && makes_text()
                }
            }
        }
        name => name.starts_with(ANY) && makes_text(),
    }
}

/// Whether a word is the option of a shell or an interpreter whose operand is a program.
fn is_text_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    letters.is_some_and(|letters| letters.ends_with(['c', 'e', 'r']))
}

/// Whether a shell with these operands runs its input.
fn reads_input(operands: &[String]) -> bool {
    operands.iter().any(|word| word == "-s") || script(operands).is_none_or(is_input)
}

/// The first word that is not an option.
fn script(operands: &[String]) -> Option<&str> {
    let is_option = |word: &str| word.starts_with(['-', '+']) && word.len() > 1;
    let mut words = operands.iter().map(String::as_str);
    words.find(|word| !is_option(word))
}

/// Whether a word is nothing but a substitution.
fn is_whole(word: &str) -> bool {
    word.chars().eq([ANY])
}

fn is_input(word: &str) -> bool {
    matches!(word, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Whether the command of a substitution composes or decodes a text.
fn makes_text(text: &str) -> bool {
    let commands = simple_commands(text);
    let [command] = commands.as_slice() else {
        return !commands.is_empty();
    };
    let name = command.words.first().map_or("", String::as_str);
    let name = name.rsplit('/').next().unwrap_or(name);
    let is_maker = TEXT_MAKERS.contains(&name) || INTERPRETERS.contains(&name);
    is_maker || name.contains(ANY)
}
