//! End to end: a real shell, the real daemon, a scripted model and a real MCP server.

use crate::fakes::provider::Script;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;
use crate::tools::Tools;

use super::KEYS;

fn tools(queue: impl IntoIterator<Item = Script>, more: &str) -> Tools {
    let tools = Tools::new(queue, more);
    tools.helper.home.zshrc(&source_plugin());
    tools
}

fn call(arguments: &str) -> Script {
    Script::calls("I shall write.", &[("c", "fs.write", arguments)])
}

#[test]
fn the_call_is_made_as_shown_and_its_result_stays() {
    let done = || Script::tokens(["done"]);
    let tools = tools([call("{\"to\":\"x\"}"), done()], "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.send("clear; llm write it\r");
    zsh.wait_text(KEYS);
    let screen = zsh.screen();
    assert!(
        screen.contains("I shall write.\n  ┌ new server fs, 2 tools")
            && screen.contains("\n┌ w fs.write  "),
        "{screen}"
    );
    assert!(
        screen.contains("treated as a write; fs declares nothing\n│ to  \"x\"\n└ run?"),
        "{screen}"
    );
    assert_eq!(tools.called(), []);
    zsh.press_until("y", "done");
    zsh.prompt();
    let sent = ("write".to_owned(), serde_json::json!({"to": "x"}));
    assert_eq!(tools.called(), [sent]);
    let screen = zsh.screen();
    assert!(screen.contains("  ┌ w fs.write\n  │ "), "{screen}");
    let (status, text) = tools.results().remove(0);
    assert_eq!(status, "success");
    let last = zsh.eval("llm :last");
    assert!(last.contains("┌ w fs.write · success · "), "{last}");
    for line in text.lines() {
        assert!(last.contains(&format!("│ {line}\n")), "{last}");
    }
    assert!(last.ends_with("└\ndone\n"), "{last}");
}

#[test]
fn a_denial_reaches_the_model_with_the_users_reason() {
    let tools = tools([call("{}"), Script::tokens(["as you wish"])], "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.send("clear; llm write it\r");
    zsh.wait_text(KEYS);
    zsh.press_until("d", "\n> ");
    zsh.send("not today\r");
    zsh.wait_text("as you wish");
    zsh.prompt();
    assert_eq!(tools.called(), []);
    assert!(
        tools.results_in_request(1)[0].contains("not today"),
        "{:?}",
        tools.results_in_request(1)
    );
    assert!(
        zsh.screen().contains("  └ fs.write · denied\n"),
        "{}",
        zsh.screen()
    );
}

#[test]
fn no_call_is_made_if_the_daemon_is_killed_during_the_question() {
    let tools = tools([call("{}")], "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.send("clear; llm \"write it\"; print code=$?\r");
    zsh.wait_text(KEYS);
    tools.helper.kill_daemon();
    zsh.prompt();
    assert!(
        zsh.screen().contains("the daemon exited: not called"),
        "{}",
        zsh.screen()
    );
    assert!(zsh.screen().contains("code=1"), "{}", zsh.screen());
    assert_eq!(tools.called(), []);
}

#[test]
fn without_a_terminal_nothing_is_called_and_the_code_is_4() {
    let tools = tools([call("{}"), Script::tokens(["well"])], "");
    let run = tools
        .helper
        .program("setsid")
        .args(["-w", "aish-helper", "ask", "write it"])
        .run();
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr.contains("denied: no terminal to ask on"),
        "{run:?}"
    );
    assert_eq!(run.stdout, "I shall write.\nwell\n");
    assert_eq!(tools.called(), []);
}
