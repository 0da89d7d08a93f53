//! Split tool calls (read, write, ...) with real servers, whose annotations correct the model's choice.

use std::path::Path;
use std::process::Command;

use aish::config::mcp::{ServerSettings, ServerTransport};
use aish::protocol::AskRequest;
use aish::protocol::tools::ApprovalVerdict;
use serde_json::{Value, json};

use super::node::files;
use super::{node, package, python, stdio};
use crate::fakes::provider::{Provider, Request, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;
use crate::tools::Client;

/// A tool call of the model, and the call variant it tries first.
struct Task {
    query: &'static str,
    tool: &'static str,
    args: Value,
    first: &'static str,
}

/// A model that retrieves a tool, calls it with the first variant, then as the correction says, and repeats the last
/// tool result.
fn model(tasks: Vec<Task>) -> Provider {
    Provider::answering(move |request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let asked = messages.iter().filter(|m| m["role"] == "user").count();
        let task = &tasks[asked - 1];
        let last = messages.last().expect("a message");
        if last["role"] == "user" {
            let query = json!({ "query": task.query });
            return Script::calls("", &[("r", "retrieve_tools", &query.to_string())]);
        }
        let told = last["content"].as_str().expect("text");
        let variant = match serde_json::from_str::<Value>(told) {
            Ok(found) if found.get("usage_instructions").is_some() => {
                let tools = found["tools"].as_array().expect("tools").iter();
                let found = tools.filter(|t| t["name"] == task.tool).count();
                assert_eq!(found, 1, "{} is not found: {told}", task.tool);
                task.first
            }
            _ => match told.split_once(" by server, use ") {
                Some((_, variant)) => variant,
                None => return Script::tokens([told]),
            },
        };
        call(request, variant, task)
    })
}

fn call(request: &Request, variant: &str, task: &Task) -> Script {
    assert!(request.tool_names().contains(&variant), "{variant}");
    let word = variant.strip_prefix("call_tool_").expect("a variant");
    let arguments = json!({
        "name": task.tool,
        "args": task.args,
        "intent": { "operation_type": word, "reason": "the test wants it" },
    });
    Script::calls("", &[("c", variant, &arguments.to_string())])
}

/// Configuration of a server whose annotations are trusted.
fn lines(server: &ServerSettings) -> String {
    let ServerTransport::Stdio { command, args, env } = &server.transport else {
        panic!("{server:?}")
    };
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| format!("{name} = {value:?}"))
        .collect();
    format!(
        "[mcp.servers.{}]\ncommand = {command:?}\nargs = {args:?}\nenv = {{ {} }}\ntrust_annotations = true\n",
        server.alias,
        env.join(", ")
    )
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]);
    let output = command
        .current_dir(dir)
        .args(args)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
fn model_is_corrected_after_a_call_with_the_wrong_variant() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().canonicalize().expect("its real path");
    git(&dir, &["init", "--quiet"]);
    std::fs::write(dir.join("a"), "one\n").expect("a file");
    git(&dir, &["add", "a"]);
    git(&dir, &["commit", "--quiet", "-m", "the first"]);
    std::fs::write(dir.join("a"), "two\n").expect("a file");
    git(&dir, &["add", "a"]);

    let mut memory = stdio("memory", &node(), &[&package("server-memory")]);
    let file = dir.join("memory.jsonl").to_str().expect("text").to_owned();
    if let ServerTransport::Stdio { env, .. } = &mut memory.transport {
        env.push(("MEMORY_FILE_PATH".into(), file.clone()));
    }
    let repository = stdio(
        "git",
        &python(),
        &[Path::new("-m"), Path::new("mcp_server_git")],
    );
    let text = |name: &str| dir.join(name).to_str().expect("text").to_owned();
    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote it"] });
    let tasks = vec![
        Task {
            query: "write a file",
            tool: "fs:write_file",
            args: json!({ "path": text("b"), "content": "new" }),
            first: "call_tool_write",
        },
        Task {
            query: "read the contents of a text file",
            tool: "fs:read_text_file",
            args: json!({ "path": text("b") }),
            first: "call_tool_read",
        },
        Task {
            query: "unstage all changes, git reset",
            tool: "git:git_reset",
            args: json!({ "repo_path": dir }),
            first: "call_tool_read",
        },
        Task {
            query: "create entities in the knowledge graph",
            tool: "memory:create_entities",
            args: json!({ "entities": [ada] }),
            first: "call_tool_write",
        },
        Task {
            query: "delete entities from the knowledge graph",
            tool: "memory:delete_entities",
            args: json!({ "entityNames": ["Ada"] }),
            first: "call_tool_read",
        },
    ];
    let helper = Helper::with(model(tasks));
    let servers = [files(&dir), repository, memory];
    let servers: String = servers.iter().map(lines).collect();
    helper.config(&format!(
        "{servers}[policy.rules]\n\"op:read\" = \"allow\"\n[tools]\nbuiltin = false\nexposure = \"split\"\n"
    ));
    helper.call(["start"]).run().ok();
    let list = || helper.call(["mcp", "list"]).run().ok();
    helper.until("the servers have started", || {
        list().matches("ready").count() == 3
    });

    // Sends a prompt and answers the question, if one is expected.
    let ask = |words: &str, answer: Option<(ApprovalVerdict, &str)>| {
        let ask = AskRequest {
            shell: Some(shell_id("s1")),
            text: words.to_owned(),
            ..AskRequest::default()
        };
        let mut client = Client::ask(&helper, ask);
        if let Some((verdict, operation)) = answer {
            let question = client.question();
            assert_eq!(question.operation.as_str(), operation, "{question:?}");
            let intent = question.intent.clone().expect("an intent");
            assert_eq!(intent.operation_type.as_str(), operation);
            client.say(&question, verdict);
        }
        client.end().text()
    };
    let yes = |operation| Some((ApprovalVerdict::Once, operation));
    let wrote = ask("write it down", yes("destructive"));
    assert!(wrote.contains("Successfully wrote"), "{wrote}");
    assert_eq!(std::fs::read_to_string(text("b")).expect("written"), "new");
    // Read-only tools of a trusted server are allowed by a rule.
    assert_eq!(ask("what is in it", None), "new");
    assert_eq!(git(&dir, &["diff", "--cached", "--name-only"]), "a\n");
    let no = Some((ApprovalVerdict::No { words: None }, "destructive"));
    assert_eq!(ask("unstage it", no), "[denied by the user]");
    assert_eq!(git(&dir, &["diff", "--cached", "--name-only"]), "a\n");
    let made = ask("remember Ada", yes("write"));
    assert!(made.contains("Ada"), "{made}");
    assert!(
        std::fs::read_to_string(&file)
            .expect("kept")
            .contains("Ada")
    );
    ask("forget Ada", yes("destructive"));
    assert!(
        !std::fs::read_to_string(&file)
            .expect("kept")
            .contains("Ada")
    );

    let records = helper.records_of("tool");
    let word = |r: &Value, key: &str| r[key].as_str().unwrap_or_default().to_owned();
    let made: Vec<_> = records
        .iter()
        .filter(|r| r["name"] != "retrieve_tools")
        .map(|r| {
            let variant = word(&r["action"], "variant").replace("call_tool_", "");
            format!("{} {variant} {}", word(r, "name"), word(r, "status"))
        })
        .collect();
    assert_eq!(
        made,
        [
            "fs.write_file write blocked",
            "fs.write_file destructive success",
            "fs.read_text_file read success",
            "git.git_reset read blocked",
            "git.git_reset destructive denied",
            "memory.create_entities write success",
            "memory.delete_entities read blocked",
            "memory.delete_entities destructive success"
        ]
    );
    for record in records.iter().filter(|r| r["status"] == "blocked") {
        assert_eq!(record["action"]["annotations"]["destructiveHint"], true);
        let shown = word(record, "name").replacen('.', ":", 1);
        let exact =
            format!("Tool '{shown}' is marked destructive by server, use call_tool_destructive");
        assert_eq!(
            [word(record, "reason"), word(record, "text")],
            [exact.clone(), exact]
        );
    }
    // Only calls that were approved or allowed by a rule were made.
    let records = helper.records();
    let approvals = records.iter().filter(|r| r["type"] == "approval");
    assert_eq!(approvals.count(), 5);
    let own = |r: &Value| r["name"] == "retrieve_tools";
    for (at, record) in records.iter().enumerate() {
        if record["status"] == "success" && !own(record) {
            let before = &records[at - 1];
            assert_eq!(before["type"], "approval", "{before}");
            assert_eq!(before["action"], record["action"]);
            assert_eq!(before["arguments"], record["arguments"]);
        }
    }
}
