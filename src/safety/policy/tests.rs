use super::*;
use crate::chat::Sensitivity;

const CALL: Call<'_> = Call {
    server: "fs",
    tool: "write",
    identity: "fs.write as it is",
    arguments: "{}",
};

const READ: Call<'_> = Call {
    tool: "read",
    identity: "fs.read as it is",
    ..CALL
};

const READS: Annotations = Annotations {
    read_only: Some(true),
    destructive: None,
    idempotent: None,
    open_world: None,
};

fn wish(call: Call<'_>) -> Wish<'_> {
    Wish {
        annotations: match call.tool {
            "read" => READS,
            _ => Annotations::default(),
        },
        ..Wish::new(call)
    }
}

fn rules(list: &[(&str, Word)]) -> Rules {
    let rule = |(subject, word): &(&str, Word)| Rule {
        subject: Subject::parse(subject).expect("a subject"),
        word: *word,
        source: format!("policy.rules.\"{subject}\""),
    };
    Rules {
        list: list.iter().map(rule).collect(),
        ..Rules::default()
    }
}

fn asks(call: Call<'_>, list: &[(&str, Word)], grants: &Grants) -> bool {
    match decide(&wish(call), &rules(list), grants, 0) {
        Decision::Ask(_) => true,
        Decision::Allow(..) => false,
        Decision::Deny(rule) => panic!("denied by {rule}"),
    }
}

fn say(call: Call<'_>, said: Consent, grants: &mut Grants) -> Approved {
    let of_server = [
        (CALL.identity, Annotations::default()),
        (READ.identity, READS),
    ];
    consent(&wish(call), said, of_server, grants, 1000, "g1")
}

#[test]
fn a_call_is_asked_about_unless_a_rule_allows_it() {
    use Word::{Allow, Ask};
    let none = Grants::default();
    assert!(asks(CALL, &[], &none));
    assert!(asks(CALL, &[("fs.read", Allow), ("f.*", Allow)], &none));
    assert!(!asks(CALL, &[("fs.write", Allow)], &none));
    assert!(!asks(CALL, &[("fs.*", Allow)], &none));
    assert!(asks(CALL, &[("fs.*", Allow), ("fs.write", Ask)], &none));
    assert!(asks(CALL, &[("fs.*", Ask), ("fs.write", Allow)], &none));
}

#[test]
fn rules_allow_nothing_for_a_server_outside_the_configuration() {
    let wish = Wish {
        configured: false,
        ..wish(CALL)
    };
    let rules = rules(&[("fs.*", Word::Allow)]);
    let decision = decide(&wish, &rules, &Grants::default(), 0);
    assert_eq!(decision, Decision::Ask("policy.default".into()));
}

#[test]
fn a_grant_covers_its_tool_or_the_read_only_tools_at_that_time() {
    let mut grants = Grants::default();
    say(CALL, Consent::Once, &mut grants);
    assert!(asks(CALL, &[], &grants) && grants.is_empty());
    say(CALL, Consent::Tool, &mut grants);
    assert!(!asks(CALL, &[], &grants));
    assert!(asks(CALL, &[("fs.write", Word::Ask)], &grants));
    assert!(asks(READ, &[], &grants));
    let mut grants = Grants::default();
    say(READ, Consent::Reads, &mut grants);
    assert!(!asks(READ, &[], &grants));
    assert!(asks(CALL, &[], &grants));
    let later = Call {
        tool: "later",
        identity: "fs.later as it is",
        ..CALL
    };
    assert!(asks(later, &[], &grants));
}

#[test]
fn a_grant_does_not_cover_a_changed_tool() {
    let changed = Call {
        identity: "fs.read as it is now",
        ..READ
    };
    for said in [Consent::Tool, Consent::Reads, Consent::Always] {
        let mut grants = Grants::default();
        let approved = say(READ, said, &mut grants);
        assert!(asks(changed, &[], &grants), "{said:?}");
        assert!(!approved.covers(&changed, 1000), "{said:?}");
    }
}

#[test]
fn arguments_are_normalised_or_rejected() {
    let text = |s| canonical(s).ok();
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
        assert!(canonical(broken).is_err(), "{broken}");
    }
    let once = text("{\"é\":[1.50,\"\\u0000\"]}").unwrap();
    assert_eq!(text(&once), Some(once.clone()));
}

#[test]
fn an_approval_covers_the_exact_call_until_it_expires() {
    let mint = || say(CALL, Consent::Once, &mut Grants::default());
    assert!(mint().covers(&CALL, 1000 + APPROVAL_TTL_MS - 1));
    assert!(!mint().covers(&CALL, 1000 + APPROVAL_TTL_MS));
    let other = Call {
        arguments: "{ }",
        ..CALL
    };
    assert!(!mint().covers(&other, 1000));
    assert_eq!(mint().digest().len(), 64);
}

#[test]
fn names_with_dots_have_different_digests() {
    let split = |server, tool| Call {
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
    let word = |list: &[(&str, Word)], project: &[(&str, Word)]| {
        let rules = Rules {
            default: Fallback {
                word: Word::Deny,
                source: "policy.default".into(),
            },
            project: rules(project).list,
            ..rules(list)
        };
        explain(&wish(CALL), &rules, &Grants::default(), 0).word
    };
    use Word::{Allow, Ask, Deny};
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
    use Word::{Allow, Ask, Deny};
    let decided = |list: &[(&str, Word)], operation, sensitivity| {
        let intent = Intent {
            operation,
            sensitivity,
            reason: None,
        };
        let wish = Wish {
            intent: Some(&intent),
            ..wish(CALL)
        };
        explain(&wish, &rules(list), &Grants::default(), 0).word
    };
    use Operation::{Destructive, Read, Write};
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
    assert_eq!(decided(&asks, Write, Some(Sensitivity::Private)), Ask);
    assert_eq!(decided(&asks, Write, Some(Sensitivity::Public)), Allow);
    let unknown = [("fs.*", Allow), ("sensitivity:unknown", Deny)];
    assert_eq!(decided(&unknown, Write, Some(Sensitivity::Public)), Deny);
    let public = [("sensitivity:public", Allow)];
    assert_eq!(decided(&public, Write, Some(Sensitivity::Public)), Ask);
}

#[test]
fn the_explanation_names_the_deciding_rule_and_why_others_are_inactive() {
    let mut grants = Grants::default();
    say(CALL, Consent::Tool, &mut grants);
    say(READ, Consent::Reads, &mut grants);
    let list = [
        ("fs.*", Word::Allow),
        ("git.*", Word::Deny),
        ("fs.write", Word::Ask),
        ("op:read", Word::Allow),
        ("sensitivity:private", Word::Deny),
    ];
    let told = explain(&wish(CALL), &rules(&list), &grants, GRANT_MS + 1000);
    assert_eq!(
        (told.word, &*told.by),
        (Word::Ask, "policy.rules.\"fs.write\"")
    );
    assert_eq!(told.operation, Operation::Write);
    let lines: Vec<String> = told
        .considered
        .iter()
        .map(|c| format!("{}: {:?}", c.what, c.standing))
        .collect();
    assert_eq!(
        lines,
        [
            "sensitivity:private: Idle(\"the caller does not declare this sensitivity\")",
            "fs.write: Decides",
            "fs.*: Overruled",
            "op:read: Idle(\"the call counts as write\")",
            "fs.write: Idle(\"it has expired\")",
            "the reads of fs: Idle(\"it has expired\")",
            "default: Overruled",
        ]
    );
}

#[test]
fn tool_rules_do_not_apply_to_actions_of_aish() {
    let own = Subject::Own(Own::FsWrite);
    let tool = Subject::Tool("fs".into(), "write".into());
    assert_eq!(Subject::parse("fs.write"), Ok(own));
    assert_eq!(Subject::of_tools("fs.write"), Some(tool));
    for none in ["shell", "op:read", "fs", ".x", "fs.", "*.x", "fs.get_*"] {
        assert_eq!(Subject::of_tools(none), None, "{none}");
    }
}

#[test]
fn rules_do_not_apply_to_built_in_reads_and_apply_to_everything_else() {
    let builtin = Wish {
        annotations: READS,
        trusted: true,
        configured: false,
        ..Wish::new(Call {
            server: "aish",
            identity: BUILTIN_IDENTITY,
            ..READ
        })
    };
    let mut strict = rules(&[("op:read", Word::Deny), ("aish.*", Word::Ask)]);
    strict.default.word = Word::Deny;
    let allowed = |request: &Wish<'_>| {
        matches!(
            decide(request, &strict, &Grants::default(), 0),
            Decision::Allow(_, rule) if rule == BUILTIN_RULE
        )
    };
    assert!(allowed(&builtin));
    let declared_write = Intent {
        operation: Operation::Write,
        sensitivity: None,
        reason: None,
    };
    for other in [
        Wish {
            call: READ,
            ..builtin
        },
        Wish {
            annotations: Annotations::default(),
            ..builtin
        },
        Wish {
            trusted: false,
            ..builtin
        },
        Wish {
            intent: Some(&declared_write),
            ..builtin
        },
    ] {
        assert!(!allowed(&other), "{other:?}");
    }
}
