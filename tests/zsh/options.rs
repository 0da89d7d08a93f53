//! The plugin works with any options of the user, and prints nothing.

use crate::support::events::Events;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// An earlier hook of the line editor, as Debian's zshrc installs one, must not make an empty line fail.
#[test]
fn no_command_of_the_plugin_counts_as_failed() {
    let home = Home::with_stub("print -r -- answered");
    home.zshrc(&format!(
        "zle-line-finish() {{ true }}\nzle -N zle-line-finish\nTRAPZERR() {{ print -r -- failed }}\n{}\nsetopt err_exit",
        source_plugin()
    ));
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("");
    zsh.run("print one");
    zsh.run("llm what's up");
    assert_eq!(
        zsh.screen(),
        "<1> \n<2> print one\none\n<3> llm what's up\nanswered\n<4> "
    );
}

#[test]
fn the_plugin_works_with_any_options() {
    for options in [
        "ksh_arrays",
        "sh_word_split",
        "no_unset",
        "err_return",
        "warn_create_global warn_nested_var",
        "null_glob",
        "csh_null_glob",
        "glob_subst",
        "no_bare_glob_qual",
        "no_multibyte",
        "no_function_argzero",
        "posix_argzero",
        "ksh_glob sh_glob",
        "no_clobber",
        "rc_quotes",
        "csh_junkie_quotes",
        "interactive_comments extended_glob",
        "no_match no_glob",
        "pipe_fail print_exit_value",
        "share_history hist_ignore_all_dups hist_reduce_blanks",
        "local_options local_traps",
        "no_case_match c_bases octal_zeroes",
        "ksh_typeset typeset_silent",
        "posix_builtins posix_identifiers posix_strings",
        "sh_file_expansion sh_nullcmd",
        "auto_cd auto_pushd correct no_equals",
        "no_monitor",
        "no_banghist prompt_bang",
        "ignore_braces",
        "vi",
    ] {
        let home = Home::with_stub("print -r -- answered");
        // Alt-a takes commands only.
        home.program("answered", "#!/bin/sh\n");
        // In vi mode only a key that was chosen is bound.
        home.zshrc(&format!(
            "AISH_KEY='^[a'\nsetopt {options}\n{}",
            source_plugin()
        ));
        let events = Events::listen(&home);
        let mut zsh = Zsh::start(&home);
        events.hello();
        zsh.run("llm what's a* \"b c\" ?");
        assert_eq!(
            home.asked(),
            ["what's a* \"b c\" ?"],
            "{options}\n{}",
            zsh.screen()
        );
        assert_eq!(events.cmd().text(8), "llm what's a* \"b c\" ?", "{options}");
        assert_eq!(
            zsh.screen(),
            "<1> llm what's a* \"b c\" ?\nanswered\n<2> ",
            "{options}"
        );
        zsh.run("sh -c 'exit 9'");
        let cmd = events.cmd();
        assert_eq!(
            (cmd.text(5), cmd.text(8)),
            ("9".to_owned(), "sh -c 'exit 9'".to_owned()),
            "{options}"
        );
        zsh.send("some words\x1ba");
        zsh.wait_text("> answered");
        zsh.send("\x15");
        zsh.run("aish_plugin_unload");
        zsh.run("true");
        let screen = zsh.screen();
        assert!(
            screen.ends_with("aish_plugin_unload\n<4> true\n<5> "),
            "{options}\n{screen}"
        );
    }
}

/// Debian's zshrc installs such a hook of the line editor.
#[test]
fn nothing_is_warned_of_around_another_hook() {
    let home = Home::with_stub("print -r -- answered");
    home.zshrc(&format!(
        "{}\nzle-line-finish() {{ true }}\nzle -N zle-line-finish\nzshaddhistory_functions=( keep )\nkeep() {{ return 0 }}\n\
         setopt warn_nested_var warn_create_global no_interactive_comments",
        source_plugin()
    ));
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    for line in ["", "print one", "llm what's up", "r print"] {
        zsh.run(line);
    }
    // A function around the hook: the line is rewritten.
    zsh.run("zle-line-finish() { _aish_line_finish \"$@\" }; print two");
    zsh.run("llm what's more");
    zsh.run("print $zshaddhistory_functions");
    let screen = zsh.screen();
    assert!(
        !screen.contains("enclosing") && !screen.contains("globally"),
        "{screen}"
    );
    assert!(screen.contains("\nkeep\n"), "{screen}");
    let asked: Vec<String> = home
        .calls()
        .into_iter()
        .filter_map(|mut call| call.pop())
        .collect();
    assert_eq!(asked, ["what's up", "what's more"]);
}

#[test]
fn tracing_shows_a_line_for_each_hook_and_no_more() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("setopt xtrace 2>/dev/null");
    zsh.run("true");
    let traced = zsh.screen().lines().filter(|l| l.contains("_aish")).count();
    assert!(traced <= 24, "{}", zsh.screen());
}

#[test]
fn the_plugin_works_with_any_ifs() {
    let home = Home::with_stub("print -r -- answered");
    home.zshrc(&format!("IFS=a\n{}", source_plugin()));
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("llm banana isn't :)");
    assert_eq!(home.asked(), ["banana isn't :)"]);
    zsh.run("sh -c 'exit 9'");
    events.cmd();
    assert_eq!(events.cmd().text(5), "9");
}

#[test]
fn a_users_function_named_emulate_is_not_called() {
    let home = Home::with_stub(":");
    home.zshrc(&format!(
        "export SOME_TOKEN=0123456789abcdef\n{}\nemulate() {{ builtin print -r -- $funcstack >>~/called }}",
        source_plugin()
    ));
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("llm it's");
    assert_eq!(home.asked(), ["it's"]);
    assert_eq!(home.read("called"), "");
}
