//! `llm :fix` and its key: an explanation of the last failure, and the corrected command in the edit buffer.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::fakes::provider::Script;
use crate::support::helper::Helper;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// An answer in the form that the model is asked for.
const ANSWER: &str = "The file does not exist.\nThe existing one is printed.\nCMD: cat .zshrc\n";

/// A stub that keeps its input and answers with the file `answer`: the explanation, NUL, and the command.
const STUB: &str = "[[ $1 != fix ]] || { cat >$HOME/input; cat $HOME/answer }";

fn stub(answer: &str) -> Home {
    let home = Home::with_stub(STUB);
    std::fs::write(home.path("answer"), answer).expect("an answer");
    home
}

/// What the plugin says about the command that failed.
fn described(home: &Home) -> Vec<String> {
    let input = home.read("input");
    input.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn a_mistyped_name_is_corrected_without_a_model() {
    let helper = Helper::saying("never");
    let home = &helper.home;
    home.program("blorple", "#!/bin/sh\n");
    let mut zsh = Zsh::start(home);
    zsh.run("frobnicate() { true }; alias quuxly=true; PS2=");
    let mut at = 2;
    for (typed, corrected) in [
        ("blropel --a", "blorple --a"),
        ("forbnicate", "frobnicate"),
        ("quuxyl", "quuxly"),
        ("typeste x", "typeset x"),
        (
            "cd . && { X=1 noglob blorpel 'a  b' >/dev/null }",
            "cd . && { X=1 noglob blorple 'a  b' >/dev/null }",
        ),
        (
            "print blorpel; ! true || blorpel \"blorpel\" # x",
            "print blorpel; ! true || blorple \"blorpel\" # x",
        ),
        (
            "for i in 1; do blorpel $i; done",
            "for i in 1; do blorple $i; done",
        ),
    ] {
        zsh.run(typed);
        zsh.run("llm :fix");
        at += 2;
        zsh.wait_text(&format!("<{at}> {corrected}"));
        assert!(
            zsh.screen()
                .contains("no command has this name, or it is not installed.\n"),
            "{}",
            zsh.screen()
        );
        zsh.send("\x15");
        zsh.run("clear");
        at += 1;
    }
    // The history decides between names that are equally near.
    zsh.run("zorka() { true }; zorkb() { true }; zorkb; zorkb");
    zsh.run("zorka");
    zsh.run("zorkb");
    zsh.run("zorkb");
    zsh.run("zorkc");
    zsh.send("\x1bf");
    zsh.wait_text("> zorkb\nzorkc: no command has this name, or it is not installed.\nzorkb is the nearest one here. No model was asked.");
    assert!(helper.provider.requests().is_empty());
}

#[test]
fn a_program_that_is_not_installed_is_not_taken_for_a_mistyped_name() {
    let home = stub("why\0");
    let mut zsh = Zsh::start(&home);
    zsh.run("typeset -A _comps=( blorple _blorple )");
    for (typed, word) in [("blorple x", ""), ("blorplf x", "blorplf")] {
        zsh.run(typed);
        zsh.run("llm :fix");
        assert_eq!(described(&home)[3], word);
    }
}

#[test]
fn other_failures_are_one_request() {
    let helper = Helper::new([Script::tokens([ANSWER]), Script::tokens([ANSWER])]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("cat .zshcr");
    zsh.run("llm :fix");
    let explained = "\nThe file does not exist.\nThe existing one is printed.\n";
    zsh.wait_text(&format!("{explained}Its output was not read: "));
    zsh.wait_text("<3> cat .zshrc");
    assert_eq!(helper.provider.requests().len(), 1);
    let messages = helper.messages(0);
    assert_eq!(messages.len(), 2);
    let home = helper.home.path("").canonicalize().expect("a path");
    let request = format!(
        "$ cat .zshcr\n[exit 1, in {:?}; output not captured]",
        home.display().to_string()
    );
    assert_eq!(messages[1].1, request);
    assert!(helper.sessions().is_empty(), "it belongs to no session");
    // Prompts in between are not what is corrected.
    zsh.send("\x15");
    zsh.run("llm :status >/dev/null");
    zsh.run("true | llm :status >/dev/null");
    zsh.run("");
    zsh.run("llm :fix | cat");
    // Said once in a shell where it stays so.
    assert_eq!(zsh.screen().matches("was not read").count(), 1);
    let last = helper.provider.requests().len() - 1;
    assert_eq!(helper.messages(last)[1].1, request);
    zsh.wait_text("The existing one is printed.\nCMD: cat .zshrc\n");
    // The corrected command was not put on a command line.
    assert!(zsh.screen().trim_end().ends_with("<7>"), "{}", zsh.screen());
}

#[test]
fn a_secret_is_neither_an_argument_nor_sent() {
    let helper = Helper::new([Script::tokens([ANSWER])]);
    let mut zsh = Zsh::start(&helper.home);
    let key = format!("sk-proj-{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2));
    zsh.run(&format!("cat {key}"));
    zsh.run("llm :fix");
    zsh.wait_text("> cat .zshrc");
    let request = &helper.messages(0)[1].1;
    assert!(!request.contains(&key), "{request}");
    let home = stub("why\0");
    let mut zsh = Zsh::start(&home);
    zsh.run(&format!("cat {key}"));
    zsh.run("llm :fix -m fast");
    let calls = home.calls();
    assert_eq!(calls[0][0], "fix");
    assert_eq!(calls[0][3..], ["-m", "fast"]);
    assert_eq!(
        described(&home),
        [
            &format!("cat {key}"),
            "1",
            "",
            "",
            &format!("cat {key}"),
            ""
        ]
    );
}

#[test]
fn the_key_shows_the_explanation_and_one_undo_brings_the_text_back() {
    let home = stub("It is misspelt.\nThe state is shown.\0print -r -- corrected");
    for keymap in ["-e", "-v"] {
        home.zshrc(&format!(
            "AISH_FIX_KEY='^[f'\nbindkey {keymap}\nbindkey '^_' undo\n{}",
            source_plugin()
        ));
        let mut zsh = Zsh::start(&home);
        zsh.run("cat .zshcr");
        zsh.send("half a line");
        zsh.wait_text("<2> half a line");
        zsh.send("\x1bf");
        zsh.wait_text("<2> print -r -- corrected\nIt is misspelt.\nThe state is shown.");
        zsh.send("\x1f");
        zsh.wait_text("<2> half a line");
        zsh.send("\x15\x1bf");
        zsh.wait_text("<2> print -r -- corrected");
        zsh.run("");
        assert!(zsh.screen().contains("\ncorrected\n"), "{}", zsh.screen());
    }
}

#[test]
fn no_temporary_file_is_needed() {
    let home = Home::with_stub(
        "[[ $1 != fix ]] || { cat >/dev/null; cat <&8 >$HOME/line; print -rn -- $'Why.\\nHow.\\0true' }",
    );
    let mut zsh = Zsh::start(&home);
    zsh.run("TMPPREFIX=$HOME/missing/zsh");
    zsh.run("cat .zshcr");
    zsh.run("llm :fix");
    zsh.wait_text("\nHow.\n<4> true");
    assert_eq!(home.read("line"), "llm :fix\n");
}

#[test]
fn an_answer_without_a_usable_command_is_shown() {
    for (answer, shown) in [
        (
            "It is broken.\nAsk your administrator.\0",
            "Ask your administrator.",
        ),
        (
            "Why.\nHow.\0for i in 1; do",
            "How.\nnot a command that zsh can parse: for i in 1; do",
        ),
        (
            "Why.\nHow.\0nosuchprogram -x",
            "How.\nnosuchprogram is not a command here: nosuchprogram -x",
        ),
    ] {
        let home = stub(answer);
        let mut zsh = Zsh::start(&home);
        zsh.run("cat .zshcr");
        zsh.run("llm :fix");
        zsh.wait_text(&format!("{shown}\n<3>"));
        zsh.send("typed\x1bf");
        zsh.wait_text("<3> typed\n");
        zsh.wait_for("the message", |screen| {
            screen.contents().matches(shown).count() == 2
        });
    }
}

#[test]
fn without_a_failure_there_is_nothing_to_correct() {
    let home = stub("why\0true");
    home.zshrc(&format!("setopt hist_ignore_space\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    let unknown = "llm: nothing to correct: the last command of this shell is not known\n";
    assert_eq!(zsh.eval("llm :fix; print $?"), format!("{unknown}1\n"));
    zsh.run("true");
    assert_eq!(
        zsh.eval("llm :fix"),
        "llm: nothing to correct: true did not fail\n"
    );
    // A line that was given up has a separate exit code: Ctrl-G, which is not a signal that could come too early.
    zsh.run("true");
    zsh.send("abandoned\x07");
    zsh.prompt();
    assert_eq!(
        zsh.eval("llm :fix"),
        "llm: nothing to correct: true did not fail\n"
    );
    zsh.run("cat nosuch");
    zsh.run(" cat hidden");
    zsh.run("llm :fix");
    zsh.wait_text("the last command of this shell is not known\n<");
    zsh.run("zsh -fc 'kill -INT $$'");
    zsh.run("llm :fix");
    zsh.wait_text("'kill -INT $$' was interrupted\n<");
    assert!(home.calls().is_empty());
}

#[test]
fn an_error_is_shown_and_the_text_stays() {
    let home = Home::with_stub(
        "[[ $1 != fix ]] || { cat >/dev/null; print -ru2 -- $'aish: cannot reach \\e]0;owned\\a the model\\n  do this'; exit 1 }",
    );
    let mut zsh = Zsh::start(&home);
    zsh.run("cat .zshcr");
    zsh.run("llm :fix");
    zsh.wait_text("\nllm: cannot reach ^[]0;owned^G the model\n  do this\n<3>");
    zsh.send("text\x1bf");
    zsh.wait_text("<3> text\nllm: cannot reach ^[]0;owned^G the model\n  do this");
    std::fs::remove_file(home.path("bin/aish-helper")).expect("the stub");
    zsh.send("\x1bf");
    zsh.wait_text("cannot find aish-helper");
    assert!(zsh.screen().contains("<3> text\n"));
}

#[test]
fn ctrl_c_cancels() {
    let home =
        Home::with_stub("[[ $1 == fix ]] || exit; print -r -- $$ >$HOME/waiting; exec sleep 1000");
    mkfifo(&home.path("waiting"), Mode::S_IRWXU).expect("a FIFO");
    let mut zsh = Zsh::start(&home);
    zsh.run("cat .zshcr");
    zsh.send("text\x1bf");
    zsh.wait_text("asking");
    // Reading a FIFO waits for its writer.
    std::fs::read(home.path("waiting")).expect("the helper runs");
    zsh.send("\x03");
    zsh.wait_text("<2> text\nllm: cancelled");
    zsh.send("\x15llm :fix; print not reached\r");
    std::fs::read(home.path("waiting")).expect("the helper runs");
    zsh.send("\x03");
    zsh.prompt();
    zsh.run("print code:$?");
    assert!(zsh.screen().contains("\ncode:130\n"), "{}", zsh.screen());
    assert!(!zsh.screen().contains("\nnot reached"));
}

#[test]
fn the_key_can_be_another_or_none() {
    let home = stub("why\0print new");
    home.zshrc(&format!("AISH_FIX_KEY='^X^F'\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    assert_eq!(zsh.eval("bindkey '^[f'"), "\"^[f\" forward-word\n");
    zsh.run("cat .zshcr");
    zsh.send("\x18\x06");
    zsh.wait_text("> print new\nwhy");
    drop(zsh);
    home.zshrc(&format!("AISH_FIX_KEY= AISH_KEY=\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    assert_eq!(
        zsh.eval("bindkey '^[f'; bindkey '^[a'"),
        "\"^[f\" forward-word\n\"^[a\" accept-and-hold\n"
    );
    assert!(!zsh.eval("llm :help").contains("the same as llm :fix"));
    drop(zsh);
    home.zshrc(&source_plugin());
    let mut zsh = Zsh::start(&home);
    assert_eq!(
        zsh.eval("bindkey '^[f'; bindkey -M viins '^[f'"),
        "\"^[f\" aish-fix\n\"^[f\" undefined-key\n"
    );
    assert!(
        zsh.eval("llm :help")
            .contains("Alt-f                 the same as llm :fix\n")
    );
    let unloaded = zsh.eval("aish_plugin_unload; bindkey '^[f'; bindkey '^[a'; bindkey -M viins '^[f'; zle -l | grep -c aish");
    assert_eq!(
        unloaded,
        "\"^[f\" forward-word\n\"^[a\" accept-and-hold\n\"^[f\" undefined-key\n0\n"
    );
}

#[test]
fn a_proposed_command_that_failed_is_corrected() {
    let helper = Helper::new([
        Script::tokens(["Look:\nCMD: cat .zshcr\n"]),
        Script::tokens([ANSWER]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("true");
    zsh.send("llm show my settings\r");
    zsh.wait_text("[y]");
    zsh.answer("y", |screen| screen.contents().contains("exit 1"));
    zsh.prompt();
    zsh.run("llm :fix");
    zsh.wait_text("> cat .zshrc");
    assert!(
        helper.messages(1)[1]
            .1
            .starts_with("$ cat .zshcr\n[exit 1, "),
        "{:?}",
        helper.messages(1)
    );
}

#[test]
fn an_approved_command_is_the_last_one_of_its_shell() {
    let helper = Helper::new([
        Script::tokens(["CMD: ls no-such-file\n"]),
        Script::tokens([ANSWER]),
        Script::tokens(["CMD: print -r -- repaired\n"]),
        Script::tokens(["Sunny.\n"]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("false");
    zsh.send("llm --no-output do it\r");
    zsh.wait_text("[y]");
    zsh.answer("y", |screen| screen.contents().contains("exit 2"));
    zsh.prompt();
    zsh.run("llm :fix");
    zsh.wait_text("> cat .zshrc");
    let asked = &helper.messages(1)[1].1;
    assert!(asked.contains("output below]\n<output>\nls: "), "{asked}");
    zsh.send("\x15");
    let output = zsh.eval("aish-helper output 2>&1");
    assert!(
        output.starts_with("ls no-such-file: exit 2, 1 line"),
        "{output}"
    );
    assert!(output.contains("No such file"), "{output}");
    zsh.send("clear; llm --no-output repair it\r");
    zsh.wait_text("[y]");
    zsh.answer("y", |screen| screen.contents().contains("\nrepaired"));
    zsh.prompt();
    // In another session: the repair is what happened last, not the failure before it.
    zsh.run("llm --new explain the weather");
    let asked = &helper.messages(3)[1].1;
    assert!(
        asked.contains("$ print -r -- repaired\n[exit 0, "),
        "{asked}"
    );
    assert!(!asked.contains("<output>"), "{asked}");
}

/// Asks for a command, and lets it run until the screen shows `done`.
fn approve(zsh: &mut Zsh<'_>, done: &str) {
    zsh.send("llm do it\r");
    zsh.wait_text("[y]");
    zsh.answer("y", |screen| screen.contents().contains(done));
    zsh.prompt();
}

#[test]
fn a_job_that_is_not_in_the_history_is_not_told_with_an_approved_command() {
    let helper = Helper::new([
        Script::tokens(["CMD: jobs; print the-end\n"]),
        Script::tokens(["Sunny.\n"]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("setopt hist_ignore_space");
    zsh.run(" ( sleep 60; : meet the doctor ) &");
    zsh.run("sleep 61 &");
    approve(&mut zsh, "\nthe-end");
    assert!(
        zsh.screen().contains("running    sleep 61"),
        "{}",
        zsh.screen()
    );
    zsh.run("llm and now");
    let sent = helper.content();
    for (text, is_sent) in [
        ("running    sleep 61", true),
        ("the-end", true),
        ("doctor", false),
    ] {
        assert_eq!(sent.contains(text), is_sent, "{text} in {sent}");
    }
    let records: Vec<String> = helper.records().iter().map(ToString::to_string).collect();
    assert!(!records.concat().contains("doctor"), "{records:?}");
}

#[test]
fn what_came_with_a_refused_prompt_does_not_come_again_in_full() {
    let too_long = "{\"error\":{\"message\":\"prompt is too long\"}}";
    let helper = Helper::new([
        Script::tokens(["CMD: seq 1 3000\n"]),
        Script::status(400, too_long),
        Script::tokens(["Sunny.\n"]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    approve(&mut zsh, "\n3000");
    zsh.run("llm what is it");
    zsh.wait_text("later requests leave this prompt out");
    assert!(helper.content().contains("\n2999\n"));
    zsh.run("llm hello");
    let sent = helper.content();
    assert!(
        sent.contains("<output command=\"seq 1 3000\" exit=\"0\">\n[left out"),
        "{sent}"
    );
    assert!(sent.len() < 1000, "{sent}");
}

#[test]
fn a_refused_summary_sends_nothing_again() {
    let too_long = "{\"error\":{\"message\":\"prompt is too long\"}}";
    let helper = Helper::new([
        Script::tokens(["CMD: print a-result\n"]),
        Script::tokens(["Sunny.\n"]),
        Script::status(400, too_long),
        Script::tokens(["Rainy.\n"]),
    ]);
    let mut zsh = Zsh::start(&helper.home);
    approve(&mut zsh, "\na-result");
    zsh.run("print one-command");
    zsh.run("llm first");
    let sent = helper.content();
    assert!(
        sent.contains("a-result") && sent.contains("one-command"),
        "{sent}"
    );
    zsh.run("llm :compact");
    zsh.wait_text("(400)");
    assert!(
        !zsh.screen().contains("leave this prompt out"),
        "{}",
        zsh.screen()
    );
    zsh.run("llm second");
    let sent = helper.content();
    assert!(sent.ends_with("second"), "{sent}");
    assert!(
        !sent.contains("a-result") && !sent.contains("one-command"),
        "{sent}"
    );
}

#[test]
fn plugin_and_daemon_agree_on_what_asks_aish() {
    let lines = [
        "llm hello",
        "cat Makefile | llm what is it; it's odd",
        "git diff |& noglob llm 'review'",
        "llm \"list colours\" | sort > colours",
        "llm \"list colours\" | sort; cat x",
        "llm -m small 'list' && make",
        "llm -m small list && make",
        "llm :status | head",
        "llm :status; make",
        "make 2>&1 | llm 'why' >out;",
        "X=1 llm explain < Makefile",
        "/usr/bin/aish-helper status || true",
        "print x | aish-helper redact",
        "cat notes | grep 'x | llm y'",
        "print $(git diff | llm review)",
        "if true; then llm 'x'; fi",
        "for i in 1 2; do llm 'x'; make; done",
        "llm <html> tags; what is wrong with them",
        "llm :) hello there; what is up",
        "llm 'review'\nplease; do it",
        "make",
        "",
    ];
    let functions = format!("{}/zsh/functions", env!("CARGO_MANIFEST_DIR"));
    let script = "fpath=($1); autoload -Uz _aish_asks; typeset -A _aish=(names llm); shift\n\
                  for line; do _aish_asks $line; print $?; done";
    let zsh = std::process::Command::new("zsh")
        .args(["-fc", script, "zsh", &functions])
        .args(lines)
        .output()
        .expect("zsh");
    let told = String::from_utf8_lossy(&zsh.stdout);
    let asks: Vec<bool> = told.lines().map(|code| code == "0").collect();
    assert_eq!(asks, lines.map(aish::history::record::is_aish), "{zsh:?}");
    assert!(asks.contains(&true) && asks.contains(&false));
}
