//! The rule for prose and shell syntax: what is a prompt, what are options, and what stays shell.

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// One shell, many lines: each must arrive as these words.
fn check(zshrc: &str, cases: &[(&str, &[&str])]) {
    let home = Home::with_stub("[[ -t 0 ]] || while read -r; do :; done");
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
fn options_before_the_prose_are_shell_syntax() {
    check(
        "x=err.log",
        &[
            ("llm -c -m big what's ~", &["-c", "-m", "big", "what's ~"]),
            (
                "llm -f $x -f 'err.log' -f \"$x\" -f err\\.log it's",
                &[
                    "-f", "err.log", "-f", "err.log", "-f", "err.log", "-f", "err.log", "it's",
                ],
            ),
            (
                "llm --file=\"$x\" --model=a* it's",
                &["--file=err.log", "--model=a*", "it's"],
            ),
            (
                "llm --attach 1f --no-tools --dry-run it's",
                &["--attach", "1f", "--no-tools", "--dry-run", "it's"],
            ),
            (
                "llm --prompt @coding --prompt=none it's",
                &["--prompt", "@coding", "--prompt=none", "it's"],
            ),
            (
                "llm --tools @minimal,fs.rea* --tools=none don't",
                &["--tools", "@minimal,fs.rea*", "--tools=none", "don't"],
            ),
            (
                "llm -r fs:file:///~x/a#b why isn't",
                &["-r", "fs:file:///~x/a#b", "why isn't"],
            ),
            ("llm -- -x isn't an option", &["-x isn't an option"]),
            ("llm -c -- \"quoted\" > x", &["-c", "\"quoted\" > x"]),
            // Not an option, or not a value.
            ("llm -rf bites", &["-rf bites"]),
            ("llm -fc it's", &["-fc it's"]),
            ("llm --newer it's", &["--newer it's"]),
            ("llm -r is for recursive", &["-r is for recursive"]),
            ("llm -f $(rm victim) it's", &["-f $(rm victim) it's"]),
            ("llm -f `rm victim` it's", &["-f `rm victim` it's"]),
            ("llm -m a;b it's", &["-m a;b it's"]),
            ("llm -h is help", &["-h is help"]),
            ("llm --version; true", &["--version"]),
            ("llm --help && true", &["--help"]),
            ("llm :wq isn't a command", &[":wq isn't a command"]),
            ("llm :) hello", &[":) hello"]),
        ],
    );
}

#[test]
fn an_option_value_is_one_word_in_which_nothing_runs() {
    check(
        "alias -g G='; touch created'\nx='a  b' none=",
        &[
            ("llm -m G it's", &["-m", "G", "it's"]),
            (
                "llm -m $x -f ${x} it's",
                &["-m", "a  b", "-f", "a  b", "it's"],
            ),
            ("llm -m $none it's", &["-m", "", "it's"]),
            ("llm -m {a,b} it's", &["-m {a,b} it's"]),
            ("llm -m !$ it's", &["-m !$ it's"]),
            (
                "llm -m \"$(touch created)\" x",
                &["-m \"$(touch created)\" x"],
            ),
            ("llm -f ${x:=y} x", &["-f ${x:=y} x"]),
        ],
    );
}

#[test]
fn commands_that_take_words_take_them_as_typed() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    let id = zsh.eval("print -rn -- $_aish[id]");
    for (line, call) in [
        (
            "llm :rename *? can't `touch created`",
            &[
                "session",
                "rename",
                "--shell",
                &id,
                "*? can't `touch created`",
            ][..],
        ),
        (
            "llm :search it's  $(touch created) ?",
            &[
                "session", "search", "--", "it's", "$(touch", "created)", "?",
            ],
        ),
        (
            "llm :search 'one phrase' | cat",
            &["session", "search", "one phrase"],
        ),
        (
            "llm :edit what's > this?",
            &[
                "ask",
                "--shell",
                &id,
                "--offer",
                "--edit",
                "--",
                "what's > this?",
            ],
        ),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(home.calls(), [call], "{line}\n{}", zsh.screen());
    }
    assert!(!home.path("created").exists());
}

#[test]
fn a_prompt_that_cannot_be_told_from_commands_is_refused() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    for line in [
        "{ llm what; touch created }",
        "(llm 'a' `touch created`)",
        "(llm \"a\" & \"b\" same? $(touch created))",
        "while llm what's; do touch created; done",
        "print \"$(llm what `touch created`)\"",
        "print `llm what; touch created`",
        "()llm it's",
        "f() llm what is rm -rf x",
        "function f llm $(touch created)",
        "exec llm hi",
        "- llm it's",
        "sudo -u root llm $(touch created)",
        &format!("print {}; llm it's", "llm ".repeat(50)),
        &format!(
            "\x1b[200~: {}; llm it's $(touch created)\x1b[201~",
            "a".repeat(70_000)
        ),
    ] {
        zsh.send("\x0c");
        zsh.run(line);
        assert!(
            zsh.screen().contains("llm: nothing was run: "),
            "{line}\n{}",
            zsh.screen()
        );
        assert!(!home.path("created").exists(), "{line}");
    }
    assert!(home.calls().is_empty());
    assert_eq!(zsh.eval("print $+functions[f]"), "0\n");
    // Plain words, a quoted one, and another program of that name.
    for (line, asked) in [
        ("(llm what)", &["what"][..]),
        ("for x in 1 2; do llm \"why $x\"; done", &["why 1", "why 2"]),
        ("f() { llm \"$1\" }; f 'a b'", &["a b"]),
        ("x=$(llm what)", &["what"]),
        ("env llm logs", &[]),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        let calls = home.calls().into_iter().map(|c| c.last().cloned());
        assert_eq!(calls.flatten().collect::<Vec<_>>(), asked, "{line}");
    }
}

#[test]
fn an_option_that_was_mistyped_or_has_no_value_is_not_sent() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    for (line, reason) in [
        ("llm --bakground do it", "--background?"),
        ("llm --modle x hi", "--model?"),
        ("llm --no-ouput why", "--no-output?"),
        ("llm -c --dry-rn it's", "--dry-run?"),
        ("llm --back do it", "--background?"),
        ("llm -m", "-m needs a value"),
        ("llm --new --model=", "--model needs a value"),
        ("llm :", "no such command: :"),
    ] {
        zsh.send("\x0c");
        zsh.run(line);
        let screen = zsh.screen().replace('\n', "");
        assert!(
            screen.contains("llm: nothing was run: "),
            "{line}\n{screen}"
        );
        assert!(screen.contains(reason), "{line}\n{screen}");
    }
    assert!(home.calls().is_empty());
    // What is like no option is prose, and so is everything after `--`.
    for (line, asked) in [
        (
            "llm --verbose isn't known to gcc",
            "--verbose isn't known to gcc",
        ),
        ("llm -- --modle isn't it?", "--modle isn't it?"),
        ("llm -- :", ":"),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(home.asked(), [asked], "{line}");
    }
    let _ = std::fs::remove_file(home.path("calls"));
    zsh.run("llm --new -x isn't");
    assert_eq!(home.asked(), ["--new", "-x isn't"]);
}

#[test]
fn a_users_alias_adds_its_options() {
    let home = Home::with_stub(":");
    home.zshrc(&format!("{}\nalias llm='llm -m big'", source_plugin()));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm -c what's up");
    assert_eq!(home.asked(), ["-m", "big", "-c", "what's up"]);
    assert_eq!(zsh.eval("alias llm"), "llm='llm -m big'\n");
}

#[test]
fn a_file_behind_the_prose_is_attached() {
    let home = Home::with_stub("[[ $1 == start || -t 0 ]] || cat >$HOME/input");
    std::fs::write(home.path("err.log"), "the log\n").expect("err.log");
    std::fs::write(home.path("a b"), "blank\n").expect("a b");
    let in_home = format!("--input={}", home.path("err.log").display());
    let mut zsh = Zsh::start(&home);
    for (line, words, input) in [
        (
            "llm what's this < err.log",
            &["--input=err.log", "what's this"][..],
            "",
        ),
        (
            "llm what's this <~/err.log ",
            &[in_home.as_str(), "what's this"],
            "",
        ),
        (
            "llm what's this < 'a b'",
            &["--input=a b", "what's this"],
            "",
        ),
        (
            "llm what's this < a\\ b",
            &["--input=a b", "what's this"],
            "",
        ),
        (
            "cd /; cd ~ && llm what's this < err.log",
            &["--input=err.log", "what's this"],
            "",
        ),
        ("llm < err.log", &[], "the log\n"),
        (
            "\x1b[200~llm what's\nthis < err.log\x1b[201~",
            &["--input=err.log", "what's\nthis"],
            "",
        ),
        (
            "echo diff | llm what's this < err.log",
            &["--input=err.log", "what's this"],
            "diff\n",
        ),
        ("llm what's this < nowhere", &["what's this < nowhere"], ""),
        ("llm is err.log<err.log", &["is err.log<err.log"], ""),
        ("llm is it < /", &["is it < /"], ""),
        ("llm is it << err.log", &["is it << err.log"], ""),
        ("llm what < err.log is it", &["what < err.log is it"], ""),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        let _ = std::fs::remove_file(home.path("input"));
        zsh.send("\x0c");
        zsh.run(line);
        assert_eq!(home.asked(), *words, "{line}\n{}", zsh.screen());
        assert_eq!(home.read("input"), input, "{line}\n{}", zsh.screen());
        assert_eq!(
            zsh.screen().contains("[aish] the prompt: err.log"),
            line == "llm < err.log",
            "{}",
            zsh.screen()
        );
    }
}

#[test]
fn one_quoted_word_is_shell_syntax() {
    let home = Home::with_stub("[[ -t 0 ]] && print -r -- terminal || cat");
    std::fs::write(home.path("err.log"), "the log\n").expect("err.log");
    let mut zsh = Zsh::start(&home);
    zsh.run("var='a value'");
    for (line, words, out) in [
        (
            "llm \"what's  this\" < err.log >out",
            "what's  this",
            "the log\n",
        ),
        (
            "llm 'what is it' | tr a-z A-Z >out",
            "what is it",
            "TERMINAL\n",
        ),
        (
            "echo diff | llm \"review $var\" >out 2>&1",
            "review a value",
            "diff\n",
        ),
        (
            "llm $'it\\'s' >/dev/null; print second >out",
            "it's",
            "second\n",
        ),
        (
            "llm \"$(print \"x y\")\" &> out && true",
            "x y",
            "terminal\n",
        ),
        ("llm 'a' <<EOF >out\rone's\rEOF", "a", "one's\n"),
        ("llm 'a' </dev/null |\rwc -c >out", "a", "0\n"),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        let calls = home.calls();
        assert_eq!(calls.len(), 1, "{line}\n{}", zsh.screen());
        // Without --offer, because the answer goes into a file or a pipe.
        assert_eq!(calls[0][3..], [words], "{line}");
        assert_eq!(home.read("out"), out, "{line}");
    }
}

#[test]
fn a_line_may_hold_shell_syntax_before_the_prompt() {
    let home = Home::with_stub("[[ -t 0 ]] || while read -r; do :; done");
    let mut zsh = Zsh::start(&home);
    let mut asked = |line: &str| {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        assert_eq!(
            zsh.eval("print -rn -- $history[$((HISTCMD - 1))]"),
            line.replace("\x1b[200~", "").replace("\x1b[201~", ""),
            "{}",
            zsh.screen()
        );
        let calls = home.calls().into_iter();
        calls
            .map(|c| c.last().expect("a word").clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        asked("llm 'a'; llm \"b\" | cat; llm it's; rm x"),
        ["a", "b", "it's; rm x"]
    );
    assert_eq!(
        asked("llm \"use llm here\"; llm it's"),
        ["use llm here", "it's"]
    );
    assert_eq!(asked("print llm x >/dev/null; llm it's"), ["it's"]);
    assert_eq!(asked("(llm 'a'); llm it's"), ["a", "it's"]);
    assert_eq!(
        asked("print '(' \"a | llm b\" >/dev/null; llm it's"),
        ["it's"]
    );
    assert_eq!(asked("print # >/dev/null; llm it's"), ["it's"]);
    assert_eq!(asked("repeat 2 llm it's"), ["it's", "it's"]);
    assert_eq!(
        asked("\x1b[200~true\ncat <<E >/dev/null\nllm it's\nE\nllm it's\nso\x1b[201~"),
        ["it's\nso"]
    );
    assert_eq!(asked("time llm 'a'; { llm a }"), ["a", "a"]);
}

#[test]
fn the_name_can_be_chosen() {
    let home = Home::with_stub(":");
    home.program(
        "llm",
        "#!/bin/sh\nprintf '%s ' theirs \"$@\" >$HOME/theirs\n",
    );
    home.zshrc(&format!(
        "AISH_NAME='ai a$(touch created) ask'\n{}",
        source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    zsh.run("ai what's up");
    zsh.run("ai 'a'; ask it's");
    zsh.run("llm logs");
    assert_eq!(home.read("theirs"), "theirs logs ");
    let words: Vec<_> = home.calls().into_iter().map(|c| c[4..].to_vec()).collect();
    assert_eq!(words, [["what's up"], ["a"], ["it's"]]);
    assert!(zsh.eval("ai :help").contains("\nai :model [NAME]"));
    assert!(
        zsh.eval("ai :stat")
            .starts_with("ai: no such command: :stat")
    );
    zsh.run("aish_plugin_unload");
    assert!(zsh.eval("ai; ask").contains("command not found: ask"));
}

#[test]
fn a_long_paste_arrives_whole() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    for page in [
        "what's the cat's name, and {why}? ".repeat(400),
        format!(
            "it's a long page\n{}\n",
            "and `another` line\n\n".repeat(8000)
        ),
        format!("it's\n{}", "y\n".repeat(300)),
    ] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(&format!("\x1b[200~llm {page}\x1b[201~"));
        assert!(home.asked() == [page.as_str()], "{}", page.len());
    }
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
        ("print -r -- $(print a | llm b,c) d", "d\n"),
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
    home.zshrc(&format!("AISH_HELPER=/nowhere/aish\n{}", source_plugin()));
    let mut zsh = Zsh::start(&home);
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
        (
            "llm :model --save fake/x:1",
            vec!["model", "use", "--shell", &id, "--save", "fake/x:1"],
        ),
        (
            "llm :model --filter qwen",
            vec!["model", "list", "--shell", &id, "--filter", "qwen"],
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
        ("llm :set", vec!["session", "config", "get", "--shell", &id]),
        (
            "llm :set prompt=@coding tools=@minimal,fs",
            vec![
                "session",
                "config",
                "set",
                "--shell",
                &id,
                "prompt=@coding",
                "tools=@minimal,fs",
            ],
        ),
        ("llm :prompts", vec!["prompt", "list"]),
        ("llm :prompts @coding", vec!["prompt", "show", "@coding"]),
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
        assert_eq!(output.lines().count(), 2, "{output}");
        assert!(
            output.contains(typed) && output.contains(&format!("did you mean {near}?")),
            "{output}"
        );
    }
    // Unlike any command, and too long to search for a similar one.
    for typed in [":wq", &format!(":status{}", "x".repeat(60))] {
        let output = zsh.eval(&format!("llm {typed}"));
        assert_eq!(output.lines().count(), 2, "{output}");
        assert!(output.contains("; llm :help lists them\n"), "{output}");
    }
    zsh.run("llm :stat");
    assert_eq!(zsh.eval("print $?"), "2\n");
    assert!(home.calls().is_empty());
}
