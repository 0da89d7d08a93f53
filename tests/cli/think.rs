//! The model's reasoning: shown on request, otherwise only how long it takes.

use serde_json::Value;

use crate::fakes::provider::anthropic::{self, Block};
use crate::fakes::provider::{Part, Provider, Script, finish_event};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const BLOCKS: &[Block<'static>] = &[
    Block::Thinking("First I look\nat \u{1b}[31mall files."),
    Block::Text("Fine."),
];

fn helper(provider: Provider) -> Helper {
    let helper = Helper::with(provider);
    helper.config("provider = \"anthropic\"\n");
    helper
}

fn answering() -> Helper {
    let answer = |request: &_| anthropic::answer(request, BLOCKS, "end_turn");
    helper(Provider::answering(answer))
}

#[test]
fn reasoning_is_shown_on_request_on_stderr() {
    let helper = answering();
    let run = helper.call(["ask", "--think", "x"]).run();
    assert!(
        run.stderr
            .starts_with("│ First I look\n│ at ‹\\x1b›[31mall files.\n└ thought for "),
        "{run:?}"
    );
    assert_eq!(run.ok(), "Fine.\n");
    let thinking = &helper.provider.requests()[0].json["thinking"];
    assert_eq!(thinking["type"], "adaptive");

    let run = helper.call(["ask", "x"]).run();
    assert!(!run.stderr.contains("First"), "{run:?}");
    assert!(helper.provider.requests()[1].json.get("thinking").is_none());
    let run = helper.call(["ask", "--json", "x"]).run();
    let lines = run.ok();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let reasoning = events.filter(|event| event["type"] == "reasoning");
    let text: String = reasoning
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(text, "First I look\nat \u{1b}[31mall files.");
}

#[test]
fn a_model_that_refuses_it_answers_without() {
    let mut n = 0;
    let helper = helper(Provider::answering(move |request| {
        n += 1;
        match n {
            1 => Script::status(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"adaptive thinking is not supported on this model"}}"#,
            ),
            _ => anthropic::answer(request, BLOCKS, "end_turn"),
        }
    }));
    let run = helper.call(["ask", "--think", "x"]).run();
    assert!(
        run.stderr.contains("refuses the request for reasoning"),
        "{run:?}"
    );
    assert_eq!(run.ok(), "Fine.\n");
    assert!(helper.provider.requests()[1].json.get("thinking").is_none());
}

#[test]
fn the_spinner_says_how_long_the_model_thinks() {
    let helper = helper(Provider::answering(|request| {
        let events = anthropic::events(request, BLOCKS, "end_turn");
        let text = events
            .iter()
            .position(|event| event.contains("text_delta"))
            .unwrap();
        let part = |event: &String| Part::from(event.as_str());
        let (before, after) = events.split_at(text);
        Script::events(
            before
                .iter()
                .map(part)
                .chain([Part::Gate("text")])
                .chain(after.iter().map(part)),
        )
    }));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm x\r");
    zsh.wait_text(" thinking 0 s");
    zsh.wait_text(" thinking 1 s");
    helper.provider.open("text");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("Fine.") && !screen.contains("thinking"),
        "{screen}"
    );
    zsh.run("llm --think y");
    let screen = zsh.screen();
    assert!(
        screen.contains("│ First I look\n│ at ‹\\x1b›[31mall files.\n└ thought for 0."),
        "{screen}"
    );
}

#[test]
fn the_spinner_moves_while_reasoning_arrives() {
    const DELTA: &str =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"so \"}}]}\n\n";
    let gates: Vec<&'static str> = (0..200)
        .map(|n| &*Box::leak(format!("delta {n}").into_boxed_str()))
        .collect();
    let parts = gates
        .iter()
        .flat_map(|gate| [Part::Gate(gate), DELTA.into()]);
    let end = [finish_event("stop"), "data: [DONE]\n\n".into()];
    let end = end.iter().map(|event| Part::from(event.as_str()));
    let helper = Helper::new([Script::events(parts.chain(end).collect::<Vec<_>>())]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm x\r");
    // One after the other without a pause in which the spinner would show itself.
    let shown = gates.iter().any(|gate| {
        helper.provider.wait_gate(gate);
        helper.provider.open(gate);
        // The pace of a model, faster than the spinner's own.
        std::thread::sleep(std::time::Duration::from_millis(30));
        zsh.screen().contains(" thinking 0 s")
    });
    gates.iter().for_each(|gate| helper.provider.open(gate));
    zsh.prompt();
    assert!(shown);
}
