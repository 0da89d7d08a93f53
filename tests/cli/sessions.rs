//! Sessions: which one a prompt belongs to, and that a restart keeps it.

use serde_json::{Value, json};

use crate::cli::prompt::half;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, records};

/// A provider with numbered answers.
fn counting() -> Helper {
    let mut n = 0;
    Helper::with(Provider::answering(move |_| {
        n += 1;
        Script::tokens([format!("answer {n}")])
    }))
}

impl Helper {
    fn ask_in(&self, shell: &str, options: &[&str], words: &str) -> String {
        let call = self.call(["ask", "--shell", shell]).args(options);
        call.args(["--", words]).run().ok()
    }

    /// The messages of the last request without the instructions.
    fn last_talk(&self) -> Vec<String> {
        let last = self.provider.requests().len() - 1;
        let messages = self.messages(last).into_iter().skip(1);
        messages.map(|(_, content)| content).collect()
    }

    fn ids(&self) -> Vec<String> {
        let id = |p: &std::path::PathBuf| p.file_stem().unwrap().to_string_lossy().into_owned();
        self.sessions().iter().map(id).collect()
    }
}

#[test]
fn each_shell_has_its_own_session() {
    let helper = counting();
    helper.ask_in("a", &[], "one");
    helper.ask_in("b", &[], "two");
    helper.ask_in("a", &[], "three");
    assert_eq!(helper.last_talk(), ["one", "answer 1", "three"]);
    helper.ask_in("b", &[], "four");
    assert_eq!(helper.last_talk(), ["two", "answer 2", "four"]);
    // Without a shell each prompt has its own session.
    helper.call(["ask", "five"]).run().ok();
    assert_eq!(helper.last_talk(), ["five"]);
    assert_eq!(helper.sessions().len(), 3);
}

#[test]
fn a_session_is_started_continued_and_attached() {
    let helper = counting();
    helper.ask_in("a", &[], "one");
    helper.ask_in("a", &["--new"], "two");
    assert_eq!(helper.last_talk(), ["two"]);
    helper.ask_in("a", &[], "three");
    assert_eq!(helper.last_talk(), ["two", "answer 2", "three"]);

    let [first, _] = &helper.ids()[..] else {
        panic!("two sessions")
    };
    let part = &first[first.len() - 8..];
    helper.ask_in("b", &["--attach", part], "four");
    assert_eq!(helper.last_talk(), ["one", "answer 1", "four"]);
    // From now on it is the shell's own session, and the one last used.
    helper.ask_in("b", &[], "five");
    assert_eq!(helper.last_talk().len(), 5);
    helper.ask_in("c", &["-c"], "six");
    assert_eq!(helper.last_talk().len(), 7);
    helper.ask_in("c", &["--continue"], "seven");
    assert_eq!(helper.last_talk().len(), 9);
    let attached = helper.records_of("attached");
    let shells: Vec<&Value> = attached.iter().map(|r| &r["shell"]).collect();
    assert_eq!(shells, ["b", "c"]);
}

#[test]
fn an_unknown_session_is_a_usage_error() {
    let helper = counting();
    let error = helper.call(["ask", "-c", "x"]).run().fails(2);
    assert!(error.contains("no session to continue"), "{error}");
    helper.ask_in("a", &[], "one");
    helper.ask_in("b", &[], "two");
    let call = helper.call(["ask", "--attach", "zzz", "x"]);
    let error = call.run().fails(2);
    assert!(
        error.contains("zzz") && error.contains("session list"),
        "{error}"
    );
    // The version digit, which every id contains.
    let call = helper.call(["ask", "--attach", "7", "x"]);
    let error = call.run().fails(2);
    assert!(error.contains("several sessions"), "{error}");
    assert_eq!(helper.sessions().len(), 2);
}

/// A session with every kind of record, with the daemon ended by `end` in between.
fn session_across(end: impl Fn(&Helper)) {
    let helper = Helper::new([
        Script::tokens(["# Hé 👩‍💻\n\n", "CMD: ls -l\n", "\ttail  \n\n"]),
        half("never"),
        Script::status(400, r#"{"error":{"message":"no"}}"#),
        Script::tokens(["third"]),
        Script::tokens(["fourth"]),
        Script::tokens(["fifth"]),
    ]);
    let ask = ["ask", "--shell", "s1", "--", "it's\t\"odd\" \u{1b}[31m\\"];
    helper
        .call(ask)
        .stdin("attached\n\u{0}".trim_end_matches('\0'))
        .run()
        .ok();
    let second = helper.call(["ask", "--shell", "s1", "second"]).start();
    second.stdout.wait_text("half ");
    second.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(second.finish().code, 130);
    helper
        .call(["ask", "--shell", "s1", "fails"])
        .run()
        .fails(1);
    helper.ask("fourth prompt");
    let before = helper.messages(3);
    let file = &helper.sessions()[0];
    let journal = std::fs::read(file).unwrap();

    end(&helper);

    helper.ask("fifth prompt");
    assert!(std::fs::read(file).unwrap().starts_with(&journal));
    let after = helper.messages(4);
    assert_eq!(
        after[..before.len()],
        before,
        "the start of the context is unchanged"
    );
    let rest: Vec<&str> = after[before.len()..].iter().map(|m| &*m.1).collect();
    assert_eq!(rest, ["third", "fifth prompt"]);
    end(&helper);
    helper.ask("sixth prompt");
    assert_eq!(helper.messages(5)[..after.len()], after);
    assert_eq!(helper.sessions().len(), 1);
}

#[test]
fn a_restart_rebuilds_the_same_context() {
    session_across(|helper| {
        let old = helper.daemon();
        let output = helper.call(["restart"]).run().ok();
        assert_eq!(output, "the daemon has restarted\n");
        assert_ne!(helper.daemon(), old);
    });
}

#[test]
fn a_kill_rebuilds_the_same_context() {
    session_across(Helper::kill_daemon);
}

#[test]
fn sessions_are_listed_shown_and_started_for_scripts() {
    let helper = counting();
    let list = |args: &[&str]| {
        helper
            .call(["session", "list", "--json"])
            .args(args)
            .run()
            .json()
    };
    assert_eq!(list(&[]), json!([]));
    helper.ask_in("a", &[], "first\u{1b}[31m prompt");
    helper.ask_in("b", &[], "other");
    helper.ask_in("a", &[], "second");
    let sessions = list(&[]);
    let ids = helper.ids();
    assert_eq!(sessions[0]["id"], ids[0]);
    assert_eq!(sessions[0]["prompts"], 2);
    assert_eq!(sessions[0]["title"], "first\u{1b}[31m prompt");
    assert_eq!(sessions[1]["id"], ids[1]);
    assert_eq!(list(&["--limit", "1"]).as_array().unwrap().len(), 1);

    let show = |args: &[&str]| helper.call(["session", "show"]).args(args).run().ok();
    let lines: Vec<Value> = show(&["--json", &ids[0]])
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(lines, records(&helper.sessions()[0]));
    assert_eq!(show(&["--json", "--shell", "b"]).lines().count(), 3);
    assert_eq!(show(&["--json", "--limit", "1"]).lines().count(), 1);
    let text = show(&[]);
    assert!(text.contains("> second\nanswer 3\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert!(
        !helper
            .call(["session", "list"])
            .run()
            .ok()
            .contains('\u{1b}')
    );
    helper.call(["session", "show", "zzz"]).run().fails(2);
    helper
        .call(["session", "show", "--shell", "z"])
        .run()
        .fails(2);

    let call = helper.call(["session", "new", "--shell", "a", "--json"]);
    let new = call.run().json();
    helper.ask_in("a", &[], "third");
    assert_eq!(helper.last_talk(), ["third"]);
    assert_eq!(list(&[])[0]["id"], new["id"]);
    helper
        .call(["session", "new", "--shell", "a/b"])
        .run()
        .fails(2);
}

#[test]
fn a_session_that_cannot_be_read_does_not_hide_the_others() {
    let helper = counting();
    helper.ask_in("a", &[], "first");
    let file = &helper.sessions()[0];
    let other = file.with_file_name("01a20683-cc11-7325-a7a0-5985878f8caa.jsonl");
    std::os::unix::fs::symlink("/nothing", &other).unwrap();
    let sessions = helper.call(["session", "list", "--json"]).run().json();
    let of = |field: &str, text: &str| {
        let sessions = sessions.as_array().unwrap().iter();
        let found = sessions.filter(|s| s[field].as_str().is_some_and(|s| s.contains(text)));
        found.count()
    };
    let fault = "is a symbolic link";
    assert_eq!([of("title", "first"), of("excerpt", fault)], [1, 1]);
    let id = other.file_stem().unwrap().to_str().unwrap();
    let show = helper.call(["session", "show", id]).run();
    assert!(show.fails(1).contains(fault));
}

#[test]
fn a_shell_may_choose_its_model() {
    let helper = counting();
    let more = format!(
        "[models.other]\nbase_url = \"{}\"\nmodel = \"other-1\"\n",
        helper.provider.base_url()
    );
    helper.config(&more);
    let model = || helper.provider.requests().last().unwrap().json["model"].clone();
    let call = helper.call(["model", "use", "other", "--shell", "a", "--json"]);
    assert_eq!(call.run().json(), json!({"model": "other"}));
    helper.ask_in("a", &[], "x");
    assert_eq!(model(), "other-1");
    helper.ask_in("b", &[], "x");
    assert_eq!(model(), "fake-1");
    helper.ask_in("a", &["-m", "fake"], "x");
    assert_eq!(model(), "fake-1");
    helper.kill_daemon();
    helper.ask_in("a", &[], "x");
    assert_eq!(model(), "other-1");

    let call = helper.call(["model", "list", "--json", "--shell", "a"]);
    let list = call.run().json();
    let current = |name: &str| {
        let models = list.as_array().unwrap();
        models.iter().find(|m| m["name"] == name).unwrap()["current"] == true
    };
    assert!(current("other") && !current("fake"), "{list}");
    let call = helper.call(["model", "use", "othr", "--shell", "a"]);
    let error = call.run().fails(3);
    assert!(error.contains("did you mean other?"), "{error}");
    // For all shells: the running daemon reads the changed configuration.
    helper.call(["model", "use", "other"]).run().ok();
    helper.ask_in("b", &[], "x");
    assert_eq!(model(), "other-1");
}

#[test]
fn a_model_change_does_not_wait_for_a_running_answer() {
    let helper = Helper::new([half("on"), Script::tokens(["ok"])]);
    let mut ask = helper.call(["ask", "--shell", "s1", "x"]).start();
    ask.stdout.wait_text("half ");
    let call = helper.call(["model", "use", "fake", "--shell", "s1"]);
    call.run().ok();
    assert!(ask.runs());
    assert_eq!(helper.records_of("model").len(), 1);
    helper.provider.open("on");
    assert_eq!(ask.finish().ok(), "half whole\n");
    // A record written during a turn does not separate question and answer.
    helper.ask_in("s1", &[], "y");
    let roles: Vec<String> = helper.messages(1).into_iter().map(|m| m.0).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
}

#[test]
fn two_prompts_of_one_shell_wait_for_each_other() {
    let helper = Helper::new([half("on"), Script::tokens(["second"])]);
    let first = helper.call(["ask", "--shell", "s1", "first"]).start();
    first.stdout.wait_text("half ");
    let second = helper.call(["ask", "--shell", "s1", "second"]).start();
    second
        .stderr
        .wait_text("waiting for the answer to “first”; Ctrl-C stops waiting");
    // A waiting prompt can be cancelled.
    let third = helper.call(["ask", "--shell", "s1", "third"]).start();
    third
        .stderr
        .wait_text("waiting for the answer to “first”; Ctrl-C stops waiting");
    third.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(third.finish().code, 130);
    helper.provider.open("on");
    assert_eq!(first.finish().ok(), "half whole\n");
    assert_eq!(second.finish().ok(), "second\n");
    assert_eq!(helper.last_talk(), ["first", "half whole", "second"]);
    let types: Vec<String> = helper
        .records()
        .iter()
        .map(|r| r["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["session", "user", "assistant", "user", "assistant"]);
}
