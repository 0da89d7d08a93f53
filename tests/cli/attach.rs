//! One turn on several terminals: following it, answering its questions, leaving it in the background, stopping a
//! client with Ctrl-Z. Only the model is a fake.

use aish::chat::{FinishReason, OperationClass};
use aish::client::connect;
use aish::paths::Paths;
use aish::protocol::tools::{ApprovalVerdict, ManualCall};
use aish::protocol::{AskRequest, CommandChoice, DecisionReply, Event, Proposal, Request};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;

use crate::fakes::provider::{Part, Script, Shape, call_events, finish_event, text_event};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;
use crate::support::shell_id;
use crate::support::terminal;
use crate::tools::{Client, Frame, Tools};
use crate::tools_prompt::KEYS;

fn text(text: &str) -> Part {
    Part::from(text_event(text).as_str())
}

/// An answer that ends with a reason.
fn answer(parts: impl IntoIterator<Item = Part>, reason: &str) -> Script {
    let end = [finish_event(reason), "data: [DONE]\n\n".to_owned()];
    let end = end.iter().map(|event| Part::from(event.as_str()));
    Script::events(parts.into_iter().chain(end))
}

/// A model that says something, calls `fs.write` once the gate `call` is open, and ends.
fn calling() -> [Script; 2] {
    let call = call_events(
        Shape::Fragments,
        &[("a", "fs.write", "{\"to\":\"/tmp/x\"}")],
    );
    let call = call.iter().map(|event| Part::from(event.as_str()));
    let parts = [text("half of it "), Part::Gate("call")].into_iter();
    [
        answer(parts.chain(call), "tool_calls"),
        Script::tokens(["All done."]),
    ]
}

/// The short id of the only session.
fn session(helper: &Helper) -> String {
    let sessions = helper.sessions();
    assert_eq!(sessions.len(), 1);
    let id = sessions[0].file_stem().expect("a name").to_string_lossy();
    id[id.len() - 8..].to_owned()
}

/// The terminal of a shell as other terminals name it.
fn tty(zsh: &mut Zsh<'_>) -> String {
    let tty = zsh.eval("print -rn -- $TTY");
    tty.trim_start_matches("/dev/").to_owned()
}

/// Waits until the daemon has left a notice for a shell.
fn noticed(helper: &Helper) {
    helper.until("a notice is written", || {
        let Ok(dir) = std::fs::read_dir(helper.path("run/notices")) else {
            return false;
        };
        // A name with a dot is a file that is still being written.
        dir.flatten()
            .any(|entry| !entry.file_name().to_string_lossy().contains('.'))
    });
}

#[test]
fn a_running_answer_is_followed_and_its_question_answered_in_either_terminal() {
    for answering in [0, 1] {
        let tools = Tools::new(calling(), "");
        let home = &tools.helper.home;
        let mut terminals = [Zsh::start(home), Zsh::start(home)];
        let names = [tty(&mut terminals[0]), tty(&mut terminals[1])];
        terminals[0].send("clear; llm write it\r");
        terminals[0].wait_text("half of it");
        let id = session(&tools.helper);
        terminals[1].send(format!("clear; llm --attach {id}\r"));
        terminals[1].wait_text("half of it");
        assert!(
            terminals[1].screen().contains("is answering “write it”"),
            "{}",
            terminals[1].screen()
        );
        tools.helper.provider.open("call");
        for zsh in &terminals {
            zsh.wait_text("\"/tmp/x\"");
            zsh.wait_text(KEYS);
        }
        assert_eq!(tools.called(), []);
        terminals[answering].press_until("y", "yes\r\n");
        terminals[1 - answering]
            .wait_text(&format!("answered in {}: allowed once", names[answering]));
        for zsh in &mut terminals {
            zsh.wait_text("All done.");
            zsh.prompt();
        }
        assert_eq!(
            tools.called(),
            [("write".into(), json!({ "to": "/tmp/x" }))]
        );
        // The third comes after the end and reads the journal.
        let mut third = Zsh::start(home);
        third.run(&format!("llm --attach {id}"));
        let screen = third.screen();
        assert!(screen.contains("All done."), "{screen}");
        assert!(screen.contains("write it"), "{screen}");
    }
}

#[test]
fn a_background_answer_is_announced_and_its_commands_are_offered() {
    let helper = Helper::new([answer(
        [
            text("Thinking.\n"),
            Part::Gate("on"),
            text("CMD: touch made\n"),
        ],
        "stop",
    )]);
    // Its commands are asked about even if those of a foreground answer are not.
    helper.config("[shell]\nconfirm_cmd = false\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm --background make it");
    let id = session(&helper);
    let screen = zsh.screen();
    assert!(
        screen.contains(&format!(
            "session {id}: the answer continues in the background"
        )),
        "{screen}"
    );
    helper.provider.wait_gate("on");
    zsh.run("");
    assert!(!zsh.screen().contains("is done"), "{}", zsh.screen());
    helper.provider.open("on");
    noticed(&helper);
    zsh.run("");
    let notice =
        "[aish] the answer to “make it” is done, with a proposed command: llm :attach shows it";
    assert!(zsh.screen().contains(notice), "{}", zsh.screen());
    zsh.send("clear; llm :attach\r");
    zsh.wait_text("[y] run");
    let screen = zsh.screen();
    assert!(
        screen.contains("Thinking.") && screen.contains("$ touch made"),
        "{screen}"
    );
    zsh.press_until("y", "yes\r\n");
    zsh.prompt();
    assert!(helper.home.path("made").exists());
    zsh.run("");
    assert!(!zsh.screen().contains(notice), "{}", zsh.screen());
}

#[test]
fn a_command_of_a_background_answer_does_not_run_unasked() {
    let helper = Helper::new([answer([text("CMD: touch made\n")], "stop")]);
    helper.config("[shell]\nconfirm_cmd = false\n[policy.rules]\nshell = \"allow\"\n");
    let ask = ["ask", "--shell", "s1", "--background", "--", "make it"];
    helper.call(ask).run().ok();
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let next = || -> Option<Proposal> {
        let next = Request::NextProposal {
            shell: shell_id("s1"),
            cwd: "/".into(),
            overrides: BTreeMap::new(),
        };
        connect::request(&paths, &next).unwrap()
    };
    helper.until("the command is proposed", || next().is_some());
    let proposal = next().unwrap();
    assert!(proposal.confirm);
    let decide = |asked| {
        let request = Request::Decide {
            shell: shell_id("s1"),
            token: proposal.token.clone(),
            choice: CommandChoice::Run,
            command: proposal.command.clone(),
            cwd: "/".into(),
            asked,
            continues: false,
            key: None,
            overrides: BTreeMap::new(),
        };
        terminal::request::<DecisionReply>(&paths.socket(), &request)
    };
    let error = decide(false).unwrap_err();
    assert_eq!(
        error.message,
        "not run: the rule for background answers says ask"
    );
    assert!(helper.records_of("command_approval").is_empty());
    decide(true).unwrap();
    assert_eq!(helper.records_of("command_approval").len(), 1);
}

#[test]
fn a_background_answer_that_was_cut_off_by_a_kill_is_announced() {
    let helper = Helper::new([answer([text("Thinking.\n"), Part::Gate("never")], "stop")]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm --background make it");
    helper.until("the text is on disk", || {
        let files = std::fs::read_dir(helper.path("data/partial"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let text = std::fs::read_to_string(file.path());
            text.is_ok_and(|text| text.ends_with("Thinking.\n"))
        })
    });
    helper.kill_daemon();
    helper.call(["start"]).run().ok();
    noticed(&helper);
    zsh.run("");
    let screen = zsh.screen();
    assert!(screen.contains("did not finish"), "{screen}");
    zsh.run("clear; llm :attach");
    let screen = zsh.screen();
    assert!(
        screen.contains("Thinking.") && screen.contains("cut off: the daemon was killed"),
        "{screen}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_background_answer_that_cannot_be_recorded_says_so_at_the_prompt() {
    let parts = [Part::Gate("on"), text("Done.")];
    let helper = Helper::new([Script::tokens(["ok"]), answer(parts, "stop")]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm one");
    zsh.run("llm --background make it");
    helper.provider.wait_gate("on");
    let size = std::fs::metadata(&helper.sessions()[0]).unwrap().len();
    helper.limit_files(Some(size));
    helper.provider.open("on");
    noticed(&helper);
    helper.limit_files(None);
    zsh.run("");
    let screen = zsh.screen().replace('\n', " ");
    assert!(screen.contains("is not in the history"), "{screen}");
}

#[test]
fn a_background_question_waits_for_the_user() {
    let tools = Tools::new(calling(), "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.run("llm --background write it");
    tools.helper.provider.open("call");
    noticed(&tools.helper);
    zsh.run("");
    assert!(
        zsh.screen()
            .contains("[aish] “write it” waits for your answer: llm :attach shows it"),
        "{}",
        zsh.screen()
    );
    // Another prompt of the session says how to continue.
    let id = session(&tools.helper);
    zsh.send("clear; llm and more\r");
    zsh.wait_text(&format!(
        "“write it” waits for your answer: llm --attach {id} shows it; Ctrl-C stops waiting"
    ));
    zsh.send("\x03");
    zsh.prompt();
    zsh.send("clear; llm :attach\r");
    zsh.wait_text(KEYS);
    assert_eq!(tools.called(), []);
    zsh.press_until("y", "yes\r\n");
    zsh.wait_text("All done.");
    zsh.prompt();
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn a_stopped_client_blocks_nobody_and_shows_the_rest() {
    let line = text_event("0123456789 0123456789 0123456789 0123456789\n");
    let helper = Helper::new([answer(
        [
            text("begin\n"),
            Part::Gate("flood"),
            // More than the socket holds while the client does not read.
            Part::Repeat(line.into_bytes(), 20_000),
            Part::Gate("end"),
            text("the very end\n"),
        ],
        "stop",
    )]);
    let mut first = Zsh::start(&helper.home);
    first.send("llm --raw count\r");
    first.wait_text("begin");
    let id = session(&helper);
    first.send("\x1a");
    first.wait_text("suspended");
    first.prompt();
    helper.provider.open("flood");
    helper.provider.wait_gate("end");
    // Another prompt of the session gives the reason for waiting, and can be stopped.
    let mut second = Zsh::start(&helper.home);
    second.send(format!("llm --attach {id} and more\r"));
    second.wait_text("waiting for the answer to “count”");
    second.send("\x03");
    second.prompt();
    second.run("print code=$?");
    assert!(second.screen().contains("code=130"), "{}", second.screen());
    helper.provider.open("end");
    helper.until_finish("stop");
    // The client is still stopped, and the daemon still ends.
    second.run("aish-helper stop; print stopped=$?");
    assert!(second.screen().contains("stopped=0"), "{}", second.screen());
    first.send("clear; fg\r");
    first.wait_text("0123456789 0123456789");
    first.prompt();
    assert_eq!(first.eval("stty -a | grep -o ' echo '"), " echo \n");
}

#[test]
fn a_stopped_client_shows_the_whole_answer_after_fg() {
    let line = text_event("0123456789 0123456789 0123456789 0123456789\n");
    let helper = Helper::new([answer(
        [
            text("begin\n"),
            Part::Gate("flood"),
            Part::Repeat(line.into_bytes(), 20_000),
            text("the very end\n"),
        ],
        "stop",
    )]);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("llm --raw count\r");
    zsh.wait_text("begin");
    zsh.send("\x1a");
    zsh.wait_text("suspended");
    zsh.prompt();
    helper.provider.open("flood");
    helper.until_finish("stop");
    let before = zsh.raw().len();
    zsh.send("fg\r");
    zsh.wait_text("the very end");
    zsh.prompt();
    let shown = String::from_utf8_lossy(&zsh.raw()[before..]).into_owned();
    assert_eq!(shown.matches("0123456789\r\n").count(), 20_000);
}

#[test]
fn a_client_that_reads_slowly_gets_the_whole_answer_before_a_stop() {
    let long = "x".repeat(1 << 16);
    let tools = Tools::new([Script::tokens(vec![long; 48])], "");
    let mut client = tools.ask("long");
    client.until(|frame| matches!(frame, Frame::Event(Event::TurnStarted { .. })).then_some(()));
    tools.helper.until_finish("stop");
    let stop = tools.helper.call(["stop"]).start();
    stop.stderr.wait_text("waiting for the daemon");
    assert_eq!(client.end().text().len(), 3 << 20);
    stop.finish().ok();
}

#[test]
fn a_stop_now_does_not_wait_for_a_client_that_does_not_read_its_question() {
    let tools = Tools::new([], "");
    let call = ManualCall {
        operation: OperationClass::Write,
        name: "fs:write".to_owned(),
        arguments: json!({ "to": "x".repeat(3 << 20) }).to_string(),
        reason: None,
        sensitivity: None,
        cwd: "/".to_owned(),
        overrides: std::collections::BTreeMap::new(),
        tty: None,
        work_env: std::collections::BTreeMap::new(),
    };
    let mut client = Client::request(&tools.helper, &Request::Call(Box::new(call)));
    // The question is on its way; no socket holds all of it.
    let mut part = vec![0; 256 << 10];
    client.socket.read_exact(&mut part).expect("the question");
    tools.helper.call(["stop", "--now"]).run().ok();
    assert_eq!(tools.called(), []);
}

#[test]
fn the_answer_to_a_question_of_a_manual_call_is_not_reported_as_too_late() {
    let tools = Tools::new([], "");
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.send(
        "clear; aish-helper call tool-write --tool-name fs:write --json_args '{\"to\":\"x\"}'\r",
    );
    zsh.wait_text(KEYS);
    zsh.press_until("y", "yes\r\n");
    zsh.prompt();
    assert_eq!(tools.called().len(), 1);
    assert!(!zsh.screen().contains("too late"), "{}", zsh.screen());
}

#[test]
fn an_unexpected_frame_of_a_watcher_does_not_cancel_a_background_turn() {
    let call = ("a", "fs.write", "{\"to\":\"/tmp/x\"}");
    let tools = Tools::new(
        [Script::calls("", &[call]), Script::tokens(["All done."])],
        "",
    );
    let ask = AskRequest {
        shell: Some(shell_id("s1")),
        text: "write it".to_owned(),
        cwd: "/".to_owned(),
        background: true,
        ..AskRequest::default()
    };
    Client::request(&tools.helper, &Request::Ask(Box::new(ask))).accepted();
    // At once: the turn is found from the moment it was accepted.
    let mut broken = Client::attach(&tools.helper, "pts/1");
    let running = |frame: &Frame| match frame {
        Frame::Event(Event::Attached { running, .. }) => Some(*running),
        _ => None,
    };
    assert!(broken.until(running));
    broken.question();
    broken.send(200, &());
    let mut client = Client::attach(&tools.helper, "pts/2");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Once);
    let end = client.end();
    assert_eq!(end.text(), "All done.");
    assert_eq!(end.answer.finish, FinishReason::Stop);
    assert_eq!(tools.called().len(), 1);
}
