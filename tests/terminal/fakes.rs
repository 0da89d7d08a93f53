//! Terminals that are not installed: programs on PATH that check their arguments and print what the real ones do, and bad ones.

use std::time::Instant;

use crate::support::helper::Helper;
use crate::support::pty::Zsh;

/// What a terminal of 120 columns shows after `make` has failed and `llm why` was typed. The harness's prompt has a number.
const SHOWN: &str = "<1> sh -c 'exit 7'\nthe cause\n<2> llm why\n";

/// Runs a failed command and a prompt in a shell whose environment names a terminal. Returns what was sent and the screen.
fn ask(environment: &str, program: &str, script: &str) -> (String, String) {
    let helper = Helper::saying("fine");
    helper.home.program(program, script);
    let zshrc = format!("{environment}\n{}", crate::support::home::source_plugin());
    helper.home.zshrc(&zshrc);
    helper.call(["start"]).run().ok();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("sh -c 'exit 7'");
    let begun = Instant::now();
    zsh.run("llm why");
    assert!(begun.elapsed().as_secs() < 10, "the prompt goes on");
    (helper.content(), zsh.screen())
}

/// A script that prints `text` if its arguments are these, and fails otherwise.
fn script(arguments: &str, text: &str) -> String {
    format!(
        "#!/bin/sh\n[ \"$*\" = \"{arguments}\" ] || {{ echo \"not: $*\" >&2; exit 9; }}\ncat <<'END'\n{text}END\n"
    )
}

#[test]
fn terminals_are_asked_in_their_own_way() {
    let kitty = "@ --to unix:/k get-text --match id:5 --extent all --add-wrap-markers";
    for (environment, program, arguments) in [
        (
            "export KITTY_LISTEN_ON=unix:/k KITTY_WINDOW_ID=5",
            "kitten",
            kitty,
        ),
        (
            "export WEZTERM_PANE=3",
            "wezterm",
            "cli get-text --pane-id 3 --start-line -50000",
        ),
        (
            "export ZELLIJ=0 ZELLIJ_PANE_ID=2 ZELLIJ_SESSION_NAME=work",
            "zellij",
            "--session work action dump-screen --full --pane-id 2",
        ),
        (
            "export KONSOLE_DBUS_SERVICE=org.k KONSOLE_DBUS_SESSION=/Sessions/1",
            "qdbus",
            "org.k /Sessions/1 org.kde.konsole.Session.getAllDisplayedText",
        ),
    ] {
        let (content, screen) = ask(environment, program, &script(arguments, SHOWN));
        assert!(
            content.contains("exit=\"7\">\nthe cause\n</output>"),
            "{program}: {content}\n{screen}"
        );
        assert!(
            screen.contains("with the output of sh -c 'exit 7' (1 line)"),
            "{screen}"
        );
    }
    for (name, verb) in [
        ("iTerm.app", "contents of s"),
        ("Apple_Terminal", "history of t"),
    ] {
        let check = format!(
            "#!/bin/sh\ncase \"$2\" in *'{verb}'*) ;; *) exit 9;; esac\ncat <<'END'\n{SHOWN}END\n"
        );
        let (content, screen) = ask(&format!("export TERM_PROGRAM={name}"), "osascript", &check);
        assert!(
            content.contains("\nthe cause\n</output>"),
            "{name}: {content}\n{screen}"
        );
    }
}

#[test]
fn a_terminal_that_misbehaves_costs_one_line_and_the_prompt_goes_on() {
    let kitty = "export KITTY_LISTEN_ON=unix:/k KITTY_WINDOW_ID=5";
    for (what, script, line) in [
        (
            "hangs",
            "#!/bin/sh\nexec sleep 1000\n",
            "kitty did not answer within 150 ms",
        ),
        (
            "prints 100 MB",
            "#!/bin/sh\nexec head -c 100000000 /dev/zero\n",
            "kit",
        ),
        (
            "prints binary",
            "#!/bin/sh\nprintf 'a\\000b\\377'\n",
            "kitten printed binary data",
        ),
        (
            "fails",
            "#!/bin/sh\necho remote control is disabled >&2\nexit 1\n",
            "kitten failed: remote control is disabled",
        ),
        (
            "another pane",
            "#!/bin/sh\nprintf 'other%% ls\\nsecret-file\\nother%% \\n'\n",
            "could not find the output of that command in kitty",
        ),
        (
            "nothing",
            "#!/bin/sh\nexit 0\n",
            "could not find the output of that command in kitty",
        ),
    ] {
        let (content, screen) = ask(kitty, "kitten", script);
        assert!(
            !content.contains("<output") && !content.contains("secret-file"),
            "{what}: {content}"
        );
        let flat = screen.replace('\n', " ");
        assert!(
            flat.contains("sh -c 'exit 7' exited with 7;") && flat.contains(line),
            "{what}: {screen}"
        );
        assert!(screen.contains("fine"), "{what}: {screen}");
    }
    // Remote control is off.
    let (_, screen) = ask("export KITTY_WINDOW_ID=5", "kitten", "#!/bin/sh\nexit 1\n");
    assert!(
        screen.contains("kitty accepts no connections: remote control is off"),
        "{screen}"
    );
}
