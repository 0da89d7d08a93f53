//! A configuration that asks less than the one that a person has seen last counts after a confirmation.

use std::cell::Cell;
use std::time::{Duration, Instant};

use aish::client::connect;
use aish::paths::Paths;
use aish::protocol::{Proposal, Request};

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;
use crate::support::shell_id;

const QUESTION: &str = "the configuration has changed since you last saw it";

/// A helper whose model proposes a command, and whose configuration was seen.
fn helper() -> Helper {
    let helper = Helper::with(Provider::answering(|_| {
        Script::tokens(["CMD: print one\n"])
    }));
    helper.home.zshrc("");
    helper.ask("x");
    helper
}

/// Appends to the configuration as any program can.
fn append(helper: &Helper, more: &str) {
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.change_config(&(text + more));
}

/// Whether a proposed command is asked about.
fn confirms(helper: &Helper) -> bool {
    helper.ask("x");
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let next = Request::NextProposal {
        shell: shell_id("s1"),
        cwd: "/".into(),
        overrides: Default::default(),
    };
    let proposal: Option<Proposal> = connect::request(&paths, &next).unwrap();
    proposal.unwrap().confirm
}

fn waits(helper: &Helper) -> bool {
    let status = helper.call(["status"]).run().ok();
    let doctor = helper.call(["doctor"]).run().stdout;
    let waits = status.contains("not in force");
    assert_eq!(
        waits,
        doctor.contains("changes that loosen it are not in force"),
        "{doctor}"
    );
    waits
}

/// Sends a prompt from the terminal and waits for the question.
fn prompt(helper: &Helper, zsh: &mut Zsh<'_>) {
    let _ = std::fs::remove_file(helper.home.path("code"));
    zsh.run("clear");
    zsh.send("aish-helper ask --shell s1 -- hi; print $? >code\r");
    zsh.wait_for("the question", |screen| {
        screen.contents().contains(QUESTION) && screen.contents().contains("[n] keep")
    });
}

/// Presses a key until it is taken; keys pressed too early are discarded.
fn press(helper: &Helper, zsh: &mut Zsh<'_>, key: &str) {
    let pressed: Cell<Option<Instant>> = Cell::new(None);
    helper.until("the key is taken", || {
        if pressed
            .get()
            .is_none_or(|at| at.elapsed() > Duration::from_millis(900))
        {
            zsh.send(key);
            pressed.set(Some(Instant::now()));
        }
        helper.home.path("code").exists()
    });
    zsh.prompt();
}

#[test]
fn loosened_configuration_counts_after_a_person_has_confirmed_it() {
    let helper = helper();
    assert!(confirms(&helper) && !waits(&helper));
    append(&helper, "[shell]\nconfirm_cmd = false\n");
    // Without a terminal the stricter value counts, also after a restart.
    assert!(confirms(&helper) && waits(&helper));
    helper.call(["restart"]).run().ok();
    assert!(confirms(&helper) && waits(&helper));
    let mut zsh = Zsh::start(&helper.home);
    prompt(&helper, &mut zsh);
    let screen = zsh.screen();
    for line in ["- shell.confirm_cmd = true", "+ shell.confirm_cmd = false"] {
        assert!(screen.contains(line), "{screen}");
    }
    press(&helper, &mut zsh, "n");
    assert_eq!(helper.home.read("code"), "0\n", "the prompt was answered");
    assert!(confirms(&helper) && waits(&helper));
    // Not asked again until it changes again.
    zsh.run("aish-helper ask --shell s1 -- again");
    append(
        &helper,
        "[mcp.servers.evil]\ncommand = \"/bin/evil\\u001b[2J\"\n",
    );
    prompt(&helper, &mut zsh);
    assert!(
        zsh.screen().contains("+ mcp.servers.evil: /bin/evil‹"),
        "{}",
        zsh.screen()
    );
    press(&helper, &mut zsh, "y");
    assert!(!confirms(&helper) && !waits(&helper));
}

#[test]
fn a_renamed_default_model_is_asked_about() {
    let helper = helper();
    let renamed = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.change_config(
        &renamed
            .replace("\"fake\"", "\"gpt\"")
            .replace("models.fake", "models.gpt"),
    );
    let list = helper.call(["model", "list"]).run();
    assert!(list.stderr.contains("waits for a confirmation"), "{list:?}");
    let mut zsh = Zsh::start(&helper.home);
    prompt(&helper, &mut zsh);
    assert!(zsh.screen().contains("+ models.gpt: "), "{}", zsh.screen());
    press(&helper, &mut zsh, "y");
    assert_eq!(helper.home.read("code"), "0\n", "the prompt was answered");
    assert!(
        helper
            .call(["model", "list"])
            .run()
            .ok()
            .starts_with("* gpt")
    );
}

#[test]
fn tightened_configuration_counts_at_once_and_loosening_it_again_does_not() {
    let helper = helper();
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.config("[policy.rules]\nshell = \"allow\"\n");
    assert!(!confirms(&helper) && !waits(&helper));
    helper.change_config(&text);
    assert!(confirms(&helper) && !waits(&helper));
    append(&helper, "[policy.rules]\nshell = \"allow\"\n");
    assert!(confirms(&helper) && waits(&helper));
}

#[test]
fn change_by_aish_counts_as_seen_if_it_was_made_at_a_terminal() {
    let helper = helper();
    let servers = "{\"mcpServers\": {\"a\": {\"command\": \"prog\"}}}";
    std::fs::write(helper.home.path("a.json"), servers).unwrap();
    std::fs::write(
        helper.home.path("b.json"),
        servers.replace("\"a\"", "\"b\""),
    )
    .unwrap();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("aish-helper mcp import a.json");
    assert!(
        helper
            .home
            .read("aish/config/config.toml")
            .contains("servers.a")
    );
    assert!(!waits(&helper));
    // A script is not a person.
    helper.call(["mcp", "import", "b.json"]).run().ok();
    assert!(waits(&helper));
}

#[test]
fn missing_record_of_what_was_seen_does_not_count_as_seen() {
    let helper = helper();
    helper.call(["stop"]).run().ok();
    std::fs::remove_file(helper.path("state/config-seen.json")).unwrap();
    append(&helper, "[shell]\nconfirm_cmd = false\n");
    helper.call(["start"]).run().ok();
    assert!(waits(&helper), "the journal shows an earlier use");
    let mut zsh = Zsh::start(&helper.home);
    prompt(&helper, &mut zsh);
    assert!(zsh.screen().contains("+ models.fake: "), "{}", zsh.screen());
    press(&helper, &mut zsh, "y");
    assert!(!confirms(&helper) && !waits(&helper));
}

#[test]
fn long_command_is_shown_whole_in_the_question() {
    let helper = helper();
    let long = "x".repeat(1_500);
    append(
        &helper,
        &format!(
            "[models.evil]\nbase_url = \"https://evil.example/v1\"\nmodel = \"m\"\nkey_cmd = \"pass {long}\\u0007 | evil-end\"\n"
        ),
    );
    let mut zsh = Zsh::start(&helper.home);
    prompt(&helper, &mut zsh);
    let screen = zsh.screen();
    assert!(
        screen.contains("evil-end") && !screen.contains('…'),
        "{screen}"
    );
    let doctor = helper.call(["doctor"]).run().stdout;
    assert!(
        doctor.contains("+ models.evil") && !doctor.contains("evil-end"),
        "{doctor}"
    );
    press(&helper, &mut zsh, "n");
}

#[test]
fn login_does_not_connect_to_an_address_that_waits_for_a_confirmation() {
    let helper = helper();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    append(
        &helper,
        &format!("[mcp.servers.evil]\nurl = \"http://{address}/mcp\"\n"),
    );
    let login = helper.call(["mcp", "login", "evil"]).run();
    assert!(
        login.stderr.contains("the configuration has changed"),
        "{}",
        login.stderr
    );
    helper.call(["doctor"]).run();
    let connected = listener.accept().map(|_| ());
    assert_eq!(
        connected.unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    // A deny that was taken out of the file still holds.
    helper.config("[policy.rules]\n\"fs.write\" = \"deny\"\n");
    helper.ask("x");
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.change_config(&text.replace("\"fs.write\" = \"deny\"\n", ""));
    std::fs::write(
        helper.home.path("a.json"),
        "{\"mcpServers\": {\"a\": {\"command\": \"prog\"}}}",
    )
    .unwrap();
    let import = helper.call(["mcp", "import", "a.json"]).run();
    assert!(import.stderr.contains("says deny"), "{}", import.stderr);
}
