//! Clients of databases: what their queries do.

use super::{CallOutcome, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Network, Reads, Writes};
use crate::safety::command::code::{SqlEffect, sql_effect};

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
        "sqlite3" | "sqlite" | "litecli" => &["-cmd", "--cmd"],
        _ => &[],
    };
    let mut found: Vec<String> = call
        .option_values(options)
        .into_iter()
        .map(str::to_owned)
        .collect();
    match call.name {
        "sqlite3" | "sqlite" | "duckdb" => found.extend(
            list.operands
                .iter()
                .skip(1)
                .map(|query| (*query).to_owned()),
        ),
        // The operands are the command; a host or number is none.
        "redis-cli" | "valkey-cli" if !list.operands.is_empty() => {
            found.push(list.operands.join(" "))
        }
        _ => {}
    }
    found
}

/// Judges a client.
pub fn judge(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    if call.name == "bq" {
        return CallOutcome::default();
    }
    let queries = queries(call);
    let effect = queries.iter().map(|query| sql_effect(query)).max();
    match effect {
        Some(SqlEffect::Destroys) => findings.add(Destroys, "drops or deletes in a database"),
        Some(SqlEffect::Writes) => findings.add(Writes, "changes a database"),
        Some(SqlEffect::Reads) => findings.add(Reads, ""),
        None => {}
    }
    match call.name {
        "sqlite3" | "sqlite" | "duckdb" | "litecli" => {
            if effect.is_none() {
                findings.add(Writes, "");
            }
        }
        _ => findings.add(Network, ""),
    }
    CallOutcome::complete()
}
