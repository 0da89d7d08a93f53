//! What is typed is what is sent: the prose of a prompt arrives byte for byte, and nothing in it is expanded or run.

use std::path::Path;

use super::plugins;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// Prose that bites a shell. `rm victim` and the like must change nothing.
pub const PROSE: &[&str] = &[
    "why is the sky blue?",
    "what does `rm victim` do?",
    "what does $(rm victim) do?",
    "what does $((1+1)) or ${victim:=x} mean",
    "what does $? mean, and $! and $$ and $0",
    "is a > b",
    "is a >> created and 2> created or &> created",
    "explain > in.txt",
    "why < nowhere",
    "cat <<EOF",
    "cat <<< text",
    "diff <(rm victim) =(rm victim) >(rm victim)",
    "don't run; rm victim",
    "don't; rm victim; echo 'x",
    "run; rm victim",
    "this && rm victim",
    "this || rm victim",
    "this | rm victim",
    "this |& rm victim",
    "this & rm victim &",
    "this &| rm victim",
    "a &! b",
    "wow!!",
    "wow !! and !$ and !* and !-1 and !llm and !?x?",
    "^old^new",
    "hello!world and C!",
    "!\"",
    "what's up",
    "what's the cat's name",
    "the cats' food isn't here",
    "'twas brillig",
    "'what's up'",
    "say \"oops",
    "say \"hi\" twice",
    "\"first\" and second",
    "\"first\" is not; \"second\" neither",
    "'a' 'b'",
    "'quoted' > is it",
    "a 5'10\" door",
    "`",
    "``` and ```",
    "$",
    "$'",
    "\\",
    "a trailing backslash \\",
    "a\\ b \\\\ c\\'s \\\" \\$ \\`",
    "* ? [a-z] a^b x~y **/*(.e:'rm victim':)",
    "*(e:'rm victim':)",
    "~ ~nobody =nothing =ls a=b A=~ --x=~",
    "{a,b} {1..9} }{ {",
    "( [ [[ (( {",
    ") ] ]] )) }",
    "(rm victim)",
    "{ rm victim }",
    "fn f(x) { return }",
    "() { rm victim }",
    "fn() { rm victim }",
    "() rm victim",
    "# a comment",
    "what is # in zsh",
    "G is a global alias, and so is GG GG",
    "sl and gti statsu are typos",
    "-rf bites",
    "-rf victim",
    "--recursive is an option of rm",
    "-x -y -z",
    "--",
    "-",
    "-n",
    "-force",
    "--colour",
    "-r is for recursive",
    "-h stands for help",
    ":) hello",
    ":wq does not leave vim; why?",
    ": rm victim",
    "if then else fi do done case esac",
    "for i in a b; do rm victim; done",
    "while true; do rm victim; done",
    "repeat 3 rm victim",
    "time exec builtin command nocorrect noglob -",
    "function f { rm victim }",
    "alias llm=rm; unalias llm; unfunction llm",
    "[[ -f victim ]] && rm victim",
    "[^a] [!a] a[1]=2",
    "x=$(rm victim) y=`rm victim`",
    "%s %d %% %1 %vim",
    "größe's ü'x 你'好 🦀 \u{301}",
    "two  blanks   three    and at the end  ",
    "tabs\tin\t\tthe middle\t",
    "llm llm; llm what's llm",
    "| llm",
    "; llm x",
    "eval rm victim",
    "source victim; . victim",
    "exit",
    "logout; exit 1",
    "\u{1f} a unit separator and another",
    "é; rm victim",
    "a\nb",
    "first line\nrm victim\nlast line",
    "what does this do?\n\nrm victim\n",
    "it's\n",
    "a  b\n\nc\n",
    "a\n\n  indented 'x\n\ttabbed\n    more\n",
    "why\n\n\n\n",
    "don't\n'\n\"\n`\n$(\n",
    "a \\\nrm victim\\\n\\",
    "x\n<<EOF\nrm victim\nEOF",
    "x\nrm victim\nx\nrm victim\nx\nrm victim",
    "x\n!!\n!$ `rm victim` $(rm victim)\n\t tab\n  blanks  ",
    "it's\n# a comment\n  # another's",
    "\nrm victim",
    "what is wrong?\nllm it's\nllm $(rm victim)\nfi",
    "then\nfi\nX\n'X'\nEOF\n",
    "ends in a quote'\n'",
    "ends in a backslash\n\\",
    "ends in the separator\n\u{1f}",
    "mixed \"quotes' `here\nand $(there\n)",
    "\"a\" & \"b\" same?",
    "\"a\" | sort's order",
    "\"a\"; it's $(rm victim)",
    "\"first\"\nrm victim",
    "'first'\n\nrm victim",
    "\"$(rm victim's)\" is it",
    ":new to zsh $(rm victim)",
    ":status it's",
    ":model `rm victim`",
    "-m {a,b} $(rm victim)",
    "-m !$ it's",
    "-m \"$(rm victim)\" x",
    "-m #x hi's $(rm victim)",
    "-f =ls ${x:=y} $[x=5]",
];

/// The text before the prose, and the options that the helper gets.
const HEADS: &[(&str, &[&str])] = &[
    ("llm ", &[]),
    ("cd . && llm ", &[]),
    ("A=1 llm ", &[]),
    ("true; llm -c ", &["-c"]),
    ("echo 'd''s' | llm -m \"a model\" ", &["-m", "a model"]),
    ("  llm   ", &[]),
    ("! llm --new -- ", &["--new"]),
    ("cd /nowhere 2>/dev/null || llm ", &[]),
    (
        "llm -f ~/w/in.txt --model=big\t",
        &["-f", "~/w/in.txt", "--model=big"],
    ),
    ("noglob llm ", &[]),
    ("nocorrect llm -c ", &["-c"]),
];

/// A hook of another plugin, and the last line of the history, written to files.
pub const WATCH: &str = "foreign() { builtin print -rn -- \"$1\" >|~/preexec }
preexec_functions+=(foreign)
last() { [[ -v history[$((HISTCMD - 1))] ]] && builtin print -rn -- \"${history[$((HISTCMD - 1))]}\" >|~/last; return 0 }
precmd_functions+=(last)
builtin setopt no_beep
cd ~/w";

/// Types the prose with changing heads into one shell; everything must arrive as typed. A third of the lines is typed
/// again with Up, another third for another turn.
fn check(name: &str, turn: usize, heads: &[(&str, &[&str])], zshrc: &str) {
    let home = Home::with_stub("[[ -t 0 ]] || while read -r; do :; done");
    std::fs::create_dir(home.path("w")).expect("w");
    home.zshrc(&format!(
        "alias -g G='; rm victim' GG='> created'\nalias rm='rm -f'\n{zshrc}\n{WATCH}"
    ));
    let mut zsh = Zsh::start(&home);
    if zshrc.contains("print loaded") {
        zsh.wait_text("loaded");
    }
    for (n, prose) in PROSE.iter().enumerate() {
        let (head, options) = heads[(n + turn) % heads.len()];
        let line = format!("{head}{prose}");
        // The text declared as the prompt after an option is not an option itself.
        let prompt = if head.ends_with("-- ") {
            prose.trim_start()
        } else {
            prose
                .trim_start()
                .strip_prefix("-- ")
                .unwrap_or(prose.trim_start())
        };
        if prompt == "--" && !head.ends_with("-- ") {
            continue;
        }
        let repeated = (n + turn).is_multiple_of(3);
        for again in [false, true].into_iter().take(1 + usize::from(repeated)) {
            reset(&home);
            if again {
                zsh.send("\x10");
            } else if line.contains(|c: char| c.is_control()) {
                zsh.send(format!("\x1b[200~{line}\x1b[201~"));
            } else {
                zsh.send(&line);
            }
            zsh.run("");
            let shown = || format!("{name}: {line:?} again: {again}\n{}", zsh.screen());
            let calls = home.calls();
            assert_eq!(calls.len(), 1, "{}", shown());
            let mut expected: Vec<String> = options
                .iter()
                .map(|o| {
                    o.replace(
                        '~',
                        home.path("").to_str().expect("UTF-8").trim_end_matches('/'),
                    )
                })
                .collect();
            expected.push(prompt.to_owned());
            let offered = usize::from(calls[0].get(3).is_some_and(|w| w == "--offer"));
            assert_eq!(calls[0][3 + offered..], *expected, "{}", shown());
            assert_eq!(home.read("preexec"), line, "preexec {}", shown());
            assert_eq!(home.read("last"), line, "history {}", shown());
            let left: Vec<_> = files(&home.path("w"));
            assert_eq!(
                left,
                [
                    ("in.txt".into(), "a log\n".into()),
                    ("victim".into(), "here\n".into())
                ],
                "{}",
                shown()
            );
        }
    }
    // The shell works as before.
    zsh.run("builtin print -r -- \"$options[interactivecomments] $options[aliases] $options[histreduceblanks] ${histchars-unset}\" >|~/after");
    assert_eq!(home.read("after"), home.read("before"), "{name}");
}

pub fn reset(home: &Home) {
    for name in ["calls", "preexec", "last"] {
        let _ = std::fs::remove_file(home.path(name));
    }
    std::fs::write(home.path("w/victim"), "here\n").expect("victim");
    std::fs::write(home.path("w/in.txt"), "a log\n").expect("in.txt");
}

pub fn files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("w")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read_to_string(path).unwrap_or_default())
        })
        .collect();
    files.sort();
    files
}

const BEFORE: &str = "print -r -- \"$options[interactivecomments] $options[aliases] $options[histreduceblanks] ${histchars-unset}\" >|~/before";

/// Checks a set-up of options and commands before and after the plugin.
fn setup(name: &str, turn: usize, before: &str, after: &str) {
    check(
        name,
        turn,
        HEADS,
        &format!("{before}\n{BEFORE}\n{}\n{after}", source_plugin()),
    );
}

#[test]
fn without_other_plugins() {
    setup("plain", 0, "", "");
    setup("unalias", 1, "", "unalias llm; unfunction llm");
    setup("alias", 2, "", "alias llm='print mine'");
    setup("function", 3, "", "function llm { print mine $@ }");
}

#[test]
fn with_comments_and_globs() {
    setup("interactive_comments", 1, "setopt interactive_comments", "");
    setup("hist_reduce_blanks", 3, "setopt hist_reduce_blanks", "");
    setup(
        "extended_glob",
        2,
        "setopt extended_glob null_glob glob_subst magic_equal_subst",
        "",
    );
    // Without a comment character zsh cannot source a file with comments.
    setup("histchars", 3, "", &format!("histchars=\n{BEFORE}"));
    setup(
        "histchars unset",
        4,
        "unset histchars; setopt interactive_comments",
        "",
    );
}

#[test]
fn with_other_rules_for_words() {
    setup("ksh_arrays", 3, "setopt ksh_arrays", "");
    setup("sh_word_split", 4, "setopt sh_word_split no_unset", "");
    setup(
        "rc_quotes",
        5,
        "setopt rc_quotes csh_junkie_quotes no_short_loops",
        "",
    );
    setup(
        "sh_glob",
        6,
        "setopt sh_glob posix_builtins err_return no_multibyte",
        "",
    );
}

#[test]
fn without_aliases() {
    setup("no_aliases", 5, "setopt no_aliases", "");
    setup("posix_aliases", 6, "setopt posix_aliases", "");
    setup("local_options", 8, "setopt local_options", "");
    setup(
        "no_aliases, local_options",
        9,
        "setopt no_aliases local_options",
        "",
    );
    setup(
        "no_aliases, comments",
        7,
        "setopt no_aliases interactive_comments",
        "alias cd='rm victim' print='rm victim' true='rm victim'",
    );
}

#[test]
fn with_a_history_of_any_kind() {
    // A line with a leading space is not kept.
    let heads: Vec<_> = HEADS
        .iter()
        .filter(|(h, _)| !h.starts_with(' '))
        .copied()
        .collect();
    for (turn, options) in [
        "hist_ignore_space hist_ignore_dups hist_verify",
        "hist_ignore_all_dups inc_append_history hist_fcntl_lock hist_save_no_dups",
        "share_history extended_history hist_find_no_dups no_bang_hist",
    ]
    .iter()
    .enumerate()
    {
        let zshrc = format!(
            "setopt {options}\nHISTFILE=~/histfile SAVEHIST=1000\n{BEFORE}\n{}",
            source_plugin()
        );
        check(options, turn, &heads, &zshrc);
    }
}

#[test]
fn with_correction() {
    setup("correct", 7, "setopt correct_all correct", "");
}

#[test]
fn with_functions_and_aliases_of_the_same_names() {
    let names = "emulate setopt unsetopt print alias unalias zle eval enable disable unfunction unset shift";
    setup(
        "functions",
        8,
        "",
        &format!(
            "shadow() {{ for name in {names}; do functions[$name]='builtin print -r -- shadowed $0; rm victim'; done; \
             precmd_functions=( ${{precmd_functions:#shadow}} ) }}; precmd_functions+=(shadow)"
        ),
    );
    setup(
        "aliases",
        0,
        "alias setopt='rm victim' local='rm victim' emulate='rm victim' zle='rm victim' ':'='rm victim'",
        "",
    );
}

#[test]
fn with_plugins_that_replace_the_hooks() {
    let replaced = "theirs() { :; }; zle -N zle-line-finish theirs";
    let emulating = "zle -A zle-line-finish inner 2>/dev/null; outer() { emulate -L zsh; zle inner -- \"$@\"; }; zle -N zle-line-finish outer";
    let accept = "accept() { emulate -L zsh; zle .accept-line; }; zle -N accept-line accept";
    setup("replaced", 1, "", replaced);
    setup(
        "wrapped",
        2,
        "",
        &format!(
            "autoload -Uz add-zle-hook-widget; add-zle-hook-widget line-finish theirs; theirs() {{ :; }}\n{accept}"
        ),
    );
    // At the prompt, as zinit does in turbo mode, and again before each line.
    setup(
        "each",
        3,
        "",
        &format!("init() {{ {replaced} }}; zle -N zle-line-init init"),
    );
    setup(
        "emulating",
        4,
        "",
        &format!("init() {{ {emulating} }}; zle -N zle-line-init init"),
    );
    setup(
        "accept-line",
        5,
        "",
        &format!("init() {{ {accept} }}; zle -N zle-line-init init"),
    );
}

#[test]
fn loaded_while_a_line_is_edited() {
    let source = source_plugin();
    for (turn, load) in [
        format!("sched +0 '{source}; print loaded'"),
        format!("exec {{fd}}< <(:); handler() {{ zle -F $1; {source}; print loaded }}; zle -F $fd handler"),
    ]
    .iter()
    .enumerate()
    {
        check(
            load,
            turn,
            HEADS,
            &format!("{BEFORE}\nzmodload zsh/sched\n{load}"),
        );
    }
}

#[test]
fn in_vi_mode_and_with_a_transient_prompt() {
    setup("vi", 6, "bindkey -v; bindkey '^P' up-line-or-history", "");
    // As powerlevel10k does.
    setup(
        "transient",
        7,
        "setopt prompt_subst",
        "transient() { PROMPT='%# ' zle .reset-prompt; zle -R }; zle -N zle-line-finish transient",
    );
}

#[test]
fn with_popular_plugins() {
    let (one, two) = (
        plugins::source(plugins::SUGGESTIONS),
        plugins::source(plugins::HIGHLIGHTING),
    );
    setup(
        "suggestions",
        8,
        "",
        &format!("{one}\nbindkey '^P' up-line-or-history"),
    );
    setup("highlighting", 0, "", &two);
    setup("before", 1, &format!("{one}\n{two}"), "");
}

#[test]
fn in_an_oh_my_zsh_like_shell() {
    setup(
        "oh-my-zsh",
        2,
        "autoload -Uz compinit && compinit -u -d ~/dump\n\
         zle-line-init() { echoti smkx }\nzle-line-finish() { echoti rmkx }\nzle -N zle-line-init\nzle -N zle-line-finish\n\
         setopt auto_pushd pushd_minus auto_cd interactive_comments multios prompt_subst long_list_jobs hist_verify hist_expire_dups_first",
        "title() { setopt local_options no_prompt_subst; print -Pn \"\\e]0;${2:gs/%/%%}\\a\" }\npreexec_functions+=(title)",
    );
}
