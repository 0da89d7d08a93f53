//! An isolated home: nothing of the machine's user is read, nothing stays behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A scratch directory with `HOME`, `ZDOTDIR`, `AISH_HOME` and a `PATH` of its own.
pub struct Home {
    dir: TempDir,
}

/// Writes each argument and a NUL, then RS, to the log of calls; the rest of the script is the test's.
const STUB: &str = r#"#!/bin/zsh -f
[[ $1 == start ]] || { for arg; do printf '%s\0' "$arg"; done; printf '\x1e' } >>$HOME/calls
"#;

impl Home {
    /// A home whose `.zshrc` sources the plugin and whose `PATH` has the built helper.
    pub fn new() -> Home {
        let home = Home {
            dir: TempDir::new().expect("a scratch directory"),
        };
        fs::create_dir(home.path("bin")).expect("bin");
        fs::create_dir(home.path("aish")).expect("aish");
        std::os::unix::fs::symlink(helper(), home.path("bin/aish-helper")).expect("link");
        home.zshrc(&source_plugin());
        home
    }

    /// A home with a stand-in for the helper, which logs its calls and answers with `body`, a zsh script.
    pub fn with_stub(body: &str) -> Home {
        let home = Home::new();
        home.stub(body);
        home
    }

    /// Puts a stand-in where the helper was.
    pub fn stub(&self, body: &str) {
        let path = self.path("bin/aish-helper");
        fs::remove_file(&path).expect("the helper that was");
        self.program("aish-helper", &format!("{STUB}{body}\n"));
    }

    /// Puts a program of that name on the `PATH`.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    /// A place under this home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `name` holds; nothing where it does not exist.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Replaces `.zshrc`. The prompt is set last, whatever the text says: the harness waits for it.
    pub fn zshrc(&self, text: &str) {
        let text = format!(
            "HISTSIZE=1000\nSAVEHIST=0\n{text}\ntypeset -gi prompts=0\n\
             count_prompts() {{ (( ++prompts )); return 0; }}\nprecmd_functions+=(count_prompts)\n\
             setopt prompt_subst no_prompt_cr\nPS1='<$prompts> '\n"
        );
        fs::write(self.path(".zshrc"), text).expect(".zshrc");
    }

    /// The calls that the stub got, `start` left out.
    pub fn calls(&self) -> Vec<Vec<String>> {
        self.read("calls")
            .split_terminator('\x1e')
            .map(|call| {
                call.split_terminator('\0')
                    // Another with each call.
                    .filter(|word| !word.starts_with("--started="))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// The words of the only `ask`, without what the function adds in front.
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

    /// The environment of everything that runs here.
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

    /// Every file of this home that says how things went.
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
        // A daemon that a test started ends with the test. Nothing to stop is no error here.
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

/// The built binary.
pub fn helper() -> &'static str {
    env!("CARGO_BIN_EXE_aish-helper")
}

/// The line that sources the plugin.
pub fn source_plugin() -> String {
    format!("source {}/zsh/aish.plugin.zsh", env!("CARGO_MANIFEST_DIR"))
}
