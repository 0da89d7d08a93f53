//! Secret files and values that a command sends over the network.

use std::ops::Range;

use super::candidates::is_positional;
use super::fed::placeholder;
use super::{Assessor, CommandFacts, ScriptFacts, SimpleCommand};
use crate::safety::command::class::CommandClass::{Destroys, Network};
use crate::safety::command::programs::{self, find_option};
use crate::safety::command::roles::{self, innermost};
use crate::safety::command::special::SENDS_SECRET;
use crate::safety::command::targets::{is_private, is_secret};
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};

/// Programs that do not send the contents of the files among their arguments.
const OTHERS: [&str; 26] = [
    "cd",
    "pushd",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "ssh-add",
    "ssh-keygen",
    "ssh-copy-id",
    "chmod",
    "chown",
    "ls",
    "stat",
    "kubectl",
    "docker",
    "export",
    "test",
    "[",
    "echo",
    "redis-cli",
    "valkey-cli",
    "mongosh",
    "psql",
    "mysql",
    "mkdir",
    "rm",
];

/// Options whose value is a file with which a program logs in, and does not send.
const LOGINS: [&str; 10] = [
    "--netrc-file",
    "--key",
    "--cert",
    "-E",
    "--proxy-key",
    "--proxy-cert",
    "--private-key",
    "--certificate",
    "--kubeconfig",
    "--config",
];

/// Whether the name of a variable says that its value is secret.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Whether a command prints a secret: the table knows the programs that keep them.
fn prints_secret(
    facts: &CommandFacts,
    words: &[ShellWord],
    is_secret_name: impl Fn(&str) -> bool,
    names_private: impl Fn(&str) -> bool,
    is_private_file: impl Fn(&str) -> bool,
) -> bool {
    let values = innermost(&facts.values);
    let Some((path, arguments)) = values.split_first() else {
        return false;
    };
    let has = |names: &[&str]| arguments.iter().any(|a| names.contains(&a.as_str()));
    match program_name(path) {
        "env" | "printenv" | "set" | "export" => {
            arguments.is_empty() || has(&["-p"]) || arguments.iter().any(|name| names_secret(name))
        }
        "kubectl" | "oc" | "k"
            if arguments.iter().any(|argument| {
                let kind = argument.split('/').next().unwrap_or_default();
                matches!(kind, "secret" | "secrets")
            }) =>
        {
            let mut arguments = arguments.iter();
            arguments.any(|argument| argument.starts_with("-o") || argument.starts_with("--output"))
        }
        "echo" | "printf" | "print" => {
            let mut names = words.iter().flat_map(ShellWord::variables);
            names.any(is_secret_name)
        }
        "ls" | "stat" | "test" | "grep" => false,
        // `FILE:.env,nonblock`
        "socat" => arguments.iter().any(|address| {
            let path = address.split(',').next().unwrap_or_default();
            is_private_file(path.split_once(':').map_or(path, |(_, path)| path))
        }),
        name => {
            let entry = programs::find(name);
            entry.is_some_and(|entry| entry.prints_secrets(&entry.arguments(arguments)))
                || arguments.iter().any(|path| is_private_file(path))
                || words
                    .iter()
                    .flat_map(ShellWord::variables)
                    .any(names_private)
        }
    }
}

/// Whether `xargs` puts its input into a request, other than into a header.
fn sends_arguments(facts: &CommandFacts) -> bool {
    let request = innermost(&facts.values);
    let name = request.first().map_or("", |path| program_name(path));
    let outer = facts.values.first().map_or("", |path| program_name(path));
    if !matches!(outer, "xargs" | "gxargs") || !is_http(name) {
        return false;
    }
    let at = facts.values.len().saturating_sub(request.len());
    let placeholder = placeholder(&facts.values, at);
    let mut arguments = request.iter().zip(request.iter().skip(1));
    let is_replaced = |(_, value): &(&String, &String)| value.contains(&placeholder);
    match arguments.clone().any(|pair| is_replaced(&pair)) {
        true => arguments.any(|pair| is_replaced(&pair) && !is_header(name, pair.0, pair.1)),
        false => true,
    }
}

/// Whether a program sends requests whose headers log in.
fn is_http(name: &str) -> bool {
    matches!(name, "curl" | "wget" | "wget2" | "http" | "https" | "xh")
}

/// Whether commands of a file server send a file with keys or passwords.
pub(super) fn puts_secret(text: &str) -> bool {
    const SENDING: [&str; 6] = ["put", "mput", "reput", "send", "append", "mirror"];
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|verb| SENDING.contains(&verb)) && words.any(is_private)
    })
}

/// Whether a command sends its input over the network.
pub(super) fn sends_input(facts: &CommandFacts) -> bool {
    let values = innermost(&facts.values);
    let Some((path, arguments)) = values.split_first() else {
        return false;
    };
    let name = program_name(path);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    match name {
        "nc" | "ncat" | "netcat" | "socat" | "telnet" | "http" | "https" | "xh" | "pastebinit"
        | "mail" | "mailx" | "mutt" | "msmtp" | "sendmail" => true,
        _ if sends_arguments(facts) || roles::runs_remotely(&facts.values) => true,
        "openssl" => has("s_client"),
        "curl" | "wget" | "wget2" => roles::sends_input(arguments),
        "gh" => has("gist") && (has("create") || has("new")) && has("-"),
        "aws" | "gsutil" | "gcloud" => has("cp") && has("-"),
        _ => false,
    }
}

/// Options whose value stands in a header of a request, or logs in to the server.
const HEADERS: [&str; 16] = [
    "-H",
    "-u",
    "-U",
    "-b",
    "-a",
    "--header",
    "--user",
    "--proxy-user",
    "--proxy-header",
    "--oauth2-bearer",
    "--cookie",
    "--auth",
    "--auth-type",
    "--http-user",
    "--http-password",
    "--pass",
];

/// Whether an argument of a request is a header, or the value of an option for one.
fn is_header(program: &str, before: &str, argument: &str) -> bool {
    let option = argument.split('=').next().unwrap_or_default();
    let is_attached = HEADERS.iter().any(|name| match name.starts_with("--") {
        true => option == *name,
        false => argument.starts_with(name),
    });
    // `Authorization:TOKEN` of HTTPie.
    let is_named = matches!(program, "http" | "https" | "xh")
        && argument.split_once(':').is_some_and(|(name, value)| {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            is_name && !value.starts_with("//")
        });
    // `-sH TOKEN`
    let is_cluster = !before.starts_with("--")
        && before.starts_with('-')
        && before.ends_with(['H', 'u', 'U', 'b']);
    // Without a value, such an option stands before the address: `curl -a URL`.
    let is_url = argument.contains("://");
    !is_url && (HEADERS.contains(&before) || is_attached || is_named || is_cluster)
}

/// Whether the name of a header, or the option with the value, says that the value logs in.
fn logs_in(before: &str, value: &str) -> bool {
    const NAMES: [&str; 6] = ["auth", "credential", "key", "password", "secret", "token"];
    if matches!(before, "-b" | "--cookie") {
        return false;
    }
    let (_, value) = value.split_once("--header=").unwrap_or(("", value));
    // The value of another option is a login as a whole.
    let is_login = matches!(before, "-u" | "-U" | "-a")
        || before.starts_with("--") && !before.ends_with("header");
    let name = value.split_once(':').filter(|_| !is_login);
    let name = name.map(|(name, _)| name.to_ascii_lowercase());
    name.is_none_or(|name| name.contains(UNKNOWN) || NAMES.iter().any(|part| name.contains(part)))
}

impl Assessor<'_> {
    /// Notes a file with keys that is read.
    pub(super) fn secret(&mut self, path: &str) {
        self.reads_secret |= is_secret(path);
    }

    /// Notes files with keys among the arguments of a program that may print or send them.
    pub(super) fn secrets(&mut self, name: &str, arguments: &[String]) {
        self.note_copies(name, arguments);
        if OTHERS.contains(&name) {
            return;
        }
        if name == "git" {
            self.committed_secrets(arguments);
        }
        let mut is_login = false;
        for argument in arguments {
            let option = argument.split('=').next().unwrap_or_default();
            if !is_login && !LOGINS.contains(&option) {
                self.secret(argument);
            }
            is_login = LOGINS.contains(&argument.as_str());
        }
    }

    /// Judges files with secrets that are added to a repository and sent by a later `git push`.
    fn committed_secrets(&mut self, arguments: &[String]) {
        let list = programs::find("git").map(|entry| entry.arguments(arguments));
        let operands = list.map(|list| list.operands).unwrap_or_default();
        match operands.as_slice() {
            ["add" | "stage" | "commit", files @ ..] => {
                self.has_added_secret |= files.iter().any(|file| is_private(file));
            }
            ["push", ..] if self.has_added_secret => {
                self.findings.add_grave(Destroys, SENDS_SECRET);
            }
            _ => {}
        }
    }

    /// Judges what the commands that end with a redirected one print to a connection: `> /dev/tcp/HOST/PORT`.
    pub(super) fn sent_output(&mut self, script: &ScriptFacts, commands: &Range<usize>) {
        let mut pipelines = script.script.pipelines.iter();
        let own = pipelines.find(|stages| stages.contains(commands));
        let first = own.and_then(|stages| stages.first()).unwrap_or(commands);
        let inputs = script.inputs.get(commands.clone()).unwrap_or_default();
        let mut inputs = inputs.iter().flatten();
        let passes_secret = inputs.any(|input| input.holds_secret);
        if passes_secret || self.print_secret(script, &(first.start..commands.end)) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Whether commands print a secret, or read a file with one.
    pub(super) fn print_secret(&self, script: &ScriptFacts, commands: &Range<usize>) -> bool {
        let facts = script.facts.get(commands.clone()).unwrap_or_default();
        let words = script.script.commands.get(commands.clone());
        let mut printed = words.unwrap_or_default().iter().zip(facts);
        let mut read = script.script.redirections.iter().filter(|input| {
            let own = &input.commands;
            input.operator == "<" && commands.start <= own.start && own.end <= commands.end
        });
        let is_secret_name =
            |name: &str| names_secret(name) || self.secret_variables.contains(name);
        let function = script.function_of(commands.start);
        let names_private = |name: &str| self.names_private(function, name);
        printed.any(|(command, facts)| {
            let is_file = |path: &str| self.is_private_file(path);
            prints_secret(
                facts,
                &command.words,
                is_secret_name,
                names_private,
                is_file,
            )
        }) || read.any(|input| {
            let mut names = input.target.variables();
            self.is_private_file(&self.value(&input.target)) || names.any(names_private)
        })
    }

    /// Whether the value of a word has a secret, as far as the names of its variables and its commands tell.
    pub(super) fn holds_secret(&self, script: &ScriptFacts, word: &ShellWord) -> bool {
        let mut commands = word.substitutions();
        word.variables()
            .any(|name| names_secret(name) || self.secret_variables.contains(name))
            || commands.any(|(commands, _)| self.print_secret(script, &commands))
    }

    /// Judges the words of a request. One in a header is how programs log in.
    pub(super) fn sent_words(
        &mut self,
        script: &ScriptFacts,
        command: &SimpleCommand,
        facts: &CommandFacts,
    ) {
        let mut options = ["-a", "--arg-file"].into_iter();
        let is_fed = options.any(|option| {
            let found = find_option(&facts.values, option, &["-I", "-d"], false);
            found
                .iter()
                .any(|found| is_private(found.value(&facts.values)))
        });
        if is_fed && sends_arguments(facts) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
        let request = innermost(&facts.values);
        let name = request.first().map_or("", |path| program_name(path));
        // The name of a host is sent as well.
        let asks = asks_network(name, request.get(1..).unwrap_or_default());
        if !facts.values.ends_with(&request) {
            return;
        }
        let from = facts.values.len() - request.len();
        let values = facts.values.iter().skip(from);
        let words = command.words.iter().skip(from + 1);
        let mut sends = values.clone().zip(values.skip(1)).zip(words);
        let is_sent = |((before, value), word): ((&String, &String), &ShellWord)| match name {
            _ if asks => {
                let names_host = HOST_PROGRAMS.contains(&name);
                names_host || word.substitutions().next().is_some()
            }
            // The output of a command in a cookie, or in a header with another name, does not log in.
            name if is_http(name) => {
                let is_output = word.substitutions().next().is_some();
                !is_header(name, before, value) || is_output && !logs_in(before, value)
            }
            _ => in_address(value) && uses_network(name, request.get(1..).unwrap_or_default()),
        } && self.holds_secret(script, word);
        if sends.any(is_sent) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Notes the variables whose values are the output of a command that prints a secret.
    pub(super) fn secret_values(&mut self, script: &ScriptFacts) {
        let commands = script.script.commands.iter();
        for (name, word) in commands.flat_map(|command| &command.assignments) {
            if self.holds_secret(script, word) {
                self.secret_variables.insert(name.clone());
            }
        }
        self.private_paths(script);
    }

    /// Notes the variables, and the parameters of functions, that may name a private file.
    fn private_paths(&mut self, script: &ScriptFacts) {
        let commands = script.script.commands.iter();
        let assigned = commands.flat_map(|command| &command.assignments);
        let assigned = assigned.map(|(name, word)| (name, word));
        let loops = script.script.loops.iter();
        let listed = loops.flat_map(|own| own.words.iter().map(|word| (&own.variable, word)));
        for (name, word) in assigned.chain(listed) {
            let elements = word.elements().unwrap_or_default();
            if is_private(&self.value(word)) || elements.iter().any(|path| is_private(path)) {
                self.private_variables.insert(name.clone());
            }
        }
        for name in script.script.functions.iter().map(|own| &own.name) {
            for (index, at) in script.calls_of(name) {
                let values = script.facts.get(index).map(|facts| facts.values.as_slice());
                let arguments = values.and_then(|values| values.get(at + 1..));
                if arguments
                    .unwrap_or_default()
                    .iter()
                    .any(|path| is_private(path))
                {
                    self.private_variables.insert(format!("{name}\0"));
                }
            }
        }
    }

    /// Whether a variable, in a function, may name a private file.
    pub(super) fn names_private(&self, function: Option<&str>, name: &str) -> bool {
        let parameters = function.filter(|_| is_positional(name));
        let parameters = parameters.map(|function| format!("{function}\0"));
        self.private_variables
            .contains(parameters.as_deref().unwrap_or(name))
    }
}

/// Whether the table says that a program connects to the network with these arguments, so that an address among them is sent there.
fn uses_network(name: &str, arguments: &[String]) -> bool {
    let entry = programs::find(name);
    entry.is_some_and(|entry| entry.verdict(name, &entry.arguments(arguments)).class == Network)
}

/// Programs that send the name of a host to a server.
const HOST_PROGRAMS: [&str; 9] = [
    "dig",
    "drill",
    "getent",
    "host",
    "kdig",
    "nslookup",
    "ping",
    "resolvectl",
    "whois",
];

/// Whether a program sends a name among its arguments to a server as its question, as `dig` does, also where the table says that it
/// only reads.
fn asks_network(name: &str, arguments: &[String]) -> bool {
    const ASKING: [&str; 11] = [
        "add", "download", "find", "index", "info", "install", "pull", "search", "show", "v",
        "view",
    ];
    let has_registry = matches!(
        name,
        "brew"
            | "bun"
            | "cargo"
            | "docker"
            | "gem"
            | "helm"
            | "nix"
            | "npm"
            | "pip"
            | "pip3"
            | "pnpm"
            | "podman"
            | "snap"
            | "yarn"
    );
    let mut arguments = arguments.iter();
    HOST_PROGRAMS.contains(&name)
        || has_registry && arguments.any(|argument| ASKING.contains(&argument.as_str()))
}

/// Whether an address has a value that is not known outside of the user and password before its host.
fn in_address(value: &str) -> bool {
    let Some((_, address)) = value.split_once("://") else {
        return false;
    };
    let host = address.find(['/', '?', '#']).unwrap_or(address.len());
    let user = address.get(..host).and_then(|host| host.rfind('@'));
    let rest = address.get(user.map_or(0, |at| at + 1)..);
    rest.is_some_and(|rest| rest.contains(UNKNOWN))
}
