//! Conversations with real tools in a real zsh: a configured server and a manually connected one; calls that are approved,
//! allowed by a rule, or denied; and the context of later prompts.

use std::path::Path;

use super::node::{everything_http, files};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::helper as program;
use crate::support::pty::Zsh;

/// End of a question.
const KEYS: &str = "[?]";

/// Sends a prompt and answers its question with a key, after which `shown` is on the screen.
fn prompt_and_answer(zsh: &mut Zsh<'_>, words: &str, key: &str, shown: &str) {
    zsh.send(format!("clear; llm {words}\r"));
    zsh.wait_text(KEYS);
    zsh.answer(key, |screen| screen.contents().contains(shown));
    zsh.prompt();
}

/// Waits until no server is starting and returns the list of servers.
fn settled(helper: &Helper) -> String {
    let list = || helper.call(["mcp", "list"]).run().ok();
    helper.until("the servers have started", || !list().contains("starting"));
    list()
}

/// Writes a config with a filesystem server for `dir`, one tool of which is allowed by a rule.
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

/// Messages of a request, one line each, with their tool calls.
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
fn tools_are_used_in_a_conversation_and_remembered_after_a_restart() {
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

    let output = zsh.eval(&format!("llm :mcp connect {} all", everything.target()));
    assert!(output.starts_with("all is connected: "), "{output}");
    settled(&helper);
    let output = zsh.eval("llm :mcp list");
    let ready = |alias: &str| {
        let mut lines = output.lines();
        lines.any(|l| l.trim_start().starts_with(alias) && l.contains("ready"))
    };
    assert!(ready("fs") && ready("all"), "{output}");
    let output = zsh.eval("llm :mcp tools fs");
    assert!(output.contains("fs.write_file"), "{output}");
    assert!(!output.contains("all."), "{output}");
    let output = zsh.eval("llm :mcp tool fs.write_file");
    assert!(
        output.contains("content") && output.contains("path"),
        "{output}"
    );

    prompt_and_answer(&mut zsh, "write down: milk, two pints", "y", "Noted: milk.");
    assert_eq!(
        std::fs::read_to_string(at("milk.txt")).expect("written"),
        "two pints"
    );
    // The list of the server's tools, shown before the call, has scrolled it off the screen.
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(raw.contains("I write it down."), "{raw}");

    prompt_and_answer(&mut zsh, "what is two and forty", "y", "It is forty-two.");
    assert!(context(&helper, 3).contains("The sum of 2 and 40 is 42."));

    zsh.run("clear; llm what is there");
    let screen = zsh.screen();
    assert!(screen.contains("There is milk."), "{screen}");
    assert!(screen.contains("allowed by"), "{screen}");
    assert!(!screen.contains(KEYS), "{screen}");
    assert!(context(&helper, 5).contains("milk.txt"));

    prompt_and_answer(&mut zsh, "and bread", "n", "Then no bread.");
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

    // A new daemon and a new shell.
    zsh.exit();
    helper.call(["stop"]).run().ok();
    let mut zsh = Zsh::start(&helper.home);
    settled(&helper);
    zsh.run("clear; llm -c do you remember the milk");
    assert!(zsh.screen().contains("Yes, I remember"), "{}", zsh.screen());
    let after = context(&helper, 9);
    // Identical to the earlier request up to its last answer.
    assert!(after.starts_with(&before), "{before}\n---\n{after}");
}

/// The tiny model was not trained to call tools. It must still be able to continue a conversation with tool calls.
#[test]
#[ignore = "needs the model; ./test.sh runs it with AISH_TEST_MODELS and AISH_TEST_TOOLS"]
fn tiny_model_continues_a_conversation_with_tool_calls() {
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
    prompt_and_answer(
        &mut zsh,
        "what is the note about",
        "y",
        "It is about France.",
    );
    let output = zsh.eval("llm -m smollm2 \"What is the capital of France\"; print -r -- code $?");
    // A tiny model may repeat an earlier answer in place of a right one.
    assert!(
        output.contains("France") && output.ends_with("code 0\n"),
        "{output}"
    );
    let answers = helper.records_of("assistant");
    assert_eq!(answers.last().expect("an answer")["model"], "smollm2");
}
