//! `llm :compact`: the older part of a session is replaced by a summary in what is sent, and stays in the journal.

use crate::fakes::provider::{Part, Provider, Request, Script, finish_event, text_event};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const SUMMARY: &str = "The user likes blue. CMD: is no command here.";

/// Answers requests for a summary with [`SUMMARY`], others with `ok`.
fn answer(request: &Request) -> Script {
    match is_summary(request) {
        true => Script::tokens([SUMMARY]),
        false => Script::tokens(["ok"]),
    }
}

fn is_summary(request: &Request) -> bool {
    let system = request.json["messages"][0]["content"].as_str();
    system.is_some_and(|text| text.starts_with("You summarize the older part"))
}

fn ask(helper: &Helper, words: &str) -> String {
    let run = helper.call(["ask", "--shell", "s1", "--", words]).run();
    let notices = run.stderr.clone();
    run.ok();
    notices
}

const COMPACT: [&str; 4] = ["session", "compact", "--shell", "s1"];

/// Returns role and text of the messages of the last request, without the instructions.
fn last_messages(helper: &Helper) -> Vec<(String, String)> {
    helper.messages(helper.provider.requests().len() - 1)[1..].to_vec()
}

#[test]
fn a_summary_is_sent_in_place_of_the_older_part() {
    let helper = Helper::with(Provider::answering(answer));
    for words in ["I like blue", "two", "three", "four"] {
        ask(&helper, words);
    }
    let run = helper.call(COMPACT).run();
    assert!(run.stderr.contains("in place of 2 prompts"), "{run:?}");
    assert_eq!(run.ok(), format!("{SUMMARY}\n"));
    // It is no part of the last answer.
    for command in [&["session", "last"][..], &["attach"]] {
        let shown = helper
            .call([command, &["--shell", "s1"]].concat())
            .run()
            .ok();
        assert_eq!(shown, "ok\n", "{command:?}");
    }
    let request = last_messages(&helper);
    assert_eq!(request.len(), 1);
    assert!(
        request[0].1.contains("[user]\nI like blue\n"),
        "{request:?}"
    );
    assert!(!request[0].1.contains("three"), "{request:?}");
    let requests = helper.provider.requests();
    assert!(requests.last().expect("a request").json["tools"].is_null());

    ask(&helper, "five");
    let sent = last_messages(&helper);
    let roles: Vec<&str> = sent.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant"].repeat(4)[..7]);
    assert!(sent[0].1.contains("The user likes blue"), "{sent:?}");
    assert_eq!(
        (&*sent[2].1, &*sent[4].1, &*sent[6].1),
        ("three", "four", "five")
    );
    // The journal keeps both, and a new daemon sends the same.
    assert_eq!(helper.records_of("user").len(), 5);
    assert_eq!(helper.records_of("compaction").len(), 1);
    helper.kill_daemon();
    ask(&helper, "six");
    let resumed = last_messages(&helper);
    assert_eq!(resumed[..7], sent);
    assert_eq!(resumed.len(), 9);
    let shown = helper.call(["session", "show"]).run().ok();
    assert!(
        shown.contains("[summary of 2 prompts]\nThe user likes blue"),
        "{shown}"
    );
    // The words of a summary are not a proposal.
    assert!(helper.records_of("command_approval").is_empty());
}

#[test]
fn a_summary_that_fails_changes_nothing() {
    let mut summaries = 0;
    let cut = move |request: &Request| match is_summary(request) {
        true if summaries == 0 => {
            summaries += 1;
            Script::events([&*text_event("half"), &*finish_event("length")])
        }
        true => Script::calls("I look at the files.", &[("c1", "shell", "{}")]),
        false => Script::tokens(["ok"]),
    };
    let helper = Helper::with(Provider::answering(cut));
    ask(&helper, "one");
    for why in ["length", "in a tool call"] {
        let error = helper.call(COMPACT).run().fails(1);
        let message = format!("({why}); the session is unchanged");
        assert!(error.contains(&message), "{error}");
    }
    ask(&helper, "two");
    let sent: Vec<String> = last_messages(&helper)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(sent, ["one", "ok", "two"]);
}

#[test]
fn a_daemon_killed_during_the_summary_leaves_the_conversation() {
    let held = |request: &Request| match is_summary(request) {
        true => Script::events([Part::from(&*text_event("half")), Part::Gate("hold")]),
        false => Script::tokens(["ok"]),
    };
    let helper = Helper::with(Provider::answering(held));
    ask(&helper, "one");
    let running = helper.call(COMPACT).start();
    running.stdout.wait_text("half");
    helper.kill_daemon();
    running.finish().fails(1);
    ask(&helper, "two");
    let sent: Vec<String> = last_messages(&helper)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(sent, ["one", "ok", "two"]);
}

#[test]
fn without_prompts_there_is_nothing_to_summarize() {
    let helper = Helper::with(Provider::answering(answer));
    let error = helper.call(COMPACT).run().fails(2);
    assert!(error.contains("no session to summarize"), "{error}");
    assert!(helper.sessions().is_empty());
    helper.call(["session", "new", "--shell", "s1"]).run().ok();
    let error = helper.call(COMPACT).run().fails(2);
    assert!(error.contains("no prompts to summarize"), "{error}");
    assert!(helper.provider.requests().is_empty());
}

#[test]
fn a_summary_is_offered_once_when_the_window_is_nearly_full() {
    let helper = Helper::with(Provider::answering(answer));
    let base_url = helper.provider.base_url();
    helper.config_file(&format!(
        "[models.small]\nbase_url = \"{base_url}\"\nmodel = \"m\"\ncontext_window = 4000\nmax_tokens = 100\n"
    ));
    let words = "word ".repeat(500);
    let mut offers = Vec::new();
    for n in 0..6 {
        let notices = ask(&helper, &format!("{n} {words}"));
        if notices.contains("llm :compact replaces its older part") {
            offers.push(n);
        }
        assert!(n > 3 || !notices.contains("left out"), "{n}: {notices}");
    }
    assert_eq!(offers.len(), 1, "{offers:?}");
    helper.call(COMPACT).run().ok();
    // A question that is too long for the summary's window was shortened, and the window has room again.
    let notices = ask(&helper, "next");
    assert!(!notices.contains("llm :compact"), "{notices}");
    let sent = last_messages(&helper);
    assert!(sent[0].1.contains("The user likes blue"));
}

#[test]
fn the_shell_command_compacts_the_session_of_the_shell() {
    let helper = Helper::with(Provider::answering(answer));
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm one");
    zsh.run("llm two");
    zsh.run("llm :compact");
    let screen = zsh.screen();
    assert!(
        screen.contains("The user likes blue") && screen.contains("in place of 1 prompt"),
        "{screen}"
    );
    zsh.run("llm three");
    let sent = last_messages(&helper);
    assert!(sent[0].1.contains("The user likes blue"));
    assert!(sent.last().expect("a prompt").1.ends_with("three"));
    let budget = helper.records_of("compaction");
    assert!(budget[0]["ids"]["shell"].is_string());
}
