use serde_json::json;

use super::{Server, ServerEvent, text_of};
use crate::fakes::provider::{Part, Provider, Script, finish_event, text_event};
use crate::support::helper::Helper;

/// Types that report the state at the time of a connection, and are sent again on the next one.
const OF_CONNECTION: [&str; 2] = ["agent.status", "x.caught_up"];

fn lasting(events: Vec<ServerEvent>) -> Vec<ServerEvent> {
    let lasts = |event: &ServerEvent| !OF_CONNECTION.contains(&event.kind.as_str());
    events.into_iter().filter(lasts).collect()
}

#[test]
fn every_cut_gives_every_event_once_and_in_order() {
    let long = "words and more words. ".repeat(600);
    let helper = Helper::with(Provider::answering(move |_| Script::tokens([long.clone()])));
    let server = Server::start(&helper);
    let session = server.session();
    helper.call(["ask", "--session", &session, "first"]).run();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(&session, "second");
    stream.until("message.end");
    stream.until("message.end");
    // While the turn runs, cursors also name its feed, and notices exist.
    helper.until("the session is idle", || {
        server.get(&format!("/v1/sessions/{session}"))["status"] == "idle"
    });
    let all = lasting(server.all_events(&session, ""));
    assert!(
        all.iter()
            .filter(|event| event.kind == "message.delta")
            .count()
            > 3
    );
    for end in all.iter().filter(|event| event.kind == "message.end") {
        let payload = &end.data["payload"];
        let text = text_of(&all, payload["message_id"].as_str().unwrap());
        assert_eq!(payload["length"], text.len(), "{payload}");
    }
    let seqs: Vec<u64> = all
        .iter()
        .map(|event| event.data["seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    for (at, event) in all.iter().enumerate() {
        let rest = lasting(server.all_events(&session, &format!("&since={}", event.id)));
        assert_eq!(rest, all[at + 1..], "behind {}", event.id);
    }
    // The header counts before the parameter.
    let last = &all[all.len() - 1];
    let headers = format!(
        "authorization: Bearer {}\r\nlast-event-id: {}\r\n",
        server.token, last.id
    );
    let path = format!("/v1/sessions/{session}/events?follow=false&since=x");
    let response = server.send_with("GET", &path, &headers, None);
    assert!(!response.text().contains("message."), "{}", response.text());
}

#[test]
fn a_stream_that_is_cut_within_an_answer_goes_on_where_it_was() {
    cut_within_an_answer(|session| format!("/v1/sessions/{session}/events"));
}

#[test]
fn the_stream_of_all_sessions_goes_on_within_an_answer_too() {
    cut_within_an_answer(|_| "/v1/events".to_owned());
}

fn cut_within_an_answer(path: impl Fn(&str) -> String) {
    let parts: Vec<String> = (0..6)
        .map(|n| {
            format!(
                "Part {n} of the answer has these words, and enough of them to be certain at once. "
            )
        })
        .collect();
    let gates = ["g0", "g1", "g2", "g3", "g4", "g5"];
    let mut script = Vec::new();
    for (part, gate) in parts.iter().zip(gates) {
        script.push(Part::from(text_event(part).as_str()));
        script.push(Part::Gate(gate));
    }
    script.push(Part::from(finish_event("stop").as_str()));
    script.push(Part::from("data: [DONE]\n\n"));
    let helper = Helper::with(Provider::start([Script::events(script)]));
    let server = Server::start(&helper);
    let session = server.session();
    let path = path(&session);
    server.prompt(&session, "go");
    let (mut seen, mut since) = (Vec::new(), String::new());
    for gate in gates {
        helper.provider.wait_gate(gate);
        let mut stream = server.events(&format!("{path}?{since}"));
        let (delta, before) = stream.until("message.delta");
        seen.extend(before);
        since = format!("since={}", delta.id);
        seen.push(delta);
        helper.provider.open(gate);
    }
    let mut stream = server.events(&format!("{path}?{since}"));
    let (end, before) = stream.until("message.end");
    seen.extend(before);
    let answer = end.data["payload"]["message_id"].as_str().unwrap();
    assert_eq!(text_of(&seen, answer), parts.concat());
    let starts = seen.iter().filter(|event| {
        event.kind == "message.start" && event.data["payload"]["message_id"] == answer
    });
    assert_eq!(starts.count(), 1);
}

#[test]
fn the_first_reader_gets_what_has_arrived_before() {
    let script = [
        Part::from(text_event("Two words and").as_str()),
        Part::Gate("rest"),
        Part::from(finish_event("stop").as_str()),
    ];
    let helper = Helper::with(Provider::start([Script::events(script)]));
    let server = Server::start(&helper);
    let session = server.session();
    server.prompt(&session, "go");
    helper.provider.wait_gate("rest");
    let partial = helper.path("data/partial");
    helper.until("the text has arrived", || {
        let files = std::fs::read_dir(&partial).into_iter().flatten().flatten();
        let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.any(|text| text.ends_with("Two words and"))
    });
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    let (prompt, _) = stream.until("message.delta");
    assert_eq!(prompt.data["payload"]["text"], "go");
    let (delta, _) = stream.until("message.delta");
    // The last word may become a longer one.
    assert_eq!(delta.data["payload"]["text"], "Two words ");
    helper.provider.open("rest");
    let (delta, _) = stream.until("message.delta");
    assert_eq!(delta.data["payload"]["text"], "and");
}

#[test]
fn a_stream_survives_a_killed_daemon() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(&session, "first");
    stream.until("message.end");
    let (end, _) = stream.until("message.end");
    helper.kill_daemon();
    while stream.next().is_some() {}
    // The next daemon listens where the one before did.
    helper.ask("elsewhere");
    helper.until("the server listens again", || {
        std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
    });
    let mut stream = server.events(&format!("/v1/sessions/{session}/events?since={}", end.id));
    let (end, before) = stream.until("x.caught_up");
    // Behind the event, so that its number does not come again.
    assert_eq!(end.data["payload"]["next_cursor"], end.id);
    assert!(lasting(before).is_empty());
    server.prompt(&session, "second");
    let (start, _) = stream.until("message.start");
    assert_eq!(start.data["payload"]["role"], "user");
    stream.until("message.end");
    stream.until("message.end");
}

#[test]
fn an_answer_says_which_lines_propose_commands() {
    let long = "x".repeat(4096);
    let helper = Helper::with(Provider::start([
        Script::tokens(["Try\nCMD: ", "ls -l\n\n", "```sh\nCMD: a\nCMD: b\n```\n"]),
        Script::tokens([format!("CMD: echo {long}")]),
    ]));
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    let mut proposals_of = |prompt: &str| {
        server.prompt(&session, prompt);
        stream.until("message.end");
        let (end, _) = stream.until("message.end");
        let page = server.get(&format!("/v1/sessions/{session}/messages?limit=1"));
        (
            end.data["payload"]["proposals"].clone(),
            page["messages"][0]["proposals"].clone(),
        )
    };
    let (told, read) = proposals_of("short");
    let expected = json!([
        { "first_line": 1, "lines": 1, "commands": ["ls -l"] },
        { "first_line": 3, "lines": 4, "commands": ["a", "b"] },
    ]);
    assert_eq!(told, expected);
    assert_eq!(read, expected);
    // What is too long for an event has to be read.
    let (told, read) = proposals_of("long");
    assert_eq!(told, json!(null));
    let expected = json!([{ "first_line": 0, "lines": 1, "commands": [format!("echo {long}")] }]);
    assert_eq!(read, expected);
}

#[test]
fn an_answer_says_whether_it_is_a_summary() {
    let mut summaries = 0;
    let helper = Helper::with(Provider::answering(move |request| {
        let system = request.json["messages"][0]["content"].as_str();
        if !system.is_some_and(|text| text.starts_with("You summarize the older part")) {
            return Script::tokens(["ok"]);
        }
        summaries += 1;
        match summaries {
            1 => Script::tokens(["Cats are grey."]),
            _ => Script::events([
                Part::from(text_event("Half of a summary. ").as_str()),
                Part::Gate("hold"),
            ]),
        }
    }));
    let server = Server::start(&helper);
    for prompt in ["cats?", "dogs?"] {
        helper.ask(prompt);
    }
    let session = server.last_session();
    let path = format!("/v1/sessions/{session}");
    let mut of_session = server.events(&format!("{path}/events"));
    let (end, _) = of_session.until("message.end");
    assert_eq!(end.data["payload"].get("is_summary"), None);
    of_session.until("x.caught_up");
    let mut of_all = server.events("/v1/events");
    of_all.until("x.caught_up");
    let compact = ["session", "compact", "--shell", "s1"];
    let mut told = |is_summary: Option<&serde_json::Value>| {
        for stream in [&mut of_session, &mut of_all] {
            let (end, _) = stream.until("message.end");
            assert_eq!(end.data["payload"].get("is_summary"), is_summary, "{end:?}");
        }
        let page = server.get(&format!("{path}/messages?limit=1"));
        assert_eq!(page["messages"][0].get("is_summary"), is_summary, "{page}");
    };
    helper.call(compact).run().ok();
    told(Some(&json!(true)));
    // One that was cancelled replaces nothing.
    let running = helper.call(compact).start();
    helper.provider.wait_gate("hold");
    let cancelled = server.send("POST", &format!("{path}/cancel"), None);
    assert_eq!(cancelled.status, 204);
    running.finish();
    told(None);
    helper.provider.open("hold");
}

#[test]
fn all_sessions_are_followed_by_one_stream() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    let mut stream = server.events("/v1/events");
    let (begin, _) = stream.until("x.caught_up");
    helper.ask("in a terminal");
    let session = server.session();
    server.prompt(&session, "over HTTP");
    let mut seen = Vec::new();
    let mut ends = 0;
    while ends < 4 {
        let (end, before) = stream.until("message.end");
        ends += 1;
        seen.extend(before);
        seen.push(end);
    }
    let prompts: Vec<&str> = seen
        .iter()
        .filter(|event| event.kind == "message.delta")
        .filter_map(|event| event.data["payload"]["text"].as_str())
        .collect();
    assert_eq!(prompts, ["in a terminal", "grey", "over HTTP", "grey"]);
    // Also the numbers of states grow, which belong to no position.
    while seen.last().is_none_or(|event| event.kind != "agent.status") {
        seen.push(stream.next().expect("the state of the session"));
    }
    let mut numbers: std::collections::HashMap<String, u64> = Default::default();
    for event in seen.iter().filter(|event| event.data["session_id"] != "") {
        let seq = event.data["seq"].as_u64().unwrap();
        let of_session = event.data["session_id"].to_string();
        let before = numbers.insert(of_session, seq);
        assert!(before.is_none_or(|before| before < seq), "{seen:#?}");
    }
    // Behind a restart the records since the cursor come once, from sessions that are not open.
    let since = begin.data["payload"]["next_cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    helper.call(["restart", "--now"]).run().ok();
    helper.until("the server listens again", || {
        std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
    });
    let mut stream = server.events(&format!("/v1/events?follow=false&since={since}"));
    let (_, again) = stream.until("x.caught_up");
    let recorded = |events: &[ServerEvent]| -> Vec<serde_json::Value> {
        let lasting = lasting(events.to_vec());
        lasting
            .iter()
            .filter(|e| e.kind.starts_with("message"))
            .map(|e| e.data.clone())
            .collect()
    };
    assert_eq!(recorded(&again), recorded(&seen));
    for wrong in [
        "x",
        "0198f3c2-0000-7000-8000-0123456789ab_0",
        "0198f3c2-0000-7000-8000-0123456789ab_0_0",
        "_0_0",
    ] {
        server
            .send("GET", &format!("/v1/events?since={wrong}"), None)
            .problem(400);
    }
    let old = "0198f3c2-0000-7000-8000-0123456789ab";
    server
        .send("GET", &format!("/v1/events?since={old}"), None)
        .problem(410);
}

#[test]
fn a_client_that_comes_back_is_told_that_a_session_is_idle() {
    let answer = Script::events(vec![
        Part::Gate("go"),
        Part::from(text_event("Done.").as_str()),
        Part::from(finish_event("stop").as_str()),
        Part::from("data: [DONE]\n\n"),
    ]);
    let helper = Helper::with(Provider::start([answer]));
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events("/v1/events");
    stream.until("x.caught_up");
    server.prompt(&session, "go");
    helper.provider.wait_gate("go");
    let (mut seen, _) = stream.until("agent.status");
    while seen.data["payload"]["status"] != "running" {
        seen = stream.until("agent.status").0;
    }
    drop(stream);
    let rest = |since: &str| {
        let mut stream = server.events(&format!("/v1/events?follow=false&since={since}"));
        let (_, events) = stream.until("x.caught_up");
        let of_session = events.into_iter();
        let of_session: Vec<ServerEvent> = of_session
            .filter(|event| event.data["session_id"] == *session)
            .collect();
        of_session
    };
    let status_of = |events: &[ServerEvent]| {
        let mut states = events.iter().filter(|event| event.kind == "agent.status");
        let state = states.next_back().expect("a state");
        state.data["payload"]["status"].clone()
    };
    let seqs = |events: &[ServerEvent]| -> Vec<u64> {
        let seqs = events.iter().map(|event| event.data["seq"].as_u64());
        seqs.map(Option::unwrap).collect()
    };
    // Twice, so that the second time the cursor is after the whole turn.
    let mut last = seen;
    let running = rest(&last.id);
    assert_eq!(status_of(&running), "running");
    helper.provider.open("go");
    helper.until("the session is idle", || {
        server.get(&format!("/v1/sessions/{session}"))["status"] == "idle"
    });
    for _ in 0..2 {
        let events = rest(&last.id);
        assert_eq!(status_of(&events), "idle", "{events:#?}");
        let before = last.data["seq"].as_u64();
        let mut numbers: Vec<u64> = before.into_iter().collect();
        numbers.extend(seqs(&events));
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        last = events.last().expect("an event").clone();
    }
}

#[test]
fn two_answers_at_once_are_told_by_one_stream_and_every_cut_of_it() {
    let answer = |gate| {
        let long = "words and more words. ".repeat(300);
        Script::events(vec![
            Part::from(text_event("It begins with these words, and enough of them to be certain at once. Then more. ").as_str()),
            Part::Gate(gate),
            Part::from(text_event(&long).as_str()),
            Part::from(finish_event("stop").as_str()),
            Part::from("data: [DONE]\n\n"),
        ])
    };
    let helper = Helper::with(Provider::start([answer("first"), answer("second")]));
    let server = Server::start(&helper);
    let mut stream = server.events("/v1/events");
    let (begin, _) = stream.until("x.caught_up");
    let sessions = [server.session(), server.session()];
    let mut seen = Vec::new();
    let has_begun = |event: &ServerEvent, session: &str| {
        event.data["session_id"] == *session
            && event.data["payload"]["text"]
                .as_str()
                .is_some_and(|text| text.starts_with("It begins"))
    };
    for (session, gate) in sessions.iter().zip(["first", "second"]) {
        server.prompt(session, "go");
        helper.provider.wait_gate(gate);
        while !seen.last().is_some_and(|event| has_begun(event, session)) {
            seen.push(stream.next().expect("the beginning of the answer"));
        }
    }
    // The second one ends first.
    for (gate, session) in [("second", &sessions[1]), ("first", &sessions[0])] {
        helper.provider.open(gate);
        let is_end = |event: &ServerEvent| {
            event.kind == "message.end" && event.data["session_id"] == **session
        };
        while !seen.last().is_some_and(is_end) {
            seen.push(stream.next().expect("the end of the answer"));
        }
    }
    let whole = format!(
        "It begins with these words, and enough of them to be certain at once. Then more. {}",
        "words and more words. ".repeat(300)
    );
    for session in &sessions {
        let of_session: Vec<ServerEvent> = seen
            .iter()
            .filter(|event| event.data["session_id"] == **session)
            .cloned()
            .collect();
        let seqs: Vec<u64> = of_session
            .iter()
            .map(|event| event.data["seq"].as_u64().unwrap())
            .collect();
        assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
        let mut ends = of_session.iter().rev();
        let end = ends.find(|event| event.kind == "message.end").unwrap();
        let answer = end.data["payload"]["message_id"].as_str().unwrap();
        assert_eq!(text_of(&of_session, answer), whole);
    }
    // Each position that was given, after its end: nothing twice, and the whole text.
    let text = |events: &[ServerEvent]| -> Vec<String> {
        let mut texts: Vec<(String, String)> = Vec::new();
        for event in events.iter().filter(|event| event.kind == "message.delta") {
            let id = event.data["payload"]["message_id"].as_str().unwrap();
            let text = event.data["payload"]["text"].as_str().unwrap();
            match texts.iter_mut().find(|(of, _)| of == id) {
                Some((_, whole)) => whole.push_str(text),
                None => texts.push((id.to_owned(), text.to_owned())),
            }
        }
        texts.sort();
        texts.into_iter().map(|(_, text)| text).collect()
    };
    let expected = text(&seen);
    let next = begin.data["payload"]["next_cursor"].as_str().unwrap();
    for cut in 0..seen.len() {
        let since = match cut {
            0 => next,
            _ => &seen[cut - 1].id,
        };
        let mut again = server.events(&format!("/v1/events?follow=false&since={since}"));
        let (_, rest) = again.until("x.caught_up");
        let both: Vec<ServerEvent> = seen[..cut].iter().chain(&rest).cloned().collect();
        assert_eq!(text(&both), expected, "behind event {cut}: {since}");
        let ends = |events: &[ServerEvent]| {
            events
                .iter()
                .filter(|e| e.kind == "message.end")
                .map(|e| e.data["payload"]["message_id"].to_string())
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(ends(&both), ends(&seen), "behind event {cut}: {since}");
        let count = both.iter().filter(|e| e.kind == "message.end").count();
        assert_eq!(count, 4, "behind event {cut}: {since}");
    }
}

#[test]
fn each_cursor_counts_however_many_answers_run() {
    const SESSIONS: usize = 20;
    let helper = Helper::with(Provider::answering(|_| {
        Script::events(vec![
            Part::Gate("held"),
            Part::from(text_event("The answer.").as_str()),
            Part::from(finish_event("stop").as_str()),
            Part::from("data: [DONE]\n\n"),
        ])
    }));
    let server = Server::start(&helper);
    let mut stream = server.events("/v1/events");
    stream.until("x.caught_up");
    for _ in 0..SESSIONS {
        server.prompt(&server.session(), "go");
    }
    let mut cursors = Vec::new();
    let mut answers: std::collections::BTreeMap<String, String> = Default::default();
    let mut ends = 0;
    // The prompts, then, once all requests are held, the answers.
    while ends < 2 * SESSIONS {
        let event = stream.next().expect("an event");
        cursors.push(event.id.clone());
        ends += usize::from(event.kind == "message.end");
        if let ("message.delta", Some(text)) =
            (&*event.kind, event.data["payload"]["text"].as_str())
        {
            let message = event.data["payload"]["message_id"].to_string();
            *answers.entry(message).or_default() += text;
        }
        if ends == SESSIONS {
            helper.provider.wait_requests(SESSIONS);
            helper.provider.open("held");
        }
    }
    let whole = answers.values().filter(|text| *text == "The answer.");
    assert_eq!(whole.count(), SESSIONS);
    for cursor in cursors {
        let mut again = server.events(&format!("/v1/events?follow=false&since={cursor}"));
        again.until("x.caught_up");
    }
}

#[test]
fn a_deleted_session_ends_its_streams() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    assert_eq!(
        server
            .send("DELETE", &format!("/v1/sessions/{session}"), None)
            .status,
        204
    );
    stream.until("x.session.deleted");
    assert_eq!(stream.next(), None);
}

#[test]
fn forged_cursors_are_refused() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    let session = server.session();
    let own = &session[session.len() - 12..];
    let other = server.session();
    let refused = |cursor: &str| {
        let path = format!("/v1/sessions/{session}/events?follow=false&since={cursor}");
        server.send("GET", &path, None).problem(400);
    };
    for cursor in [
        "x",
        "1",
        "99.0.0..0..0.0.0",
        "0.9",
        "1.0.0..0..0.0",
        "-1.0.0..0..0.0.0",
        "1.5.0..0..0.0.0",
        "0.0.0.%2e%2e.0..0.0.0",
        "18446744073709551616.0.0..0..0.0.0",
        "0.0.0..0..99999999999999999999.0.0",
    ] {
        refused(cursor);
        refused(&format!("{cursor}.{own}"));
    }
    refused("1.0.0..0..0.0.0");
    let foreign = server.get(&format!("/v1/sessions/{other}"))["next_cursor"].clone();
    refused(foreign.as_str().unwrap());
    let future = "ffffffff-ffff-7fff-bfff-ffffffffffff";
    let path = format!("/v1/events?follow=false&since={future}");
    server.send("GET", &path, None).problem(400);
    // Positions that no stream has given, but that harm nothing.
    for cursor in [
        "0.0.0.ffffffffffff.7.ffffffff.12.0.0",
        "0.0.0..0.99999999.99999999.0.0",
    ] {
        assert!(
            !server
                .all_events(&session, &format!("&since={cursor}.{own}"))
                .is_empty()
        );
    }
    assert_eq!(server.get("/health"), json!({ "status": "ok" }));
}
