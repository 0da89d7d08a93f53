use super::*;

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
fn everything_is_asked_unless_a_rule_allows_it() {
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
fn a_rule_allows_nothing_to_a_server_that_the_configuration_does_not_have() {
    let wish = Wish {
        configured: false,
        ..wish(CALL)
    };
    let rules = rules(&[("fs.*", Word::Allow)]);
    let decision = decide(&wish, &rules, &Grants::default(), 0);
    assert_eq!(decision, Decision::Ask("policy.default".into()));
}

#[test]
fn a_grant_holds_for_its_tool_or_for_the_reads_that_the_server_had() {
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
fn a_tool_that_has_changed_was_not_allowed() {
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
fn arguments_have_one_text_or_none() {
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
fn an_approval_covers_the_exact_call_for_a_while() {
    let mint = || say(CALL, Consent::Once, &mut Grants::default());
    assert!(mint().covers(&CALL, 1000 + LIFE_MS - 1));
    assert!(!mint().covers(&CALL, 1000 + LIFE_MS));
    let other = Call {
        arguments: "{ }",
        ..CALL
    };
    assert!(!mint().covers(&other, 1000));
    assert_eq!(mint().digest().len(), 64);
}

#[test]
fn a_dot_in_a_name_makes_no_two_calls_one() {
    let split = |server, tool| Call {
        server,
        tool,
        identity: "",
        arguments: "{}",
    };
    assert_ne!(split("fs", "x.y").digest(), split("fs.x", "y").digest());
    assert_ne!(split("fs", "x{}").digest(), split("fs", "x").digest());
}
