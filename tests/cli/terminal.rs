//! An answer on a real terminal.

use std::os::unix::fs::DirBuilderExt;

use aish::paths::lock_file;

use crate::fakes::provider::{Part, Provider, Script, finish_event, text_event};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;

/// A helper for a shell without the plugin.
fn plain(provider: Provider) -> Helper {
    let helper = Helper::with(provider);
    helper.home.zshrc("");
    helper
}

/// A stream of events, possibly with a gate.
fn stream(parts: impl IntoIterator<Item = Part>) -> Script {
    let end = [finish_event("stop"), "data: [DONE]\n\n".to_owned()];
    let end = end.iter().map(|e| Part::from(e.as_str()));
    Script::events(parts.into_iter().chain(end))
}

fn text(text: &str) -> Part {
    Part::from(text_event(text).as_str())
}

/// Returns the bytes that the terminal got for a line.
fn shown(zsh: &mut Zsh<'_>, line: &str) -> String {
    let before = zsh.raw().len();
    zsh.run(line);
    let raw = zsh.raw();
    String::from_utf8_lossy(&raw[before..]).into_owned()
}

#[test]
fn markdown_is_rendered_unless_raw_is_requested() {
    let answer = [
        "# Title\n\n",
        "some **bo",
        "ld** words\n\n- item\n",
        "\x1b]0;x\x07end",
    ];
    let helper = plain(Provider::answering(move |_| Script::tokens(answer)));
    let mut zsh = Zsh::start(&helper.home);
    let out = shown(&mut zsh, "aish-helper ask x");
    assert!(zsh.screen().contains("some bold words"), "{out:?}");
    assert!(!out.contains("**") && !out.contains("\x1b]0;"), "{out:?}");
    assert!(out.contains("1mbold"), "{out:?}");
    let footer = " s · 7 in · 4 out";
    assert!(zsh.screen().contains(footer), "{out:?}");

    let out = shown(&mut zsh, "aish-helper ask --raw x");
    assert!(out.contains("some **bold** words"), "{out:?}");
    assert!(!out.contains("\x1b]0;"), "{out:?}");
    // zsh itself uses other colour sequences around its prompt.
    let out = shown(&mut zsh, "NO_COLOR=1 aish-helper ask x");
    let colored = ["\x1b[0;", "\x1b[1m", "\x1b[2m", "\x1b[3"];
    assert!(!colored.iter().any(|c| out.contains(c)), "{out:?}");
    assert!(out.contains("words"), "{out:?}");
    let out = shown(&mut zsh, "aish-helper ask x | cat");
    assert!(out.contains("some **bold** words"), "{out:?}");
    assert!(!out.contains(footer), "{out:?}");
}

#[test]
fn a_spinner_moves_until_the_first_word() {
    let helper = plain(Provider::start([stream([Part::Gate("on"), text("hello")])]));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask x\r");
    zsh.wait_text("⠋");
    zsh.wait_text("⠙");
    helper.provider.open("on");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(screen.contains("\nhello\n"), "{screen}");
    assert!(!screen.contains(['⠋', '⠙', '⠸']), "{screen}");
}

#[test]
fn ctrl_c_leaves_the_shell_usable() {
    let helper = plain(Provider::start([stream([
        text("half of **it"),
        Part::Gate("never"),
    ])]));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask x; print code=$?\r");
    zsh.wait_text("half of");
    zsh.send("\x03");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("interrupted; what has arrived is kept"),
        "{screen}"
    );
    // zsh abandons the line if its command died of SIGINT, and continues otherwise.
    assert!(screen.contains("code=130"), "{screen}");
    helper.provider.wait_closed(1);
    assert_eq!(
        zsh.eval("stty -a | grep -o ' echo '; print fine"),
        " echo \nfine\n"
    );
}

#[test]
fn a_prompt_of_several_lines_is_typed() {
    let helper = plain(Provider::answering(|_| Script::tokens(["ok"])));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask\r");
    zsh.wait_text("end it with Ctrl-D");
    zsh.send("first line\rsecond line\r\x04");
    zsh.prompt();
    assert_eq!(helper.content().trim_end(), "first line\nsecond line");
    // An empty prompt is a usage error.
    zsh.send("aish-helper ask; print code=$?\r");
    zsh.wait_for("the second question", |s| {
        s.contents().matches("end it with Ctrl-D").count() == 2
    });
    zsh.send("\x04");
    zsh.prompt();
    assert!(zsh.screen().contains("code=2"));
}

#[test]
fn ctrl_c_ends_a_prompt_of_several_lines_and_the_command_line() {
    let helper = plain(Provider::answering(|_| Script::tokens(["ok"])));
    helper.home.zshrc(&source_plugin());
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm; print -r -- not reached\r");
    zsh.wait_text("end it with Ctrl-D");
    zsh.send("some words");
    zsh.wait_text("some words");
    zsh.interrupt();
    assert_eq!(zsh.eval("print $?"), "130\n");
    let screen = zsh.screen();
    assert!(!screen.contains("\nnot reached"), "{screen}");
    assert!(screen.contains("some words^C\n"), "{screen}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_may_be_one_column_wide_and_change_its_size() {
    let answer = || {
        stream([
            text("# Title\n\nsome **words** in `code` and | a | table |\n\n"),
            text("| a | b |\n|---|---|\n| 日本語 | 👩‍💻 |\n\n"),
            Part::Gate("on"),
            text("more words of the same kind ".repeat(20).as_str()),
        ])
    };
    let helper = plain(Provider::answering(move |_| answer()));
    let mut zsh = Zsh::start(&helper.home);
    let tty = zsh.eval("print -rn -- $TTY");
    let columns = |n: u32| {
        let call = helper
            .program("stty")
            .args(["-F", &tty, "cols", &n.to_string()]);
        call.run().ok();
    };
    // zsh draws its prompt at the full width again.
    zsh.send(format!(
        "aish-helper ask x; print code=$? >code; stty -F {tty} cols 120\r"
    ));
    zsh.wait_text("Title");
    for n in [20, 1, 300, 2, 40] {
        columns(n);
    }
    helper.provider.open("on");
    zsh.prompt();
    assert_eq!(helper.home.read("code"), "code=0\n");
    for n in [1, 2, 3] {
        zsh.run(&format!(
            "stty cols {n}; aish-helper ask x >{tty}; print code=$? >code; stty cols 120"
        ));
        assert_eq!(helper.home.read("code"), "code=0\n");
    }
}

#[test]
fn keys_typed_while_an_answer_streams_wait_for_the_shell() {
    let helper = plain(Provider::start([stream([
        text("one "),
        Part::Gate("on"),
        text("two"),
    ])]));
    let zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask x\r");
    zsh.wait_text("one");
    zsh.send("print ty''ped\r");
    helper.provider.open("on");
    zsh.wait_text("\ntyped\n");
    let screen = zsh.screen();
    assert!(screen.contains("one two\n"), "{screen}");
    // The line editor shows it, once.
    assert_eq!(screen.matches("ty''ped").count(), 1, "{screen}");
}

#[test]
fn a_stopped_prompt_leaves_the_terminal_as_it_was() {
    let helper = plain(Provider::start([stream([
        text("one "),
        Part::Gate("on"),
        text("two"),
    ])]));
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask x\r");
    zsh.wait_text("one");
    // Ctrl-Z restores the terminal modes, and fg sets them again.
    zsh.send("\x1a");
    zsh.wait_text("suspended");
    zsh.prompt();
    let modes = zsh.eval("stty -a | grep -o ' echo '");
    assert_eq!(modes, " echo \n");
    zsh.send("fg\r");
    zsh.wait_text("continued");
    helper.provider.open("on");
    zsh.wait_text("two");
    zsh.prompt();
    let modes = zsh.eval("stty -a | grep -o ' echo '");
    assert_eq!(modes, " echo \n");
}

#[test]
fn a_proposal_in_a_fence_leaves_no_fence_and_keeps_blank_lines() {
    let answer = "Try:\n\n```sh\nCMD: ls -l\n```\n\nThen **look**.\n";
    let helper = plain(Provider::answering(move |_| Script::tokens([answer])));
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("aish-helper ask x");
    let screen = zsh.screen();
    assert!(
        screen.contains("Try:\n\n  $ ls -l\n\nThen look.\n"),
        "{screen}"
    );
}

#[test]
fn a_client_that_waits_for_another_to_start_the_daemon_says_so() {
    let helper = plain(Provider::answering(|_| Script::tokens(["ok"])));
    let run = helper.path("run");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&run)
        .expect("the directory");
    let lock = lock_file(&run.join("start.lock")).expect("the lock");
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper ask x; print code=$?\r");
    zsh.wait_text("[aish] waiting for another aish-helper, which is starting the daemon; Ctrl-C stops waiting");
    zsh.send("\x03");
    zsh.prompt();
    // The next client waits too, and continues once the lock is free.
    zsh.send("aish-helper ask x\r");
    zsh.wait_for("the second wait", |s| {
        s.contents().matches("waiting for another").count() == 2
    });
    drop(lock);
    zsh.wait_text("\nok\n");
    zsh.prompt();
}
