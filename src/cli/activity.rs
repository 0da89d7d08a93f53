//! `aish-helper activity list|show|export|stats`: what was done, asked of the index over the journal, without the
//! daemon.

mod export;
mod numbers;
mod progress;
mod show;
mod when;

use chrono::{Datelike, Local, TimeZone, Utc};
use serde_json::{Value, json};

use super::args::{Activity, Acts};
use super::mcp::table;
use super::session::short;
use super::{columns, print, print_json, write};
use crate::client::terminal::colors;
use crate::client::tools::{cut, time};
use crate::config::nearest;
use crate::error::{Error, Result};
use crate::history::index::{Entry, Filter, Index};
use crate::paths::Paths;
use crate::safety::alike;
use crate::safety::text::one_line;

/// Terminals of fewer columns show less of each act, so that there is room for what it was.
const WIDE: usize = 100;
/// The most that is shown of what was said.
const WHAT: usize = 200;
/// So many names stand in an error.
const NAMES: usize = 20;

/// Does what was asked.
///
/// # Errors
/// There is no such act, or the record cannot be read.
pub fn run(paths: &Paths, command: Activity) -> Result<()> {
    let index = &mut Index::open(&paths.journal(), &paths.state, progress::watch())?;
    match command {
        Activity::List { acts, limit, json } => {
            let filter = filter(index, acts)?;
            list(index, &filter, limit as usize, json)
        }
        Activity::Show { id, json } => show::run(index, &id, json),
        Activity::Export {
            acts,
            limit,
            format,
        } => {
            let filter = filter(index, acts)?;
            let limit = limit.map_or(usize::MAX, |n| n as usize);
            export::run(index, &filter, limit, format)
        }
        Activity::Stats { acts, json } => {
            let filter = filter(index, acts)?;
            numbers::run(&index.stats(&filter)?, json)
        }
    }
}

/// What the options mean; what the record does not have is a mistake and not an empty list.
fn filter(index: &mut Index, acts: Acts) -> Result<Filter> {
    let now = Local::now();
    let moment = |text: &Option<String>, end: bool| -> Result<Option<u64>> {
        let text = text.as_deref();
        text.map(|text| when::parse(text, &now, end)).transpose()
    };
    let (since_ms, until_ms) = (moment(&acts.since, false)?, moment(&acts.until, true)?);
    if let (Some(since), Some(until)) = (since_ms, until_ms)
        && since >= until
    {
        return Err(
            Error::usage("--since is not before --until, so that nothing lies between")
                .hint("a span such as 2h is counted back from now"),
        );
    }
    let (servers, tools) = match acts.servers.is_empty() && acts.tools.is_empty() {
        true => Default::default(),
        false => index.names()?,
    };
    for word in &acts.servers {
        if !servers.contains(word) {
            return Err(unknown("server", word, &servers));
        }
    }
    for word in &acts.tools {
        let is = |name: &String| {
            let (server, tool) = name.split_once('.').unwrap_or(("", name));
            word == name || word == tool || *word == format!("{server}:{tool}")
        };
        if !tools.iter().any(is) {
            return Err(unknown("tool", word, &tools));
        }
    }
    let session = acts.session.map(|part| index.session(&part)).transpose()?;
    Ok(Filter {
        types: acts.types,
        operations: acts.operations,
        statuses: acts.statuses,
        servers: acts.servers,
        tools: acts.tools,
        session,
        since_ms,
        until_ms,
    })
}

fn unknown(what: &str, word: &str, names: &[String]) -> Error {
    let error = Error::usage(format!("no act in the record is of a {what} '{word}'"));
    if names.is_empty() {
        return error.hint(format!("none is of any {what} yet; leave out --{what}"));
    }
    let mut shown = names[..names.len().min(NAMES)].join(", ");
    if names.len() > NAMES {
        shown.push_str(&format!(" and {} more", names.len() - NAMES));
    }
    let tails = names.iter().filter_map(|n| Some(n.split_once('.')?.1));
    let near = nearest(word, names.iter().map(String::as_str).chain(tails));
    let near = near
        .map(|n| format!("did you mean {n}? "))
        .unwrap_or_default();
    error.hint(format!("{near}it has: {shown}"))
}

fn list(index: &mut Index, filter: &Filter, limit: usize, json: bool) -> Result<()> {
    // One more tells that there are more.
    let mut entries = index.list(filter, limit.saturating_add(1))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    if json {
        return print_json(&entries.iter().map(value).collect::<Vec<_>>());
    }
    if entries.is_empty() {
        return print("nothing of that kind is in the record\n");
    }
    let mut out = page(&entries, None);
    if more {
        out.push_str(&format!(
            "older ones are left out; see more with --limit {}\n",
            limit * 4
        ));
    }
    write(&out)
}

/// An act as programs read it.
fn value(entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "time": rfc3339(entry.at_ms),
        "type": entry.kind.kind,
        "operation": entry.kind.operation,
        "status": entry.kind.status,
        "server": entry.kind.server,
        "tool": entry.kind.tool,
        "what": entry.what,
        "ms": entry.ms,
        "by": entry.by,
        "session": entry.session,
    })
}

fn rfc3339(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok();
    let at = at.and_then(|ms| Utc.timestamp_millis_opt(ms).single());
    at.map(|t| t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        .unwrap_or_default()
}

/// A time of this year without the year, in the person's own zone.
fn local(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok();
    let Some(at) = at.and_then(|ms| Local.timestamp_millis_opt(ms).single()) else {
        return "-".into();
    };
    let format = match at.year() == Local::now().year() {
        true => "%m-%d %H:%M:%S",
        false => "%Y-%m-%d",
    };
    at.format(format).to_string()
}

fn mark(operation: Option<&str>) -> &'static str {
    match operation {
        Some("read") => "r",
        Some("write") => "w",
        Some("destructive") => "!",
        _ => "",
    }
}

/// What was done, in a line.
fn what(entry: &Entry) -> String {
    let kind = &entry.kind;
    let name = [&kind.server, &kind.tool].into_iter().flatten();
    let name: Vec<String> = name.map(|n| alike::name(n)).collect();
    let name = name.join(".");
    let said = match &*kind.kind {
        // Only these have a say in what is called.
        "tool" | "approval" => cut(&alike::text(&entry.what), WHAT),
        // In a line of a list the lines of what was said are of no account.
        "prompt" | "answer" => {
            let words: Vec<&str> = entry.what.split_whitespace().collect();
            one_line(&words.join(" "), WHAT)
        }
        _ => one_line(&entry.what, WHAT),
    };
    [name, said].join(" ").trim().to_string()
}

/// Acts as a table, and what its marks mean; `here` is pointed at.
fn page(entries: &[Entry], here: Option<&str>) -> String {
    let width = columns();
    let point = |entry: &Entry| match here {
        None => "",
        Some(id) if entry.id == id => "▶ ",
        Some(_) => "  ",
    };
    let row = |entry: &Entry| {
        let kind = &entry.kind;
        [
            format!("{}{}", point(entry), local(entry.at_ms)),
            mark(kind.operation.as_deref()).to_string(),
            one_line(&kind.kind, 20),
            one_line(&kind.status, 20),
            short(&entry.id).to_string(),
            entry.ms.map_or("-".into(), time),
            one_line(entry.by.as_deref().unwrap_or("-"), 20),
            what(entry),
        ]
    };
    let head = ["time", "", "type", "status", "id", "took", "by", "what"].map(String::from);
    let rows: Vec<[String; 8]> = std::iter::once(head)
        .chain(entries.iter().map(row))
        .collect();
    let wide = |column: usize| rows.iter().map(|r| r[column].chars().count()).max();
    let (at, kind) = (wide(0).unwrap_or(0) + 2, wide(2).unwrap_or(0) + 2);
    let marked = wide(1) == Some(1);
    let lines = match width {
        Some(width) if width < WIDE => {
            let less = rows.iter().cloned();
            let less: Vec<[String; 6]> = less
                .map(|[at, mark, kind, status, id, _, _, what]| [at, mark, kind, status, id, what])
                .collect();
            table(less.iter(), Some(width), cut)
        }
        width => table(rows.iter(), width, cut),
    };
    let status = at + usize::from(marked) + 2 + kind;
    let mut out = String::new();
    let coloured = colors(&std::io::stdout());
    for (line, row) in lines.into_iter().zip(&rows) {
        match coloured {
            true => out.push_str(&painted(&line, &[(at, &row[1]), (status, &row[3])])),
            false => out.push_str(&line),
        }
    }
    if marked {
        out.push_str("r reads · w writes · ! destroys\n");
    }
    out
}

/// A line with words at some columns in colour. All before them is a character a column.
fn painted(line: &str, words: &[(usize, &String)]) -> String {
    let mut out = String::new();
    let mut rest = line;
    let mut column = 0;
    for (at, word) in words {
        let colour = match word.as_str() {
            "r" => "32",
            "w" | "denied" | "blocked" => "35",
            "!" | "error" => "31",
            _ => continue,
        };
        let start = rest
            .char_indices()
            .nth(at - column)
            .map_or(rest.len(), |(i, _)| i);
        let (before, after) = rest.split_at(start);
        let Some(behind) = after.strip_prefix(word.as_str()) else {
            continue;
        };
        out.push_str(&format!("{before}\x1b[{colour}m{word}\x1b[0m"));
        rest = behind;
        column = at + word.chars().count();
    }
    out + rest
}

#[cfg(test)]
mod tests;
