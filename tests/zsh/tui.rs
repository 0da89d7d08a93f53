//! A shell that is driven over HTTP: what its line editor does with actions, and that no text of one is run. The other end of its
//! FIFO is the test.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::plugins;
use super::prose::{PROSE, WATCH, files, reset};
use crate::support::PATIENCE;
use crate::support::events::{Events, open_fifo};
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// A stub that makes the FIFO as the helper does, and reads the prompt of everything else.
pub const MAKE_FIFO: &str = "[[ $1 != make-tui-fifo ]] || { zmodload zsh/files; zf_mkdir -p $AISH_HOME/run/tui; mkfifo $AISH_HOME/run/tui/$3; return }
[[ -t 0 ]] || while read -r; do :; done";

/// Texts other than [`PROSE`] that are a command, an option or a line of the history where they should not be.
const HOSTILE: &[&str] = &[
    ":new",
    ":tui off",
    ":edit; rm victim",
    "-m x; rm victim",
    "--file=victim",
    "-- -- rm victim",
    "\nrm victim",
    "\n\n\trm victim\n",
    "\t; rm victim",
    "EOF\nrm victim\nEOF",
    "''\nrm victim\n''",
    "!!; rm victim",
    "!llm:s/llm/rm victim/",
    "^llm^rm victim;",
    "`rm victim`$(rm victim)${(e):-$(rm victim)}",
    "'; rm victim; '",
    "\"; rm victim; \"",
    "$'\\'; rm victim; $'",
    "x) ; rm victim; (",
    "x } ; rm victim; {",
    "x #\nrm victim #",
    "x \\\nrm victim",
    "G\nG\nG",
    "done; esac; fi; rm victim",
    "=(rm victim) <(rm victim)",
    "llm -- x\nllm -- y; rm victim",
    "\u{202e}mitciv mr ;\u{200b} rm victim",
];

/// A driven shell.
struct Driven<'h> {
    zsh: Zsh<'h>,
    events: &'h Events,
    fifo: File,
    number: u64,
}

/// Time from now on, in seconds since 1970.
fn within(time: Duration) -> f64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    (now + time).as_secs_f64()
}

impl<'h> Driven<'h> {
    /// Starts a shell and types `llm :tui` in it.
    fn start(home: &'h Home, events: &'h Events) -> Driven<'h> {
        let mut zsh = Zsh::start(home);
        zsh.run("llm :tui");
        let fifos = std::fs::read_dir(home.path("aish/run/tui")).expect("FIFOs");
        let fifos: Vec<PathBuf> = fifos.map(|entry| entry.expect("a FIFO").path()).collect();
        assert_eq!(fifos.len(), 1, "{}", zsh.screen());
        Driven {
            zsh,
            events,
            fifo: open_fifo(&fifos[0]),
            number: 0,
        }
    }

    /// Writes an action, which is dropped if it is read after `time`. Returns its number.
    fn write(&mut self, action: &str, text: &str, time: Duration) -> u64 {
        self.number += 1;
        let number = self.number;
        let deadline = within(time);
        let length = text.len();
        let record = format!("\0{number} {deadline:.3} {action} {length} {text}\0");
        self.fifo.write_all(record.as_bytes()).expect("an action");
        number
    }

    /// Waits for the report about an action.
    fn report(&self, number: u64) -> String {
        loop {
            let event = self.events.next();
            if event.text(0) == "tui" {
                assert_eq!(event.text(2), number.to_string(), "{event:?}");
                return event.text(3);
            }
        }
    }

    /// Makes the shell perform an action, and returns the outcome. The terminal reports its state when it is asked.
    fn act(&mut self, action: &str, text: &str) -> String {
        let seen = self.zsh.raw().len();
        let number = self.write(action, text, PATIENCE);
        if action == "submit" {
            self.zsh.wait_raw(seen, b"\x1b[5n");
            self.zsh.send("\x1b[0n");
        }
        self.report(number)
    }
}

/// Puts hostile texts into the edit buffer of one shell, in one part or in two, and accepts each with Enter or by a submission.
/// Each must arrive as a prompt, and nothing in it may have run.
fn check(name: &str, zshrc: &str) {
    let home = Home::with_stub(MAKE_FIFO);
    let events = Events::listen(&home);
    std::fs::create_dir(home.path("w")).expect("w");
    home.zshrc(&format!(
        "alias -g G='; rm victim' GG='> created'\nalias rm='rm -f'\n{zshrc}\n{WATCH}"
    ));
    let mut driven = Driven::start(&home, &events);
    for (n, text) in HOSTILE.iter().chain(PROSE).enumerate() {
        let prompt = text.trim_start();
        if prompt.is_empty() {
            continue;
        }
        reset(&home);
        let shown = |driven: &Driven<'_>| format!("{name}: {text:?}\n{}", driven.zsh.screen());
        let middle = text.chars().count() / 2;
        let (one, two) = text.split_at(text.char_indices().nth(middle).map_or(0, |(at, _)| at));
        let parts = if n % 3 == 0 {
            vec![one, two]
        } else {
            vec![*text]
        };
        for part in parts {
            assert_eq!(driven.act("append", part), "done", "{}", shown(&driven));
        }
        if n % 2 == 0 {
            assert_eq!(driven.act("submit", ""), "done", "{}", shown(&driven));
            driven.zsh.prompt();
        } else {
            driven.zsh.run("");
        }
        let calls = home.calls();
        assert_eq!(calls.len(), 1, "{}", shown(&driven));
        let offered = usize::from(calls[0].get(3).is_some_and(|w| w == "--offer"));
        let expected = ["--submitted", prompt];
        assert_eq!(calls[0][3 + offered..], expected, "{}", shown(&driven));
        // Quoted in the history, from where `fc` runs lines that no hook sees; and so none for other plugins.
        assert_eq!(home.read("preexec"), "", "{}", shown(&driven));
        let history = driven
            .zsh
            .eval("print -rn -- \"${history[$((HISTCMD - 1))]}\"");
        assert_eq!(words_of(&history), ["llm", prompt], "{}", shown(&driven));
        let left = [("in.txt", "a log\n"), ("victim", "here\n")];
        let left = left.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(files(&home.path("w")), left, "{}", shown(&driven));
    }
}

/// The words of a command line, without the end of its options.
fn words_of(line: &str) -> Vec<String> {
    let script = "eval \"set -- $1\"; [[ $2 != -- ]] || argv[2]=(); print -rNn -- \"$@\"";
    let zsh = Command::new("zsh")
        .args(["-fc", script, "zsh", line])
        .output();
    let zsh = zsh.expect("zsh");
    assert!(zsh.status.success(), "{line}: {zsh:?}");
    let text = String::from_utf8(zsh.stdout).expect("UTF-8");
    let words = text.split('\0').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn setup(name: &str, before: &str) {
    check(name, &format!("{before}\n{}", source_plugin()));
}

#[test]
fn no_text_is_run() {
    setup("plain", "");
    setup("interactive_comments", "setopt interactive_comments");
}

#[test]
fn no_text_is_run_without_aliases_or_with_other_words() {
    setup("no_aliases", "setopt no_aliases");
    setup(
        "words",
        "setopt ksh_arrays sh_word_split rc_quotes csh_junkie_quotes extended_glob",
    );
    // Set later: zsh cannot source a file without its comments.
    let histchars = "setopt interactive_comments; histchars='@^+'";
    check(
        "history",
        &format!(
            "setopt hist_reduce_blanks\n{}\n{histchars}",
            source_plugin()
        ),
    );
}

#[test]
fn no_text_is_run_in_vi_mode() {
    setup("vi", "bindkey -v");
}

#[test]
fn no_text_is_run_with_other_plugins() {
    let (one, two) = (
        plugins::source(plugins::SUGGESTIONS),
        plugins::source(plugins::HIGHLIGHTING),
    );
    setup("plugins before", &format!("{one}\n{two}"));
    check(
        "plugins after",
        &format!("{}\n{one}\n{two}", source_plugin()),
    );
}

#[test]
fn a_shell_refuses_where_the_words_could_be_syntax() {
    let home = Home::with_stub(MAKE_FIFO);
    let events = Events::listen(&home);
    home.zshrc(&format!(
        "{}\nautoload -Uz compinit && compinit -u -d ~/dump\nzstyle ':completion:*' menu select\n\
         other() {{ : }}\nreplace() {{ zle -N zle-line-finish other }}\nzle -N replace-hook replace\nbindkey '^Xr' replace-hook\n\
         nested() {{ zle recursive-edit }}\nzle -N nested\nbindkey '^Xn' nested\nbindkey '^Xv' vi-cmd-mode\nbindkey -M vicmd q vi-insert",
        source_plugin()
    ));
    std::fs::create_dir_all(home.path("menu/one")).expect("a directory");
    std::fs::create_dir_all(home.path("menu/other")).expect("a directory");
    let mut driven = Driven::start(&home, &events);
    for (keys, shows, outcome, back) in [
        ("print mine", "> print mine", "other", "\x15"),
        ("llm words", "> llm words", "other", "\x15"),
        ("llm -c -- words", "> llm -c -- words", "other", "\x15"),
        ("llm", "> llm", "other", "\x15"),
        (" llm -- x", ">  llm -- x", "other", "\x15"),
        ("true; llm -- x", "> true; llm -- x", "other", "\x15"),
        // A search, and the selection from a menu.
        ("\x12", "bck-i-search: _", "busy", "\x07\x15"),
        ("llm -- x\x12", "bck-i-search: _", "busy", "\x07\x15"),
        ("ls menu/\t\t\t", "menu/one/", "busy", "\x07\x15"),
        // The rest of a command, and command mode.
        ("print 'open\r", "quote> ", "busy", "\x07"),
        ("ab\x18vhx", "> b", "busy", "q\x15"),
        ("\x18nq", "> q", "busy", "\x07\x15"),
    ] {
        driven.zsh.send("x\x15");
        driven.zsh.send(keys);
        driven.zsh.wait_text(shows);
        let what = format!("{keys:?}\n{}", driven.zsh.screen());
        assert_eq!(driven.act("append", "; rm x"), outcome, "{what}");
        assert_eq!(driven.act("notice", "still shown"), "done", "{what}");
        driven.zsh.wait_text("[aish] still shown");
        let number = driven.write("submit", "", PATIENCE);
        assert_eq!(driven.report(number), outcome, "{what}");
        driven.zsh.send(back);
        if shows == "quote> " {
            driven.zsh.prompt();
        }
        driven.zsh.run("clear");
    }
    assert_eq!(driven.act("append", "a prompt"), "done");
    driven.zsh.wait_text("> llm -- a prompt");
    // Another plugin has replaced the hook; the next prompt installs it again.
    driven.zsh.send("\x18r");
    driven.zsh.send("x");
    driven.zsh.wait_text("> llm -- a promptx");
    assert_eq!(driven.act("append", "; rm x"), "unhooked");
    let number = driven.write("submit", "", PATIENCE);
    assert_eq!(driven.report(number), "unhooked");
    driven.zsh.send("\x15");
    driven.zsh.run("");
    let number = driven.write("submit", "", PATIENCE);
    assert_eq!(driven.report(number), "empty");
    assert_eq!(driven.act("append", &"x".repeat(16 << 10)), "done");
    for outcome in ["done", "done", "full"] {
        assert_eq!(driven.act("append", &"y".repeat(24_500)), outcome);
    }
    driven.zsh.send("\x15");
    driven.zsh.run("");
    assert!(home.calls().iter().all(|call| call[0] == "make-tui-fifo"));
}

#[test]
fn a_submission_needs_the_terminal_and_the_line_as_it_is_then() {
    let home = Home::with_stub(MAKE_FIFO);
    let events = Events::listen(&home);
    let mut driven = Driven::start(&home, &events);
    // The answer of the terminal without a question does nothing.
    driven.zsh.send("print one\x1b[0n two\r");
    driven.zsh.prompt();
    assert!(driven.zsh.screen().contains("\none two\n"));
    // The user empties the line and types something else before the terminal answers.
    assert_eq!(driven.act("append", "a prompt"), "done");
    let seen = driven.zsh.raw().len();
    let number = driven.write("submit", "", PATIENCE);
    driven.zsh.wait_raw(seen, b"\x1b[5n");
    driven.zsh.send("\x15print ty''ped\x1b[0n");
    assert_eq!(driven.report(number), "other");
    driven.zsh.run("");
    driven.zsh.wait_text("\ntyped\n");
    // The terminal answers too late.
    assert_eq!(driven.act("append", "a prompt"), "done");
    let seen = driven.zsh.raw().len();
    let soon = Duration::from_millis(2_000);
    driven.write("submit", "", soon);
    // Not before the deadline, which was written with milliseconds.
    let end = within(soon + Duration::from_millis(1));
    driven.zsh.wait_raw(seen, b"\x1b[5n");
    while within(Duration::ZERO) <= end {
        std::thread::yield_now();
    }
    driven.zsh.send("\x1b[0n!");
    driven.zsh.wait_text("> llm -- a prompt!");
    assert!(home.calls().iter().all(|call| call[0] == "make-tui-fifo"));
    // What was read while a command ran is not done later.
    driven.zsh.send("\x15");
    driven.zsh.send("print re''ady; IFS= read -r x\r");
    driven.zsh.wait_text("\nready");
    driven.write("append", "late", Duration::ZERO);
    // Cut off in a full pipe: the rest is missing.
    driven
        .fifo
        .write_all(b"\x0099 99999999999.0 append 40 half of")
        .expect("a part");
    driven.zsh.run("");
    assert_eq!(driven.act("append", "in time"), "done");
    driven.zsh.wait_text("> llm -- in time");
    // One undo takes it back.
    driven.zsh.send("\x1fprint un''done\r");
    driven.zsh.wait_text("\nundone\n");
}

#[test]
fn nothing_but_a_person_makes_a_driven_shell() {
    let home = Home::with_stub(MAKE_FIFO);
    home.zshrc(&format!("{}\nfc -p", source_plugin()));
    let mut zsh = Zsh::start(&home);
    // Without `llm :tui` there is nothing that costs time.
    let state = "zle -F; zle -l | grep tui; bindkey | grep tui; print -r -- ${(k)_aish[(I)tui*]}";
    assert_eq!(zsh.eval(state), "\n");
    let hooks = "[[ $functions[_aish_precmd]$functions[_aish_preexec] != *tui* ]] && print unused";
    assert_eq!(zsh.eval(hooks), "unused\n");
    let refused = zsh.eval("( llm :tui ); print $?");
    assert!(
        refused.contains("type it at the prompt of the shell") && refused.ends_with("1\n"),
        "{refused}"
    );
    assert!(zsh.eval("llm :tui twice; print $?").ends_with("2\n"));
    zsh.run("llm :tui; sleep 1000 &!");
    assert!(zsh.eval(state).contains("_aish_tui_read"));
    zsh.run("llm :tui off; kill $!");
    assert_eq!(zsh.eval(state), "\n");
    // The words after `llm` are the shell's.
    home.zshrc(&format!("AISH_NO_ACCEPT_LINE=1\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm :tui || print re''fused");
    let screen = zsh.screen();
    assert!(
        screen.contains("AISH_NO_ACCEPT_LINE") && screen.contains("\nrefused\n"),
        "{screen}"
    );
}
