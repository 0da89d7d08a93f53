//! Selections of tools: `--tools`, `default_tools` and `[toolsets]` narrow what is offered, and allow nothing.

use aish::protocol::tools::ApprovalVerdict;
use aish::protocol::{AskRequest, Event};

use super::Tools;
use super::rounds::ALL;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;

const TOOLSETS: &str = "[toolsets]\nreading = [\"fs.rea*\"]\nnothing = [\"tracker\"]\n";

fn with(selection: &str) -> AskRequest {
    AskRequest {
        shell: Some(shell_id("s1")),
        text: "go".into(),
        tools: Some(selection.into()),
        ..AskRequest::default()
    }
}

fn offered(tools: &Tools, request: usize) -> Vec<String> {
    let requests = tools.helper.provider.requests();
    let mut names = requests[request].tool_names();
    names.retain(|name| *name != "read_result");
    names.iter().map(ToString::to_string).collect()
}

fn always_ok() -> Tools {
    let provider = Provider::answering(|_| Script::tokens(["ok"]));
    Tools::with(Helper::with(provider), &format!("{TOOLSETS}{ALL}"))
}

#[test]
fn only_selected_tools_are_offered_and_callable() {
    let calls = [("a", "fs.write", "{}"), ("b", "fs.read", "{}")];
    let tools = Tools::new(
        [Script::calls("", &calls), Script::tokens(["Done."])],
        &format!("{TOOLSETS}{ALL}"),
    );
    tools.ask_as(with("@reading")).end();
    assert_eq!(offered(&tools, 0), ["fs.read"]);
    assert_eq!(offered(&tools, 1), ["fs.read"], "the same in every round");
    let called = tools.called();
    let called: Vec<&str> = called.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(called, ["read"], "a rule allows both, one is offered");
    let results = tools.results_in_request(1);
    assert!(results[0].contains("fs.write"), "{}", results[0]);
}

#[test]
fn selection_of_the_request_replaces_the_one_of_the_configuration() {
    let tools = always_ok();
    let path = tools.helper.path("config/config.toml");
    let text = std::fs::read_to_string(&path).expect("a configuration");
    std::fs::write(&path, format!("default_tools = \"@reading\"\n{text}")).expect("written");
    let both = vec!["fs.read".to_owned(), "fs.write".to_owned()];
    let cases = [
        (None, vec!["fs.read".to_owned()]),
        (Some("all"), both.clone()),
        (Some("fs"), both),
        (Some("fs.write"), vec!["fs.write".to_owned()]),
        (Some("none"), Vec::new()),
    ];
    for (n, (selection, expected)) in cases.into_iter().enumerate() {
        let ask = AskRequest {
            tools: selection.map(str::to_owned),
            ..with("")
        };
        tools.ask_as(ask).end();
        assert_eq!(offered(&tools, n), expected, "{selection:?}");
    }
}

#[test]
fn selection_allows_nothing() {
    let calls = [("a", "fs.write", "{}"), ("b", "fs.read", "{}")];
    let tools = Tools::new(
        [Script::calls("", &calls), Script::tokens(["Done."])],
        "[policy.rules]\n\"fs.write\" = \"deny\"\n[toolsets]\nall_of_it = [\"*\"]\n",
    );
    let mut client = tools.ask_as(with("@all_of_it"));
    let question = client.question();
    assert_eq!(question.tool.name, "fs.read");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn wrong_and_empty_selections_are_named() {
    let tools = Tools::new([Script::tokens(["ok"])], &format!("{TOOLSETS}{ALL}"));
    let message = tools.ask_as(with("@raeding")).failure();
    assert!(
        message.contains("raeding") && message.contains("reading"),
        "{message}"
    );
    let message = tools.ask_as(with("fs.read write")).failure();
    assert!(message.contains("not a selection of tools"), "{message}");
    assert_eq!(tools.helper.provider.requests().len(), 0);

    let seen = tools.ask_as(with("@nothing")).end();
    let notices = seen.events(|event| match event {
        Event::Notice { text } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(
        notices,
        ["no tool matches the selection; the model gets none"]
    );
    assert_eq!(offered(&tools, 0), [] as [String; 0]);
}

#[test]
fn names_that_nothing_has_are_told_with_the_nearest() {
    let tools = always_ok();
    let notices = |selection: &str| {
        let seen = tools.ask_as(with(selection)).end();
        seen.events(|event| match event {
            Event::Notice { text } => Some(text.clone()),
            _ => None,
        })
    };
    for (selection, expected) in [
        (
            "fs,shel",
            Some("shel, which does not exist; did you mean shell?"),
        ),
        (
            "fs.read,fs.wirte",
            Some("fs.wirte, which does not exist; did you mean fs.write?"),
        ),
        (
            "fs,read_file",
            Some("read_file, which does not exist; did you mean aish.read_file?"),
        ),
        (
            "fs,aish.grepp",
            Some("aish.grepp, which does not exist; did you mean aish.grep?"),
        ),
        (
            "fs,shell,git,web,python,helper.*,aish.shell,shell.output",
            None,
        ),
        ("@reading,fs.*,x*", None),
    ] {
        let told = notices(selection);
        let told: Vec<&String> = told
            .iter()
            .filter(|text| text.contains("does not exist"))
            .collect();
        match expected {
            Some(expected) => assert!(told.len() == 1 && told[0].ends_with(expected), "{told:?}"),
            None => assert!(told.is_empty(), "{selection}: {told:?}"),
        }
    }
}

#[test]
fn option_reaches_the_daemon() {
    let tools = always_ok();
    for (n, (option, expected)) in [
        (vec!["--tools", "@reading"], vec!["fs.read"]),
        (vec!["--tools=none"], vec![]),
        (vec!["--no-tools"], vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        let words = ["ask"].into_iter().chain(option).chain(["--", "go"]);
        let words: Vec<&str> = words.collect();
        tools.helper.call(&words).run().ok();
        assert_eq!(offered(&tools, n), expected, "{words:?}");
    }
    let wrong = tools.helper.call(["ask", "--tools", "@x", "--", "go"]);
    let message = wrong.run().fails(2);
    assert!(
        message.contains("no toolset named \"x\"") && message.contains("@nothing, @reading"),
        "{message}"
    );
}
