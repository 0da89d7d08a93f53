//! Programs with a command language of their own: what the commands in their arguments do.

use super::{CallOutcome, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::Unknown;

/// A family of programs, the options that give them commands, and the commands that are harmless.
struct CommandLanguage {
    names: &'static [&'static str],
    options: &'static [&'static str],
    /// Whether `+COMMAND` is a command.
    has_plus: bool,
    has_long_dash: bool,
    /// First words of commands that only show something or change what is shown.
    harmless: &'static [&'static str],
}

const LANGUAGES: [CommandLanguage; 5] = [
    CommandLanguage {
        names: &["vim", "vi", "nvim", "ex", "view", "gvim"],
        options: &["-c", "--cmd", "--remote-send", "--remote-expr"],
        has_plus: true,
        has_long_dash: false,
        harmless: &[
            "set",
            "setlocal",
            "q",
            "q!",
            "qa",
            "qa!",
            "quit",
            "quit!",
            "qall",
            "qall!",
            "w",
            "wq",
            "wqa",
            "x",
            "syntax",
            "colorscheme",
            "help",
            "version",
            "split",
            "vsplit",
            "tabnew",
            "edit",
            "checkhealth",
            "startinsert",
            "normal!G",
            "retab",
            "noh",
        ],
    },
    CommandLanguage {
        names: &["gdb", "cgdb"],
        options: &["-ex", "-iex", "-eval-command", "-init-eval-command"],
        has_plus: false,
        has_long_dash: true,
        harmless: &[
            "bt",
            "backtrace",
            "where",
            "info",
            "run",
            "r",
            "start",
            "continue",
            "c",
            "quit",
            "q",
            "list",
            "l",
            "print",
            "p",
            "thread",
            "set",
            "break",
            "b",
            "tbreak",
            "frame",
            "up",
            "down",
            "disassemble",
            "x",
            "kill",
            "file",
            "core-file",
            "directory",
            "target",
            "attach",
            "detach",
        ],
    },
    CommandLanguage {
        names: &["lldb"],
        options: &[
            "-o",
            "-O",
            "-k",
            "-K",
            "--one-line",
            "--one-line-before-file",
            "--one-line-on-crash",
        ],
        has_plus: false,
        has_long_dash: false,
        harmless: &[
            "bt",
            "run",
            "r",
            "continue",
            "c",
            "quit",
            "q",
            "thread",
            "frame",
            "breakpoint",
            "b",
            "register",
            "image",
            "process",
            "settings",
            "p",
            "print",
        ],
    },
    CommandLanguage {
        names: &["less", "more", "most"],
        options: &[],
        has_plus: true,
        has_long_dash: false,
        harmless: &["G", "g", "F"],
    },
    CommandLanguage {
        names: &["fzf", "sk"],
        options: &["--bind"],
        has_plus: false,
        has_long_dash: false,
        harmless: &[],
    },
];

/// Actions of `fzf` that run a command.
const RUNNING_ACTIONS: [&str; 6] = [
    "execute",
    "become",
    "reload",
    "transform",
    "preview",
    "start",
];

/// Judges the commands in the arguments of such a program.
pub fn judge(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let language = LANGUAGES
        .iter()
        .find(|language| language.names.contains(&call.name));
    let Some(language) = language else {
        return CallOutcome::default();
    };
    let mut commands = super::find_values(call, language.options, language.has_long_dash);
    if language.has_plus {
        commands.extend(
            call.arguments
                .iter()
                .filter_map(|argument| argument.strip_prefix('+')),
        );
    }
    let is_harmless = |command: &&str| match call.name {
        "fzf" | "sk" => !RUNNING_ACTIONS
            .iter()
            .any(|action| command.contains(action)),
        _ => is_harmless(command, language.harmless),
    };
    if !commands.iter().all(is_harmless) {
        findings.add(
            Unknown,
            format!("{} runs commands of its own language", call.name),
        );
    }
    CallOutcome::default()
}

/// Whether a command is a position, a search, or one of these with plain words.
fn is_harmless(command: &str, known: &[&str]) -> bool {
    let command = command.trim().trim_start_matches(':').trim();
    let is_position = command.chars().all(|c| c.is_ascii_digit() || c == '$');
    let is_search = command.starts_with(['/', '?']) && !command.contains(['\n', '|']);
    let word = command.split([' ', '=']).next().unwrap_or_default();
    let is_plain = command.chars().all(|c| {
        c.is_ascii_alphanumeric()
            || matches!(
                c,
                ' ' | '=' | '_' | '-' | '.' | '/' | ',' | '*' | '+' | '$' | ':'
            )
    });
    let runs = [
        "shell",
        "pipe",
        "python",
        "call",
        "source",
        "compile",
        "guile",
        "lua",
        "platform",
        "shellcmdflag",
    ];
    let runs = command.split([' ', '=']).any(|word| runs.contains(&word));
    let is_known = known.contains(&word) && !runs && (is_plain || word == command);
    is_position || is_search || is_known
}
