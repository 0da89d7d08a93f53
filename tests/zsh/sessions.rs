//! Sessions in a real zsh: continue, search, rename, delete, copy, edit, and files named in a prompt.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;

/// A provider with numbered answers.
fn counting() -> Helper {
    let mut n = 0;
    Helper::with(Provider::answering(move |_| {
        n += 1;
        Script::tokens([format!("answer {n}\n")])
    }))
}

/// The short id of the only session whose journal contains `text`.
fn id_of(helper: &Helper, text: &str) -> String {
    let files = helper.sessions().into_iter();
    let mut files = files.filter(|f| std::fs::read_to_string(f).unwrap().contains(text));
    let stem = files.next().expect("a session");
    assert!(files.next().is_none(), "one session with {text}");
    let stem = stem.file_stem().unwrap().to_str().unwrap().to_owned();
    stem[stem.len() - 8..].to_owned()
}

#[test]
fn a_session_is_found_named_and_continued_in_another_shell() {
    let helper = counting();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm tell me of Ωmega rockets");
    zsh.run("llm :new");
    zsh.run("llm second topic");
    let (first, second) = (id_of(&helper, "rockets"), id_of(&helper, "second topic"));

    let found = zsh.eval("llm :search ROCKETS ωmega");
    assert!(
        found.contains(&first) && !found.contains(&second),
        "{found}"
    );
    assert!(found.contains("tell me of Ωmega rockets"), "{found}");
    let none = zsh.eval("llm :search rockets topic");
    assert_eq!(none, "no session contains these words\n");

    let named = zsh.eval("llm :rename Moon shots; llm :sessions");
    assert!(
        named.contains(&format!("{second} “Moon shots”: 1 prompt")),
        "{named}"
    );
    assert!(named.contains("1  Moon shots\n"), "{named}");

    let mut other = Zsh::start(&helper.home);
    let continued = other.eval(&format!("llm :continue {first}"));
    assert!(
        continued.contains("tell me of Ωmega rockets"),
        "{continued}"
    );
    other.run("llm and now");
    let last = helper.provider.requests().len() - 1;
    let talk: Vec<String> = helper.messages(last).into_iter().map(|m| m.1).collect();
    assert!(talk[1].ends_with("tell me of Ωmega rockets"), "{talk:?}");
    assert_eq!(talk.len(), 4);
    let error = other.eval("llm :continue zzz; print -r -- $?");
    assert!(
        error.contains("no session has 'zzz'") && error.ends_with("\n2\n"),
        "{error}"
    );
}

#[test]
fn a_list_of_sessions_is_chosen_from_by_number() {
    let helper = counting();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm older topic");
    zsh.run("llm :new");
    zsh.run("llm newer \u{202e}topic");
    zsh.run("llm :new");
    zsh.run("path=($HOME/bin)");
    zsh.send("llm :continue\r");
    zsh.wait_text("Number of the session to continue (Enter: none): ");
    let screen = zsh.screen();
    assert!(screen.contains("newer ‹\\u{202e}›topic"), "{screen}");
    zsh.send("9\r");
    zsh.wait_for("the question again", |s| {
        s.contents().matches("Enter: none").count() == 2
    });
    zsh.send("3\r");
    zsh.prompt();
    assert!(zsh.screen().contains("“older topic”: 1 prompt"));
    zsh.run("llm more");
    assert!(helper.messages(2)[1].1.ends_with("older topic"));
    // Nothing is chosen.
    zsh.send("llm :continue\r");
    zsh.wait_for("the question", |s| {
        s.contents().matches("Enter: none").count() == 3
    });
    zsh.send("\r");
    zsh.prompt();
}

#[test]
fn fzf_gets_only_sanitised_lines() {
    let helper = counting();
    // Logs its input, and chooses the second session.
    let stub = "#!/bin/zsh -f\nprint -rl -- \"$@\" >$HOME/fzf-args\ncat >$HOME/fzf-in\nsed -n 3p $HOME/fzf-in\n";
    helper.home.program("fzf", stub);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm older $(print -n '\\e]0;x\\a')'`id`'");
    helper
        .call(["ask", "--", "old \u{1b}]0;owned\u{7} {}\tq\n\u{202e}'$(id)"])
        .run()
        .ok();
    zsh.run("llm :new");
    zsh.run("llm newer topic");
    zsh.run("llm :continue");
    assert!(
        zsh.screen().contains("1 prompt, last used"),
        "{}",
        zsh.screen()
    );
    let lines = helper.home.read("fzf-in");
    assert_eq!(lines.lines().count(), 4, "{lines}");
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(!lines.contains(odd), "{lines:?}");
    // One tab separates the index from what is shown.
    assert!(
        lines.lines().all(|l| l.matches('\t').count() == 1),
        "{lines:?}"
    );
    assert!(helper.home.read("fzf-args").contains("--preview=\n"));
    // The user leaves fzf.
    helper
        .home
        .program("fzf", "#!/bin/sh\ncat >/dev/null; exit 130\n");
    zsh.run("llm :continue");
    zsh.run("llm fourth");
    assert_eq!(helper.sessions().len(), 3);
}

#[test]
fn a_session_is_deleted_after_a_question_only() {
    let helper = counting();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm keep this");
    zsh.run("llm :new");
    zsh.run("llm forget this");
    let id = id_of(&helper, "forget this");
    for (nth, answer) in ["\r", "n\r", "\x04"].into_iter().enumerate() {
        zsh.send(format!("llm :delete {id}\r"));
        zsh.wait_for("the question", |s| {
            s.contents().matches("[y/N]").count() == nth + 1
        });
        zsh.send(answer);
        zsh.prompt();
        assert_eq!(helper.sessions().len(), 2, "{answer:?} deletes nothing");
    }
    assert!(zsh.screen().contains("“forget this”: 1 prompt"));
    // Without a terminal the answer is no.
    let call = helper
        .program("setsid")
        .args(["-w", "aish-helper", "session", "delete", &id]);
    assert!(call.run().fails(4).contains("no terminal"));
    assert_eq!(helper.sessions().len(), 2);
    zsh.send(format!("llm :delete {id}\r"));
    zsh.wait_for("the question", |s| {
        s.contents().matches("[y/N]").count() == 4
    });
    zsh.send("y\r");
    zsh.prompt();
    assert!(zsh.screen().contains(&format!("deleted session {id}")));
    assert_eq!(helper.sessions().len(), 1);
    // The shell starts a new session.
    zsh.run("llm again");
    assert_eq!(helper.messages(2).len(), 2);
    assert!(!zsh.eval("llm :sessions").contains("forget"));
}

#[test]
fn the_last_answer_goes_to_the_clipboard() {
    let helper = Helper::saying("# Hé\n\nsafe \u{1b}]0;x\u{7}\n");
    let mut zsh = Zsh::start(&helper.home);
    let copied = zsh.eval("llm :copy; print -r -- $?");
    assert!(copied.ends_with("\n2\n"), "{copied}");
    zsh.run("llm one");
    let shown = "# Hé\n\nsafe \\x1b]0;x\\x07";
    // Through the terminal.
    zsh.run("llm :copy");
    let sequence = format!("\x1b]52;c;{}\x07", STANDARD.encode(shown));
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(raw.contains(&sequence), "{raw:?}");
    assert!(
        zsh.screen()
            .contains("copied the last answer with the terminal (OSC 52): ")
    );
    // Through a program, unless it fails.
    helper.home.program(
        "xclip",
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >$HOME/clip; cat >>$HOME/clip\n",
    );
    zsh.run("DISPLAY=:9 llm :copy");
    assert!(zsh.screen().contains("copied the last answer with xclip: "));
    assert_eq!(
        helper.home.read("clip"),
        format!("-selection clipboard\n{shown}")
    );
    helper.home.program("wl-copy", "#!/bin/sh\nexit 1\n");
    zsh.run("WAYLAND_DISPLAY=w llm :copy");
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert_eq!(raw.matches(&sequence).count(), 2);
}

#[test]
fn a_prompt_is_written_in_the_editor() {
    let helper = counting();
    let editor = "#!/bin/zsh -f\n\
        { print -r -- $1; stat -c %a $1 ${1:h}; cat $1; } >$HOME/seen\n[[ -t 0 && -t 1 ]] || exit 9\n\
        [[ -z $EMPTY ]] || : >$1\n\
        [[ -n $EMPTY ]] || print -rn -- $'\\nit\\'s\\n$HOME `x`' >>$1\n\
        exit ${FAIL:-0}\n";
    helper.home.program("ed it", editor);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("export VISUAL=\"'$HOME/bin/ed it'\" EDITOR=false");
    zsh.run("llm :edit first words");
    assert!(zsh.screen().contains("answer 1"), "{}", zsh.screen());
    assert!(helper.content().ends_with("first words\nit's\n$HOME `x`"));
    let seen = helper.home.read("seen");
    let mut lines = seen.lines();
    let file = lines.next().unwrap();
    assert!(file.ends_with("/prompt.md"), "{seen}");
    assert!(!std::path::Path::new(file).exists(), "removed");
    assert_eq!(lines.collect::<Vec<_>>(), ["600", "700", "first words"]);
    for variable in ["FAIL=3", "EMPTY=1"] {
        let output = zsh.eval(&format!("{variable} llm :edit; print -r -- $?"));
        assert!(!output.ends_with("\n0\n"), "{variable}: {output}");
    }
    assert_eq!(helper.provider.requests().len(), 1);
}

#[test]
fn a_file_named_in_a_prompt_is_attached() {
    let helper = counting();
    helper.home.zshrc(&format!(
        "fpath=({}/completions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n{}",
        env!("CARGO_MANIFEST_DIR"),
        source_plugin()
    ));
    std::fs::write(helper.home.path("notes.txt"), "buy milk\n").unwrap();
    let mut zsh = Zsh::start(&helper.home);
    let is_attached = |zsh: &Zsh, prompt: &str| {
        let (screen, content) = (zsh.screen(), helper.content());
        assert!(
            screen.contains("[aish] attached: notes.txt (9 bytes)"),
            "{screen}"
        );
        assert!(
            content.contains("<file name=\"notes.txt\">\nbuy milk\n</file>"),
            "{content}"
        );
        assert!(content.ends_with(prompt), "{content}");
    };
    zsh.send("llm what is in @not\t");
    zsh.wait_text("llm what is in @notes.txt");
    zsh.send("\r");
    zsh.prompt();
    is_attached(&zsh, "what is in @notes.txt");
    zsh.run("clear");
    zsh.run("llm what is in < notes.txt");
    is_attached(&zsh, "what is in");
    // A word that names no file is plain text, and so is every word that was not typed.
    zsh.run("llm ask @nobody and me@notes.txt");
    assert!(!helper.content().contains("<file"));
    std::fs::write(helper.home.path("issue"), "see @notes.txt\n").unwrap();
    for line in [
        "llm \"$(cat issue)\"",
        "cat issue | llm",
        "cat issue | VISUAL=true llm :edit",
    ] {
        zsh.run(line);
        assert!(!helper.content().contains("buy milk"), "{line}");
    }
    let call = helper.call(["ask", "--", "see", "@notes.txt"]);
    call.run().ok();
    assert!(!helper.content().contains("buy milk"));
}

#[test]
fn continuing_a_session_says_when_it_was_used_before() {
    let helper = counting();
    helper.ask("older topic");
    let file = helper.sessions().remove(0);
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(7300);
    let opened = std::fs::File::options().append(true).open(&file).unwrap();
    opened.set_modified(before).unwrap();
    let id = file.file_stem().unwrap().display().to_string();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run(&format!("llm :continue {id}"));
    let screen = zsh.screen();
    assert!(screen.contains("1 prompt, last used 2 h ago"), "{screen}");
}
