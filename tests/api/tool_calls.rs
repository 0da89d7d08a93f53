use std::io::Write;

use serde_json::{Value, json};

use super::Server;
use crate::fakes::mcp_http::{BodyPart, McpResponse};
use crate::fakes::provider::{Call, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;
use crate::tools::{Tools, wait};
use crate::tools_prompt::KEYS;

fn calling() -> [Script; 2] {
    let call: Call<'_> = ("a", "fs.write", "{\"to\":\"/tmp/x\"}");
    [Script::calls("", &[call]), Script::tokens(["All done."])]
}

#[test]
fn a_call_of_a_prompt_over_http_is_approved_in_the_terminal() {
    let tools = Tools::new(calling(), "");
    let server = Server::start(&tools.helper);
    let zsh = Zsh::start(&tools.helper.home);
    let session = server.session();
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(&session, "write it");
    let (question, before) = stream.until("x.question.open");
    let start = before
        .iter()
        .find(|event| event.kind == "tool.start")
        .unwrap();
    assert_eq!(start.data["payload"]["name"], "fs.write");
    let shown = &question.data["payload"];
    assert_eq!(shown["kind"], "approval");
    assert_eq!(shown["shown"]["arguments"], "{\"to\":\"/tmp/x\"}");
    assert_eq!(shown["digest"].as_str().unwrap().len(), 64);
    assert_eq!(
        server.get(&format!("/v1/sessions/{session}"))["status"],
        "waiting"
    );
    // A client that connects later gets the question too.
    let late = server.all_events(&session, "");
    let status = late
        .iter()
        .find(|event| event.kind == "agent.status")
        .unwrap();
    assert_eq!(
        status.data["payload"]["questions"][0]["question_id"],
        shown["question_id"]
    );
    zsh.send(format!("llm --attach {}\r", &session[session.len() - 8..]));
    zsh.wait_text(KEYS);
    zsh.press_until("y", "yes\r\n");
    let (close, _) = stream.until("x.question.close");
    assert_eq!(close.data["payload"]["outcome"], "allowed_once");
    let (end, _) = stream.until("tool.end");
    assert_eq!(end.data["payload"]["status"], "success");
    let (_, rest) = stream.until("message.end");
    assert!(
        rest.iter()
            .any(|event| event.data["payload"]["text"] == "All done.")
    );
}

#[test]
fn a_tool_is_called_through_the_policy() {
    let tools = Tools::new(
        [],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"deny\"\n",
    );
    let server = Server::start(&tools.helper);
    let list = server.get("/v1/tools");
    let names: Vec<&str> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["fs.read", "fs.write"]);
    let arguments = json!({ "arguments": { "path": "/etc/hosts" }, "operation": "destructive" });
    let called = server.post("/v1/tools/fs.read/call", &arguments, 200);
    assert_eq!(called["status"], "success");
    assert!(
        called["text"].as_str().unwrap().contains("/etc/hosts"),
        "{called}"
    );
    let denied = server
        .send("POST", "/v1/tools/fs.write/call", Some(&arguments))
        .problem(403);
    assert!(
        denied["message"].as_str().unwrap().contains("fs.write"),
        "{denied}"
    );
    tools.config("[policy]\ndefault = \"ask\"\n");
    let asked = server
        .send("POST", "/v1/tools/fs.read/call", Some(&arguments))
        .problem(403);
    let message = asked["message"].as_str().unwrap();
    assert!(message.contains("approval"), "{asked}");
    // What asks is named, here and in the record.
    assert!(message.contains("default"), "{asked}");
    for (body, named) in [
        (
            r#"{"arguments":{"n":12345678901234567890123}}"#,
            "12345678901234567890123",
        ),
        (r#"{"arguments":{"n":-0}}"#, "-0"),
        (r#"{"arguments":{"n":1,"n":2}}"#, "name \"n\" twice"),
    ] {
        let problem = server
            .raw(&format!(
                "POST /v1/tools/fs.read/call HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                server.port,
                server.token,
                body.len()
            ))
            .problem(422);
        assert!(
            problem["message"].as_str().unwrap().contains(named),
            "{problem}"
        );
    }
    for (name, body, status) in [
        ("fs.none", arguments.clone(), 404),
        ("aish.none", arguments.clone(), 422),
        ("%2e", arguments.clone(), 404),
        ("fs.", arguments.clone(), 404),
        ("none.read", arguments.clone(), 404),
        ("fs.read", json!({ "arguments": [] }), 422),
        ("fs.read", json!({}), 422),
        (
            "fs.read",
            json!({ "arguments": {}, "operation": "none" }),
            422,
        ),
    ] {
        server
            .send("POST", &format!("/v1/tools/{name}/call"), Some(&body))
            .problem(status);
    }
    let records = tools.helper.audit_records();
    let denied = |record: &Value| {
        record["type"] == "tool" && record["name"] == "fs.write" && record["status"] != "success"
    };
    assert!(records.iter().any(denied), "{records:#?}");
    let unasked = |record: &Value| {
        let reason = record["reason"].as_str().unwrap_or_default();
        record["type"] == "tool" && reason.starts_with("there is no terminal to ask on: ")
    };
    assert!(records.iter().any(unasked), "{records:#?}");
}

#[test]
fn a_call_whose_client_hangs_up_is_cancelled_and_recorded() {
    let tools = Tools::new([], "[policy.rules]\n\"fs.read\" = \"allow\"\n");
    tools.behave(|_| Some(McpResponse::events([BodyPart::Gate("call"), BodyPart::Cut])));
    let server = Server::start(&tools.helper);
    let body = json!({ "arguments": { "path": "/etc/hosts" } }).to_string();
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/tools/fs.read/call HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.port,
        server.token,
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    wait(tools.server.reached("call"));
    drop(stream);
    // The server of the tool never answers.
    tools.helper.until("the call has ended", || {
        let log = tools.helper.path("data/journal/audit.jsonl");
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let mut records = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.any(|record| record["type"] == "tool" && record["status"] == "interrupted")
    });
}

const SHOUT: &str =
    "def shout(text: str) -> str:\n    \"Makes text loud.\"\n    return text.upper()\n";

#[test]
fn built_in_tools_and_helpers_work_in_the_directory_that_is_named() {
    let helper = Helper::new([]);
    helper.config(
        "[tools]\nbuiltin = true\n[policy.rules]\n\"fs.read\" = \"allow\"\n\"aish.edit_file\" = \"allow\"\n\
         \"aish.shell\" = \"deny\"\n\"helper.shout\" = \"allow\"\n",
    );
    std::fs::write(helper.home.path("tools.py"), SHOUT).unwrap();
    let mut zsh = Zsh::start(&helper.home);
    let added = zsh.eval("aish-helper helper add tools.py --yes");
    assert!(added.contains("helper.shout"), "{added}");
    let project = helper.home.path("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let notes = project.join("notes.txt");
    std::fs::write(&notes, "first line\n").unwrap();
    let server = Server::start(&helper);

    let list = server.get("/v1/tools");
    let operation = |name: &str| {
        let tools = list["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name);
        tool.map(|tool| tool["operation"].as_str().unwrap().to_owned())
    };
    assert_eq!(operation("aish.read_file").as_deref(), Some("read"));
    assert_eq!(operation("aish.edit_file").as_deref(), Some("write"));
    assert!(operation("aish.shell").is_some() && operation("helper.shout").is_some());

    let path = |name: &str| format!("/v1/tools/{name}/call");
    let mut read = json!({ "arguments": { "path": "notes.txt" } });
    let refused = server.send("POST", &path("aish.read_file"), Some(&read));
    let refused = refused.problem(422);
    assert!(
        refused["message"].as_str().unwrap().contains("directory")
            && refused["hint"].as_str().unwrap().contains("session_id"),
        "{refused}"
    );
    let created = server.post("/v1/sessions", &json!({ "cwd": project }), 201);
    let session = created["id"].as_str().unwrap().to_owned();
    for (name, place) in [
        ("aish.read_file", ("cwd", project.to_str().unwrap())),
        ("aish:read_file", ("session_id", &*session)),
    ] {
        read = json!({ "arguments": { "path": "notes.txt" }, place.0: place.1 });
        let called = server.post(&path(name), &read, 200);
        assert!(
            called["text"].as_str().unwrap().contains("first line"),
            "{called}"
        );
    }
    // Nothing is revealed about a file that the rules do not allow to be read.
    std::fs::write(helper.home.path("outside.txt"), "first secret\n").unwrap();
    for old in ["first", "absent"] {
        let edit = json!({
            "arguments": { "path": "../outside.txt", "old_text": old, "new_text": "x" },
            "operation": "write",
            "cwd": project,
        });
        let refused = server.send("POST", &path("aish.edit_file"), Some(&edit));
        let refused = refused.problem(403);
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    for path_outside in ["../outside.txt/../x", "../nothing/../x"] {
        let read = json!({ "arguments": { "path": path_outside }, "cwd": project });
        let refused = server.send("POST", &path("aish.read_file"), Some(&read));
        let refused = refused.problem(403).to_string();
        assert!(
            !refused.contains("directory") && !refused.contains("exist"),
            "{refused}"
        );
    }
    for (place, status) in [
        (json!({ "cwd": "project" }), 422),
        (json!({ "cwd": notes }), 409),
        (
            json!({ "session_id": "00000000-0000-7000-8000-000000000000" }),
            404,
        ),
    ] {
        let mut body = place.clone();
        body["arguments"] = json!({ "path": "notes.txt" });
        let answer = server.send("POST", &path("aish.read_file"), Some(&body));
        assert_eq!(answer.status, status, "{place}");
    }
    // The directory that is named counts, not that of the session.
    let other = json!({ "arguments": { "path": "notes.txt" }, "cwd": "/", "session_id": session });
    let missing = server.post(&path("aish.read_file"), &other, 200);
    assert_eq!(missing["status"], "tool_error", "{missing}");

    let call = |name: &str, arguments: Value| {
        let body = json!({ "arguments": arguments, "operation": "write", "cwd": project });
        server.send("POST", &path(name), Some(&body))
    };
    // What the policy would ask about is denied, and nothing is written.
    let new = json!({ "path": "new.txt", "content": "x\n" });
    let asked = call("aish.write_file", new).problem(403);
    assert!(
        asked["message"].as_str().unwrap().contains("approval"),
        "{asked}"
    );
    assert!(!project.join("new.txt").exists());
    let denied = call("aish.shell", json!({ "command": "touch new.txt" })).problem(403);
    assert!(
        denied["message"].as_str().unwrap().contains("aish.shell"),
        "{denied}"
    );
    let outside =
        json!({ "path": helper.home.path("tools.py"), "old_text": "loud", "new_text": "x" });
    assert_eq!(call("aish.edit_file", outside).status, 403);
    let edit = json!({ "path": "notes.txt", "old_text": "first", "new_text": "second" });
    assert_eq!(call("aish.edit_file", edit).json(200)["status"], "success");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "second line\n");
    let shouted = call("helper.shout", json!({ "text": "hello" })).json(200);
    assert_eq!(shouted["text"].as_str().map(str::trim_end), Some("HELLO"));
    for name in ["helper.none", "aish.none"] {
        let missing = call(name, json!({})).problem(404);
        assert!(
            missing["hint"].as_str().unwrap().contains("/v1/tools"),
            "{missing}"
        );
    }
    // Each call has its approval and its result in the audit log.
    let records = helper.audit_records();
    let count = |kind: &str, name: &str| {
        let is_it = |record: &&Value| record["type"] == kind && record["name"] == name;
        records.iter().filter(is_it).count()
    };
    for name in ["edit_file", "helper.shout"] {
        assert!(
            count("approval", name) >= 1 && count("tool", name) >= 1,
            "{name}: {records:#?}"
        );
    }
}

#[test]
fn built_in_tools_that_are_turned_off_are_neither_listed_nor_called() {
    let helper = Helper::new([]);
    helper.config("[tools]\nbuiltin = false\n[policy]\ndefault = \"allow\"\n");
    let server = Server::start(&helper);
    assert_eq!(server.get("/v1/tools")["tools"], json!([]));
    let body = json!({ "arguments": { "path": "." }, "cwd": helper.home.path("") });
    let refused = server.send("POST", "/v1/tools/aish.list_dir/call", Some(&body));
    let refused = refused.problem(422);
    assert!(
        refused["hint"].as_str().unwrap().contains("builtin"),
        "{refused}"
    );
}

#[test]
fn agents_cannot_be_created_yet() {
    let helper = Helper::new([]);
    let server = Server::start(&helper);
    for body in [None, Some(json!({ "name": "x" }))] {
        let refused = server.send("POST", "/v1/agents", body.as_ref());
        assert_eq!(refused.problem(501)["message"], "aish has no agents yet");
    }
}
