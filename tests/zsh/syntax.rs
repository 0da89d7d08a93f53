//! The plugin asks zsh whether a command is complete.

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

const COMMANDS: &str = include_str!("../fixtures/commands.txt");

/// Commands that zsh cannot parse, or would ask more lines for.
const INCOMPLETE: &[&str] = &[
    "ls |",
    "ls &&",
    "ls ||",
    "ls \\",
    "echo \"a",
    "echo 'a",
    "echo `a",
    "echo $(ls",
    "for i in 1",
    "while true",
    "if true",
    "case x in",
    "{ ls",
    "(ls",
    "cat <<E",
    "cat <<E\na\n E",
    "f()",
    "x=(1",
    "[[ a",
    "((1",
    "echo )",
    "}",
    "ls;;",
    "<",
];

/// Returns the texts for which `_aish_complete` succeeds.
fn complete<'t>(zshrc: &str, texts: &[&'t str]) -> Vec<&'t str> {
    let home = Home::with_stub("");
    home.zshrc(&format!("{}\n{zshrc}", source_plugin()));
    std::fs::create_dir(home.path("texts")).expect("texts");
    for (n, text) in texts.iter().enumerate() {
        std::fs::write(home.path(&format!("texts/{n}")), text).expect("a text");
    }
    let mut zsh = Zsh::start(&home);
    let found = zsh.eval(
        "for file in texts/*; do _aish_complete \"$(<$file)\" && print -r -- ${file:t}; done",
    );
    let found: Vec<&str> = found.lines().collect();
    let is_found = |(n, text): (usize, &&'t str)| found.contains(&&*n.to_string()).then_some(*text);
    texts.iter().enumerate().filter_map(is_found).collect()
}

#[test]
fn zsh_and_the_extractor_agree_where_a_command_ends() {
    let mut prefixes = Vec::new();
    let mut whole = Vec::new();
    for command in COMMANDS.trim_end().split("\n----\n") {
        let ends = command.match_indices('\n').map(|(at, _)| &command[..at]);
        prefixes.extend(ends);
        whole.push(command);
    }
    assert_eq!(complete("", &prefixes), [""; 0]);
    assert_eq!(complete("", &whole), whole);
}

#[test]
fn a_command_that_does_not_parse_is_incomplete_with_any_options() {
    for options in [
        "",
        "setopt ksh_arrays no_unset sh_glob err_return",
        "alias -g HEAD='|'",
    ] {
        assert_eq!(complete(options, INCOMPLETE), [""; 0], "{options}");
        assert_eq!(complete(options, &["ls HEAD"]), ["ls HEAD"], "{options}");
    }
}
