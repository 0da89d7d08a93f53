//! What happens around commands: private lines, a cleared screen, empty lines, a resized pane, other panes, a long output.

use std::time::{Duration, Instant};

use serde_json::json;

use super::multiplexer::{Kind, Shell};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;

const PROMPT: &str = "PROMPT=$'%F{blue}%n %~%f\\n$ '";

#[test]
fn a_line_with_a_leading_space_and_its_output_never_appear() {
    for prompt in [PROMPT, "PROMPT='$ '"] {
        let helper = Helper::saying("fine");
        let prompt = format!("setopt hist_ignore_space\n{prompt}");
        let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
        shell.run("echo public");
        shell.run(" echo private-word");
        shell.run(" echo private-again");
        let told = shell.output(1);
        assert_eq!(told["command"], "echo public");
        assert_eq!(told["output"], "public\n", "{told}");
        shell.run("echo next");
        for number in [1, 2] {
            let told = shell.output(number).to_string();
            assert!(!told.contains("private"), "{told}");
        }
    }
}

#[test]
fn empty_and_abandoned_lines_are_no_output() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("echo before; sh -c 'exit 4'");
    shell.run("");
    shell.run("");
    shell.keys("a half-typed secret line");
    shell.wait_text("secret line");
    shell.press("C-c");
    shell.wait();
    let told = shell.output(1);
    assert_eq!(told["output"], "before\n", "{told}\n{}", shell.screen());
}

#[test]
fn runs_of_a_failing_command_keep_their_output() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    // More than are examined to recognize the prompt.
    for _ in 0..14 {
        shell.run("sh -c 'echo compiling; echo error: x; exit 2'");
    }
    let told = shell.output(1);
    let whole = (&told["certainty"], &told["output"]);
    let wanted = (&json!("whole"), &json!("compiling\nerror: x\n"));
    assert_eq!(whole, wanted, "{told}");
}

#[test]
fn lines_behind_signs_that_are_not_recorded_are_no_output() {
    for prompt in [
        "PROMPT=$'╭─ %~ main ─╮\\n╰─❯ '",
        "PROMPT='%(?.✔.✘ %?) %n %~ ❯❯ '",
    ] {
        let helper = Helper::saying("fine");
        let prompt = format!("setopt hist_ignore_space\n{prompt}");
        let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
        shell.run("echo before; sh -c 'exit 4'");
        shell.run(" echo private-word; sh -c 'exit 3'");
        let told = shell.output(1);
        assert_eq!(told["output"], "before\n", "{told}\n{}", shell.screen());
        shell.run("echo again");
        shell.keys("a half-typed secret é");
        shell.wait_text("secret é");
        shell.press("C-c");
        shell.wait();
        let told = shell.output(1);
        assert_eq!(told["output"], "again\n", "{told}\n{}", shell.screen());
    }
}

#[test]
fn a_private_line_that_no_daemon_heard_of_is_not_taken_for_a_later_one() {
    let helper = Helper::saying("fine");
    let prompt = "setopt hist_ignore_space\nPROMPT='$ '\n\
        show() { print -r -- \"<$_aish[entered]>\" >|$HOME/entered }; precmd_functions+=( show )";
    let mut shell = Shell::start(&helper, Kind::Tmux, prompt);
    shell.run("echo before");
    helper.call(["stop", "--now"]).run().ok();
    // The first one finds out that nobody listens.
    shell.run(" true");
    shell.run(" true");
    shell.keys("typo");
    shell.wait_text("typo");
    shell.press("C-c");
    shell.wait();
    assert_eq!(helper.home.read("entered"), "<>\n");
}

#[test]
fn what_was_cleared_is_not_replaced_by_something_else() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("echo gone");
    shell.press("C-l");
    shell.run("true");
    shell.run("clear");
    let told = shell.output(1);
    assert!(matches!(told["output"].as_str(), None | Some("")), "{told}");
    let told = shell.output(3);
    assert!(
        matches!(told["output"].as_str(), None | Some("gone\n")),
        "{told}"
    );
}

#[test]
fn a_command_that_clears_the_screen_first_has_an_output() {
    for prompt in [PROMPT, "PROMPT='$ '"] {
        let helper = Helper::saying("fine");
        let prompt = format!("setopt hist_ignore_space\n{prompt}");
        let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
        shell.run("echo other");
        for command in [
            "clear && ls /nope",
            "clear; ls /nope",
            "tput clear; ls /nope",
        ] {
            shell.run(command);
            let told = shell.output(1);
            let output = told["output"].as_str().unwrap_or_default();
            assert!(output.contains("/nope"), "{command}: {told}");
            assert!(output.lines().count() == 1, "{command}: {told}");
            let told = shell.output(2);
            let output = told["output"].as_str().unwrap_or_default();
            assert!(!output.contains("/nope"), "{command}: {told}");
        }
        // What a private line printed is not the output of the command before it.
        shell.run("clear; true");
        shell.run(" clear; echo private");
        let told = shell.output(1).to_string();
        assert!(!told.contains("private"), "{told}");
    }
}

/// In the first row of the screen, zsh clears all of it to draw the short form of the prompt, and tmux keeps the long one above.
#[test]
fn a_line_behind_the_long_form_of_a_transient_prompt_is_no_output() {
    for long in [
        "╭─ %~ on main %(?..✘ %?)\\n╰─❯ ",
        "%n %~\\n❯ ",
        "[%*] %~ ❯ ",
    ] {
        let prompt = format!(
            "setopt hist_ignore_space\nlong() {{ PROMPT=$'\\n{long}' RPROMPT='%*' }}; precmd_functions+=( long )\n\
             short() {{ PROMPT='❯ ' RPROMPT=; zle reset-prompt }}; zle -N zle-line-finish short"
        );
        let helper = Helper::saying("fine");
        let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
        let nothing = |told: &serde_json::Value| {
            assert!(matches!(told["output"].as_str(), None | Some("")), "{told}");
        };
        shell.run("echo other");
        shell.run("clear; false");
        nothing(&shell.output(1));
        shell.run("clear && true");
        shell.run("ls /nope");
        nothing(&shell.output(2));
        let told = shell.output(1);
        assert!(told["output"].to_string().contains("/nope"), "{told}");
        shell.run("clear");
        shell.run(" echo private");
        nothing(&shell.output(1));
        shell.run("clear; echo left");
        let told = shell.output(1);
        assert_eq!(told["output"], "left\n", "{told}\n{}", shell.screen());
        shell.run("clear; false");
        shell.run("llm fix it");
        let content = helper.content();
        assert!(!content.contains("<output"), "{content}");
        // Ctrl-L leaves a prompt above the screen, and the same happens below.
        shell.run("echo before; false");
        shell.press("C-l");
        shell.run("true");
        let told = shell.output(2);
        assert_eq!(told["output"], "before\n", "{told}\n{}", shell.screen());
    }
}

#[test]
fn the_beginning_of_a_line_that_ctrl_l_leaves_is_no_output() {
    for prompt in [PROMPT, "PROMPT='$ '"] {
        let helper = Helper::saying("fine");
        let mut shell = Shell::start(&helper, Kind::Tmux, prompt);
        shell.run("echo before; false");
        shell.keys("echo par");
        shell.wait_text("$ echo par");
        shell.press("C-l");
        shell.run("tial");
        let told = shell.output(2);
        assert_eq!(told["output"], "before\n", "{told}\n{}", shell.screen());
        let told = shell.output(1);
        assert_eq!(told["output"], "partial\n", "{told}\n{}", shell.screen());
    }
}

#[test]
fn an_output_with_a_line_like_the_prompt_is_not_told_as_whole() {
    let helper = Helper::saying("fine");
    let prompt = format!("setopt hist_ignore_space\n{PROMPT}");
    let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
    shell.run("print -rl one two three '$ x' four five; ls /nope");
    shell.run(" true");
    let told = shell.output(1);
    assert_eq!(
        (&told["certainty"], &told["output"]),
        (&json!("part"), &json!("one\ntwo\n")),
        "{told}"
    );
}

#[test]
fn a_pane_may_be_resized_after_the_command() {
    for width in ["50", "120"] {
        let helper = Helper::saying("fine");
        let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
        let long = "0123456789".repeat(15);
        shell.run(&format!("echo {long}; echo end"));
        shell.tmux(&["resize-window", "-x", width, "-y", "24"]);
        let told = shell.output(1);
        let wanted = format!("{long}\nend\n");
        assert_eq!(
            told["output"],
            wanted,
            "{width}: {told}\n{}",
            shell.screen()
        );
    }
}

#[test]
fn a_question_about_a_command_is_drawn_in_its_place_after_a_resize() {
    let answer = "CMD: echo 012345678901234567890123456789012345678901234567890123456789";
    let helper = Helper::saying(answer);
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("seq 60");
    shell.keys("llm --new x");
    shell.press("Enter");
    shell.wait_text("[?]");
    let is_drawn = |screen: &str, key: &str| {
        let mut lines = screen.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(key))
    };
    // zsh waits for the question in a substitution, and sends it SIGCONT as well.
    for (width, key) in [("60", "[n] no"), ("30", "[e] edit")] {
        shell.tmux(&["resize-window", "-x", width, "-y", "24"]);
        shell.until("the new question", || is_drawn(&shell.screen(), key));
        let screen = shell.screen();
        assert_eq!(screen.matches('┌').count(), 1, "{screen}");
        assert!(screen.contains("\n60\n"), "{screen}");
    }
    shell.answer("n", "[?] no");
}

#[test]
fn to_read_in_screen_leaves_its_display_alone() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Screen, PROMPT);
    shell.run("seq 3");
    assert_eq!(shell.output(1)["output"], "1\n2\n3\n");
    // A line of screen would stay for seconds, and hold back what is printed.
    shell.keys("print sho''wn");
    shell.press("Enter");
    shell.until("the display", || {
        let display = shell.screen();
        assert!(!display.contains(")/(80,"), "{display}");
        display.contains("\nshown\n")
    });
}

#[test]
fn of_an_output_longer_than_what_screen_keeps_the_end_is_told() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Screen, PROMPT);
    shell.run("echo before");
    shell.run("seq 9000");
    let told = shell.output(1);
    assert_eq!(told["certainty"], "end", "{told}");
    let output = told["output"].as_str().expect("text");
    assert!(output.ends_with("\n8999\n9000\n") && !output.contains("before"));
}

#[test]
fn a_prompt_behind_a_pipe_is_no_command_of_the_user() {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["an answer"])));
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("sh -c 'echo the ca''use; exit 2'");
    for line in [
        "print notes | llm what is it; it's odd",
        "print notes | llm 'what is it'",
        "llm 'what is it' | cat",
    ] {
        shell.run(line);
        let told = shell.output(1);
        assert_eq!(told["output"], "the cause\n", "{line}: {told}");
    }
    shell.run("llm --output what is it");
    let content = helper.content();
    assert!(content.contains("\nthe cause\n</output>"), "{content}");
    // The command behind it is one.
    shell.run("llm 'what is it' | cat; print notes");
    assert_eq!(
        shell.output(1)["command"],
        "llm 'what is it' | cat; print notes"
    );
}

#[test]
fn another_pane_is_not_read() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("echo mine");
    shell.tmux(&["split-window", "-d", "echo other; exec sleep 1000"]);
    let told = shell.output(1);
    assert_eq!(told["output"], "mine\n", "{told}");
}

#[test]
fn of_an_output_longer_than_the_scrollback_the_end_is_told() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("echo before");
    // The history-limit of tmux is 2,000 lines.
    shell.run("seq 5000");
    let told = shell.output(1);
    assert_eq!(told["certainty"], "end", "{told}");
    let output = told["output"].as_str().expect("text");
    assert!(output.ends_with("\n4999\n5000\n") && !output.contains("before"));
}

#[test]
fn what_a_full_recording_lacks_is_read_from_the_screen_or_not_told() {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["fine"])));
    helper.config("[record]\nmax_bytes = 1048576\n");
    let mut shell = Shell::start(&helper, Kind::RecordedPane, PROMPT);
    shell.run("seq 400000 | tail -n 200000");
    // On a busy machine, to read the recording may take longer than a prompt waits for it; then the screen is read.
    let begun = Instant::now();
    let mut tries = std::iter::repeat_with(|| shell.output(1))
        .take_while(|_| begun.elapsed() < Duration::from_secs(30));
    let told = tries.find(|told| told["source"] == "recording");
    let told = told.expect("the recording is read");
    assert_eq!(told["certainty"], "part");
    assert!(
        told["output"]
            .as_str()
            .expect("text")
            .starts_with("200001\n")
    );
    shell.run("sh -c 'echo the cause; exit 2'");
    let told = shell.output(1);
    let whole = (&told["source"], &told["certainty"], &told["output"]);
    assert_eq!(
        whole,
        (&json!("tmux"), &json!("whole"), &json!("the cause\n"))
    );
    shell.run("aish-helper status >$HOME/status; aish-helper recording list --json >$HOME/list");
    let status = helper.home.read("status");
    assert!(status.contains("it is full"), "{status}");
    let list: serde_json::Value = serde_json::from_str(&helper.home.read("list")).expect("JSON");
    assert_eq!(list[0]["full"], true);
    // Neither has it now.
    shell.run("sh -c 'echo the cause; exit 2'");
    shell.tmux(&["send-keys", "-R", ";", "clear-history"]);
    shell.run("llm fix it");
    let content = helper.content();
    assert!(
        content.contains("output not captured") && !content.contains("<output"),
        "{content}"
    );
    let screen = shell.screen();
    let line = screen.replace('\n', " ");
    assert!(
        line.contains(
            "exited with 2; the recording lacks the output of that command: it has reached"
        ),
        "{screen}"
    );
}

#[test]
fn a_prompt_with_input_leaves_the_failure_before_it_to_the_next_prompt() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("sh -c 'echo the cause; exit 2'");
    shell.run("echo text | llm review this");
    assert!(!helper.content().contains("<output"), "about its input");
    shell.run("llm write a haiku");
    assert!(
        !helper.content().contains("<output"),
        "about something else"
    );
    shell.run("echo text | llm review this");
    shell.run("llm fix it");
    assert!(
        helper.content().contains("\nthe cause\n"),
        "{}",
        helper.content()
    );
    shell.run("llm why did it fail");
    assert!(!helper.content().contains("<output"), "sent once");

    shell.run("sh -c 'echo the secret; exit 2'");
    shell.run("llm --no-output hello");
    shell.run("llm fix it");
    assert!(!helper.content().contains("<output"), "kept back by hand");
}

#[test]
fn the_output_of_a_failed_command_goes_along_with_the_prompt() {
    let provider = Provider::answering(|_| Script::tokens(["fine"]));
    let helper = Helper::with(provider);
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell
        .run("sh -c 'echo the cause; echo token=ghp_abcdefghijklmnopqrstuvwxyz0123456789; exit 2'");
    shell.run("llm fix it");
    let screen = shell.screen();
    assert!(
        screen.contains("with the output of sh -c 'echo the cause;")
            && screen.contains("(2 lines, 1 secret removed)"),
        "{screen}"
    );
    let content = helper.content();
    assert!(
        content.contains("<output command=\"sh -c 'echo the cause;"),
        "{content}"
    );
    assert!(
        content.contains("exit=\"2\">\nthe cause\ntoken=[REDACTED"),
        "{content}"
    );
    assert!(!content.contains("ghp_"), "{content}");

    // A successful command, and a prompt about something else.
    shell.run("echo harmless");
    shell.run("llm write a haiku");
    assert!(
        !helper.content().contains("<output"),
        "{}",
        helper.content()
    );
    shell.run("llm --output what is this");
    assert!(
        helper.content().contains("\nharmless\n</output>"),
        "{}",
        helper.content()
    );
    shell.run("sh -c 'echo again; exit 1'");
    shell.run("llm --no-output why");
    assert!(
        !helper.content().contains("<output"),
        "{}",
        helper.content()
    );
}

#[test]
fn a_correction_sees_the_output_also_after_a_restart() {
    let answer = "The file is missing.\nCMD: true\n";
    // The prompt of `llm :fix` has an exit code that no other prompt has.
    let with_code = format!("{PROMPT}\nPS1='%(?..%? )$ '");
    for prompt in [PROMPT, &with_code] {
        let helper = Helper::with(Provider::answering(move |_| Script::tokens([answer])));
        let mut shell = Shell::start(&helper, Kind::Tmux, prompt);
        // The new daemon was not told where the shell runs.
        helper.call(["restart"]).run().ok();
        shell.run("sh -c 'echo the cause; exit 2'");
        shell.run("llm :fix");
        shell.wait_text("The file is missing.");
        assert!(
            helper.content().contains("\nthe cause"),
            "{}",
            helper.content()
        );
    }
}

#[test]
fn a_model_may_ask_for_output_and_the_question_shows_it() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        match messages.contains("\"role\":\"tool\"") {
            true => Script::tokens(["I have seen it."]),
            false => Script::calls("", &[("c1", "terminal_output", r#"{"lines":2}"#)]),
        }
    });
    let helper = Helper::with(provider);
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("seq 5");
    shell.keys("llm tell me about numbers");
    shell.press("Enter");
    shell.wait_text("what would be sent:");
    let screen = shell.screen();
    assert!(
        screen.contains("$ seq 5") && screen.contains("[exit 0, 5 lines; the last 2]"),
        "{screen}"
    );
    shell.answer("y", "I have seen it.");
    let last = helper.provider.requests().pop().expect("a request");
    assert_eq!(last.tool_names(), ["terminal_output"]);
    let messages = last.json["messages"].to_string();
    assert!(messages.contains("the last 2]\\n4\\n5"), "{messages}");
}

#[test]
fn an_edited_request_for_output_is_asked_about_again() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        match messages.contains("\"role\":\"tool\"") {
            true => Script::tokens(["I have seen it."]),
            false => Script::calls("", &[("c1", "terminal_output", r#"{"lines":2}"#)]),
        }
    });
    let helper = Helper::with(provider);
    let prompt = format!("{PROMPT}\nexport EDITOR='sed -i s/2/3/'");
    let mut shell = Shell::start(&helper, Kind::Tmux, &prompt);
    shell.run("seq 5");
    shell.keys("llm tell me about numbers");
    shell.press("Enter");
    shell.wait_text("5 lines; the last 2]");
    shell.answer("e", "edited");
    shell.answer("y", "5 lines; the last 3]");
    shell.answer("y", "I have seen it.");
    let last = helper.provider.requests().pop().expect("a request");
    let messages = last.json["messages"].to_string();
    assert!(messages.contains("the last 3]\\n3\\n4\\n5"), "{messages}");
}

#[test]
fn a_rule_that_denies_outputs_keeps_them_here() {
    let helper = Helper::saying("fine");
    helper.config("[policy.rules]\n\"shell.output\" = \"deny\"\n");
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("sh -c 'echo the cause; exit 2'");
    shell.run("llm fix it");
    assert!(
        !helper.content().contains("<output"),
        "{}",
        helper.content()
    );
    shell.run("llm --output fix it");
    assert!(
        helper.content().contains("\nthe cause\n"),
        "{}",
        helper.content()
    );
}

#[test]
fn a_model_that_asks_for_an_output_that_is_gone_answers_without_it() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        match messages.contains("\"role\":\"tool\"") {
            true => Script::tokens(["I do without."]),
            false => Script::calls("", &[("c1", "terminal_output", "{}")]),
        }
    });
    let helper = Helper::with(provider);
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("seq 5");
    shell.run(" clear");
    shell.run("llm tell me about numbers");
    shell.wait_text("I do without.");
    let last = helper.provider.requests().pop().expect("a request");
    let messages = last.json["messages"].as_array().expect("messages");
    let content = &messages.last().expect("a message")["content"];
    assert_eq!(
        *content,
        "aish could not find the output of that command in tmux"
    );
}

#[test]
fn a_model_that_asks_for_an_unknown_command_is_told_which_ones_there_are() {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].to_string();
        match messages.contains("\"role\":\"tool\"") {
            true => Script::tokens(["I was wrong."]),
            false => Script::calls("", &[("c1", "terminal_output", r#"{"command":7}"#)]),
        }
    });
    let helper = Helper::with(provider);
    let mut shell = Shell::start(&helper, Kind::Tmux, PROMPT);
    shell.run("seq 5");
    shell.run("true");
    shell.run("llm tell me about numbers");
    shell.wait_text("I was wrong.");
    let last = helper.provider.requests().pop().expect("a request");
    let messages = last.json["messages"].as_array().expect("messages");
    let content = &messages.last().expect("a message")["content"];
    assert_eq!(
        *content,
        "there is no command number 7: the numbers 1 (the last command) to 2 are known"
    );
    let told = shell.output(7);
    assert_eq!(told["reason"], *content, "{told}");
}

#[test]
fn plugin_and_daemon_know_the_same_variables() {
    let load = include_str!("../../zsh/functions/_aish_load");
    let line = load.lines().find(|line| line.starts_with("  terminal '"));
    let names = line.and_then(|line| line.split('\'').nth(1));
    let names: Vec<&str> = names.expect("the names").split(' ').collect();
    assert_eq!(names, aish::paths::TERMINAL_VARIABLES);
}
