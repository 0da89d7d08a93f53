//! `llm :mcp` and the completion of servers, tools and prompts, in a real zsh with the real helper.

use serde_json::json;

use crate::fakes::mcp_http::FakeMcpServer;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// A server with a prompt and a resource.
fn server() -> FakeMcpServer {
    FakeMcpServer::start().scripted(|request| match request.method() {
        "initialize" => Some(request.result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }))),
        "resources/list" => {
            Some(request.result(json!({"resources": [{"uri": "note:///one", "name": "one"}]})))
        }
        "resources/read" => Some(request.result(json!({"contents": [
            {"uri": request.json["params"]["uri"], "text": "buy milk"},
        ]}))),
        "resources/templates/list" => Some(request.result(json!({"resourceTemplates": []}))),
        "prompts/list" => Some(request.result(json!({"prompts": [{"name": "review"}]}))),
        "prompts/get" => {
            let code = request.json["params"]["arguments"]["code"].as_str();
            let text = format!("Review {}.\n- well", code.unwrap_or("nothing"));
            Some(request.result(json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": text}},
            ]})))
        }
        _ => None,
    })
}

#[test]
fn a_server_is_connected_and_its_prompt_asked() {
    let server = server();
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["looks fine"])));
    let mut zsh = Zsh::start(&helper.home);
    let output = zsh.eval(&format!("llm :mcp connect {} box", server.url()));
    assert_eq!(output, "box is connected: fake 1, 1 tool\n");
    let output = zsh.eval("llm :mcp");
    assert!(output.contains("box    ready   1"), "{output}");
    assert_eq!(zsh.eval("llm :mcp tools box"), "box.echo  writes  does\n");
    let output = zsh.eval("llm :mcp --json");
    assert!(output.starts_with("[{\"alias\":\"box\""), "{output}");

    let output = zsh.eval("llm :mcp prompt box.review 'code=a b'");
    assert!(output.contains("Review a b.\n- well\n"), "{output}");
    assert!(output.contains("looks fine"), "{output}");
    assert!(helper.content().contains("Review a b.\n- well"));
    let output = zsh.eval("llm :mcp prompt box.review --json; print -r -- $?");
    assert_eq!(output, "{\"text\":\"Review nothing.\\n- well\"}\n0\n");
    let output = zsh.eval("llm :mcp prompt bax.review; print -r -- $?");
    assert!(
        output.contains("did you mean box?") && output.ends_with("\n2\n"),
        "{output}"
    );
    assert_eq!(helper.provider.requests().len(), 1);

    zsh.eval("llm -r box:note:///one what is due");
    assert!(helper.content().contains("buy milk"));
    let requests = helper.provider.requests();
    assert_eq!(requests[1].json["tools"][0]["function"]["name"], "box.echo");
    zsh.eval("llm --no-tools and now");
    let requests = helper.provider.requests();
    assert!(requests[2].json.get("tools").is_none());

    let output = zsh.eval("llm :mcp disconnect box; llm :mcp list");
    assert!(
        output.contains("box is disconnected\nno MCP servers"),
        "{output}"
    );
    let output = zsh.eval("llm :mcp nonsense; print -r -- $?");
    assert!(output.ends_with("2\n"), "{output}");
}

#[test]
fn arguments_reach_the_helper_as_typed() {
    let home = Home::with_stub("[[ $2 != prompt ]] || print -r -- '-r said $HOME'");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm :mcp");
    zsh.run("llm :mcp tool a.b --json");
    zsh.run("llm -r fs:file:///~x/a#b why isn't");
    zsh.run("llm :mcp prompt a.b x=1");
    let calls = home.calls();
    assert_eq!(calls[0], ["mcp", "list"]);
    assert_eq!(calls[1], ["mcp", "tool", "a.b", "--json"]);
    let words = ["--offer", "-r", "fs:file:///~x/a#b", "why isn't"];
    assert_eq!(calls[2][3..], words);
    assert_eq!(calls[3], ["mcp", "prompt", "a.b", "x=1"]);
    assert_eq!(
        calls[4][3..],
        ["--offer", "--literal", "--", "-r said $HOME"]
    );
}

#[test]
fn tab_completes_names_known_to_the_daemon() {
    let server = server();
    let helper = Helper::new([]);
    helper.config(&format!(
        "[mcp.servers.box]\nurl = \"{}\"\nlifecycle = \"legacy\"\n",
        server.url()
    ));
    helper.home.zshrc(&format!(
        "fpath=({}/completions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n{}",
        env!("CARGO_MANIFEST_DIR"),
        source_plugin()
    ));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm :mc\tdisc\t");
    zsh.wait_text("llm :mcp disconnect");
    zsh.send("\x15");
    zsh.run("true");
    // The plugin starts a daemon about now; completion starts no MCP server in any case.
    assert_eq!(server.count("initialize"), 0);
    zsh.run("llm :mcp list >/dev/null");
    for (typed, completed) in [
        ("llm :mcp disconnect b\t", "llm :mcp disconnect box"),
        ("llm :mcp tools b\t", "llm :mcp tools box"),
        ("llm :mcp tool b\t", "llm :mcp tool box.echo"),
        ("llm :mcp prompt b\t", "llm :mcp prompt box.review"),
        (
            "aish-helper mcp disconnect b\t",
            "aish-helper mcp disconnect box",
        ),
        ("aish-helper mcp tool b\t", "aish-helper mcp tool box.echo"),
        (
            "aish-helper mcp prompt b\t",
            "aish-helper mcp prompt box.review",
        ),
        ("llm -r b\tn\t", "llm -r box:note:///one"),
        ("llm --resource=b\tn\t", "llm --resource=box:note:///one"),
    ] {
        zsh.send(typed);
        zsh.wait_text(completed);
        zsh.send("\x15");
    }
    zsh.run("true");
}
