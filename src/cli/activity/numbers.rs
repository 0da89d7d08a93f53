//! `aish-helper activity stats`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::mcp::{count, table};
use crate::cli::{columns, print, print_json};
use crate::client::approve::arguments::grouped;
use crate::client::tools::{cut, time};
use crate::error::Result;
use crate::history::index::row::STATUSES;
use crate::history::index::{Stats, Tally};
use crate::safety::alike;

/// So many tools are shown.
const TOP: usize = 10;
/// The most columns of a name.
const NAME: usize = 36;

/// Shows numbers.
///
/// # Errors
/// stdout is closed.
pub fn run(stats: &Stats, json: bool) -> Result<()> {
    if json {
        let of = |tallies: &BTreeMap<String, Tally>| -> Value {
            tallies
                .iter()
                .map(|(name, t)| (name.clone(), value(t)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        return print_json(&json!({
            "all": value(&stats.all),
            "types": of(&stats.types),
            "operations": of(&stats.operations),
            "tools": of(&stats.tools),
        }));
    }
    print(&page(stats, columns()))
}

fn value(tally: &Tally) -> Value {
    let ended = STATUSES.iter().zip(tally.ended);
    let mut value = json!({"count": tally.count});
    for (status, n) in ended {
        value[*status] = n.into();
    }
    value["error_rate"] = json!(rate(tally));
    value["p50_ms"] = json!(tally.percentile(50));
    value["p95_ms"] = json!(tally.percentile(95));
    value
}

/// How many of those that were done ended in an error; what was not allowed was not done.
fn rate(tally: &Tally) -> Option<f64> {
    let [success, error, ..] = tally.ended;
    let done = success + error;
    (done > 0).then(|| error as f64 / done as f64)
}

fn page(stats: &Stats, width: Option<usize>) -> String {
    if stats.all.count == 0 {
        return "nothing of that kind is in the record\n".into();
    }
    let number = |n: usize| grouped(n as u64);
    let ended: Vec<String> = STATUSES
        .iter()
        .zip(stats.all.ended)
        .map(|(status, n)| format!("{} {status}", number(n)))
        .collect();
    let acts = if stats.all.count == 1 { "act" } else { "acts" };
    let mut out = format!("{} {acts}: {}\n", number(stats.all.count), ended.join(", "));
    let row = |name: String, tally: &Tally| {
        let took = |p| tally.percentile(p).map_or("-".into(), time);
        [
            name,
            number(tally.count),
            rate(tally).map_or("-".into(), |r| format!("{:.1} %", r * 100.0)),
            number(tally.ended[2]),
            number(tally.ended[3]),
            took(50),
            took(95),
        ]
    };
    let mut part = |what: &str, tallies: &[(&String, &Tally)]| {
        if tallies.is_empty() {
            return;
        }
        let head = [what, "acts", "errors", "denied", "blocked", "p50", "p95"].map(String::from);
        let rows = tallies.iter();
        let rows = rows.map(|(name, tally)| row(cut(&alike::name(name), NAME), tally));
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(rows).collect();
        out.push('\n');
        out.push_str(&table(rows.iter(), width, cut).concat());
    };
    part("type", &most(&stats.types));
    part("operation", &most(&stats.operations));
    let tools = most(&stats.tools);
    part("tool", &tools[..tools.len().min(TOP)]);
    if tools.len() > TOP {
        out.push_str(&format!("and {}\n", count(tools.len() - TOP, "other tool")));
    }
    out
}

/// The most frequent first.
fn most(tallies: &BTreeMap<String, Tally>) -> Vec<(&String, &Tally)> {
    let mut all: Vec<_> = tallies.iter().collect();
    all.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.count));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_numbers_of_each_kind() {
        let tally = |ended: [usize; 4], took: &[u64]| Tally {
            count: ended.iter().sum(),
            ended,
            took: took.to_vec(),
        };
        let mut stats = Stats {
            all: tally([1500, 2, 1, 0], &[5]),
            ..Stats::default()
        };
        stats
            .types
            .insert("prompt".into(), tally([1, 0, 0, 0], &[]));
        stats
            .types
            .insert("tool".into(), tally([3, 1, 1, 0], &[100, 200, 300, 1500]));
        stats
            .operations
            .insert("read".into(), tally([3, 1, 1, 0], &[100]));
        for n in 0..12 {
            let name = format!("a.t\u{1b}{n}");
            stats.tools.insert(name, tally([n, 0, 0, 0], &[]));
        }
        let text = page(&stats, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "1,503 acts: 1,500 success, 2 error, 1 denied, 0 blocked"
        );
        assert_eq!(
            lines[2],
            "type    acts  errors  denied  blocked  p50     p95"
        );
        assert_eq!(
            lines[3],
            "tool    5     25.0 %  1       0        200 ms  1.5 s"
        );
        assert_eq!(lines[4], "prompt  1     0.0 %   0       0        -       -");
        assert!(lines.last().unwrap().contains("2 other tools"), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(value(&stats.types["tool"])["error_rate"], 0.25);
        assert_eq!(
            page(&Stats::default(), None),
            "nothing of that kind is in the record\n"
        );
    }
}
