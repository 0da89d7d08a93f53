//! `aish-helper activity list|show|export|stats`: queries the index over the journal, without the daemon.

mod export;
pub(super) mod progress;
mod show;
mod stats;
pub(super) mod time_point;

use chrono::{Datelike, Local, TimeZone, Utc};
use serde_json::{Value, json};

use super::args::{ActivityCommand, RecordFilter};
use super::table::table;
use super::{columns, print, print_json, write};
use crate::client::terminal::colors;
use crate::client::text_format::{cut, short_id, time};
use crate::config::nearest_name;
use crate::error::{Error, Result};
use crate::history::index::{ActivityEntry, ActivityFilter, Index};
use crate::paths::Paths;
use crate::safety::confusables;
use crate::safety::text::one_line;

/// Minimum terminal width for the columns `took` and `by`.
const FULL_TABLE_WIDTH: usize = 100;
/// Minimum terminal width for the column `type` and the date of an action.
const MEDIUM_TABLE_WIDTH: usize = 80;
/// Maximum number of characters shown of the text of an action.
const MAX_TEXT: usize = 200;
/// Maximum number of known names listed in an error.
const MAX_NAMES: usize = 20;

/// Runs an `activity` subcommand.
///
/// # Errors
/// The action is unknown, or the journal cannot be read.
pub fn run(paths: &Paths, command: ActivityCommand) -> Result<()> {
    let index = &mut Index::open(&paths.journal(), &paths.state, progress::watch())?;
    match command {
        ActivityCommand::List {
            filter,
            limit,
            names,
            json,
        } => {
            let filter = build_filter(index, filter)?;
            let limit = limit as usize;
            match names {
                true => list_names(&index.list(&filter, limit)?),
                false => list(index, &filter, limit, json),
            }
        }
        ActivityCommand::Show { id, json } => show::run(index, &id, json),
        ActivityCommand::Export {
            filter,
            limit,
            format,
        } => {
            let filter = build_filter(index, filter)?;
            let limit = limit.map_or(usize::MAX, |n| n as usize);
            export::run(index, &filter, limit, format)
        }
        ActivityCommand::Stats { filter, json } => {
            let filter = build_filter(index, filter)?;
            stats::run(&index.stats(&filter)?, json)
        }
    }
}

/// Converts the options to a filter. A server or tool that the journal does not contain is an error, not an empty
/// list.
fn build_filter(index: &mut Index, options: RecordFilter) -> Result<ActivityFilter> {
    let now = Local::now();
    let parse_time = |text: &Option<String>, end: bool| -> Result<Option<u64>> {
        let text = text.as_deref();
        text.map(|text| time_point::parse(text, &now, end))
            .transpose()
    };
    let (since_ms, until_ms) = (
        parse_time(&options.since, false)?,
        parse_time(&options.until, true)?,
    );
    if let (Some(since), Some(until)) = (since_ms, until_ms) {
        check_order(since, until)?;
    }
    let (servers, tools) = match options.servers.is_empty() && options.tools.is_empty() {
        true => Default::default(),
        false => index.names()?,
    };
    for name in &options.servers {
        if !servers.contains(name) {
            return Err(unknown_name("server", name, &servers));
        }
    }
    for word in &options.tools {
        let matches = |name: &String| {
            let (server, tool) = name.split_once('.').unwrap_or(("", name));
            word == name || word == tool || *word == format!("{server}:{tool}")
        };
        if !tools.iter().any(matches) {
            return Err(unknown_name("tool", word, &tools));
        }
    }
    let session = options
        .session
        .map(|part| index.session(&part))
        .transpose()?;
    Ok(ActivityFilter {
        types: options.types,
        operations: options.operations,
        statuses: options.statuses,
        servers: options.servers,
        tools: options.tools,
        session,
        since_ms,
        until_ms,
    })
}

/// Checks that a period has a length.
pub(super) fn check_order(since_ms: u64, until_ms: u64) -> Result<()> {
    if since_ms >= until_ms {
        return Err(Error::usage("--since is not before --until")
            .hint("a span such as 2h is counted back from now"));
    }
    Ok(())
}

fn unknown_name(kind: &str, name: &str, names: &[String]) -> Error {
    let error = Error::usage(format!("no recorded action has the {kind} '{name}'"));
    if names.is_empty() {
        return error.hint(format!(
            "no action with a {kind} is recorded yet; leave out --{kind}"
        ));
    }
    let mut shown = names[..names.len().min(MAX_NAMES)].join(", ");
    if names.len() > MAX_NAMES {
        shown.push_str(&format!(" and {} more", names.len() - MAX_NAMES));
    }
    let tails = names.iter().filter_map(|n| Some(n.split_once('.')?.1));
    let suggestion = nearest_name(name, names.iter().map(String::as_str).chain(tails));
    let suggestion = suggestion
        .map(|n| format!("did you mean {n}? "))
        .unwrap_or_default();
    error.hint(format!("{suggestion}recorded are: {shown}"))
}

fn list(index: &mut Index, filter: &ActivityFilter, limit: usize, json: bool) -> Result<()> {
    // One extra entry shows whether more exist.
    let mut entries = index.list(filter, limit.saturating_add(1))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    if json {
        return print_json(&entries.iter().map(entry_json).collect::<Vec<_>>());
    }
    if entries.is_empty() {
        return print("no recorded action matches\n");
    }
    // The newest action is the last line, where the eye is when the command has ended.
    entries.reverse();
    let older = match more {
        true => format!(
            "older actions are not shown; use --limit {} to see more\n",
            limit * 4
        ),
        false => String::new(),
    };
    write(&(older + &action_table(&entries, None)))
}

/// Prints `ID:TIME TYPE WHAT` of each action, for the completion.
fn list_names(entries: &[ActivityEntry]) -> Result<()> {
    let line = |entry: &ActivityEntry| {
        let (id, time) = (short_id(&entry.id), local_time(entry.at_ms, false));
        let kind = one_line(&entry.kind.kind, 20);
        format!("{id}:{time}  {kind}  {}\n", describe(entry))
    };
    print(&entries.iter().map(line).collect::<String>())
}

/// Formats an action as JSON.
fn entry_json(entry: &ActivityEntry) -> Value {
    json!({
        "id": entry.id,
        "time": rfc3339(entry.at_ms),
        "type": entry.kind.kind,
        "operation": entry.kind.operation,
        "status": entry.kind.status,
        "server": entry.kind.server,
        "tool": entry.kind.tool,
        "what": entry.what,
        "duration_ms": entry.ms,
        "decided_by": entry.by,
        "session": entry.session,
    })
}

fn rfc3339(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok();
    let at = at.and_then(|ms| Utc.timestamp_millis_opt(ms).single());
    at.map(|t| t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        .unwrap_or_default()
}

/// Formats a time in the local zone, without the year if it is the current one; `short`: of today only hour and minute,
/// of other days only the date.
fn local_time(at_ms: u64, short: bool) -> String {
    let at = i64::try_from(at_ms).ok();
    let Some(at) = at.and_then(|ms| Local.timestamp_millis_opt(ms).single()) else {
        return "-".into();
    };
    let now = Local::now();
    let format = match at.year() == now.year() {
        true if short && at.date_naive() == now.date_naive() => "%H:%M",
        true if short => "%m-%d",
        true => "%m-%d %H:%M:%S",
        false => "%Y-%m-%d",
    };
    at.format(format).to_string()
}

fn operation_mark(operation: Option<&str>) -> &'static str {
    match operation {
        Some("read") => "r",
        Some("write") => "w",
        Some("destructive") => "!",
        _ => "",
    }
}

/// Describes an action in one line.
fn describe(entry: &ActivityEntry) -> String {
    let kind = &entry.kind;
    let name = [&kind.server, &kind.tool].into_iter().flatten();
    let name: Vec<String> = name.map(|n| confusables::marked_name(n)).collect();
    let name = name.join(".");
    let text = match &*kind.kind {
        // Escaped in full, because look-alike characters could hide what was called.
        "tool" | "approval" => cut(&confusables::marked_text(&entry.what), MAX_TEXT),
        // A list shows the text of several lines as one.
        "prompt" | "answer" => {
            let words: Vec<&str> = entry.what.split_whitespace().collect();
            one_line(&words.join(" "), MAX_TEXT)
        }
        _ => one_line(&entry.what, MAX_TEXT),
    };
    [name, text].join(" ").trim().to_string()
}

/// Formats actions as a table with a legend of the marks; an arrow points at the action `selected`.
fn action_table(entries: &[ActivityEntry], selected: Option<&str>) -> String {
    let width = columns();
    let small = width.is_some_and(|width| width < MEDIUM_TABLE_WIDTH);
    let pointer = |entry: &ActivityEntry| match selected {
        None => "",
        Some(id) if entry.id == id => "▶ ",
        Some(_) => "  ",
    };
    let row = |entry: &ActivityEntry| {
        let kind = &entry.kind;
        [
            format!("{}{}", pointer(entry), local_time(entry.at_ms, small)),
            operation_mark(kind.operation.as_deref()).to_string(),
            one_line(&kind.kind, 20),
            one_line(&kind.status, 20),
            short_id(&entry.id).to_string(),
            entry.ms.map_or("-".into(), time),
            one_line(entry.by.as_deref().unwrap_or("-"), 20),
            describe(entry),
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
        Some(width) if small => {
            let small = rows.iter().cloned();
            let small: Vec<[String; 5]> = small
                .map(|[at, mark, kind, status, id, _, _, what]| {
                    [at, mark, status, id, format!("{kind}: {what}")]
                })
                .collect();
            table(small.iter(), Some(width), cut)
        }
        Some(width) if width < FULL_TABLE_WIDTH => {
            let narrow = rows.iter().cloned();
            let narrow: Vec<[String; 6]> = narrow
                .map(|[at, mark, kind, status, id, _, _, what]| [at, mark, kind, status, id, what])
                .collect();
            table(narrow.iter(), Some(width), cut)
        }
        width => table(rows.iter(), width, cut),
    };
    let kind = if small { 0 } else { kind };
    let status = at + usize::from(marked) + 2 + kind;
    let mut out = String::new();
    let use_color = colors(&std::io::stdout());
    for (line, row) in lines.into_iter().zip(&rows) {
        match use_color {
            true => out.push_str(&colored(&line, &[(at, &row[1]), (status, &row[3])])),
            false => out.push_str(&line),
        }
    }
    if marked {
        out.push_str("r read · w write · ! destructive\n");
    }
    out
}

/// Colours words at the given columns of a line. Text before them must have one column per character.
fn colored(line: &str, words: &[(usize, &String)]) -> String {
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
