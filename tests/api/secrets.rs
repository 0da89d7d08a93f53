use serde_json::json;

use super::{Server, ServerEvent, text_of};
use crate::fakes::provider::{Part, Provider, Script, text_event};
use crate::support::helper::Helper;

const CANARIES: [&str; 5] = [
    "sk-proj-Zk38QhTq0vPz91LmXc7RtYbN4wEd6UaKj2Hs",
    "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX",
    "AKIAQ3EGZ7TLMWX5KRPD",
    "hunter2-Kz83-correct-horse",
    "glpat-Zk38QhTq0vPz91LmXc7R",
];

#[test]
fn no_secret_reaches_a_client_however_it_is_split() {
    let text = format!(
        "Use {} or {}. Set AWS_ACCESS_KEY_ID={} and password: {}\nThen {} is enough for all of it. ",
        CANARIES[0], CANARIES[1], CANARIES[2], CANARIES[3], CANARIES[4]
    );
    let whole = text.clone();
    // Byte by byte, as far as characters allow.
    let helper = Helper::with(Provider::answering(move |_| {
        Script::tokens(whole.chars().map(String::from))
    }));
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(&session, &format!("What of {}?", CANARIES[0]));
    let (_, mut seen) = stream.until("message.end");
    let (end, rest) = stream.until("message.end");
    seen.extend(rest);
    let answer = end.data["payload"]["message_id"].as_str().unwrap();
    let shown = text_of(&seen, answer);
    assert_eq!(
        shown.len() as u64,
        end.data["payload"]["length"].as_u64().unwrap()
    );
    let again = server.all_events(&session, "");
    assert_eq!(text_of(&again, answer), shown);
    let page = server.get(&format!("/v1/sessions/{session}/messages"));
    let message = &page["messages"][0];
    assert_eq!(message["content"], shown.as_str());
    let record = message["record_id"].as_str().unwrap();
    let record = server.get(&format!("/v1/sessions/{session}/records/{record}"));
    let list = server.get("/v1/sessions");
    let outline = server.get(&format!("/v1/sessions/{session}/outline"));
    let everything = json!([page, record, list, outline]).to_string()
        + &seen
            .iter()
            .chain(&again)
            .map(|e| e.data.to_string())
            .collect::<String>();
    for canary in CANARIES {
        assert!(!everything.contains(canary), "{canary}");
        assert!(!shown.contains(&canary[..8]), "{canary}: {shown}");
    }
    for searched in CANARIES {
        let found = server.get(&format!("/v1/sessions?search={searched}"));
        assert_eq!(found["sessions"], json!([]), "{searched}");
    }
}

#[test]
fn neither_a_cut_prompt_nor_an_answer_that_breaks_off_shows_a_part_of_a_secret() {
    let password = "S3cretPassw0rdXyZ12";
    let url = format!("postgres://app:{password}@db.example/x");
    let parts = ["Connect to ", "postgres://app:", password]
        .map(|text| Part::Bytes(text_event(text).into_bytes()));
    let script = parts.into_iter().chain([Part::Gate("on"), Part::Cut]);
    let script = Script::Body("text/event-stream", script.collect());
    let helper = Helper::with(Provider::start([script]));
    let server = Server::start(&helper);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    // Its first 40 characters end within the password.
    server.prompt(&session, &format!("what is {url} for"));
    let (_, mut seen) = stream.until("message.end");
    helper.provider.open("on");
    let (end, more) = stream.until("message.end");
    seen.extend(more);
    seen.push(end);
    let is_shown = |event: &ServerEvent| {
        let prompt = event.data["payload"]["prompt"].as_str();
        prompt.is_some_and(|prompt| prompt.starts_with("what is postgres"))
    };
    assert!(seen.iter().any(is_shown), "{seen:?}");
    let path = format!("/v1/sessions/{session}");
    let mut everything: String = ["messages", "outline", "logs/events", "events?follow=false"]
        .iter()
        .map(|name| server.send("GET", &format!("{path}/{name}"), None).text())
        .collect();
    assert!(
        everything.contains("Connect to postgres://app:"),
        "{everything}"
    );
    everything.extend(seen.iter().map(|event| event.data.to_string()));
    assert!(!everything.contains(&password[..3]), "{everything}");
}

#[test]
fn the_output_of_a_tool_shows_no_secret_however_it_is_printed() {
    let call = json!({ "command": format!("for c in {}; do printf %s $c; sleep 0.01; done; echo; echo done", spaced(CANARIES[1])) });
    let arguments = call.to_string();
    let script = [
        Script::tokens(["Hello."]),
        Script::calls("", &[("a", "shell", &arguments)]),
        Script::tokens(["All done."]),
    ];
    let helper = Helper::with(Provider::start(script));
    helper.config("[tools]\nbuiltin = true\n[policy.rules]\nshell = \"allow\"\n");
    let server = Server::start(&helper);
    // A prompt over HTTP works where the last prompt of its session did.
    let project = helper.home.path("project");
    std::fs::create_dir(&project).unwrap();
    helper.call(["ask", "hello"]).dir(project).run().ok();
    let session = server.last_session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(&session, "print it");
    let (end, before) = stream.until("tool.end");
    let deltas: String = before
        .iter()
        .filter(|event| event.kind == "tool.delta")
        .filter_map(|event| event.data["payload"]["text"].as_str())
        .collect();
    assert!(!deltas.contains(&CANARIES[1][..12]), "{deltas}");
    // The model gets the result before the test ends.
    stream.until("message.end");
    let text = end.data["payload"]["text"].as_str().unwrap();
    assert!(
        text.contains("done") && !text.contains(CANARIES[1]),
        "{text}"
    );
}

/// The characters of a text, with blanks between them.
fn spaced(text: &str) -> String {
    text.chars().map(|c| format!("{c} ")).collect()
}
