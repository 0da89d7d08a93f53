use super::*;
use proptest::prelude::*;

fn is_complete(text: &str) -> bool {
    let mut scanner = SyntaxScanner::default();
    text.split('\n').for_each(|line| scanner.push_line(line));
    scanner.is_complete()
}

/// Complete commands of several lines, separated by `----`. No shorter text of whole lines is complete; `tests/zsh/syntax.rs`
/// asks zsh.
const COMMANDS: &str = include_str!("../../../tests/fixtures/commands.txt");

#[test]
fn a_command_ends_with_the_line_that_completes_it() {
    for command in COMMANDS.trim_end().split("\n----\n") {
        let ends = command.match_indices('\n').map(|(at, _)| &command[..at]);
        let complete: Vec<&str> = ends
            .chain([command])
            .filter(|text| is_complete(text))
            .collect();
        assert_eq!(complete, [command]);
    }
}

#[test]
fn a_command_of_one_line_is_complete() {
    for command in [
        "ls -l",
        "for i in 1 2; do echo $i; done",
        "for i in 1 2; echo $i",
        "for i (1 2) echo $i",
        "repeat 3 echo a",
        "if true; then ls; fi && id",
        "while (( x < 3 )) { echo $((x++)) }",
        "echo for if case do {a,b} { '{' \"(\" \\( [[ a",
        "print -l *(.om[1,3]) **/*.(c|h)(N) ~(a)",
        "echo $# $$ ${#x} a#b x=# # don't",
        "ls 2>&1 >| x &> y &| :",
        "cat <<<'a' <<< $x",
        "a=(1 2 3) b=$(ls) ls",
        "f() { ls; }; f",
        "f() ls",
        "echo \"a 'b\" 'a \"b' $'it\\'s'",
        "echo \"${x:-it's}\" \"$(echo \"a\")\" `echo \\`a\\``",
        "[[ a =~ ^(b|c)$ && ( -f x || -d y ) ]] && ls",
        "case x in (a|b) ls ;; c) id ;; esac",
        "echo $(( (1 + 2) * 3 )) $(case x in x) ls;; esac)",
        "diff <(ls) =(id)",
        "find . -exec echo {} \\; -o \\( -name a \\)",
        "git stash@{0} HEAD^{commit}",
        "echo then do done fi esac",
        "sudo sh -c 'for i in a'",
        "ls; # a |",
        "time ls",
        "",
    ] {
        assert!(is_complete(command), "{command:?}");
    }
}

#[test]
fn an_unfinished_line_is_not_complete() {
    for command in [
        "ls |",
        "ls &&",
        "ls ||  ",
        "ls \\",
        "echo 'a",
        "echo \"a",
        "echo `a",
        "echo $(ls",
        "echo ${x",
        "echo $((1 +",
        "(ls",
        "{ ls",
        "x=(1",
        "[[ -f x",
        "cat <<E",
        "f()",
        "function f",
        "for i in a",
        "for i in a; do ls",
        "if true; then ls",
        "case x in",
        "while true",
    ] {
        assert!(!is_complete(command), "{command:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_scanned(text in "('|\"|`|\\$|\\(|\\)|\\{|\\}|<|<<|E|;|&|\\||\n| |#|\\\\|if|then|fi|do|done|for|case|in|esac|\\[\\[|\\]\\]|é|=|repeat|function){0,60}") {
        is_complete(&text);
    }

    #[test]
    fn any_characters_are_scanned(text in "\\PC{0,80}") {
        is_complete(&text);
    }
}
