//! Words of the `llm` command line reach the model exactly as typed.

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// Types `line` in a fresh shell and returns the words that the helper got.
fn asked(line: &str) -> Vec<String> {
    let home = Home::with_stub("print -r -- answered");
    let mut zsh = Zsh::start(&home);
    zsh.run(line);
    home.asked()
}

/// One shell, many lines: each must arrive as these words.
fn check(zshrc: &str, cases: &[(&str, &[&str])]) {
    let home = Home::with_stub("print -r -- answered");
    home.zshrc(&format!("{zshrc}\n{}", source_plugin()));
    std::fs::write(home.path("err.log"), "a log\n").expect("err.log");
    let mut zsh = Zsh::start(&home);
    for (line, words) in cases {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(home.asked(), *words, "{line}\n{}", zsh.screen());
    }
}

#[test]
fn prose_arrives_as_it_was_typed() {
    check(
        "",
        &[
            (
                "llm why is the sky blue?",
                &["why", "is", "the", "sky", "blue?"],
            ),
            (
                "llm what are * ? [a-z] a^b x~y",
                &["what", "are", "*", "?", "[a-z]", "a^b", "x~y"],
            ),
            ("llm what's up", &["what's", "up"]),
            (
                "llm what's the cat's name",
                &["what's", "the", "cat's", "name"],
            ),
            (
                "llm the cats' food isn't here",
                &["the", "cats'", "food", "isn't", "here"],
            ),
            ("llm say \"hi\"", &["say", "hi"]),
            ("llm say \"it's\" isn't it", &["say", "it's", "isn't", "it"]),
            ("llm 'two words' and one", &["two words", "and", "one"]),
            ("llm 'what's up'", &["'what's up'"]),
            ("llm say \"oops", &["say \"oops"]),
            ("llm a 5'10\" door", &["a 5'10\" door"]),
            ("llm why does foo() fail", &["why does foo() fail"]),
            (
                "llm fn f(x) { return }",
                &["fn", "f(x)", "{", "return", "}"],
            ),
            ("llm :) hello", &[":) hello"]),
            (
                "llm what is ~ or ~nobody or =nothing",
                &["what", "is", "~", "or", "~nobody", "or", "=nothing"],
            ),
            ("llm use {a,b} here}", &["use", "{a,b}", "here}"]),
            ("llm hello!world and C!", &["hello!world", "and", "C!"]),
            ("llm größe's ü'x 你'好", &["größe's", "ü'x", "你'好"]),
            ("llm what\\'s up", &["what's", "up"]),
            ("  llm what's up", &["what's", "up"]),
            (
                "llm -c -m big what's ~",
                &["-c", "-m", "big", "what's", "~"],
            ),
            (
                "llm -- -x isn't an option",
                &["--", "-x", "isn't", "an", "option"],
            ),
            ("llm -c say \"oops", &["-c", "say \"oops"]),
        ],
    );
}

#[test]
fn comments_and_extended_globs_are_words_too() {
    check(
        "setopt interactive_comments extended_glob null_glob magic_equal_subst",
        &[
            ("llm what is # in zsh", &["what", "is", "#", "in", "zsh"]),
            (
                "llm why a^b or x# or *~y",
                &["why", "a^b", "or", "x#", "or", "*~y"],
            ),
            ("llm (a|b) and nothing*", &["(a|b)", "and", "nothing*"]),
        ],
    );
}

#[test]
fn shell_syntax_keeps_its_meaning() {
    let home = Home::with_stub("[[ -t 0 ]] && print -r -- terminal || cat");
    std::fs::write(home.path("err.log"), "the log\n").expect("err.log");
    let mut zsh = Zsh::start(&home);
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "llm what's this < err.log >out",
            &["what's", "this"],
            "the log\n",
        ),
        (
            "llm what's this < ~/err.log > ~/out",
            &["what's", "this"],
            "the log\n",
        ),
        (
            "llm what's it | tr a-z A-Z >out",
            &["what's", "it"],
            "TERMINAL\n",
        ),
        ("print diff | llm review >out", &["review"], "diff\n"),
        (
            "print diff | llm what's it | tr a-z A-Z >out",
            &["what's", "it"],
            "DIFF\n",
        ),
        (
            "var='a value'; llm \"quoted  text\" $var >out",
            &["quoted  text", "a value"],
            "terminal\n",
        ),
        (
            "llm \"quoted  text\" $var >out",
            &["quoted  text", "a value"],
            "terminal\n",
        ),
        ("llm a >/dev/null; print second >out", &["a"], "second\n"),
        (
            "llm what's $(print x) `print y` >out",
            &["what's", "x", "y"],
            "terminal\n",
        ),
        (
            "llm -f ~/err.log what's >out 2>&1",
            &[
                "-f",
                &format!(
                    "{}/err.log",
                    home.path("").display().to_string().trim_end_matches('/')
                ),
                "what's",
            ],
            "terminal\n",
        ),
    ];
    for (line, words, out) in cases {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        let calls = home.calls();
        assert_eq!(calls.len(), 1, "{line}\n{}", zsh.screen());
        // Without --offer if the answer goes into a file or a pipe.
        assert_eq!(calls[0][3..], **words, "{line}");
        assert_eq!(home.read("out"), *out, "{line}");
    }
}

#[test]
fn prose_behind_a_pipe_arrives_as_it_was_typed() {
    check(
        "setopt interactive_comments",
        &[
            ("print diff | llm what's wrong", &["what's", "wrong"]),
            (
                "print diff |& llm why didn't that work?",
                &["why", "didn't", "that", "work?"],
            ),
            (
                "false || llm what's the cat's name {a,b}",
                &["what's", "the", "cat's", "name", "{a,b}"],
            ),
            (
                "print 'it''s' | cat err.log|llm -c isn't it",
                &["-c", "isn't", "it"],
            ),
            ("print x | llm fn f(x) { \"oops", &["fn f(x) { \"oops"]),
            (
                "print x | llm 'two words' isn't 2>/dev/null",
                &["two words", "isn't"],
            ),
        ],
    );
}

#[test]
fn a_line_that_only_resembles_a_pipe_is_left_alone() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    for (line, out) in [
        ("print -r -- \"a | llm b's {c}\"", "a | llm b's {c}\n"),
        ("print -r -- \"a || llm b's {c}\"", "a || llm b's {c}\n"),
        ("print -r -- 'a | llm {b}' x's'", "a | llm {b} xs\n"),
        ("print -r -- a \\| llm x's'", "a | llm xs\n"),
        ("print -r -- $(print a | llm {b,c}) d", "d\n"),
        ("case llm in a| llm ) print {b,c};; esac", "b c\n"),
    ] {
        zsh.run(&format!("{line} >out"));
        assert_eq!(home.read("out"), out, "{line}\n{}", zsh.screen());
    }
    // The body of a here-document, pasted with its command.
    zsh.run("\x1b[200~cat >out <<EOF\nfoo | llm what's {this}\nEOF\x1b[201~");
    assert_eq!(home.read("out"), "foo | llm what's {this}\n");
}

#[test]
fn here_documents_and_trailing_pipes_work_as_without_the_plugin() {
    let home = Home::with_stub("[[ -t 0 ]] || cat");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's this <<EOF >out\rone's\rEOF");
    assert_eq!(home.read("out"), "one's\n");
    zsh.run("llm what's this </dev/null |\rwc -l >out");
    assert_eq!(home.read("out").trim(), "0");
}

#[test]
fn history_and_screen_hold_what_was_typed() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's up");
    zsh.run("llm say \"oops");
    zsh.run("llm plain words");
    assert!(
        zsh.screen()
            .contains("<1> llm what's up\n<2> llm say \"oops\n<3> llm plain words\n")
    );
    let history = zsh.eval("fc -ln 1");
    assert!(
        history.starts_with("llm what's up\nllm say \"oops\nllm plain words\n"),
        "{history}"
    );
    // A line from the history means the same.
    zsh.run("!llm what");
    let _ = std::fs::remove_file(home.path("calls"));
    zsh.send("\x10\x10\x10\x10\x10\r");
    zsh.prompt();
    assert_eq!(home.asked(), ["what's", "up"]);
}

#[test]
fn a_line_to_forget_stays_out_of_the_history() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("setopt hist_ignore_space");
    zsh.run(" llm what's secret");
    assert_eq!(home.asked(), ["what's", "secret"]);
    assert!(!zsh.eval("fc -ln 1").contains("secret"));
}

#[test]
fn the_rewriting_can_be_switched_off() {
    let home = Home::with_stub("print -r -- answered");
    home.zshrc(&format!("AISH_NO_ACCEPT_LINE=1\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's the cat's name?");
    assert_eq!(home.asked(), ["whats the cats", "name?"]);
    assert!(
        !zsh.eval("print -r -- ${widgets[zle-line-finish]-none}")
            .contains("aish")
    );
}

#[test]
fn other_lines_are_left_alone() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    for (line, out) in [
        ("print -r -- llm {a,b}", "llm a b\n"),
        ("print -r -- 'llm what'", "llm what\n"),
        (
            "llmx=1; print -r -- $llmx ~",
            &*format!(
                "1 {}\n",
                home.path("").display().to_string().trim_end_matches('/')
            ),
        ),
    ] {
        assert_eq!(zsh.eval(line), out);
    }
    // A continuation line is not rewritten.
    zsh.run("print -r -- \"\rllm {a,b}\" >out");
    assert_eq!(home.read("out"), "\nllm {a,b}\n");
}

#[test]
fn a_pasted_page_is_processed_quickly() {
    let page = "what's the cat's name, and {why}? ".repeat(400);
    assert_eq!(
        asked(&format!("\x1b[200~llm {page}\x1b[201~")).join(" "),
        page.trim_end()
    );
    let big = "it's a long page ".repeat(1200);
    // Too long to rewrite: prose if zsh cannot parse it, shell code otherwise.
    assert_eq!(
        asked(&format!("\x1b[200~llm {big}isn't\x1b[201~")),
        [format!("{big}isn't")]
    );
}

#[test]
fn the_function_returns_the_exit_code_of_the_client() {
    let home = Home::with_stub(":");
    for code in ["0", "1", "2", "3", "4", "130"] {
        home.stub(&format!("exit {code}"));
        let mut zsh = Zsh::start(&home);
        zsh.run("llm x");
        assert_eq!(zsh.eval("print $?"), format!("{code}\n"));
    }
}

#[test]
fn a_missing_helper_is_reported_with_the_remedy() {
    let home = Home::new();
    std::fs::remove_file(home.path("bin/aish-helper")).expect("the link");
    let mut zsh = Zsh::start(&home);
    assert_eq!(
        zsh.eval("llm hello"),
        "llm: cannot find aish-helper: run install.sh again, or set AISH_HELPER to its path\n"
    );
    zsh.run("llm hello");
    assert_eq!(zsh.eval("print $?"), "3\n");
    zsh.run("AISH_HELPER=/nowhere/aish");
    assert_eq!(
        zsh.eval("llm hello"),
        "llm: AISH_HELPER is not a program: /nowhere/aish: set it to the path of aish-helper, or unset it\n"
    );
}

#[test]
fn no_words_at_all_reach_the_client_with_the_terminal() {
    let home = Home::with_stub("[[ -t 0 ]] && print -r -- terminal >$HOME/out");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm");
    assert_eq!(home.asked(), [""; 0]);
    assert_eq!(home.read("out"), "terminal\n");
}

#[test]
fn meta_commands_are_mapped() {
    let home = Home::with_stub("print -r -- answered");
    let mut zsh = Zsh::start(&home);
    let id = zsh.eval("print -rn -- $_aish[id]");
    for (line, call) in [
        ("llm :model", vec!["model", "list", "--shell", &id]),
        (
            "llm :model --json",
            vec!["model", "list", "--shell", &id, "--json"],
        ),
        (
            "llm :model smollm2",
            vec!["model", "use", "--shell", &id, "smollm2"],
        ),
        ("llm :new", vec!["session", "new", "--shell", &id]),
        ("llm :sessions --json", vec!["session", "list", "--json"]),
        ("llm :status", vec!["status", "--shell", &id]),
        ("llm :history", vec!["session", "show", "--shell", &id]),
        (
            "llm :history 1f",
            vec!["session", "show", "--shell", &id, "1f"],
        ),
        ("llm :activity", vec!["activity", "list"]),
        (
            "llm :activity --limit 3",
            vec!["activity", "list", "--limit", "3"],
        ),
        ("llm :activity show 1f", vec!["activity", "show", "1f"]),
        ("llm :policy", vec!["policy", "list"]),
        (
            "llm :policy revoke fs.read",
            vec!["policy", "revoke", "fs.read"],
        ),
        (
            "llm :policy explain fs:read --json",
            vec!["policy", "explain", "--shell", &id, "fs:read", "--json"],
        ),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(home.calls(), [call], "{line}");
    }
}

#[test]
fn help_is_printed_and_an_unknown_command_names_the_nearest() {
    let home = Home::with_stub("print -r -- answered");
    let mut zsh = Zsh::start(&home);
    let help = zsh.eval("llm :help");
    for word in [
        ":model",
        ":new",
        ":sessions",
        ":history",
        ":status",
        ":activity",
        ":policy",
        "--attach",
        "Alt-a",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    for (typed, near) in [
        (":stat", ":status"),
        (":modle", ":model"),
        (":sesions", ":sessions"),
        (":nwe", ":new"),
    ] {
        let output = zsh.eval(&format!("llm {typed}"));
        assert_eq!(output.lines().count(), 1, "{output}");
        assert!(
            output.contains(typed) && output.contains(&format!("did you mean {near}?")),
            "{output}"
        );
    }
    // Unlike any command, and too long to search for a similar one.
    for typed in [":wq", &format!(":status{}", "x".repeat(60))] {
        let output = zsh.eval(&format!("llm {typed}"));
        assert_eq!(output.lines().count(), 1, "{output}");
        assert!(
            output.contains("; there are :help :model :new "),
            "{output}"
        );
    }
    zsh.run("llm :stat");
    assert_eq!(zsh.eval("print $?"), "2\n");
    assert!(home.calls().is_empty());
}
