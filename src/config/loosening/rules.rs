//! Compares the rules.

use super::{ConfigChange, SeenConfig, changed};
use crate::safety::policy::{PolicyRule, RuleEffect, RuleSet, RuleSubject};

/// Takes the rules out of `new` that loosen those that were seen.
pub(super) fn take_back(seen: &SeenConfig, new: &mut RuleSet, lines: &mut Vec<ConfigChange>) {
    let line = |source: &str, effect: RuleEffect| format!("{source} = \"{}\"", effect.as_str());
    // With a default of deny, a rule that asks loosens too.
    let loosens = |effect: RuleEffect| effect < seen.default.max(RuleEffect::Ask);
    new.list.retain(|rule| {
        let subject = rule.subject.to_string();
        let mut old = seen.rules.iter();
        let is_new = !old.any(|o| o.subject == subject && o.effect <= rule.effect);
        let taken = loosens(rule.effect) && is_new;
        if taken {
            lines.push(('+', line(&rule.source, rule.effect)));
        }
        !taken
    });
    for old in seen.rules.iter().filter(|o| o.effect != RuleEffect::Allow) {
        let mut rest = new.list.iter();
        if rest.any(|n| n.subject.to_string() == old.subject && n.effect >= old.effect) {
            continue;
        }
        let subject = match old.source.starts_with("mcp.") {
            true => RuleSubject::of_tools(&old.subject),
            false => RuleSubject::parse(&old.subject).ok(),
        };
        lines.push(('-', line(&old.source, old.effect)));
        let Some(subject) = subject else {
            // Another version wrote it. Its scope is unknown, so everything counts as strict.
            new.list.retain(|rule| rule.effect >= old.effect);
            new.default.effect = new.default.effect.max(old.effect);
            continue;
        };
        new.list.push(PolicyRule {
            subject,
            effect: old.effect,
            source: old.source.clone(),
        });
    }
    if new.default.effect < seen.default {
        let quoted = |effect: RuleEffect| format!("\"{}\"", effect.as_str());
        let (before, after) = (quoted(seen.default), quoted(new.default.effect));
        changed(lines, "policy.default", &before, &after);
        new.default.effect = seen.default;
    }
}
