//! Texts that zsh may compute with, which runs the commands in their subscripts.

use super::Assessor;
use crate::safety::command::programs;
use crate::safety::command::roles::innermost;
use crate::safety::command::syntax::ScriptSyntax;

/// Builtins of zsh that may compute with their arguments or assign to them. A text that one runs is judged on its own.
const COMPUTES: &[&str] = &[
    "[",
    "[[",
    "bg",
    "break",
    "cd",
    "chdir",
    "continue",
    "declare",
    "disown",
    "echoti",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "float",
    "functions",
    "getopts",
    "hash",
    "history",
    "integer",
    "jobs",
    "kill",
    "let",
    "limit",
    "local",
    "logout",
    "nameref",
    "popd",
    "private",
    "pushd",
    "r",
    "read",
    "readonly",
    "repeat",
    "return",
    "set",
    "setopt",
    "shift",
    "suspend",
    "test",
    "typeset",
    "ulimit",
    "umask",
    "unset",
    "vared",
    "wait",
    "zargs",
    "zcalc",
    "zformat",
    "zle",
    "zparseopts",
    "zregexparse",
    "zselect",
    "zstyle",
];

/// Whether zsh computes nothing of the arguments of a command: a program gets them as they are, and some builtins print them.
fn is_text_for(command: &[String]) -> bool {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["print", rest @ ..] => {
            let mut options = rest.iter().take_while(|option| option.starts_with('-'));
            options.all(|option| option.chars().all(|c| "lnr-".contains(c)))
        }
        ["printf", format, ..] => {
            let mut conversions = format.split('%').skip(1).map(|rest| rest.chars().next());
            !format.starts_with('-')
                && conversions.all(|c| matches!(c, None | Some('s' | 'q' | 'b' | '%')))
        }
        [name, ..] => {
            !COMPUTES.contains(name) && (programs::find(name).is_some() || name.contains('/'))
        }
        [] => true,
    }
}

impl Assessor<'_> {
    /// Whether all commands print or search, or are programs, so that zsh computes none of their arguments.
    pub(super) fn only_prints(&self, script: &ScriptSyntax) -> bool {
        script.commands.iter().all(|command| {
            let values: Vec<String> = command.words.iter().map(|word| self.value(word)).collect();
            match values.is_empty() {
                true => command.assignments.is_empty(),
                false => is_text_for(&innermost(&values)),
            }
        })
    }
}
