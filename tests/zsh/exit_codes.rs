//! Exit codes of `llm` and of approved commands, and what Ctrl-C ends.

use super::offer::{after_ask, proposing};
use crate::fakes::provider::{Part, Script, text_event};
use crate::support::helper::Helper;
use crate::support::home::Home;
use crate::support::pty::Zsh;

#[test]
fn the_exit_code_is_that_of_the_last_approved_command() {
    let home = proposing(
        "",
        &[
            b"run t1 terminal\nfalse",
            b"run t2 terminal\nsh -c 'exit 7'",
            b"none",
            b"run t3 terminal\nreturn 4",
            b"none",
            b"run t4 terminal\nreturn",
            b"none",
            b"run t5 terminal\n: ${nosuch?really}",
            b"none",
        ],
    );
    let mut zsh = Zsh::start(&home);
    for exit in [7, 4, 0, 1] {
        zsh.run("llm x");
        assert_eq!(zsh.eval("print $?"), format!("{exit}\n"));
    }
    let done: Vec<String> = after_ask(&home)
        .into_iter()
        .filter(|call| call.starts_with("exec-done"))
        .collect();
    let wanted = [
        "t1 --exit 1",
        "t2 --exit 7",
        "t3 --exit 4",
        "t4 --exit 0",
        "t5 --exit 1",
    ];
    assert_eq!(done, wanted.map(|call| format!("exec-done {call}")));
}

#[test]
fn a_command_that_could_not_be_asked_about_or_recorded_is_a_failure() {
    let home = Home::with_stub(
        "case $1 in ask) exit 10 ;; propose) print -ru2 -- 'not run'; exit 1 ;; esac",
    );
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    assert_eq!(zsh.eval("print $?"), "1\n");
}

#[test]
fn a_command_that_exits_the_shell_is_reported_with_its_exit_code() {
    for command in ["exit 3", "f() { (exit 4); exit 3 }; f"] {
        let home = proposing("", &[format!("run t1 terminal\n{command}").as_bytes()]);
        let zsh = Zsh::start(&home);
        zsh.send("llm x\r");
        zsh.exit();
        assert_eq!(
            after_ask(&home),
            ["propose", "exec-done t1 --exit 3"],
            "{command}"
        );
    }
}

/// Presses Ctrl-C and checks that nothing after `llm` ran, and that the shell is unharmed.
fn interrupts(home: &Home, zsh: &mut Zsh<'_>) {
    zsh.interrupt();
    assert_eq!(zsh.eval("print $?"), "130\n");
    assert!(!home.path("behind").exists(), "{}", zsh.screen());
    assert_eq!(zsh.eval("print -r -- $options[aliases] fine"), "on fine\n");
}

#[test]
fn ctrl_c_in_the_editor_or_a_command_ends_the_line() {
    let edit = (&b"edit t1\nsome text"[..], "edit> some text");
    let run = (
        &b"run t1 terminal\nsh -c 'echo started; exec sleep 1000'"[..],
        "\nstarted",
    );
    for (answer, shown) in [edit, run] {
        for list in [
            "llm 'x' ; touch behind",
            "llm 'x' || touch behind",
            "{ llm 'x'; touch behind }",
        ] {
            let home = proposing("alias llm=llm", &[answer]);
            let mut zsh = Zsh::start(&home);
            zsh.run("unalias llm");
            zsh.send(format!("{list}\r"));
            zsh.wait_text(shown);
            interrupts(&home, &mut zsh);
        }
    }
}

#[test]
fn ctrl_c_in_the_client_ends_the_line() {
    let helper = Helper::new([
        Script::events([
            Part::from(&*text_event("half an answer")),
            Part::Gate("never"),
        ]),
        Script::tokens(["CMD: true\n"]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("unalias llm");
    zsh.send("llm 'x' ; touch behind\r");
    zsh.wait_text("half an answer");
    interrupts(&helper.home, &mut zsh);
    zsh.send("llm 'y' ; touch behind\r");
    zsh.wait_text("run this command?");
    zsh.press_until("\x03", "interrupted");
    zsh.prompt();
    assert_eq!(zsh.eval("print $?"), "130\n");
    assert!(!helper.home.path("behind").exists());
}

#[test]
fn a_killed_client_leaves_no_keyboard_mode_behind() {
    let home = Home::with_stub("kill -9 $$");
    for (term, expected) in [("xterm-kitty", 1), ("foot-extra", 1), ("xterm", 0)] {
        let mut zsh = Zsh::start(&home);
        zsh.run("setopt hist_ignore_space");
        // A line that is not recorded: nothing is left to be reported to the daemon, which does not run.
        zsh.run(&format!(" TERM={term}"));
        zsh.run("llm x");
        assert_eq!(zsh.eval("print $?"), "137\n");
        let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
        assert_eq!(raw.matches("\x1b[<u").count(), expected, "{term}");
    }
}
