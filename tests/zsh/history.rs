//! Prompts in the history: what is kept, and lines that come back from it.

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

#[test]
fn a_prompt_continues_an_open_line() {
    let home = Home::with_stub("[[ -t 0 ]] || while read -r; do :; done");
    let mut zsh = Zsh::start(&home);
    zsh.run("echo diff |\rllm what's `touch created` this");
    assert_eq!(home.asked(), ["what's `touch created` this"]);
    assert!(
        zsh.eval("fc -ln -1")
            .contains("llm what's `touch created` this")
    );
    let _ = std::fs::remove_file(home.path("calls"));
    zsh.run("llm 'a' &&\rllm it's");
    let words = home.calls().into_iter().map(|c| c.last().cloned());
    assert_eq!(words.flatten().collect::<Vec<_>>(), ["a", "it's"]);
    zsh.run("cat >out <<E\rllm what's `echo {this}`\rE");
    assert_eq!(home.read("out"), "llm what's {this}\n");
    assert!(!home.path("created").exists());
}

#[test]
fn lines_from_the_history_are_prompts_again() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's `touch created` up");
    for line in [
        "!!", "!llm", "!-1", "!1", "^up^up", "r", "r llm", "fc -e -", "r 1",
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(
            home.asked(),
            ["what's `touch created` up"],
            "{line}\n{}",
            zsh.screen()
        );
        assert!(!home.path("created").exists(), "{line}");
    }
    zsh.run("llm what does `touch created` do");
    for line in [
        "!!",
        "!?touch?",
        "^do^do",
        "true && !llm",
        "!l:s/do/do",
        "r",
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(
            home.asked(),
            ["what does `touch created` do"],
            "{line}\n{}",
            zsh.screen()
        );
        assert!(!home.path("created").exists(), "{line}");
    }
    // Other lines are left to zsh.
    assert_eq!(zsh.eval("print -r -- 'it'; print -r -- !#:0"), "it\n{\n");
}

#[test]
fn other_ways_to_accept_a_line() {
    let home = Home::with_stub(":");
    home.zshrc(&format!(
        "bindkey '^Xh' accept-and-hold '^Xd' accept-line-and-down-history '^Xq' push-line\n{}",
        source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    let line = "llm what's `touch created` up";
    zsh.send(line);
    zsh.send("\x18h");
    zsh.prompt();
    zsh.run("");
    zsh.run("true");
    zsh.send("\x10\x10\x18d");
    zsh.prompt();
    zsh.run("");
    zsh.send(line);
    zsh.send("\x18q");
    zsh.run("true");
    zsh.run("");
    assert_eq!(home.calls().len(), 4, "{}", zsh.screen());
    for call in home.calls() {
        assert_eq!(call[4..], ["what's `touch created` up"]);
    }
    assert!(!home.path("created").exists());
}

#[test]
fn a_line_to_forget_stays_out_of_the_history() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("setopt hist_ignore_space");
    zsh.run(" llm what's secret");
    assert_eq!(home.asked(), ["what's secret"]);
    assert!(!zsh.eval("fc -ln 1").contains("secret"));
}

#[test]
fn history_and_screen_hold_what_was_typed() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's up");
    zsh.run("llm say \"oops");
    zsh.run("llm plain words");
    let screen = zsh.screen();
    assert!(
        screen.contains("<1> llm what's up\n<2> llm say \"oops\n<3> llm plain words\n"),
        "{screen}"
    );
    let history = zsh.eval("fc -ln 1");
    assert!(
        history.starts_with("llm what's up\nllm say \"oops\nllm plain words\n"),
        "{history}"
    );
}

#[test]
fn a_line_that_is_refused_leaves_no_options_behind_and_can_be_recalled() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    let options = zsh.eval("setopt");
    for line in [
        "cat <<A && llm don't `touch created`",
        "\x1b[200~cat <<A; llm don't\nA\ntouch created\x1b[201~",
        "(llm what is `touch created`)",
        "f() llm what is rm -rf x",
        "builtin llm don't",
        "for x in a; do llm it's $(touch created); done",
    ] {
        zsh.run(line);
        let screen = zsh.screen();
        assert!(
            screen.contains("llm: nothing was run: "),
            "{line}\n{screen}"
        );
        let typed = line.replace("\x1b[200~", "").replace("\x1b[201~", "");
        assert_eq!(
            zsh.eval("print -rn -- $history[$((HISTCMD - 1))]"),
            typed,
            "{screen}"
        );
        zsh.send("\x0c");
    }
    assert!(home.calls().is_empty());
    assert!(!home.path("created").exists());
    assert_eq!(zsh.eval("setopt; print $+functions[f]"), options + "0\n");
    assert_eq!(zsh.eval("alias llm"), "llm='noglob llm'\n");
    // A here-document that waits at the secondary prompt ends with the line.
    zsh.send("cat <<A &&\r");
    zsh.wait_text("heredoc> ");
    zsh.interrupt();
}
