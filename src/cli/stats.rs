//! `aish-helper stats`: use and cost of the models.

use std::collections::HashMap;

use chrono::Local;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::activity::{check_order, progress, time_point};
use super::args::{StatsArgs, UsageGroup};
use super::table::{count, table};
use super::{columns, print, print_json};
use crate::client::styled_line::wrapped;
use crate::client::text_format::{cut, grouped, short_count, short_id};
use crate::error::Result;
use crate::history::index::{Index, UsageStats, UsageSum, local_day};
use crate::history::journal::Journal;
use crate::paths::Paths;
use crate::safety::budget::{self, usd};
use crate::safety::confusables;
use crate::safety::text::one_line;

/// Maximum number of models, providers, sessions and packs shown.
const MAX_ROWS: usize = 10;
/// Maximum number of days shown; the newest are kept.
const MAX_DAYS: usize = 31;
/// Maximum width of a name.
const MAX_NAME: usize = 32;
/// Minimum width to which a name is shortened in a narrow terminal.
const MIN_NAME: usize = 8;
/// Range of the width of a bar; without room for the smallest, no bar is shown.
const BAR: std::ops::RangeInclusive<usize> = 5..=30;
/// Width below which the columns of failures and of the cache are left out.
const NARROW: usize = 50;
const GROUPS: [UsageGroup; 5] = [
    UsageGroup::Day,
    UsageGroup::Model,
    UsageGroup::Provider,
    UsageGroup::Session,
    UsageGroup::Pack,
];

/// Prints the statistics.
///
/// # Errors
/// A time or the session is unknown, or the journal cannot be read.
pub fn run(paths: &Paths, args: &StatsArgs) -> Result<()> {
    let now = Local::now();
    let since = time_point::parse(&args.since, &now, false)?;
    let until = match &args.until {
        Some(text) => time_point::parse(text, &now, true)?,
        None => u64::try_from(now.timestamp_millis()).unwrap_or(0) + 1,
    };
    check_order(since, until)?;
    let (first, last) = (local_day(since), local_day(until - 1));
    let mut index = Index::open(&paths.journal(), &paths.state, progress::watch())?;
    let session = args.session.as_deref();
    let session = session.map(|part| index.session(part)).transpose()?;
    let stats = index.usage(first, last, session.as_deref())?;
    let groups = GROUPS.into_iter();
    let groups = groups.filter(|group| args.by.is_none_or(|by| by == *group));
    if args.json {
        let mut out = json!({
            "first_day": first.to_string(),
            "last_day": last.to_string(),
            "total": sum_json(&stats.total),
        });
        for by in groups {
            let mut sums: Vec<_> = sums(&stats, by).iter().collect();
            sums.sort_by_key(|(name, _)| *name);
            let rows = sums.into_iter().map(|(name, sum)| {
                let mut row = sum_json(sum);
                row[word(by)] = name.as_str().into();
                row
            });
            out[format!("{}s", word(by))] = rows.collect();
        }
        return print_json(&out);
    }
    let journal = Journal::new(paths.journal());
    let title = |session: &str| {
        let summary = journal.summary(session, &[]).ok().flatten();
        summary.map_or(String::new(), |summary| one_line(&summary.title, MAX_NAME))
    };
    let width = columns();
    let period = match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    if stats.total.requests == 0 {
        return print(&format!("{period}: no requests\n"));
    }
    let headline = format!("{period}: {}", headline(&stats.total));
    let mut out = match width {
        Some(width) => wrapped(&headline, width, 2),
        None => headline + "\n",
    };
    for by in groups {
        let sums = sums(&stats, by);
        // Requests without a pack are not a separate group.
        if args.by.is_none() && by == UsageGroup::Pack && sums.keys().all(String::is_empty) {
            continue;
        }
        out.push('\n');
        out.push_str(&chart(by, sums, width, &title));
    }
    print(&out)
}

fn word(by: UsageGroup) -> &'static str {
    match by {
        UsageGroup::Day => "day",
        UsageGroup::Model => "model",
        UsageGroup::Provider => "provider",
        UsageGroup::Session => "session",
        UsageGroup::Pack => "pack",
    }
}

fn sums(stats: &UsageStats, by: UsageGroup) -> &HashMap<String, UsageSum> {
    match by {
        UsageGroup::Day => &stats.days,
        UsageGroup::Model => &stats.models,
        UsageGroup::Provider => &stats.providers,
        UsageGroup::Session => &stats.sessions,
        UsageGroup::Pack => &stats.packs,
    }
}

fn sum_json(sum: &UsageSum) -> Value {
    json!({
        "requests": sum.requests,
        "failures": sum.failures,
        "input_tokens": sum.input,
        "cache_read_tokens": sum.cache_read,
        "cache_write_tokens": sum.cache_write,
        "output_tokens": sum.output,
        "reasoning_tokens": sum.reasoning,
        "cache_share": cache_share(sum),
        "cost": budget::rounded(sum.cost),
        "estimated_requests": sum.estimated,
        "unpriced_requests": sum.unpriced,
    })
}

/// Returns the share of the requests' tokens that came from the cache.
fn cache_share(sum: &UsageSum) -> Option<f64> {
    (sum.input > 0).then(|| sum.cache_read as f64 / sum.input as f64)
}

fn headline(total: &UsageSum) -> String {
    let requests = usize::try_from(total.requests).unwrap_or(usize::MAX);
    let noun =
        count(requests, "request").replacen(&requests.to_string(), &grouped(total.requests), 1);
    let mut parts = vec![noun];
    if total.failures > 0 {
        parts.push(format!("{} failed", grouped(total.failures)));
    }
    parts.push(format!("{} in", short_count(total.input)));
    parts.push(format!("{} out", short_count(total.output)));
    // Where no price is known, there is nothing to say.
    if total.unpriced < total.requests || total.cost > 0.0 {
        parts.push(cost(total));
    }
    if total.unpriced > 0 && total.unpriced < total.requests {
        parts.push(format!("{} of unknown price", grouped(total.unpriced)));
    }
    parts.join(" · ")
}

/// Formats a cost: `~` for a sum with estimates, `?` for one with unknown parts.
fn cost(sum: &UsageSum) -> String {
    let estimated = if sum.estimated > 0 { "~" } else { "" };
    match (sum.unpriced, sum.cost > 0.0) {
        (0, _) => format!("{estimated}{}", usd(sum.cost)),
        (_, true) => format!("{estimated}{} + ?", usd(sum.cost)),
        (_, false) => "?".into(),
    }
}

fn chart(
    by: UsageGroup,
    sums: &HashMap<String, UsageSum>,
    width: Option<usize>,
    title: &dyn Fn(&str) -> String,
) -> String {
    // Free models have bars, too.
    let has_cost = sums.values().any(|sum| sum.cost > 0.0);
    let size = |sum: &UsageSum| match has_cost {
        true => sum.cost,
        false => (sum.input + sum.output) as f64,
    };
    let all = sums.len();
    let mut shown: Vec<(&String, &UsageSum)> = sums.iter().collect();
    shown.sort_by_key(|(name, _)| *name);
    let limit = match by {
        UsageGroup::Day => {
            shown.drain(..all.saturating_sub(MAX_DAYS));
            MAX_DAYS
        }
        _ => {
            shown.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
            shown.truncate(MAX_ROWS);
            MAX_ROWS
        }
    };
    let row = |(name, sum): &(&String, &UsageSum)| {
        let name = match (by, name.as_str()) {
            (_, "") => "-".to_owned(),
            (UsageGroup::Session, id) => format!("{}  {}", short_id(id), title(id)),
            (_, name) => confusables::marked_name(name),
        };
        [
            cut(&name, MAX_NAME),
            grouped(sum.requests),
            grouped(sum.failures),
            short_count(sum.input),
            cache_share(sum).map_or("-".into(), |share| format!("{:.0} %", share * 100.0)),
            short_count(sum.output),
            cost(sum),
        ]
    };
    let head = [
        word(by),
        "requests",
        "failed",
        "in",
        "cached",
        "out",
        "cost",
    ];
    let rows: Vec<[String; 7]> = std::iter::once(head.map(String::from))
        .chain(shown.iter().map(row))
        .collect();
    let lines = match width.is_some_and(|width| width < NARROW) {
        // What can be missed, rather than parts of the names.
        true => {
            let rows = rows.into_iter();
            let rows = rows.map(|[name, requests, _, input, _, output, cost]| {
                [name, requests, input, output, cost]
            });
            let mut rows: Vec<[String; 5]> = rows.collect();
            // The names are shortened, not the numbers behind them.
            let widest = |column: usize| rows.iter().map(|row| row[column].width() + 2).max();
            let numbers: usize = (1..5).filter_map(widest).sum();
            let room = width.unwrap_or_default().saturating_sub(numbers);
            for row in &mut rows {
                row[0] = cut(&row[0], room.max(MIN_NAME));
            }
            table(rows.iter(), width, cut)
        }
        false => table(rows.iter(), width, cut),
    };
    let widest = lines.iter().map(|l| l.trim_end().width()).max();
    let widest = widest.unwrap_or_default();
    let room = width.map_or(*BAR.end(), |w| w.saturating_sub(widest + 2).min(*BAR.end()));
    let largest = shown.iter().map(|(_, sum)| size(sum)).fold(0.0, f64::max);
    let mut out = String::new();
    // The heading has no bar.
    let sizes = std::iter::once(0.0).chain(shown.iter().map(|(_, sum)| size(sum)));
    for (line, size) in lines.iter().zip(sizes) {
        let line = line.trim_end();
        let bar = match room >= *BAR.start() && largest > 0.0 {
            true => bar(size / largest, room),
            false => String::new(),
        };
        let gap = " ".repeat(widest + 2 - line.width());
        out.push_str(format!("{line}{gap}{bar}").trim_end());
        out.push('\n');
    }
    if all > limit {
        out.push_str(&format!(
            "and {}\n",
            count(all - limit, &format!("other {}", word(by)))
        ));
    }
    out
}

/// Returns a bar of this share of `width` columns, in steps of an eighth; any share above zero is visible.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    fn used(requests: u64, input: u64, cost: f64) -> UsageSum {
        UsageSum {
            requests,
            input,
            cache_read: input / 2,
            output: 10,
            cost,
            ..UsageSum::default()
        }
    }

    #[test]
    fn a_chart_has_the_largest_first_and_fits_the_terminal() {
        let mut models = HashMap::new();
        for n in 0..12_u32 {
            let sum = used(1, 1000, f64::from(n));
            models.insert(format!("m{n}\u{1b}"), sum);
        }
        let text = chart(UsageGroup::Model, &models, Some(70), &|_| String::new());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("model"), "{text}");
        assert!(
            lines[1].contains("m11") && lines[1].contains("$11.00"),
            "{text}"
        );
        assert!(lines[1].ends_with("██████"), "{text}");
        assert_eq!(lines.last(), Some(&"and 2 other models"));
        assert!(lines.iter().all(|l| l.width() <= 70), "{text}");
        assert!(!text.contains('\u{1b}'));
        // No room for bars.
        let text = chart(UsageGroup::Model, &models, Some(50), &|_| String::new());
        assert!(!text.contains('█'), "{text}");
        assert!(text.contains("failed") && text.contains("cached"), "{text}");
        let text = chart(UsageGroup::Model, &models, Some(40), &|_| String::new());
        assert!(
            !text.contains("failed") && !text.contains("cached"),
            "{text}"
        );
        assert!(text.contains("m11") && text.contains("$11.00"), "{text}");
        // A long name is shortened, not the numbers.
        let long = [("a-model-with-a-long-name".to_owned(), used(1, 1000, 11.0))];
        let text = chart(UsageGroup::Model, &long.into(), Some(40), &|_| {
            String::new()
        });
        assert!(text.contains("$11.00"), "{text}");
        assert!(text.lines().all(|l| l.width() <= 40), "{text}");
    }

    #[test]
    fn free_models_are_compared_by_tokens() {
        let models = [
            ("a".to_owned(), used(1, 100, 0.0)),
            ("b".to_owned(), used(1, 1000, 0.0)),
        ];
        let text = chart(UsageGroup::Model, &models.into(), None, &|_| String::new());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with('b') && lines[1].ends_with(&"█".repeat(30)),
            "{text}"
        );
        assert!(lines[2].contains("$0.00"), "{text}");
    }

    #[test]
    fn unknown_and_estimated_costs_are_marked() {
        let sum = |cost, estimated, unpriced| {
            cost_of(UsageSum {
                cost,
                estimated,
                unpriced,
                requests: 3,
                ..UsageSum::default()
            })
        };
        fn cost_of(sum: UsageSum) -> String {
            cost(&sum)
        }
        assert_eq!(sum(1.5, 0, 0), "$1.50");
        assert_eq!(sum(1.5, 1, 0), "~$1.50");
        assert_eq!(sum(1.5, 0, 2), "$1.50 + ?");
        assert_eq!(sum(0.0, 0, 3), "?");
        // The headline says nothing about it.
        let unpriced = UsageSum {
            unpriced: 1,
            ..used(1, 20, 0.0)
        };
        assert_eq!(headline(&unpriced), "1 request · 20 in · 10 out");
    }

    #[test]
    fn bars_have_steps_of_an_eighth() {
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!(bar(0.0, 3), "");
        assert_eq!(bar(1e-9, 3), "▏");
    }
}
