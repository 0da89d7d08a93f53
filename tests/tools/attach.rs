//! Clients that watch a turn which another one has started, and turns that run without a client.

use aish::chat::FinishReason;
use aish::protocol::tools::ApprovalVerdict;
use aish::protocol::{AskAccepted, AskRequest, Event, QuestionOutcome, Request, kind};

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
fn a_client_that_attaches_sees_what_came_so_far_and_then_the_rest() {
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
    // One that comes after the end reads the journal.
    let third = Client::attach(&tools.helper, "pts/3").end();
    assert_eq!(third.text(), "first second\n");
    assert_eq!(attached(&third), ("tell me".to_owned(), false));
    assert_eq!(third.answer.finish, FinishReason::Stop);
}

#[test]
fn a_question_is_answered_on_either_terminal_and_the_other_is_told() {
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
        std::fs::read_to_string(&notice).unwrap(),
        "the answer to “think about it” is done: llm :attach shows it\n"
    );
    let prompt = &tools.helper.records_of("user")[0];
    assert_eq!(prompt["ids"]["session"], accepted.session.as_str());
    assert_eq!(prompt["ids"]["prompt"], accepted.prompt_id.as_str());
    assert_eq!(
        Client::attach(&tools.helper, "pts/2").end().text(),
        "first second\n"
    );
    assert!(!notice.exists(), "it was shown");
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
    assert_eq!(
        std::fs::read_to_string(&notice).unwrap(),
        "“write it” waits for your answer: llm :attach shows it\n"
    );
    let mut client = Client::attach(&tools.helper, "pts/2");
    let question = client.question();
    // Gone without an answer: the question still waits.
    drop(client);
    let mut client = Client::attach(&tools.helper, "pts/3");
    assert_eq!(client.question(), question);
    client.say(&question, ApprovalVerdict::Once);
    assert_eq!(client.end().text(), "done");
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn only_a_cancel_of_one_who_watches_ends_a_background_turn() {
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
    // More than any socket holds is on its way, and nobody reads it.
    let next = tools.ask_as(ask("short")).end();
    assert_eq!(next.text(), "next");
    // It gets all of it when it goes on.
    assert_eq!(stopped.end().text().len(), 3 << 20);
    let mut stopped = Client::attach(&tools.helper, "pts/2");
    stopped.until(|frame| matches!(frame, Frame::Event(Event::Attached { .. })).then_some(()));
    tools.helper.call(["stop"]).run().ok();
}

#[test]
fn there_is_nothing_to_attach_to_before_the_first_prompt() {
    let tools = Tools::new([], "");
    let failure = Client::attach(&tools.helper, "pts/1").until(|frame| match frame {
        Frame::Failure(failure) => Some(failure.message.clone()),
        _ => None,
    });
    assert_eq!(failure, "this shell has no conversation yet");
}
