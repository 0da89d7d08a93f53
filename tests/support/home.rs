//! Isolated home directory: reads nothing of the real user and leaves nothing behind.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Temporary directory used as `HOME`, `ZDOTDIR` and `AISH_HOME`, with its own `PATH`.
pub struct Home {
    dir: TempDir,
}

/// Start of a stub: appends each argument and a NUL, then RS, to the call log. The text of a descriptor replaces the
/// `--prompt-fd` that names it.
const STUB: &str = r#"#!/bin/zsh -f
[[ $1 == start ]] || {
  for arg; do
    case $last in
      --prompt-fd) IFS= read -rd '' -u $arg text; printf '%s\0' "${text%$'\n'}" ;;
      *) [[ $arg == --prompt-fd ]] || printf '%s\0' "$arg" ;;
    esac
    last=$arg
  done
  printf '\x1e'
} >>$HOME/calls
"#;

impl Home {
    /// Creates a home whose `.zshrc` sources the plugin and whose `PATH` contains the built helper.
    pub fn new() -> Home {
        let home = Home {
            dir: TempDir::new().expect("a scratch directory"),
        };
        fs::create_dir(home.path("bin")).expect("bin");
        fs::create_dir(home.path("aish")).expect("aish");
        // The line about the first prompt would be on every screen; a test of it removes this file.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(home.path("aish/state"))
            .expect("state");
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(home.path("aish/state/context-notice"))
            .expect("a marker");
        std::os::unix::fs::symlink(helper(), home.path("bin/aish-helper")).expect("link");
        std::os::unix::fs::symlink(helper(), home.path("bin/aish")).expect("link");
        home.zshrc(&source_plugin());
        home
    }

    /// Creates a home with a stub instead of the helper. The stub logs its calls and runs `body`, a zsh script.
    pub fn with_stub(body: &str) -> Home {
        let home = Home::new();
        home.stub(body);
        home
    }

    /// Replaces the helper with a stub.
    pub fn stub(&self, body: &str) {
        let path = self.path("bin/aish-helper");
        fs::remove_file(&path).expect("the helper that was");
        self.program("aish-helper", &format!("{STUB}{body}\n"));
    }

    /// Adds a program to the `PATH`.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    /// Path below the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Content of the file `name`; empty if the file does not exist.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Replaces `.zshrc`. The prompt is set after `text`, because the harness waits for it.
    pub fn zshrc(&self, text: &str) {
        let text = format!(
            "HISTSIZE=1000\nSAVEHIST=0\n{text}\ntypeset -gi prompts=0\n\
             count_prompts() {{ (( ${{#funcstack[@]}} > 1 || ++prompts )); return 0; }}\nprecmd_functions+=(count_prompts)\n\
             builtin setopt prompt_subst no_prompt_cr\nPS1='<$prompts> '\n"
        );
        fs::write(self.path(".zshrc"), text).expect(".zshrc");
    }

    /// Logged calls of the stub, except `start`.
    pub fn calls(&self) -> Vec<Vec<String>> {
        self.read("calls")
            .split_terminator('\x1e')
            .map(|call| {
                let mut words: Vec<String> = call
                    .split_terminator('\0')
                    // Differs for each call.
                    .filter(|word| !word.starts_with("--started="))
                    .map(str::to_owned)
                    .collect();
                // The typed line, which goes along with every prompt.
                if let Some(at) = words.iter().position(|word| word == "--line-fd") {
                    words.drain(at..at + 2);
                }
                words
            })
            .collect()
    }

    /// Words of the only `ask` call, without the options that the zsh function adds.
    pub fn asked(&self) -> Vec<String> {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "one call: {calls:?}");
        let call = &calls[0];
        assert_eq!(call[0], "ask");
        assert_eq!(call[1], "--shell");
        assert!(
            call[2].len() <= 64
                && call[2]
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "a shell id: {}",
            call[2]
        );
        assert_eq!(call[3], "--offer");
        call[4..].to_vec()
    }

    /// Environment of all processes of this home.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let text = |p: &Path| p.to_string_lossy().into_owned();
        vec![
            ("HOME", text(self.dir.path())),
            ("ZDOTDIR", text(self.dir.path())),
            ("AISH_HOME", text(&self.path("aish"))),
            (
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin", text(&self.path("bin"))),
            ),
            ("TERM", "xterm-256color".to_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
        ]
    }

    /// Log files, for the output of a failed test.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for name in [".zshrc", "calls", "out", "aish/state/daemon.log"] {
            let text = self.read(name);
            if !text.is_empty() {
                out.push_str(&format!("--- {name}\n{text:?}\n"));
            }
        }
        out
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        super::open_gates(&self.path("."));
        // Stops a daemon that the test has started. Fails if there is none.
        let _ = Command::new(helper())
            .arg("stop")
            .env_clear()
            .envs(self.env())
            .output();
        if std::thread::panicking() {
            eprintln!("{}", self.dump());
        }
    }
}

/// Path of the built binary.
pub fn helper() -> &'static str {
    env!("CARGO_BIN_EXE_aish-helper")
}

/// Line for `.zshrc` that sources the plugin.
pub fn source_plugin() -> String {
    format!("source {}/zsh/aish.plugin.zsh", env!("CARGO_MANIFEST_DIR"))
}
