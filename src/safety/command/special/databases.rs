//! Clients of databases: what their queries do.

use super::{CallOutcome, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Network, Reads, Unknown, Writes};

/// Commands of Redis that have subcommands.
const SUBCOMMANDS: [&str; 13] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY",
    "MODULE", "SCRIPT", "XGROUP", "XINFO",
];

/// Returns the queries among the arguments, if there are any.
fn queries(call: &ProgramCall<'_>) -> Vec<String> {
    let list = call.list();
    let options: &[&str] = match call.name {
        "psql" | "duckdb" | "usql" | "pgcli" => &["-c", "--command"],
        "mysql" | "mariadb" | "cqlsh" | "mycli" => &["-e", "--execute", "--init-command"],
        "mongosh" | "mongo" => &["--eval"],
        "clickhouse-client" => &["-q", "--query"],
        "influx" => &["-execute", "--execute"],
        "sqlcmd" | "snowsql" => &["-Q", "-q"],
        "sqlite3" | "sqlite" => &["-cmd", "--cmd"],
        "litecli" => &["-e", "--execute"],
        "isql" => &["-Q"],
        _ => &[],
    };
    let mut found: Vec<String> = call
        .option_values(options)
        .into_iter()
        .map(str::to_owned)
        .collect();
    match call.name {
        "bq" if list.operands.first() == Some(&"query") && !is_trial(&list.options) => found
            .extend(
                list.operands
                    .iter()
                    .skip(1)
                    .map(|query| (*query).to_owned()),
            ),
        "sqlite3" | "sqlite" | "duckdb" => found.extend(
            list.operands
                .iter()
                .skip(1)
                .map(|query| (*query).to_owned()),
        ),
        // The operands are the command; a host or number is none.
        "redis-cli" | "valkey-cli" if !list.operands.is_empty() => {
            // The text after the command and its subcommand is data, unless it is code. A space in an operand is part of a name.
            let command = list.operands.first().map(|word| word.to_ascii_uppercase());
            let command = command.unwrap_or_default();
            let commands = match command.as_str() {
                "EVAL" | "EVAL_RO" => list.operands.len(),
                name if SUBCOMMANDS.contains(&name) => 3,
                _ => 1,
            };
            let words = list.operands.iter().enumerate();
            let words = words.map(|(at, word)| match at < commands + list.possible_values() {
                true => word,
                false => "value",
            });
            found.push(words.collect::<Vec<_>>().join(" "))
        }
        _ => {}
    }
    found
}

/// Whether the last of the options of `bq` about it says that a query is not run.
fn is_trial(options: &[&str]) -> bool {
    let plain = |option: &&&str| option.trim_start_matches('-').starts_with("dry_run");
    let is_off = |option: &&&str| option.trim_start_matches('-').starts_with("nodry_run");
    let last = options
        .iter()
        .rfind(|option| plain(option) || is_off(option));
    last.is_some_and(|option| matches!(option.trim_start_matches('-'), "dry_run" | "dry_run=true"))
}

/// Judges a client.
pub fn judge(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let queries = queries(call);
    let is_file = matches!(call.name, "sqlite3" | "sqlite" | "duckdb" | "litecli");
    match is_file {
        true if queries.is_empty() => findings.add(Writes, ""),
        true => findings.add(Reads, ""),
        false => findings.add(Network, ""),
    }
    if call.list().has("--pipe") {
        findings.add(Unknown, "runs commands that are not known in advance");
    }
    CallOutcome {
        inner: queries.into_iter().map(InnerCommand::Query).collect(),
        // The table knows their subcommands.
        is_complete: !matches!(call.name, "bq" | "influx" | "dolt"),
        ..CallOutcome::default()
    }
}
