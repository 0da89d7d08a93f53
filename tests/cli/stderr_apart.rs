//! The output of approved commands in a real zsh: stdout and stderr are two terminals, shown together and recorded apart.

use serde_json::Value;

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;

/// A helper whose model proposes these commands, which run without a question.
fn proposing(commands: &[&str]) -> Helper {
    let lines: Vec<String> = commands.iter().map(|c| format!("CMD: {c}\n")).collect();
    let helper = Helper::with(Provider::answering(move |_| Script::tokens(lines.clone())));
    helper.home.zshrc(&source_plugin());
    helper.config("[shell]\nconfirm_cmd = false\noutput_bytes = 1048576\n");
    helper
}

/// The whole text of an output in a record; `None` if the record has none.
fn whole(output: &Value) -> Option<&str> {
    if output.is_null() {
        return None;
    }
    assert_eq!(output["omitted"], 0, "{output}");
    output["head"].as_str()
}

#[test]
fn stderr_is_recorded_apart_and_shown_in_order() {
    let cases = [
        // Both streams, with pauses: the order is that of the writes.
        (
            "for n in 1 2 3; do print out-$n; sleep 0.2; print -u2 err-$n; sleep 0.2; done",
            "out-1\nerr-1\nout-2\nerr-2\nout-3\nerr-3\n",
            Some("err-1\nerr-2\nerr-3\n"),
        ),
        (
            "sh -c 'test -t 1 && test -t 2 && test \"$(tty <&1)\" != \"$(tty <&2)\" && echo terminals'",
            "terminals\n",
            None,
        ),
        ("sh -c 'echo alone >&2; exit 3'", "alone\n", Some("alone\n")),
        ("sh -c 'echo one; echo two >&2' 2>&1", "one\ntwo\n", None),
        (
            "sh -c 'echo three; echo lost >&2' 2>/dev/null",
            "three\n",
            None,
        ),
        (
            "sh -c 'printf \"\\033[31mred\\033[0m\\n 1%%\\r 2%%\\n\" >&2'",
            "red\n 2%\n",
            Some("red\n 2%\n"),
        ),
        ("print -n; true", "", None),
    ];
    let helper = proposing(&cases.map(|(command, ..)| command));
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("clear; llm do it");
    let results = helper.records_of("command_result");
    assert_eq!(results.len(), cases.len(), "{}", zsh.screen());
    for (result, (command, output, stderr)) in results.iter().zip(cases) {
        assert_eq!(result["command"], command);
        assert_eq!(whole(&result["output"]), Some(output), "{command}");
        assert_eq!(whole(&result["stderr"]), stderr, "{command}");
    }
    let screen = zsh.screen();
    let order = "out-1\nerr-1\nout-2\nerr-2\nout-3\nerr-3\n";
    assert!(screen.contains(order), "{screen}");
    assert!(screen.contains("\nalone\nexit 3\n"), "{screen}");
    assert!(!screen.contains("lost\n"), "{screen}");
    // The model gets both streams together, and a person sees which part was stderr.
    zsh.run("llm and now");
    let prompt = helper.content();
    assert!(
        prompt.contains("exit=\"0\">\nout-1\nerr-1\nout-2\n"),
        "{prompt}"
    );
    let id = results[0]["id"].as_str().expect("an id");
    let shown = helper.call(["activity", "show", id]).run().ok();
    let (_, stderr) = shown.split_once("\nstderr").expect(&shown);
    assert!(
        stderr.contains("err-1\\nerr-2\\nerr-3") && !stderr.contains("out-1\\n"),
        "{shown}"
    );
}

#[test]
fn much_output_on_both_streams_is_complete() {
    let command = "sh -c 'seq 1 20000 & seq 1 20000 | tr 0-9 a-j >&2; wait'";
    let helper = proposing(&[command]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm do it");
    let result = helper.records_of("command_result").pop().expect("a result");
    let numbers: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    let letters: String = numbers
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' => char::from(byte - b'0' + b'a'),
            other => char::from(other),
        })
        .collect();
    assert_eq!(whole(&result["stderr"]), Some(letters.as_str()));
    let output = whole(&result["output"]).expect("an output");
    let only = |text: &str, wanted: fn(&char) -> bool| text.chars().filter(wanted).collect();
    let (digits, small): (String, String) = (
        only(output, char::is_ascii_digit),
        only(output, char::is_ascii_lowercase),
    );
    assert!(digits == only(&numbers, char::is_ascii_digit) as String);
    assert!(small == only(&letters, char::is_ascii_lowercase) as String);
    // All of it was on the terminal before the prompt.
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    for last in ["20000\r\n", "caaaa\r\n"] {
        assert!(raw.contains(last), "{last}");
    }
}

#[test]
fn a_job_in_the_background_goes_on_printing_to_stderr() {
    let helper = proposing(&["(read -r x <gate; print -u2 -r -- late $x) &!"]);
    let gate = helper.home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm do it");
    let result = helper.records_of("command_result").pop().expect("a result");
    assert_eq!(
        (whole(&result["output"]), whole(&result["stderr"])),
        (Some(""), None)
    );
    std::fs::write(&gate, "words\n").expect("the gate");
    zsh.wait_text("late words");
}
