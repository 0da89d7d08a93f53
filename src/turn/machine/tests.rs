use super::*;
use crate::safety::budget::TokenRates;

fn turn() -> TurnMachine {
    TurnMachine::new(TurnSettings {
        session: "s".into(),
        model_name: "tiny".into(),
        model: "tiny-1".into(),
        price: Some(ModelPrice::flat(TokenRates {
            input: 1.0,
            output: 2.0,
            ..TokenRates::default()
        })),
        provider: None,
        show_cost: ShownCost::OnTerminal,
        depth: 2,
        code_helpers: Vec::new(),
    })
}

fn text(s: &str) -> TurnInput {
    TurnInput::Chunk(StreamItem::Text(s.into()))
}

#[test]
fn an_answer_is_shown_recorded_and_replied_to() {
    let mut turn = turn();
    assert!(
        matches!(&turn.handle(text("Hi\nCMD: l"), 1)[..], [TurnEffect::Text(t)] if t == "Hi\n")
    );
    assert!(
        matches!(&turn.handle(text("s\n"), 2)[..], [TurnEffect::Event(TurnEvent::Proposal(command))] if command == "ls")
    );
    let usage = TokenUsage {
        prompt_tokens: 1_000_000,
        completion_tokens: 500_000,
        ..TokenUsage::default()
    };
    assert!(
        turn.handle(TurnInput::Chunk(StreamItem::Usage(usage)), 3)
            .is_empty()
    );
    let effects = turn.handle(TurnInput::Ended(Ok(FinishReason::Stop)), 1500);
    let [
        TurnEffect::Record(record),
        TurnEffect::Reply(answer, proposals),
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let RecordBody::Assistant { text, finish, .. } = &**record else {
        panic!("{record:?}")
    };
    assert_eq!((text.as_str(), finish.as_str()), ("Hi\nCMD: ls\n", "stop"));
    assert_eq!(proposals, &["ls"]);
    assert_eq!(
        (answer.cost, answer.seconds, answer.proposals),
        (Some(2.0), 1.5, 1)
    );
}

#[test]
fn an_interrupted_answer_is_kept_and_offers_no_half_command() {
    let mut turn = turn();
    turn.handle(text("ok\nCMD: rm -rf /"), 1);
    let effects = turn.handle(
        TurnInput::Ended(Err(Error::new(ErrorKind::Interrupted, "stopped"))),
        9,
    );
    let [
        TurnEffect::Text(rest),
        TurnEffect::Record(record),
        TurnEffect::Reply(answer, proposals),
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let RecordBody::Assistant { text, finish, .. } = &**record else {
        panic!("{record:?}")
    };
    assert_eq!(rest, "CMD: rm -rf /");
    assert_eq!(
        (text.as_str(), finish.as_str()),
        ("ok\nCMD: rm -rf /", "interrupted")
    );
    assert!(proposals.is_empty());
    assert_eq!(answer.finish, FinishReason::Interrupted);
}

#[test]
fn a_failure_is_recorded_before_it_is_told() {
    let mut turn = turn();
    turn.handle(text("half"), 1);
    let effects = turn.handle(TurnInput::Ended(Err(Error::runtime("cut off"))), 9);
    let [TurnEffect::Record(record), TurnEffect::Fail(e)] = &effects[..] else {
        panic!("{effects:?}")
    };
    let RecordBody::Assistant { error, finish, .. } = &**record else {
        panic!("{record:?}")
    };
    assert_eq!(
        (error.as_deref(), finish.as_str()),
        (Some("cut off"), "error")
    );
    assert_eq!(e.message, "cut off");
}

fn call(id: &str, arguments: &str) -> TurnInput {
    TurnInput::Chunk(StreamItem::Call(ToolCall {
        id: id.into(),
        name: format!("fs.{id}"),
        arguments: arguments.into(),
        extra: None,
    }))
}

/// A turn whose model has made these calls, with the effects of the end of its answer.
fn calling(
    turn: &mut TurnMachine,
    calls: &[(&str, &str)],
    finish: FinishReason,
) -> Vec<TurnEffect> {
    for (id, arguments) in calls {
        assert!(turn.handle(call(id, arguments), 1).is_empty());
    }
    turn.handle(TurnInput::Ended(Ok(finish)), 2)
}

fn used(turn: &mut TurnMachine, outcomes: Vec<(&str, CallEnd)>) -> Vec<TurnEffect> {
    let used = |(id, outcome): (&str, CallEnd)| CallOutcome {
        id: id.to_string(),
        outcome,
        ms: 5,
        account: CallSummary::default(),
    };
    turn.handle(
        TurnInput::CallsEnded(outcomes.into_iter().map(used).collect()),
        10,
    )
}

fn said(text: &str) -> CallEnd {
    CallEnd::Said {
        text: text.into(),
        is_error: false,
        told: Vec::new(),
        images: Vec::new(),
        bytes: text.len() as u64,
        digest: String::new(),
        edited: None,
        files: Vec::new(),
    }
}

/// Each effect in a few words.
fn words(effects: &[TurnEffect]) -> Vec<String> {
    let word = |effect: &TurnEffect| match effect {
        TurnEffect::Text(text) => format!("text {text:?}"),
        TurnEffect::Reasoning(text) => format!("reasoning {text:?}"),
        TurnEffect::Event(TurnEvent::Notice(text)) => format!("notice {text}"),
        TurnEffect::Event(event) => format!("{event:?}"),
        TurnEffect::Record(record) => match &**record {
            RecordBody::Assistant { calls, finish, .. } => {
                format!("answer {} {}", finish.as_str(), calls.len())
            }
            RecordBody::Tool {
                call, status, text, ..
            } => format!("result {call} {} {text}", status.as_str()),
            body => format!("{body:?}"),
        },
        TurnEffect::Use(calls) => {
            let calls = calls.iter().map(|c| format!(" {}{}", c.id, c.arguments));
            format!("use{}", calls.collect::<String>())
        }
        TurnEffect::Again => "again".to_string(),
        TurnEffect::Reply(answer, _) => format!("reply {}", answer.finish.as_str()),
        TurnEffect::Fail(e) => format!("fail {}", e.message),
    };
    effects.iter().map(word).collect()
}

#[test]
fn calls_are_recorded_made_and_answered_before_the_model_is_asked_again() {
    let mut turn = turn();
    turn.handle(text("Let me look."), 1);
    let effects = calling(
        &mut turn,
        &[("a", " {\"x\" : 1}"), ("b", "")],
        FinishReason::Stop,
    );
    assert_eq!(
        words(&effects),
        ["answer stop 2", "text \"\\n\"", "use a{\"x\":1} b{}"]
    );
    let TurnEffect::Record(record) = &effects[0] else {
        panic!("{effects:?}")
    };
    let RecordBody::Assistant { calls, text, .. } = &**record else {
        panic!("{record:?}")
    };
    assert_eq!(text, "Let me look.");
    assert_eq!(calls[0].arguments, " {\"x\" : 1}", "as it came");
    assert_eq!(
        words(&used(&mut turn, vec![("a", said("one"))])),
        ["result a success one"]
    );
    assert_eq!(
        words(&used(&mut turn, vec![("b", said("two"))])),
        ["result b success two", "again"]
    );
    turn.handle(self::text("Done."), 11);
    let end = turn.handle(TurnInput::Ended(Ok(FinishReason::Stop)), 12);
    assert_eq!(words(&end), ["answer stop 0", "reply stop"]);
}

#[test]
fn arguments_that_are_no_object_are_never_run_and_the_model_is_told() {
    let broken = [
        "{\"x\":",
        "[1]",
        "null",
        "\"{}\"",
        "{} and more",
        "rm -rf /",
    ];
    for arguments in broken {
        let mut turn = turn();
        let calls = [("a", "{}"), ("b", arguments), ("c", "{}")];
        let effects = calling(&mut turn, &calls, FinishReason::Stop);
        assert_eq!(
            words(&effects),
            [
                "answer stop 3",
                "notice mcp: fs.b: not called: the arguments are not a JSON object",
                "use a{} c{}"
            ]
        );
        let skipped =
            "result b invalid_call [not called: the arguments are not one whole JSON object]";
        // In the order of the calls, also where it was known before.
        assert_eq!(
            words(&used(&mut turn, vec![("a", said("A"))])),
            ["result a success A", skipped]
        );
        assert_eq!(
            words(&used(&mut turn, vec![("c", said("C"))])),
            ["result c success C", "again"]
        );
        // Alone it is answered immediately, and the model may try again.
        let effects = calling(&mut turn, &[("b", arguments)], FinishReason::Stop);
        assert_eq!(words(&effects)[2..], [skipped, "again"]);
    }
}

#[test]
fn an_answer_that_was_cut_off_runs_no_call_without_arguments() {
    for finish in [FinishReason::Length, FinishReason::ContentFilter] {
        let effects = calling(&mut turn(), &[("a", "{}"), ("b", "")], finish);
        let words = words(&effects);
        assert_eq!(words.last().unwrap(), "use a{}");
        assert!(words.iter().any(|w| w.starts_with("notice mcp: fs.b:")));
    }
}

#[test]
fn an_answer_that_broke_off_has_made_no_calls() {
    for (kind, end) in [
        (
            ErrorKind::Interrupted,
            ["answer interrupted 0", "reply interrupted"],
        ),
        (ErrorKind::Runtime, ["answer error 0", "fail gone"]),
    ] {
        let mut turn = turn();
        turn.handle(call("a", "{}"), 1);
        let effects = turn.handle(TurnInput::Ended(Err(Error::new(kind, "gone"))), 2);
        assert_eq!(words(&effects), end);
    }
}

#[test]
fn what_became_of_a_call_is_told_to_the_model_and_to_the_person() {
    let error = CallEnd::Said {
        text: "no such file".into(),
        is_error: true,
        told: Vec::new(),
        images: Vec::new(),
        bytes: 12,
        digest: String::new(),
        edited: None,
        files: Vec::new(),
    };
    let edited = CallEnd::Said {
        text: "ok".into(),
        is_error: false,
        told: Vec::new(),
        images: vec![crate::chat::ImageContent {
            mime: "image/png".into(),
            data: "AA==".into(),
        }],
        bytes: 2,
        digest: String::new(),
        edited: Some("{\"x\":2}".into()),
        files: Vec::new(),
    };
    let table: Vec<(CallEnd, &str, &str)> = vec![
        (error, "tool_error no such file", ""),
        (
            edited,
            "success [the user changed the arguments to {\"x\":2}]\nok",
            "",
        ),
        (CallEnd::Denied(None), "denied [denied by the user]", ""),
        (
            CallEnd::Denied(Some("use /tmp".into())),
            "denied [denied by the user] use /tmp",
            "",
        ),
        (
            CallEnd::NoTerminal("op:write".into()),
            "blocked [denied: there is no terminal to ask on]",
            "",
        ),
        (
            CallEnd::NoSuchTool,
            "invalid_call [not called: there is no tool named fs.a]",
            "the model asked for the tool fs.a, which does not exist",
        ),
        (
            CallEnd::Failed("-32603: boom\u{1b}[2J".into()),
            "call_failed [no result: the call failed]",
            "mcp: fs.a: -32603: boom\u{1b}[2J",
        ),
        (
            CallEnd::Unrecorded("disk full".into()),
            "blocked [no result: the approval could not be recorded]",
            "mcp: fs.a: not called: the approval could not be recorded: disk full",
        ),
    ];
    for (outcome, result, notice) in table {
        let mut turn = turn();
        calling(&mut turn, &[("a", "{}"), ("b", "{}")], FinishReason::Stop);
        let mut effects = used(&mut turn, vec![("a", outcome), ("b", said("B"))]);
        assert!(matches!(effects.pop(), Some(TurnEffect::Again)), "{result}");
        let mut expected = vec![format!("result a {result}"), "result b success B".into()];
        if !notice.is_empty() {
            expected.insert(0, format!("notice {notice}"));
        }
        assert_eq!(words(&effects), expected);
    }
}

#[test]
fn when_no_call_has_a_result_the_turn_ends_and_the_person_decides() {
    let mut turn = turn();
    turn.handle(text("CMD: ls\n"), 1);
    calling(&mut turn, &[("a", "{}"), ("b", "{}")], FinishReason::Stop);
    let failed = || CallEnd::Failed("timeout".into());
    assert_eq!(
        words(&used(&mut turn, vec![("a", failed())])),
        [
            "notice mcp: fs.a: timeout",
            "result a call_failed [no result: the call failed]"
        ]
    );
    let effects = used(&mut turn, vec![("b", failed())]);
    assert_eq!(
        words(&effects)[2..],
        [
            "notice no tool call returned a result; the turn ends here",
            "reply stop"
        ]
    );
    let Some(TurnEffect::Reply(answer, proposals)) = effects.last() else {
        panic!("{effects:?}")
    };
    assert_eq!(
        (answer.proposals, &proposals[..]),
        (1, &["ls".to_string()][..])
    );
}

#[test]
fn a_stop_leaves_every_call_with_one_result() {
    for (outcome, first) in [
        (CallEnd::Stopped, "denied [denied by the user]"),
        (CallEnd::Interrupted, "interrupted [no result: interrupted]"),
    ] {
        let mut turn = turn();
        let calls = [("a", "{}"), ("b", "{}"), ("c", "{"), ("d", "{}")];
        calling(&mut turn, &calls, FinishReason::Stop);
        used(&mut turn, vec![("a", said("A"))]);
        let effects = used(&mut turn, vec![("b", outcome)]);
        assert_eq!(
            words(&effects),
            [
                &format!("result b {first}"),
                "result c invalid_call [not called: the arguments are not one whole JSON object]",
                "result d interrupted [no result: interrupted]",
                "reply interrupted"
            ]
        );
    }
    // Of those that ran concurrently, one that was done before keeps its result.
    let mut turn = turn();
    calling(&mut turn, &[("a", "{}"), ("b", "{}")], FinishReason::Stop);
    let both = vec![("a", CallEnd::Interrupted), ("b", said("B"))];
    assert_eq!(
        words(&used(&mut turn, both)),
        [
            "result a interrupted [no result: interrupted]",
            "result b success B",
            "reply interrupted"
        ]
    );
}

#[test]
fn the_depth_is_counted_in_rounds_of_calls() {
    let mut turn = turn();
    for _ in 0..2 {
        let effects = calling(&mut turn, &[("a", "{}"), ("b", "{}")], FinishReason::Stop);
        assert!(matches!(effects.last(), Some(TurnEffect::Use(_))));
        used(&mut turn, vec![("a", said("A")), ("b", said("B"))]);
    }
    let effects = calling(&mut turn, &[("a", "{}"), ("b", "{")], FinishReason::Stop);
    let unmade = "invalid_call [no result: the tool-call depth limit was reached]";
    assert_eq!(
        words(&effects),
        [
            "answer stop 2",
            &format!("result a {unmade}"),
            &format!("result b {unmade}"),
            "notice tool-call depth limit reached",
            "reply stop"
        ]
    );
}

#[test]
fn calls_of_one_id_have_a_result_each_and_unknown_ones_none() {
    let mut turn = turn();
    calling(&mut turn, &[("a", "{}"), ("a", "{}")], FinishReason::Stop);
    assert_eq!(
        words(&used(&mut turn, vec![("x", said("?")), ("a", said("1"))])),
        ["result a success 1"]
    );
    assert_eq!(
        words(&used(&mut turn, vec![("a", said("2"))])),
        ["result a success 2", "again"]
    );
}

#[test]
fn tokens_and_cost_are_summed_over_the_rounds_and_commands_collected() {
    let mut turn = turn();
    let usage = |prompt_tokens, completion_tokens| {
        TurnInput::Chunk(StreamItem::Usage(TokenUsage {
            prompt_tokens,
            completion_tokens,
            ..TokenUsage::default()
        }))
    };
    turn.handle(text("CMD: one"), 1);
    turn.handle(usage(1_000_000, 0), 2);
    let effects = calling(&mut turn, &[("a", "{}")], FinishReason::Stop);
    assert!(
        !words(&effects).contains(&"text \"\\n\"".to_string()),
        "the line has ended"
    );
    used(&mut turn, vec![("a", said("A"))]);
    turn.handle(text("CMD: two\n"), 11);
    turn.handle(usage(2_000_000, 1_000_000), 12);
    let effects = turn.handle(TurnInput::Ended(Ok(FinishReason::Stop)), 2500);
    let [
        TurnEffect::Record(record),
        TurnEffect::Reply(answer, proposals),
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let RecordBody::Assistant {
        prompt_tokens, ms, ..
    } = &**record
    else {
        panic!("{record:?}")
    };
    assert_eq!((*prompt_tokens, *ms), (Some(2_000_000), 2490));
    assert_eq!(proposals, &["one", "two"]);
    assert_eq!(answer.prompt_tokens, Some(3_000_000));
    assert_eq!((answer.cost, answer.seconds), (Some(5.0), 2.5));
}

#[test]
fn a_command_may_go_on_behind_a_pause() {
    let mut turn = turn();
    turn.handle(text("Hi\nCMD: l"), 1);
    let effects = turn.handle(TurnInput::Ended(Ok(FinishReason::Paused)), 2);
    let [TurnEffect::Record(_), TurnEffect::Again] = &effects[..] else {
        panic!("{effects:?}")
    };
    turn.handle(text("s\n"), 3);
    let effects = turn.handle(TurnInput::Ended(Ok(FinishReason::Stop)), 4);
    let Some(TurnEffect::Reply(_, proposals)) = effects.last() else {
        panic!("{effects:?}")
    };
    assert_eq!(proposals, &["ls"]);
}
