//! Approved commands run in the user's own shell, exactly as shown.

use std::io::Read;
use std::os::fd::AsFd;

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// A stub helper whose `propose` prints the next file of `answers` at each call; with `--check` it prints its command.
const PROPOSES: &str = r#"case $1 in
  ask|attach) print -r -- answered; exit 10 ;;
  propose)
    [[ $* == *--edited* ]] && cat >$HOME/edited
    n=$(( $(cat $HOME/n 2>/dev/null) + 1 ))
    if [[ $* == *--check* && $(head -n 1 $HOME/answers/$n 2>/dev/null) == (run|edit|insert)* ]]; then
      print check
      exec tail -n +2 $HOME/answers/$n
    fi
    print $n >$HOME/n
    [[ -f $HOME/answers/$n ]] && cat $HOME/answers/$n || print none ;;
  exec-done) cat >>$HOME/nonces ;;
  capture) cat >>$HOME/nonces; [[ -f $HOME/tty ]] && cat $HOME/tty || exit 1 ;;
esac"#;

pub(super) fn proposing(zshrc: &str, answers: &[&[u8]]) -> Home {
    let home = Home::with_stub(PROPOSES);
    home.zshrc(&format!("{zshrc}\n{}", source_plugin()));
    std::fs::create_dir(home.path("answers")).expect("answers");
    for (n, answer) in answers.iter().enumerate() {
        let file = home.path(&format!("answers/{}", n + 1));
        std::fs::write(file, [answer, &b"\n"[..]].concat()).expect("an answer");
    }
    home
}

/// The calls after the first, each as its name and the arguments after the shell's id. A question and the check before it
/// are one call.
pub(super) fn after_ask(home: &Home) -> Vec<String> {
    home.calls()[1..]
        .iter()
        .map(|c| format!("{} {}", c[0], c[3..].join(" ")))
        .filter(|call| !matches!(call.trim_end(), "propose" | "propose --incomplete"))
        .map(|call| call.replace(" --check", "").trim_end().to_owned())
        .collect()
}

#[test]
fn a_command_changes_the_shell_it_runs_in() {
    let home = proposing(
        "alias print='print aliased' G=galias\nalias -g WORD=galias\nalias -s txt=salias",
        &[
            b"run t1 terminal\ncd /usr && export FROM=proposal PLAIN && NAME=value && setopt null_glob && f() { builtin print f; }",
            b"run t2 terminal\nprint -r -- WORD !! 'it''s' \"$FROM\" >~/said; [[ -o aliases ]] || builtin print off >>~/said",
            b"run t3 terminal\nsh -c 'exit 7'",
            b"run t4 terminal\nbuiltin print -r -- $? ) (",
        ],
    );
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    assert_eq!(
        after_ask(&home),
        [
            "propose",
            "exec-done t1 --exit 0",
            "propose",
            "exec-done t2 --exit 0",
            "propose",
            "exec-done t3 --exit 7",
            "propose",
            "exec-done t4 --exit 1",
            "propose",
        ]
    );
    assert_eq!(home.read("said"), "WORD !! its proposal\noff\n");
    let state = zsh.eval("builtin print -r -- $? $PWD $FROM $NAME $options[nullglob] $options[aliases] $options[errreturn]; f; env | grep FROM");
    assert_eq!(state, "1 /usr proposal value on on off\nf\nFROM=proposal\n");
    let history = zsh.eval("fc -ln 1");
    assert!(
        history.contains("\ncd /usr && export FROM=proposal PLAIN"),
        "{history}"
    );
    assert!(zsh.screen().contains("its output is not captured"));
}

/// With the nonce, a command could end its own "is running" state.
#[test]
fn reports_contain_a_nonce_that_the_command_does_not_get() {
    let command =
        "env -0 >~/seen; cat /proc/$$/environ >>~/seen; sh -c 'cat; typeset' </dev/null >>~/seen";
    for end in [
        "",
        "; exit 3",
        "; return 4",
        "; f() { (exit 4); exit 3 }; f",
    ] {
        let answer = format!("run t1 capture n0nce\n{command}{end}");
        let home = proposing("", &[answer.as_bytes()]);
        let zsh = Zsh::start(&home);
        zsh.send("llm x\r");
        zsh.exit();
        // Of the capture and of the report.
        assert_eq!(home.read("nonces"), "n0nce\nn0nce\n", "{end}");
        let seen = std::fs::read(home.path("seen")).expect("seen");
        assert!(!String::from_utf8_lossy(&seen).contains("n0nce"), "{end}");
        assert!(!format!("{:?}", home.calls()).contains("n0nce"), "{end}");
    }
}

#[test]
fn attach_offers_the_proposed_commands() {
    let home = proposing("", &[b"run t1 terminal\nprint -r -- ran >~/said"]);
    let mut zsh = Zsh::start(&home);
    zsh.run("llm :attach 1a2b");
    let calls = home.calls();
    let [command, shell, _, offer, session] = &calls[0][..] else {
        panic!("{calls:?}")
    };
    assert_eq!(
        [command, shell, offer, session],
        ["attach", "--shell", "--offer", "1a2b"]
    );
    assert_eq!(
        after_ask(&home),
        ["propose", "exec-done t1 --exit 0", "propose"]
    );
    assert_eq!(home.read("said"), "ran\n");
    // Without a terminal nothing is offered.
    zsh.run("llm :attach | cat");
    let last = home.calls().pop().expect("a call");
    assert_eq!((&last[0][..], last.len()), ("attach", 3), "{last:?}");
}

#[test]
fn exactly_the_bytes_run() {
    let text = b"builtin print -rn -- 'a  b\t\xff\xc3\xa9 \\n %d\n\n'  >~/said\n: last \n\n";
    let home = proposing("", &[&[b"run t1 terminal\n", &text[..]].concat()]);
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    assert_eq!(
        std::fs::read(home.path("said")).expect("said"),
        b"a  b\t\xff\xc3\xa9 \\n %d\n\n"
    );
    zsh.run("print -rn -- $history[2] >said; print -rn -- \"$_aish[text]\" >text");
    assert_eq!(std::fs::read(home.path("text")).expect("text"), text);
}

#[test]
fn captured_output_goes_to_the_slave_and_input_comes_from_the_terminal() {
    let home = proposing("", &[b"run t1 capture\nprint out; print -u2 err; read -r line; print -r -- got $line; exec 5>&1; cd /"]);
    let (pty, pts) = pty_process::blocking::open().expect("a pty");
    let tty = nix::unistd::ttyname(pts.as_fd()).expect("its name");
    std::fs::write(home.path("tty"), tty.to_str().expect("a name")).expect("tty");
    let mut zsh = Zsh::start(&home);
    zsh.send("print piped | llm x\r");
    let mut out = Vec::new();
    let mut buffer = [0; 4096];
    let mut read_until = |mark: &[u8]| {
        while !out.windows(mark.len()).any(|w| w == mark) {
            let n = (&pty).read(&mut buffer).expect("the captured output");
            out.extend_from_slice(&buffer[..n]);
        }
        out.clone()
    };
    read_until(b"err\r\n");
    zsh.send("typed\r");
    assert_eq!(read_until(b"got typed\r\n"), b"out\r\nerr\r\ngot typed\r\n");
    zsh.prompt();
    assert_eq!(
        after_ask(&home),
        ["propose", "capture t1", "exec-done t1 --exit 0", "propose"]
    );
    assert_eq!(zsh.eval("print -r -- $PWD"), "/\n");
    assert!(!zsh.screen().contains("not captured"));
}

#[test]
fn a_failed_capture_runs_on_the_terminal() {
    let home = proposing("", &[b"run t1 capture\nprint -r -- here $((6 * 7))"]);
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    assert!(
        zsh.screen()
            .contains("its output is not captured\nhere 42\n"),
        "{}",
        zsh.screen()
    );
}

#[test]
fn an_edited_command_is_shown_again_before_it_runs() {
    let home = proposing(
        "",
        &[
            b"edit t1\nprint -r -- 'two\nlines' %n",
            b"run t2 terminal\nprint -r -- edited $((6 * 7))",
        ],
    );
    let mut zsh = Zsh::start(&home);
    zsh.send("llm x\r");
    zsh.wait_text("edit> print -r -- 'two\nlines' %n");
    zsh.send(" what's more\r");
    zsh.prompt();
    assert_eq!(
        home.read("edited"),
        "print -r -- 'two\nlines' %n what's more"
    );
    assert_eq!(
        after_ask(&home),
        [
            "propose",
            // An apostrophe is open.
            "propose --incomplete --edited t1",
            "exec-done t2 --exit 0",
            "propose"
        ]
    );
    assert!(zsh.screen().contains("\nedited 42\n"), "{}", zsh.screen());
}

#[test]
fn an_inserted_command_waits_in_the_next_prompt() {
    let home = proposing(
        "",
        &[
            b"no t1",
            b"insert t2\nprint -r -- 'a\\nb' $((6 * 7))",
            b"run t3 terminal\nfalse",
        ],
    );
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    zsh.wait_text("<2> print -r -- 'a\\nb' $((6 * 7))");
    zsh.run("");
    assert!(zsh.screen().contains("\na\\nb 42\n"), "{}", zsh.screen());
    assert_eq!(after_ask(&home), ["propose", "propose"]);
}

#[test]
fn quitting_ends_the_offers() {
    let home = proposing("", &[b"quit", b"run t1 terminal\nfalse"]);
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    assert_eq!(zsh.eval("print $?"), "0\n");
    assert_eq!(after_ask(&home), ["propose"]);
}

#[test]
fn ctrl_c_ends_the_command_and_its_exit_is_reported() {
    for command in [
        "sh -c 'echo started; exec sleep 1000'; print -r -- went on",
        "print started; while :; do :; done",
    ] {
        let home = proposing(
            "",
            &[
                format!("run t1 terminal\n{command}").as_bytes(),
                b"run t2 terminal\nprint second",
            ],
        );
        let mut zsh = Zsh::start(&home);
        zsh.send("llm x\r");
        zsh.wait_text("\nstarted");
        zsh.send("\x03");
        zsh.prompt();
        assert_eq!(
            after_ask(&home),
            [
                "propose",
                "exec-done t1 --exit 130",
                "propose --interrupted"
            ]
        );
        assert!(!zsh.screen().contains("went on") && !zsh.screen().contains("second"));
        zsh.run("alias a='print aliased'");
        zsh.run("a");
        assert!(zsh.screen().contains("\naliased\n"), "aliases are back");
    }
}

#[test]
fn ctrl_c_in_the_editor_ends_the_offers() {
    let home = proposing(
        "",
        &[b"edit t1\nprint wrong", b"run t2 terminal\nprint second"],
    );
    let mut zsh = Zsh::start(&home);
    zsh.send("llm x\r");
    zsh.wait_text("edit> print wrong");
    zsh.interrupt();
    assert_eq!(after_ask(&home), ["propose", "propose --interrupted"]);
}

#[test]
fn no_alias_expands_anywhere_in_a_command() {
    let forms = [
        "echo HEAD",
        "echo $(echo HEAD)",
        "echo `echo HEAD`",
        "cat <(echo HEAD)",
        "cat =(echo HEAD)",
        "echo $(( $(echo 1 HEAD >/dev/null; echo 1) ))",
        "cat <<<$(echo HEAD)",
        "[[ -n $(echo HEAD) ]]",
        "echo /(e:'echo HEAD':)",
        "eval 'echo HEAD'",
        "trap 'echo HEAD' USR1; kill -USR1 $$",
        "x='$(echo HEAD)'; echo ${(e)x}",
        "(echo HEAD)",
        "{ echo HEAD }",
        "f() { echo HEAD }; f",
        "for i in 1; do echo HEAD; done",
        "if echo HEAD; then echo HEAD; fi",
        "case x in (x) echo HEAD ;; esac",
        "cat <<X\n$(echo HEAD)\nX",
        "touch a.txt; a.txt",
        "cmd -x",
        "setopt aliases; eval 'echo HEAD'",
        "options[aliases]=on; echo $(echo HEAD)",
        "emulate zsh -c 'echo HEAD; cmd'",
        "f() { emulate -L zsh; eval 'echo HEAD' }; f",
        "which f; e\\mulate zsh -c 'echo HEAD'",
    ];
    for form in forms {
        let setup =
            "alias -g HEAD='; touch ~/P'\nalias -s txt='touch ~/P;'\nalias cmd='touch ~/P;'";
        let proposal = format!("run t1 terminal\n{form}");
        let home = proposing(setup, &[proposal.as_bytes()]);
        let mut zsh = Zsh::start(&home);
        zsh.run("llm x");
        assert!(!home.path("P").exists(), "{form}");
        zsh.run("cmd true");
        assert!(home.path("P").exists(), "aliases are back after {form}");
    }
}

#[test]
fn aliases_are_the_same_after_a_command() {
    let setup = "alias -g 'G]'='| grep \"a b\"'\nalias -s t-x='less '\nalias one= -- -='cd -'\nalias '*'='x * y'\nsetopt ksh_arrays";
    let home = proposing(
        setup,
        &[
            b"run t1 terminal\nalias one=new two='it'\\''s'; alias -s t-x=new",
            b"run t2 terminal\nalias | grep one",
            b"run t3 terminal\nunalias two",
            b"run t4 terminal\nprint -r -- ${name?unset}",
        ],
    );
    let mut zsh = Zsh::start(&home);
    let before = zsh.eval("alias -L; alias -sL");
    zsh.run("llm x");
    assert!(zsh.screen().contains("\none=new\n"), "{}", zsh.screen());
    let after = zsh.eval("alias -L; alias -sL");
    let expected = before
        .replace("alias one=''", "alias one=new")
        .replace("t-x='less '", "t-x=new");
    assert_eq!(after, expected);
}

#[test]
fn the_users_options_hold_for_the_command() {
    for options in [
        "ksh_arrays",
        "sh_word_split no_unset",
        "err_return",
        "no_aliases",
        "no_clobber",
        "glob_subst null_glob",
        "warn_create_global",
        "local_options",
    ] {
        let home = proposing(
            &format!("setopt {options}"),
            &[
                b"run t1 terminal\nset -o >~/during",
                b"run t2 terminal\nfalse",
            ],
        );
        let mut zsh = Zsh::start(&home);
        zsh.run("set -o >~/outside");
        zsh.run("llm x");
        // Aliases are off while the command runs, and come back for the next line.
        let others = |file: &str| {
            let all = home.read(file);
            let others = all.lines().filter(|line| !line.starts_with("noaliases "));
            others.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(others("during"), others("outside"), "{options}");
        zsh.run("set -o >~/after");
        assert_eq!(home.read("after"), home.read("outside"), "{options}");
        assert_eq!(
            after_ask(&home),
            [
                "propose",
                "exec-done t1 --exit 0",
                "propose",
                "exec-done t2 --exit 1",
                "propose"
            ],
            "{options}"
        );
    }
}

#[test]
fn nothing_is_offered_where_commands_cannot_run() {
    let home = proposing("", &[b"run t1 terminal\ncd /"]);
    let mut zsh = Zsh::start(&home);
    for line in ["llm 'x' | cat", "(llm x)", "llm 'x' >out", "y=$(llm x)"] {
        let _ = std::fs::remove_file(home.path("calls"));
        zsh.run(line);
        let calls = home.calls();
        assert!(calls[0].iter().all(|a| a != "--offer"), "{line}: {calls:?}");
    }
}

#[test]
fn hooks_of_other_plugins_see_approved_commands() {
    let home = proposing(
        "theirs() { builtin print -r -- \"preexec ${(qq)1} ${(qq)3}\" >>~/seen }\n\
         preexec() { theirs \"$@\" }\n\
         after() { builtin print -r -- \"precmd $?\" >>~/seen }\n\
         preexec_functions=( theirs ) precmd_functions=( after gone )",
        &[
            b"run t1 terminal\nfalse it's",
            b"run t2 terminal\nprint -r -- \\\n  two >out",
        ],
    );
    let mut zsh = Zsh::start(&home);
    let _ = std::fs::remove_file(home.path("seen"));
    zsh.run("llm what's up");
    let called = |arg: &str| format!("preexec {arg}\n").repeat(2);
    assert_eq!(
        home.read("seen"),
        [
            called("'llm what'\\''s up' 'llm --prose'"),
            "precmd 0\n".to_owned(),
            called("'false it'\\''s' 'false it'\\''s'"),
            "precmd 1\n".to_owned(),
            called("'print -r -- \\\n  two >out' 'print -r -- \\\n  two >out'"),
            "precmd 0\nprecmd 0\n".to_owned(),
        ]
        .concat()
    );
    // The daemon hears of each once.
    assert_eq!(
        after_ask(&home),
        [
            "propose",
            "exec-done t1 --exit 1",
            "propose",
            "exec-done t2 --exit 0",
            "propose"
        ]
    );
}

#[test]
fn an_approved_command_that_asks_is_not_offered_another() {
    let home = proposing(
        "",
        &[
            b"run t1 terminal\nllm inner; (exit 5)",
            b"run t2 terminal\nprint second >~/said",
        ],
    );
    // As the client does: exit code 10 only with --offer.
    home.stub(&PROPOSES.replace("exit 10", "[[ $* != *--offer* ]] || exit 10"));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    let inner = &home.calls()[3];
    assert_eq!(inner[0], "ask");
    assert!(inner.iter().all(|a| a != "--offer"), "{inner:?}");
    assert_eq!(
        after_ask(&home),
        [
            "propose",
            "ask inner",
            "exec-done t1 --exit 5",
            "propose",
            "exec-done t2 --exit 0",
            "propose"
        ]
    );
    assert_eq!(home.read("said"), "second\n");
}

#[test]
fn pagers_are_off_while_the_output_is_captured() {
    let zshrc = "export PAGER='less -R'\nGIT_PAGER=plain\ntypeset -r SYSTEMD_PAGER=fixed";
    let home = proposing(
        zshrc,
        &[
            b"run t1 capture\nenv | sort >~/during",
            b"run t2 capture\nexport PAGER=most MANPAGER=cat; print -r -- $GIT_PAGER >~/named",
            b"run t3 capture\nsource ~/sourced; false",
            b"run t4 capture\nwhile :; do kill -INT $$; done",
        ],
    );
    std::fs::write(home.path("sourced"), "GIT_PAGER=delta\n").expect("a file");
    let (_pty, pts) = pty_process::blocking::open().expect("a pty");
    let tty = nix::unistd::ttyname(pts.as_fd()).expect("its name");
    std::fs::write(home.path("tty"), tty.to_str().expect("a name")).expect("tty");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm x");
    let during = home.read("during");
    let pagers: Vec<&str> = during.lines().filter(|l| l.contains("PAGER=")).collect();
    assert_eq!(pagers, ["GIT_PAGER=cat", "MANPAGER=cat", "PAGER=cat"]);
    assert_eq!(home.read("named"), "plain\n");
    assert_eq!(
        zsh.eval("typeset -p PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER; print $+_aish[pager_PAGER]"),
        "export PAGER=most\nexport GIT_PAGER=delta\nexport MANPAGER=cat\n\
         typeset -r SYSTEMD_PAGER=fixed\n0\n"
    );
    // Restored: a value with blanks, unexported, unset, local to a function.
    let home = proposing(
        zshrc,
        &[b"run t1 capture\nfalse", b"run t2 terminal\nenv >~/during"],
    );
    std::fs::write(home.path("tty"), tty.to_str().expect("a name")).expect("tty");
    let mut zsh = Zsh::start(&home);
    zsh.run("f() { local MANPAGER=mine; llm 'x'; typeset -p MANPAGER >~/inside }");
    zsh.run("f");
    assert_eq!(home.read("inside"), "typeset MANPAGER=mine\n");
    assert_eq!(
        zsh.eval("typeset -p PAGER GIT_PAGER SYSTEMD_PAGER; print $+MANPAGER"),
        "export PAGER='less -R'\ntypeset GIT_PAGER=plain\ntypeset -r SYSTEMD_PAGER=fixed\n0\n"
    );
    assert!(home.read("during").contains("PAGER=less -R\n"));
}

#[test]
fn a_forked_shell_after_ctrl_z_gets_no_offers() {
    let step = "sh -c 'echo step $1; [ $1 != 1 ] || read x <gate' sh";
    for command in [
        format!("for i in 1 2 3; do {step} $i; done"),
        format!("{step} 1; echo step 3"),
    ] {
        let first = format!("run t1 terminal\n{command}");
        let second = b"run t2 terminal\ncd /; print -r -- here $ZSH_SUBSHELL";
        let home = proposing("", &[first.as_bytes(), second]);
        nix::unistd::mkfifo(&home.path("gate"), nix::sys::stat::Mode::S_IRWXU).expect("a gate");
        let mut zsh = Zsh::start(&home);
        zsh.send("llm x\r");
        zsh.wait_text("\nstep 1");
        zsh.send("\x1a");
        zsh.prompt();
        // zsh does not wait for processes that it starts between the stop and the prompt.
        let exit = 128 + nix::libc::SIGTSTP;
        zsh.run(&format!(
            "until [[ \"$(<calls)\" == *--exit?{exit}* ]]; do :; done"
        ));
        zsh.send("fg\r");
        std::fs::write(home.path("gate"), "go on\n").expect("it reads");
        zsh.prompt();
        // The fork may end a moment after fg returns.
        zsh.wait_text("\nstep 3\n");
        zsh.wait_text("continued as a job outside this shell; no more commands are offered");
        assert_eq!(
            after_ask(&home),
            ["propose", &format!("exec-done t1 --exit {exit}")],
            "{command}"
        );
        assert!(!zsh.screen().contains("here"));
        assert_eq!(
            zsh.eval("print -rn -- $ZSH_SUBSHELL ${PWD:#$HOME}; jobs"),
            "0"
        );
    }
}
