//! Tool calls end to end: zsh on a terminal, client, daemon, and an MCP server over HTTP.

use serde_json::json;

use super::Tools;
use super::rounds::ALL;
use crate::fakes::provider::Script;
use crate::support::pty::Zsh;

fn model() -> [Script; 2] {
    [
        Script::calls("", &[("a", "fs.write", "{\"to\":\"/tmp/x\"}")]),
        Script::tokens(["All done."]),
    ]
}

#[test]
fn call_is_approved_on_the_terminal() {
    let tools = Tools::new(model(), "");
    let zsh = Zsh::start(&tools.helper.home);
    zsh.send("llm 'write it' | cat\r");
    zsh.wait_text("[?]");
    assert!(zsh.screen().contains("\"/tmp/x\""), "{}", zsh.screen());
    assert_eq!(tools.called(), []);
    zsh.answer("y", |screen| screen.contents().contains("All done."));
    assert_eq!(
        tools.called(),
        [("write".into(), json!({ "to": "/tmp/x" }))]
    );
    assert_eq!(tools.approved_at(0)[0].0, "once");
    zsh.exit();
}

#[test]
fn ctrl_c_at_the_question_keeps_the_session_consistent() {
    let tools = Tools::new(model(), "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.send("llm write it\r");
    zsh.wait_text("[?]");
    zsh.send("\x03");
    zsh.prompt();
    zsh.run("llm and now");
    zsh.wait_text("All done.");
    assert_eq!(tools.results_in_request(1), ["[denied by the user]"]);
    assert_eq!(tools.called(), []);
    zsh.exit();
}

#[test]
fn call_without_a_terminal_is_denied_with_its_exit_code() {
    let tools = Tools::new(model(), "");
    let run = tools.helper.call(["ask", "--", "x"]).run();
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (4, "All done.\n"),
        "{run:?}"
    );
    assert_eq!(
        tools.results_in_request(1),
        ["[denied: there is no terminal to ask on]"]
    );
    let tools = Tools::new(model(), ALL);
    let run = tools.helper.call(["ask", "--", "x"]).run();
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "All done.\n"),
        "{run:?}"
    );
}
