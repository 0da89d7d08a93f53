//! Programs with a command language of their own: what the commands in their arguments do.

use super::{CallOutcome, Findings, InnerCommand, ProgramCall};

/// A family of programs, the options that give them commands, and the commands that are harmless.
struct CommandLanguage {
    names: &'static [&'static str],
    options: &'static [&'static str],
    /// Whether `+COMMAND` is a command.
    has_plus: bool,
    has_long_dash: bool,
    /// First words of commands that only show something or change the display.
    harmless: &'static [&'static str],
}

const LANGUAGES: [CommandLanguage; 5] = [
    CommandLanguage {
        names: &[
            "vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "gvimdiff", "rvim", "rview",
            "gview", "evim", "mvim",
        ],
        options: &["-c", "--cmd", "--remote-send", "--remote-expr"],
        has_plus: true,
        has_long_dash: false,
        harmless: &[
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
            "syntax on",
            "syntax off",
            "syntax enable",
            "help",
            "version",
            "split",
            "vsplit",
            "tabnew",
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

/// Options of vim that change the display or the format of the text. Others name scripts, programs or expressions.
const DISPLAY_OPTIONS: &[&str] = &[
    "ai",
    "autoindent",
    "background",
    "bg",
    "cc",
    "cindent",
    "colorcolumn",
    "columns",
    "compatible",
    "conceallevel",
    "cp",
    "cuc",
    "cul",
    "cursorcolumn",
    "cursorline",
    "diff",
    "enc",
    "encoding",
    "et",
    "expandtab",
    "fdl",
    "fdm",
    "fen",
    "fenc",
    "ff",
    "fileencoding",
    "fileformat",
    "filetype",
    "foldenable",
    "foldlevel",
    "foldmethod",
    "ft",
    "hls",
    "hlsearch",
    "ic",
    "ignorecase",
    "incsearch",
    "is",
    "laststatus",
    "lbr",
    "linebreak",
    "lines",
    "list",
    "ma",
    "modifiable",
    "mouse",
    "nu",
    "number",
    "paste",
    "readonly",
    "relativenumber",
    "rnu",
    "ro",
    "ru",
    "ruler",
    "scrollbind",
    "scrolloff",
    "scs",
    "shiftwidth",
    "showcmd",
    "showmode",
    "sidescrolloff",
    "signcolumn",
    "smartcase",
    "smartindent",
    "so",
    "softtabstop",
    "spell",
    "sts",
    "sw",
    "swapfile",
    "swf",
    "syn",
    "syntax",
    "tabstop",
    "termguicolors",
    "textwidth",
    "tgc",
    "ts",
    "tw",
    "wrap",
    "wrapscan",
    "ws",
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
    let is_harmless = |command: &&str| {
        let command = command.trim().trim_start_matches(':').trim();
        match call.name {
            "fzf" | "sk" => !RUNNING_ACTIONS
                .iter()
                .any(|action| command.contains(action)),
            "less" | "more" | "most" => {
                is_position(command)
                    || command.starts_with(['/', '?'])
                        && !command.contains(|c: char| c == '|' || c.is_control())
                    || language.harmless.contains(&command)
            }
            "gdb" | "cgdb" | "lldb" => {
                is_position(command) || is_harmless(command, language.harmless)
            }
            _ => {
                is_position(command)
                    || is_vim_search(command)
                    || is_vim_setting(command)
                    || language.harmless.contains(&command)
                    || is_vim_print(command)
                    || command.starts_with("help ") && is_plain(command)
            }
        }
    };
    if !commands.iter().all(is_harmless) {
        for command in commands.iter().filter(|command| !is_harmless(command)) {
            let reason = format!("{} runs commands of its own language", call.name);
            findings.add_text(reason, *command);
        }
    }
    CallOutcome::default()
}

/// Whether a command is a number of a line.
fn is_position(command: &str) -> bool {
    command.chars().all(|c| c.is_ascii_digit() || c == '$')
}

/// Whether a command of vim is a search without anything after it: a range before a command ends in a second delimiter.
fn is_vim_search(command: &str) -> bool {
    let mut chars = command.chars();
    let Some(delimiter) = chars.next().filter(|c| matches!(c, '/' | '?')) else {
        return false;
    };
    while let Some(c) = chars.next() {
        let is_escape = c == '\\';
        let c = match is_escape {
            true => chars.next().unwrap_or('\n'),
            false => c,
        };
        if c == delimiter && !is_escape || c == '|' || c.is_control() {
            return false;
        }
    }
    true
}

/// Whether a command of vim only prints: lines, the value of an option or variable, its own path.
fn is_vim_print(command: &str) -> bool {
    if let Some(text) = command.strip_prefix("echo ") {
        let path = text
            .strip_prefix("stdpath(")
            .and_then(|rest| rest.strip_suffix(')'));
        let is_value = |c: char| c.is_ascii_alphanumeric() || matches!(c, '&' | '$' | ':' | '_');
        return text.chars().all(is_value)
            || path.is_some_and(|path| path.trim_matches(['"', '\'']).chars().all(is_value));
    }
    let range = command.trim_end_matches("print").trim_end_matches('p');
    let expression = range
        .strip_prefix("g/")
        .and_then(|rest| rest.strip_suffix('/'));
    let is_word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '^' | '$');
    let is_range = |c: char| c.is_ascii_digit() || matches!(c, ',' | '%' | '$' | '.');
    range.len() < command.len()
        && (expression.is_some_and(|text| text.chars().all(is_word)) || range.chars().all(is_range))
}

/// Whether a command of vim sets options that only change the display.
fn is_vim_setting(command: &str) -> bool {
    let mut words = command.split_ascii_whitespace();
    let is_set = words
        .next()
        .is_some_and(|word| matches!(word, "set" | "se" | "setlocal" | "setl"));
    let is_display = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric());
        let (name, value) = word.split_at(end.unwrap_or(word.len()));
        let value = value.trim_start_matches(['=', '!', '&', '?', ':', '+', '-', '^']);
        let plain = name.strip_prefix("no").or(name.strip_prefix("inv"));
        let is_value = |c: char| c.is_ascii_alphanumeric() || matches!(c, ',' | '-' | '+' | '.');
        value.chars().all(is_value)
            && [Some(name), plain]
                .into_iter()
                .flatten()
                .any(|name| DISPLAY_OPTIONS.contains(&name))
    };
    is_set && words.all(is_display)
}

/// Whether a command has words, names and numbers only.
fn is_plain(command: &str) -> bool {
    command.chars().all(|c| {
        c.is_ascii_alphanumeric()
            || matches!(
                c,
                ' ' | '=' | '_' | '-' | '.' | '/' | ',' | '*' | '+' | '$' | ':'
            )
    })
}

/// Whether a command of a debugger is one of these with plain words.
fn is_harmless(command: &str, known: &[&str]) -> bool {
    let word = command.split([' ', '=']).next().unwrap_or_default();
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
    known.contains(&word) && !runs && (is_plain(command) || word == command)
}

/// Variables of make whose values are programs.
const MAKE_PROGRAMS: [&str; 14] = [
    "CC", "CXX", "CPP", "LD", "AR", "AS", "FC", "RM", "MAKE", "INSTALL", "PYTHON", "SUDO", "SHELL",
    "NODE",
];

/// Judges the variables of `make` that name programs.
pub fn make(call: &ProgramCall<'_>) -> CallOutcome {
    let set = call
        .arguments
        .iter()
        .filter_map(|argument| argument.split_once('='));
    let programs = set.filter(|(name, _)| MAKE_PROGRAMS.contains(name));
    // `arm-none-eabi-gcc` is a compiler too.
    let is_compiler = |text: &&str| {
        let name = text.split_whitespace().next().unwrap_or_default();
        let ends = [
            "gcc", "g++", "clang", "clang++", "cc", "ld", "ar", "as", "cpp",
        ];
        !name.contains('/')
            && name
                .rsplit('-')
                .next()
                .is_some_and(|end| ends.contains(&end))
    };
    let texts = programs
        .map(|(_, text)| text)
        .filter(|text| !is_compiler(text));
    CallOutcome {
        inner: texts
            .map(|text| InnerCommand::Text(text.to_owned()))
            .collect(),
        ..CallOutcome::default()
    }
}
