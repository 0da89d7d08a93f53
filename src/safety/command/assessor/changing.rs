//! Builtins that change what the names in a text stand for, and variables that change without one.

use crate::safety::command::word::{ShellWord, UNKNOWN, WordPart};

/// Commands that may give variables and functions a value or meaning that is not in the text.
pub(super) const DYNAMIC: [&str; 29] = [
    "alias",
    "autoload",
    "disable",
    "emulate",
    "enable",
    "eval",
    "getln",
    "getopts",
    "mapfile",
    "nameref",
    "pcre_match",
    "read",
    "readarray",
    "sched",
    "setopt",
    "source",
    "strftime",
    "sysread",
    "trap",
    "vared",
    "zformat",
    "zmodload",
    "zparseopts",
    "zpty",
    "zregexparse",
    "zselect",
    "zstat",
    "zstyle",
    "ztie",
];

/// Commands that declare or remove the variables which their arguments name.
pub(super) const DECLARING: [&str; 9] = [
    "declare", "export", "float", "integer", "local", "private", "readonly", "typeset", "unset",
];

/// Commands that change positional parameters.
pub(super) const POSITIONAL: [&str; 2] = ["set", "shift"];

/// Words before a builtin that leave it the one that runs.
const BEFORE_BUILTIN: [&str; 9] = [
    "-",
    "builtin",
    "command",
    "coproc",
    "exec",
    "nocorrect",
    "noglob",
    "repeat",
    "time",
];

/// Variables that the shell itself sets, or that share their value with another one.
pub(super) const OF_SHELL: [&str; 60] = [
    "_",
    "ARGC",
    "BASHPID",
    "CDPATH",
    "COLUMNS",
    "ERRNO",
    "FIGNORE",
    "FPATH",
    "HISTCMD",
    "HOME",
    "IFS",
    "LINENO",
    "LINES",
    "MAILPATH",
    "MANPATH",
    "MATCH",
    "MODULE_PATH",
    "OLDPWD",
    "OPTARG",
    "OPTIND",
    "PATH",
    "PROMPT",
    "PROMPT2",
    "PROMPT3",
    "PROMPT4",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PSVAR",
    "PWD",
    "RANDOM",
    "REPLY",
    "RPROMPT",
    "RPROMPT2",
    "RPS1",
    "RPS2",
    "SECONDS",
    "SHELL",
    "SHLVL",
    "WATCH",
    "argv",
    "cdpath",
    "fignore",
    "fpath",
    "mailpath",
    "manpath",
    "match",
    "mbegin",
    "mend",
    "module_path",
    "path",
    "pipestatus",
    "prompt",
    "psvar",
    "reply",
    "signals",
    "status",
    "watch",
    "words",
];

/// Whether a builtin that may change what names stand for is the value of a word.
pub(super) fn is_changing(text: &str) -> bool {
    let mut names = DYNAMIC.iter().chain(&DECLARING).chain(&POSITIONAL);
    let is_before = BEFORE_BUILTIN.contains(&text) && !matches!(text, "-" | "exec" | "time");
    names.any(|name| *name == text) || is_before || matches!(text, "." | "print" | "printf")
}

/// Whether a word of which parts are not known may be a builtin that may change what names stand for.
pub(super) fn may_be_changing(value: &str) -> bool {
    const OTHERS: [&str; 3] = [".", "print", "printf"];
    let start = value.split(UNKNOWN).next().unwrap_or_default();
    let end = value.rsplit(UNKNOWN).next().unwrap_or_default();
    let names = DYNAMIC.iter().chain(&DECLARING).chain(&POSITIONAL);
    let mut names = names.chain(&BEFORE_BUILTIN).chain(&OTHERS);
    names.any(|name| {
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end))
    })
}

/// Returns the command that the shell runs after words such as `noglob builtin`, and its arguments.
pub(super) fn builtin_of(values: &[String]) -> &[String] {
    let is_before = |word: &String| {
        let is_count = word.starts_with(|c: char| c.is_ascii_digit() || c == UNKNOWN);
        BEFORE_BUILTIN.contains(&word.as_str()) || is_count || word.starts_with('-')
    };
    let has_prefix = values
        .first()
        .is_some_and(|word| BEFORE_BUILTIN.contains(&word.as_str()));
    let skipped = values
        .iter()
        .take_while(|word| has_prefix && is_before(word));
    values.get(skipped.count()..).unwrap_or_default()
}

/// Whether a word names a variable as the text shows it: `NAME` or `NAME=VALUE`, with nothing quoted or expanded in the name.
pub(super) fn is_plain_name(word: &ShellWord) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let Some((
        WordPart::Text {
            text,
            is_quoted: false,
        },
        rest,
    )) = word.parts().split_first()
    else {
        return false;
    };
    match text.split_once('=') {
        Some((name, _)) => name.chars().all(is_name),
        None => rest.is_empty() && text.chars().all(is_name),
    }
}
