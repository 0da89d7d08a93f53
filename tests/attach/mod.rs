//! `aish attach URL`: two real daemons, a real zsh in a terminal, and servers that are not aish servers.

mod hostile;
mod resume;
mod terminal;

use std::process::Command;

use pty_process::blocking::Command as PtyCommand;

use crate::api::Server;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, ProgramCall};
use crate::support::pty::Zsh;

/// End of the line of keys of a proposed command.
const QUESTION: &str = "[q] quit ";

/// A user here, and the server there.
struct Attached {
    here: Helper,
    there: Helper,
    server: Server,
}

impl Attached {
    /// Starts a server whose model answers with these scripts, and a home whose model is never asked.
    fn new(queue: impl IntoIterator<Item = Script>) -> Attached {
        Attached::with(Helper::with(Provider::start(queue)))
    }

    fn with(there: Helper) -> Attached {
        let server = Server::start(&there);
        Attached {
            here: Helper::new([]),
            there,
            server,
        }
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    /// Prepares a call of `aish attach` with a token on stdin.
    fn token(&self, origin: &str, token: &str) -> ProgramCall {
        self.here
            .call(["launch", "attach", "--token-stdin", origin])
            .stdin(token)
    }

    /// Stores the token of the server.
    fn store_token(&self) {
        let token = format!("{}\n", self.server.token);
        let said = self.token(&self.origin(), &token).run().ok();
        assert!(said.contains("is stored"), "{said}");
    }

    /// Starts `aish attach` in a terminal.
    fn launch(&self, origin: &str) -> Zsh<'_> {
        let command = PtyCommand::new("aish")
            .args(["attach", origin])
            .env_clear()
            .envs(self.here.home.env());
        Zsh::spawn(&self.here.home, command)
    }

    /// Starts a shell whose prompts the server answers.
    fn shell(&self) -> Zsh<'_> {
        self.store_token();
        let mut zsh = self.launch(&self.origin());
        zsh.prompt();
        zsh
    }

    /// The sessions at the server.
    fn sessions_there(&self) -> Vec<String> {
        let list = self.server.get("/v1/sessions");
        let sessions = list["sessions"].as_array().expect("sessions");
        let id = |session: &serde_json::Value| session["id"].as_str().unwrap().to_owned();
        sessions.iter().map(id).collect()
    }

    /// Sends a prompt without a terminal.
    fn ask(&self, words: &str) -> ProgramCall {
        let origin = self.origin();
        self.here
            .call(["ask", "--shell", "s1", "-m", &origin, "--", words])
    }
}

/// Files below a directory that contain a text.
fn files_with(dir: &std::path::Path, text: &str) -> Vec<String> {
    let found = Command::new("grep")
        .args(["-rlaF", "--devices=skip", "--", text])
        .arg(dir)
        .output()
        .expect("grep runs");
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    lines.lines().map(str::to_owned).collect()
}

/// Processes whose arguments or environment contain a text.
fn processes_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let files =
        processes.flat_map(|process| ["environ", "cmdline"].map(|name| process.path().join(name)));
    let has_text = |file: &std::path::PathBuf| {
        let content = std::fs::read(file).unwrap_or_default();
        String::from_utf8_lossy(&content).contains(text)
    };
    let found = files.filter(has_text);
    found.map(|file| file.display().to_string()).collect()
}
