//! `aish-helper recording list`.

use std::path::PathBuf;

use super::{MAX_TEXT, all, clock, local_time, size_text, source_name, state, summary_json};
use crate::cli::table::table;
use crate::cli::{columns, print, print_json};
use crate::client::text_format::{cut, short_id};
use crate::error::Result;
use crate::paths::Paths;
use crate::recording::list::start_of;
use crate::recording::reader::{Recording, RecordingSummary};
use crate::safety::redact::global_redactor;
use crate::safety::text::one_line;

/// Minimum terminal width for all columns of the list.
const FULL_TABLE_WIDTH: usize = 100;

/// Prints the ids as the list shows them, without reading the recordings.
pub(super) fn names(paths: &Paths) -> Result<()> {
    let all = all(paths)?;
    let line = |dir: &PathBuf| {
        let id = short_id(dir.file_name()?.to_str()?).to_owned();
        let start = start_of(dir);
        let about = start.map(|start| {
            let command = start.command.unwrap_or_default().join(" ");
            let command = one_line(&global_redactor().redact(&command), MAX_TEXT);
            format!("{}  {} {command}", local_time(start.ms), start.tty)
        });
        Some(format!("{id}:{}\n", about.unwrap_or_default().trim_end()))
    };
    print(&all.iter().filter_map(line).collect::<String>())
}

pub(super) fn list(paths: &Paths, json: bool) -> Result<()> {
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for dir in all(paths)? {
        let opened = Recording::open(&dir).and_then(|r| Ok((r.id(), r.summary()?)));
        let (id, summary) = match opened {
            Ok(found) => found,
            // One that cannot be read must not hide the others.
            Err(e) => {
                let mut error = e;
                error.hint = None;
                crate::cli::report(&error);
                continue;
            }
        };
        match json {
            true => values.push(summary_json(&id, &summary)),
            false => rows.push(row(&id, &summary)),
        }
    }
    if json {
        return print_json(&values);
    }
    if rows.is_empty() {
        return print("no recordings yet\n");
    }
    let heading = [
        "id", "started", "length", "size", "terminal", "source", "state", "shell",
    ];
    rows.insert(0, heading.map(str::to_owned));
    let width = columns();
    if width.is_some_and(|width| width < FULL_TABLE_WIDTH) {
        let small = rows
            .into_iter()
            .map(|[id, started, length, _, _, _, state, _]| [id, started, length, state]);
        let small: Vec<[String; 4]> = small.collect();
        return print(&table(small.iter(), width, cut).concat());
    }
    print(&table(rows.iter(), width, cut).concat())
}

fn row(id: &str, summary: &RecordingSummary) -> [String; 8] {
    let start = &summary.start;
    let shell = start.shell.as_ref().map_or("-", |shell| shell.as_str());
    [
        short_id(&one_line(id, MAX_TEXT)).to_owned(),
        local_time(start.ms),
        clock(summary.length_us),
        size_text(summary.bytes),
        format!("{}×{}", start.cols, start.rows),
        source_name(start.source).to_owned(),
        state(summary),
        // Last, because it is long, and the end of a line is cut off.
        shell.to_owned(),
    ]
}
