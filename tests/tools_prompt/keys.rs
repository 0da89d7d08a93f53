//! Keys of an approval, and how it ends without one.

use std::time::Duration;

use aish::protocol::tools::ApprovalVerdict;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;
use crate::support::home::source_plugin;

const NO: ApprovalVerdict = ApprovalVerdict::No { words: None };

#[test]
fn each_key_says_what_it_means() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    for (key, expected) in [
        ("y", ApprovalVerdict::Once),
        ("Y", ApprovalVerdict::Once),
        ("t", ApprovalVerdict::Tool),
        ("T", ApprovalVerdict::Tool),
        ("r", ApprovalVerdict::Reads),
        ("n", NO),
        ("\r", NO),
        ("\x04", NO),
    ] {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{\"a\":1}"));
        zsh.wait_text(KEYS);
        let answer = verdict(press(&zsh, &mut prompt, key));
        assert_eq!(answer, (expected, "{\"a\":1}".to_owned()), "{key:?}");
        prompt.reply("stop");
        zsh.prompt();
    }
    // The terminal modes are restored.
    assert_eq!(
        zsh.eval("stty -a | grep -ow -e '-*echo' -e '-*icanon' -e '-*isig'"),
        "isig\nicanon\necho\n"
    );
}

#[test]
fn other_keys_and_pastes_do_not_answer() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
    zsh.wait_text(KEYS);
    zsh.press_until("x", "not one of the keys; press ? for help");
    zsh.press_until("\x1b", "not one of the keys; press ? for help");
    // In one row, which the answer clears: neither pushes the question off the screen.
    let screen = zsh.screen();
    assert_eq!(screen.matches("└ run?").count(), 1, "{screen}");
    assert_eq!(screen.matches("not one of the keys").count(), 1, "{screen}");
    for keys in ["yy", "\x1b[200~y\x1b[201~", "\x1b", "\x1bOP", "é"] {
        zsh.send(keys);
        assert_eq!(
            prompt.reaction_within(Duration::from_millis(300)),
            None,
            "{keys:?}"
        );
    }
    assert_eq!(verdict(press(&zsh, &mut prompt, "n")).0, NO);
    prompt.reply("stop");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(!screen.contains("not one of the keys"), "{screen}");
    assert!(screen.contains("\nno\n"), "{screen}");
}

#[test]
fn the_word_yes_is_typed_and_what_is_wrong_with_it_is_told() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut question = question("{}");
    question.effect.typed_yes = true;
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question);
    zsh.wait_text("run? [yes]");
    zsh.press_until("yes", "type yes, it must not be pasted");
    zsh.press_until("y", "type yes to run it");
    zsh.send("\r");
    zsh.wait_text("not run: type the whole word yes");
    assert_eq!(prompt.reaction_within(Duration::from_millis(200)), None);
    // The keys follow, and the question is not drawn again.
    let screen = zsh.screen();
    assert_eq!(screen.matches("┌ w github").count(), 1, "{screen}");
    assert_eq!(screen.matches("└ run? [yes]").count(), 2, "{screen}");
    zsh.press_until("y", "type yes to run it");
    zsh.send("es\r");
    let reaction = prompt.reaction_within(crate::support::PATIENCE);
    let given = verdict(reaction.expect("an answer")).0;
    assert_eq!(given, ApprovalVerdict::Once);
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn always_takes_two_keys() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
    zsh.wait_text(KEYS);
    zsh.press_until(
        "a",
        "always is [A], with Shift; for this session alone it is [t]",
    );
    for other in ["y", "a", "\r", "\x1b", "t"] {
        zsh.press_until("A", "[A] again: always allow   any other key: back ");
        // After a silence, so that the key counts as a new one.
        zsh.press_until(other, "back\r\n");
        assert_eq!(
            prompt.reaction_within(Duration::from_millis(200)),
            None,
            "{other:?}"
        );
    }
    let screen = zsh.screen();
    assert!(
        screen.contains(
            "\nalways: adds a rule to config.toml that allows github.create_issue with any arguments, in every session\n\
             └ [A] again: "
        ),
        "{screen}"
    );
    // A key held down counts once.
    held(&zsh, &mut prompt, "A");
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "A")),
        (ApprovalVerdict::Always, "{}".to_owned())
    );
    prompt.reply("stop");
    zsh.prompt();
    assert!(zsh.screen().contains(": back always\n"), "{}", zsh.screen());
}

#[test]
fn a_key_without_effect_is_not_offered_and_says_why() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let destroys = || {
        let mut question = question("{}");
        question.operation = OperationClass::Destructive;
        question.tool.destructive = Some(true);
        question.why = "policy.default".into();
        question.offers = vec![ApprovalScope::Tool];
        question
    };
    let by_rule = || {
        let mut question = question("{}");
        question.why = "policy.rules.\"github.*\"".into();
        question.tool.read_only = Some(true);
        question.offers.clear();
        question
    };
    let by_hand = || {
        let mut question = question("{}");
        question.why = "rules allow nothing to a server that was connected by hand".into();
        question.offers = vec![ApprovalScope::Tool];
        question
    };
    for (question, keys, says) in [
        (
            destroys(),
            "[n] no  [t] always allow this tool, this session  [e] edit ",
            [
                ("r", "server github does not declare this tool read-only"),
                ("A", "or aish may not write the configuration"),
            ],
        ),
        (
            by_rule(),
            "run? [y] yes  [n] no  [e] edit ",
            [
                ("A", "policy.rules.\"github.*\" asks every time"),
                ("r", "[r] would not cover this call, whose class is: writes"),
            ],
        ),
        (
            by_hand(),
            "[n] no  [t] always allow this tool, this session  [e] edit ",
            [
                ("r", "server github does not declare this tool read-only"),
                (
                    "a",
                    "server github was connected by hand: rules cannot allow its tools",
                ),
            ],
        ),
    ] {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question);
        zsh.wait_text(KEYS);
        assert!(zsh.screen().contains(keys), "{}", zsh.screen());
        for (key, why) in says {
            zsh.press_until(key, why);
        }
        assert_eq!(prompt.reaction_within(Duration::from_millis(100)), None);
        verdict(press(&zsh, &mut prompt, "n"));
        prompt.reply("stop");
        zsh.prompt();
    }
}

#[test]
fn keys_typed_before_the_question_are_discarded() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask x\r");
    let mut prompt = daemon.prompt();
    prompt.text("thinking\n\n");
    zsh.wait_text("thinking");
    zsh.send("yyyy\ryyyy\r");
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    zsh.wait_text(KEYS);
    assert_eq!(prompt.reaction_within(Duration::from_millis(400)), None);
    assert_eq!(verdict(press(&zsh, &mut prompt, "n")).0, NO);

    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_key_held_down_does_not_answer_until_released() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask x\r");
    let mut prompt = daemon.prompt();
    for _ in 0..2 {
        prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
        held(&zsh, &mut prompt, "y");
        assert_eq!(
            verdict(press(&zsh, &mut prompt, "y")).0,
            ApprovalVerdict::Once
        );
    }
    // The end of the daemon is noticed while a key is held down.
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    held(&zsh, &mut prompt, "y");
    drop(prompt);
    for _ in 0..PATIENCE.as_millis() / 20 {
        if zsh.screen().contains("the aish daemon exited") {
            break;
        }
        zsh.send("y");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(zsh.screen().contains("the aish daemon exited"));
    zsh.send("\x15");
    zsh.prompt();
}

#[test]
fn a_key_pressed_before_the_question_and_held_does_not_answer() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask x\r");
    let mut prompt = daemon.prompt();
    prompt.text("thinking\n\n");
    zsh.wait_text("thinking");
    zsh.send("y");
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    zsh.wait_text(KEYS);
    // The delay before a key repeats.
    assert_eq!(prompt.reaction_within(Duration::from_millis(450)), None);
    held(&zsh, &mut prompt, "y");
    // Another key counts immediately.
    let pressed = Instant::now();
    zsh.send("n");
    assert_eq!(verdict(prompt.reaction()).0, NO);
    let waited = pressed.elapsed();
    assert!(waited < Duration::from_millis(700), "{waited:?}");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn the_first_repeat_of_a_key_that_another_program_read_does_not_answer() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    loop {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
        zsh.wait_text(KEYS);
        assert_eq!(prompt.reaction_within(Duration::from_millis(250)), None);
        let first = Instant::now();
        zsh.send("y");
        std::thread::sleep(Duration::from_millis(30));
        zsh.send("y");
        // A machine that stalls does not send repeats in time.
        let is_repeat = first.elapsed() < Duration::from_millis(80);
        let answer = prompt.reaction_within(Duration::from_millis(300));
        if is_repeat {
            assert_eq!(answer, None);
            assert_eq!(verdict(press(&zsh, &mut prompt, "n")).0, NO);
        } else if answer.is_none() {
            press(&zsh, &mut prompt, "n");
        }
        prompt.reply("stop");
        zsh.prompt();
        if is_repeat {
            return;
        }
    }
}

/// The keyboard repeats five times a second, and the key was pressed before the question.
#[test]
fn a_key_that_repeats_slowly_does_not_answer() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    loop {
        let started = Instant::now();
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
        zsh.wait_text(KEYS);
        assert_eq!(prompt.reaction_within(Duration::from_millis(150)), None);
        // A machine that stalls does not send repeats in time.
        let mut is_in_time = started.elapsed() < Duration::from_millis(650);
        for _ in 0..6 {
            let sent = Instant::now();
            zsh.send("y");
            let answer = prompt.reaction_within(Duration::from_millis(200));
            is_in_time &= sent.elapsed() < Duration::from_millis(600);
            if !is_in_time {
                break;
            }
            assert_eq!(answer, None);
        }
        if is_in_time {
            assert_eq!(verdict(press(&zsh, &mut prompt, "n")).0, NO);
        }
        prompt.reply("stop");
        zsh.prompt();
        if is_in_time {
            return;
        }
        zsh.send("\x15");
    }
}

/// Both keys come so early that they could be repeats of keys that were pressed before the question.
#[test]
fn of_two_early_keys_the_last_one_answers() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    loop {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
        zsh.wait_text(KEYS);
        assert_eq!(prompt.reaction_within(Duration::from_millis(150)), None);
        let sent = Instant::now();
        zsh.send("y");
        let answer = prompt.reaction_within(Duration::from_millis(150));
        zsh.send("n");
        let is_in_time = sent.elapsed() < Duration::from_millis(500);
        let answer = answer.unwrap_or_else(|| prompt.reaction());
        prompt.reply("stop");
        zsh.prompt();
        if is_in_time {
            assert_eq!(verdict(answer).0, NO);
            return;
        }
        zsh.send("\x15");
    }
}

#[test]
fn a_terminal_with_event_types_tells_a_press_from_a_repeat() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let line = "TERM=xterm-kitty aish-helper ask x";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    for _ in 0..2 {
        zsh.wait_text(KEYS);
        assert_eq!(prompt.reaction_within(Duration::from_millis(200)), None);
        // Held since before the question.
        for _ in 0..30 {
            zsh.send("\x1b[121;1:2;121u");
            assert_eq!(prompt.reaction_within(Duration::from_millis(20)), None);
        }
        zsh.send("\x1b[121;1:3u");
        // A press counts immediately, although the same key was seen just before.
        let pressed = Instant::now();
        zsh.send("\x1b[121;1:1;121u");
        assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::Once);
        let waited = pressed.elapsed();
        assert!(waited < Duration::from_millis(700), "{waited:?}");
        prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    }
    // The line editor reads plain bytes, and Ctrl-C is a separate sequence.
    assert_eq!(prompt.reaction_within(Duration::from_millis(200)), None);
    zsh.send("\x1b[100;1:1;100u\x1b[100;1:3u");
    zsh.wait_text("why? (");
    zsh.send("\x1b");
    zsh.press_until("\x1b[99;5:1u", "stopped");
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::Stop);
    prompt.reply("interrupted");
    zsh.prompt();
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    let count = |text: &str| raw.matches(text).count();
    assert!(count("\x1b[>26u") >= 4, "{raw:?}");
    assert_eq!(count("\x1b[>26u"), count("\x1b[<u"), "{raw:?}");
}

#[test]
fn a_denial_may_have_a_reason() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
    zsh.wait_text(KEYS);
    zsh.press_until("d", "\n> ");
    // Esc goes back.
    zsh.press_until("\x1b", "run? [y] yes");
    zsh.press_until("d", "\n> ");
    // Left, Ctrl-A and Delete, Ctrl-E and Ctrl-W.
    zsh.send("xnicht dx\x7fas Repo, größr\x1b[De\x01\x1b[3~\x05 als\x17\x7f\r");
    let words = Some("nicht das Repo, größer".to_owned());
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::No { words });
    zsh.wait_text("> nicht das Repo, größer");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn words_longer_than_a_row_are_edited_on_one_row() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = zsh.eval("print -rn -- $TTY");
    let line = format!("stty -F {} cols 40; aish-helper ask x", tty.trim());
    let mut prompt = asked(&zsh, &daemon, &line, &question("{}"));
    zsh.wait_text(KEYS);
    zsh.press_until("d", "\n> ");
    zsh.send("one two three four five six seven eight nine ten\x17eleven\x01zero \x05!");
    zsh.wait_text("> …ur five six seven eight nine eleven!");
    assert!(!zsh.screen().contains("zero"), "{}", zsh.screen());
    zsh.send("\r");
    let words = "zero one two three four five six seven eight nine eleven!";
    let words = Some(words.to_owned());
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::No { words });
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn edited_arguments_are_shown_again_before_they_run() {
    let (home, daemon) = home();
    home.program(
        "editor",
        "#!/bin/sh\nstat -c %a \"$2\" \"$(dirname \"$2\")\" >$HOME/modes\ncat \"$2\" >$HOME/before\n\
         echo \"$2\" >$HOME/where\n. $HOME/edit\n",
    );
    let mut zsh = Zsh::start(&home);
    let edit = |script: &str| std::fs::write(home.path("edit"), script).expect("edit");
    edit("echo '{\"b\": [1, 2.0],  \"a\": \"new\"}' >\"$2\"");
    let line = "VISUAL='editor -w' aish-helper ask x";
    let mut prompt = asked(&zsh, &daemon, line, &question("{\"a\":\"old\"}"));
    zsh.wait_text(KEYS);
    zsh.press_until("e", "  edited");
    zsh.wait_text("│ b  [1, 2.0]");
    assert_eq!(
        prompt.reaction_within(Duration::from_millis(200)),
        None,
        "it is asked again"
    );
    assert_eq!(home.read("modes"), "600\n700\n");
    assert_eq!(home.read("before"), "{\n  \"a\": \"old\"\n}\n");
    assert!(!std::path::Path::new(home.read("where").trim()).exists());

    // Text that is not an object is rejected, and the next edit continues from it.
    edit("echo '[1]' >\"$2\"");
    zsh.press_until("e", "not a JSON object");
    edit("exit 3");
    zsh.press_until("e", "the editor failed with 3; the arguments are unchanged");
    assert_eq!(home.read("before"), "[1]\n");
    edit("true");
    zsh.press_until("e", "nothing has changed");
    let (given, sent) = verdict(press(&zsh, &mut prompt, "y"));
    assert_eq!(
        (given, sent.as_str()),
        (ApprovalVerdict::Once, "{\"b\":[1,2.0],\"a\":\"new\"}")
    );
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn an_edit_that_does_not_fit_must_be_read_to_its_end() {
    let (home, daemon) = home();
    home.program(
        "editor",
        "#!/bin/sh\nprintf '{\"a\":\"%02000dTAIL\"}' 7 >\"$1\"\n",
    );
    let mut zsh = Zsh::start(&home);
    let line = "EDITOR=editor aish-helper ask x";
    let mut prompt = asked(&zsh, &daemon, line, &question("{\"a\":\"old\"}"));
    zsh.wait_text(KEYS);
    zsh.press_until("e", "(2,004 bytes, ↓ to read all)");
    zsh.press_until("y", "7TAIL\"");
    assert!(
        verdict(press(&zsh, &mut prompt, "y"))
            .1
            .ends_with("7TAIL\"}")
    );
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn ctrl_c_works_as_soon_as_the_question_is_visible() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    // Once as soon as the question is visible; later several together.
    for (keys, wait) in [("\x03", 0), ("yy\x03y", 0), ("\x03\x03", 200)] {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
        zsh.wait_text(KEYS);
        assert_eq!(prompt.reaction_within(Duration::from_millis(wait)), None);
        zsh.send(keys);
        assert_eq!(
            verdict(prompt.reaction()).0,
            ApprovalVerdict::Stop,
            "{keys:?}"
        );
        prompt.reply("interrupted");
        zsh.prompt();
    }
}

#[test]
fn ctrl_c_denies_and_ends_the_turn() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let line = "aish-helper ask x; print code=$?";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    zsh.wait_text(KEYS);
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "\x03")).0,
        ApprovalVerdict::Stop
    );
    prompt.reply("interrupted");
    zsh.prompt();
    assert!(zsh.screen().contains("code=130"), "{}", zsh.screen());
    assert_eq!(
        zsh.eval("stty -a | grep -ow -e '-*echo' -e '-*icanon'"),
        "icanon\necho\n"
    );

    // A daemon that does not end the turn in time does not keep the user waiting.
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    zsh.wait_text(KEYS);
    let pressed = Instant::now();
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "\x03")).0,
        ApprovalVerdict::Stop
    );
    zsh.prompt();
    assert!(
        pressed.elapsed() < Duration::from_secs(5),
        "{:?}",
        pressed.elapsed()
    );
}

#[test]
fn ctrl_z_stops_it_and_fg_asks_again() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{\"a\":1}"));
    zsh.wait_text(KEYS);
    zsh.press_until("\x1a", "suspended");
    zsh.prompt();
    assert_eq!(
        zsh.eval("stty -a | grep -ow -e '-*echo' -e '-*icanon' -e '-*isig'"),
        "isig\nicanon\necho\n"
    );
    zsh.send("clear; fg\r");
    zsh.wait_text("│ a  1");
    zsh.wait_text(KEYS);
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "y")).0,
        ApprovalVerdict::Once
    );
    prompt.reply("stop");
    zsh.prompt();

    // A background job cannot ask.
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{\"a\":1}"));
    zsh.wait_text(KEYS);
    zsh.press_until("\x1a", "suspended");
    zsh.prompt();
    zsh.send("bg; wait\r");
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::NoTerminal);
    // Nobody else can answer either.
    prompt.event(&aish::protocol::Event::QuestionClosed {
        id: "q1".into(),
        answered_in: None,
        outcome: aish::protocol::QuestionOutcome::NoTerminal,
    });
    zsh.wait_text("denied: this is a background job");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_question_is_asked_with_stdout_in_a_pipe() {
    let (home, daemon) = home();
    home.zshrc(&source_plugin());
    let mut zsh = Zsh::start(&home);
    let line = "print data | llm \"what is this\" | tr a-z A-Z >out";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    assert_eq!(prompt.ask.attachments[0].text, "data\n");
    zsh.wait_text(KEYS);
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "y")).0,
        ApprovalVerdict::Once
    );
    prompt.text("done\n");
    prompt.reply("stop");
    zsh.prompt();
    assert_eq!(home.read("out"), "DONE\n");
}

#[test]
fn json_lines_hold_the_question_and_its_end() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let line = "aish-helper ask --json x >out";
    let mut prompt = asked(&zsh, &daemon, line, &question("{\"a\":1}"));
    zsh.wait_text(KEYS);
    verdict(press(&zsh, &mut prompt, "r"));
    prompt.reply("stop");
    zsh.prompt();
    let out = home.read("out");
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["type"], "approval_requested");
    assert_eq!(lines[0]["tool"]["name"], "github.create_issue");
    assert_eq!(
        lines[1],
        json!({"type": "confirmed", "id": "q1", "verdict": {"kind": "reads"}, "arguments": "{\"a\":1}"})
    );
    assert_eq!(lines[2]["type"], "answer");
}

#[test]
fn without_a_terminal_the_call_is_denied_with_a_notice() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let line = "setsid -w aish-helper ask x </dev/null >out 2>err; print code=$?";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::NoTerminal);
    prompt.text("well\n");
    prompt.reply("stop");
    zsh.prompt();
    assert!(zsh.screen().contains("code=4"), "{}", zsh.screen());
    assert_eq!(
        home.read("err"),
        "[aish] github.create_issue: denied: no terminal to ask on\n"
    );
    assert_eq!(home.read("out"), "well\n");
    // A background job is not asked either, and is not stopped.
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x 2>err &", &question("{}"));
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::NoTerminal);
    prompt.reply("stop");
    zsh.prompt();
    assert_eq!(zsh.eval("wait $!; print $?"), "4\n");
    assert!(home.read("err").contains("this is a background job"));
}

#[test]
fn a_call_is_denied_if_the_daemon_dies_while_it_asks() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    for before in ["", "d"] {
        let line = "aish-helper ask x; print code=$?";
        let prompt = asked(&zsh, &daemon, line, &question("{}"));
        zsh.wait_text(KEYS);
        if !before.is_empty() {
            zsh.press_until(before, "why? (");
        }
        drop(prompt);
        zsh.prompt();
        let screen = zsh.screen();
        assert!(screen.contains("the daemon exited: not called"), "{screen}");
        assert!(
            screen.contains("the aish daemon exited during the question"),
            "{screen}"
        );
        assert!(screen.contains("code=1"), "{screen}");
        assert_eq!(
            zsh.eval("stty -a | grep -ow -e '-*echo' -e '-*icanon'"),
            "icanon\necho\n"
        );
    }
}

#[test]
fn the_end_of_the_turn_withdraws_the_question() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
    zsh.wait_text(KEYS);
    // A daemon that is being stopped sends all of this.
    prompt.event(&Event::Notice {
        text: "the daemon is stopping: the call is not made".into(),
    });
    prompt.event(&Event::ToolCallFinished(
        aish::protocol::tools::CallFinished {
            id: "1".into(),
            name: "github.create_issue".into(),
            status: CallStatus::Interrupted,
            duration_ms: 0,
            bytes: 0,
            head: String::new(),
            more: 0,
            notes: Vec::new(),
        },
    ));
    prompt.reply("interrupted");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains(
            "the question was withdrawn\n[aish] the daemon is stopping: the call is not made\n[aish] interrupted\n"
        ),
        "{screen}"
    );
}

#[test]
fn a_signal_ends_the_question_as_ctrl_c_does() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let line = "sh -c 'echo $$ >pid; exec aish-helper ask x'; print code=$?";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    zsh.wait_text(KEYS);
    let pid: i32 = home.read("pid").trim().parse().expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it lives");
    assert_eq!(verdict(prompt.reaction()).0, ApprovalVerdict::Stop);
    zsh.prompt();
    assert!(zsh.screen().contains("code=130"), "{}", zsh.screen());
}

#[test]
fn closing_the_terminal_denies_the_call() {
    let (home, daemon) = home();
    let zsh = Zsh::start(&home);
    // The client ignores SIGHUP here, so that it only sees the lost terminal.
    let line = "trap '' HUP; aish-helper ask x";
    let mut prompt = asked(&zsh, &daemon, line, &question("{}"));
    zsh.wait_text(KEYS);
    drop(zsh);
    let given = verdict(prompt.reaction()).0;
    assert!(
        matches!(given, ApprovalVerdict::Stop | ApprovalVerdict::NoTerminal),
        "{given:?}"
    );
}
