//! First run without a configured or detectable model, in a real terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

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
    wait_nth(&zsh, "Key of the server", 1);
    zsh.send("k-wrong\r");
    zsh.wait_text("refuses access (401): not with ‹\\u{202e}›this key");
    assert!(!home.path("aish/config/config.toml").exists());
    assert!(
        !home.path("aish/config/keys").exists(),
        "a refused key is not stored"
    );
    wait_nth(&zsh, "Base URL of the server", 3);
    zsh.send(format!("{}\r", provider.base_url()));
    wait_nth(&zsh, "Key of the server", 2);
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
            zsh.wait_text("Paste the key");
            zsh.send(rest);
        }
        zsh.wait_text("OPENAI_API_KEY");
        zsh.prompt();
        assert!(zsh.screen().contains("aish-helper model install smollm2"));
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
    zsh.wait_text("Paste the key");
    zsh.send("0123456789abcdef0123\r");
    wait_nth(&zsh, "Whose key is it?", 1);
    zsh.send("nobody\r");
    zsh.wait_text("nobody is not one of these");
    wait_nth(&zsh, "Whose key is it?", 2);
    zsh.send("\r");
    wait_nth(&zsh, "Paste the key", 2);
    zsh.send("\x03");
    zsh.wait_text("[aish] interrupted");
    zsh.prompt();
    assert_eq!(zsh.eval("print -r -- $?"), "130\n");
}

#[test]
fn a_key_of_an_unsupported_provider_is_not_sent() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send("llm hello\r");
    zsh.wait_text("Which? [1-4, q]");
    zsh.send("1\r");
    zsh.wait_text("Paste the key");
    zsh.send("sk-ant-api03-0123456789\r");
    zsh.wait_text("a key of Anthropic");
    wait_nth(&zsh, "Paste the key", 2);
    zsh.send("two words\r");
    zsh.wait_text("is not a key");
    wait_nth(&zsh, "Paste the key", 3);
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
