//! The part of a command in a pipeline: whether it brings data from the network, and whether it runs its input.

use super::interpreters;
use super::wrappers::{self, WrappedCommand};

/// What a command writes to its output.
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

/// What a command does with its input.
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
    /// Data.
    Data,
}

/// Most wrappers around a command.
pub const MAX_WRAPPERS: usize = 12;

/// Returns the name of a program without a directory in which programs are installed.
pub fn program_name(path: &str) -> &str {
    const PLACES: [&str; 12] = [
        "/bin",
        "/usr/bin",
        "/usr/local/bin",
        "/sbin",
        "/usr/sbin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/.local/bin",
        "/.cargo/bin",
        "node_modules/.bin",
        "venv/bin",
        "/vendor/bin",
    ];
    match path.rsplit_once('/') {
        Some((directory, name))
            if PLACES.iter().any(|place| {
                directory == *place
                    || !place.starts_with("/bin")
                        && !place.starts_with("/sbin")
                        && directory.ends_with(place)
            }) =>
        {
            name
        }
        _ => path,
    }
}

/// Returns the part of `env` that it runs, or `None` if it prints the environment.
pub fn env_command(arguments: &[String]) -> WrappedCommand {
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            "-u" | "--unset" | "-C" | "--chdir" => at += 2,
            "-S" | "--split-string" => {
                let text = arguments.get(at + 1..).unwrap_or_default().join(" ");
                return WrappedCommand::Text(text);
            }
            argument if argument.starts_with("-S") || argument.starts_with("--s") => {
                let text = argument.split_once('=').map(|(_, text)| text);
                let text = text.filter(|_| argument.starts_with("--"));
                let text = text.unwrap_or(argument.trim_start_matches("-S"));
                return WrappedCommand::Text(text.to_owned());
            }
            argument if argument.starts_with('-') || argument.contains('=') => at += 1,
            _ => return WrappedCommand::At(at),
        }
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
        // `docker compose exec` is `docker-compose exec`.
        "docker" | "podman" | "nerdctl"
            if arguments
                .iter()
                .skip(1)
                .find(|a| !a.starts_with('-'))
                .is_some_and(|sub| sub == "compose") =>
        {
            let at = arguments
                .iter()
                .position(|argument| argument == "compose")?;
            let rest = arguments.get(at..).unwrap_or_default();
            Some(match wrappers::wrapped("docker-compose", rest)? {
                WrappedCommand::At(inner) => WrappedCommand::At(inner + at),
                other => other,
            })
        }
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
            // As far as spaces tell; the text itself is analysed elsewhere.
            Some(WrappedCommand::Text(text)) => {
                rest = text.split_whitespace().map(str::to_owned).collect()
            }
            _ => return rest,
        }
    }
    rest
}

/// Returns what a command writes to its output.
pub fn output_role(arguments: &[String]) -> OutputRole {
    let outer = arguments
        .first()
        .map(|name| program_name(name))
        .unwrap_or_default();
    if matches!(outer, "ssh" | "autossh") {
        return OutputRole::Downloads;
    }
    let rest = innermost(arguments);
    let name = rest
        .first()
        .map(|name| program_name(name))
        .unwrap_or_default();
    let operands = rest.get(1..).unwrap_or_default();
    match name {
        "curl" | "wget" | "wget2" | "aria2c" | "axel" | "http" | "https" | "xh" | "httpie"
        | "fetch" | "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ssh" | "lynx" | "w3m"
        | "links" | "lwp-request" | "GET" | "scp" | "ftp" | "tftp" | "dig" | "websocat" => {
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
            let words = operands
                .iter()
                .skip_while(|word| word.starts_with('-') && word.len() < 4);
            let text: Vec<&str> = words.map(String::as_str).collect();
            let text = text.join(" ").replace("\\n", "\n");
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
        | "python3" | "lz4" | "base58" | "printf_" => OutputRole::Passes { changes: true },
        _ => OutputRole::Local,
    }
}

/// Returns what a command does with its input.
pub fn input_role(arguments: &[String]) -> InputRole {
    let rest = innermost(arguments);
    let name = rest
        .first()
        .map(|name| program_name(name))
        .unwrap_or_default();
    let operands = rest.get(1..).unwrap_or_default();
    let first = operands
        .iter()
        .find(|operand| !operand.starts_with('-') || *operand == "-");
    let from_input = first.is_none_or(|first| {
        matches!(
            first.as_str(),
            "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"
        )
    });
    if interpreters::is_shell(name) {
        let has_text = operands
            .iter()
            .take_while(|o| o.starts_with('-'))
            .any(|o| !o.starts_with("--") && o.contains('c'));
        let reads = operands
            .iter()
            .take_while(|o| o.starts_with('-'))
            .any(|o| !o.starts_with("--") && o.contains('s'));
        return match !has_text && (from_input || reads) {
            true => InputRole::Shell,
            false => InputRole::Data,
        };
    }
    if interpreters::code_options(name).is_some() {
        let has_code = operands.iter().any(|o| {
            let is_cluster = o.starts_with('-') && !o.starts_with("--") && o.len() > 1;
            is_cluster && o.contains(['c', 'e', 'E', 'm', 'r', 'p'])
                || matches!(
                    o.as_str(),
                    "--eval" | "--print" | "--version" | "--help" | "-V"
                )
        });
        return match !has_code && from_input {
            true => InputRole::Code,
            false => InputRole::Data,
        };
    }
    match name {
        "source" | "." if from_input => InputRole::Shell,
        "psql" | "mysql" | "mariadb" | "sqlite3" | "redis-cli" | "mongosh" | "mongo" | "duckdb"
        | "cqlsh" | "clickhouse-client" | "usql" | "sqlcmd" | "sqlplus" => InputRole::Query,
        "at" | "batch" | "crontab" | "parallel" | "ed" | "ex" => InputRole::Opaque,
        // Without a command, the shell of the other machine reads its input.
        "ssh" => InputRole::Shell,
        "make" | "gmake" if operands.windows(2).any(|pair| pair == ["-f", "-"]) => {
            InputRole::Opaque
        }
        "kubectl" | "docker" => InputRole::Data,
        _ => InputRole::Data,
    }
}
