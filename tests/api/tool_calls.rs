use serde_json::json;

use super::Server;
use crate::fakes::provider::{Call, Script};
use crate::support::pty::Zsh;
use crate::tools::Tools;
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
    // A client that comes later is told of the question too.
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
    assert!(
        asked["message"].as_str().unwrap().contains("approval"),
        "{asked}"
    );
    for (name, body, status) in [
        ("fs.none", arguments.clone(), 422),
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
    let denied = |record: &serde_json::Value| {
        record["type"] == "tool" && record["name"] == "fs.write" && record["status"] != "success"
    };
    assert!(records.iter().any(denied), "{records:#?}");
}
