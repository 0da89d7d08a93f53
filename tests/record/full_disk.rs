//! A full disk: the daemon runs in its own mount namespace, with a small tmpfs as data directory. These tests are skipped
//! where the system does not permit user namespaces; other tests simulate a full disk by a file size limit.

use std::io::Write;
use std::path::PathBuf;

use aish::protocol::tools::ApprovalVerdict;
use aish::recording::event::GapReason;
use serde_json::Value;

use super::recording::{Recorded, recordings};
use super::text;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, RunningProgram, records};
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;
use crate::tools::Tools;

/// More than one block, so that the disk has space for a part of a record only.
const LARGE: usize = 10_000;

/// A daemon whose data directory is a small tmpfs.
struct SmallDisk<'a> {
    helper: &'a Helper,
    _daemon: RunningProgram,
}

impl<'a> SmallDisk<'a> {
    fn start(helper: &'a Helper) -> Option<SmallDisk<'a>> {
        let mount = |then: &str| {
            std::fs::create_dir_all(helper.path("data")).expect("data");
            let mount =
                format!("mount -t tmpfs -o size=256k,mode=700 none \"$AISH_HOME/data\" && {then}");
            helper.program("unshare").args(["-rm", "sh", "-c", &mount])
        };
        let probe = mount("true").run();
        if probe.code != 0 {
            eprintln!("skipped: {}", probe.stderr);
            return None;
        }
        // The harness may have started a daemon outside of the namespace.
        helper.call(["stop"]).run().ok();
        let daemon = mount("exec aish-helper daemon --foreground").start();
        helper.until("the daemon listens", || helper.listener().is_some());
        Some(SmallDisk {
            helper,
            _daemon: daemon,
        })
    }

    /// Returns the path of a file in the daemon's data directory, through the root directory of the daemon.
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

    /// Returns the records of one type from all sessions. Panics if a line is incomplete.
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
    let call_arguments = arguments.clone();
    let tools = Tools::with(
        Helper::with(Provider::answering(move |request| {
            let messages = request.json["messages"].as_array().expect("messages");
            match messages.last().expect("a message")["role"].as_str() {
                Some("tool") => Script::tokens(["done"]),
                _ => Script::calls("", &[("c", "fs.write", &call_arguments)]),
            }
        })),
        "",
    );
    // The default script reads the journal, which this process cannot see at its usual path.
    tools.server.script(|_| None);
    let Some(disk) = SmallDisk::start(&tools.helper) else {
        return;
    };
    let mut client = tools.ask("x");
    let question = client.question();
    disk.fill();
    client.say(&question, ApprovalVerdict::Once);
    let notices = client.end().notices();
    let not_called = "mcp: fs.write: not called: the approval could not be recorded: ";
    let reports_full_disk = |n: &String| n.starts_with(not_called) && n.contains("No space left");
    assert!(notices.iter().any(reports_full_disk), "{notices:?}");
    assert_eq!(tools.called(), []);
    disk.free();
    assert!(disk.records_of("approval").is_empty());
    // Once there is space, calls are made again.
    let mut client = tools.ask("y");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(tools.called().len(), 1);
    let [approval] = &disk.records_of("approval")[..] else {
        panic!("one approval")
    };
    assert_eq!(text(approval, "arguments"), arguments);
}

#[test]
fn on_a_full_disk_no_command_runs() {
    let command = format!(": {}; print -r -- it ran >ran", "x".repeat(LARGE / 2));
    let answer = format!("CMD: {command}\n");
    let helper = Helper::with(Provider::answering(move |_| Script::tokens([&answer])));
    helper.home.zshrc(&source_plugin());
    let Some(disk) = SmallDisk::start(&helper) else {
        return;
    };
    let mut zsh = Zsh::start(&helper.home);
    let ran = helper.home.path("ran");
    zsh.send("llm do it\r");
    zsh.wait_text("[q] quit ");
    disk.fill();
    zsh.press_until("y", "not run: the approval could not be recorded");
    zsh.prompt();
    assert!(!ran.exists());
    disk.free();
    assert!(disk.records_of("command_approval").is_empty());
    // `press_until` may have sent one key too many, which is now in the edit buffer.
    zsh.send("\x15");
    zsh.send("clear; llm do it\r");
    zsh.wait_text("[q] quit ");
    zsh.press_until("y", "<3>");
    assert_eq!(helper.home.read("ran"), "it ran\n");
    let [decision] = &disk.records_of("command_approval")[..] else {
        panic!("one decision")
    };
    assert_eq!(text(decision, "command"), command);
}

#[test]
fn on_a_full_disk_a_recorded_shell_goes_on_and_the_gap_is_counted() {
    let helper = Helper::saying("x");
    std::fs::create_dir_all(helper.path("data")).expect("data");
    let mount = |then: &str| {
        format!("mount -t tmpfs -o size=256k,mode=700 none \"$AISH_HOME/data\" && {then}")
    };
    let probe = ["-rm", "sh", "-c", &mount("true")];
    if helper.program("unshare").args(probe).run().code != 0 {
        eprintln!("skipped: no user namespaces");
        return;
    }
    let shell = mount("exec aish-helper record -- zsh -d -i");
    let mut zsh = Zsh::launch_program(&helper.home, "unshare", &["-rm", "sh", "-c", &shell]);
    zsh.prompt();
    zsh.run("seq 200000");
    zsh.run("print on a full disk");
    // The data directory of the relay, which this process does not see at its usual path.
    let data = helper.path("data/recordings");
    let root = PathBuf::from(format!("/proc/{}/root", zsh.pid()));
    let data = root.join(data.strip_prefix("/").expect("an absolute path"));
    let [dir] = &recordings(&data)[..] else {
        panic!("one recording")
    };
    let size = |name: &str| std::fs::metadata(dir.join(name)).expect("a file").len();
    assert!(size("output") < 256 << 10);
    // Space for the rest.
    zsh.run("mount -o remount,size=4m $AISH_HOME/data");
    zsh.run("print with space");
    // Every byte is either in the file or counted.
    let counted = || {
        let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
        let lines = text.lines().flat_map(serde_json::from_str::<Value>);
        lines.filter_map(|line| line["bytes"].as_u64()).sum::<u64>()
    };
    // The first line is that of the recorder.
    helper.until("every byte is accounted for", || {
        let raw = zsh.raw();
        let first = raw.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
        counted() == (raw.len() - first) as u64
    });
    let recorded = Recorded::read(dir);
    let gap: u64 = recorded.gaps().iter().map(|(_, bytes)| bytes).sum();
    let is_full = |gap: &(GapReason, u64)| gap.0 == GapReason::DiskFull;
    assert!(gap > 1_000_000 && recorded.gaps().iter().all(is_full));
    assert!(
        recorded
            .output_of("print with space")
            .starts_with("with space\r\n")
    );
    zsh.exit();
}
