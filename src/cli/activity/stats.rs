//! `aish-helper activity stats`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chat::OperationClass;
use crate::cli::table::{count, table};
use crate::cli::{columns, print, print_json};
use crate::client::operation;
use crate::client::text_format::{cut, grouped, time};
use crate::error::Result;
use crate::history::index::row::STATUSES;
use crate::history::index::{ActivityStats, ActivityTally};
use crate::safety::confusables;

/// Maximum number of tools shown.
const MAX_TOOLS: usize = 10;
/// Maximum width of a name.
const MAX_NAME: usize = 36;

/// Prints the statistics.
///
/// # Errors
/// Writing to stdout failed.
pub fn run(stats: &ActivityStats, json: bool) -> Result<()> {
    if json {
        let tallies_json = |tallies: &BTreeMap<String, ActivityTally>| -> Value {
            tallies
                .iter()
                .map(|(name, t)| (name.clone(), tally_json(t)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        return print_json(&json!({
            "all": tally_json(&stats.all),
            "types": tallies_json(&stats.types),
            "operations": tallies_json(&stats.operations),
            "tools": tallies_json(&stats.tools),
        }));
    }
    print(&stats_page(stats, columns()))
}

fn tally_json(tally: &ActivityTally) -> Value {
    let ended = STATUSES.iter().zip(tally.ended);
    let mut value = json!({"count": tally.count});
    for (status, n) in ended {
        value[*status] = n.into();
    }
    value["error_rate"] = json!(error_rate(tally));
    value["p50_ms"] = json!(tally.percentile(50));
    value["p95_ms"] = json!(tally.percentile(95));
    value
}

/// Returns the share of completed actions that ended in an error; denied, blocked and interrupted ones do not count.
fn error_rate(tally: &ActivityTally) -> Option<f64> {
    let [success, error, ..] = tally.ended;
    let done = success + error;
    (done > 0).then(|| error as f64 / done as f64)
}

fn stats_page(stats: &ActivityStats, width: Option<usize>) -> String {
    if stats.all.count == 0 {
        return "no recorded action matches\n".into();
    }
    let number = |n: usize| grouped(n as u64);
    let ended: Vec<String> = STATUSES
        .iter()
        .zip(stats.all.ended)
        .map(|(status, n)| format!("{} {status}", number(n)))
        .collect();
    let noun = if stats.all.count == 1 {
        "action"
    } else {
        "actions"
    };
    let mut out = format!("{} {noun}: {}\n", number(stats.all.count), ended.join(", "));
    let row = |name: String, tally: &ActivityTally| {
        let took = |p| tally.percentile(p).map_or("-".into(), time);
        [
            name,
            number(tally.count),
            error_rate(tally).map_or("-".into(), |r| format!("{:.1} %", r * 100.0)),
            number(tally.ended[2]),
            number(tally.ended[3]),
            took(50),
            took(95),
        ]
    };
    let mut part = |kind: &str, tallies: &[(&String, &ActivityTally)]| {
        if tallies.is_empty() {
            return;
        }
        let head = [kind, "actions", "errors", "denied", "blocked", "p50", "p95"].map(String::from);
        let rows = tallies.iter();
        let rows =
            rows.map(|(name, tally)| row(cut(&confusables::marked_name(name), MAX_NAME), tally));
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(rows).collect();
        out.push('\n');
        out.push_str(&table(rows.iter(), width, cut).concat());
    };
    part("type", &by_count(&stats.types));
    let operations = stats.operations.iter();
    let operations = operations.map(|(name, tally)| (class_word(name).to_owned(), tally.clone()));
    part("operation", &by_count(&operations.collect()));
    let tools = by_count(&stats.tools);
    part("tool", &tools[..tools.len().min(MAX_TOOLS)]);
    if tools.len() > MAX_TOOLS {
        out.push_str(&format!(
            "and {}\n",
            count(tools.len() - MAX_TOOLS, "other tool")
        ));
    }
    out
}

/// Sorts by count, most frequent first.
/// Returns the word for an operation in the index.
pub(super) fn class_word(operation: &str) -> &str {
    match OperationClass::from_name(operation) {
        Some(class) => operation::word(class),
        None => operation,
    }
}

fn by_count(tallies: &BTreeMap<String, ActivityTally>) -> Vec<(&String, &ActivityTally)> {
    let mut all: Vec<_> = tallies.iter().collect();
    all.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.count));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_statistics_of_each_kind() {
        let tally = |ended: [usize; 5], took: &[u64]| ActivityTally {
            count: ended.iter().sum(),
            ended,
            took: took.to_vec(),
        };
        let mut stats = ActivityStats {
            all: tally([1500, 2, 1, 0, 0], &[5]),
            ..ActivityStats::default()
        };
        stats
            .types
            .insert("prompt".into(), tally([1, 0, 0, 0, 0], &[]));
        stats.types.insert(
            "tool".into(),
            tally([3, 1, 1, 0, 0], &[100, 200, 300, 1500]),
        );
        stats
            .operations
            .insert("read".into(), tally([3, 1, 1, 0, 0], &[100]));
        for n in 0..12 {
            let name = format!("a.t\u{1b}{n}");
            stats.tools.insert(name, tally([n, 0, 0, 0, 0], &[]));
        }
        let text = stats_page(&stats, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "1,503 actions: 1,500 success, 2 error, 1 denied, 0 blocked, 0 interrupted"
        );
        assert_eq!(
            lines[2],
            "type    actions  errors  denied  blocked  p50     p95"
        );
        assert_eq!(
            lines[3],
            "tool    5        25.0 %  1       0        200 ms  1.5 s"
        );
        assert_eq!(
            lines[4],
            "prompt  1        0.0 %   0       0        -       -"
        );
        assert!(lines.last().unwrap().contains("2 other tools"), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(tally_json(&stats.types["tool"])["error_rate"], 0.25);
        assert_eq!(
            stats_page(&ActivityStats::default(), None),
            "no recorded action matches\n"
        );
    }
}
