//! Random rules, grants and calls, compared with an oracle that implements the semantics independently: a call has the
//! names under which a rule can restrict it and those under which one can allow it, and a rule is text.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::chat::DataSensitivity;

const CASES: u32 = 100_000;

const PROTECTED: &str = "it reaches a protected file";

const SUBJECTS: [&str; 15] = [
    "fs.read",
    "fs.write",
    "fs.*",
    "git.read",
    "git.write",
    "git.*",
    "op:read",
    "op:write",
    "op:destructive",
    "sensitivity:public",
    "sensitivity:internal",
    "sensitivity:private",
    "sensitivity:unknown",
    "shell",
    "network",
];

/// A rule in the configuration: its subject, its effect, whether it is in `mcp.auto_approve`, whether it is the
/// project's.
type Written = (usize, RuleEffect, bool, bool);

/// A call and its properties.
#[derive(Debug, Clone)]
struct Known {
    server: &'static str,
    tool: &'static str,
    /// Which of two tools with the same name it is.
    version: usize,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    trusted: bool,
    configured: bool,
    changed: bool,
    protected: bool,
    /// The action of a built-in tool.
    action: Option<BuiltinAction>,
    /// Another action of it.
    second_action: Option<BuiltinAction>,
    /// The arguments make the call destructive.
    raised: bool,
    /// The directory of the workspace in which the call stays.
    workspace: Option<&'static str>,
    intent: Option<CallIntent>,
}

/// An earlier approval: for which call, with which scope, when, and the other tools of the server with their hints.
type Given = (
    Known,
    ApprovalScope,
    u64,
    Vec<(&'static str, usize, Option<bool>, Option<bool>)>,
);

#[derive(Debug, Clone)]
struct Case {
    default: RuleEffect,
    rules: Vec<Written>,
    call: Known,
    given: Vec<Given>,
    now: u64,
}

fn words() -> impl Strategy<Value = RuleEffect> {
    prop::sample::select(&RuleEffect::ALL[..])
}

fn hint() -> impl Strategy<Value = Option<bool>> {
    prop::sample::select(&[None, Some(true), Some(true), Some(false)][..])
}

fn tools() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["read", "write"][..])
}

fn intents() -> impl Strategy<Value = Option<CallIntent>> {
    let operation = prop::sample::select(&OperationClass::ALL[..]);
    let sensitivity = prop::option::of(prop::sample::select(&DataSensitivity::ALL[..]));
    let intent = (operation, sensitivity).prop_map(|(operation, sensitivity)| CallIntent {
        operation,
        sensitivity,
        reason: None,
    });
    prop::option::of(intent)
}

fn calls() -> impl Strategy<Value = Known> {
    let which = (
        prop::sample::select(&["fs", "git"][..]),
        tools(),
        prop::sample::select(&[0, 0, 0, 1][..]),
    );
    let hints = (
        hint(),
        hint(),
        prop::sample::select(&[None, None, Some(true)][..]),
    );
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
    );
    let action = || prop::sample::select(&BuiltinAction::ALL[..]);
    let actions = (
        prop::option::weighted(0.3, action()),
        prop::option::weighted(0.1, action()),
    );
    let effects = (
        actions,
        prop::bool::weighted(0.15),
        prop::sample::select(&[None, None, Some("/a"), Some("/b")][..]),
    );
    let all = (which, hints, flags, intents(), effects);
    all.prop_map(|(which, hints, flags, intent, effects)| Known {
        server: which.0,
        tool: which.1,
        version: which.2,
        read_only: hints.0,
        destructive: hints.1,
        idempotent: hints.2,
        trusted: flags.0,
        configured: flags.1,
        changed: flags.2,
        protected: flags.3,
        action: effects.0.0,
        second_action: effects.0.1,
        raised: effects.1,
        workspace: effects.2,
        intent,
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let rule = (
        0..SUBJECTS.len(),
        words(),
        any::<bool>(),
        prop::bool::weighted(0.3),
    );
    let said = [
        ApprovalScope::Once,
        ApprovalScope::Tool,
        ApprovalScope::Reads,
        ApprovalScope::Always,
    ];
    let others = vec((tools(), 0..2usize, hint(), hint()), 0..3);
    let times = [
        0,
        1,
        GRANT_TTL_MS / 2,
        GRANT_TTL_MS - 1,
        GRANT_TTL_MS,
        2 * GRANT_TTL_MS,
    ];
    let given = (
        calls(),
        prop::sample::select(said.to_vec()),
        prop::sample::select(vec![0, 1, GRANT_TTL_MS / 2]),
        others,
        // Most concern the tool of the call, otherwise grants would rarely cover it.
        prop::bool::weighted(0.8),
    );
    (
        words(),
        vec(rule, 0..6),
        calls(),
        vec(given, 0..4),
        prop::sample::select(times.to_vec()),
    )
        .prop_map(|(default, rules, call, given, now)| {
            let given = given.into_iter().map(|(known, said, at, others, same)| {
                let known = match same {
                    true => Known {
                        intent: known.intent,
                        trusted: known.trusted,
                        ..call.clone()
                    },
                    false => known,
                };
                (known, said, at, others)
            });
            Case {
                default,
                rules,
                given: given.collect(),
                call,
                now,
            }
        })
}

fn identity(server: &str, tool: &str, version: usize) -> &'static str {
    match (server, tool, version) {
        ("fs", "read", 0) => "fs.read, first",
        ("fs", "read", _) => "fs.read, second",
        ("fs", _, 0) => "fs.write, first",
        ("fs", ..) => "fs.write, second",
        (_, "read", 0) => "git.read, first",
        (_, "read", _) => "git.read, second",
        (_, _, 0) => "git.write, first",
        _ => "git.write, second",
    }
}

impl Known {
    fn wish(&self) -> CallRequest<'_> {
        CallRequest {
            call: ExactCall {
                server: self.server,
                tool: self.tool,
                identity: identity(self.server, self.tool, self.version),
                arguments: "{}",
            },
            annotations: ToolAnnotations {
                read_only: self.read_only,
                destructive: self.destructive,
                idempotent: self.idempotent,
                open_world: None,
            },
            trusted: self.trusted,
            configured: self.configured,
            changed: self.changed,
            intent: self.intent.as_ref(),
            protected: self.protected.then_some(PROTECTED),
            effects: CallEffects {
                action: self.action,
                second_action: self.second_action,
                workspace: self.workspace,
                operation: self.raised.then_some(OperationClass::Destructive),
            },
        }
    }

    fn hints(&self) -> [Option<bool>; 3] {
        [self.read_only, self.destructive, self.idempotent]
    }
}

impl Case {
    fn rules(&self) -> RuleSet {
        let (mut list, mut project) = (Vec::new(), Vec::new());
        for (at, &(subject, word, of_tools, of_project)) in self.rules.iter().enumerate() {
            let text = SUBJECTS[subject];
            let subject = RuleSubject::of_tools(text).filter(|_| of_tools);
            let rule = PolicyRule {
                subject: subject.unwrap_or_else(|| RuleSubject::parse(text).expect("a subject")),
                effect: word,
                source: format!("rule {at}"),
            };
            match of_project {
                true => project.push(rule),
                false => list.push(rule),
            }
        }
        let default = DefaultRule {
            effect: self.default,
            source: "default".into(),
        };
        RuleSet {
            default,
            list,
            project,
        }
    }

    fn grants(&self) -> GrantSet {
        let mut grants = GrantSet::default();
        for (at, (known, said, at_ms, others)) in self.given.iter().enumerate() {
            let wish = known.wish();
            let own = (wish.call.identity, wish.annotations);
            let others = others
                .iter()
                .map(|(tool, version, read_only, destructive)| {
                    let says = ToolAnnotations {
                        read_only: *read_only,
                        destructive: *destructive,
                        ..ToolAnnotations::default()
                    };
                    (identity(known.server, tool, *version), says)
                });
            let of_server = others.chain([own]);
            approve(
                &wish,
                *said,
                of_server,
                &mut grants,
                *at_ms,
                &format!("g{at}"),
            );
        }
        grants
    }
}

/// Returns the oracle's decision.
fn oracle(case: &Case) -> RuleEffect {
    let call = &case.call;
    let declared = call.intent.as_ref().map(|i| i.operation.as_str());
    let says = says(call.hints());
    let taken = taken(call);
    let tool = format!("{}.{}", call.server, call.tool);
    let server = format!("{}.*", call.server);
    let mut tightening = vec![
        tool.clone(),
        server.clone(),
        "sensitivity:unknown".to_owned(),
    ];
    for reading in [Some(says), Some(taken), declared].into_iter().flatten() {
        tightening.push(format!("op:{reading}"));
        if reading == "destructive" {
            tightening.push("op:write".to_owned());
        }
    }
    if let Some(sensitivity) = call.intent.as_ref().and_then(|i| i.sensitivity) {
        tightening.push(format!("sensitivity:{}", sensitivity.as_str()));
    }
    // In `mcp.auto_approve` a name with a dot is always a tool.
    let name = |action: BuiltinAction| format!("action {}", action.as_str());
    tightening.extend(call.action.map(name));
    tightening.extend(call.second_action.map(name));
    let mut loosening = vec![tool, server];
    if call.second_action.is_none() {
        loosening.extend(call.action.map(name));
    }
    // Only if this does not depend on the caller's declaration.
    let by_class = (taken_of(call, None) == taken).then(|| format!("op:{taken}"));
    loosening.extend(by_class.clone());
    // A destructive command is allowed only by a rule about its class.
    let allowing = match call.raised {
        true => Vec::from_iter(by_class),
        false => loosening.clone(),
    };
    let is = |word: RuleEffect, names: &[String], project: bool| {
        case.rules
            .iter()
            .any(|&(subject, of, of_tools, of_project)| {
                let text = SUBJECTS[subject];
                let is_tool = of_tools && text.contains('.');
                let is_action = |name: &str| !is_tool && name.strip_prefix("action ") == Some(text);
                let is_named = names.iter().any(|n| n == text || is_action(n));
                of == word && of_project == project && is_named
            })
    };
    if is(RuleEffect::Deny, &tightening, false) || is(RuleEffect::Deny, &tightening, true) {
        return RuleEffect::Deny;
    }
    let allowed = call.configured && is(RuleEffect::Allow, &allowing, false);
    let lifted = allowed || call.configured && is(RuleEffect::Ask, &loosening, false);
    if case.default == RuleEffect::Deny && !lifted {
        return RuleEffect::Deny;
    }
    let asked = is(RuleEffect::Ask, &tightening, false) || is(RuleEffect::Ask, &tightening, true);
    if asked || call.changed || call.protected {
        return RuleEffect::Ask;
    }
    let default = call.configured && case.default == RuleEffect::Allow && !call.raised;
    match allowed || default || case.given.iter().any(|g| covers(g, call, case.now)) {
        true => RuleEffect::Allow,
        false => RuleEffect::Ask,
    }
}

/// The operation class by the hints.
fn says([read_only, destructive, _]: [Option<bool>; 3]) -> &'static str {
    match (read_only, destructive) {
        (_, Some(true)) => "destructive",
        (Some(true), _) => "read",
        _ => "write",
    }
}

/// The effective operation class of a call.
fn taken(call: &Known) -> &'static str {
    taken_of(call, call.intent.as_ref().map(|i| i.operation.as_str()))
}

fn taken_of(call: &Known, declared: Option<&str>) -> &'static str {
    let says = match says(call.hints()) {
        _ if call.raised => "destructive",
        "read" if !call.trusted => "write",
        says => says,
    };
    ["destructive", "write", "read"]
        .into_iter()
        .find(|o| *o == says || Some(*o) == declared)
        .expect("an operation")
}

/// Whether an earlier approval covers a call.
fn covers((known, said, at, others): &Given, call: &Known, now: u64) -> bool {
    let level = |operation: &str| {
        ["read", "write", "destructive"]
            .iter()
            .position(|o| *o == operation)
    };
    let same_place = known.server == call.server
        && known.workspace == call.workspace
        && now < at + 12 * 3_600_000;
    let same_tool =
        known.tool == call.tool && known.version == call.version && known.hints() == call.hints();
    match said {
        ApprovalScope::Once => false,
        ApprovalScope::Tool | ApprovalScope::Always => {
            same_place && same_tool && !call.raised && level(taken(call)) <= level(taken(known))
        }
        ApprovalScope::Reads => {
            let declares_more = call
                .intent
                .as_ref()
                .is_some_and(|i| i.operation != OperationClass::Read);
            let among = others
                .iter()
                .any(|(tool, version, read_only, destructive)| {
                    *tool == call.tool
                        && *version == call.version
                        && call.hints() == [*read_only, *destructive, None]
                });
            same_place
                && (among || same_tool)
                && says(call.hints()) == "read"
                && !declares_more
                && !call.raised
        }
    }
}

fn word(decision: &PolicyDecision) -> RuleEffect {
    match decision {
        PolicyDecision::Allow(..) => RuleEffect::Allow,
        PolicyDecision::Ask(_) => RuleEffect::Ask,
        PolicyDecision::Deny(_) => RuleEffect::Deny,
    }
}

fn decided(wish: &CallRequest<'_>, rules: &RuleSet, grants: &GrantSet, now: u64) -> RuleEffect {
    word(&decide(wish, rules, grants, now))
}

/// Checks every property of one case.
fn check(case: &Case) -> Result<RuleEffect, TestCaseError> {
    let (rules, grants, wish) = (case.rules(), case.grants(), case.call.wish());
    let none = GrantSet::default();
    let now = case.now;
    let decision = decide(&wish, &rules, &grants, now);
    let decides = word(&decision);
    prop_assert_eq!(decides, oracle(case));

    // The order and origin of the rules make no difference.
    let mut turned = rules.clone();
    turned.list.reverse();
    turned.project.reverse();
    for (at, rule) in turned
        .list
        .iter_mut()
        .chain(&mut turned.project)
        .enumerate()
    {
        rule.source = format!("another place {at}");
    }
    prop_assert_eq!(decided(&wish, &turned, &grants, now), decides);

    // The caller's declaration never relaxes.
    let silent = CallRequest {
        intent: None,
        ..wish
    };
    prop_assert!(decided(&silent, &rules, &grants, now) <= decides);

    // Untrusted annotations gain nothing from rules: not read-only; and nothing else either, unless a rule allows
    // destructive calls by name.
    let doubted = CallRequest {
        trusted: false,
        ..wish
    };
    let mut unsaid = CallRequest {
        annotations: ToolAnnotations {
            read_only: None,
            ..wish.annotations
        },
        ..doubted
    };
    let doubts = decided(&doubted, &rules, &none, now);
    prop_assert!(doubts >= decided(&unsaid, &rules, &none, now));
    let by_name = |&(subject, word, ..): &Written| {
        SUBJECTS[subject] == "op:destructive" && word < RuleEffect::Deny
    };
    if !case.rules.iter().any(by_name) {
        unsaid.annotations = ToolAnnotations::default();
        prop_assert!(doubts >= decided(&unsaid, &rules, &none, now));
    }

    // A project's rules never relax.
    let user = RuleSet {
        project: Vec::new(),
        ..rules.clone()
    };
    prop_assert!(decided(&wish, &user, &grants, now) <= decides);

    // Nothing is allowed for a changed tool, and no rule allows anything for a server outside the configuration.
    let changed = CallRequest {
        changed: true,
        ..wish
    };
    prop_assert!(decided(&changed, &rules, &grants, now) >= decides.max(RuleEffect::Ask));
    let elsewhere = CallRequest {
        configured: false,
        ..wish
    };
    let by_rule = decided(&wish, &rules, &none, now);
    prop_assert!(decided(&elsewhere, &rules, &none, now) >= by_rule.max(RuleEffect::Ask));

    // An expired or revoked grant has no effect; no grant overrides a rule that asks or denies.
    let late = now + 3 * GRANT_TTL_MS;
    prop_assert_eq!(decided(&wish, &rules, &grants, late), by_rule);
    let mut revoked = grants.clone();
    for grant in grants.list() {
        prop_assert!(revoked.revoke(&grant.id));
    }
    prop_assert_eq!(decided(&wish, &rules, &revoked, now), by_rule);
    prop_assert!(decides == by_rule || (decides, by_rule) == (RuleEffect::Allow, RuleEffect::Ask));

    explained(&wish, &rules, &grants, now, decision)?;
    Ok(decides)
}

/// The explanation agrees with the decision.
fn explained(
    wish: &CallRequest<'_>,
    rules: &RuleSet,
    grants: &GrantSet,
    now: u64,
    decision: PolicyDecision,
) -> Result<(), TestCaseError> {
    let told = explain(wish, rules, grants, now);
    prop_assert_eq!(told.effect, word(&decision));
    prop_assert_eq!(told.operation, wish.operation());
    let (PolicyDecision::Allow(_, by) | PolicyDecision::Ask(by) | PolicyDecision::Deny(by)) =
        decision;
    prop_assert_eq!(&told.decided_by, &by);
    let of = |standing: &RuleStanding| -> Vec<&ConsideredRule> {
        let all = told.considered.iter();
        all.filter(|c| c.standing == *standing).collect()
    };
    match of(&RuleStanding::Decides)[..] {
        // None of them decides: a changed tool, or another server.
        [] => prop_assert!([CHANGED, UNCONFIGURED, PROTECTED, DESTRUCTIVE].contains(&by.as_str())),
        [one] => {
            prop_assert_eq!(one.effect, told.effect);
            prop_assert_eq!(&one.source, &by);
        }
        _ => prop_assert!(false, "two decide: {told:#?}"),
    }
    // No deny rule is overruled, and an ask rule only by a default of deny.
    for over in of(&RuleStanding::Overruled) {
        prop_assert!(
            over.effect != RuleEffect::Deny
                || told.effect == RuleEffect::Deny
                || over.subject == "default"
        );
        prop_assert!(
            over.effect != RuleEffect::Ask
                || told.effect != RuleEffect::Allow
                || over.subject == "default"
        );
    }
    Ok(())
}

#[test]
fn random_policies_and_calls_agree_with_the_oracle() {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let found = RefCell::new(BTreeMap::new());
    let run = TestRunner::new(config).run(&cases(), |case| {
        let word = check(&case)?;
        *found.borrow_mut().entry(word).or_insert(0) += 1;
        Ok(())
    });
    if let Err(e) = run {
        panic!("{e}");
    }
    // The cases covered every kind of decision.
    let found = found.into_inner();
    assert_eq!(found.values().sum::<u32>(), CASES);
    for word in RuleEffect::ALL {
        assert!(found.get(&word) > Some(&(CASES / 20)), "{found:?}");
    }
}
