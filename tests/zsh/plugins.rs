//! Together with popular zsh plugins.

use std::path::Path;

use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

pub const SUGGESTIONS: &str = "/usr/share/zsh-autosuggestions/zsh-autosuggestions.zsh";
pub const HIGHLIGHTING: &str = "/usr/share/zsh-syntax-highlighting/zsh-syntax-highlighting.zsh";

/// Checks what a user does, with other plugins loaded.
fn works(name: &str, zshrc: &str) {
    let home =
        Home::with_stub("[[ $* == *--command* ]] && print -r -- 'ls -l' || print -r -- answered");
    home.zshrc(zshrc);
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's up");
    assert_eq!(home.asked(), ["what's up"], "{name}\n{}", zsh.screen());
    assert!(
        zsh.screen().contains("<1> llm what's up\nanswered\n<2>"),
        "{name}\n{}",
        zsh.screen()
    );
    let _ = std::fs::remove_file(home.path("calls"));
    zsh.run("llm say \"oops");
    assert_eq!(home.asked(), ["say \"oops"], "{name}");
    let history = zsh.eval("fc -ln 1");
    assert!(
        history.starts_with("llm what's up\nllm say \"oops\n"),
        "{name}\n{history}"
    );
    zsh.send("list files");
    zsh.wait_text("list files");
    zsh.send("\x1ba");
    zsh.wait_text("> ls -l");
    zsh.send("\x1f");
    zsh.wait_text("> list files");
    zsh.send("\x15");
    zsh.run("print -r -- $((6 * 7)) end");
    assert!(
        zsh.screen().contains("\n42 end\n"),
        "{name}\n{}",
        zsh.screen()
    );
    zsh.run("aish_plugin_unload");
    zsh.run("print -r -- $((6 * 9)) end");
    let screen = zsh.screen();
    assert!(
        screen.contains("\n54 end\n") && !screen.contains("not found"),
        "{name}\n{screen}"
    );
}

/// Sources a plugin that must be installed.
pub fn source(path: &str) -> String {
    assert!(
        Path::new(path).exists(),
        "install the Debian package of {path}"
    );
    format!("source {path}")
}

#[test]
fn autosuggestions_before_and_after() {
    let (ours, theirs) = (source_plugin(), source(SUGGESTIONS));
    works("before", &format!("{theirs}\n{ours}"));
    works("after", &format!("{ours}\n{theirs}"));
}

#[test]
fn syntax_highlighting_before_and_after() {
    let (ours, theirs) = (source_plugin(), source(HIGHLIGHTING));
    works("before", &format!("{theirs}\n{ours}"));
    works("after", &format!("{ours}\n{theirs}"));
}

#[test]
fn both_and_everything_that_wraps_lines() {
    let (ours, one, two) = (source_plugin(), source(SUGGESTIONS), source(HIGHLIGHTING));
    let wraps = "accept-line() { (( ++accepted )); zle .accept-line }\nzle -N accept-line\n\
                 finish() { (( ++finished )) }\nautoload -Uz add-zle-hook-widget\nadd-zle-hook-widget line-finish finish";
    works("first", &format!("{ours}\n{one}\n{two}\n{wraps}"));
    works("last", &format!("{wraps}\n{one}\n{two}\n{ours}"));
    works("middle", &format!("{one}\n{wraps}\n{ours}\n{two}"));
}

#[test]
fn the_way_oh_my_zsh_loads() {
    let home = Home::with_stub(":");
    let custom = home.path("custom/plugins/aish");
    std::fs::create_dir_all(custom.parent().expect("a parent")).expect("custom");
    let repo = env!("CARGO_MANIFEST_DIR");
    std::os::unix::fs::symlink(format!("{repo}/zsh"), &custom).expect("a link");
    // oh-my-zsh puts each plugin on fpath, runs compinit, sets terminal modes in the line hooks, then sources the
    // plugins inside a function.
    let zshrc = format!(
        "ZSH_CUSTOM={custom}\nfpath=($ZSH_CUSTOM $fpath)\nautoload -Uz compinit && compinit -u -d ~/dump\n\
         zle-line-init() {{ echoti smkx }}\nzle-line-finish() {{ echoti rmkx }}\nzle -N zle-line-init\nzle -N zle-line-finish\n\
         setopt auto_pushd interactive_comments multios prompt_subst share_history\n\
         load() {{ local f; for f in $ZSH_CUSTOM/aish.plugin.zsh; do source $f; done }}\nload",
        custom = custom.display()
    );
    works("oh-my-zsh", &zshrc);
}

#[test]
fn the_way_zinit_and_antidote_load() {
    let dir = format!("{}/zsh", env!("CARGO_MANIFEST_DIR"));
    // zinit sources the first *.plugin.zsh of the directory in a function, with its path in ZERO, after compinit was
    // replaced by a recorder; `zinit cdreplay` runs compdef later.
    let zinit = format!(
        "typeset -ga recorded\ncompdef() {{ recorded+=( \"$*\" ) }}\n\
         load() {{ builtin setopt local_options; local ZERO=$1/aish.plugin.zsh; builtin source $ZERO }}\n\
         load {dir}\nunfunction compdef\nautoload -Uz compinit && compinit -u -d ~/dump"
    );
    works("zinit", &zinit);
    // antidote writes a static file: fpath, then source.
    let antidote = format!(
        "fpath+=( {dir} )\nsource {dir}/aish.plugin.zsh\nautoload -Uz compinit && compinit -u -d ~/dump"
    );
    works("antidote", &antidote);
}

/// The real managers, where `AISH_TEST_MANAGERS` has clones of them.
#[test]
fn the_lines_of_the_readme_work_with_the_real_managers() {
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/installing.md"))
            .unwrap();
    let plugin = "~/.local/share/aish/zsh";
    for (manager, line) in [
        ("plain", "source ~/.local/share/aish/zsh/aish.plugin.zsh"),
        ("zinit", "zinit light ~/.local/share/aish/zsh"),
        ("antidote", "~/.local/share/aish/zsh"),
        (
            "oh-my-zsh",
            "ln -s ~/.local/share/aish/zsh ${ZSH_CUSTOM:-~/.oh-my-zsh/custom}/plugins/aish",
        ),
    ] {
        assert!(readme.contains(&format!("`{line}`")), "{manager}: {line}");
    }
    let Some(clones) = std::env::var_os("AISH_TEST_MANAGERS") else {
        return;
    };
    let clones = Path::new(&clones).display().to_string();
    let with_link = |name: &str, zshrc: &str| {
        let link = format!(
            "mkdir -p ~/.local/share/aish ~/.oh-my-zsh/custom/plugins\n\
             [[ -e {plugin} ]] || ln -s {}/zsh {plugin}\n",
            env!("CARGO_MANIFEST_DIR")
        );
        works(name, &(link + zshrc));
    };
    with_link("plain", &format!("source {plugin}/aish.plugin.zsh"));
    let zinit = format!(
        "typeset -A ZINIT=( NO_ALIASES 1 )\nsource {clones}/zinit/zinit.zsh >/dev/null 2>&1\nzinit light {plugin} >/dev/null"
    );
    with_link("zinit", &zinit);
    let antidote = format!(
        "source {clones}/antidote/antidote.zsh\nprint -r -- {plugin} >~/.zsh_plugins.txt\nantidote load"
    );
    with_link("antidote", &antidote);
    let omz = format!(
        "ZSH={clones}/ohmyzsh ZSH_CUSTOM=~/.oh-my-zsh/custom DISABLE_AUTO_UPDATE=true ZSH_THEME=\n\
         [[ -e $ZSH_CUSTOM/plugins/aish ]] || ln -s {plugin} $ZSH_CUSTOM/plugins/aish\n\
         plugins=(git aish)\nsource $ZSH/oh-my-zsh.sh"
    );
    with_link("oh-my-zsh", &omz);
}

#[test]
fn completion_offers_options_files_and_meta_commands() {
    let home = Home::with_stub(
        "case \"$1 $2\" in\n'model list') print -r -- '{\"models\":[{\"name\":\"big\"},{\"name\":\"small\"}]}' ;;\nesac",
    );
    home.zshrc(&format!(
        "autoload -Uz compinit && compinit -u -d ~/dump\n{}",
        source_plugin()
    ));
    std::fs::write(home.path("notes.txt"), "").expect("notes");
    let mut zsh = Zsh::start(&home);
    for (typed, completed) in [
        ("llm --cont", "llm --continue "),
        ("llm :statu", "llm :status "),
        ("llm -f not", "llm -f notes.txt "),
        ("llm :his", "llm :history "),
    ] {
        zsh.send(typed);
        zsh.send("\t!");
        zsh.wait_text(&format!("{completed}!"));
        zsh.send("\x15");
    }
    zsh.run("");
}
