//! Loading twice, unloading, and finding the helper.

use std::process::Command;

use super::tui::MAKE_FIFO;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// Everything that a plugin can change in a shell, as text.
const SNAPSHOT: &str = "snapshot() {
  # zsh loads its own modules and functions when it first needs them.
  print -rl -- ${(ok)functions:#(snapshot|_comp*|comp*|add-zsh-hook)}
  print -rl -- ${(ok)parameters:#(*[0-9#?*@!_$-]|[A-Z]*|pipestatus|status|history*|dirstack|jobdirs|jobstates|jobtexts|funcstack|functrace|func*|signals|errnos|sysparams|epochtime|langinfo|prompts|seconds|modules|mailpath|zsh_*|*commands|*functions*|parameters|options|widgets|keymaps|builtins|aliases|*aliases|patchars|userdirs|usergroups|nameddirs|reswords|termcap|terminfo)}
  alias; zle -lL; print -rl -- $fpath; setopt
  print -rl -- \"precmd $precmd_functions\" \"preexec $preexec_functions\" \"exit $zshexit_functions\" \"history $zshaddhistory_functions\"
  local map; for map in ${(ok)keymaps}; do bindkey -M $map -L; done
}";

#[test]
fn unloading_leaves_nothing() {
    let home = Home::with_stub(MAKE_FIFO);
    for before in [
        "",
        "alias llm='print mine'\nbindkey -s '^[a' 'text\\n'\nfinish() { finished+=x }\nzle -N zle-line-finish finish\npreexec_functions=(:)",
    ] {
        home.zshrc(&format!(
            "{SNAPSHOT}\n{before}\nloaded() {{ {} }}",
            source_plugin()
        ));
        let mut zsh = Zsh::start(&home);
        zsh.run("true a first command, so that zsh has loaded what it needs; alias >/dev/null");
        zsh.run("snapshot >before; snapshot >before");
        zsh.run("loaded");
        zsh.run("llm what's up");
        zsh.run("llm :tui");
        let fifos = || std::fs::read_dir(home.path("aish/run/tui")).map_or(0, Iterator::count);
        assert_eq!(fifos(), 1);
        zsh.run("snapshot >between");
        assert!(home.read("between").contains("_aish_tui_accept"));
        zsh.run("aish_plugin_unload");
        assert_eq!((fifos(), zsh.eval("zle -F")), (0, String::new()));
        zsh.run("snapshot >after");
        assert_ne!(home.read("before"), home.read("between"));
        assert_eq!(home.read("after"), home.read("before"));
        assert!(!home.read("after").contains("aish"));
        // The plugin can be loaded again.
        zsh.run("loaded");
        zsh.run("llm what's up");
        assert_eq!(
            home.calls()
                .last()
                .expect("a call")
                .last()
                .map(String::as_str),
            Some("what's up")
        );
    }
}

#[test]
fn a_wrapper_around_us_survives_the_unloading() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    zsh.run("zle -A zle-line-finish inner; outer() { zle inner; (( ++outer_ran )) }; zle -N zle-line-finish outer");
    zsh.run("aish_plugin_unload");
    zsh.run("outer_ran=0");
    assert_eq!(zsh.eval("print -r -- $outer_ran"), "1\n");
    assert!(!zsh.screen().contains("not found"), "{}", zsh.screen());
}

#[test]
fn sourcing_twice_is_harmless() {
    let home = Home::with_stub(":");
    let source = source_plugin();
    home.zshrc(&format!("{source}\n{source}"));
    let mut zsh = Zsh::start(&home);
    let id = zsh.eval("print -r -- $_aish[id]");
    zsh.run(&source);
    assert_eq!(zsh.eval("print -r -- $_aish[id]"), id);
    assert_eq!(
        zsh.eval("print -r -- ${(M)#precmd_functions:#_aish*} ${(M)#preexec_functions:#_aish*}"),
        "2 1\n"
    );
    zsh.run("llm what's up");
    assert_eq!(home.asked(), ["what's up"]);
}

#[test]
fn a_script_is_not_affected() {
    let home = Home::new();
    let out = Command::new("zsh")
        .args([
            "-f",
            "-c",
            &format!(
                "{}; print -r -- ${{+_aish}} ${{+functions[llm]}} $?",
                source_plugin()
            ),
        ])
        .env_clear()
        .envs(home.env())
        .output()
        .expect("zsh");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "0 0 0\n");
    assert!(out.stderr.is_empty(), "{out:?}");
}

#[test]
fn an_installed_plugin_uses_the_helper_beside_it() {
    let home = Home::with_stub("print -r -- from PATH");
    let share = home.path("pre fix/share/aish");
    std::fs::create_dir_all(&share).expect("share");
    let repo = env!("CARGO_MANIFEST_DIR");
    let copied = Command::new("cp")
        .args(["-r", &format!("{repo}/zsh"), &format!("{repo}/completions")])
        .arg(&share)
        .status()
        .expect("cp");
    assert!(copied.success());
    std::fs::create_dir(home.path("pre fix/bin")).expect("bin");
    std::fs::rename(
        home.path("bin/aish-helper"),
        home.path("pre fix/bin/aish-helper"),
    )
    .expect("moved");
    // Through a link, as plugin managers do.
    std::os::unix::fs::symlink(share.join("zsh/aish.plugin.zsh"), home.path("aish.zsh"))
        .expect("a link");
    home.zshrc("source ~/aish.zsh");
    let mut zsh = Zsh::start(&home);
    zsh.run("llm what's up");
    assert_eq!(home.asked(), ["what's up"]);
}

#[test]
fn a_nested_zsh_is_another_shell() {
    let home = Home::with_stub(":");
    let mut zsh = Zsh::start(&home);
    let outer = zsh.eval("print -r -- $_aish[id]");
    let inner = zsh.eval("zsh -d -i -c 'print -r -- $_aish[id]'");
    assert!(
        !inner.trim().is_empty() && inner != outer,
        "{inner} {outer}"
    );
    let exported = zsh.eval("print -r -- ${(t)_aish}");
    assert_eq!(exported, "association\n");
    assert!(!zsh.eval("env").contains(outer.trim()));
}

#[test]
fn every_zsh_file_parses() {
    let repo = env!("CARGO_MANIFEST_DIR");
    let mut seen = 0;
    for dir in ["zsh", "zsh/functions", "completions", "benches"] {
        for entry in std::fs::read_dir(format!("{repo}/{dir}")).expect(dir) {
            let path = entry.expect("an entry").path();
            if path.is_file() && path.extension().is_none_or(|e| e == "zsh") {
                let out = Command::new("zsh")
                    .arg("-n")
                    .arg(&path)
                    .output()
                    .expect("zsh");
                assert!(
                    out.status.success() && out.stderr.is_empty(),
                    "{path:?} {out:?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "{seen}");
}
