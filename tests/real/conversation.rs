//! A conversation with tools in a real zsh: a server of the configuration and one that is connected while it
//! lasts, calls that are confirmed, allowed by a rule and denied, and what is known of them later.

use std::path::Path;
use std::time::{Duration, Instant};

use super::node::{everything_http, files};
use crate::fakes::provider::{Provider, Script};
use crate::support::PATIENCE;
use crate::support::helper::Helper;
use crate::support::home::helper as program;
use crate::support::pty::Zsh;

/// The end of a question.
const KEYS: &str = "[?]";

/// Asks, and answers the question that comes with a key; `sure` is then on the screen.
fn asked(zsh: &mut Zsh<'_>, words: &str, key: &str, sure: &str) {
    zsh.send(format!("clear; llm {words}\r"));
    zsh.wait_text(KEYS);
    // Keys are thrown away for a moment after the question has come.
    let deadline = Instant::now() + PATIENCE;
    while !zsh.screen().contains(sure) {
        assert!(
            Instant::now() < deadline,
            "{key} is never taken: {}",
            zsh.screen()
        );
        std::thread::sleep(Duration::from_millis(300));
        if !zsh.screen().contains(&format!("{KEYS} [?] {sure}")) {
            zsh.send(key);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    zsh.prompt();
}

/// Waits until no server is starting, and says how they are.
fn settled(helper: &Helper) -> String {
    let list = || helper.call(["mcp", "list"]).run().ok();
    helper.until("the servers have started", || !list().contains("starting"));
    list()
}

/// A config with the files of `dir`, and one tool of it that needs no question.
fn configure(helper: &Helper, dir: &Path, more: &str) {
    let server = files(dir);
    let words = server.target();
    let mut words = words.split(' ').map(|w| format!("{w:?}"));
    let command = words.next().expect("a command");
    let args: Vec<_> = words.collect();
    helper.config(&format!(
        "[mcp.servers.fs]\ncommand = {command}\nargs = [{}]\n\
         [mcp.auto_approve]\n\"fs.list_directory\" = true\n{more}",
        args.join(", ")
    ));
}

/// The text of every message of a request, a line each, and what its calls were.
fn context(helper: &Helper, request: usize) -> String {
    let requests = helper.provider.requests();
    let messages = requests[request].json["messages"].as_array();
    let lines: Vec<_> = messages
        .expect("messages")
        .iter()
        .map(|m| format!("{} {} {}", m["role"], m["content"], m["tool_calls"]))
        .collect();
    lines.join("\n")
}

#[test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
fn tools_are_used_from_the_first_question_to_another_day() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("its real path");
    let at = |name: &str| dir.join(name).to_str().expect("text").to_owned();
    let write = |name: &str, text: &str| {
        serde_json::json!({ "path": at(name), "content": text }).to_string()
    };
    let (_process, everything) = everything_http();
    let (milk, bread) = (
        write("milk.txt", "two pints"),
        write("bread.txt", "one loaf"),
    );
    let list = serde_json::json!({ "path": &dir }).to_string();
    let provider = Provider::start([
        Script::calls("I write it down.", &[("w1", "fs.write_file", &milk)]),
        Script::tokens(["Noted: milk."]),
        Script::calls("", &[("s1", "all.get-sum", "{\"a\":2,\"b\":40}")]),
        Script::tokens(["It is forty-two."]),
        Script::calls("", &[("l1", "fs.list_directory", &list)]),
        Script::tokens(["There is milk."]),
        Script::calls("", &[("w2", "fs.write_file", &bread)]),
        Script::tokens(["Then no bread."]),
        Script::tokens(["Two pints, as I wrote."]),
        Script::tokens(["Yes, I remember the milk."]),
    ]);
    let helper = Helper::with(provider);
    configure(&helper, &dir, "");
    let mut zsh = Zsh::start(&helper.home);

    let said = zsh.eval(&format!("llm :mcp connect {} all", everything.target()));
    assert!(said.starts_with("all is connected: "), "{said}");
    settled(&helper);
    let said = zsh.eval("llm :mcp list");
    let ready = |alias: &str| {
        let mut lines = said.lines();
        lines.any(|l| l.trim_start().starts_with(alias) && l.contains("ready"))
    };
    assert!(ready("fs") && ready("all"), "{said}");
    let said = zsh.eval("llm :mcp tools fs");
    assert!(said.contains("fs.write_file"), "{said}");
    assert!(!said.contains("all."), "{said}");
    let said = zsh.eval("llm :mcp tool fs.write_file");
    assert!(said.contains("content") && said.contains("path"), "{said}");

    asked(&mut zsh, "write down: milk, two pints", "y", "Noted: milk.");
    assert_eq!(
        std::fs::read_to_string(at("milk.txt")).expect("written"),
        "two pints"
    );
    // The tools of the server, shown whole before the call, have moved it off the screen.
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(raw.contains("I write it down."), "{raw}");

    asked(&mut zsh, "what is two and forty", "y", "It is forty-two.");
    assert!(context(&helper, 3).contains("The sum of 2 and 40 is 42."));

    zsh.run("clear; llm what is there");
    let screen = zsh.screen();
    assert!(screen.contains("There is milk."), "{screen}");
    assert!(screen.contains("allowed by"), "{screen}");
    assert!(!screen.contains(KEYS), "{screen}");
    assert!(context(&helper, 5).contains("milk.txt"));

    asked(&mut zsh, "and bread", "n", "Then no bread.");
    assert!(!Path::new(&at("bread.txt")).exists());
    let told = context(&helper, 7);
    let last = told.lines().last().expect("a message").to_owned();
    assert!(
        last.starts_with("\"tool\"") && last.contains("denied"),
        "{last}"
    );

    zsh.run("clear; llm how much milk");
    assert!(
        zsh.screen().contains("Two pints, as I wrote."),
        "{}",
        zsh.screen()
    );
    let before = context(&helper, 8);
    assert!(
        before.contains("two pints") && before.contains("Successfully wrote"),
        "{before}"
    );

    // Another day: another daemon, another shell.
    zsh.exit();
    helper.call(["stop"]).run().ok();
    let mut zsh = Zsh::start(&helper.home);
    settled(&helper);
    zsh.run("clear; llm -c do you remember the milk");
    assert!(zsh.screen().contains("Yes, I remember"), "{}", zsh.screen());
    let after = context(&helper, 9);
    // Up to the last answer it is what was sent then.
    assert!(after.starts_with(&before), "{before}\n---\n{after}");
}

/// The tiny model calls no tools: it was never taught to. What it can do is talk on in a conversation that
/// has used some, with tools on offer.
#[test]
#[ignore = "needs the model; ./test.sh runs it with AISH_TEST_MODELS and AISH_TEST_TOOLS"]
fn the_tiny_model_goes_on_where_tools_were_used() {
    let models = std::env::var("AISH_TEST_MODELS").expect("AISH_TEST_MODELS names a directory");
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("its real path");
    let note = dir.join("note.txt");
    std::fs::write(&note, "The capital of France is Paris.").expect("a file");
    let read = serde_json::json!({ "path": note }).to_string();
    let provider = Provider::start([
        Script::calls("", &[("r1", "fs.read_text_file", &read)]),
        Script::tokens(["It is about France."]),
    ]);
    let helper = Helper::with(provider);
    let installed = std::process::Command::new(program())
        .args(["model", "install", "smollm2"])
        .env("AISH_HOME", &models)
        .output()
        .expect("the helper runs");
    assert!(installed.status.success(), "{installed:?}");
    let config = std::fs::read_to_string(Path::new(&models).join("config/config.toml"));
    let config = config.expect("its config");
    let (_, tiny) = config.split_once("[models.smollm2]").expect("its lines");
    configure(&helper, &dir, &format!("[models.smollm2]{tiny}"));

    let mut zsh = Zsh::start(&helper.home);
    settled(&helper);
    asked(
        &mut zsh,
        "what is the note about",
        "y",
        "It is about France.",
    );
    let said = zsh.eval("llm -m smollm2 What is the capital of France; print -r -- code $?");
    assert!(
        said.contains("Paris") && said.ends_with("code 0\n"),
        "{said}"
    );
    let answers = helper.records_of("assistant");
    assert_eq!(answers.last().expect("an answer")["model"], "smollm2");
}
