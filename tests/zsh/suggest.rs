//! The key that turns words into a command.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

const ANSWERS: &str = "[[ $1 == ask ]] && print -r -- \"ls -l *.rs\"; print -ru2 -- 'a warning'";

#[test]
fn words_become_a_command_in_place_and_one_undo_brings_them_back() {
    let home = Home::with_stub(ANSWERS);
    for keymap in ["-e", "-v"] {
        home.zshrc(&format!(
            "bindkey {keymap}\nbindkey '^_' undo; AISH_KEY='^[a'\n{}",
            source_plugin()
        ));
        let _ = std::fs::remove_file(home.path("calls"));
        let mut zsh = Zsh::start(&home);
        zsh.send("list what's \"here");
        zsh.wait_text("here");
        zsh.send("\x1ba");
        zsh.wait_text("<1> ls -l *.rs");
        assert!(String::from_utf8_lossy(&zsh.raw()).contains("asking"));
        assert!(!zsh.screen().contains("asking") && !zsh.screen().contains("warning"));
        zsh.send("\x1f");
        zsh.wait_text("<1> list what's \"here");
        assert_eq!(
            home.calls()[0][3..],
            ["--command", "--", "list what's \"here"]
        );
        zsh.send("\x15");
        zsh.run("");
    }
}

#[test]
fn an_undo_in_vi_mode_brings_the_words_back() {
    let home = Home::with_stub(ANSWERS);
    home.zshrc(&format!("bindkey -v; AISH_KEY='^X^A'\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    zsh.send("list the files\x18\x01");
    zsh.wait_text("<1> ls -l *.rs");
    // The mode of commands and its undo.
    zsh.send("\x1bu");
    zsh.wait_text("<1> list the files");
    zsh.send("cc");
    zsh.run("print -r -- alive");
    assert!(zsh.screen().contains("\nalive\n"));
}

#[test]
fn escape_and_a_letter_in_vi_mode_ask_nobody() {
    let home = Home::with_stub(ANSWERS);
    for zshrc in [
        format!("bindkey -v\n{}", source_plugin()),
        format!("{}\nbindkey -v\n", source_plugin()),
    ] {
        home.zshrc(&zshrc);
        let mut zsh = Zsh::start(&home);
        zsh.send("print -r -- half\x1ba");
        zsh.run("way");
        assert!(zsh.screen().contains("\nhalfway\n"), "{}", zsh.screen());
        let help = zsh.eval("llm :help");
        assert!(
            help.contains("\nAISH_FIX_KEY=KEY      the same as llm :fix\n"),
            "{help}"
        );
    }
    let asked = home.calls().into_iter().filter(|call| call[0] == "ask");
    assert_eq!(asked.count(), 0);
}

#[test]
fn what_is_no_command_is_a_message_and_the_words_stay() {
    for (answer, message) in [
        (
            "for i in 1 2; do",
            "not a command that zsh can parse: for i in 1 2; do",
        ),
        (
            "I'm sorry, I cannot",
            "not a command that zsh can parse: I'm sorry, I cannot",
        ),
        (
            "cat <<E\nx",
            "not a command that zsh can parse: cat <<E\\nx",
        ),
        (
            "I cannot do that",
            "I is not a command here: I cannot do that",
        ),
        ("Sorry, no", "Sorry, is not a command here: Sorry, no"),
        (
            "A=b nosuch\x07tool -x",
            "nosuch^Gtool is not a command here: A=b nosuch^Gtool -x",
        ),
    ] {
        let home = Home::with_stub("[[ $1 != ask ]] || cat $HOME/answer");
        std::fs::write(home.path("answer"), format!("{answer}\n")).expect("an answer");
        let zsh = Zsh::start(&home);
        zsh.send("delete everything\x1ba");
        zsh.wait_text(message);
        assert!(
            zsh.screen().starts_with("<1> delete everything\n"),
            "{answer}"
        );
    }
}

#[test]
fn a_command_of_several_lines_waits_for_the_user() {
    let home = Home::with_stub("print -r -- $'print one\\nprint two'");
    let mut zsh = Zsh::start(&home);
    zsh.send("two lines\x1ba");
    zsh.wait_text("print one\nprint two");
    zsh.run("");
    assert!(zsh.screen().contains("one\ntwo\n"));
}

#[test]
fn an_error_is_shown_safely_and_the_words_stay() {
    let home = Home::with_stub(
        "print -ru2 -- $'cannot reach \\e]0;owned\\a the model\\n  do this'; exit 1",
    );
    let zsh = Zsh::start(&home);
    zsh.send("list files\x1ba");
    zsh.wait_text("\ncannot reach ^[]0;owned^G the model\n  do this");
    assert!(zsh.screen().starts_with("<1> list files\n"));
    home.stub("exit 0");
    zsh.send("\x1ba");
    zsh.wait_text("no command came back");
    std::fs::remove_file(home.path("bin/aish-helper")).expect("the stub");
    zsh.send("\x1ba");
    zsh.wait_text("cannot find aish-helper");
    assert!(zsh.screen().starts_with("<1> list files\n"));
}

#[test]
fn a_message_that_fills_its_rows_leaves_the_edit_line_where_it_is() {
    for length in [120, 240] {
        let home = Home::with_stub(&format!("print -ru2 -- ${{(l:{length}::x:)}}; exit 1"));
        let zsh = Zsh::start(&home);
        assert_eq!(zsh.rows()[0].len(), 120, "the width of the terminal");
        zsh.send("list files\x1ba");
        zsh.wait_text("\nxxx");
        zsh.send(" of mine");
        zsh.wait_text("<1> list files of mine\n");
        assert!(
            zsh.screen().starts_with("<1> list files of mine\n"),
            "{}",
            zsh.screen()
        );
    }
}

#[test]
fn ctrl_c_cancels_and_the_words_stay() {
    let home =
        Home::with_stub("[[ $1 == ask ]] || exit; print -r -- $$ >$HOME/waiting; exec sleep 1000");
    mkfifo(&home.path("waiting"), Mode::S_IRWXU).expect("a FIFO");
    let mut zsh = Zsh::start(&home);
    zsh.send("list files\x1ba");
    zsh.wait_text("asking");
    // Reading a FIFO waits for its writer.
    std::fs::read(home.path("waiting")).expect("the helper runs");
    zsh.send("\x03");
    zsh.wait_text("cancelled");
    assert!(zsh.screen().starts_with("<1> list files\n"));
    zsh.send("\x15");
    zsh.run("print -r -- alive");
    assert!(zsh.screen().contains("\nalive\n"));
}

#[test]
fn the_key_can_be_another_or_none() {
    let home = Home::with_stub(ANSWERS);
    home.zshrc(&format!("AISH_KEY='^X^A'\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    assert_eq!(zsh.eval("bindkey '^[a'"), "\"^[a\" accept-and-hold\n");
    zsh.send("list files\x18\x01");
    zsh.wait_text("ls -l *.rs");
    drop(zsh);
    home.zshrc(&format!("AISH_KEY=\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    assert_eq!(
        zsh.eval("bindkey -M viins '^[a'; bindkey '^[a'"),
        "\"^[a\" undefined-key\n\"^[a\" accept-and-hold\n"
    );
}
