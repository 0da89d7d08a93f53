//! A disk that is full, in truth: a file system of its own for the daemon's data, which only it sees. Where the system
//! lets nobody make one these tests are left out; the same with a limit on the size of files is tested everywhere.

use std::io::Write;
use std::path::PathBuf;

use aish::protocol::tools::ApprovalVerdict;
use serde_json::Value;

use super::text;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, RunningProgram, records};
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;
use crate::tools::Tools;
use crate::tools_prompt::press_until;

/// More than what is left of a block, so that a part of the record finds room and the rest does not.
const LARGE: usize = 10_000;

/// A daemon with a small disk.
struct Small<'a> {
    helper: &'a Helper,
    _daemon: RunningProgram,
}

impl<'a> Small<'a> {
    fn start(helper: &'a Helper) -> Option<Small<'a>> {
        let mount = |then: &str| {
            std::fs::create_dir_all(helper.path("data")).expect("data");
            let mount =
                format!("mount -t tmpfs -o size=256k,mode=700 none \"$AISH_HOME/data\" && {then}");
            helper.program("unshare").args(["-rm", "sh", "-c", &mount])
        };
        let probe = mount("true").run();
        if probe.code != 0 {
            eprintln!("left out: {}", probe.stderr);
            return None;
        }
        // One that the harness has started.
        helper.call(["stop"]).run().ok();
        let daemon = mount("exec aish-helper daemon --foreground").start();
        helper.until("the daemon listens", || helper.listener().is_some());
        Some(Small {
            helper,
            _daemon: daemon,
        })
    }

    /// A place under its data, as the daemon sees it.
    fn path(&self, name: &str) -> PathBuf {
        let data = self.helper.path("data").join(name);
        let root = PathBuf::from(format!("/proc/{}/root", self.helper.daemon()));
        root.join(data.strip_prefix("/").expect("an absolute path"))
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.path("filler")).expect("a file");
        let full = (0..1024).find_map(|_| file.write_all(&[0; 1024]).err());
        assert_eq!(
            full.map(|e| e.kind()),
            Some(std::io::ErrorKind::StorageFull)
        );
    }

    fn free(&self) {
        std::fs::remove_file(self.path("filler")).expect("the filler");
    }

    /// The records of the sessions of one type; every line is whole.
    fn records_of(&self, kind: &str) -> Vec<Value> {
        let files = std::fs::read_dir(self.path("journal")).expect("the journal");
        let files = files.map(|e| e.expect("an entry").path());
        let mut all: Vec<Value> = files.flat_map(|file| records(&file)).collect();
        all.retain(|r| r["type"] == kind);
        all
    }
}

#[test]
fn on_a_full_disk_no_tool_is_called() {
    let arguments = format!("{{\"to\":\"{}\"}}", "x".repeat(LARGE));
    let wanted = arguments.clone();
    let tools = Tools::with(
        Helper::with(Provider::answering(move |request| {
            let messages = request.json["messages"].as_array().expect("messages");
            match messages.last().expect("a message")["role"].as_str() {
                Some("tool") => Script::tokens(["done"]),
                _ => Script::calls("", &[("c", "fs.write", &wanted)]),
            }
        })),
        "",
    );
    // What it looks for when it is called is where only the daemon sees it.
    tools.server.script(|_| None);
    let Some(small) = Small::start(&tools.helper) else {
        return;
    };
    let mut client = tools.ask("x");
    let question = client.question();
    small.fill();
    client.say(&question, ApprovalVerdict::Once);
    let notices = client.end().notices();
    let refused = "mcp: fs.write: not called, since the approval could not be recorded: ";
    let is_it = |n: &&String| n.starts_with(refused) && n.contains("No space left");
    assert!(notices.iter().any(|n| is_it(&n)), "{notices:?}");
    assert_eq!(tools.called(), []);
    small.free();
    assert!(small.records_of("approval").is_empty());
    // With room again it goes on.
    let mut client = tools.ask("y");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(tools.called().len(), 1);
    let [approval] = &small.records_of("approval")[..] else {
        panic!("one approval")
    };
    assert_eq!(text(approval, "arguments"), arguments);
}

#[test]
fn on_a_full_disk_the_shell_runs_nothing() {
    let command = format!(": {}; print -r -- it ran >ran", "x".repeat(LARGE / 2));
    let answer = format!("CMD: {command}\n");
    let helper = Helper::with(Provider::answering(move |_| Script::tokens([&answer])));
    helper.home.zshrc(&source_plugin());
    let Some(small) = Small::start(&helper) else {
        return;
    };
    let mut zsh = Zsh::start(&helper.home);
    let ran = helper.home.path("ran");
    zsh.send("llm do it\r");
    zsh.wait_text("[q]uit ");
    small.fill();
    press_until(
        &zsh,
        "y",
        "not run, since the approval could not be recorded",
    );
    zsh.prompt();
    assert!(!ran.exists());
    small.free();
    assert!(small.records_of("command_approval").is_empty());
    // A key that was pressed once too often.
    zsh.send("\x15");
    zsh.send("clear; llm do it\r");
    zsh.wait_text("[q]uit ");
    press_until(&zsh, "y", "<3>");
    assert_eq!(helper.home.read("ran"), "it ran\n");
    let [decision] = &small.records_of("command_approval")[..] else {
        panic!("one decision")
    };
    assert_eq!(text(decision, "command"), command);
}
