//! Tests of the table of programs.

use super::*;

/// How many cases a rule is about.
fn width(rule: &ProgramRule) -> usize {
    let alternatives = rule.path.iter().map(Vec::len);
    alternatives.product::<usize>() * rule.any.len().max(1)
}

/// Whether two rules are about the same subcommand and the same condition.
fn overlaps(a: &ProgramRule, b: &ProgramRule) -> bool {
    let shares = |a: &[&str], b: &[&str]| a.iter().any(|word| b.contains(word));
    let mut paths = a.path.iter().zip(&b.path);
    a.path.len() == b.path.len()
        && paths.all(|(a, b)| shares(a, b))
        && (a.any.is_empty() && b.any.is_empty() || shares(&a.any, &b.any))
}

/// A later line may say more than an earlier one, not less: a line about as many cases or more must not replace the reason of one
/// that is about fewer.
#[test]
fn no_later_line_replaces_a_reason_by_a_vaguer_one() {
    let mut replaced = Vec::new();
    for (name, entry) in &*TABLE {
        for (at, later) in entry.rules.iter().enumerate() {
            let earlier = entry.rules.get(..at).unwrap_or_default().iter();
            let mut earlier = earlier.filter(|rule| {
                rule.class == later.class
                    && !rule.reason.is_empty()
                    && rule.reason != later.reason
                    && overlaps(rule, later)
                    && width(later) >= width(rule)
            });
            replaced.extend(earlier.next().map(|rule| {
                format!(
                    "{name} {:?}: {:?}, then {:?}",
                    later.path, rule.reason, later.reason
                )
            }));
        }
    }
    assert!(TABLE.len() > 2000, "only {} programs", TABLE.len());
    assert!(replaced.is_empty(), "{}", replaced.join("\n"));
}
