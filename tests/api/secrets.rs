use serde_json::json;

use super::{Server, text_of};
use crate::fakes::provider::{Provider, Script};
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
