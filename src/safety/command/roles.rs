//! The part of a command in a pipeline: whether it brings data from the network, and whether it runs its input.

mod input;

use super::wrappers::{self, WrappedCommand};
use crate::safety::command::word::program_name;

pub use input::{input_role, prints_commands, sends_input};

/// Kind of output that a command writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputRole {
    /// Data from the network.
    Downloads,
    /// This text.
    Constant(String),
    /// Its input, changed or not.
    Passes {
        /// Whether the text is another one afterwards.
        changes: bool,
    },
    /// Anything else.
    Local,
}

/// Use of the input by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRole {
    /// A shell runs it.
    Shell,
    /// An interpreter runs it.
    Code,
    /// A client of a database runs it.
    Query,
    /// Something that runs each line, or runs it later.
    Opaque,
    /// An interpreter of another language runs it.
    OtherCode,
    /// It is sent to another machine, which may take it for commands.
    Lines,
    /// A client of a file server runs it.
    Server,
    /// It answers a question before something is overwritten or changed.
    Answers,
    /// A program installs or runs the things that it names or describes.
    Installs,
    /// Data.
    Data,
}

/// Most wrappers around a command.
pub const MAX_WRAPPERS: usize = 12;

/// Returns the part of `env` that it runs, or `None` if it prints the environment.
pub fn env_command(arguments: &[String]) -> WrappedCommand {
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        if !argument.starts_with('-') && !argument.contains('=') {
            return WrappedCommand::At(at);
        }
        if !argument.starts_with('-') {
            at += 1;
            continue;
        }
        let split = match argument.strip_prefix("--") {
            Some(long) if long.starts_with('s') => {
                Some(long.split_once('=').map_or("", |(_, text)| text))
            }
            Some(_) => None,
            // The text after a letter that takes a value is that value.
            None => {
                let letter = argument.find(['S', 'u', 'C', 'P', 'a']);
                letter.and_then(|at| argument.get(at..)?.strip_prefix('S'))
            }
        };
        at += 1;
        if let Some(text) = split {
            let rest = arguments.get(at..).unwrap_or_default();
            let words = std::iter::once(text).chain(rest.iter().map(String::as_str));
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            return WrappedCommand::Text(words.join(" "));
        }
        let takes = ["-u", "--unset", "-C", "--chdir", "-P", "-a", "--argv0"];
        at += wrappers::values_of(argument, &takes);
    }
    WrappedCommand::Nothing
}

/// Returns what a program runs, if it is a wrapper.
pub fn wrapped(name: &str, arguments: &[String]) -> Option<WrappedCommand> {
    let second = arguments.get(1).map(String::as_str).unwrap_or_default();
    match name {
        "env" => Some(env_command(arguments)),
        // These only print.
        "command" if matches!(second, "-v" | "-V") => None,
        "git" => None,
        _ => wrappers::wrapped(name, arguments),
    }
}

/// Returns the arguments of the program that is run in the end, with its name.
pub fn innermost(arguments: &[String]) -> Vec<String> {
    let mut rest = arguments.to_vec();
    for _ in 0..MAX_WRAPPERS {
        let Some(name) = rest.first() else {
            return rest;
        };
        match wrapped(program_name(name), &rest) {
            Some(WrappedCommand::At(at)) => rest = rest.split_off(at.min(rest.len())),
            Some(WrappedCommand::Arguments(arguments)) => rest = arguments,
            // Split at spaces only; the text itself is analysed elsewhere.
            Some(WrappedCommand::Text(text)) => {
                rest = text.split_whitespace().map(str::to_owned).collect()
            }
            _ => return rest,
        }
    }
    rest
}

/// Whether a command, or what it runs as `sudo` does, is run by `ssh` on another machine, which gets its input.
pub fn runs_remotely(arguments: &[String]) -> bool {
    let mut rest = arguments.to_vec();
    for _ in 0..MAX_WRAPPERS {
        let name = rest.first().map_or("", |path| program_name(path));
        if matches!(name, "ssh" | "autossh" | "slogin" | "dbclient" | "tsh") {
            return true;
        }
        match wrapped(name, &rest) {
            Some(WrappedCommand::At(at)) => rest = rest.split_off(at.min(rest.len())),
            Some(WrappedCommand::Arguments(arguments)) => rest = arguments,
            _ => return false,
        }
    }
    false
}

/// Returns the name of the program of a command, and its operands and options.
fn program_of(command: &[String]) -> (&str, &[String]) {
    match command.split_first() {
        Some((name, rest)) => (program_name(name), rest),
        None => ("", &[]),
    }
}

/// Returns what a command writes to its output.
pub fn output_role(arguments: &[String]) -> OutputRole {
    let (outer, _) = program_of(arguments);
    if matches!(outer, "ssh" | "autossh") {
        return OutputRole::Downloads;
    }
    let rest = innermost(arguments);
    let (name, operands) = program_of(&rest);
    match name {
        // Files of this machine only.
        "curl" | "wget"
            if operands.iter().any(|url| url.starts_with("file://"))
                && operands.iter().all(|word| {
                    let is_option = word.starts_with('-') && !word.contains("://");
                    is_option || word.starts_with("file://")
                }) =>
        {
            OutputRole::Local
        }
        "curl" | "wget" | "wget2" | "aria2c" | "axel" | "http" | "https" | "xh" | "httpie"
        | "fetch" | "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ssh" | "lynx" | "w3m"
        | "links" | "lwp-request" | "GET" | "scp" | "ftp" | "tftp" | "dig" | "websocat" => {
            OutputRole::Downloads
        }
        "git"
            if operands.iter().any(|word| word == "archive")
                && operands.iter().any(|word| word.starts_with("--remote")) =>
        {
            OutputRole::Downloads
        }
        "gh" if operands
            .first()
            .is_some_and(|sub| sub == "api" || sub == "gist") =>
        {
            OutputRole::Downloads
        }
        "aws" | "gsutil" | "gcloud"
            if operands
                .iter()
                .any(|operand| operand == "cp" || operand == "cat") =>
        {
            OutputRole::Downloads
        }
        "echo" | "print" | "printf" => {
            let is_option = |word: &&String| match name {
                "echo" => word
                    .strip_prefix('-')
                    .is_some_and(|own| !own.is_empty() && own.chars().all(|c| "neE".contains(c))),
                "print" => word.starts_with('-') && word.len() < 4,
                _ => *word == "--",
            };
            let words = operands.iter().skip_while(is_option);
            let mut text: Vec<&str> = words.map(String::as_str).collect();
            if name == "printf" {
                // Without a conversion, it prints its format once.
                text.truncate(1);
                if text.iter().any(|format| format.starts_with('-')) {
                    return OutputRole::Local;
                }
            }
            let text = text.join(" ").replace("\\n", "\n").replace("\\r", "");
            match text.contains(super::word::UNKNOWN) || text.contains('%') || text.contains('\\') {
                true => OutputRole::Local,
                false => OutputRole::Constant(text),
            }
        }
        "cat" | "tee" | "pv" | "sponge" | "buffer" | "mbuffer"
            if operands
                .iter()
                .all(|operand| name == "tee" || name == "sponge" || operand.starts_with('-')) =>
        {
            OutputRole::Passes { changes: false }
        }
        "base64" | "base32" | "xxd" | "gunzip" | "gzip" | "zcat" | "xz" | "unxz" | "bzip2"
        | "bunzip2" | "zstd" | "openssl" | "gpg" | "rev" | "tr" | "sed" | "awk" | "cut"
        | "head" | "tail" | "sort" | "tac" | "uniq" | "grep" | "jq" | "yq" | "tar" | "uudecode"
        | "xargs" | "iconv" | "dos2unix" | "envsubst" | "fold" | "fmt" | "perl" | "python"
        | "python3" | "lz4" | "base58" => OutputRole::Passes { changes: true },
        _ => OutputRole::Local,
    }
}
