//! The output of an approved command goes back to the model immediately, and a failed command of the user runs again.

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

/// A helper whose model proposes one command after another, as it sees their outputs, and then says that it is done.
fn chain() -> Helper {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        let last = |marker: &str| messages.contains(marker);
        Script::tokens([match (last("[1-done]"), last("[2-done]")) {
            (false, _) => "First this.\nCMD: print \"[$((2-1))-done]\"\n",
            (true, false) => "Then this.\nCMD: print \"[$((1+1))-done]\"\n",
            (true, true) => "All is well.\n",
        }])
    });
    Helper::with(provider)
}

fn count(screen: &vt100::Screen, text: &str) -> usize {
    screen.contents().matches(text).count()
}

#[test]
fn a_turn_goes_on_with_each_output_until_the_model_is_done() {
    let helper = chain();
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    for n in 1..=2 {
        zsh.wait_for("the question", |screen| {
            count(screen, "[c] run and continue") == n
        });
        zsh.press_until("c", &format!("[{n}-done]"));
    }
    zsh.wait_text("All is well.");
    zsh.prompt();
    let requests = helper.provider.requests();
    assert_eq!(requests.len(), 3, "{}", zsh.screen());
    let last = requests[2].json["messages"].to_string();
    assert!(
        last.contains("[1-done]") && last.contains("[2-done]"),
        "{last}"
    );
    assert!(last.contains("The command has ended; go on."), "{last}");
    let screen = zsh.screen();
    assert!(
        screen.contains("continues with the output of print"),
        "{screen}"
    );
    assert_eq!(helper.records_of("command_approval").len(), 2);
    // Nobody has typed what the model was told.
    let shown = helper.call(["session", "show"]).run().ok();
    assert_eq!(shown.matches("\n(Continued with the output)\n").count(), 2);
    assert!(!shown.contains("The command has ended"), "{shown}");
    // The next prompt is one that was typed.
    zsh.run("llm thanks");
    assert_eq!(helper.provider.requests().len(), 4);
    let list = helper.call(["session", "list", "--json"]).run().json();
    assert_eq!(list[0]["prompts"], 2, "{list}");
}

#[test]
fn a_line_of_aish_begins_behind_output_without_a_line_end() {
    let turns = [
        "CMD: printf '[1-done]'\n",
        "CMD: printf '[2-done]'; (exit 3)\n",
        "All is well.",
    ];
    let helper = Helper::new(turns.map(|text| Script::tokens([text])));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    for n in 1..=2 {
        zsh.wait_for("the question", |screen| {
            count(screen, "[c] run and continue") == n
        });
        zsh.press_until("c", &format!("[{n}-done]"));
    }
    zsh.wait_text("All is well.");
    zsh.prompt();
    let text = |row: Vec<vt100::Cell>| row.iter().map(vt100::Cell::contents).collect::<String>();
    let rows: Vec<String> = zsh.rows().into_iter().map(text).collect();
    let starts = |at: usize, text: &str| rows.get(at).is_some_and(|row| row.starts_with(text));
    let is_shown = |texts: &[&str]| {
        let from = |at: usize| (at..).zip(texts).all(|(at, text)| starts(at, text));
        (0..rows.len()).any(from)
    };
    let notice = "[aish] continues with";
    assert!(is_shown(&["[1-done]", notice]), "{rows:#?}");
    assert!(is_shown(&["[2-done]", "exit 3", notice]), "{rows:#?}");
}

#[test]
fn commands_that_are_not_offered_any_more_are_told() {
    let helper = Helper::new([
        Script::tokens(["Two.\nCMD: print -r -- fir''st\nCMD: print second\n"]),
        Script::tokens(["All is well."]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    zsh.wait_text("1 of 2");
    // A line that is typed on does not push the question away.
    let told = |zsh: &Zsh<'_>| zsh.screen().matches("not one of the keys").count();
    zsh.press_until("x", "not one of the keys");
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(1) {
        zsh.send("x");
        let pressed = std::time::Instant::now();
        while pressed.elapsed() < std::time::Duration::from_millis(300) {
            assert_eq!(told(&zsh), 1, "{}", zsh.screen());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    zsh.press_until("c", "first\r\n");
    zsh.wait_text("All is well.");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("[aish] 1 more will not be offered: the model goes on"),
        "{screen}"
    );
}

#[test]
fn y_runs_one_command_and_ends() {
    let helper = chain();
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    zsh.wait_text("[c] run and continue");
    zsh.press_until("y", "[1-done]");
    zsh.prompt();
    assert_eq!(helper.provider.requests().len(), 1);
    assert!(!zsh.screen().contains("Then this"));
}

#[test]
fn the_setting_decides_what_is_offered_and_the_depth_limits_it() {
    let helper = chain();
    helper.config("[shell]\ncontinue = \"always\"\n[mcp]\nmax_tool_depth = 1\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    zsh.wait_text("[y] run and continue");
    zsh.press_until("y", "[1-done]");
    // One command has been followed: the next one is run alone.
    zsh.wait_text("[y] run  [e] edit");
    let limit = "mcp.max_tool_depth = 1 is reached: the output waits";
    assert!(zsh.screen().contains(limit), "{}", zsh.screen());
    zsh.press_until("y", "[2-done]");
    zsh.prompt();
    assert_eq!(helper.provider.requests().len(), 2);

    let never = chain();
    never.config("[shell]\ncontinue = \"never\"\n");
    let mut zsh = Zsh::start(&never.home);
    zsh.send("llm diagnose it\r");
    zsh.wait_text("[y] run  [e] edit");
    assert!(!zsh.screen().contains("[c]"));
    zsh.press_until("n", "no");
    zsh.prompt();
}

#[test]
fn ctrl_c_ends_the_chain_and_keeps_what_was_done() {
    let provider = Provider::answering(|_| {
        Script::tokens(["Wait.\nCMD: sh -c 'echo begun; exec sleep 1000'\n"])
    });
    let helper = Helper::with(provider);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm wait\r");
    zsh.wait_text("[c] run and continue");
    zsh.press_until("c", "begun\r\n");
    zsh.send("\x03");
    zsh.prompt();
    assert_eq!(helper.provider.requests().len(), 1, "{}", zsh.screen());
    let results = helper.records_of("command_result");
    assert_eq!(results[0]["exit"], 130);
    assert!(results[0]["output"].to_string().contains("begun"));
}

#[test]
fn a_failed_command_whose_output_is_missing_can_run_again() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        Script::tokens([match messages.contains("why did that fail") {
            true => "Look first.\nCMD: print looked\n",
            false => "Hello.\n",
        }])
    });
    let helper = Helper::with(provider);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm hello");
    zsh.run("sh -c 'echo because; exit 3'");
    zsh.send("clear; llm why did that fail\r");
    zsh.wait_text("[r] first run sh -c");
    let screen = zsh.screen();
    assert!(
        screen.contains("sh -c 'echo because; exit 3' exited with 3;"),
        "{screen}"
    );
    zsh.press_until("r", "again\r\n");
    zsh.wait_for("the question about that command", |screen| {
        count(screen, "sh -c 'echo because; exit 3'") >= 2
    });
    zsh.press_until("y", "because\r\n");
    // Then the command that the model proposed.
    zsh.press_until("y", "looked\r\n");
    zsh.prompt();
    zsh.send("clear; llm and now\r");
    zsh.wait_text("Look first.");
    zsh.press_until("q", "quit\r\n");
    zsh.prompt();
    let request = helper.provider.requests().pop().unwrap();
    let messages = request.json["messages"].to_string();
    assert!(messages.contains("because\\n</output>"), "{messages}");
}

/// A helper whose model explains, and proposes nothing.
fn explaining() -> Helper {
    Helper::with(Provider::answering(|_| {
        Script::tokens(["That is how it is.\n"])
    }))
}

const FAILS: &str = "sh -c 'echo be''cause; exit 3'";

#[test]
fn output_that_is_turned_off_is_not_offered_again() {
    for (config, ask) in [
        ("", "llm --no-output why did that fail"),
        ("[context]\noutput_bytes = 0\n", "llm why did that fail"),
        (
            "[policy.rules]\n\"shell.output\" = \"deny\"\n",
            "llm why did that fail",
        ),
    ] {
        let helper = explaining();
        helper.config(config);
        let mut zsh = Zsh::start(&helper.home);
        zsh.run("llm hello");
        zsh.run(FAILS);
        zsh.run(ask);
        let screen = zsh.screen();
        assert!(!screen.contains("again"), "{screen}");
    }
}

#[test]
fn a_rule_that_denies_outputs_keeps_back_those_of_approved_commands() {
    let helper = chain();
    helper.config("[policy.rules]\n\"shell.output\" = \"deny\"\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm diagnose it\r");
    zsh.wait_text("[y] run  [e] edit");
    zsh.press_until("y", "[1-done]");
    zsh.prompt();
    zsh.send("clear; llm and now\r");
    zsh.wait_for("the second question", |screen| {
        count(screen, "[1-done]") == 0 && count(screen, "[y] run  [e] edit") == 1
    });
    zsh.press_until("n", "no");
    zsh.prompt();
    let requests = helper.provider.requests();
    let messages = requests[1].json["messages"].to_string();
    assert!(messages.contains("and now"), "{messages}");
    assert!(!messages.contains("[1-done]"), "{messages}");
}

#[test]
fn a_failed_command_is_offered_again_where_the_model_proposes_nothing() {
    let helper = explaining();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm hello");
    zsh.run(FAILS);
    zsh.send("clear; llm why did that fail\r");
    zsh.wait_text("run it again, for its output?");
    zsh.wait_text("[c] run and continue");
    let screen = zsh.screen();
    assert!(screen.contains(&format!("│ {FAILS}")), "{screen}");
    assert!(!screen.contains("[r]"), "{screen}");
    zsh.press_until("c", "because\r\n");
    zsh.prompt();
    // The model got the output, and nothing is asked after the second answer.
    let requests = helper.provider.requests();
    assert_eq!(requests.len(), 3, "{}", zsh.screen());
    let last = requests[2].json["messages"].to_string();
    assert!(last.contains("because\\n</output>"), "{last}");
    let decisions = helper.records_of("command_approval");
    assert_eq!(decisions.len(), 1);
    assert_eq!(decisions[0]["command"], FAILS);
    // Neither is after another prompt: the last line, whose exit code is 3 as well, is the one that asked.
    zsh.run("llm why did that fail");
    assert_eq!(helper.records_of("command_approval").len(), 1);
    // Its next failure is another one.
    zsh.run(FAILS);
    zsh.send("clear; llm why did that fail\r");
    zsh.wait_text("run it again, for its output?");
    zsh.press_until("n", "no\r\n");
    zsh.prompt();
}

#[test]
fn a_command_does_not_run_again_without_a_question_whatever_the_rules_allow() {
    for rules in [
        "[shell]\nconfirm_cmd = false\n",
        "[policy.rules]\nshell = \"allow\"\n",
    ] {
        let helper = explaining();
        helper.config(rules);
        let mut zsh = Zsh::start(&helper.home);
        zsh.run("llm hello");
        zsh.run("sh -c 'echo run >>runs; exit 3'");
        zsh.send("llm why did that fail\r");
        zsh.wait_text("run it again, for its output?");
        zsh.press_until("n", "no\r\n");
        zsh.prompt();
        assert_eq!(helper.home.read("runs"), "run\n");
    }
}

#[test]
fn a_command_is_not_offered_again_where_its_output_is_not_wanted() {
    let helper = explaining();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm hello");
    // `run` returns with the next prompt, and a question would precede it.
    for (command, prompt) in [
        (FAILS, "llm hello again"),
        (FAILS, "llm --no-output why did that fail"),
        ("true", "llm why did that fail"),
    ] {
        zsh.run(command);
        zsh.run(prompt);
        let screen = zsh.screen();
        assert!(!screen.contains("run it again"), "{prompt}: {screen}");
    }
    assert_eq!(helper.provider.requests().len(), 4);
    assert!(helper.records_of("command_approval").is_empty());
}

#[test]
fn a_command_is_not_offered_again_where_its_output_went_along() {
    let helper = explaining();
    helper.home.zshrc(&crate::support::home::source_plugin());
    let mut zsh = Zsh::record(&helper.home);
    zsh.run("llm hello");
    zsh.run(FAILS);
    zsh.run("llm why did that fail");
    let screen = zsh.screen();
    assert!(!screen.contains("run it again"), "{screen}");
    let requests = helper.provider.requests();
    assert_eq!(requests.len(), 2, "{screen}");
    let sent = requests[1].json["messages"].to_string();
    assert!(sent.contains("because\\n</output>"), "{sent}");
}

#[test]
fn a_command_with_a_secret_is_not_offered_again() {
    let helper = explaining();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm hello");
    // The daemon keeps a mark in place of the secret: another command.
    zsh.run("sh -c 'exit 3' ghp_abcdefghijklmnopqrstuvwxyz0123456789");
    zsh.run("llm why did that fail");
    let screen = zsh.screen();
    assert!(!screen.contains("for its output?"), "{screen}");
    assert_eq!(helper.provider.requests().len(), 2, "{screen}");
}

#[test]
fn commands_after_an_interrupted_one_are_counted_though_a_rule_denies_the_next() {
    let helper = Helper::new([Script::tokens([
        "CMD: sh -c 'echo beg''un; exec sleep 1000'\nCMD: rm -rf two\nCMD: echo three\n",
    ])]);
    helper.config("[policy.rules]\n\"op:destructive\" = \"deny\"\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm three steps\r");
    zsh.wait_text("1 of 3");
    zsh.press_until("y", "begun\r\n");
    zsh.send("\x03");
    zsh.prompt();
    zsh.wait_text("[aish] 2 left: llm :attach offers them");
    let denials = || {
        let decisions = helper.records_of("command_approval");
        decisions.iter().filter(|d| d["choice"] == "denied").count()
    };
    assert_eq!(denials(), 0, "nobody was asked about it");
    assert!(!zsh.screen().contains("not offered"), "{}", zsh.screen());
    zsh.send("clear; llm :attach\r");
    zsh.wait_text("not offered: ");
    zsh.wait_text("3 of 3");
    assert_eq!(denials(), 1);
    zsh.send("\x03");
    zsh.prompt();
}

#[test]
fn commands_of_an_interrupted_answer_are_not_offered_below_another_one() {
    let helper = Helper::new([
        Script::tokens([
            "CMD: print on''e\nCMD: sh -c 'echo begun; exec sleep 1000'\nCMD: print three\nCMD: print four\n",
        ]),
        Script::tokens(["Another.\nCMD: print othe''r\n"]),
        Script::tokens(["All is well."]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm four steps\r");
    zsh.wait_text("1 of 4");
    zsh.press_until("y", "one\r\n");
    zsh.wait_text("2 of 4");
    zsh.press_until("y", "begun\r\n");
    zsh.send("\x03");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("[aish] 2 left: llm :attach offers them"),
        "{screen}"
    );
    let first = helper.sessions()[0].file_stem().unwrap().to_owned();
    let first = first.to_string_lossy();
    zsh.send("clear; llm --new another\r");
    zsh.wait_for("the other question", |screen| {
        count(screen, "begun") == 0 && count(screen, "[c] run and continue") == 1
    });
    let screen = zsh.screen();
    assert!(!screen.contains("of 4"), "{screen}");
    zsh.press_until("c", "other\r\n");
    zsh.wait_text("All is well.");
    zsh.prompt();
    let requests = helper.provider.requests();
    let last = requests[2].json["messages"].to_string();
    assert!(
        last.contains("another") && last.contains("other\\n</output>"),
        "{last}"
    );
    // Those that were left are offered where their answer is shown, and their output waits for the next prompt there.
    zsh.send(format!("clear; llm --attach {first}\r"));
    zsh.wait_text("3 of 4");
    zsh.wait_text("[y] run  [e] edit");
    zsh.press_until("e", "edit> print three");
    zsh.interrupt();
    zsh.wait_text("[aish] 2 left: llm :attach offers them");
}
