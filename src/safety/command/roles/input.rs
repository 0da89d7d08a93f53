//! What commands do with their input.

use super::{InputRole, innermost, program_name, program_of};
use crate::safety::command::interpreters;
use crate::safety::command::programs;
use crate::safety::command::shell_options::ShellOptions;
use crate::safety::command::word::UNKNOWN;

/// What programs do with their input, whatever their arguments.
const ROLES: &[(&[&str], InputRole)] = &[
    (
        &[
            "psql",
            "mysql",
            "mariadb",
            "sqlite3",
            "redis-cli",
            "mongosh",
            "mongo",
            "duckdb",
            "cqlsh",
            "clickhouse-client",
            "usql",
            "sqlcmd",
            "sqlplus",
            "sqlite",
            "pgcli",
            "mycli",
            "litecli",
            "isql",
            "bq",
            "influx",
            "dolt",
            "valkey-cli",
            "turso",
            "trino",
            "hive",
            "beeline",
            "spark-sql",
            "snowsql",
            "cypher-shell",
            "cockroach",
            "osql",
            "tsql",
            "mysqlsh",
            "ysqlsh",
            "surreal",
        ],
        InputRole::Query,
    ),
    (
        &["nc", "ncat", "netcat", "telnet", "socat", "openssl"],
        InputRole::Lines,
    ),
    (
        &["sftp", "ftp", "lftp", "tnftp", "smbclient"],
        InputRole::Server,
    ),
    (
        &["at", "batch", "crontab", "parallel", "ed", "ex"],
        InputRole::Opaque,
    ),
    // Without a command, a shell reads the input: on another machine, or as another user.
    (
        &[
            "ssh",
            "chroot",
            "unshare",
            "nsenter",
            "fakeroot",
            "proot",
            "newgrp",
            "sg",
            "script",
            "run0",
            "machinectl",
        ],
        InputRole::Shell,
    ),
];

/// What programs do with their input if no file is among their arguments.
const ROLES_WITHOUT_FILE: &[(&[&str], InputRole)] = &[
    (&["source", "."], InputRole::Shell),
    (
        &[
            "irb",
            "pry",
            "iex",
            "ghci",
            "runghc",
            "runhaskell",
            "jshell",
            "ocaml",
            "utop",
            "m4",
            "dc",
            "gdb",
            "lldb",
            "sbcl",
            "clisp",
            "clojure",
            "clj",
            "erl",
            "octave",
            "maxima",
            "swift",
            "scala-cli",
            "kotlin",
            "amm",
            "gnuplot",
            "sage",
            "maple",
            "gp",
            "xonsh",
        ],
        InputRole::OtherCode,
    ),
];

/// Returns what a command does with its input.
pub fn input_role(arguments: &[String]) -> InputRole {
    let rest = innermost(arguments);
    let (name, operands) = program_of(&rest);
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
        return match ShellOptions::read(operands).reads_input {
            true => InputRole::Shell,
            false => InputRole::Data,
        };
    }
    if interpreters::code_options(name).is_some() {
        return match project_script(operands, first) {
            Some(script) => input_role(&script),
            None => interpreter_role(name, operands, from_input),
        };
    }
    let role = role_of(ROLES, name);
    let role = role.or_else(|| role_of(ROLES_WITHOUT_FILE, name).filter(|_| from_input));
    match role.or_else(|| special_role(name, operands)) {
        Some(role) => role,
        None if installs_input(arguments, name, operands) => InputRole::Installs,
        None => InputRole::Data,
    }
}

fn role_of(table: &[(&[&str], InputRole)], name: &str) -> Option<InputRole> {
    let found = table.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, role)| *role)
}

/// Returns a script of a project with its arguments, of an interpreter that runs one: `python manage.py shell`.
fn project_script(operands: &[String], first: Option<&String>) -> Option<Vec<String>> {
    let script = first?.rsplit('/').next()?;
    if !matches!(script, "manage.py" | "artisan" | "console") {
        return None;
    }
    let rest = operands
        .iter()
        .skip_while(|operand| Some(*operand) != first);
    let script = std::iter::once(script.to_owned());
    Some(script.chain(rest.skip(1).cloned()).collect())
}

fn interpreter_role(name: &str, operands: &[String], from_input: bool) -> InputRole {
    let has_code = operands.iter().any(|o| {
        let is_cluster = o.starts_with('-') && !o.starts_with("--") && o.len() > 1;
        is_cluster && o.contains(['c', 'e', 'E', 'm', 'r', 'p'])
            || matches!(
                o.as_str(),
                "--eval" | "--print" | "--version" | "--help" | "-V"
            )
    });
    match !has_code && from_input {
        true if interpreters::has_other_language(name) => InputRole::OtherCode,
        true => InputRole::Code,
        false => InputRole::Data,
    }
}

/// Returns the role of programs whose options or subcommands decide it.
fn special_role(name: &str, operands: &[String]) -> Option<InputRole> {
    let has = |words: &[&str]| operands.iter().any(|o| words.contains(&o.as_str()));
    let has_letters = |letters: &[char]| {
        letters
            .iter()
            .any(|c| operands.iter().any(|o| has_letter(o, *c)))
    };
    let (holds, role) = match name {
        "su" | "runuser" | "nix-shell" => (
            !has(&["--command", "--run"]) && !has_letters(&['c']),
            InputRole::Shell,
        ),
        "sudo" | "doas" | "sudo-rs" => (
            has(&["--shell", "--login"]) || has_letters(&['s', 'i']),
            InputRole::Shell,
        ),
        "rails" | "manage.py" | "django-admin" | "artisan" | "heroku" | "wp" | "drush"
            if has(&["dbconsole", "db", "dbshell", "pg:psql", "sqlc"]) =>
        {
            (true, InputRole::Query)
        }
        "rails" | "manage.py" | "artisan" | "wp" | "flask" | "mix" => (
            has(&["console", "c", "shell", "tinker", "runner"]),
            InputRole::OtherCode,
        ),
        "make" | "gmake" => (reads_makefile(operands), InputRole::Opaque),
        "ssh-keygen" => (
            !has_letters(&['l', 'y', 'Y', 'i', 'e', 'F', 'H', 'B', 'R', 'D', 'r']),
            InputRole::Answers,
        ),
        "terraform" | "tofu" | "terragrunt" | "pulumi" | "cdk" | "cdktf" => (
            has(&["apply", "up", "update", "deploy", "import"]),
            InputRole::Answers,
        ),
        name => (name.contains(UNKNOWN), InputRole::Opaque),
    };
    holds.then_some(role)
}

/// Whether `make` reads its rules from the input.
fn reads_makefile(operands: &[String]) -> bool {
    ["-f", "--file", "--makefile"].iter().any(|option| {
        let found = programs::find_option(operands, option, &["-C", "-j", "-I"], false);
        let mut files = found.iter().map(|found| found.value(operands));
        files.any(|file| matches!(file, "-" | "/dev/stdin"))
    })
}

/// Whether a program installs or runs what its input names: by an operand that stands for the input, or as arguments that
/// `xargs` adds.
fn installs_input(outer: &[String], name: &str, operands: &[String]) -> bool {
    let Some(entry) = programs::find(name) else {
        return false;
    };
    let is_fed = outer
        .iter()
        .any(|word| matches!(program_name(word), "xargs" | "gxargs"));
    let mut operands = operands.to_vec();
    if is_fed {
        operands.push("-".to_owned());
    }
    let list = entry.arguments(&operands);
    let installs = entry.installs(&operands, &list);
    installs
        .iter()
        .any(|(_, value)| matches!(value.as_str(), "-" | "/dev/stdin" | "/dev/fd/0"))
}

/// Whether an argument is a cluster of options with this letter.
fn has_letter(argument: &str, letter: char) -> bool {
    argument.starts_with('-') && !argument.starts_with("--") && argument.contains(letter)
}
