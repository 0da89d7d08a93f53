//! How commands use their input.

use super::{InputRole, innermost, program_of};
use crate::safety::command::interpreters;
use crate::safety::command::programs::{self, ArgumentUse};
use crate::safety::command::shell_options::ShellOptions;
use crate::safety::command::word::{UNKNOWN, program_name};

/// How programs use their input, whatever their arguments.
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
    (&["at", "batch", "crontab", "ed", "ex"], InputRole::Opaque),
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

/// How programs use their input if no file is among their arguments.
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

/// Whether a file is the input of the program.
fn is_input(file: &str) -> bool {
    matches!(file, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Returns what a command does with its input.
pub fn input_role(arguments: &[String]) -> InputRole {
    let rest = innermost(arguments);
    let (name, operands) = match program_of(&rest) {
        ("docker" | "podman" | "nerdctl", [sub, operands @ ..]) if sub == "compose" => {
            ("docker-compose", operands)
        }
        program => program,
    };
    let first = operands
        .iter()
        .find(|operand| !operand.starts_with('-') || *operand == "-");
    let from_input = first.is_none_or(|first| is_input(first));
    // Arguments that are not known yet follow, of which one may make it read its input.
    let outer = arguments.first().map_or("", |path| program_name(path));
    if interpreters::is_shell(name) {
        if outer == "parallel" {
            return InputRole::Shell;
        }
        return match ShellOptions::read(operands).reads_input {
            true => InputRole::Shell,
            false => InputRole::Data,
        };
    }
    if interpreters::code_options(name).is_some() {
        return match project_script(operands, first) {
            Some(script) => input_role(&script),
            None => interpreter_role(name, operands),
        };
    }
    let role = role_of(ROLES, name);
    let role = role.or_else(|| role_of(ROLES_WITHOUT_FILE, name).filter(|_| from_input));
    match role.or_else(|| special_role(name, operands)) {
        Some(role) => role,
        None => used_input(arguments, name, operands),
    }
}

fn role_of(table: &[(&[&str], InputRole)], name: &str) -> Option<InputRole> {
    let found = table.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, role)| *role)
}

/// Returns a script of a project with its arguments, of an interpreter that runs one: `python manage.py shell`.
fn project_script(operands: &[String], first: Option<&String>) -> Option<Vec<String>> {
    let script = first?.rsplit('/').next()?;
    if !interpreters::is_project_script(script) {
        return None;
    }
    let rest = operands
        .iter()
        .skip_while(|operand| Some(*operand) != first);
    let script = std::iter::once(script.to_owned());
    Some(script.chain(rest.skip(1).cloned()).collect())
}

/// Letters with which an interpreter, without a version in its name, takes code or a file, and letters whose value follows them
/// in the same argument.
fn code_letters(plain: &str) -> (&'static str, &'static str) {
    match plain {
        "python" | "pypy" | "ipython" => ("cm", ""),
        "node" | "nodejs" | "tsx" | "ts-node" | "bun" => ("ep", ""),
        "perl" => ("eE", "MmiFxDVC"),
        "ruby" | "jruby" => ("e", "iFxTWK"),
        "php" => ("rRBEFf", ""),
        "lua" | "luajit" => ("e", ""),
        _ => ("ceEmrp", ""),
    }
}

fn interpreter_role(name: &str, operands: &[String]) -> InputRole {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (codes, attached) = code_letters(plain);
    let takes = interpreters::value_options(plain);
    let mut has_code = false;
    let mut rest = operands.iter();
    let first = loop {
        let Some(argument) = rest.next() else {
            break None;
        };
        // `deno run -`
        if argument == "run" && matches!(plain, "deno" | "bun") {
            continue;
        }
        if !argument.starts_with('-') || argument == "-" {
            break Some(argument);
        }
        let is_long = argument.starts_with("--");
        has_code |= matches!(
            argument.as_str(),
            "--eval" | "--print" | "--version" | "--help" | "-V"
        );
        let mut letters = argument.chars().skip(1).filter(|_| !is_long);
        let takes_letter = |c: char| takes.iter().any(|option| option.chars().skip(1).eq([c]));
        let end = letters.find(|c| codes.contains(*c) || attached.contains(*c) || takes_letter(*c));
        has_code |= end.is_some_and(|c| codes.contains(c));
        // A value that is not in the same argument.
        let has_value = end.is_some_and(takes_letter) && letters.next().is_none();
        if has_value || takes.contains(&argument.as_str()) && is_long {
            rest.next();
        }
    };
    match !has_code && first.is_none_or(|first| is_input(first)) {
        true if interpreters::has_other_language(name) => InputRole::OtherCode,
        true => InputRole::Code,
        false => InputRole::Data,
    }
}

/// Whether `parallel` only prints.
pub fn prints_commands(arguments: &[String]) -> bool {
    let prints = ["--version", "--help", "--dry-run", "--dryrun"];
    let mut arguments = arguments.iter();
    arguments.any(|argument| prints.contains(&argument.as_str()))
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
        "parallel" => (!prints_commands(operands), InputRole::Opaque),
        "make" | "gmake" => (
            reads_rules(operands, &["-f", "--file", "--makefile"]),
            InputRole::Opaque,
        ),
        "just" => (
            reads_rules(operands, &["-f", "--justfile"]),
            InputRole::Opaque,
        ),
        "task" => (
            reads_rules(operands, &["-t", "--taskfile"]),
            InputRole::Opaque,
        ),
        // A service may take the body of the request for commands.
        "curl" | "wget" | "wget2" => (sends_input(operands), InputRole::Lines),
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

/// Whether a program such as `make` reads its rules from the input: it is the value of one of these options.
fn reads_rules(operands: &[String], options: &[&str]) -> bool {
    options.iter().any(|option| {
        let found = programs::find_option(operands, option, &["-C", "-j", "-I", "-d"], false);
        found.iter().any(|found| is_input(found.value(operands)))
    })
}

/// Returns how a program uses its input because of an argument that names it, or as what `xargs` adds to the arguments: it
/// installs what the input names, or runs the input.
fn used_input(outer: &[String], name: &str, operands: &[String]) -> InputRole {
    let is_fed = outer
        .iter()
        .any(|word| matches!(program_name(word), "xargs" | "gxargs"));
    let names_input = |operand: &String| {
        ["-", "/stdin", "/fd/0"]
            .iter()
            .any(|end| operand.ends_with(end))
    };
    if !is_fed && !operands.iter().any(names_input) {
        return InputRole::Data;
    }
    let Some(entry) = programs::find(name) else {
        return InputRole::Data;
    };
    let mut operands = operands.to_vec();
    if is_fed {
        operands.push("-".to_owned());
    }
    let list = entry.arguments(&operands);
    let installs = entry.installs(&operands, &list);
    if installs.iter().any(|(_, value)| is_input(value)) {
        return InputRole::Installs;
    }
    let runs = |(purpose, value): &(ArgumentUse, String)| {
        *purpose == ArgumentUse::Interprets && is_input(value)
    };
    match entry.uses(&operands, &list).iter().any(runs) {
        true => InputRole::Opaque,
        false => InputRole::Data,
    }
}

/// Whether an argument is a cluster of options with this letter.
fn has_letter(argument: &str, letter: char) -> bool {
    argument.starts_with('-') && !argument.starts_with("--") && argument.contains(letter)
}

/// Whether a request sends its input as its body, or as a part of it: `-d @-`, `-F file=@-;type=x`, `-T -`, `-T .`, `--post-file=-`.
pub fn sends_input(arguments: &[String]) -> bool {
    const UPLOADS: [&str; 4] = ["-T", "--upload-file", "--post-file", "--body-file"];
    let is_input = |file: &str| matches!(file, "-" | "." | "/dev/stdin");
    let of_word = |word: &str| {
        let form = word.split(';').next().unwrap_or(word);
        let form = form.rsplit_once(['@', '<']);
        let attached = UPLOADS.iter().find_map(|option| word.strip_prefix(option));
        form.is_some_and(|(_, file)| is_input(file))
            || attached.is_some_and(|file| is_input(file.trim_start_matches('=')))
    };
    let is_next = |pair: &[String]| UPLOADS.contains(&&*pair[0]) && is_input(&pair[1]);
    arguments.iter().any(|word| of_word(word)) || arguments.windows(2).any(is_next)
}
