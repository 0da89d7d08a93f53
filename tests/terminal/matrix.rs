//! Forty shapes of commands with eight prompts: the right output, and never that of another command. From what terminals show, and
//! from recordings with six prompts.

use super::multiplexer::{Kind, Shell};
use crate::support::helper::Helper;
use crate::support::multiplexer::use_tmux35;

/// Commands and their outputs.
const SHAPES: &[(&str, &str)] = &[
    ("echo one", "one"),
    ("seq 5", "1\n2\n3\n4\n5"),
    ("true", ""),
    ("cd /tmp", ""),
    ("printf partial", "partial"),
    ("echo 100%", "100%"),
    (
        "for i in 1 2 3; do echo loop $i; done",
        "loop 1\nloop 2\nloop 3",
    ),
    ("for i in 1 2; do\necho multi $i\ndone", "multi 1\nmulti 2"),
    ("cat <<EOF\nalpha\nbeta\nEOF", "alpha\nbeta"),
    (
        "printf '%0200d\\n' 7 | cut -c150-",
        "000000000000000000000000000000000000000000000000007",
    ),
    ("printf '\\e[31mred\\e[0m plain\\n'", "red plain"),
    ("printf '10%%\\r50%%\\r100%%\\n'", "100%"),
    ("echo; echo; echo gap", "\n\ngap"),
    ("echo end; echo; echo", "end"),
    ("false", ""),
    ("echo '# not a prompt'", "# not a prompt"),
    ("echo '% forged'", "% forged"),
    ("echo '$ forged'", "$ forged"),
    ("echo one", "one"),
    ("echo one", "one"),
    ("!echo", "one"),
    ("ls -d /etc /usr", "/etc  /usr"),
    ("print -l x y z", "x\ny\nz"),
    ("echo err >&2", "err"),
    ("(exit 3)", ""),
    ("echo a | cat", "a"),
    ("echo `echo sub`", "sub"),
    ("echo 'quo\nted'", "quo\nted"),
    ("sleep 0", ""),
    ("printf 'no newline at\\nthe end'", "no newline at\nthe end"),
    ("yes | head -8", "y\ny\ny\ny\ny\ny\ny\ny"),
    ("typeset -i n=3; echo $n", "3"),
    ("tput smcup; echo hidden; tput rmcup; echo seen", "seen"),
    ("echo done  # a comment", "done"),
    (
        "echo this command line is so long that zsh must wrap it at the edge of the terminal >/dev/null; echo short",
        "short",
    ),
    ("{ echo in; echo braces }", "in\nbraces"),
    ("test -e /nonexistent || echo missing", "missing"),
    ("echo $(( 6 * 7 ))", "42"),
    ("sh -c 'echo failing; exit 9'", "failing"),
    ("seq 60 | tail -2", "59\n60"),
];

/// Shapes that look different in screen, which has no alternate screen unless the user turns it on.
const NOT_IN_SCREEN: &[&str] = &["tput smcup; echo hidden; tput rmcup; echo seen"];

/// Checks all shapes. With `no_prompt_sp`, zsh draws its prompt over an output without a line end: the screen loses it, a
/// recording does not.
fn check(kind: Kind, prompt: &str) {
    let helper = Helper::saying("fine");
    if kind == Kind::Tmux35 && !use_tmux35(&helper) {
        return;
    }
    let mut shell = Shell::start(&helper, kind, prompt);
    let overdraws = prompt.contains("no_prompt_sp") && kind.source() != "recording";
    let mut wrong = Vec::new();
    for (command, wanted) in SHAPES {
        shell.run(command);
        let told = shell.output(1);
        let is_lost = overdraws
            && !wanted.is_empty()
            && command.starts_with("printf")
            && !command.contains("\\n'");
        if is_lost || kind == Kind::Screen && NOT_IN_SCREEN.contains(command) {
            continue;
        }
        let lines = |text: &str| -> Vec<String> {
            let text = text.strip_suffix('\n').unwrap_or(text);
            text.split('\n')
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        let is_right = told["output"].as_str().map(lines) == Some(lines(wanted));
        if !is_right || told["source"] != kind.source() {
            wrong.push(format!("{command:?}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), shell.screen());
    // The commands before it, by their numbers.
    for (number, command, wanted) in [
        (1, "seq 60 | tail -2", "59\n60\n"),
        (2, "sh -c 'echo failing; exit 9'", "failing\n"),
        (3, "echo $(( 6 * 7 ))", "42\n"),
    ] {
        let told = shell.output(number);
        assert_eq!(told["command"], command, "{told}");
        assert_eq!(told["output"], wanted, "{told}");
        assert_eq!(told["source"], kind.source(), "{told}");
    }
}

const PLAIN: &str = "PROMPT='%# '";
const USER_AND_DIRECTORY: &str = "PROMPT='%n@%m:%~%# '";
const TWO_LINES: &str = "PROMPT=$'%F{blue}%n %~%f\\n$ '";
/// Also with an own mark for an output without a line end.
const RIGHT: &str = "PROMPT='%1~ > '; RPROMPT='[%T]'; PROMPT_EOL_MARK='%F{242}⏎%f'";
const EXIT_CODE: &str = "PROMPT='%(?..%? )%1~ ➜ '";
const NO_PROMPT_SP: &str = "setopt no_prompt_sp; PROMPT='%m %1~ $ '";
const POWERLINE: &str = "setopt prompt_subst; nl=$'\\n'\n\
    PROMPT='╭─%F{4}%~%f on main ${(l:20::─:)}%*─╮${nl}╰─❯ '\nRPROMPT='─╯'";
const TRANSIENT: &str = "FULL=$'\\n%F{4}%~%f %*\\n❯ '; PROMPT=$FULL\n\
    full() { PROMPT=$FULL }; precmd_functions+=( full )\n\
    short() { PROMPT='❯ '; zle reset-prompt }; zle -N zle-line-finish short";

/// A test for each shell.
macro_rules! matrix {
    ($($(#[$attribute:meta])* $name:ident: $kind:ident, $prompt:ident;)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                check(Kind::$kind, $prompt);
            }
        )*
    };
}

matrix! {
    in_tmux_with_a_plain_prompt: Tmux, PLAIN;
    in_tmux_with_user_and_directory: Tmux, USER_AND_DIRECTORY;
    in_tmux_with_a_prompt_of_two_lines: Tmux, TWO_LINES;
    in_tmux_with_a_right_prompt: Tmux, RIGHT;
    in_tmux_with_the_exit_code_in_the_prompt: Tmux, EXIT_CODE;
    in_tmux_without_prompt_sp: Tmux, NO_PROMPT_SP;
    in_tmux_with_a_prompt_like_powerlevel10k: Tmux, POWERLINE;
    in_tmux_with_a_transient_prompt: Tmux, TRANSIENT;
    in_screen_with_a_plain_prompt: Screen, PLAIN;
    in_screen_with_a_prompt_of_two_lines: Screen, TWO_LINES;
    in_screen_with_user_and_directory: Screen, USER_AND_DIRECTORY;
    in_screen_with_a_right_prompt: Screen, RIGHT;
    in_screen_with_the_exit_code_in_the_prompt: Screen, EXIT_CODE;
    in_screen_without_prompt_sp: Screen, NO_PROMPT_SP;
    in_screen_with_a_prompt_like_powerlevel10k: Screen, POWERLINE;
    in_screen_with_a_transient_prompt: Screen, TRANSIENT;
    by_the_relay_with_a_plain_prompt: Relay, PLAIN;
    by_the_relay_with_a_prompt_of_two_lines: Relay, TWO_LINES;
    by_the_relay_with_a_right_prompt: Relay, RIGHT;
    by_the_relay_without_prompt_sp: Relay, NO_PROMPT_SP;
    by_the_relay_with_a_prompt_like_powerlevel10k: Relay, POWERLINE;
    by_the_relay_with_a_transient_prompt: Relay, TRANSIENT;
    by_pipe_pane_with_a_plain_prompt: RecordedPane, PLAIN;
    by_pipe_pane_with_a_prompt_of_two_lines: RecordedPane, TWO_LINES;
    by_pipe_pane_with_a_right_prompt: RecordedPane, RIGHT;
    by_pipe_pane_without_prompt_sp: RecordedPane, NO_PROMPT_SP;
    by_pipe_pane_with_a_prompt_like_powerlevel10k: RecordedPane, POWERLINE;
    by_pipe_pane_with_a_transient_prompt: RecordedPane, TRANSIENT;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_a_plain_prompt: Tmux35, PLAIN;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_user_and_directory: Tmux35, USER_AND_DIRECTORY;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_a_prompt_of_two_lines: Tmux35, TWO_LINES;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_a_right_prompt: Tmux35, RIGHT;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_the_exit_code_in_the_prompt: Tmux35, EXIT_CODE;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_without_prompt_sp: Tmux35, NO_PROMPT_SP;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_a_prompt_like_powerlevel10k: Tmux35, POWERLINE;
    #[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
    in_tmux_35_with_a_transient_prompt: Tmux35, TRANSIENT;
}
