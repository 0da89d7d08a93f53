//! Compares the limits of `[budget]`.

use std::collections::BTreeMap;

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::{BudgetSettings, Config};
use crate::safety::budget::BudgetPeriod;

/// The limits of `[budget]` that are set.
pub(super) fn limits(budget: &BudgetSettings) -> BTreeMap<String, f64> {
    let periods = BudgetPeriod::ALL.into_iter().zip(budget.limits());
    let limits = periods.filter_map(|(period, limit)| Some((period.as_str().to_owned(), limit?)));
    limits.collect()
}

/// Takes back limits that were raised or removed, and adds the lines.
pub(super) fn tighten(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    for period in BudgetPeriod::ALL {
        let Some(old) = seen.budget.get(period.as_str()) else {
            continue;
        };
        let limit = match period {
            BudgetPeriod::Prompt => &mut now.budget.prompt,
            BudgetPeriod::Session => &mut now.budget.session,
            BudgetPeriod::Day => &mut now.budget.day,
            BudgetPeriod::Month => &mut now.budget.month,
        };
        if limit.is_none_or(|limit| limit > *old) {
            let new = limit.map_or("no limit".to_owned(), |limit| limit.to_string());
            let key = format!("budget.{}", period.as_str());
            changed(lines, &key, &old.to_string(), &new);
            *limit = Some(*old);
        }
    }
}
