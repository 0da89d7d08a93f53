//! First run without a configured or detectable model, in a real terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::fakes::provider::{Provider, Script};
use crate::support::home::{Home, helper};
use crate::support::pty::Zsh;

const KEY: &str = "k-0123456789abcdef";

/// Waits until `text` appears on the screen `n` times.
fn wait_nth(zsh: &Zsh<'_>, text: &str, n: usize) {
    zsh.wait_for(&format!("{text:?} {n} times"), |screen| {
        screen.contents().matches(text).count() == n
    });
}

/// Returns every file under `dir` that contains `needle`.
fn files_containing(dir: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files_containing(&path, needle));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(needle.len()).any(|w| w == needle.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_server_and_its_key_are_verified_and_saved_before_the_prompt_is_answered() {
    let provider = Provider::start([Script::tokens(["Guten ", "Tag"])]).only_key(KEY);
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send("llm say hello in German\r");
    zsh.wait_text("Which? [1-4, q]");
    zsh.send("4\r");
    zsh.wait_text("Base URL of the server");
    zsh.send("ftp://x\r");
    zsh.wait_text("must begin with http:// or https://");
    wait_nth(&zsh, "Base URL of the server", 2);
    zsh.send(format!("{}\r", provider.base_url()));
    wait_nth(&zsh, "API key of the server", 1);
    zsh.send("k-wrong\r");
    zsh.wait_text("refuses access (401): not with ‹\\u{202e}›this key");
    assert!(!home.path("aish/config/config.toml").exists());
    assert!(
        !home.path("aish/config/keys").exists(),
        "a refused key is not stored"
    );
    wait_nth(&zsh, "Base URL of the server", 3);
    zsh.send(format!("{}\r", provider.base_url()));
    wait_nth(&zsh, "API key of the server", 2);
    zsh.send(format!("{KEY}\r"));
    zsh.wait_text("Guten Tag");
    zsh.prompt();

    assert_eq!(provider.requests().len(), 3, "two lists, one prompt");
    let shown = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(!shown.contains(KEY) && !shown.contains("k-wrong"));
    let config = home.read("aish/config/config.toml");
    assert!(config.contains("default_model = \"server\""), "{config}");
    let key = home.path("aish/config/keys/server");
    assert_eq!(
        files_containing(&home.path(""), KEY),
        [key.display().to_string()]
    );
    assert_eq!(files_containing(&home.path(""), "k-wrong"), [""; 0]);
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_of_the_models_of_a_server_is_picked() {
    let list = json!({ "data": [{ "id": "first" }, { "id": "second" }] }).to_string();
    let provider = Provider::start([Script::tokens(["Hallo"])]).models(Script::status(200, &list));
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send("llm hello\r");
    zsh.wait_text("Which? [1-4, q]");
    zsh.send("4\r");
    zsh.wait_text("Base URL of the server");
    zsh.send(format!("{}\r", provider.base_url()));
    wait_nth(&zsh, "API key of the server", 1);
    zsh.send("https://api.example/v1\r");
    zsh.wait_text("The pasted text is an address, not a key.");
    wait_nth(&zsh, "Base URL of the server", 2);
    zsh.send(format!("{}\r", provider.base_url()));
    wait_nth(&zsh, "API key of the server", 2);
    zsh.send("\r");
    zsh.wait_text("Which? A number, a part of a name");
    zsh.send("2\r");
    zsh.wait_text("Hallo");
    zsh.prompt();
    let config = home.read("aish/config/config.toml");
    assert!(config.contains("model = \"second\""), "{config}");
}

#[test]
fn leaving_the_menu_exits_with_code_3_and_names_the_fixes() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    for (nth, keys) in ["q\r", "\x04", "1\r\x04"].into_iter().enumerate() {
        zsh.send("clear\r");
        zsh.prompt();
        zsh.send("llm hello\r");
        zsh.wait_text("Which? [1-4, q]");
        let (first, rest) = keys.split_at(keys.find('\r').map_or(keys.len(), |at| at + 1));
        zsh.send(first);
        if !rest.is_empty() {
            zsh.wait_text("API key (hidden");
            zsh.send(rest);
        }
        zsh.wait_text("OPENAI_API_KEY");
        zsh.prompt();
        assert!(zsh.screen().contains("aish-helper model add"));
        assert_eq!(zsh.eval("print -r -- $?"), "3\n", "way out {nth}");
    }
    assert!(!home.path("aish/config/config.toml").exists());
}

#[test]
fn ctrl_c_exits_with_130_and_an_unknown_provider_is_asked_again() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send("llm hello\r");
    zsh.wait_text("Which? [1-4, q]");
    zsh.send("1\r");
    zsh.wait_text("API key (hidden");
    zsh.send("0123456789abcdef0123\r");
    wait_nth(&zsh, "Whose key is it?", 1);
    zsh.send("nobody\r");
    zsh.wait_text("nobody is not one of these");
    wait_nth(&zsh, "Whose key is it?", 2);
    zsh.send("\r");
    wait_nth(&zsh, "API key (hidden", 2);
    zsh.send("\x03");
    zsh.wait_text("[aish] interrupted");
    zsh.prompt();
    assert_eq!(zsh.eval("print -r -- $?"), "130\n");
}

#[test]
fn what_is_not_a_key_is_not_sent() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send("llm hello\r");
    zsh.wait_text("Which? [1-4, q]");
    zsh.send("1\r");
    zsh.wait_text("API key (hidden");
    zsh.send("two words\r");
    zsh.wait_text("is not a key");
    wait_nth(&zsh, "API key (hidden", 2);
    // Back to the menu, then leave.
    zsh.send("\r");
    wait_nth(&zsh, "Which? [1-4, q]", 2);
    zsh.send("q\r");
    zsh.wait_text("OPENAI_API_KEY");
    zsh.prompt();
}

#[test]
fn without_a_terminal_one_line_of_stderr_names_the_fixes() {
    let home = Home::new();
    let output = Command::new(helper())
        .args(["ask", "--", "hello"])
        .env_clear()
        .envs(home.env())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    let fixes: Vec<_> = text
        .lines()
        .filter(|l| l.contains("OPENAI_API_KEY"))
        .collect();
    assert_eq!(fixes.len(), 1, "{text}");
    assert!(fixes[0].contains("ollama serve") && fixes[0].contains("install smollm2"));
}

#[test]
fn each_part_that_goes_along_is_told_the_first_time() {
    let helper = crate::support::helper::Helper::saying("fine");
    let told = |parts: &str| {
        format!(
            "\n[aish] also sent: {parts}; llm --dry-run shows it, [context] in config.toml configures it\nfine\n"
        )
    };
    let marker = helper.path("state/context-notice");
    fs::remove_file(&marker).unwrap();
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm the first words of a shell, which go alone");
    assert!(!zsh.screen().contains("also sent"), "{}", zsh.screen());
    zsh.run("print x | llm \"from a pipe\" | cat");
    zsh.run("print y; llm --json \"x\" | cat");
    assert!(
        !marker.exists() && !zsh.screen().contains("also sent"),
        "not on a pipe"
    );
    zsh.run("print z");
    zsh.run("clear");
    zsh.run("llm hello");
    let first = told("directory, recent commands");
    assert!(zsh.screen().contains(&first), "{}", zsh.screen());
    zsh.run("git init --quiet repo; print -r -- 'Use tabs.' >repo/AGENTS.md; cd repo");
    zsh.run("llm again");
    let second = told("git state, AGENTS.md");
    assert!(zsh.screen().contains(&second), "{}", zsh.screen());
    zsh.run("llm once more");
    let mut other = Zsh::start(&helper.home);
    other.run("print w");
    other.run("llm from another shell");
    assert_eq!(zsh.screen().matches("also sent").count(), 2);
    assert!(!other.screen().contains("also sent"));
}

/// A fresh account with only a key in its environment.
#[test]
fn the_first_answer_with_a_key_in_the_environment_needs_no_question() {
    let provider = Provider::start([Script::tokens(["Hello ", "there."])]).only_key(KEY);
    let home = Home::new();
    fs::remove_dir_all(home.path("aish")).unwrap();
    fs::create_dir(home.path("aish")).unwrap();
    home.zshrc(&format!(
        "export OPENAI_API_KEY={KEY} OPENAI_BASE_URL={}\n{}",
        provider.base_url(),
        crate::support::home::source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    zsh.run("llm hello");
    let screen = zsh.screen();
    let lines: Vec<&str> = screen.lines().filter(|l| !l.is_empty()).collect();
    assert!(
        lines.len() <= 6,
        "prompt, two notices, answer, footer, prompt:\n{screen}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("[aish] also sent: directory")),
        "{screen}"
    );
    assert!(
        screen.contains("(OPENAI_API_KEY and OPENAI_BASE_URL in the environment)"),
        "{screen}"
    );
    assert!(screen.contains("\nHello there.\n"), "{screen}");
    // No question was asked: nothing was typed after the prompt.
    assert!(
        !screen.contains("Which?") && !screen.contains("[y"),
        "{screen}"
    );
    assert!(!home.path("aish/config").exists(), "nothing was configured");
    assert!(!String::from_utf8_lossy(&zsh.raw()).contains(KEY));
}
