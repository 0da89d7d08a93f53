//! Clients that watch a turn which another one has started, and turns that run without a client.

use aish::chat::FinishReason;
use aish::protocol::tools::ApprovalVerdict;
use aish::protocol::{
    AskAccepted, AskRequest, AttachRequest, Event, QuestionOutcome, Request, kind,
};

use super::{Client, Frame, Seen, Tools};
use crate::fakes::provider::{Part, Script, finish_event, text_event};
use crate::support::helper::Helper;
use crate::support::shell_id;

/// An answer whose second half waits for the gate `on`.
fn halves() -> Script {
    Script::events([
        Part::from(text_event("first ").as_str()),
        Part::Gate("on"),
        Part::from(text_event("second").as_str()),
        Part::from(finish_event("stop").as_str()),
    ])
}

fn ask(words: &str) -> AskRequest {
    AskRequest {
        shell: Some(shell_id("s1")),
        text: words.to_owned(),
        tty: Some("pts/1".to_owned()),
        ..AskRequest::default()
    }
}

fn until_text(client: &mut Client, text: &str) {
    client.until(|frame| matches!(frame, Frame::Text(t) if t.contains(text)).then_some(()));
}

fn attached(seen: &Seen) -> (String, bool) {
    let event = |event: &Event| match event {
        Event::Attached {
            prompt, running, ..
        } => Some((prompt.clone(), *running)),
        _ => None,
    };
    seen.events(event).pop().expect("an attached event")
}

/// An answer that stops after its first half.
fn half_of_a_stopped_answer() -> Script {
    Script::events([Part::from(text_event("half").as_str()), Part::Gate("on")])
}

/// The texts of the notices for the shell `s1`.
fn notices(tools: &Tools) -> Vec<String> {
    let file = tools.helper.path("run/notices/s1");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let notices = text.lines().map(|line| {
        let (session, notice) = line.split_once('\t').expect("a session id");
        assert_eq!(session.len(), 36, "{line}");
        notice.to_owned()
    });
    notices.collect()
}

/// Starts a prompt in the background.
fn background(tools: &Tools, words: &str) -> AskAccepted {
    let ask = AskRequest {
        background: true,
        cwd: "/".to_owned(),
        ..ask(words)
    };
    let mut client = Client::request(&tools.helper, &Request::Ask(Box::new(ask)));
    client.accepted()
}

#[test]
fn a_client_that_attaches_gets_the_answer_from_its_start() {
    let tools = Tools::new([halves()], "");
    let mut first = tools.ask_as(ask("tell me"));
    until_text(&mut first, "first ");
    let mut second = Client::attach(&tools.helper, "pts/2");
    until_text(&mut second, "first ");
    tools.helper.provider.open("on");
    let (first, second) = (first.end(), second.end());
    assert_eq!(first.text(), "first second");
    assert_eq!(second.text(), "first second");
    assert_eq!(attached(&second), ("tell me".to_owned(), true));
    assert_eq!(first.answer, second.answer);
    // A client that attaches after the end gets the answer from the journal.
    let third = Client::attach(&tools.helper, "pts/3").end();
    assert_eq!(third.text(), "first second\n");
    assert_eq!(attached(&third), ("tell me".to_owned(), false));
    assert_eq!(third.answer.finish, FinishReason::Stop);
}

#[test]
fn a_question_is_answered_on_either_terminal_and_the_other_is_notified() {
    let script = [
        Script::calls("", &[("a", "fs.write", "{}")]),
        Script::tokens(["done"]),
    ];
    let tools = Tools::new(script, "");
    let mut first = tools.ask_as(ask("x"));
    let question = first.question();
    let mut second = Client::attach(&tools.helper, "pts/2");
    assert_eq!(second.question(), question);
    second.say(&question, ApprovalVerdict::Once);
    for client in [first, second] {
        let seen = client.end();
        let closed = seen.events(|event| match event {
            Event::QuestionClosed {
                answered_in,
                outcome,
                ..
            } => Some((answered_in.clone(), *outcome)),
            _ => None,
        });
        let place = Some("pts/2".to_owned());
        assert_eq!(closed, [(place, QuestionOutcome::AllowedOnce)]);
        assert_eq!(seen.text(), "done");
    }
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn a_background_turn_needs_no_client_and_leaves_a_notice() {
    let tools = Tools::new([halves()], "");
    let accepted = background(&tools, "think about it");
    let notice = tools.helper.path("run/notices/s1");
    tools.helper.provider.wait_gate("on");
    assert!(!notice.exists());
    tools.helper.provider.open("on");
    tools
        .helper
        .until("the notice is there", || notice.exists());
    assert_eq!(
        notices(&tools),
        ["the answer to “think about it” is done: llm :attach shows it"]
    );
    let prompt = &tools.helper.records_of("user")[0];
    assert_eq!(prompt["ids"]["session"], accepted.session.as_str());
    assert_eq!(prompt["ids"]["prompt"], accepted.prompt_id.as_str());
    assert_eq!(
        Client::attach(&tools.helper, "pts/2").end().text(),
        "first second\n"
    );
    assert!(!notice.exists(), "a client has shown the answer");
}

#[test]
fn notices_of_several_sessions_add_up_until_each_is_shown() {
    let tools = Tools::new([Script::tokens(["one"]), half_of_a_stopped_answer()], "");
    let first = background(&tools, "first");
    tools
        .helper
        .until("a notice is there", || notices(&tools).len() == 1);
    let new = tools
        .helper
        .call(["session", "new", "--shell", "s1", "--json"]);
    new.run().json();
    let second = background(&tools, "second");
    tools.helper.provider.wait_gate("on");
    let mut client = Client::attach(&tools.helper, "pts/2");
    until_text(&mut client, "half");
    // A daemon that ends interrupts the turn; the watcher is gone by then.
    drop(client);
    tools.helper.call(["stop", "--now"]).run().ok();
    tools
        .helper
        .until("two notices are there", || notices(&tools).len() == 2);
    assert_ne!(first.session, second.session);
    // The first one was written while its session was the shell's own.
    let expected = [
        "the answer to “first” is done: llm :attach shows it",
        "the answer to “second” was interrupted: llm :attach shows it",
    ];
    assert_eq!(notices(&tools), expected);
    tools.helper.call(["start"]).run().ok();
    assert_eq!(notices(&tools), expected, "a new daemon keeps them");
}

#[test]
fn a_question_of_a_killed_daemon_no_longer_waits() {
    let script = [Script::calls("I write", &[("a", "fs.write", "{}")])];
    let tools = Tools::new(script, "");
    background(&tools, "write it");
    let waits = "“write it” waits for your answer: llm :attach shows it";
    tools
        .helper
        .until("the question waits", || notices(&tools) == [waits]);
    tools.helper.kill_daemon();
    tools.helper.call(["start"]).run().ok();
    let ended = "“write it” did not end: llm :attach shows it";
    assert_eq!(notices(&tools), [ended]);
}

#[test]
fn a_replay_has_the_tool_calls_and_the_reason_of_a_denial() {
    let script = [
        Script::calls("I read", &[("a", "fs.read", "{}")]),
        Script::calls("I write", &[("b", "fs.write", "{}")]),
        Script::tokens(["done"]),
    ];
    let tools = Tools::new(script, "[policy.rules]\n\"fs.read\" = \"allow\"\n");
    let mut live = tools.ask_as(ask("x"));
    let question = live.question();
    let words = Some("not now".to_owned());
    live.say(&question, ApprovalVerdict::No { words });
    let live = live.end();
    let replay = Client::attach(&tools.helper, "pts/2").end();
    let calls = |seen: &Seen| {
        seen.events(|event| match event {
            Event::ToolCallStarted(call) => Some((call.name.clone(), call.arguments.clone())),
            Event::ToolCallFinished(call) => {
                Some((call.name.clone(), call.status.as_str().to_owned()))
            }
            _ => None,
        })
    };
    assert_eq!(calls(&replay), calls(&live));
    assert_eq!(replay.text(), "I read\nI write\ndone\n");
    // The name at the provider, as in a live answer.
    assert_eq!(replay.answer.model, "fake-1");
    assert_eq!(replay.answer.finish, FinishReason::Stop);
}

#[test]
fn a_replay_offers_no_command_of_an_answer_that_was_interrupted() {
    let script = Script::events([
        Part::from(text_event("text\nCMD: rm -r").as_str()),
        Part::Gate("on"),
    ]);
    let tools = Tools::new([script], "");
    let mut client = tools.ask_as(ask("x"));
    until_text(&mut client, "text");
    tools.helper.provider.wait_gate("on");
    client.cancel();
    client.end();
    let replay = Client::attach(&tools.helper, "pts/2").end();
    let proposals = replay.events(|event| match event {
        Event::Proposal { command } => Some(command.clone()),
        _ => None,
    });
    assert_eq!(proposals, [""; 0]);
    assert_eq!(replay.answer.finish, FinishReason::Interrupted);
}

#[test]
fn a_client_without_a_terminal_cannot_approve() {
    let script = [
        Script::calls("", &[("a", "fs.write", "{}")]),
        Script::tokens(["done"]),
    ];
    let tools = Tools::new(script, "");
    let mut first = tools.ask_as(ask("x"));
    let question = first.question();
    let attach = AttachRequest {
        session: None,
        shell: Some(shell_id("s1")),
        can_answer: false,
        tty: Some("pts/2".to_owned()),
    };
    let mut second = Client::request(&tools.helper, &Request::Attach(attach));
    assert_eq!(second.question(), question);
    second.say(&question, ApprovalVerdict::Once);
    first.say(&question, ApprovalVerdict::No { words: None });
    first.end();
    second.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn a_background_turn_that_failed_before_its_prompt_was_recorded_can_be_attached_to() {
    let tools = Tools::new([], "");
    let new = tools
        .helper
        .call(["session", "new", "--shell", "s1", "--json"]);
    new.run().json();
    let ask = AskRequest {
        background: true,
        cwd: "/".to_owned(),
        resources: vec!["fs:file:///missing".to_owned()],
        ..ask("read it")
    };
    let mut client = Client::request(&tools.helper, &Request::Ask(Box::new(ask)));
    client.accepted();
    tools
        .helper
        .until("the notice is there", || !notices(&tools).is_empty());
    assert!(notices(&tools)[0].starts_with("“read it” failed: "));
    let mut client = Client::attach(&tools.helper, "pts/2");
    let prompt = client.until(|frame| match frame {
        Frame::Event(Event::Attached { prompt, .. }) => Some(prompt.clone()),
        _ => None,
    });
    assert_eq!(prompt, "read it");
    assert!(matches!(client.next(), Some(Frame::Failure(_))));
}

#[test]
fn the_question_of_a_background_turn_waits_for_a_client() {
    let script = [
        Script::calls("", &[("a", "fs.write", "{}")]),
        Script::tokens(["done"]),
    ];
    let tools = Tools::new(script, "");
    background(&tools, "write it");
    let notice = tools.helper.path("run/notices/s1");
    tools
        .helper
        .until("the notice is there", || notice.exists());
    let waits = ["“write it” waits for your answer: llm :attach shows it"];
    assert_eq!(notices(&tools), waits);
    let mut client = Client::attach(&tools.helper, "pts/2");
    let question = client.question();
    assert!(!notice.exists(), "a client shows the question");
    // The client leaves without an answer: the shell is notified again.
    drop(client);
    tools
        .helper
        .until("the notice is there", || notice.exists());
    assert_eq!(notices(&tools), waits);
    let mut client = Client::attach(&tools.helper, "pts/3");
    assert_eq!(client.question(), question);
    client.say(&question, ApprovalVerdict::Once);
    assert_eq!(client.end().text(), "done");
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn a_notice_goes_when_its_question_is_answered_elsewhere_or_its_session_deleted() {
    let script = [
        Script::calls("", &[("a", "fs.write", "{}")]),
        Script::tokens(["done"]),
        Script::tokens(["more"]),
    ];
    let tools = Tools::new(script, "");
    let session = background(&tools, "write it").session;
    let waits = "“write it” waits for your answer: llm :attach shows it";
    tools
        .helper
        .until("the question waits", || notices(&tools) == [waits]);
    // From another shell, which shows no notice of this one.
    let attach = AttachRequest {
        session: Some(session.clone()),
        shell: Some(shell_id("s2")),
        can_answer: true,
        tty: Some("pts/2".to_owned()),
    };
    let mut client = Client::request(&tools.helper, &Request::Attach(attach));
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    tools
        .helper
        .until("the notice is gone", || notices(&tools).is_empty());
    background(&tools, "again");
    let done = "the answer to “again” is done: llm :attach shows it";
    tools
        .helper
        .until("the answer is told", || notices(&tools) == [done]);
    let delete = ["session", "delete", &session, "--yes"];
    tools.helper.call(delete).run().ok();
    assert_eq!(notices(&tools), [""; 0]);
}

#[test]
fn a_background_turn_ends_with_a_cancel_but_not_with_a_disconnect() {
    let tools = Tools::new([halves()], "");
    background(&tools, "x");
    let mut client = Client::attach(&tools.helper, "pts/2");
    until_text(&mut client, "first ");
    drop(client);
    let mut client = Client::attach(&tools.helper, "pts/2");
    until_text(&mut client, "first ");
    client.send(kind::CANCEL, &());
    assert_eq!(client.end().answer.finish, FinishReason::Interrupted);
    tools.helper.provider.wait_closed(1);
}

#[test]
fn a_client_that_does_not_read_holds_up_neither_the_next_prompt_nor_a_stop() {
    let long = "x".repeat(1 << 16);
    let script = [Script::tokens(vec![long; 48]), Script::tokens(["next"])];
    let tools = Tools::with(Helper::new(script), "");
    let mut stopped = tools.ask_as(ask("long"));
    stopped.until(|frame| matches!(frame, Frame::Event(Event::TurnStarted { .. })).then_some(()));
    // More data than a socket buffers is pending, and the client does not read.
    let next = tools.ask_as(ask("short")).end();
    assert_eq!(next.text(), "next");
    // The client gets everything when it continues to read.
    assert_eq!(stopped.end().text().len(), 3 << 20);
    let mut stopped = Client::attach(&tools.helper, "pts/2");
    stopped.until(|frame| matches!(frame, Frame::Event(Event::Attached { .. })).then_some(()));
    tools.helper.call(["stop"]).run().ok();
}

#[test]
fn attach_fails_before_the_first_prompt() {
    let tools = Tools::new([], "");
    let failure = Client::attach(&tools.helper, "pts/1").until(|frame| match frame {
        Frame::Failure(failure) => Some(failure.message.clone()),
        _ => None,
    });
    assert_eq!(failure, "this shell has no session yet");
}
