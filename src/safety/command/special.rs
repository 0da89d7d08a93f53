//! Programs whose effect depends on more than the table can express: on paths, on numbers, on code in an argument.

mod archives;
mod awk;
mod databases;
mod files;
mod git;
mod in_place;
mod languages;
mod machines;
mod packages;
mod search;
mod sed;
mod sockets;
mod system;
mod transfer;

use super::class::CommandClass;
use super::findings::Findings;
use super::programs::{self, ArgumentList, find_option};
use super::targets::{CommandPlace, PathReach};
use super::word::UNKNOWN;

pub use packages::{is_official, is_url};
pub use search::printed_paths;
pub use sed::empties_lines;
pub use transfer::SENDS_SECRET;

/// A program with its arguments.
pub struct ProgramCall<'a> {
    /// The name, without its directory.
    pub name: &'a str,
    /// The arguments, without the name.
    pub arguments: &'a [String],
    /// Further arguments are added when it runs, as by `xargs`.
    pub is_fed: bool,
    /// Where it runs, if that is known.
    pub directory: Option<&'a str>,
}

/// A command that a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InnerCommand {
    /// A text for a shell.
    Text(String),
    /// The same, for a program that gets files or input that are not known.
    Fed(String),
    /// A program and its arguments.
    Arguments(Vec<String>),
    /// A text for a database.
    Query(String),
    /// The same, for a program that gets paths that are not known as further arguments.
    FedArguments(Vec<String>),
}

/// Known facts about a call.
#[derive(Debug, Default)]
pub struct CallOutcome {
    /// Commands that it runs.
    pub inner: Vec<InnerCommand>,
    /// Paths that the fed ones among these commands may get.
    pub fed_paths: Vec<String>,
    /// The files that it downloads to.
    pub downloads: Vec<String>,
    /// The files that it sends.
    pub sends: Vec<String>,
    /// Whether it downloads files whose names are not known.
    pub brings_tree: bool,
    /// Whether the table is not to be asked.
    pub is_complete: bool,
    /// Other arguments for the table.
    pub rewritten: Option<(&'static str, Vec<String>)>,
}

impl CallOutcome {
    fn complete() -> CallOutcome {
        CallOutcome {
            is_complete: true,
            ..CallOutcome::default()
        }
    }
}

impl<'a> ProgramCall<'a> {
    /// Returns the arguments sorted with the options of the table.
    fn list(&self) -> ArgumentList<'a> {
        match programs::find(self.name) {
            Some(entry) => entry.arguments(self.arguments),
            None => ArgumentList::new(self.arguments, &[], false),
        }
    }

    /// Returns the subcommand with its arguments, after the options of the program itself and their values.
    fn behind_options(&self) -> &'a [String] {
        let takes = programs::find(self.name).map_or(&[][..], |entry| entry.value_options());
        let mut rest = self.arguments;
        while let Some((option, behind)) = rest.split_first().filter(|(o, _)| o.starts_with('-')) {
            let values = usize::from(takes.contains(&option.as_str()));
            rest = behind.get(values..).unwrap_or_default();
        }
        rest
    }

    /// Returns the reach of a path from the directory where the program runs.
    fn reach(&self, path: &str, place: &CommandPlace<'_>) -> PathReach {
        match self.directory {
            Some(directory) if directory == place.cwd => place.reach(path),
            _ if path.starts_with(['/', '~', UNKNOWN]) => place.reach(path),
            Some(directory) => place.reach(&format!("{}/{path}", directory.trim_end_matches('/'))),
            None => PathReach::Unknown,
        }
    }

    /// Returns the value of an option in any of its forms.
    fn option_value(&self, names: &[&str]) -> Option<&'a str> {
        self.option_values(names).into_iter().next()
    }

    fn option_values(&self, names: &[&str]) -> Vec<&'a str> {
        find_values(self, names, false)
    }
}

fn find_values<'a>(call: &ProgramCall<'a>, names: &[&str], has_long_dash: bool) -> Vec<&'a str> {
    let takes = programs::find(call.name).map_or(&[][..], |entry| entry.value_options());
    let found = names
        .iter()
        .flat_map(|name| find_option(call.arguments, name, takes, has_long_dash));
    found.map(|option| option.value(call.arguments)).collect()
}

/// Judges a call of a program that is special. The table is asked as well unless the outcome is complete.
pub fn judge(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    match call.name {
        "rm" | "rmdir" | "unlink" | "shred" | "srm" | "wipe" | "safe-rm" => {
            files::delete(call, place, findings)
        }
        "mv" | "cp" | "install" | "ln" | "gmv" | "gcp" => files::copy(call, place, findings),
        "tee" | "sponge" | "touch" | "patch" => files::write(call, place, findings),
        "mkdir" => files::make_directory(call, place, findings),
        "ssh-keygen" => transfer::key(call, place, findings),
        "dd" => files::dd(call, place, findings),
        "truncate" => files::truncate(call, findings),
        "chmod" | "chown" | "chgrp" => files::permissions(call, place, findings),
        "find" | "gfind" | "bfs" => search::find(call, place, findings),
        "fd" | "fdfind" => search::fd(call),
        "sed" | "gsed" => in_place::sed(call, place, findings),
        "sort" | "uniq" | "yq" => in_place::filter(call, findings),
        "awk" | "gawk" | "mawk" | "nawk" => in_place::awk(call, place, findings),
        "tar" | "bsdtar" | "gtar" | "unzip" => archives::archive(call, place, findings),
        "7z" | "7za" | "7zz" | "rar" | "unrar" | "cpio" | "pax" | "dpkg" | "dpkg-deb" => {
            archives::other(call, place, findings)
        }
        "mount" => system::mount(call, place, findings),
        "nft" => system::nft(call),
        "ldd" => system::ldd(call),
        "ansible" | "ansible-playbook" | "ansible-pull" | "ansible-console" | "salt" => {
            machines::judge(call, findings)
        }
        "nmap" => machines::nmap(call, findings),
        "kill" => files::kill(call, findings),
        "git" => git::judge(call, place, findings),
        "gita" | "mani" | "meta" | "mr" | "turbolift" => git::in_repositories(call, findings),
        "curl" | "wget" | "wget2" | "aria2c" | "axel" | "http" | "https" | "xh" => {
            transfer::download(call, place, findings)
        }
        "lftp" => sockets::lftp(call, findings),
        "nc" | "ncat" | "netcat" | "socat" => sockets::netcat(call, place, findings),
        "ssh" | "scp" | "sftp" | "rsync" | "sshfs" | "autossh" | "ssh-copy-id" => {
            transfer::remote(call, place, findings)
        }
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "dlx" | "deno" | "go" | "npm" | "pnpm"
        | "yarn" | "bun" | "uv" | "pip" | "pip3" => packages::package(call, findings),
        "cargo" if installs_elsewhere(call) => {
            findings.add(
                CommandClass::RunsDownloadedCode,
                "builds a download, which runs its code",
            );
            CallOutcome::default()
        }
        "gem" | "brew" | "easy_install" | "cpanm" | "cpan" | "luarocks" | "jbang" | "poetry"
        | "pdm" | "rye" | "conda" | "mamba" | "nix-shell" | "asdf" | "mise" => {
            packages::other(call, findings)
        }
        "nix" => packages::nix(call, findings),
        "docker" | "podman" | "nerdctl" => transfer::container(call, findings),
        "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlite" | "redis-cli" | "mongosh" | "mongo"
        | "duckdb" | "clickhouse-client" | "cqlsh" | "usql" | "influx" | "sqlcmd" | "sqlplus"
        | "pgcli" | "mycli" | "litecli" | "snowsql" | "bq" | "isql" | "valkey-cli" => {
            databases::judge(call, findings)
        }
        "cargo" | "rustup" => {
            // A toolchain, `+nightly`, precedes the subcommand.
            let rest = call
                .arguments
                .iter()
                .skip_while(|argument| argument.starts_with('+'));
            let name = if call.name == "cargo" {
                "cargo"
            } else {
                "rustup"
            };
            CallOutcome {
                rewritten: Some((name, rest.cloned().collect())),
                ..CallOutcome::default()
            }
        }
        // The program of shadow runs a command as a group, that of ast-grep searches.
        "sg" if call.arguments.len() > 1 && !is_search(call) => runs_rest(call, 1),
        // The program of task-spooler runs a command, that of moreutils gets a format.
        "ts" if !call
            .arguments
            .iter()
            .all(|argument| argument.contains(['-', '%'])) =>
        {
            runs_rest(call, 0)
        }
        "make" | "gmake" => languages::make(call),
        "java" => packages::java(call),
        // In the directory of the passwords.
        "pass" | "gopass" | "passage" if call.arguments.first().is_some_and(|sub| sub == "git") => {
            CallOutcome {
                inner: vec![InnerCommand::Arguments(call.arguments.to_vec())],
                ..CallOutcome::complete()
            }
        }
        "gh" => transfer::published(call, findings),
        // The browser shows it.
        "open" | "xdg-open" | "gio"
            if call.arguments.last().is_some_and(|place| {
                let schemes = ["http://", "https://"];
                schemes.iter().any(|scheme| place.starts_with(scheme))
            }) =>
        {
            findings.add(CommandClass::Network, "");
            CallOutcome::complete()
        }
        // Its own commands are in the table; all others are those of git.
        "yadm"
            if !call
                .arguments
                .first()
                .is_none_or(|sub| YADM.contains(&sub.as_str())) =>
        {
            git::judge(call, place, findings)
        }
        "apt" | "apt-get" | "aptitude" => {
            // `APT::Update::Pre-Invoke`, `Dir::Bin::dpkg`
            let settings = call.option_values(&["-o", "--option"]);
            for setting in settings {
                let name = setting.to_ascii_lowercase();
                if [
                    "invoke",
                    "dir::bin",
                    "dir::etc",
                    "install-pkgs",
                    "proxyautodetect",
                    "proxy-auto-detect",
                ]
                .iter()
                .any(|part| name.contains(part))
                {
                    findings.add_text("a setting of apt runs a program", setting);
                }
            }
            CallOutcome::default()
        }
        "rpm" | "rpmbuild" | "rpmspec" => {
            let mut arguments = call.arguments.iter();
            let runs = ["%(", "%{lua", "%{shell", "%{load", "%{uncompress"];
            if arguments.any(|argument| runs.iter().any(|macros| argument.contains(macros))) {
                findings.add(CommandClass::Unknown, "a macro of rpm runs a command");
            }
            CallOutcome::default()
        }
        "ed" | "emacs" | "dc" | "mlr" | "gnuplot" => {
            let runs = call.arguments.iter().find(|argument| {
                let argument = argument.as_str();
                argument.contains('!')
                    // A pipe as a file of data or output.
                    || call.name == "gnuplot" && argument.contains(['<', '|'])
                    || argument.contains("system(")
                    || argument.contains("shell ")
                    || argument.contains("shell-command")
                    || argument.contains("exec(")
            });
            if let Some(argument) = runs {
                findings.add_text(format!("{} runs a command", call.name), argument.as_str());
            }
            CallOutcome::default()
        }
        "gdb" | "cgdb" => {
            let mut outcome = languages::judge(call, findings);
            let mut rest = call
                .arguments
                .split(|argument| argument == "--args")
                .skip(1);
            outcome.inner.extend(
                rest.next()
                    .map(|rest| InnerCommand::Arguments(rest.to_vec())),
            );
            outcome
        }
        _ => languages::judge(call, findings),
    }
}

/// Commands of yadm that git has not.
const YADM: [&str; 14] = [
    "--help",
    "--version",
    "alt",
    "bootstrap",
    "decrypt",
    "encrypt",
    "enter",
    "git-crypt",
    "gitconfig",
    "introspect",
    "list",
    "perms",
    "transcrypt",
    "version",
];

/// Whether `sg` is the program of ast-grep.
fn is_search(call: &ProgramCall<'_>) -> bool {
    let first = call
        .arguments
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    let commands = ["run", "scan", "test", "new", "lsp", "completions", "help"];
    first.starts_with('-') && first != "-" || commands.contains(&first)
}

/// Judges a program whose arguments from this one on are a command.
fn runs_rest(call: &ProgramCall<'_>, from: usize) -> CallOutcome {
    let rest = call.arguments.get(from..).unwrap_or_default();
    let rest = rest.iter().skip_while(|argument| argument.starts_with('-'));
    let text: Vec<&str> = rest.map(String::as_str).collect();
    CallOutcome {
        inner: vec![InnerCommand::Text(text.join(" "))],
        ..CallOutcome::default()
    }
}

/// Whether cargo installs from a place other than the registry: see `cargo install --help`.
fn installs_elsewhere(call: &ProgramCall<'_>) -> bool {
    let mut arguments = call.arguments.iter();
    let installs = arguments.any(|argument| matches!(argument.as_str(), "install" | "binstall"));
    installs && call.option_value(&["--git", "--index"]).is_some()
}
