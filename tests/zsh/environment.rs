//! Variables that change after the first prompt, as a loader of a project's `.env` sets them; and whose daemon a shell uses.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fakes::provider::{Provider, Script};
use crate::support::home::{Home, helper, source_plugin};
use crate::support::pty::Zsh;

/// A stub that logs what `ask` gets; questions are asked by the real helper.
fn logging() -> Home {
    Home::with_stub(&format!(
        r#"case $1 in
  review-env) print asked >>$HOME/reviews; exec {} review-env ;;
  ask) print -r -- "${{AISH_BASE_URL-none}} ${{AISH_CONFIRM_CMD-none}} ${{HTTPS_PROXY-none}} ${{MY_KEY-none}} $HOME" >>$HOME/env ;;
esac"#,
        helper()
    ))
}

/// What `ask` got in its last call, without the home, which must be the one of the first prompt.
fn last_env(home: &Home) -> String {
    let log = home.read("env");
    let line = log.lines().last().expect("a call");
    let path = home.path("");
    let path = path.to_string_lossy();
    line.strip_suffix(path.trim_end_matches('/'))
        .unwrap_or_else(|| panic!("another home: {line}"))
        .trim_end()
        .to_owned()
}

#[test]
fn a_changed_address_is_used_only_after_one_question() {
    let home = logging();
    home.zshrc(&format!(
        "export AISH_BASE_URL=http://mine/v1\n{}",
        source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm one");
    assert_eq!(last_env(&home), "http://mine/v1 none none none");
    zsh.run("export AISH_BASE_URL=http://evil/v1 HTTPS_PROXY=http://proxy:1 MY_KEY=k");
    zsh.send("llm two\r");
    zsh.wait_text("[n] keep");
    let screen = zsh.screen();
    for part in [
        "AISH_BASE_URL",
        "old  http://mine/v1",
        "new  http://evil/v1",
        "HTTPS_PROXY",
        "old  (unset)",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    // A key has no separate question: it goes where the address says.
    assert!(!screen.contains("MY_KEY  "), "{screen}");
    zsh.press_until("n", "no");
    zsh.prompt();
    let told = "[aish] AISH_BASE_URL was changed; the new value is not used";
    assert!(zsh.screen().contains(told), "{}", zsh.screen());
    assert_eq!(last_env(&home), "http://mine/v1 none none k");
    // Once for each value; the shell's own variables stay as they are.
    zsh.run("llm three");
    assert_eq!(last_env(&home), "http://mine/v1 none none k");
    assert_eq!(home.read("reviews"), "asked\n");
    assert_eq!(
        zsh.eval("print -r -- $AISH_BASE_URL $HTTPS_PROXY"),
        "http://evil/v1 http://proxy:1\n"
    );
    zsh.run("export AISH_BASE_URL=http://other/v1");
    zsh.send("llm four\r");
    zsh.press_until("y", "yes");
    zsh.prompt();
    assert_eq!(last_env(&home), "http://other/v1 none none k");
    zsh.run("llm five");
    assert_eq!(last_env(&home), "http://other/v1 none none k");
    assert_eq!(home.read("reviews"), "asked\nasked\n");
    // Ctrl-C ends the whole line.
    zsh.run("export AISH_BASE_URL=http://third/v1");
    zsh.send("llm 'six'; touch behind\r");
    zsh.press_until("\x03", "stopped");
    zsh.prompt();
    assert!(!home.path("behind").exists());
    assert_eq!(home.read("env").lines().count(), 5);
}

#[test]
fn values_that_only_tighten_are_used_at_once() {
    let home = logging();
    let mut zsh = Zsh::start(&home);
    zsh.run("export AISH_CONFIRM_CMD=1");
    zsh.run("llm one");
    assert_eq!(last_env(&home), "none 1 none none");
    zsh.run("unset AISH_CONFIRM_CMD");
    zsh.send("llm two\r");
    zsh.press_until("n", "no");
    zsh.prompt();
    assert_eq!(last_env(&home), "none 1 none none");
}

#[test]
fn a_program_or_a_home_named_later_is_not_used() {
    let home = logging();
    let evil = home.path("evil");
    std::fs::create_dir(&evil).expect("a directory");
    home.program("../evil/aish-helper", "#!/bin/sh\ntouch \"$0.ran\"\n");
    let mut zsh = Zsh::start(&home);
    zsh.run("x=$HOME; path=($x/evil $path); export AISH_HELPER=$x/evil/aish-helper");
    zsh.send("HOME=$x/evil XDG_CONFIG_HOME=$x/evil; export XDG_CONFIG_HOME; llm one\r");
    zsh.wait_text("[n] keep");
    let screen = zsh.screen();
    for name in ["AISH_HELPER", "XDG_CONFIG_HOME", "HOME"] {
        assert!(screen.contains(name), "{name}: {screen}");
    }
    zsh.press_until("n", "no");
    zsh.prompt();
    assert_eq!(last_env(&home), "none none none none");
    assert!(!home.path("evil/aish-helper.ran").exists());
}

#[test]
fn without_a_terminal_the_old_values_stay() {
    let mut command = Command::new("setsid");
    command.args(["-w", helper(), "review-env"]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("setsid");
    let changes = b"AISH_BASE_URL\0http://a/v1\0http://b/v1\0AISH_CONFIRM_CMD\0\0true\0";
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), changes).expect("changes");
    let output = child.wait_with_output().expect("output");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "AISH_CONFIRM_CMD\n"
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("AISH_BASE_URL changed") && stderr.contains("not used"),
        "{stderr}"
    );
}

/// A home without `AISH_HOME`; its daemon is stopped at the end.
struct OtherHome<'a> {
    dir: PathBuf,
    path: &'a str,
}

impl OtherHome<'_> {
    fn new<'a>(dir: PathBuf, path: &'a str, base_url: &str) -> OtherHome<'a> {
        let config = dir.join(".config/aish");
        std::fs::create_dir_all(&config).expect("a config directory");
        let text = format!("[models.m]\nbase_url = \"{base_url}\"\nmodel = \"m\"\n");
        std::fs::write(config.join("config.toml"), text).expect("a config");
        std::fs::write(dir.join(".zshrc"), source_plugin()).expect(".zshrc");
        OtherHome { dir, path }
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(args)
            .env_clear()
            .env("HOME", &self.dir)
            .env("PATH", self.path)
            .env("LC_ALL", "C.UTF-8")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn socket(&self) -> PathBuf {
        let status = self.run(helper(), &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        PathBuf::from(status["socket"].as_str().expect("a running daemon"))
    }
}

impl Drop for OtherHome<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let run = self.socket();
            self.run(helper(), &["stop", "--now"]);
            let _ = std::fs::remove_dir_all(run.parent().unwrap_or(Path::new("/nonexistent")));
        }
    }
}

#[test]
fn every_home_has_its_own_daemon_and_the_plugin_finds_it() {
    let home = Home::new();
    let env = home.env();
    let path = &env.iter().find(|(n, _)| *n == "PATH").expect("a PATH").1;
    let provider = |text: &'static str| Provider::answering(move |_| Script::tokens([text]));
    let (first, second) = (provider("first"), provider("second"));
    let one = OtherHome::new(home.path("one"), path, &first.base_url());
    let two = OtherHome::new(home.path("two ü"), path, &second.base_url());
    assert_eq!(one.run(helper(), &["ask", "x"]), "first\n");
    assert_eq!(two.run(helper(), &["ask", "x"]), "second\n");
    for other in [&one, &two] {
        let fifo = other.run("zsh", &["-ic", "print -r -- $_aish[fifo]"]);
        assert_eq!(
            Path::new(fifo.trim_end()),
            other.socket().with_file_name("events")
        );
    }
    let socket = one.socket();
    two.run(helper(), &["stop", "--now"]);
    assert_eq!(one.socket(), socket);
    two.run(helper(), &["start"]);
}
