use super::*;
use crate::chat::DataSensitivity;

const CALL: ExactCall<'_> = ExactCall {
    server: "fs",
    tool: "write",
    identity: "fs.write as it is",
    arguments: "{}",
};

const READ: ExactCall<'_> = ExactCall {
    tool: "read",
    identity: "fs.read as it is",
    ..CALL
};

const READS: ToolAnnotations = ToolAnnotations {
    read_only: Some(true),
    destructive: None,
    idempotent: None,
    open_world: None,
};

fn wish(call: ExactCall<'_>) -> CallRequest<'_> {
    CallRequest {
        annotations: match call.tool {
            "read" => READS,
            _ => ToolAnnotations::default(),
        },
        ..CallRequest::new(call)
    }
}

fn rules(list: &[(&str, RuleEffect)]) -> RuleSet {
    let rule = |(subject, word): &(&str, RuleEffect)| PolicyRule {
        subject: RuleSubject::parse(subject).expect("a subject"),
        effect: *word,
        source: format!("policy.rules.\"{subject}\""),
    };
    RuleSet {
        list: list.iter().map(rule).collect(),
        ..RuleSet::default()
    }
}

fn asks(call: ExactCall<'_>, list: &[(&str, RuleEffect)], grants: &GrantSet) -> bool {
    match decide(&wish(call), &rules(list), grants, 0) {
        PolicyDecision::Ask(_) => true,
        PolicyDecision::Allow(..) => false,
        PolicyDecision::Deny(rule) => panic!("denied by {rule}"),
    }
}

fn say(call: ExactCall<'_>, said: ApprovalScope, grants: &mut GrantSet) -> Approved {
    let of_server = [
        (CALL.identity, ToolAnnotations::default()),
        (READ.identity, READS),
    ];
    approve(&wish(call), said, of_server, grants, 1000, "g1")
}

#[test]
fn a_call_is_asked_about_unless_a_rule_allows_it() {
    use RuleEffect::{Allow, Ask};
    let none = GrantSet::default();
    assert!(asks(CALL, &[], &none));
    assert!(asks(CALL, &[("fs.read", Allow), ("f.*", Allow)], &none));
    assert!(!asks(CALL, &[("fs.write", Allow)], &none));
    assert!(!asks(CALL, &[("fs.*", Allow)], &none));
    assert!(asks(CALL, &[("fs.*", Allow), ("fs.write", Ask)], &none));
    assert!(asks(CALL, &[("fs.*", Ask), ("fs.write", Allow)], &none));
}

#[test]
fn rules_allow_nothing_for_a_server_outside_the_configuration() {
    let wish = CallRequest {
        configured: false,
        ..wish(CALL)
    };
    let rules = rules(&[("fs.*", RuleEffect::Allow)]);
    let decision = decide(&wish, &rules, &GrantSet::default(), 0);
    assert_eq!(decision, PolicyDecision::Ask("policy.default".into()));
}

#[test]
fn a_grant_covers_its_tool_or_the_read_only_tools_at_that_time() {
    let mut grants = GrantSet::default();
    say(CALL, ApprovalScope::Once, &mut grants);
    assert!(asks(CALL, &[], &grants) && grants.is_empty());
    say(CALL, ApprovalScope::Tool, &mut grants);
    assert!(!asks(CALL, &[], &grants));
    assert!(asks(CALL, &[("fs.write", RuleEffect::Ask)], &grants));
    assert!(asks(READ, &[], &grants));
    let mut grants = GrantSet::default();
    say(READ, ApprovalScope::Reads, &mut grants);
    assert!(!asks(READ, &[], &grants));
    assert!(asks(CALL, &[], &grants));
    let later = ExactCall {
        tool: "later",
        identity: "fs.later as it is",
        ..CALL
    };
    assert!(asks(later, &[], &grants));
}

#[test]
fn a_grant_is_removed_by_its_id_and_when_it_expires() {
    let mut grants = GrantSet::default();
    say(CALL, ApprovalScope::Tool, &mut grants);
    let end = grants.list()[0].expires_ms;
    assert!(!grants.revoke("g2"), "there is no such grant");
    grants.expire(end - 1);
    assert_eq!(grants.list().len(), 1);
    let mut expired = grants.clone();
    expired.expire(end);
    assert!(expired.is_empty());
    expired = grants.clone();
    expired.expire(end + 1);
    assert!(expired.is_empty());
    assert!(grants.revoke("g1") && grants.is_empty());
}

#[test]
fn a_star_stands_only_for_all_tools_of_a_server() {
    let server = Some(RuleSubject::Server("fs".into()));
    assert_eq!(RuleSubject::of_tools("fs.*"), server);
    for text in ["f*.*", "*.*", "fs.r*", "*.read", ".read", "fs.", "fs"] {
        assert_eq!(RuleSubject::of_tools(text), None, "{text}");
    }
}

#[test]
fn only_the_grants_of_a_changed_tool_are_removed() {
    let mut grants = GrantSet::default();
    say(CALL, ApprovalScope::Tool, &mut grants);
    say(READ, ApprovalScope::Tool, &mut grants);
    say(READ, ApprovalScope::Reads, &mut grants);
    let all = grants.clone();
    for unchanged in [CALL, READ] {
        assert!(grants.remove_changed(&wish(unchanged)).is_empty());
    }
    assert_eq!(grants, all);
    let changed = ExactCall {
        identity: "fs.read as it is now",
        ..READ
    };
    assert_eq!(grants.remove_changed(&wish(changed)), all.list()[1..2]);
    assert_eq!(grants.list(), [&all.list()[..1], &all.list()[2..]].concat());
}

#[test]
fn a_grant_does_not_cover_a_changed_tool() {
    let changed = ExactCall {
        identity: "fs.read as it is now",
        ..READ
    };
    for said in [
        ApprovalScope::Tool,
        ApprovalScope::Reads,
        ApprovalScope::Always,
    ] {
        let mut grants = GrantSet::default();
        let approved = say(READ, said, &mut grants);
        assert!(asks(changed, &[], &grants), "{said:?}");
        assert!(!approved.covers(&changed, 1000), "{said:?}");
    }
}

#[test]
fn arguments_are_normalised_or_rejected() {
    let text = |s| canonical_arguments(s).ok();
    assert_eq!(text(" { \"a\" : 1 } ").as_deref(), Some("{\"a\":1}"));
    assert_eq!(text("{\"a\":1,\"a\":2}").as_deref(), Some("{\"a\":2}"));
    for broken in [
        "",
        "{",
        "{\"a\":1",
        "[]",
        "null",
        "\"{}\"",
        "{} {}",
        "{\"a\":1e999}",
    ] {
        assert!(canonical_arguments(broken).is_err(), "{broken}");
    }
    let once = text("{\"é\":[1.50,\"\\u0000\"]}").unwrap();
    assert_eq!(text(&once), Some(once.clone()));
}

#[test]
fn an_approval_covers_the_exact_call_until_it_expires() {
    let mint = || say(CALL, ApprovalScope::Once, &mut GrantSet::default());
    assert!(mint().covers(&CALL, 1000 + APPROVAL_TTL_MS - 1));
    assert!(!mint().covers(&CALL, 1000 + APPROVAL_TTL_MS));
    let other = ExactCall {
        arguments: "{ }",
        ..CALL
    };
    assert!(!mint().covers(&other, 1000));
    assert_eq!(mint().digest().len(), 64);
}

#[test]
fn names_with_dots_have_different_digests() {
    let split = |server, tool| ExactCall {
        server,
        tool,
        identity: "",
        arguments: "{}",
    };
    assert_ne!(split("fs", "x.y").digest(), split("fs.x", "y").digest());
    assert_ne!(split("fs", "x{}").digest(), split("fs", "x").digest());
}

#[test]
fn only_user_rules_relax_a_default_of_deny() {
    let word = |list: &[(&str, RuleEffect)], project: &[(&str, RuleEffect)]| {
        let rules = RuleSet {
            default: DefaultRule {
                effect: RuleEffect::Deny,
                source: "policy.default".into(),
            },
            project: rules(project).list,
            ..rules(list)
        };
        explain(&wish(CALL), &rules, &GrantSet::default(), 0).effect
    };
    use RuleEffect::{Allow, Ask, Deny};
    assert_eq!(word(&[], &[]), Deny);
    assert_eq!(word(&[("fs.*", Ask)], &[]), Ask);
    assert_eq!(word(&[("fs.*", Allow)], &[]), Allow);
    assert_eq!(word(&[("fs.*", Allow)], &[("fs.write", Ask)]), Ask);
    assert_eq!(word(&[], &[("fs.write", Ask)]), Deny);
    assert_eq!(word(&[], &[("fs.write", Allow)]), Deny);
    assert_eq!(word(&[("sensitivity:unknown", Ask)], &[]), Deny);
}

#[test]
fn a_declared_intent_only_tightens() {
    use RuleEffect::{Allow, Ask, Deny};
    let decided = |list: &[(&str, RuleEffect)], operation, sensitivity| {
        let intent = CallIntent {
            operation,
            sensitivity,
            reason: None,
        };
        let wish = CallRequest {
            intent: Some(&intent),
            ..wish(CALL)
        };
        explain(&wish, &rules(list), &GrantSet::default(), 0).effect
    };
    use OperationClass::{Destructive, Read, Write};
    assert_eq!(decided(&[("op:write", Allow)], Write, None), Allow);
    assert_eq!(decided(&[("op:write", Allow)], Destructive, None), Ask);
    assert_eq!(
        decided(&[("op:destructive", Allow)], Destructive, None),
        Ask
    );
    assert_eq!(decided(&[("op:read", Allow)], Read, None), Ask);
    let denies = [("fs.*", Allow), ("op:write", Deny)];
    assert_eq!(decided(&denies, Read, None), Deny);
    let asks = [("fs.*", Allow), ("sensitivity:private", Ask)];
    assert_eq!(decided(&asks, Write, Some(DataSensitivity::Private)), Ask);
    assert_eq!(decided(&asks, Write, Some(DataSensitivity::Public)), Allow);
    let unknown = [("fs.*", Allow), ("sensitivity:unknown", Deny)];
    assert_eq!(
        decided(&unknown, Write, Some(DataSensitivity::Public)),
        Deny
    );
    let public = [("sensitivity:public", Allow)];
    assert_eq!(decided(&public, Write, Some(DataSensitivity::Public)), Ask);
}

#[test]
fn the_explanation_names_the_deciding_rule_and_why_others_are_inactive() {
    let mut grants = GrantSet::default();
    say(CALL, ApprovalScope::Tool, &mut grants);
    say(READ, ApprovalScope::Reads, &mut grants);
    let list = [
        ("fs.*", RuleEffect::Allow),
        ("git.*", RuleEffect::Deny),
        ("fs.write", RuleEffect::Ask),
        ("op:read", RuleEffect::Allow),
        ("sensitivity:private", RuleEffect::Deny),
    ];
    let told = explain(&wish(CALL), &rules(&list), &grants, GRANT_TTL_MS + 1000);
    assert_eq!(
        (told.effect, &*told.decided_by),
        (RuleEffect::Ask, "policy.rules.\"fs.write\"")
    );
    assert_eq!(told.operation, OperationClass::Write);
    let lines: Vec<String> = told
        .considered
        .iter()
        .map(|c| format!("{}: {:?}", c.subject, c.standing))
        .collect();
    assert_eq!(
        lines,
        [
            "sensitivity:private: Inactive(\"the caller does not declare this sensitivity\")",
            "fs.write: Decides",
            "fs.*: Overruled",
            "op:read: Inactive(\"the call counts as write\")",
            "fs.write: Inactive(\"it has expired\")",
            "the reads of fs: Inactive(\"it has expired\")",
            "default: Overruled",
        ]
    );
}

#[test]
fn the_explanation_gives_the_reason_of_the_operation_class() {
    let intent = |operation| CallIntent {
        operation,
        sensitivity: None,
        reason: None,
    };
    let destructive = ToolAnnotations {
        destructive: Some(true),
        read_only: Some(false),
        ..ToolAnnotations::default()
    };
    let harmless = ToolAnnotations {
        destructive: Some(false),
        ..destructive
    };
    let (write, delete) = (
        intent(OperationClass::Write),
        intent(OperationClass::Destructive),
    );
    for (annotations, trusted, intent, reason) in [
        (READS, true, None, "read-only, and you trust"),
        (
            READS,
            true,
            Some(&write),
            "more severe than the tool's own class",
        ),
        (READS, false, None, "counts only with trust_annotations"),
        (
            READS,
            false,
            Some(&write),
            "counts only with trust_annotations",
        ),
        (harmless, true, None, "neither read-only nor destructive"),
        (
            harmless,
            true,
            Some(&delete),
            "more severe than the tool's own class",
        ),
        (
            destructive,
            true,
            Some(&delete),
            "declares the tool destructive",
        ),
    ] {
        let request = CallRequest {
            annotations,
            trusted,
            intent,
            ..CallRequest::new(CALL)
        };
        let trace = explain(&request, &RuleSet::default(), &GrantSet::default(), 0);
        assert!(
            trace.operation_reason.contains(reason),
            "{}",
            trace.operation_reason
        );
        assert_eq!(trace.operation, request.operation());
    }
}

#[test]
fn an_approval_keeps_the_annotations_and_a_grant_names_its_subject() {
    let mut grants = GrantSet::default();
    assert!(grants.is_empty());
    assert_eq!(
        say(READ, ApprovalScope::Reads, &mut grants).annotations(),
        READS
    );
    assert_eq!(
        grants.list()[0].description(),
        "you, for this session: the reads of fs"
    );
    assert!(!grants.is_empty());
    // A grant for another server is not part of the explanation.
    let other = ExactCall {
        server: "web",
        ..READ
    };
    let trace = explain(&wish(other), &RuleSet::default(), &grants, 0);
    assert!(
        trace.considered.iter().all(|c| c.grant.is_none()),
        "{trace:?}"
    );
    let trace = explain(&wish(READ), &RuleSet::default(), &grants, 0);
    assert_eq!(trace.decided_by, "you, for this session: the reads of fs");
}

#[test]
fn the_explanation_says_that_a_declaration_allows_nothing() {
    let intent = CallIntent {
        operation: OperationClass::Destructive,
        sensitivity: Some(DataSensitivity::Public),
        reason: None,
    };
    let wish = CallRequest {
        intent: Some(&intent),
        ..wish(CALL)
    };
    let list = [
        ("op:destructive", RuleEffect::Allow),
        ("sensitivity:public", RuleEffect::Allow),
    ];
    let told = explain(&wish, &rules(&list), &GrantSet::default(), 0);
    let standings: Vec<_> = told.considered.into_iter().map(|c| c.standing).collect();
    let inactive = |why: &str| RuleStanding::Inactive(why.to_owned());
    assert_eq!(
        standings,
        [
            inactive("only the caller declares this class, and a declaration allows nothing"),
            inactive("only the caller declares the sensitivity, and a declaration allows nothing"),
            RuleStanding::Decides,
        ]
    );
}

#[test]
fn the_strictest_rule_decides_on_an_action_of_aish() {
    use RuleEffect::{Allow, Ask, Deny};
    let decided = |list: &[(&str, RuleEffect)], own| {
        let rules = rules(list);
        rules.rule_for_action(own).map(|rule| rule.effect)
    };
    let all = [
        ("shell", Allow),
        ("shell", Ask),
        ("fs.write", Ask),
        ("network", Allow),
        ("network", Deny),
    ];
    assert_eq!(decided(&all, BuiltinAction::Shell), Some(Ask));
    assert_eq!(decided(&all, BuiltinAction::Network), Some(Deny));
    // Asked for by the user's own command; the rule is about a tool of that name.
    assert_eq!(decided(&all, BuiltinAction::FsWrite), None);
    assert_eq!(decided(&all[..2], BuiltinAction::Network), None);
    let allows = [("fs.write", Allow)];
    assert_eq!(decided(&allows, BuiltinAction::FsWrite), Some(Allow));
}

#[test]
fn tool_rules_do_not_apply_to_actions_of_aish() {
    let own = RuleSubject::Action(BuiltinAction::FsWrite);
    let tool = RuleSubject::Tool("fs".into(), "write".into());
    assert_eq!(RuleSubject::parse("fs.write"), Ok(own));
    assert_eq!(RuleSubject::of_tools("fs.write"), Some(tool));
    for none in ["shell", "op:read", "fs", ".x", "fs.", "*.x", "fs.get_*"] {
        assert_eq!(RuleSubject::of_tools(none), None, "{none}");
    }
}

#[test]
fn rules_do_not_apply_to_built_in_reads_and_apply_to_everything_else() {
    let builtin = CallRequest {
        annotations: READS,
        trusted: true,
        configured: false,
        ..CallRequest::new(ExactCall {
            server: "aish",
            identity: BUILTIN_IDENTITY,
            ..READ
        })
    };
    let mut strict = rules(&[("op:read", RuleEffect::Deny), ("aish.*", RuleEffect::Ask)]);
    strict.default.effect = RuleEffect::Deny;
    let allowed = |request: &CallRequest<'_>| {
        matches!(
            decide(request, &strict, &GrantSet::default(), 0),
            PolicyDecision::Allow(_, rule) if rule == BUILTIN_RULE
        )
    };
    assert!(allowed(&builtin));
    let declared_write = CallIntent {
        operation: OperationClass::Write,
        sensitivity: None,
        reason: None,
    };
    for other in [
        CallRequest {
            call: READ,
            ..builtin
        },
        CallRequest {
            annotations: ToolAnnotations::default(),
            ..builtin
        },
        CallRequest {
            trusted: false,
            ..builtin
        },
        CallRequest {
            intent: Some(&declared_write),
            ..builtin
        },
    ] {
        assert!(!allowed(&other), "{other:?}");
    }
}
