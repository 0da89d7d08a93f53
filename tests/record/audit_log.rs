//! The audit log: actions outside of sessions, such as connections to MCP servers and changes of rules.

use serde_json::json;

use super::text;
use crate::fakes::mcp_http::{FakeMcpServer, McpResponse};
use crate::support::helper::Helper;

/// Returns the server events recorded so far, as `alias event`.
fn events(helper: &Helper) -> Vec<String> {
    let records = helper
        .audit_records()
        .into_iter()
        .filter(|r| r["type"] == "server");
    records
        .map(|r| format!("{} {}", text(&r, "alias"), text(&r, "event")))
        .collect()
}

/// Waits until `n` server events are recorded and returns all of them.
fn wait_event(helper: &Helper, n: usize) -> Vec<String> {
    helper.until("a server event is recorded", || {
        let file = helper.path("data/journal/audit.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .filter(|l| l.contains("\"type\":\"server\""))
            .count()
            >= n
    });
    events(helper)
}

#[test]
fn server_events_are_recorded_on_changes_and_not_on_each_attempt() {
    let down = |_: &_| Some(McpResponse::status(503, json!({})));
    let server = FakeMcpServer::start().scripted(down);
    let helper = Helper::new([]);
    let url = server.url();
    helper.config(&format!("[mcp.servers.fs]\nurl = \"{url}\"\n"));
    helper.call(["mcp", "list"]).run().ok();
    helper.until("the connection was attempted several times", || {
        server.requests().len() >= 4
    });
    assert_eq!(events(&helper), ["fs failed"]);
    let failed = &helper.audit_records()[0];
    assert_eq!(text(failed, "target"), url);
    assert!(text(failed, "error").contains("503"), "{failed}");
    assert!(!text(failed, "ids.user").is_empty());
    assert_eq!(text(failed, "id").len(), 36);
    server.script(|_| None);
    wait_event(&helper, 2);
    let connected = helper.audit_records().remove(1);
    assert_eq!(text(&connected, "event"), "connected");
    assert_eq!(connected["tools"], 1);
    assert!(connected.get("error").is_none(), "{connected}");
    // Disconnected and connected manually.
    helper.call(["mcp", "disconnect", "fs"]).run().ok();
    assert_eq!(wait_event(&helper, 3)[2], "fs disconnected");
    helper.call(["mcp", "connect", "fs"]).run().ok();
    assert_eq!(wait_event(&helper, 4)[3], "fs connected");
    // Connecting a connected server ends the old connection first.
    helper.call(["mcp", "connect", "fs"]).run().ok();
    assert_eq!(
        wait_event(&helper, 6)[4..],
        ["fs disconnected", "fs connected"]
    );
    helper.call(["stop"]).run().ok();
    assert_eq!(wait_event(&helper, 7)[6], "fs disconnected");
}

#[test]
fn server_that_requires_a_login_is_recorded_once() {
    let login = |_: &_| {
        let refusal = McpResponse::status(401, json!({}));
        Some(refusal.with("www-authenticate", "Bearer"))
    };
    let server = FakeMcpServer::start().scripted(login);
    let helper = Helper::new([]);
    let lines = format!("[mcp.servers.box]\nurl = \"{}\"\n", server.url());
    helper.config(&lines);
    helper.call(["mcp", "list"]).run().ok();
    assert_eq!(wait_event(&helper, 1), ["box login"]);
    // A manual attempt fails in the same way, so it is not recorded again.
    helper.call(["mcp", "connect", "box"]).run().fails(1);
    helper.call(["stop"]).run().ok();
    assert_eq!(events(&helper), ["box login"]);
}

#[test]
fn rules_changed_in_the_file_are_recorded_with_the_next_request() {
    let helper = Helper::new([]);
    let changes = || -> Vec<String> {
        let records = helper.audit_records();
        let policy = records.iter().filter(|r| r["type"] == "policy");
        policy.map(|r| text(r, "rule").to_owned()).collect()
    };
    let server = "[mcp.servers.fs]\nurl = \"http://127.0.0.1:9/mcp\"\ndisabled = true\n";
    helper.config(server);
    helper.call(["mcp", "list"]).run().ok();
    assert!(changes().is_empty());
    helper.config(&format!("{server}[mcp.auto_approve]\n\"fs.read\" = true\n"));
    helper.call(["mcp", "list"]).run().ok();
    helper.call(["mcp", "list"]).run().ok();
    let allow_added = "+ allow fs.read (mcp.auto_approve.\"fs.read\")";
    helper.until("the change is recorded", || !changes().is_empty());
    assert_eq!(changes(), [allow_added]);
    helper.call(["stop"]).run().ok();
    helper.config(&format!(
        "{server}[mcp.auto_approve]\n\"fs.read\" = false\n"
    ));
    helper.call(["mcp", "list"]).run().ok();
    let allow_removed = "- allow fs.read (mcp.auto_approve.\"fs.read\")";
    let ask_added = "+ ask fs.read (mcp.auto_approve.\"fs.read\")";
    helper.until("the changes are recorded", || changes().len() > 1);
    assert_eq!(changes(), [allow_added, allow_removed, ask_added]);
}
