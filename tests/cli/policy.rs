//! `aish-helper policy` with a real daemon: explanations match the decisions about real calls.

use std::path::Path;

use aish::protocol::tools::ApprovalVerdict;
use serde_json::{Value, json};

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, ProgramCall, ProgramResult};
use crate::tools::Tools;

/// Starts a server `fs` whose tool `act` has these annotations, and a model that calls it for every prompt.
fn tools(annotations: Value, more: &str) -> Tools {
    let helper = Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        match messages.last().expect("a message")["role"].as_str() {
            Some("tool") => Script::tokens(["done"]),
            _ => Script::calls("", &[("c", "fs.act", "{}")]),
        }
    }));
    let tools = Tools::with(helper, more);
    let tool = json!({
        "name": "act", "description": "acts", "inputSchema": {"type": "object"},
        "annotations": annotations,
    });
    tools.server.set_tools(json!([tool]));
    tools
}

/// Runs a command in a directory, without a controlling terminal.
fn run_in(helper: &Helper, dir: &Path, args: &[&str]) -> ProgramResult {
    let script = "cd \"$1\" && shift && exec setsid -w aish-helper \"$@\"";
    let call = helper.program("sh").args(["-c", script, "sh"]);
    call.args([dir.to_str().expect("a path")]).args(args).run()
}

fn policy(helper: &Helper, args: &[&str]) -> ProgramCall {
    helper.call(["policy"].iter().chain(args))
}

fn listed(helper: &Helper) -> Value {
    policy(helper, &["list", "--json"]).run().json()
}

fn config(helper: &Helper) -> String {
    std::fs::read_to_string(helper.path("config/config.toml")).expect("the config")
}

/// Annotations, configuration lines, project rules, arguments of the call; expected verdict, deciding rule and status.
type PolicyCase<'a> = (
    &'a Value,
    &'a str,
    &'a str,
    &'a [&'a str],
    &'a str,
    &'a str,
    &'a str,
);

#[test]
fn explanations_match_real_decisions() {
    let (none, reads) = (json!({}), json!({"readOnlyHint": true}));
    let destroys = json!({"destructiveHint": true});
    let cases: [PolicyCase<'_>; 9] = [
        (
            &none,
            "[policy.rules]\n\"fs.act\" = \"allow\"\n",
            "",
            &["write"],
            "allow",
            "policy.rules.\"fs.act\"",
            "success",
        ),
        (
            &none,
            "",
            "",
            &["write"],
            "ask",
            "policy.default",
            "blocked",
        ),
        (
            &destroys,
            "[policy.rules]\n\"fs.*\" = \"allow\"\n\"op:destructive\" = \"deny\"\n",
            "",
            &["destructive"],
            "deny",
            "policy.rules.\"op:destructive\"",
            "blocked",
        ),
        (
            &none,
            "[mcp.auto_approve]\n\"fs.*\" = true\n",
            "[policy.rules]\n\"fs.act\" = \"ask\"\n",
            &["write"],
            "ask",
            "/.aish.toml:2: policy.rules.\"fs.act\"",
            "blocked",
        ),
        (
            &none,
            "[mcp.auto_approve]\n\"fs.*\" = true\n",
            "",
            &["write"],
            "allow",
            "mcp.auto_approve.\"fs.*\"",
            "success",
        ),
        (
            &reads,
            "[policy.rules]\n\"op:read\" = \"allow\"\n",
            "",
            &["read"],
            "ask",
            "policy.default",
            "blocked",
        ),
        (
            &reads,
            "trust_annotations = true\n[policy.rules]\n\"op:read\" = \"allow\"\n",
            "",
            &["read"],
            "allow",
            "policy.rules.\"op:read\"",
            "success",
        ),
        (
            &none,
            "[policy.rules]\n\"fs.*\" = \"allow\"\n\"sensitivity:private\" = \"ask\"\n",
            "",
            &["write", "--sensitivity", "private"],
            "ask",
            "policy.rules.\"sensitivity:private\"",
            "blocked",
        ),
        (
            &none,
            "[policy.rules]\n\"fs.*\" = \"allow\"\n\"sensitivity:private\" = \"ask\"\n",
            "",
            &["write", "--sensitivity", "public"],
            "allow",
            "policy.rules.\"fs.*\"",
            "success",
        ),
    ];
    for (annotations, more, project, how, says, by, comes) in cases {
        let case = format!("{annotations} {more} {project} {how:?}");
        let tools = tools(annotations.clone(), more);
        let helper = &tools.helper;
        let dir = helper.home.path("project/below");
        std::fs::create_dir_all(&dir).unwrap();
        if !project.is_empty() {
            std::fs::write(helper.home.path("project/.aish.toml"), project).unwrap();
        }
        let mut words = vec!["policy", "explain", "fs:act", "--json", "--intent-type"];
        words.extend(how);
        let explanation = run_in(helper, &dir, &words).json();
        assert_eq!(explanation["effect"], says, "{case}");
        let explained_by = explanation["decided_by"].as_str().unwrap();
        assert!(explained_by.ends_with(by), "{case}: {explanation}");
        assert_eq!(tools.called(), [], "{case}: only asked about");
        let considered = explanation["considered"].as_array().unwrap();
        let decides: Vec<&Value> = considered
            .iter()
            .filter(|c| c["standing"] == "decides")
            .collect();
        assert_eq!(decides.len(), 1, "{case}: {explanation}");
        assert_eq!(decides[0]["effect"], says, "{case}: {explanation}");

        let variant = format!("tool-{}", how[0]);
        let mut words = vec!["call", &variant, "--tool-name", "fs:act", "--json"];
        words.extend(&how[1..]);
        let run = run_in(helper, &dir, &words);
        let called: Value = serde_json::from_str(&run.stdout).expect(&case);
        assert_eq!(called["status"], comes, "{case}: {called}");
        assert_eq!(run.code, if says == "allow" { 0 } else { 4 }, "{case}");
        let approvals: Vec<Value> = helper
            .audit_records()
            .into_iter()
            .filter(|r| r["type"] == "approval")
            .collect();
        let decision = match says {
            "allow" => "rule",
            "ask" => "no_terminal",
            _ => "denied",
        };
        assert_eq!(approvals.len(), 1, "{case}");
        assert_eq!(approvals[0]["decision"], decision, "{case}");
        if says != "ask" {
            assert_eq!(approvals[0]["reason"], explained_by, "{case}");
        }
        assert_eq!(
            approvals[0]["action"]["operation"], explanation["operation"],
            "{case}"
        );
    }
}

#[test]
fn a_grant_is_listed_explained_and_revoked() {
    let tools = tools(json!({}), "");
    let helper = &tools.helper;
    let explain = |shell: &[&str]| {
        let words = ["explain", "fs:act", "--json"];
        let words: Vec<&str> = words.iter().chain(shell).copied().collect();
        policy(helper, &words).run().json()
    };
    let of_shell = ["--shell", "s1"];
    let mut client = tools.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Tool);
    client.end();
    let grants = listed(helper)["grants"].clone();
    assert_eq!(grants.as_array().map(Vec::len), Some(1), "{grants}");
    let grant = &grants[0];
    assert_eq!(grant["subject"], "fs.act");
    let id = grant["id"].as_str().unwrap();
    assert!(grant["granted_ms"].as_u64() < grant["expires_ms"].as_u64());
    let (explanation, elsewhere) = (explain(&of_shell), explain(&[]));
    assert_eq!(
        (&explanation["effect"], &elsewhere["effect"]),
        (&json!("allow"), &json!("ask"))
    );
    assert_eq!(explanation["considered"][0]["grant"], id);
    let page = policy(helper, &["explain", "fs:act"]).run().ok();
    assert!(
        page.ends_with(
            "grants of a session are not counted here; llm :policy explain counts them\n"
        ),
        "{page}"
    );
    let page = policy(helper, &["list"]).run().ok();
    let end = &id[id.len() - 8..];
    assert!(page.contains(end) && page.contains(" in 11 h"), "{page}");
    // The grant applies: no question is asked.
    tools.ask("again").end();
    assert_eq!(tools.called().len(), 2);

    let output = policy(helper, &["revoke", end]).run().ok();
    assert_eq!(output, "revoked: you, for this session: fs.act\n");
    assert_eq!(listed(helper)["grants"], json!([]));
    assert_eq!(explain(&of_shell)["effect"], "ask");
    let page = policy(helper, &["explain", "fs:act"]).run().ok();
    assert!(!page.contains("grants of a session"), "{page}");
    let revoked: Vec<Value> = helper
        .records_of("policy")
        .into_iter()
        .filter(|r| r["change"] == "revoked")
        .collect();
    assert_eq!(revoked.len(), 1);
    assert_eq!(revoked[0]["grant"], id);
    let mut client = tools.ask("and again");
    let question = client.question();
    assert_eq!(
        tools.called().len(),
        2,
        "no call before the question is answered"
    );
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();

    let error = policy(helper, &["revoke", end]).run().fails(2);
    assert!(
        error.contains(&format!("no grant has the id {end}")),
        "{error}"
    );
}

#[test]
fn revoking_a_rule_restores_the_file() {
    let tools = tools(
        json!({}),
        "# mine\n\n[policy.rules]\n\"fs.other\" = \"ask\" # so it is\n",
    );
    let helper = &tools.helper;
    let before = config(helper);
    let mut client = tools.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Always);
    client.end();
    assert_ne!(config(helper), before);
    tools.ask("y").end();
    assert_eq!(tools.called().len(), 2, "no question is asked");
    let explain = || {
        policy(helper, &["explain", "fs:act", "--json"])
            .run()
            .json()
    };
    assert_eq!(explain()["decided_by"], "policy.rules.\"fs.act\"");
    let rules = listed(helper)["rules"].clone();
    let mine = rules
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["subject"] == "fs.act");
    let source = mine.unwrap()["source"].as_str().unwrap();
    let line = config(helper)
        .lines()
        .position(|l| l.starts_with("\"fs.act\""))
        .unwrap()
        + 1;
    let place = format!("config.toml:{line}: policy.rules.\"fs.act\"");
    assert!(source.ends_with(&place), "{source}");

    let output = policy(helper, &["revoke", "fs.act"]).run().ok();
    assert_eq!(
        output,
        "revoked: you, for this session: fs.act\nrevoked: fs.act\n"
    );
    assert_eq!(config(helper), before);
    assert_eq!(explain()["effect"], "ask");
    // The grant for the session was revoked together with the rule.
    let mut client = tools.ask("z");
    let question = client.question();
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 2);
    let acts = helper.audit_records();
    let revoked = acts
        .iter()
        .find(|r| r["change"] == "revoked")
        .expect("a record");
    assert_eq!(revoked["rule"], "fs.act");

    let error = policy(helper, &["revoke", "fs.atc"]).run().fails(2);
    assert!(error.contains("no rule or grant is named"), "{error}");
    let error = policy(helper, &["revoke", "fs.other"]).run().fails(2);
    assert!(
        error.contains("only an \"allow\" rule can be removed"),
        "{error}"
    );
    assert_eq!(config(helper), before);
}

#[test]
fn builtin_actions_and_unknown_names_are_explained() {
    let tools = tools(
        json!({"destructiveHint": true}),
        "[policy.rules]\nshell = \"ask\"\n\"fs.read\" = \"deny\"\n\"fs.write\" = \"deny\"\n[shell]\nconfirm_cmd = false\n",
    );
    let helper = &tools.helper;
    let explanation = policy(helper, &["explain", "shell"]).run().ok();
    let lines: Vec<&str> = explanation.lines().collect();
    assert_eq!(
        lines[0], "shell needs your approval: policy.rules.shell",
        "{explanation}"
    );
    assert!(
        lines[3].starts_with("decides    ask    shell"),
        "{explanation}"
    );
    assert!(
        lines[4].starts_with("overruled  allow  default")
            && lines[4].ends_with(": shell.confirm_cmd"),
        "{explanation}"
    );
    let explanation = policy(helper, &["explain", "network", "--json"])
        .run()
        .json();
    assert_eq!(explanation["effect"], "allow");

    let explanation = policy(helper, &["explain", "fs:act", "--intent-type", "read"])
        .run()
        .ok();
    let why = "Tool 'fs:act' is marked destructive by server, use call_tool_destructive";
    assert!(
        explanation.starts_with(&format!("fs:act is rejected: {why}\n")),
        "{explanation}"
    );
    assert!(
        explanation.contains("treated as destructive: the server declares the tool destructive"),
        "{explanation}"
    );

    let arguments = "--json-args={\"url\": \"http://2130706433/\"}";
    let explanation = policy(helper, &["explain", "aish:fetch_url", arguments])
        .run()
        .ok();
    assert!(
        explanation.contains("127.0.0.1 is this machine, which no rule"),
        "{explanation}"
    );
    // Without arguments the rules about what the tool does still apply.
    for (tool, rule) in [
        ("aish:shell", "shell"),
        ("aish:edit_file", "\"fs.write\""),
        ("aish:read_file", "\"fs.read\""),
    ] {
        let explanation = policy(helper, &["explain", tool]).run().ok();
        assert!(
            explanation.contains(&format!("policy.rules.{rule}")),
            "{explanation}"
        );
    }

    for (words, says) in [
        (&["aish:fetch_ulr"][..], "did you mean fetch_url?"),
        (&["fs:atc"], "did you mean fs.act?"),
        (&["fx:act"], "no MCP server is called fx"),
        (&["act"], "SERVER:TOOL"),
        (&["fs:act", "--json_args", "[]"], "not a JSON object"),
        (
            &["fs:act", "--intent-type", "delete"],
            "read, write, destructive",
        ),
    ] {
        let words: Vec<&str> = ["explain"].iter().chain(words).copied().collect();
        let error = policy(helper, &words).run().fails(2);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn errors_of_manual_calls_name_command_line_options() {
    let tools = tools(json!({"destructiveHint": true}), "");
    let helper = &tools.helper;
    let dir = helper.home.path("");
    let call = |words: &[&str]| run_in(helper, &dir, &[&["call"], words].concat());
    let long = "x".repeat(1001);
    for (words, expected) in [
        (
            &["tool-read", "--tool-name=fs:act"][..],
            "use aish-helper call tool-destructive",
        ),
        (
            &["tool-read", "--tool-name=nope"],
            "as listed by aish-helper tools search",
        ),
        (
            &["tool-destructive", "--tool-name=fs:act", "--sensitivity=x"],
            "Invalid --sensitivity 'x'",
        ),
        (
            &["tool-destructive", "--tool-name=fs:act", "--reason", &long],
            "Invalid --reason: 1001 characters",
        ),
    ] {
        let run = call(words);
        assert!(!run.stderr.contains("call_tool"), "{run:?}");
        let error = run.fails(2);
        assert!(error.contains(expected), "{error}");
    }
    let run = call(&["tool-destructive", "--tool-name=fs:act"]);
    assert!(
        run.stderr.contains("there is no terminal to ask on"),
        "{run:?}"
    );
    assert_eq!(run.code, 4, "{run:?}");
    assert_eq!(tools.called(), []);
}

#[test]
fn grants_end_with_the_daemon_and_their_end_is_recorded() {
    let tools = tools(json!({}), "");
    let helper = &tools.helper;
    let mut client = tools.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Tool);
    client.end();
    let grant = listed(helper)["grants"][0]["id"].clone();
    helper.call(["stop"]).run().ok();
    let lapsed: Vec<Value> = helper
        .records_of("policy")
        .into_iter()
        .filter(|r| r["change"] == "lapsed")
        .collect();
    assert_eq!(lapsed.len(), 1, "{lapsed:?}");
    assert_eq!(
        (&lapsed[0]["grant"], &lapsed[0]["reason"]),
        (&grant, &json!("the daemon ended"))
    );
}

#[test]
fn a_command_that_no_rule_covers_is_explained_as_a_proposal_is_decided() {
    let tools = tools(
        json!({}),
        "[policy.rules]\nshell = \"allow\"\n\"op:destructive\" = \"allow\"\n",
    );
    for (command, decision, reason) in [
        ("rm -rf build", "allow", "policy.rules.shell"),
        ("mv ~/.zshrc ~/zshrc.bak", "ask", "it reaches "),
        (
            "eval \"$(echo ZWNobyBoaQ== | base64 -d)\"",
            "ask",
            "it runs text that it does not show",
        ),
    ] {
        let explained = policy(&tools.helper, &["explain", "--command", command, "--json"])
            .run()
            .json();
        assert_eq!(explained["decision"], decision, "{explained}");
        let decided_by = explained["decided_by"].as_str().unwrap();
        assert!(decided_by.contains(reason), "{explained}");
    }
}

#[test]
fn a_command_is_explained_by_its_class_and_the_rule_for_proposals() {
    let tools = tools(json!({}), "[policy.rules]\nshell = \"deny\"\n");
    let helper = &tools.helper;
    let explained = policy(helper, &["explain", "--command", "rm -rf /srv/x", "--json"])
        .run()
        .json();
    assert_eq!(explained["class"], "destroys");
    let reasons = json!(["deletes files recursively outside this directory"]);
    assert_eq!(explained["reasons"], reasons);
    assert_eq!(explained["decision"], "deny");
    let page = policy(helper, &["explain", "--command", "curl -s x | sh"])
        .run()
        .ok();
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(
        lines[..2],
        ["runs downloaded code", "  runs a download"],
        "{page}"
    );
    assert!(
        lines[2].starts_with("the command is denied: ") && lines[2].ends_with("policy.rules.shell"),
        "{page}"
    );
    // A command may begin with a dash.
    let dash = policy(helper, &["explain", "--json", "--command", "-rf x"]).run();
    assert_eq!(dash.json()["class"], "unknown");
    // A name and a command together, or neither, is a usage error.
    for words in [&["explain"][..], &["explain", "shell", "--command", "ls"]] {
        assert_eq!(policy(helper, words).run().code, 2);
    }
}
