//! Python helpers and the tool `python`: a real daemon, a scripted model, a real python3 in the sandbox.

use std::time::Duration;

use aish::paths::Paths;
use aish::protocol::Event;
use aish::protocol::tools::{ApprovalRequest, ApprovalVerdict};
use aish::python::WorkerLimits;
use aish::python::registration::{read_candidate, register};
use aish::python::registry::helpers_dir;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Work, answer_all, difference};
use crate::fakes::provider::Script;
use crate::support::helper::Helper;
use crate::tools::{Client, Frame};

const SOURCE: &str = r#"
import os
import socket
import subprocess
import time

__aish__ = {
    "add": {"read_only": True},
    "look": {"read_only": True},
    "dial": {"read_only": True},
    "dial_out": {"read_only": True, "network": True},
}


def add(a: int, b: int) -> int:
    "Adds two numbers."
    print("adding", a, b)
    return a + b


def keep(name: str, text: str) -> str:
    "Writes a file."
    with open(name, "w") as file:
        file.write(text)
    return "written"


def look(name: str) -> str:
    "Reads a file, then tries to write it."
    with open(name) as file:
        text = file.read()
    try:
        with open(name, "w"):
            return "written"
    except OSError as e:
        return f"{text}: {type(e).__name__}"


def _dial() -> str:
    try:
        socket.socket().connect(("127.0.0.1", 9))
    except OSError as e:
        return type(e).__name__
    return "connected"


def dial() -> str:
    "Connects."
    # In a program of its own, which the interpreter of the helper does not watch.
    code = "import socket\ntry: socket.socket().connect(('127.0.0.1', 9))\nexcept OSError as e: print(type(e).__name__)"
    return subprocess.run(["python3", "-c", code], capture_output=True, text=True).stdout


def dial_out() -> str:
    "Connects, which is declared."
    return _dial()


def orphan() -> str:
    "Leaves a process that belongs to nobody, without a mark."
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    os.wait()
    return "left"


def wait_for(name: str) -> str:
    "Waits for a file."
    print("waiting for", name)
    while not os.path.exists(name):
        time.sleep(0.001)
    return "went"


def wait_long(name: str) -> str:
    "Waits."
    with open(name, "w") as file:
        file.write("waiting")
    time.sleep(1000)
    return "done"
"#;

/// Registers the helpers as a person who has seen the file does, and starts with these calls.
fn calling(calls: &[(&str, Value)], more: &str) -> Work {
    started(calls, more, true)
}

/// The same; `goes_on` says whether the model is asked again after the last call.
fn started(calls: &[(&str, Value)], more: &str, goes_on: bool) -> Work {
    let mut script: Vec<Script> = Vec::new();
    for (n, (tool, arguments)) in calls.iter().enumerate() {
        let id = format!("c{n}");
        script.push(Script::calls("", &[(&id, tool, &arguments.to_string())]));
    }
    if goes_on {
        script.push(Script::tokens(["done"]));
    }
    let helper = Helper::new(script);
    add_helpers(&helper, SOURCE);
    Work::with(helper, more)
}

fn paths(helper: &Helper) -> Paths {
    Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap()
}

fn add_helpers(helper: &Helper, source: &str) {
    let paths = paths(helper);
    let file = helper.home.path("sums.py");
    std::fs::write(&file, source).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limits = WorkerLimits::default();
    let cancel = CancellationToken::new();
    let candidate = read_candidate(&paths, &file).unwrap();
    let mut silent = |_: &str| {};
    let registered = register(&paths, candidate, &limits, &cancel, &mut silent);
    runtime.block_on(registered).unwrap();
}

/// Answers the questions in order; returns them.
fn answer(client: &mut Client, verdicts: Vec<ApprovalVerdict>) -> Vec<ApprovalRequest> {
    let mut questions = Vec::new();
    for verdict in verdicts {
        let question = client.question();
        client.say(&question, verdict);
        questions.push(question);
    }
    assert!(client.next_question().is_none());
    questions
}

#[test]
fn a_helper_is_called_after_a_question() {
    let work = calling(&[("helper.add", json!({"a": 2, "b": 3}))], "");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(question.tool.name, "helper.add");
    assert_eq!(question.target, "a Python helper of yours");
    assert_eq!(question.arguments, r#"{"a":2,"b":3}"#);
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.results(), ["5"]);
    let offered = work.offered(0);
    assert!(offered.iter().any(|name| name.contains("python")));
    assert!(offered.iter().any(|name| name.contains("wait_long")));
}

#[test]
fn what_a_helper_prints_is_progress() {
    let rules = "[policy.rules]\n\"helper.*\" = \"allow\"\n";
    let work = calling(&[("helper.wait_for", json!({"name": "go"}))], rules);
    let mut client = work.ask("x");
    let shown = client.until(|frame| match frame {
        Frame::Event(Event::ToolCallProgress { text }) => Some(text.clone()),
        _ => None,
    });
    assert_eq!(shown, "waiting for go");
    work.write("go", "");
    client.end();
    assert_eq!(work.results(), ["went"]);
}

#[test]
fn rules_allow_and_deny_helpers_by_name_and_by_their_annotations() {
    let rules =
        "[policy.rules]\n\"op:read\" = \"allow\"\n\"helper.keep\" = \"deny\"\nnetwork = \"deny\"\n";
    let work = calling(
        &[
            ("helper.add", json!({"a": 1, "b": 1})),
            ("helper.keep", json!({"name": "x", "text": "y"})),
            ("helper.dial_out", json!({})),
        ],
        rules,
    );
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    let results = work.results();
    assert_eq!(results[0], "2");
    assert!(
        results[1].contains("denied by the user's rule"),
        "{results:?}"
    );
    assert!(
        results[2].contains("denied by the user's rule"),
        "{results:?}"
    );
    assert!(!work.path("x").exists());
}

#[test]
fn workers_run_in_the_sandbox() {
    let rules = "[policy.rules]\n\"helper.*\" = \"allow\"\n";
    let work = calling(
        &[
            ("helper.keep", json!({"name": "in.txt", "text": "in"})),
            ("helper.look", json!({"name": "in.txt"})),
            ("helper.keep", json!({"name": "../out.txt", "text": "out"})),
            ("helper.look", json!({"name": "../aish/config/config.toml"})),
            ("helper.dial", json!({})),
            ("helper.dial_out", json!({})),
        ],
        rules,
    );
    work.ask("x").end();
    let results = work.results();
    assert_eq!(work.read("in.txt"), "in");
    // One that only reads cannot write, whatever its file declares.
    assert!(results[1].starts_with("in: "), "{results:?}");
    assert!(
        results[2].starts_with("OSError") || results[2].starts_with("PermissionError"),
        "{results:?}"
    );
    assert!(!work.helper.home.path("out.txt").exists());
    assert!(results[3].contains("Error"), "{results:?}");
    assert!(!results[3].contains("builtin"), "{results:?}");
    assert_ne!(results[4].trim(), "ConnectionRefusedError", "{results:?}");
    assert!(results[4].contains("Error"), "{results:?}");
    assert_eq!(results[5], "ConnectionRefusedError");
}

#[test]
fn code_is_shown_whole_and_its_calls_pass_the_gate() {
    let code = "x = add(1, 2)\ntry:\n    keep('kept.txt', 'no')\nexcept HelperError as e:\n    print('refused:', e)\nx * 10";
    let work = calling(&[("python", json!({"code": code}))], "");
    let mut client = work.ask("x");
    let verdicts = vec![
        ApprovalVerdict::Once,
        ApprovalVerdict::Once,
        ApprovalVerdict::No {
            words: Some("not there".into()),
        },
    ];
    let questions = answer(&mut client, verdicts);
    let shown: Vec<String> = code.split('\n').map(|line| format!(" {line}")).collect();
    assert_eq!(difference(&questions[0])[1..], shown[..]);
    assert_eq!(questions[1].tool.name, "helper.add");
    assert_eq!(questions[2].tool.name, "helper.keep");
    let results = work.results();
    assert!(results[0].contains("refused:"), "{results:?}");
    assert!(results[0].contains("not there"), "{results:?}");
    assert!(results[0].trim_end().ends_with("30"), "{results:?}");
    assert!(!work.path("kept.txt").exists());
}

#[test]
fn code_gets_the_result_of_a_call_whose_arguments_the_user_edited() {
    let work = calling(&[("python", json!({"code": "add(1, 2) + 1"}))], "");
    let mut client = work.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    let nested = client.question();
    let edited = r#"{"a":10,"b":20}"#;
    client.say_of(&nested, ApprovalVerdict::Once, edited);
    while let Some(question) = client.next_question() {
        client.say(&question, ApprovalVerdict::Once);
    }
    let results = work.results();
    assert!(results[0].trim_end().ends_with("31"), "{results:?}");
}

#[test]
fn a_call_that_code_does_not_wait_for_is_recorded() {
    // The code ends as soon as the thread waits for the reply.
    let code = "import sys, threading, time\nthread = threading.Thread(target=lambda: keep('kept.txt', 'x'))\nthread.start()\nwhile sys._current_frames()[thread.ident].f_code.co_name != 'read':\n    time.sleep(0.001)";
    let work = calling(&[("python", json!({"code": code}))], "");
    let mut client = work.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    let nested = client.question();
    assert_eq!(nested.tool.name, "helper.keep");
    client.say(&nested, ApprovalVerdict::Once);
    client.end();
    let records = work.helper.records();
    let of_keep = |r: &&Value| r["type"] == "tool" && r["name"] == "helper.keep";
    assert_eq!(records.iter().filter(of_keep).count(), 1, "{records:#?}");
}

#[test]
fn a_rule_about_the_network_allows_no_helper_that_writes() {
    let source = SOURCE.replace(
        "\"dial\": {\"read_only\": True},",
        "\"keep\": {\"network\": True},",
    );
    let call = json!({"name": "kept.txt", "text": "x"}).to_string();
    let script = [
        Script::calls("", &[("c", "helper.keep", &call)]),
        Script::tokens(["done"]),
    ];
    let helper = Helper::new(script);
    add_helpers(&helper, &source);
    let work = Work::with(helper, "[policy.rules]\nnetwork = \"allow\"\n");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(question.why, "it uses the network and may change files");
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.read("kept.txt"), "x");
}

#[test]
fn stopping_at_a_nested_question_stops_the_turn() {
    let code = "try:\n    add(1, 2)\nexcept BaseException:\n    pass\nadd(3, 4)";
    let work = started(&[("python", json!({"code": code}))], "", false);
    let mut client = work.ask("x");
    let first = client.question();
    client.say(&first, ApprovalVerdict::Once);
    let nested = client.question();
    assert_eq!(nested.tool.name, "helper.add");
    client.say(&nested, ApprovalVerdict::Stop);
    assert!(client.next_question().is_none());
    assert_eq!(work.helper.provider.requests().len(), 1);
}

#[test]
fn ctrl_c_ends_a_helper() {
    let rules = "[policy.rules]\n\"helper.*\" = \"allow\"\n";
    let work = started(
        &[("helper.wait_long", json!({"name": "begun"}))],
        rules,
        false,
    );
    let mut client = work.ask("x");
    work.helper
        .until("the helper runs", || work.path("begun").exists());
    assert!(work.helper.workers() > 0);
    let since = std::time::Instant::now();
    client.cancel();
    assert!(client.next_question().is_none());
    work.helper
        .until("no worker is left", || work.helper.workers() == 0);
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn workers_end_with_the_daemon() {
    let rules = "[policy.rules]\n\"helper.*\" = \"allow\"\n";
    let work = calling(&[("helper.add", json!({"a": 1, "b": 1}))], rules);
    work.ask("x").end();
    assert!(work.helper.workers() > 0);
    work.helper.call(["stop"]).run().ok();
    work.helper
        .until("no worker is left", || work.helper.workers() == 0);
}

#[test]
fn a_changed_helper_file_is_not_offered() {
    let work = calling(&[("helper.add", json!({"a": 1, "b": 1}))], "");
    let file = helpers_dir(&paths(&work.helper)).join("sums.py");
    std::fs::write(&file, format!("{SOURCE}\n# changed\n")).unwrap();
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    assert!(
        work.results()[0].contains("no tool"),
        "{:?}",
        work.results()
    );
    let offered = work.offered(0);
    assert!(
        !offered.iter().any(|name| name.contains("add")),
        "{offered:?}"
    );
    assert!(!offered.iter().any(|name| name == "python"), "{offered:?}");
}

#[test]
fn what_a_helper_leaves_and_changes_is_told() {
    let rules = "[policy.rules]\n\"helper.*\" = \"allow\"\n\"aish.python\" = \"allow\"\n";
    let settings = json!({"name": ".envrc", "text": "evil"});
    let calls = [
        ("helper.orphan", json!({})),
        ("helper.keep", settings),
        ("helper.add", json!({"a": 1, "b": 2})),
        ("python", json!({"code": "keep('.exrc', 'x') == 'written'"})),
    ];
    let work = calling(&calls, rules);
    work.ask("x").end();
    let results = work.results();
    // Code gets the value alone.
    assert_eq!(results[3], "True");
    let envrc = work.path(".envrc");
    let changed = format!("the command changed {}, which", envrc.display());
    assert!(
        results[0].contains("the helper left a process running"),
        "{results:?}"
    );
    assert!(results[1].contains(&changed), "{results:?}");
    assert!(!results[2].contains("changed"), "{results:?}");
}

#[test]
fn a_block_of_code_in_an_answer_is_a_call() {
    let answer = "I add them.\n```python\nprint(add(20, 22))\n```\n";
    let other = "This is how:\n```python\nprint(1)\n```\n";
    let helper = Helper::new([Script::tokens([answer]), Script::tokens([other])]);
    add_helpers(&helper, SOURCE);
    let work = Work::with(helper, "[policy.rules]\n\"helper.add\" = \"allow\"\n");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(question.tool.name, "python");
    assert!(
        question.arguments.contains("print(add(20, 22))"),
        "{}",
        question.arguments
    );
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert!(work.results()[0].contains("42"), "{:?}", work.results());
    let messages = &work.helper.provider.requests()[1].json["messages"];
    let assistant = messages.as_array().unwrap().iter().rev().nth(1).unwrap();
    assert_eq!(assistant["content"], answer);
    assert_eq!(assistant["tool_calls"][0]["function"]["name"], "python");
}
