use std::time::Duration;

use super::*;
use crate::protocol::tools::ElicitationAction;

fn feed(hang_up: HangUpPolicy) -> Arc<TurnFeed> {
    let origin = FeedOrigin {
        shell: None,
        tty: None,
        prompt: "say\nit \x1b[2J all".into(),
        started_ms: 0,
        hang_up,
    };
    TurnFeed::new(origin, CancellationToken::new())
}

/// Reads everything unread as text; events in brackets.
fn read(watcher: &mut FeedWatcher) -> String {
    let mut all = String::new();
    loop {
        let part = read_once(watcher);
        if part.is_empty() {
            return all;
        }
        all += &part;
    }
}

fn read_once(watcher: &mut FeedWatcher) -> String {
    let mut out = String::new();
    watcher.read(|item| match item {
        FeedItem::Text(text) => out.push_str(text),
        FeedItem::Reasoning(text) => out.push_str(&format!("({text})")),
        FeedItem::Event(TurnEvent::Notice(text)) => out.push_str(&format!("[{text}]")),
        FeedItem::Event(TurnEvent::Waiting(text)) => out.push_str(&format!("[waits: {text}]")),
        FeedItem::Event(TurnEvent::ElicitationRequested(asked)) => {
            out.push_str(&format!("[? {}]", asked.id));
        }
        FeedItem::Event(TurnEvent::QuestionClosed {
            id,
            answered_in,
            outcome,
        }) => {
            let place = answered_in.clone().unwrap_or_default();
            out.push_str(&format!("[{id} {outcome:?} {place}]"));
        }
        FeedItem::Event(TurnEvent::CallFinished(call)) => {
            out.push_str(&format!("[{} ended]", call.id))
        }
        FeedItem::Event(other) => panic!("{other:?}"),
        FeedItem::Progress(text) => out.push_str(&format!("[… {text}]")),
    });
    out
}

fn question(id: &str) -> (String, TurnEvent) {
    let mut asked = ElicitationPrompt {
        id: id.into(),
        server: "s".into(),
        message: "who?".into(),
        schema: None,
        url: None,
        digest: String::new(),
    };
    asked.digest = asked.shown_digest();
    (
        asked.digest.clone(),
        TurnEvent::ElicitationRequested(Box::new(asked)),
    )
}

fn answer(id: &str, digest: &str, action: ElicitationAction) -> Reaction {
    Reaction::Elicit {
        id: id.into(),
        digest: digest.into(),
        content: None,
        action,
    }
}

#[test]
fn every_watcher_sees_everything_in_order_whenever_it_reads() {
    let feed = feed(HangUpPolicy::Cancel);
    let mut eager = feed.watch(false, None);
    let mut lazy = feed.watch(false, None);
    let mut seen = String::new();
    for part in ["a", "b", "!one", "ü", "!two", "c"] {
        match part.strip_prefix('!') {
            Some(notice) => feed.notice(notice),
            None => feed.push_text(part),
        }
        seen.push_str(&read(&mut eager));
    }
    assert_eq!(seen, "ab[one]ü[two]c");
    assert_eq!(read(&mut lazy), seen);
    assert_eq!(read(&mut feed.watch(false, None)), seen, "a late watcher");
    assert_eq!(read(&mut lazy), "");
    feed.push(TurnEvent::CallProgress("1 of 3".into()));
    feed.push(TurnEvent::CallProgress("2 of 3".into()));
    assert_eq!(read(&mut lazy), "[… 2 of 3]");
}

#[test]
fn the_progress_of_a_call_that_has_ended_is_not_replayed() {
    let feed = feed(HangUpPolicy::Cancel);
    feed.push(TurnEvent::CallProgress("1 of 3".into()));
    assert_eq!(read(&mut feed.watch(false, None)), "[… 1 of 3]");
    feed.push(TurnEvent::CallFinished(CallFinished {
        id: "a".into(),
        name: "fs.read".into(),
        status: crate::chat::CallStatus::Success,
        duration_ms: 1,
        bytes: 0,
        head: String::new(),
        more: 0,
        notes: Vec::new(),
    }));
    assert_eq!(read(&mut feed.watch(false, None)), "[a ended]");
}

#[test]
fn a_read_is_bounded_and_the_next_one_continues() {
    let feed = feed(HangUpPolicy::Cancel);
    let text = "aü".repeat(1 << 16);
    feed.push_text(&text);
    for n in 0..200 {
        feed.notice(n.to_string());
    }
    let mut watcher = feed.watch(false, None);
    let first = read_once(&mut watcher);
    assert!(
        (60 << 10..=64 << 10).contains(&first.len()),
        "{}",
        first.len()
    );
    let rest = first + &read(&mut watcher);
    assert!(rest.starts_with(&text));
    assert_eq!(rest.matches('[').count(), 200);
    let mut late = feed.watch(false, None);
    late.offset = text.len();
    assert!(read_once(&mut late).matches('[').count() < 100);
}

#[tokio::test]
async fn a_watcher_that_may_not_answer_cannot_answer() {
    let feed = feed(HangUpPolicy::Continue);
    let (digest, event) = question("q");
    let mut given = feed.open_question("q", &digest, event);
    let accept = || answer("q", &digest, ElicitationAction::Accept);
    let without_terminal = feed.watch(false, None);
    without_terminal.answer(accept(), None);
    let declined = feed.watch(true, None);
    declined.answer(answer("q", &digest, ElicitationAction::NoTerminal), None);
    declined.answer(accept(), None);
    let unable = feed.watch(true, None);
    unable.cannot_answer();
    unable.answer(accept(), None);
    assert!(given.try_recv().is_err(), "nobody may answer");
    feed.watch(true, Some("pts/1".into()))
        .answer(accept(), None);
    let given = given.await.expect("an answer");
    assert_eq!(given.answered_in.as_deref(), Some("pts/1"));
}

#[tokio::test]
async fn a_watcher_is_woken_by_new_items_only() {
    let feed = feed(HangUpPolicy::Cancel);
    let mut watcher = feed.watch(false, None);
    let idle = |watcher: &FeedWatcher| {
        let mut ready = Box::pin(watcher.ready());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        ready.as_mut().poll(&mut context).is_pending()
    };
    assert!(idle(&watcher));
    feed.push_text("a");
    watcher.ready().await;
    assert_eq!(read(&mut watcher), "a");
    assert!(idle(&watcher));
    feed.push_text("b");
    watcher.ready().await;
    feed.notice("c");
    assert_eq!(read(&mut watcher), "b[c]");
    assert!(idle(&watcher));
    let waits = tokio::spawn({
        let feed = feed.clone();
        async move { feed.finished().await }
    });
    tokio::task::yield_now().await;
    let failure = RequestFailure {
        kind: ErrorKind::Runtime,
        message: "x".into(),
        hint: None,
        nothing_configured: false,
        config_changes: None,
        unapproved_pack: None,
    };
    feed.finish(Err(failure.clone()));
    assert_eq!(waits.await.expect("the task"), Err(failure));
}

#[tokio::test]
async fn the_first_answer_with_the_digest_of_what_was_shown_wins() {
    let feed = feed(HangUpPolicy::Cancel);
    let mut one = feed.watch(true, Some("pts/1".into()));
    let mut two = feed.watch(true, Some("pts/2".into()));
    let (digest, event) = question("q");
    let given = feed.open_question("q", &digest, event);
    assert_eq!(read(&mut one), "[? q]");
    one.answer(answer("other", &digest, ElicitationAction::Accept), None);
    one.answer(answer("q", "", ElicitationAction::Accept), None);
    assert!(feed.is_answerable("q"));
    two.answer(answer("q", &digest, ElicitationAction::Decline), None);
    one.answer(answer("q", &digest, ElicitationAction::Accept), None);
    let given = given.await.expect("an answer");
    assert_eq!(given.answered_in.as_deref(), Some("pts/2"));
    assert_eq!(
        given.reaction,
        answer("q", &digest, ElicitationAction::Decline)
    );
    feed.close_question("q", given.answered_in, QuestionOutcome::Declined);
    assert_eq!(read(&mut one), "[q Declined pts/2]");
    // The question was closed before this watcher read it.
    assert_eq!(read(&mut two), "[q Declined pts/2]");
}

#[tokio::test]
async fn a_question_waits_for_a_client_while_its_turn_may_get_one() {
    let soon = Duration::from_millis(20);
    let open = |feed: &TurnFeed| {
        let (digest, event) = question("q");
        (digest.clone(), feed.open_question("q", &digest, event))
    };
    // In the foreground no other client attaches.
    let foreground = feed(HangUpPolicy::Cancel);
    let watcher = foreground.watch(true, None);
    let (digest, _given) = open(&foreground);
    let early = tokio::time::timeout(soon * 2, foreground.unanswerable("q", soon, || ()));
    assert!(early.await.is_err(), "its client shows the question");
    watcher.answer(answer("q", &digest, ElicitationAction::NoTerminal), None);
    let outcome = foreground.unanswerable("q", soon, || ()).await;
    assert_eq!(outcome, QuestionOutcome::NoTerminal);
    // In the background another client may attach; one without a terminal does not count.
    let background = feed(HangUpPolicy::Continue);
    let (_digest, _given) = open(&background);
    let _silent = background.watch(false, None);
    let announced = std::cell::Cell::new(0);
    let announce = || announced.set(announced.get() + 1);
    let attached = background.watch(true, None);
    let waits = background.unanswerable("q", soon, announce);
    let waits = tokio::time::timeout(soon * 3, waits).await;
    assert!(waits.is_err(), "a client shows the question");
    assert_eq!(announced.get(), 0);
    // The patience counts from here, and the user is notified once.
    drop(attached);
    let start = Instant::now();
    let again = background.unanswerable("q", soon, announce);
    assert!(tokio::time::timeout(soon / 4, again).await.is_err());
    let outcome = background.unanswerable("q", soon, announce).await;
    assert_eq!(outcome, QuestionOutcome::TimedOut);
    assert!((soon - soon / 10..soon * 10).contains(&start.elapsed()));
    assert_eq!(announced.get(), 1);
    // A client that attaches and leaves starts both again.
    drop(background.watch(true, None));
    let start = Instant::now();
    let outcome = background.unanswerable("q", soon, announce).await;
    assert_eq!(outcome, QuestionOutcome::TimedOut);
    assert!(start.elapsed() >= soon - soon / 10);
    assert_eq!(announced.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_open_questions_is_counted_once() {
    let feed = feed(HangUpPolicy::Cancel);
    let wait = || tokio::time::advance(Duration::from_secs(1));
    let begun = Instant::now();
    wait().await;
    assert_eq!(feed.working_ms(begun.elapsed()), 1000);
    let (digest, event) = question("a");
    let _first = feed.open_question("a", &digest, event);
    wait().await;
    let (digest, event) = question("b");
    let _second = feed.open_question("b", &digest, event);
    wait().await;
    feed.close_question("a", None, QuestionOutcome::Denied);
    wait().await;
    assert_eq!(feed.working_ms(begun.elapsed()), 1000);
    feed.close_question("b", None, QuestionOutcome::Denied);
    wait().await;
    assert_eq!(feed.working_ms(begun.elapsed()), 2000);
}

#[test]
fn the_prompt_is_shown_as_one_short_visible_line() {
    assert_eq!(feed(HangUpPolicy::Cancel).origin.words(), "say it [2J all");
    let mut origin = feed(HangUpPolicy::Cancel).origin.clone();
    origin.prompt = "wörter ".repeat(20);
    let words = origin.words();
    assert_eq!(words.chars().count(), origin::PROMPT_LENGTH);
    assert!(words.ends_with('…'), "{words}");
    // Redacted before it is cut.
    origin.prompt = format!(
        "use postgres://app:{}@db/x now",
        "S3cretPassw0rdXyZ12".repeat(3)
    );
    let words = origin.words();
    assert!(!words.contains("S3c"), "{words}");
}

#[test]
fn what_a_turn_waited_for_is_not_shown_once_it_runs() {
    let feed = feed(HangUpPolicy::Cancel);
    let mut own = feed.watch(true, None);
    feed.push(TurnEvent::Waiting("another".into()));
    assert_eq!(read(&mut own), "[waits: another]");
    feed.set_session("s", &SessionChanges::default());
    feed.notice("begun");
    assert_eq!(read(&mut own), "[begun]");
    assert_eq!(read(&mut feed.watch(false, None)), "[begun]");
}
