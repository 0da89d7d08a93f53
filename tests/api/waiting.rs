//! Prompts that wait for the answer before them.

use std::fs;

use serde_json::{Value, json};

use super::{EventStream, Server};
use crate::fakes::provider::{Part, Provider, Script, finish_event, text_event};
use crate::support::helper::Helper;

/// A helper whose first answer waits at the gate `rest`, and the others say `grey`.
fn gated() -> Helper {
    let mut is_first = true;
    Helper::with(Provider::answering(move |_| {
        match std::mem::take(&mut is_first) {
            true => Script::events([
                Part::from(text_event("First ").as_str()),
                Part::Gate("rest"),
                Part::from(finish_event("stop").as_str()),
                Part::from("data: [DONE]\n\n"),
            ]),
            false => Script::tokens(["grey"]),
        }
    }))
}

/// A server with a session whose first answer waits.
fn answering() -> (Helper, Server, String) {
    let helper = gated();
    let server = Server::start(&helper);
    let session = server.session();
    server.prompt(&session, "first");
    helper.provider.wait_gate("rest");
    (helper, server, session)
}

fn id(accepted: &Value) -> &str {
    accepted["message_id"].as_str().expect("an id")
}

/// Returns the ids of the messages of a session, newest first, with the role and the type of those that wait or were not answered.
fn messages(server: &Server, session: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/sessions/{session}/messages"));
    let messages = page["messages"].as_array().expect("messages").iter();
    messages
        .map(|m| json!([m["content"], m["role"], m["detail"]["type"]]))
        .collect()
}

/// Awaits a status with these waiting prompts.
fn until_waiting(events: &mut EventStream, ids: &[&str]) -> Value {
    loop {
        let (status, _) = events.until("agent.status");
        if status.data["payload"]["waiting"] == json!(ids) {
            return status.data["payload"].clone();
        }
    }
}

#[test]
fn a_prompt_that_waits_is_listed_until_its_turn() {
    let helper = gated();
    let server = Server::start(&helper);
    let session = server.session();
    let path = format!("/v1/sessions/{session}");
    let mut events = server.events(&format!("{path}/events"));
    let first = server.prompt(&session, "first");
    helper.provider.wait_gate("rest");
    let second = server.prompt(&session, "second");
    // What was accepted outlives a daemon that is killed now.
    let file = helper.path(&format!("data/journal/{session}.jsonl"));
    assert!(fs::read_to_string(&file).unwrap().contains("second"));
    let third = server.prompt(&session, "third");
    let status = until_waiting(&mut events, &[id(&second), id(&third)]);
    assert_eq!(status["message_id"], first["message_id"]);
    assert_eq!(
        server.get(&path)["waiting"],
        json!([id(&second), id(&third)])
    );
    assert_eq!(
        messages(&server, &session),
        [
            json!(["third", "user", "waiting_prompt"]),
            json!(["second", "user", "waiting_prompt"]),
            json!(["first", "user", null]),
        ]
    );
    // Another client that connects now is informed too.
    let mut other = server.events(&format!("{path}/events"));
    let (told, _) = other.until("log.append");
    let record = told.data["payload"]["record"].clone();
    assert_eq!(record["type"], "session", "{record}");
    let (told, _) = other.until("log.append");
    let record = &told.data["payload"]["record"];
    assert_eq!(
        (&record["type"], &record["prompt"]),
        (&json!("waiting_prompt"), &json!("second"))
    );
    assert_eq!(record["ids"]["prompt"], second["message_id"]);
    until_waiting(&mut other, &[id(&second), id(&third)]);

    // One that is withdrawn leaves the one after it in its place.
    let cancel = format!("{path}/cancel?message_id={}", id(&third));
    assert_eq!(server.send("POST", &cancel, None).status, 204);
    until_waiting(&mut events, &[id(&second)]);
    helper.provider.open("rest");
    // Of the first answer, the second prompt and its answer.
    events.until("message.end");
    events.until("message.end");
    let (end, _) = events.until("message.end");
    assert_eq!(end.data["payload"]["role"], "assistant");
    assert_eq!(server.get(&path)["waiting"], json!([]));
    assert_eq!(
        messages(&server, &session),
        [
            json!(["grey", "assistant", null]),
            json!(["second", "user", null]),
            json!(["First ", "assistant", null]),
            json!(["third", "user", "waiting_prompt"]),
            json!(["first", "user", null]),
        ]
    );
    assert_eq!(server.get(&path)["prompts"], 2);
    // The chain of a prompt that waited begins with its acceptance; the model got it once.
    let page = server.get(&format!("{path}/messages?limit=1"));
    let answer = page["messages"][0]["record_id"].as_str().unwrap();
    let record = server.get(&format!("{path}/records/{answer}"));
    let chain = record["chain"].as_array().unwrap().iter();
    let chain: Vec<_> = chain.map(|e| json!([e["type"], e["text"]])).collect();
    assert_eq!(
        chain,
        [
            json!(["waiting_prompt", "second"]),
            json!(["user", "second"]),
            json!(["assistant", "grey"]),
        ]
    );
    let requests = helper.provider.requests();
    let last = requests[requests.len() - 1].json.to_string();
    assert_eq!(last.matches("second").count(), 1, "{last}");
    assert!(!last.contains("third"), "{last}");
    let shown = helper.call(["session", "show", &session]).run().ok();
    assert!(shown.contains("> third\n[not answered]\n"), "{shown}");
    assert_eq!(shown.matches("> second").count(), 1, "{shown}");
}

#[test]
fn a_killed_daemon_loses_no_prompt_that_waits() {
    let (helper, server, session) = answering();
    let path = format!("/v1/sessions/{session}");
    server.prompt(&session, "an elephant that waits");
    let partial = helper.path("data/partial");
    helper.until("the text has arrived", || {
        let files = fs::read_dir(&partial).into_iter().flatten().flatten();
        let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.any(|text| text.ends_with("First "))
    });
    helper.kill_daemon();
    // The next daemon listens where the one before did.
    helper.ask("elsewhere");
    helper.until("the server listens again", || {
        std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
    });
    assert_eq!(
        messages(&server, &session),
        [
            json!(["First ", "assistant", null]),
            json!(["an elephant that waits", "user", "waiting_prompt"]),
            json!(["first", "user", null]),
        ]
    );
    let detail = server.get(&path);
    assert_eq!(
        (&detail["prompts"], &detail["waiting"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(detail["title"], "first");
    let outline = server.get(&format!("{path}/outline"));
    assert_eq!(outline["prompts"].as_array().unwrap().len(), 1);
    let found = server.get("/v1/sessions?search=elephant");
    assert_eq!(found["sessions"][0]["id"], session);
    let replay = helper.call(["ask", "--attach", &session]).run();
    assert!(replay.stdout.contains("First"), "{replay:?}");
    assert!(!replay.stdout.contains("elephant"), "{replay:?}");
    let activity = server.get("/v1/activity?limit=50");
    let all = activity["activities"].as_array().unwrap();
    let texts: Vec<_> = all.iter().filter_map(|a| a["text"].as_str()).collect();
    assert!(
        texts.contains(&"waiting prompt: an elephant that waits"),
        "{texts:?}"
    );
    let prompts = all.iter().filter(|a| a["type"] == "prompt").count();
    assert_eq!(prompts, 2, "{texts:?}");
    // The session continues, without the prompt that was not answered.
    let mut events = server.events(&format!("{path}/events"));
    events.until("x.caught_up");
    server.prompt(&session, "after the crash");
    events.until("message.end");
    events.until("message.end");
    let requests = helper.provider.requests();
    let last = requests[requests.len() - 1].json.to_string();
    assert!(
        last.contains("after the crash") && !last.contains("elephant"),
        "{last}"
    );
    assert_eq!(server.get(&path)["prompts"], 2);
}

#[test]
fn a_prompt_that_fails_before_its_turn_records_it_is_not_lost() {
    let helper = Helper::saying("grey");
    helper.config("key_env = \"CATS_KEY\"\n");
    let server = Server::start(&helper);
    let session = server.session();
    let mut events = server.events(&format!("/v1/sessions/{session}/events"));
    let accepted = server.prompt(&session, "without a key");
    loop {
        let (status, _) = events.until("agent.status");
        if status.data["payload"]["failure"]["message_id"] == accepted["message_id"] {
            break;
        }
    }
    assert_eq!(
        messages(&server, &session),
        [json!(["without a key", "user", "waiting_prompt"])]
    );
    assert_eq!(server.get(&format!("/v1/sessions/{session}"))["prompts"], 0);
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_nothing_is_accepted_that_is_not_kept() {
    let (helper, server, session) = answering();
    let path = format!("/v1/sessions/{session}");
    let file = helper.path(&format!("data/journal/{session}.jsonl"));
    let before = fs::read_to_string(&file).unwrap();
    helper.limit_files(Some(20));
    let refused = |method: &str, path: &str, body: Value| {
        let answer = server.send(method, path, Some(&body)).json(500);
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|m| m.contains("cannot write the history")),
            "{answer}"
        );
        assert!(
            answer["hint"]
                .as_str()
                .is_some_and(|h| h.contains("free disk space") || h.contains("is full")),
            "{answer}"
        );
    };
    refused(
        "POST",
        &format!("{path}/messages"),
        json!({ "content": "not kept" }),
    );
    refused("PATCH", &path, json!({ "title": "not kept" }));
    refused("POST", "/v1/sessions", json!({ "title": "not kept" }));
    helper.limit_files(None);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // Neither does the prompt that was refused wait, nor is it answered.
    server.prompt(&session, "kept");
    helper.provider.open("rest");
    let written = || fs::read_to_string(&file).unwrap();
    helper.until("both are answered", || written().contains("grey"));
    let asked = helper.provider.requests();
    assert_eq!(asked.len(), 2);
    let request = asked[1].json.to_string();
    assert!(
        request.contains("kept") && !request.contains("not kept"),
        "{request}"
    );
    assert!(!written().contains("not kept"), "{}", written());
}
