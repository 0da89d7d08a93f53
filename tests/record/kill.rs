//! The daemon is killed at every write to its journal and at any system call: nothing that it acknowledged is lost.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use aish::protocol::tools::{ApprovalVerdict, Reaction};
use aish::protocol::{
    self, AskRequest, CommandChoice, DecisionReply, Event, FrameDecoder, Hello, Proposal, Request,
    kind,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::text;
use crate::fakes::mcp_http::{self, FakeMcpServer, McpResponse};
use crate::fakes::provider::{Provider, Script};
use crate::support::PATIENCE;
use crate::support::helper::Helper;
use crate::support::shell_id;
use crate::support::terminal;
use crate::support::tracer::{Kill, KillPoint, Traced};
use crate::tools::Tools;

/// What the model wants called: two that the person allows, one that they do not, one that a rule allows.
const CALLS: [(&str, &str, &str); 4] = [
    ("a", "fs.write", "{\"n\":1}"),
    ("b", "fs.write", "{\"n\":2}"),
    ("c", "fs.write", "{\"n\":3}"),
    ("d", "fs.read", "{\"n\":4}"),
];

/// The call that the person does not allow.
const DENIED: &str = "{\"n\":2}";

/// What it proposes then.
const COMMAND: &str = "print -r -- by the shell >ran";

/// A helper with that model and a server whose calls are counted.
fn world() -> (Helper, FakeMcpServer) {
    let helper = Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        match last["role"].as_str() {
            Some("tool") => Script::tokens([format!("CMD: {COMMAND}\n")]),
            _ if last["content"].as_str().is_some_and(|c| c.ends_with("go")) => {
                Script::calls("", &CALLS)
            }
            _ => Script::tokens(["still here"]),
        }
    }));
    let server = FakeMcpServer::start();
    server.set_tools(json!([mcp_http::tool("read"), mcp_http::tool("write")]));
    let url = server.url();
    helper.config(&format!(
        "[mcp.servers.fs]\nurl = \"{url}\"\n[mcp.auto_approve]\n\"fs.read\" = true\n"
    ));
    (helper, server)
}

/// One request by a client that takes it as it comes when the daemon dies; its reply.
fn request<T: serde::de::DeserializeOwned>(helper: &Helper, request: &Request) -> Option<T> {
    let terminal = terminal::connect(&helper.path("run/sock"));
    let mut socket = &terminal.stream;
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let frame = |kind, body: &Value| protocol::json_frame(kind, body).expect("a frame");
    let hello = serde_json::to_value(Hello::current()).expect("JSON");
    let wish = serde_json::to_value(request).expect("JSON");
    let both = [frame(kind::HELLO, &hello), frame(kind::REQUEST, &wish)].concat();
    socket.write_all(&both).ok()?;
    let (mut decoder, mut buffer) = (FrameDecoder::default(), [0; 65536]);
    loop {
        while let Some((kind, body)) = decoder.next_frame().expect("frames") {
            match kind {
                kind::REPLY => return Some(protocol::parse(body).expect("a reply")),
                kind::FAILURE => panic!("{}", String::from_utf8_lossy(body)),
                kind::EVENT => {
                    if let Event::ApprovalRequested(question) =
                        protocol::parse(body).expect("an event")
                    {
                        let verdict = match question.arguments.as_str() {
                            DENIED => ApprovalVerdict::No { words: None },
                            _ => ApprovalVerdict::Once,
                        };
                        let said = Reaction::Call {
                            digest: question.shown_digest(),
                            id: question.id,
                            verdict,
                            arguments: question.arguments,
                        };
                        let said = serde_json::to_value(said).expect("JSON");
                        socket.write_all(&frame(kind::REACTION, &said)).ok()?;
                    }
                }
                _ => {}
            }
        }
        let n = socket.read(&mut buffer).ok()?;
        if n == 0 {
            return None;
        }
        decoder.push(&buffer[..n]);
    }
}

/// What the daemon has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Nothing,
    /// The answer is complete.
    Answered,
    /// The command may run.
    Approved,
    /// The exit code of the command was received.
    Done,
}

/// The conversation, as far as the daemon lives. A command is run as the zsh function does: when the daemon has said so.
fn converse(helper: &Helper) -> Progress {
    let progress = Cell::new(Progress::Nothing);
    try_converse(helper, &progress);
    progress.get()
}

fn try_converse(helper: &Helper, progress: &Cell<Progress>) -> Option<()> {
    let shell = || "s1".to_owned();
    let ask = AskRequest {
        shell: Some(shell_id(&shell())),
        text: "go".to_owned(),
        cwd: "/".to_owned(),
        can_answer: true,
        ..AskRequest::default()
    };
    request::<Value>(helper, &Request::Ask(Box::new(ask)))?;
    progress.set(Progress::Answered);
    let next = Request::NextProposal {
        shell: shell_id(&shell()),
        cwd: "/".into(),
        overrides: BTreeMap::new(),
    };
    let proposal = request::<Option<Proposal>>(helper, &next)?.expect("a proposal");
    let decide = Request::Decide {
        shell: shell_id(&shell()),
        token: proposal.token.clone(),
        choice: CommandChoice::Run,
        command: proposal.command.clone(),
        cwd: "/".into(),
        asked: true,
        continues: false,
        key: None,
        overrides: Default::default(),
    };
    let decided = request::<DecisionReply>(helper, &decide)?;
    progress.set(Progress::Approved);
    helper
        .program("zsh")
        .args(["-fc", &proposal.command])
        .run()
        .ok();
    let done = Request::ExecDone {
        shell: shell_id(&shell()),
        token: proposal.token,
        nonce: decided.nonce,
        exit: 0,
    };
    request::<()>(helper, &done)?;
    progress.set(Progress::Done);
    Some(())
}

/// What an approval of this call must have.
fn digest(tool: &str, arguments: &str) -> String {
    let mut hash = Sha256::new();
    for part in ["fs", tool, arguments] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// What the server was called with: the tool and its arguments.
fn called(server: &FakeMcpServer) -> Vec<(String, String)> {
    let requests = server.requests().into_iter();
    let calls = requests.filter(|r| r.method() == "tools/call");
    calls
        .map(|r| {
            let params = &r.json["params"];
            let tool = params["name"].as_str().expect("a name").to_owned();
            (tool, params["arguments"].to_string())
        })
        .collect()
}

/// The records of all sessions, without the one that a killed daemon has not completed.
fn whole_records(helper: &Helper) -> Vec<Value> {
    // A conversation that died with its first record is nobody's, so that nobody has cut off what is torn.
    let text_of = |file| std::fs::read_to_string(file).expect("a journal file");
    let texts = helper.sessions().into_iter().map(text_of);
    let whole = texts.map(|t| {
        t.rsplit_once('\n')
            .map_or(String::new(), |(w, _)| w.to_owned())
    });
    whole
        .flat_map(|t| {
            let lines = t
                .lines()
                .map(|l| serde_json::from_str(l).expect("a whole record"));
            lines.collect::<Vec<Value>>()
        })
        .collect()
}

/// Every call that reached the server and every command that ran has its whole record, one each.
fn check(helper: &Helper, server: &FakeMcpServer, what: &str) {
    let records = whole_records(helper);
    let mut approvals: Vec<(&str, &str, &str)> = records
        .iter()
        .filter(|r| r["type"] == "approval" && ["once", "rule"].contains(&text(r, "decision")))
        .map(|r| {
            (
                text(r, "name"),
                text(r, "arguments"),
                text(r, "arguments_sha256"),
            )
        })
        .collect();
    for (tool, arguments) in called(server) {
        assert_ne!(arguments, DENIED, "{what}");
        let (name, digest) = (format!("fs.{tool}"), digest(&tool, &arguments));
        let is_it = |a: &(&str, &str, &str)| *a == (&*name, &*arguments, &*digest);
        let found = approvals.iter().position(is_it);
        let found = found.unwrap_or_else(|| panic!("{what}: {name} {arguments} has no approval"));
        approvals.swap_remove(found);
    }
    let decided = records.iter().any(|r| {
        r["type"] == "command_approval" && r["choice"] == "run" && r["command"] == COMMAND
    });
    let ran = helper.home.path("ran").exists();
    assert!(decided || !ran, "{what}: what ran was not recorded");
}

/// Whether the MCP server had not started yet when the model called its tools, as can happen on a busy machine with a traced
/// daemon. Such a run has other records and is repeated.
fn was_late(helper: &Helper) -> bool {
    let records = whole_records(helper);
    let is_unknown = |r: &Value| r["type"] == "tool" && r["status"] == "invalid_call";
    records.iter().any(is_unknown)
}

/// Repeats a run until its MCP server was in time.
fn in_time<T>(mut run: impl FnMut() -> Option<T>) -> T {
    (0..20)
        .find_map(|_| run())
        .expect("the server starts in time")
}

/// How far a daemon came that was killed there.
fn killed_at(n: usize, how: Kill) -> (usize, bool) {
    let what = format!("killed at write {n}, {how:?}");
    in_time(|| {
        let (helper, server) = world();
        let daemon = Traced::start(&helper, KillPoint::Write(n, how));
        let progress = converse(&helper);
        if progress == Progress::Done {
            // It writes once more when it ends.
            helper.call(["stop", "--now"]).run();
        }
        let writes = daemon.end().writes.len();
        if was_late(&helper) {
            return None;
        }
        assert_eq!(writes, n, "{what}: it lives on");
        Some(after_the_kill(&helper, &server, progress, &what))
    })
}

/// The next daemon continues, and nothing that was acknowledged is lost. Returns the number of calls that the server got,
/// and whether the command ran.
fn after_the_kill(
    helper: &Helper,
    server: &FakeMcpServer,
    progress: Progress,
    what: &str,
) -> (usize, bool) {
    // Nobody repairs it here: whatever is whole was written before the kill.
    let before = called(server).len();
    let ran = helper.home.path("ran").exists();
    // The next daemon opens it again, and continues.
    assert_eq!(helper.ask("and now?"), "still here\n", "{what}");
    assert_eq!(
        called(server).len(),
        before,
        "{what}: nothing is called again"
    );
    check(helper, server, what);
    let records = whole_records(helper);
    let has = |kind: &str| records.iter().filter(|r| r["type"] == kind).count();
    if progress >= Progress::Answered {
        assert_eq!((has("tool"), before), (CALLS.len(), 3), "{what}");
        assert!(
            records
                .iter()
                .any(|r| r["text"] == format!("CMD: {COMMAND}\n")),
            "{what}: the answer is lost"
        );
    }
    if progress >= Progress::Approved {
        assert_eq!(has("command_approval"), 1, "{what}");
    }
    if progress >= Progress::Done {
        assert_eq!(has("command_result"), 1, "{what}");
    }
    (before, ran)
}

#[test]
fn killing_the_daemon_at_any_system_call_loses_nothing_that_was_acknowledged() {
    let total = in_time(|| {
        let (helper, server) = world();
        let daemon = Traced::start(&helper, KillPoint::Never);
        daemon.arm();
        assert_eq!(converse(&helper), Progress::Done);
        helper.call(["stop", "--now"]).run();
        let total = daemon.end().system_calls;
        if was_late(&helper) {
            return None;
        }
        assert_eq!(called(&server).len(), 3);
        Some(total)
    });
    assert!(total > 500, "{total}");
    // All of them take three minutes; AISH_TEST_KILLS=all asks for that.
    let stride = match std::env::var("AISH_TEST_KILLS").as_deref() {
        Ok("all") => 1,
        _ => total / 40,
    };
    // The number of calls differs from run to run by a few per cent: the last points lie past the end, so that the
    // sweep always covers all of it.
    let points: Vec<usize> = (1..=total + total / 5).step_by(stride).collect();
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(n) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let what = format!("killed at system call {n} of {total}");
                    let progress = in_time(|| {
                        let (helper, server) = world();
                        let daemon = Traced::start(&helper, KillPoint::SystemCall(*n));
                        daemon.arm();
                        let progress = converse(&helper);
                        // Fails if the daemon has been killed.
                        helper.call(["stop", "--now"]).run();
                        daemon.end();
                        if was_late(&helper) {
                            return None;
                        }
                        after_the_kill(&helper, &server, progress, &what);
                        Some(progress)
                    });
                    seen.lock().expect("seen").push(progress);
                }
            });
        }
    });
    let seen = seen.into_inner().expect("seen");
    for progress in [Progress::Nothing, Progress::Answered, Progress::Done] {
        assert!(seen.contains(&progress), "{progress:?}: {seen:?}");
    }
}

#[test]
fn killing_the_daemon_at_every_write_loses_no_approval_that_was_acted_on() {
    let (helper, server, writes) = in_time(|| {
        let (helper, server) = world();
        let daemon = Traced::start(&helper, KillPoint::Never);
        assert_eq!(converse(&helper), Progress::Done);
        helper.call(["stop"]).run().ok();
        let writes = daemon.end().writes;
        (!was_late(&helper)).then_some((helper, server, writes))
    });
    check(&helper, &server, "nobody was killed");
    assert_eq!(called(&server).len(), 3);
    assert!(helper.home.path("ran").exists());
    // Session, prompt, answer, three approvals with their results, answer, decision, end; and the server's coming.
    let of_session = writes
        .iter()
        .filter(|p| **p == helper.sessions()[0])
        .count();
    assert!(of_session >= 12, "{writes:#?}");

    let kills: Vec<(usize, Kill)> = (1..=writes.len())
        .flat_map(|n| [Kill::Before, Kill::Half, Kill::After].map(|how| (n, how)))
        .collect();
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((n, how)) = kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let far = killed_at(*n, *how);
                    seen.lock().expect("seen").push(far);
                }
            });
        }
    });
    // They died everywhere between the first act and the last.
    let seen = seen.into_inner().expect("seen");
    for far in [(0, false), (1, false), (2, false), (3, false), (3, true)] {
        assert!(seen.contains(&far), "{far:?}: {seen:?}");
    }
}

#[test]
fn an_approval_is_there_when_the_server_has_got_its_call() {
    let calls = [
        ("a", "fs.write", "{\"n\":1}"),
        ("b", "fs.read", "{\"n\":2}"),
    ];
    for rule in [false, true] {
        let more = match rule {
            true => "[mcp.auto_approve]\n\"fs.*\" = true\n",
            false => "",
        };
        let tools = Tools::new([Script::calls("", &calls)], more);
        // It has got the call, and never answers.
        tools.behave(|_| Some(McpResponse::Hang));
        let mut client = tools.ask("go");
        if !rule {
            let question = client.question();
            client.say(&question, ApprovalVerdict::Once);
        }
        tools
            .helper
            .until("the server is called", || tools.called().len() == 1);
        tools.helper.kill_daemon();
        let records = tools.helper.records();
        let approvals: Vec<_> = records.iter().filter(|r| r["type"] == "approval").collect();
        // What a rule allows is recorded together.
        assert_eq!(approvals.len(), if rule { 2 } else { 1 });
        assert_eq!(
            text(approvals[0], "arguments_sha256"),
            digest("write", "{\"n\":1}")
        );
        assert!(!records.iter().any(|r| r["type"] == "tool"));
    }
}
