//! Proposed commands of several lines, from the model's answer to the shell.

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;

/// A helper whose model gives this answer, in small pieces.
fn answering(answer: &'static str) -> Helper {
    let pieces: Vec<String> = answer
        .split_inclusive([' ', '\n', '`'])
        .map(str::to_owned)
        .collect();
    let helper = Helper::with(Provider::answering(move |_| Script::tokens(pieces.clone())));
    helper.home.zshrc(&source_plugin());
    helper
}

#[test]
fn a_command_of_several_lines_is_shown_whole_and_runs_as_one_text() {
    let helper = answering(
        "Two steps:\n\
         CMD: for i in 1 2; do\n    print -r -- \"it's $((i * 21))\" >> said\n\ndone\n\
         and\n\
         CMD:\n```zsh\ncat > file <<'EOF'\n\tx\nEOF\nprint -r -- end >> file\n```\n",
    );
    let zsh = Zsh::start(&helper.home);
    zsh.send("llm do it\r");
    zsh.wait_text("[q] quit");
    let screen = zsh.screen();
    let shown = "  $ for i in 1 2; do‹\\n›\n    ‹4 spaces›print -r -- \"it's $((i * 21))\" >> said‹\\n›\n    ‹\\n›\n    done\nand\n  $ cat > file <<'EOF'‹\\n›\n    ‹\\t›x‹\\n›\n    EOF‹\\n›\n    print -r -- end >> file\n";
    assert!(screen.contains(shown), "{screen}");
    let question = "┌ run this command?  1 of 2\n│ for i in 1 2; do‹\\n›\n│ ‹4 spaces›print -r -- \"it's $((i * 21))\" >> said‹\\n›\n│ ‹\\n›\n│ done\n└ [y] run";
    assert!(screen.contains(question), "{screen}");
    // The text of the answer is not shown a second time.
    assert_eq!(screen.matches("for i in").count(), 2, "{screen}");
    assert!(
        !screen.contains("CMD:") && !screen.contains("```"),
        "{screen}"
    );
    zsh.press_until("y", "2 of 2");
    assert_eq!(helper.home.read("said"), "it's 21\nit's 42\n");
    zsh.press_until("y", "<2>");
    assert_eq!(helper.home.read("file"), "\tx\nend\n");
    let decisions = helper.records_of("command_approval");
    assert_eq!(
        decisions[0]["command"],
        "for i in 1 2; do\n    print -r -- \"it's $((i * 21))\" >> said\n\ndone"
    );
}

#[test]
fn an_incomplete_command_cannot_be_run_but_edited() {
    let helper = answering("CMD: print one >> said; for i in 1 2; do\nCMD: print three >> said\n");
    helper.config("[shell]\nconfirm_cmd = false\n");
    let zsh = Zsh::start(&helper.home);
    zsh.send("llm do it\r");
    // Asked about although the configuration allows commands.
    zsh.wait_text("┌ incomplete command  1 of 2");
    zsh.wait_text("└ [e] edit  [i] put on the command line  [n] no  [q] quit");
    zsh.press_until("y", "not one of the keys; press ? for help");
    assert_eq!(helper.home.read("said"), "");
    assert!(helper.records_of("command_approval").is_empty());
    zsh.press_until("e", "edit> ");
    zsh.wait_text("edit> print one >> said; for i in 1 2; do");
    zsh.send(" print two >> said; done\r");
    zsh.wait_text("┌ run this command?  1 of 2");
    zsh.press_until("y", "<2>");
    assert_eq!(helper.home.read("said"), "one\ntwo\ntwo\nthree\n");
}

#[test]
fn an_edit_that_does_not_parse_is_incomplete() {
    let helper = answering("CMD: print one > said\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm do it\r");
    zsh.wait_text("[y] run");
    zsh.press_until("e", "edit> ");
    zsh.send(" 'two\r");
    zsh.wait_text("┌ incomplete command");
    zsh.press_until("n", "<2>");
    assert_eq!(helper.home.read("said"), "");
    zsh.run("print -r -- alive");
}

#[test]
fn an_attached_answer_shows_the_same_command() {
    let helper = answering("CMD: ls \\\n  -l\n");
    helper.ask("do it");
    let output = helper.call(["attach", "--shell", "s1"]).run().ok();
    assert!(output.contains("CMD: ls \\‹\\n›\n  -l\n"), "{output}");
}
