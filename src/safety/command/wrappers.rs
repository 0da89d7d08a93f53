//! Programs that run another command: where that command begins in their arguments.

mod options;
mod runners;
mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::interpreters;
use super::programs;
use super::word::UNKNOWN;
use runners::RUNNERS;
use table::WRAPPERS;

/// A program, or a subcommand of one, that runs its last arguments.
struct CommandWrapper {
    /// The names, and the subcommand words, if any.
    names: &'static [&'static str],
    subcommands: &'static [&'static str],
    /// Options that take a value in the next argument, as often as they take one.
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
    /// The command begins after `--`.
    AfterDashes,
}

/// The entries of the tables by the names of the programs.
static BY_NAME: LazyLock<HashMap<&str, Vec<&CommandWrapper>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<&CommandWrapper>> = HashMap::new();
    for wrapper in WRAPPERS.iter().chain(RUNNERS) {
        for name in wrapper.names {
            all.entry(name).or_default().push(wrapper);
        }
    }
    all
});

/// Command that a wrapper runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrappedCommand {
    /// The command begins at this argument; the name of the wrapper is argument 0.
    At(usize),
    /// A program and its arguments, in another order than in the command.
    Arguments(Vec<String>),
    /// A text for a shell.
    Text(String),
    /// Nothing; the wrapper has no command.
    Nothing,
}

/// Whether a program runs a command with some arguments.
pub fn is_wrapper(name: &str) -> bool {
    BY_NAME.contains_key(name) || matches!(name, "nix" | "zargs")
}

/// Returns what a wrapper runs, or `None` if the program is not a wrapper. `arguments` begin with the name.
pub fn wrapped(name: &str, arguments: &[String]) -> Option<WrappedCommand> {
    match name {
        "zargs" => return Some(zargs(arguments)),
        "nix" => return nix(arguments),
        _ => {}
    }
    let known = BY_NAME.get(name)?;
    let (wrapper, mut at) = known.iter().find_map(|wrapper| {
        let at = match wrapper.subcommands.is_empty() {
            true => 1,
            false => subcommand(name, arguments, wrapper.subcommands)? + 1,
        };
        Some((*wrapper, at))
    })?;
    if wrapper.form == WrappedForm::AfterDashes {
        let dashes = arguments.iter().position(|argument| argument == "--");
        match dashes {
            // Options precede the dashes' own command: `npm exec tsc -- --version`.
            Some(dashes)
                if arguments
                    .get(dashes + 1)
                    .is_some_and(|next| !next.starts_with('-')) =>
            {
                let text = arguments.get(dashes + 1).filter(|text| text.contains(' '));
                return Some(match text {
                    Some(text) => WrappedCommand::Text(text.clone()),
                    None => WrappedCommand::At(dashes + 1),
                });
            }
            // Without `--`, the command follows the operands.
            _ if wrapper.skip > 0 => {}
            _ => return Some(WrappedCommand::Nothing),
        }
    }
    let mut skip = wrapper.skip;
    let mut entrypoint = None;
    while let Some(argument) = arguments.get(at) {
        if argument == "--" {
            at += 1;
            continue;
        }
        if argument.starts_with('-') && argument.len() > 1 {
            let values = values_of(argument, wrapper.takes);
            if name == "parallel" && matches!(argument.as_str(), "--dry-run" | "--dryrun") {
                return Some(WrappedCommand::Nothing);
            }
            if let Some(value) = argument.strip_prefix("--entrypoint") {
                let next = arguments.get(at + 1).map(String::as_str);
                entrypoint = value.strip_prefix('=').or(next);
            }
            // `podman exec --latest` names no container.
            if values == 0 && matches!(argument.as_str(), "-l" | "--latest") && name == "podman" {
                skip = 0;
            }
            at += 1 + values;
            continue;
        }
        // `sudo A=1 program`, `env A=1 program`.
        let is_assignment = argument.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if is_assignment && matches!(name, "sudo" | "doas" | "command" | "cross-env") {
            at += 1;
            continue;
        }
        if skip > 0 {
            skip -= 1;
            at += 1;
            let runs_image =
                skip == 0 && table::CONTAINERS.contains(&name) && wrapper.subcommands != ["exec"];
            let next = arguments
                .get(at)
                .filter(|_| runs_image && entrypoint.is_none());
            if next.is_some_and(|next| !is_program(next)) {
                return Some(WrappedCommand::Nothing);
            }
            // The words after the image are arguments of the entry point, also if they look like options.
            match entrypoint.is_some() && skip == 0 {
                true => break,
                false => continue,
            }
        }
        let rest = arguments.get(at..).unwrap_or_default();
        // Without a command, what `parallel` is given are commands.
        if name == "parallel" && argument.starts_with(":::") {
            let names_file = rest.iter().any(|word| word.starts_with("::::"));
            let texts = rest.iter().filter(|word| !word.starts_with(":::"));
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            return Some(match names_file {
                true => WrappedCommand::Nothing,
                false => WrappedCommand::Text(texts.join("\n")),
            });
        }
        // `parallel` appends arguments to a plain command, as `xargs` does.
        let is_plain = name == "parallel"
            && rest
                .iter()
                .take_while(|word| !word.starts_with(":::"))
                .all(|word| {
                    let plain = word.replace("{}", "");
                    !plain.contains(|c: char| c.is_whitespace() || ";|&<>$`(){".contains(c))
                });
        if wrapper.form == WrappedForm::Text && !is_plain {
            // The words behind `:::` are its arguments.
            let is_list = |word: &&String| name == "parallel" && word.starts_with(":::");
            let words = rest.iter().take_while(|word| !is_list(word));
            let words: Vec<&str> = words.map(String::as_str).collect();
            return Some(WrappedCommand::Text(words.join(" ")));
        }
        // No program has spaces in its name: this is a text for a shell, as in `sudo -s 'rm x'`.
        if argument.contains(char::is_whitespace) {
            return Some(WrappedCommand::Text(rest.join(" ")));
        }
        return Some(WrappedCommand::At(at));
    }
    // The arguments of a container with another entry point are those of that program.
    let Some(entrypoint) = entrypoint.filter(|program| !program.is_empty()) else {
        return Some(match arguments.get(at) {
            Some(_) => WrappedCommand::At(at),
            None => WrappedCommand::Nothing,
        });
    };
    let rest = arguments.get(at..).unwrap_or_default();
    let program = std::iter::once(entrypoint.to_owned());
    Some(WrappedCommand::Arguments(
        program.chain(rest.iter().cloned()).collect(),
    ))
}

/// Returns the command of `nix develop -c COMMAND`, with its arguments.
fn nix(arguments: &[String]) -> Option<WrappedCommand> {
    let is_option = |argument: &String| matches!(argument.as_str(), "-c" | "--command");
    let at = arguments.iter().position(is_option)? + 1;
    let mut own = arguments.iter().take(at);
    if !own.any(|argument| matches!(argument.as_str(), "develop" | "shell")) {
        return None;
    }
    let is_text = arguments.get(at)?.contains(char::is_whitespace);
    Some(match is_text {
        true => WrappedCommand::Text(arguments.get(at..)?.join(" ")),
        false => WrappedCommand::At(at),
    })
}

/// Returns the command of `zargs [OPTION… --] [ARGUMENT…] -- COMMAND`, with its arguments.
fn zargs(arguments: &[String]) -> WrappedCommand {
    let is_end = |argument: &String| argument == "--";
    let mut own = arguments.get(1..).unwrap_or_default();
    if own.first().is_some_and(|first| first.starts_with('-')) {
        let end = own.iter().position(is_end).map_or(own.len(), |end| end + 1);
        own = own.get(end..).unwrap_or_default();
    }
    let Some(end) = own.iter().position(is_end) else {
        return WrappedCommand::Nothing;
    };
    let (added, command) = own.split_at(end);
    let command = command.iter().skip(1).chain(added).cloned();
    WrappedCommand::Arguments(command.collect())
}

/// Returns where a wrapper runs its command if that is not this machine, for the end of a reason.
pub fn elsewhere(name: &str, arguments: &[String]) -> Option<&'static str> {
    let mounts = |argument: &String| {
        argument.starts_with("-v")
            || argument.starts_with("--volume")
            || argument.starts_with("--mount")
    };
    match name {
        "ssh" | "autossh" | "mosh" | "slogin" | "dbclient" | "pssh" | "pdsh" | "clush" | "adb"
        | "ansible" | "aws" | "az" | "docker-machine" | "dokku" | "eb" | "fly" | "flyctl"
        | "gcloud" | "heroku" | "lima" | "limactl" | "minikube" | "multipass" | "tailscale"
        | "tsh" | "vagrant" => Some(" on another machine"),
        // The container has the files of the machine.
        "kubectl" | "oc" | "k" | "kubecolor"
            if arguments.iter().any(|argument| argument == "debug")
                && arguments
                    .iter()
                    .any(|argument| argument.starts_with("node/")) =>
        {
            Some(" on another machine")
        }
        "machinectl" | "pct" | "nomad" => Some(" in a container"),
        "docker" | "podman" | "nerdctl" | "docker-compose" | "podman-compose" | "kubectl"
        | "oc" | "k" | "kubecolor" | "lxc" | "incus" | "crictl" | "ctr"
            if !arguments.iter().any(mounts) =>
        {
            Some(" in a container")
        }
        _ => None,
    }
}

/// Whether a word after the image of a container is a command, and not an argument of the program that the image starts.
fn is_program(word: &str) -> bool {
    programs::find(word).is_some()
        || is_wrapper(word)
        || interpreters::is_shell(word)
        || interpreters::code_options(word).is_some()
        || !word.contains("://")
            && word.contains(|c: char| c == '/' || c == UNKNOWN || c.is_whitespace())
        || matches!(word, "env" | "eval" | "." | "--")
}

/// Returns the index of a subcommand. The words before it are options, their values, and names of groups of subcommands; what
/// follows an option that the table does not know may be its value.
fn subcommand(program: &str, arguments: &[String], names: &[&str]) -> Option<usize> {
    let takes = programs::find(program).map_or(&[][..], |entry| entry.value_options());
    let mut at = 1;
    let mut after_option = false;
    while let Some(argument) = arguments.get(at) {
        let is_option = argument.starts_with('-');
        if !is_option && names.contains(&argument.as_str()) {
            return Some(at);
        }
        let is_group = matches!(argument.as_str(), "compose" | "container");
        if !is_option && !is_group && !after_option {
            return None;
        }
        let has_value = takes.contains(&argument.as_str());
        after_option = is_option && !has_value;
        at += 1 + usize::from(has_value);
    }
    None
}

/// Returns how many of the next arguments are values of an option: a letter that takes a value ends a cluster, and the rest
/// is its value.
pub fn values_of(option: &str, takes: &[&str]) -> usize {
    let values = takes.iter().filter(|name| **name == option).count();
    if values > 0 || option.starts_with("--") {
        return values;
    }
    let takes_value = |letter: char| {
        let mut options = takes.iter();
        options.any(|option| option.len() == 2 && option.ends_with(letter))
    };
    let value = option.find(takes_value);
    usize::from(value.is_some_and(|value| value + 1 == option.len()))
}
