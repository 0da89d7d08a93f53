//! Commands reported by the shell hooks reach the model exactly once.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::libc::O_NONBLOCK;
use serde_json::Value;

use crate::cli::prompt::half;
use crate::support::helper::{Helper, records};
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;

/// One chunk, as the plugin writes it.
fn chunk(shell: &str, seq: u32, part: usize, parts: usize, data: &[u8]) -> Vec<u8> {
    let header = format!("aish1 {shell} {seq} {part} {parts} {}\n", data.len());
    [header.as_bytes(), data].concat()
}

impl Helper {
    fn write_event(&self, chunks: &[Vec<u8>]) {
        for chunk in chunks {
            let mut fifo = std::fs::OpenOptions::new()
                .write(true)
                .custom_flags(O_NONBLOCK)
                .open(self.path("run/events"))
                .expect("the daemon reads the FIFO");
            let n = fifo.write(chunk).expect("room");
            assert_eq!(n, chunk.len());
        }
    }

    fn commands(&self) -> Vec<Value> {
        let file = self.path("data/journal/shells.jsonl");
        // A line may be half written at this moment.
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => records(&file),
            _ => Vec::new(),
        }
    }

    /// Reports a command that has just ended, and waits until the daemon has received it.
    fn command(&self, shell: &str, seq: u32, command: &str, exit: i32, env: &str) {
        let data = event(command, exit, env);
        let parts: Vec<&[u8]> = data.chunks(4000).collect();
        let chunks: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(at, part)| chunk(shell, seq, at + 1, parts.len(), part))
            .collect();
        let before = self.commands().len();
        self.write_event(&chunks);
        self.until("the command is recorded", || {
            self.commands().len() == before + 1
        });
    }
}

fn event(command: &str, exit: i32, env: &str) -> Vec<u8> {
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (end, start) = (end.as_secs_f64(), end.as_secs_f64() - 1.5);
    let pid = std::process::id();
    format!("cmd\0{pid}\0/dev/pts/9\0{start:.9}\0{end:.9}\0{exit}\0/src\0{env}\0{command}")
        .into_bytes()
}

#[test]
fn the_model_gets_each_command_once() {
    let helper = Helper::saying("ok");
    helper.call(["start"]).run().ok();
    helper.command("s1", 1, "make all", 2, "VIRTUAL_ENV=/v\x1fAWS_PROFILE=test");
    helper.command("s1", 2, "llm why", 0, "");
    helper.command("s2", 1, "secret of another shell", 0, "");
    helper.ask("why did that fail?");
    let content = helper.content();
    assert!(content.contains("$ make all\n[exit 2, 1.5 s"), "{content}");
    assert!(content.contains("output not captured]"), "{content}");
    assert!(content.ends_with("why did that fail?"), "{content}");
    assert!(
        !content.contains("llm why") && !content.contains("another shell"),
        "{content}"
    );

    helper.ask("and now?");
    assert_eq!(helper.content(), "and now?");
    helper.command("s1", 3, "make clean", 0, "");
    helper.ask("good?");
    let content = helper.content();
    assert!(content.contains("$ make clean\n[exit 0"), "{content}");
    assert!(!content.contains("make all"), "{content}");
}

#[test]
fn commands_survive_a_restart_and_are_not_sent_again() {
    let helper = Helper::saying("ok");
    helper.call(["start"]).run().ok();
    helper.command("s1", 1, "told", 0, "");
    helper.ask("one");
    helper.command("s1", 2, "untold", 1, "");
    helper.kill_daemon();
    helper.ask("two");
    let content = helper.content();
    assert!(content.contains("$ untold\n[exit 1"), "{content}");
    assert!(!content.contains("$ told"), "{content}");
    helper.call(["restart"]).run().ok();
    helper.ask("three");
    assert_eq!(helper.content(), "three");
    // A new session has no commands yet.
    let call = helper.call(["ask", "--shell", "s1", "--new", "four"]);
    call.run().ok();
    let content = helper.content();
    assert!(
        content.contains("$ told") && content.contains("$ untold"),
        "{content}"
    );
}

#[test]
fn a_command_is_recorded_with_all_fields() {
    let helper = Helper::saying("ok");
    helper.ask("begin");
    helper.command("s1", 1, "make\n  all", -1, "A=1\x1fB=two words");
    let record = helper.commands().pop().unwrap();
    assert_eq!(record["type"], "shell_command");
    assert_eq!(record["shell"], "s1");
    assert_eq!(record["command"], "make\n  all");
    assert_eq!(record["cwd"], "/src");
    assert_eq!(record["tty"], "/dev/pts/9");
    assert_eq!(record["exit"], -1);
    assert_eq!(record["duration_ms"], 1500);
    assert_eq!(record["env"], serde_json::json!(["A=1", "B=two words"]));
    let file = &helper.sessions()[0];
    assert_eq!(
        record["session"],
        file.file_stem().unwrap().to_str().unwrap()
    );
}

#[test]
fn parts_of_long_events_of_several_shells_may_interleave() {
    let helper = Helper::saying("ok");
    helper.call(["start"]).run().ok();
    let long = format!("echo {}", "é".repeat(15_000));
    let (a, b) = (event(&long, 0, ""), event("b", 0, ""));
    let part = |n: usize| &a[a.len() * n / 8..a.len() * (n + 1) / 8];
    let mut chunks = Vec::new();
    for n in 0..8 {
        chunks.push(chunk("s1", 1, n + 1, 8, part(n)));
        chunks.push(chunk("s2", n as u32 + 1, 1, 1, &b));
    }
    // An event that lost a part, and data that is not a chunk, are ignored.
    chunks.insert(4, chunk("s3", 1, 2, 3, b"lost"));
    chunks.insert(9, b"echo hello >events\n".to_vec());
    helper.write_event(&chunks);
    helper.until("all commands are recorded", || helper.commands().len() == 9);
    let commands = helper.commands();
    assert_eq!(commands.iter().filter(|c| c["command"] == "b").count(), 8);
    assert!(commands.iter().any(|c| c["command"] == long.as_str()));
}

#[test]
fn shells_are_counted_while_they_live() {
    let helper = Helper::saying("ok");
    helper.call(["start"]).run().ok();
    let shells = || helper.call(["status", "--json"]).run().json()["shells"].clone();
    let pid = std::process::id();
    let hello = |pid: u32| format!("hello\0{pid}\0/dev/pts/9\x005.9\0/").into_bytes();
    helper.write_event(&[chunk("s1", 1, 1, 1, &hello(pid))]);
    // The id of an exited process: a child that was waited for.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    helper.write_event(&[chunk("s2", 1, 1, 1, &hello(child.id()))]);
    helper.until("only the running shell is counted", || shells() == 1);
    let bye = format!("bye\0{pid}").into_bytes();
    helper.write_event(&[chunk("s1", 2, 1, 1, &bye)]);
    helper.until("the shell has exited", || shells() == 0);
}

#[test]
fn the_number_of_commands_in_the_context_is_configurable() {
    let helper = Helper::saying("ok");
    helper.config("[context]\ncommands = 2\n");
    helper.call(["start"]).run().ok();
    for (seq, command) in [(1, "one"), (2, "two"), (3, "three")] {
        helper.command("s1", seq, command, 0, "");
    }
    helper.ask("x");
    let content = helper.content();
    assert!(
        !content.contains("$ one") && content.contains("$ two\n"),
        "{content}"
    );
    helper.config("[context]\ncommands = 0\n");
    helper.command("s1", 4, "four", 0, "");
    helper.ask("y");
    assert_eq!(helper.content(), "y");
}

#[test]
fn a_daemon_that_finishes_its_turns_still_receives_events() {
    let helper = Helper::new([half("on")]);
    let ask = helper.call(["ask", "--shell", "s1", "x"]).start();
    ask.stdout.wait_text("half ");
    let stop = helper.call(["stop"]).start();
    stop.stderr.wait_text("waiting for the daemon");
    helper.command("s1", 1, "make", 2, "");
    helper.provider.open("on");
    assert_eq!(ask.finish().ok(), "half whole\n");
    stop.finish().ok();
}

#[test]
fn keys_of_the_environment_are_not_recorded_with_the_first_command() {
    let helper = Helper::saying("answered");
    helper.home.zshrc(&format!(
        "export DEPLOY_TOKEN=correct-horse-7-battery MYSQL_PWD=swordfishes KEY_FILE=/etc/keys/first-1\n\
         export APP_KEY_ENV=DEPLOY_TOKEN OTHER_KEY=DEPLOY_TOKEN PAGER_ONLY=visible-value-1\n{}",
        source_plugin()
    ));
    helper.ask("start the daemon");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("print correct-horse-7-battery swordfishes DEPLOY_TOKEN visible-value-1 first-1");
    helper.until("the command is recorded", || helper.commands().len() == 1);
    assert_eq!(
        helper.commands()[0]["command"],
        "print [REDACTED:shell-variable] [REDACTED:shell-variable] DEPLOY_TOKEN visible-value-1 first-1"
    );
}
