//! Secrets in the columns of tables: a heading such as `user,password` names what stands in the rows below it.
//!
//! Tables of CSV, with tabs, with `|` as psql, mysql and Markdown write them, with borders, in columns with blanks between them, and the
//! rows of `INSERT` and `COPY` in SQL.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::FormatRules;
use super::cells::TableForm;
use super::column_headings::{SqlHeading, heading_line, line_heading, sql_heading};
use super::column_rows::{Row, Table};
use crate::safety::redact::stage::SecretMatch;

/// Maximum number of lines in a row that do not fit into a table: comments, and rows with other cells.
const MAX_MISFITS: usize = 3;

/// What is known of tables between two chunks of a text.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct TableState {
    table: Option<Table>,
    /// Secrets in the row that was read last.
    cells: VecDeque<(Range<usize>, Arc<str>)>,
    /// End of the last line that was read as a heading.
    read_to: usize,
    /// The same of names in statements of SQL.
    sql_read_to: usize,
    /// Number of the last lines that did not fit, and the end of the last one, which may be the heading of another table.
    misfits: usize,
    misfit_to: usize,
}

/// What comes next in a table.
pub(super) enum TableEvent {
    /// There is no table.
    None,
    /// A secret in a cell.
    Secret(SecretMatch),
    /// A line that ends here is not a row.
    Misfit(usize),
    /// A row that is not complete begins here.
    Incomplete(usize),
}

/// What the text around the name of a secret is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    None,
    /// The heading of a table.
    Table,
    /// What follows the text decides.
    Incomplete,
}

impl TableState {
    /// Returns what comes next at `at` or later in a text that begins at `base` of the whole text.
    pub(super) fn next(&mut self, text: &[u8], base: usize, at: usize, last: bool) -> TableEvent {
        loop {
            while let Some((cell, kind)) = self.cells.front() {
                if cell.end <= base + at {
                    self.cells.pop_front();
                    continue;
                }
                return TableEvent::Secret(SecretMatch {
                    range: cell.start.max(base + at) - base..cell.end - base,
                    kind: kind.clone(),
                    more: None,
                });
            }
            // A secret that goes on in the next rows ends the table.
            let Some(table) = self.table.as_mut().filter(|table| table.row >= base + at) else {
                self.table = None;
                return TableEvent::None;
            };
            if base + at < self.misfit_to {
                return TableEvent::Misfit(self.misfit_to - base);
            }
            let start = table.row - base;
            match table.read_row(text, start, last) {
                Row::Incomplete => return TableEvent::Incomplete(start),
                Row::Misfit(next, is_within) if self.misfits < MAX_MISFITS => {
                    self.misfits += 1;
                    (table.row, table.is_within) = (base + next, is_within);
                    self.misfit_to = table.row;
                }
                Row::End if table.needs_ruler && table.other.is_some() => {
                    let row = table.row;
                    self.table = table.other.take().map(|other| Table { row, ..*other });
                }
                Row::End | Row::Misfit(..) => {
                    // Its rows are no headings.
                    self.read_to = self.read_to.max(table.row);
                    self.table = None;
                }
                Row::Ruler(next) => {
                    (table.needs_ruler, table.is_weak) = (false, false);
                    table.row = base + next;
                }
                Row::Cells(cells, next) => {
                    let found = table.secrets(text, start, &cells);
                    let found =
                        found.map(|(cell, kind)| (base + cell.start..base + cell.end, kind));
                    self.cells = found.collect();
                    self.misfits = 0;
                    match next {
                        Some(next) => table.row = base + next,
                        None => self.table = None,
                    }
                }
            }
        }
    }

    /// Reads the line or list around a keyword at `at` as a heading.
    pub(super) fn open(
        &mut self,
        rules: &FormatRules,
        text: &[u8],
        base: usize,
        at: usize,
    ) -> Opening {
        if self.table.is_some() && base + at >= self.misfit_to {
            return Opening::None;
        }
        let sql = match base + at < self.sql_read_to {
            true => SqlHeading::None(at),
            false => sql_heading(rules, text, at),
        };
        let table = match sql {
            SqlHeading::Table(table) => Some(table),
            SqlHeading::Incomplete => return Opening::Incomplete,
            SqlHeading::None(end) => {
                self.sql_read_to = self.sql_read_to.max(base + end);
                let is_read = base + at < self.read_to;
                let line = (!is_read)
                    .then(|| heading_line(text, at, base == 0))
                    .flatten();
                line.and_then(|line| {
                    self.read_to = base + line.range.end;
                    line_heading(rules, text, &line, at)
                })
            }
        };
        let Some(table) = table else {
            return Opening::None;
        };
        (self.misfits, self.misfit_to) = (0, 0);
        self.table = Some(Table {
            row: base + table.row,
            ..table
        });
        Opening::Table
    }

    /// Returns the state for another part of the text, after a gap, and where its first whole row begins; 0 without a table.
    pub(in super::super) fn after_gap(self, part: &[u8]) -> (TableState, usize) {
        let table = self.table.filter(|table| table.form != TableForm::Lists);
        let Some(table) = table else {
            return (TableState::default(), 0);
        };
        let row = memchr::memchr(b'\n', part).map_or(part.len(), |at| at + 1);
        let state = TableState {
            table: Some(Table {
                row: 0,
                is_within: false,
                ..table
            }),
            ..TableState::default()
        };
        (state, row)
    }
}
