//! From the command that a person types to the command that runs: every record names its cause.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, records};
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;
use crate::tools::Tools;
use crate::tools_prompt::KEYS;

/// A prompt typed in a real zsh, whose answers make a call and propose a command, both of which are allowed; and the
/// command that was typed, as the hooks have told of it.
pub fn call_and_command() -> (Tools, Value) {
    let queue = [
        Script::calls("", &[("c1", "fs.write", "{\"to\":\"x\"}")]),
        Script::tokens(["Now this.\n", "CMD: print made-$((6*7))\n"]),
    ];
    let tools = Tools::new(queue, "");
    let helper = &tools.helper;
    helper.home.zshrc(&source_plugin());
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("clear; llm write it\r");
    zsh.wait_text(KEYS);
    zsh.press_until("y", "[q] quit ");
    zsh.press_until("y", "made-42");
    zsh.prompt();
    let shells = helper.path("data/journal/shells.jsonl");
    let of_hooks = || -> Option<Value> {
        let text = std::fs::read_to_string(&shells).unwrap_or_default();
        // A line may be half written at this moment.
        let whole = text.ends_with('\n').then(|| records(&shells));
        whole?
            .into_iter()
            .find(|r| r["command"] == "clear; llm write it")
    };
    helper.until("the hooks have told of the command", || {
        of_hooks().is_some()
    });
    let command = of_hooks().expect("the command");
    zsh.exit();
    (tools, command)
}

#[test]
fn command_prompt_turn_call_and_exec_are_one_chain() {
    let (tools, command) = call_and_command();
    let helper = &tools.helper;
    let all = helper.records();
    let of = |kind: &str| -> Vec<&Value> { all.iter().filter(|r| r["type"] == kind).collect() };
    let [user] = of("user")[..] else {
        panic!("{all:#?}")
    };
    let [asks, proposes] = of("assistant")[..] else {
        panic!("{all:#?}")
    };
    let [approval] = of("approval")[..] else {
        panic!("{all:#?}")
    };
    let [tool] = of("tool")[..] else {
        panic!("{all:#?}")
    };
    let [decision] = of("command_approval")[..] else {
        panic!("{all:#?}")
    };
    let [exec] = of("command_result")[..] else {
        panic!("{all:#?}")
    };
    let chain = [user, asks, approval, tool, proposes, decision, exec];

    // The command that was typed: the hooks report it when it has ended, and name it alike.
    let shell = text(&command, "shell");
    let typed = format!("{shell}@{}", command["start_ms"]);
    assert_eq!(text(&command, "ids.command"), typed);
    let same = |field: &str| {
        let found: BTreeSet<&str> = chain.iter().map(|r| text(r, field)).collect();
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        found.into_iter().next().expect("one")
    };
    assert_eq!(same("ids.command"), typed);
    assert_eq!(same("ids.shell"), shell);
    assert_eq!(same("ids.user"), text(&command, "ids.user"));
    assert_eq!(Some(same("ids.session")), command["session"].as_str());
    assert_eq!(same("ids.session"), text(&all[0], "session"));
    same("ids.prompt");
    // A turn is a request to the model, with its answer, calls and proposals.
    assert!(user["ids"].get("turn").is_none(), "{user:#}");
    for (turn, of_turn) in [(asks, [approval, tool]), (proposes, [decision, exec])] {
        for record in of_turn {
            assert_eq!(text(record, "ids.turn"), text(turn, "ids.turn"));
        }
    }
    assert_ne!(text(asks, "ids.turn"), text(proposes, "ids.turn"));
    // One request for the prompt, and one for each word about a command.
    let requests = chain.map(|r| text(r, "ids.request"));
    assert_eq!(BTreeSet::from(requests).len(), 3);
    assert_eq!(BTreeSet::from_iter(&requests[..5]).len(), 1);
    // Call and exec by their names.
    let call = text(&asks["calls"][0], "id");
    assert_eq!((text(approval, "call"), text(tool, "call")), (call, call));
    assert_eq!(text(decision, "token"), text(exec, "token"));
    assert_eq!(text(decision, "choice"), "run");
    assert_eq!(text(exec, "command"), "print made-$((6*7))");
    assert_eq!(exec["exit"], 0);
    assert!(
        exec["duration_ms"].as_u64().is_some_and(|ms| ms < 60_000),
        "{exec:#}"
    );
    // Ids are UUIDv7 and in the order of the file.
    let ids: Vec<&str> = all.iter().map(|r| text(r, "id")).collect();
    assert!(ids.is_sorted(), "{ids:#?}");
    assert_eq!(BTreeSet::from_iter(&ids).len(), ids.len());
    assert!(
        ids.iter()
            .all(|id| id.len() == 36 && id.as_bytes()[14] == b'7')
    );
}

/// Shows an action, and returns the types of its chain with their texts.
fn chain(helper: &Helper, id: &str) -> Vec<(String, String)> {
    let shown = helper.call(["activity", "show", id, "--json"]).run().json();
    let chain = shown["chain"].as_array().expect("a chain");
    let entries = chain
        .iter()
        .map(|entry| (text(entry, "type"), text(entry, "what")));
    entries
        .filter(|(kind, _)| !matches!(*kind, "session" | "server" | "model"))
        .map(|(kind, what)| (kind.to_owned(), what.to_owned()))
        .collect()
}

#[test]
fn a_command_and_the_prompts_that_took_its_output_are_one_chain() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message")["content"].to_string();
        Script::tokens([match last.contains("why") {
            true => "Because.\nCMD: print fixed\n",
            false => "Hello.\n",
        }])
    });
    let helper = Helper::with(provider);
    helper.config("[shell]\nconfirm_cmd = false\n");
    helper.home.zshrc(&source_plugin());
    let mut zsh = Zsh::record(&helper.home);
    zsh.run("llm hello");
    let fails = "sh -c 'echo one; echo two; exit 3'";
    zsh.run(fails);
    zsh.run("llm why did that fail");
    zsh.run("print other");
    zsh.run("llm something else");
    let shells = helper.path("data/journal/shells.jsonl");
    let of_shell = |line: &str| {
        let text = std::fs::read_to_string(&shells).unwrap_or_default();
        let whole = text.ends_with('\n').then(|| records(&shells));
        let found = whole?.into_iter().find(|r| r["command"] == line);
        found.map(|record| record["id"].as_str().expect("an id").to_owned())
    };
    helper.until("the hooks have told of the commands", || {
        of_shell("llm something else").is_some()
    });
    let id = |kind: &str| -> Vec<String> {
        let all = helper.records_of(kind).into_iter();
        all.map(|r| r["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let prompts = id("user");
    let expected = [
        ("shell_command", fails),
        ("shell_command", "llm why did that fail"),
        ("prompt", "why did that fail"),
        ("answer", "Because.\nCMD: print fixed\n"),
        ("command_approval", "run: print fixed"),
        ("command_result", "print fixed"),
    ]
    .map(|(kind, what)| (kind.to_owned(), what.trim().to_owned()));
    let trimmed = |id: &str| -> Vec<(String, String)> {
        let chain = chain(&helper, id).into_iter();
        chain
            .map(|(kind, what)| (kind, what.trim().to_owned()))
            .collect()
    };
    let command = of_shell(fails).expect("the command");
    for from in [&command, &prompts[1], &id("command_result")[0]] {
        assert_eq!(trimmed(from), expected);
    }
    // Where the output came from.
    let shown = helper.call(["activity", "show", &command]).run().ok();
    let prompt = &prompts[1][prompts[1].len() - 8..];
    assert!(
        shown.contains(&format!(
            "2 lines from recording were sent with prompt {prompt}"
        )),
        "{shown}"
    );
    // Others have no part in it.
    let other = of_shell("print other").expect("the command");
    assert_eq!(
        trimmed(&other),
        [("shell_command".to_owned(), "print other".to_owned())]
    );
    assert!(
        trimmed(&prompts[0])
            .iter()
            .all(|(_, what)| !what.contains("fail"))
    );
    zsh.exit();
}

#[test]
fn an_output_without_a_line_end_is_told_without_the_mark_of_zsh() {
    let helper = Helper::saying("hello");
    helper.home.zshrc(&source_plugin());
    let mut zsh = Zsh::record(&helper.home);
    zsh.run("aish-helper start");
    zsh.run("setopt prompt_cr prompt_sp");
    zsh.run("sh -c 'echo first; printf op''en; exit 3'");
    let told: Value = serde_json::from_str(&zsh.eval("aish-helper output --json")).expect("JSON");
    assert_eq!(told["source"], "recording", "{told}");
    assert_eq!(told["output"], "first\nopen\n", "{told}");
    // The mark was there: a percent sign, or a hash sign for root.
    let screen = zsh.screen();
    assert!(
        screen.contains("open%") || screen.contains("open#"),
        "{screen}"
    );
    zsh.exit();
}
