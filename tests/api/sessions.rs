use std::fs;
use std::io::Write;
use std::time::Instant;

use serde_json::json;

use super::{Server, text_of};
use crate::fakes::provider::{Part, Provider, Script, finish_event, text_event};
use crate::support::PATIENCE;
use crate::support::helper::Helper;

#[test]
fn a_prompt_is_answered_and_read_again() {
    let helper = Helper::saying("grey in the dark");
    let server = Server::start(&helper);
    let created = server.send("POST", "/v1/sessions", Some(&json!({ "title": "Cats" })));
    let session = created.json(201)["id"].as_str().unwrap().to_owned();
    assert!(
        created
            .head
            .contains(&format!("location: /v1/sessions/{session}"))
    );
    let mut events = server.events(&format!("/v1/sessions/{session}/events"));
    let accepted = server.prompt(&session, "what are cats?");
    // What was accepted outlives a daemon that is killed now.
    let file = helper.path(&format!("data/journal/{session}.jsonl"));
    let journal = fs::read_to_string(file).unwrap();
    assert!(journal.contains("what are cats?"), "{journal}");
    let (_, mut seen) = events.until("message.end");
    let (end, rest) = events.until("message.end");
    seen.extend(rest);
    let answer = end.data["payload"]["message_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        text_of(&seen, accepted["message_id"].as_str().unwrap()),
        "what are cats?"
    );
    assert_eq!(text_of(&seen, &answer), "grey in the dark");
    assert_eq!(end.data["payload"]["finish"], "stop");
    assert_eq!(end.data["payload"]["length"], 16);
    let (status, _) = events.until("agent.status");
    assert_eq!(status.data["payload"]["status"], "idle");

    let page = server.get(&format!("/v1/sessions/{session}/messages"));
    let messages = page["messages"].as_array().unwrap();
    assert_eq!(messages[0]["id"], answer);
    assert_eq!(messages[0]["content"], "grey in the dark");
    assert_eq!(messages[0]["role"], "assistant");
    assert_eq!(messages[1]["id"], accepted["message_id"]);
    assert_eq!(messages[1]["content"], "what are cats?");
    let first = server.get(&format!("/v1/sessions/{session}/messages?limit=1"));
    let before = first["next_before"].as_u64().unwrap();
    let second = server.get(&format!(
        "/v1/sessions/{session}/messages?limit=1&before={before}"
    ));
    assert_eq!(second["messages"][0], messages[1]);
    assert!(second.get("next_before").is_none());

    let detail = server.get(&format!("/v1/sessions/{session}"));
    assert_eq!(detail["title"], "Cats");
    assert_eq!(detail["prompts"], 1);
    assert_eq!(page["next_cursor"], detail["next_cursor"]);
    let outline = server.get(&format!("/v1/sessions/{session}/outline"));
    assert_eq!(outline["prompts"][0]["text"], "what are cats?");
    let record = messages[0]["record_id"].as_str().unwrap();
    let record = server.get(&format!("/v1/sessions/{session}/records/{record}"));
    assert_eq!(record["record"]["text"], "grey in the dark");
    let chain = record["chain"].as_array().unwrap();
    let kinds: Vec<_> = chain
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["user", "assistant"]);
}

#[test]
fn sessions_are_found_changed_and_deleted() {
    let helper = Helper::saying("nine lives");
    let server = Server::start(&helper);
    helper.ask("how many lives has a cat");
    let other = server.session();
    let list = server.get("/v1/sessions");
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
    let found = server.get("/v1/sessions?search=nine%20LIVES");
    let found = found["sessions"].as_array().unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0]["excerpt"].as_str().unwrap().contains("nine lives"));
    let page = server.get("/v1/sessions?limit=1");
    assert_eq!(page["next_offset"], 1);
    assert_eq!(
        server.get("/v1/sessions?limit=1&offset=1")["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let path = format!("/v1/sessions/{other}");
    let change = json!({ "title": "Dogs", "model": "fake", "tools": "none" });
    let changed = server.send("PATCH", &path, Some(&change)).json(200);
    assert_eq!(changed["title"], "Dogs");
    assert_eq!(
        changed["settings"],
        json!({ "model": "fake", "tools": "none" })
    );
    let change = json!({ "tools": "" });
    let changed = server.send("PATCH", &path, Some(&change)).json(200);
    assert_eq!(changed["settings"], json!({ "model": "fake" }));
    for (wrong, status) in [
        (json!({ "title": " " }), 422),
        (json!({ "title": "x".repeat(201) }), 422),
        (json!({ "share_state": "shared" }), 422),
        (json!({ "colour": "red" }), 422),
        // Well-formed, but the configuration has none.
        (json!({ "model": "none-such" }), 409),
        (json!({ "prompt": "none-such" }), 409),
        (json!({ "tools": "@none-such" }), 409),
    ] {
        server.send("PATCH", &path, Some(&wrong)).problem(status);
        server
            .send("POST", "/v1/sessions", Some(&wrong))
            .problem(status);
    }
    for (title, named) in [
        (json!(5), "title: invalid type"),
        (
            json!("\u{200b}\u{feff}"),
            "the title has no visible character",
        ),
    ] {
        let wrong = json!({ "tools": "all", "title": title });
        let problem = server.send("PATCH", &path, Some(&wrong)).problem(422);
        let message = problem["message"].as_str().unwrap();
        assert!(message.starts_with(named), "{message}");
    }
    // What the session has already is not recorded again.
    let records = server.get(&path)["records"].clone();
    let cwd = helper.path(".").canonicalize().unwrap();
    let change =
        json!({ "title": " Dogs ", "model": "fake", "tools": "", "prompt": "", "cwd": cwd });
    for _ in 0..2 {
        let again = server.send("PATCH", &path, Some(&change)).json(200);
        // Only the directory was another one, at first.
        assert_eq!(
            again["records"].as_u64(),
            records.as_u64().map(|records| records + 1)
        );
    }
    let share = json!({ "share_state": "shared" });
    let refused = server.send("PATCH", &path, Some(&share)).problem(422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("/v1/sessions/{session_id}/share shares"),
        "{message}"
    );
    assert_eq!(server.get(&path)["title"], "Dogs");
    assert_eq!(server.send("DELETE", &path, None).status, 204);
    server.send("GET", &path, None).problem(404);
    server.send("DELETE", &path, None).problem(404);
}

#[test]
fn a_session_can_be_deleted_as_soon_as_its_answer_has_ended() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    for _ in 0..20 {
        let session = server.session();
        let mut events = server.events(&format!("/v1/sessions/{session}/events"));
        server.prompt(&session, "go");
        events.until("message.end");
        events.until("message.end");
        // The task of the turn ends a little later.
        let deleted = server.send("DELETE", &format!("/v1/sessions/{session}"), None);
        assert_eq!(deleted.status, 204, "{}", deleted.text());
    }
}

#[test]
fn an_answer_streams_while_it_is_made_and_can_be_cancelled() {
    let text = "A sentence that is long enough to be certain before the rest of the answer arrives, whatever follows it. ";
    let gated = Script::events([
        Part::from(text_event(text).as_str()),
        Part::Gate("rest"),
        Part::from(text_event("The rest.").as_str()),
        Part::from(finish_event("stop").as_str()),
        Part::from("data: [DONE]\n\n"),
    ]);
    let helper = Helper::with(Provider::start([gated]));
    let server = Server::start(&helper);
    let session = server.session();
    let mut events = server.events(&format!("/v1/sessions/{session}/events"));
    events.until("x.caught_up");
    server.prompt(&session, "go");
    events.until("message.end");
    // The provider waits at the gate.
    let (delta, _) = events.until("message.delta");
    assert!(text.starts_with(delta.data["payload"]["text"].as_str().unwrap()));
    assert_eq!(
        server.get(&format!("/v1/sessions/{session}"))["status"],
        "running"
    );
    let refused = server.send("DELETE", &format!("/v1/sessions/{session}"), None);
    let message = refused.problem(409)["message"].to_string();
    assert!(message.contains("an answer is running"), "{message}");
    let cancelled = server.send("POST", &format!("/v1/sessions/{session}/cancel"), None);
    assert_eq!(cancelled.status, 204);
    let (end, _) = events.until("message.end");
    assert_eq!(end.data["payload"]["finish"], "interrupted");
    helper.provider.open("rest");
}

#[test]
fn a_prompt_uses_the_key_that_a_shell_has_sent_last() {
    let helper =
        Helper::with(Provider::answering(|_| Script::tokens(["yes"])).key("sk-of-the-shell"));
    let url = helper.provider.base_url();
    helper.config_file(&format!(
        "default_model = \"keyed\"\n[tools]\nbuiltin = false\n[models.keyed]\nbase_url = \"{url}\"\nmodel = \"fake-1\"\nkey_env = \"CATS_KEY\"\n"
    ));
    let server = Server::start(&helper);
    let session = server.session();
    // Nothing is known yet; the prompt fails and says which variable is missing.
    let path = format!("/v1/sessions/{session}/messages");
    server.prompt(&session, "first");
    let mut events = server.events(&format!("/v1/sessions/{session}/events"));
    loop {
        let (status, _) = events.until("agent.status");
        let failure = &status.data["payload"]["failure"]["message"];
        if let Some(message) = failure.as_str() {
            assert!(message.contains("CATS_KEY"), "{message}");
            break;
        }
    }
    helper
        .call(["ask", "hello"])
        .env("CATS_KEY", "sk-of-the-shell")
        .run()
        .ok();
    server.post(&path, &json!({ "content": "second" }), 202);
    helper.provider.wait_requests(2);
    let requests = helper.provider.requests();
    for request in requests {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer sk-of-the-shell")
        );
    }
}

#[test]
fn wrong_prompts_are_refused_with_a_reason() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let path = format!("/v1/sessions/{session}/messages");
    for (body, status) in [
        (json!({ "content": "" }), 422),
        (json!({ "content": " \n" }), 422),
        (json!({ "content": 5 }), 422),
        (json!({}), 422),
        (json!({ "content": "x", "role": "assistant" }), 422),
        (json!({ "content": "x", "role": "system" }), 422),
        (json!({ "content": "x", "agent_id": "a" }), 409),
        (json!({ "content": "x", "model": "none-such" }), 409),
        (json!({ "content": "x", "tools": "@none" }), 409),
        (json!({ "content": "x", "extra": true }), 422),
        (json!([]), 422),
    ] {
        let response = server.send("POST", &path, Some(&body));
        assert!(
            response.status == status,
            "{body}: {} {}",
            response.status,
            response.text()
        );
        response.problem(status);
    }
    assert!(helper.provider.requests().is_empty());
    server
        .send(
            "POST",
            &format!("/v1/sessions/{}/messages", "0".repeat(36)),
            Some(&json!({ "content": "x" })),
        )
        .problem(404);
}

#[test]
fn a_model_that_was_changed_by_a_program_is_named_and_stops_nothing_else() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let old = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.change_config(&old.replace("/v1\"", "/v2\""));
    server.session();
    server.get("/v1/tools");
    assert_eq!(server.get("/v1/models"), json!({ "models": [] }));
    let path = format!("/v1/sessions/{session}");
    let change = json!({ "title": "Dogs", "cwd": "/" });
    server.send("PATCH", &path, Some(&change)).json(200);
    let refused = [
        server.send("PATCH", &path, Some(&json!({ "model": "fake" }))),
        server.send(
            "POST",
            &format!("{path}/messages"),
            Some(&json!({ "content": "x" })),
        ),
    ];
    for response in refused {
        let problem = response.problem(409);
        let text = |name: &str| problem[name].as_str().unwrap().to_owned();
        assert!(text("message").contains("model fake waits"), "{problem}");
        assert!(text("hint").contains("run llm in a terminal"), "{problem}");
    }
    for arguments in [&["ask", "x"][..], &["model", "list"]] {
        let said = helper.call(arguments.iter().copied()).run();
        assert!(said.stderr.contains("model fake waits"), "{said:?}");
    }
    assert!(helper.provider.requests().is_empty());
}

#[test]
fn activities_and_sums_are_those_of_the_command_line() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    helper.ask("cats");
    let session = server.session();
    let listed = server.get("/v1/activity?limit=10");
    let listed = listed["activities"].as_array().unwrap();
    let own = helper.call(["activity", "list", "--json"]).run().json();
    assert_eq!(listed.len(), own.as_array().unwrap().len());
    let kinds: Vec<_> = listed
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"user") || kinds.contains(&"prompt"),
        "{kinds:?}"
    );
    let none = server.get(&format!("/v1/activity?session={session}&before_ms=1"));
    assert_eq!(none["activities"], json!([]));
    let stats = server.get("/v1/stats?days=1");
    assert_eq!(stats["total"]["requests"], 1);
    assert_eq!(stats["models"][0]["name"], "fake");
    for wrong in [
        "/v1/stats?days=0",
        "/v1/stats?days=9999",
        "/v1/activity?limit=5000",
        "/v1/activity?none=1",
    ] {
        server.send("GET", wrong, None).problem(400);
    }
}

#[test]
fn a_session_works_in_the_directory_that_was_set() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let dir = helper.home.path("project");
    fs::create_dir(&dir).unwrap();
    let dir = dir.display().to_string();
    let session = server.post("/v1/sessions", &json!({ "cwd": dir }), 201);
    assert_eq!(session["cwd"], dir.as_str());
    let id = session["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    let prompt = |text: &str| {
        let before = helper.records_of("assistant").len();
        server.prompt(id, text);
        helper.until("there is an answer", || {
            helper.records_of("assistant").len() > before
        });
        let prompts = helper.records_of("user");
        prompts.last().unwrap()["cwd"].as_str().unwrap().to_owned()
    };
    assert_eq!(prompt("one"), dir);
    let moved = server.send("PATCH", &path, Some(&json!({ "cwd": "/" })));
    assert_eq!(moved.json(200)["cwd"], "/");
    assert_eq!(prompt("two"), "/");
    // Under whatever name: the rules of a project are found by its real directory.
    std::os::unix::fs::symlink(&dir, helper.home.path("link")).unwrap();
    let link = helper.home.path("link").display().to_string();
    let linked = server.send("PATCH", &path, Some(&json!({ "cwd": link })));
    assert_eq!(linked.json(200)["cwd"], dir.as_str());
    server
        .send("PATCH", &path, Some(&json!({ "cwd": "/" })))
        .json(200);
    let file = helper.path("config.toml").display().to_string();
    for (cwd, status) in [
        ("relative", 422),
        ("", 422),
        ("/tmp/\u{7}", 422),
        ("~", 422),
        // Well-formed, but not there.
        ("/no/such/directory", 409),
        (&file, 409),
    ] {
        let change = json!({ "cwd": cwd });
        server.send("PATCH", &path, Some(&change)).problem(status);
        server
            .send("POST", "/v1/sessions", Some(&change))
            .problem(status);
    }
    assert_eq!(server.get(&path)["cwd"], "/");
}

#[test]
fn a_page_of_long_messages_ends_early() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let mut events = server.events(&format!("/v1/sessions/{session}/events"));
    for _ in 0..3 {
        server.prompt(&session, &"long ".repeat(150_000));
        events.until("message.end");
        events.until("message.end");
    }
    let (mut path, mut pages) = (format!("/v1/sessions/{session}/messages"), Vec::new());
    loop {
        let page = server.get(&path);
        pages.push(page["messages"].as_array().unwrap().len());
        let Some(before) = page["next_before"].as_u64() else {
            break;
        };
        path = format!("/v1/sessions/{session}/messages?before={before}");
    }
    // Each of an answer and a prompt, which takes all the room.
    assert_eq!(pages, [2, 2, 2]);
}

#[test]
fn a_session_that_cannot_be_written_is_not_created() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let journal = helper.path("data/journal");
    let kept = helper.path("data/kept");
    fs::rename(&journal, &kept).unwrap();
    fs::write(&journal, "").unwrap();
    for body in [json!({}), json!({ "title": "Cats" })] {
        server
            .send("POST", "/v1/sessions", Some(&body))
            .problem(500);
    }
    fs::remove_file(&journal).unwrap();
    fs::rename(&kept, &journal).unwrap();
    let list = server.get("/v1/sessions");
    let ids: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["id"])
        .collect();
    assert_eq!(ids, [&json!(session)]);
}

#[test]
fn a_session_has_its_settings_although_the_client_hangs_up() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let request = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 16\r\n\r\n{{\"title\":\"Cats\"}}",
        server.port, server.token
    );
    for number in 1..=30 {
        let mut client = server.connect();
        client.write_all(request.as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        // Without a pause: the settings follow within a millisecond.
        while helper.sessions().len() < number {
            assert!(Instant::now() < deadline);
        }
    }
    helper.until("all sessions have their title", || {
        let files = helper.sessions();
        let mut texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
        texts.all(|text| text.contains("\"type\":\"title\""))
    });
}
