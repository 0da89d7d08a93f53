//! Many concurrent shells: each gets only its own results, and the daemon's memory stays bounded.

use std::collections::BTreeSet;
use std::time::Duration;

use aish::protocol::AskRequest;
use serde_json::{Value, json};

use super::Client;
use crate::fakes::provider::{Provider, Request, Script};
use crate::fakes::steady::Steady;
use crate::support::helper::Helper;
use crate::support::shell_id;

const SHELLS: usize = 64;

/// Number of rounds with calls per prompt.
const ROUNDS: usize = 4;

/// A model that calls a tool with the name of its shell and the number of the round, and finally answers with the results.
fn model(request: &Request) -> Script {
    let messages = request.json["messages"].as_array().expect("messages");
    let text = |m: &Value| m["content"].as_str().expect("text").to_owned();
    let prompt = messages.iter().rfind(|m| m["role"] == "user");
    let prompt = text(prompt.expect("a prompt"));
    let shell = prompt.split_whitespace().last().expect("a name").to_owned();
    let results: Vec<_> = messages
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(text)
        .collect();
    if results.len() == ROUNDS {
        return Script::tokens([format!("{shell}: {}", results.join(" "))]);
    }
    let arguments = json!({ "text": format!("{shell}/{}", results.len()) }).to_string();
    let id = format!("call-{}", results.len());
    Script::calls("", &[(&id, "steady.echo", &arguments)])
}

#[test]
fn concurrent_shells_get_only_their_own_results() {
    let server = Steady::start(Duration::ZERO);
    let helper = Helper::with(Provider::answering(model));
    helper.config(&format!(
        "[mcp.servers.steady]\nurl = \"{}\"\n[mcp.auto_approve]\n\"steady.echo\" = true\n",
        server.url()
    ));
    helper.call(["start"]).run().ok();
    std::thread::scope(|scope| {
        let shells: Vec<_> = (0..SHELLS)
            .map(|n| {
                let helper = &helper;
                scope.spawn(move || {
                    let shell = format!("shell-{n}");
                    let client = Client::ask(
                        helper,
                        AskRequest {
                            shell: Some(shell_id(&shell)),
                            text: shell.clone(),
                            ..AskRequest::default()
                        },
                    );
                    let seen = client.end();
                    let results: Vec<_> = (0..ROUNDS).map(|r| format!("{shell}/{r}")).collect();
                    assert_eq!(seen.text(), format!("{shell}: {}", results.join(" ")));
                    assert_eq!(seen.calls().len(), 2 * ROUNDS, "{:?}", seen.calls());
                })
            })
            .collect();
        for shell in shells {
            shell.join().expect("a shell that got its own");
        }
    });
    let calls = server.calls();
    assert_eq!(calls.len(), SHELLS * ROUNDS);
    let different: BTreeSet<_> = calls.iter().map(ToString::to_string).collect();
    assert_eq!(different.len(), calls.len(), "each once");
    assert_eq!(helper.sessions().len(), SHELLS);
    assert_eq!(helper.records_of("approval").len(), SHELLS * ROUNDS);
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", helper.daemon()));
        let status = status.expect("its status");
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let peak = peak.expect("a peak").trim_matches([' ', '\t', 'k', 'B']);
        let megabytes = peak.parse::<u64>().expect("a number") / 1000;
        assert!(megabytes < 100, "{megabytes} MB");
    }
}
