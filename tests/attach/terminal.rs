//! A shell whose prompts another server answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pty_process::blocking::Command as PtyCommand;

use super::{Attached, QUESTION, files_with, processes_with};
use crate::api::free_port;
use crate::fakes::provider::{Call, Part, Script, finish_event, text_event};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;
use crate::tools::Tools;
use crate::tools_prompt::KEYS;

#[test]
fn a_shell_asks_the_other_server() {
    let attached = Attached::new([
        Script::tokens(["The other ", "model ", "says hello.\n"]),
        Script::tokens(["And again.\n"]),
    ]);
    let origin = attached.origin();
    let mut zsh = attached.launch(&origin);
    zsh.wait_text(&format!("Token of {origin} (hidden):"));
    zsh.send("not-the-token\r");
    zsh.wait_text(&format!("refuses the token.\nToken of {origin} (hidden):"));
    zsh.send(format!("{}\r", attached.server.token));
    zsh.wait_text(&format!("[aish] llm asks {origin} (aish "));
    zsh.prompt();
    zsh.run("llm who is there");
    zsh.wait_text("The other model says hello.");
    zsh.run("llm who else");
    zsh.wait_text("And again.");
    // One session there has both prompts, and nothing but them was sent.
    let sessions = attached.sessions_there();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let path = format!("/v1/sessions/{}/messages", sessions[0]);
    let messages = attached.server.get(&path);
    let contents: Vec<&str> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        contents,
        [
            "And again.\n",
            "who else",
            "The other model says hello.\n",
            "who is there"
        ]
    );
    assert!(attached.here.provider.requests().is_empty());
    let answers = attached.here.records_of("assistant");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["model"], origin.as_str());
    assert_eq!(answers[0]["text"], "The other model says hello.\n");
    // Of the other server: nothing is counted by prices of this one.
    assert_eq!(answers[0]["prompt_tokens"], 7);
    let shown = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(!shown.contains(&attached.server.token), "{shown}");
    zsh.send("sh -c 'echo re\"\"ady; exec sleep 1000'\r");
    zsh.wait_text("\nready");
    let token = &attached.server.token;
    assert_eq!(processes_with(token), Vec::<String>::new());
    zsh.send("\x03");
    zsh.prompt();
    zsh.exit();
    let files = files_with(
        attached.here.home.path("").as_path(),
        &attached.server.token,
    );
    let own = attached.here.path("data/servers");
    assert!(
        files.len() == 1 && files[0].starts_with(&*own.to_string_lossy()),
        "{files:?}"
    );
}

#[test]
fn a_proposed_command_runs_here_and_only_after_a_yes() {
    let attached = Attached::new([
        Script::tokens(["Make it:\nCMD: print made-$((40+2)) >made\n"]),
        Script::tokens(["Once more:\nCMD: print again >again\n"]),
        Script::tokens(["Thank you.\n"]),
    ]);
    let mut zsh = attached.shell();
    zsh.send("llm make a file\r");
    zsh.wait_text(QUESTION);
    let made = |name: &str| attached.here.home.path(name);
    assert!(!made("made").exists());
    zsh.press_until("y", "<2>");
    zsh.prompt();
    assert_eq!(attached.here.home.read("made"), "made-42\n");
    assert!(!attached.there.home.path("made").exists());
    zsh.send("clear; llm another one\r");
    zsh.wait_text(QUESTION);
    zsh.press_until("n", "<3>");
    zsh.prompt();
    assert!(!made("again").exists());
    zsh.run("llm thanks");
    zsh.wait_text("Thank you.");
    // The output of an approved command is sent, as with any model.
    let content = attached.there.content();
    assert!(content.ends_with("thanks"), "{content}");
    let second = attached.there.messages(1).pop().unwrap().1;
    assert!(second.contains("<output command=\"print made-"), "{second}");
    let approvals = attached.here.records_of("command_approval");
    assert_eq!(approvals.len(), 2, "{approvals:?}");
    assert!(attached.there.records_of("command_approval").is_empty());
}

#[test]
fn a_session_goes_on_after_both_daemons_were_restarted() {
    let attached = Attached::new([
        Script::tokens(["First.\n"]),
        Script::tokens(["Second.\n"]),
        Script::tokens(["Third.\n"]),
    ]);
    attached.store_token();
    assert_eq!(attached.ask("one").run().ok(), "First.\n");
    attached.here.call(["stop"]).run().ok();
    attached.there.kill_daemon();
    let port = attached.server.port.to_string();
    attached.there.call(["serve", "--port", &port]).run().ok();
    assert_eq!(attached.ask("two").run().ok(), "Second.\n");
    let sessions = attached.sessions_there();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let messages = attached.there.messages(1);
    let texts: Vec<&str> = messages.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[1..], ["one", "First.\n", "two"], "{texts:?}");
    // A session that was deleted there is replaced by a new one.
    let path = format!("/v1/sessions/{}", sessions[0]);
    assert_eq!(attached.server.send("DELETE", &path, None).status, 204);
    let third = attached.ask("three").run();
    assert_eq!(third.stdout, "Third.\n");
    assert!(
        third.stderr.contains("the session no longer exists there"),
        "{third:?}"
    );
    let after = attached.sessions_there();
    assert!(after.len() == 1 && after != sessions, "{after:?}");
}

#[test]
fn ctrl_c_cancels_there() {
    let attached = Attached::new([
        Script::events([
            Part::from(&*text_event(&"A beginning of an answer. ".repeat(20))),
            Part::Gate("rest"),
            Part::from(&*text_event("the rest")),
            Part::from(&*finish_event("stop")),
        ]),
        Script::tokens(["Later.\n"]),
    ]);
    let mut zsh = attached.shell();
    zsh.send("llm write\r");
    zsh.wait_text("A beginning");
    zsh.send("\x03");
    zsh.prompt();
    attached.there.until_finish("interrupted");
    attached.here.until_finish("interrupted");
    assert!(!zsh.screen().contains("the rest"));
    zsh.run("llm go on");
    zsh.wait_text("Later.");
    assert_eq!(attached.sessions_there().len(), 1);
}

#[test]
fn ctrl_c_takes_back_a_prompt_that_waits_there() {
    let attached = Attached::new([
        Script::tokens(["Hello.\n"]),
        Script::events([
            Part::from(&*text_event("Held.")),
            Part::Gate("rest"),
            Part::from(&*finish_event("stop")),
        ]),
    ]);
    let mut zsh = attached.shell();
    zsh.run("llm hello");
    let session = attached.sessions_there().remove(0);
    attached.server.prompt(&session, "held");
    attached.there.provider.wait_gate("rest");
    zsh.send("llm second\r");
    zsh.wait_text("another prompt of the session is answered first");
    zsh.send("\x03");
    zsh.prompt();
    attached.there.until("the prompt is taken back", || {
        let detail = attached.server.get(&format!("/v1/sessions/{session}"));
        detail["waiting"].as_array().is_some_and(Vec::is_empty)
    });
    attached.there.provider.open("rest");
    attached.there.until("the other answer has ended", || {
        attached.there.records_of("assistant").len() == 2
    });
    assert_eq!(attached.there.records_of("user").len(), 2);
    assert_eq!(attached.there.records_of("waiting_prompt").len(), 1);
}

#[test]
fn a_tool_runs_there_and_is_asked_about_there() {
    let call: Call<'_> = ("a", "fs.write", "{\"to\":\"/tmp/x\"}");
    let other: Call<'_> = ("b", "fs.read", "{\"path\":\"/tmp/y\"}");
    let tools = Tools::new(
        [
            Script::calls("I write it.", &[call]),
            Script::calls("I read it.", &[other]),
            Script::tokens(["All is done.\n"]),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    let attached = Attached::with(tools.helper);
    let mut zsh = attached.shell();
    let there = Zsh::start(&attached.there.home);
    zsh.send("llm write it\r");
    zsh.wait_text("asks whether fs.write may run there");
    zsh.wait_text("/tmp/x");
    let session = attached.sessions_there().remove(0);
    there.send(format!("llm --attach {}\r", &session[session.len() - 8..]));
    there.wait_text(KEYS);
    there.press_until("n", "no\r\n");
    zsh.wait_text("All is done.");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("fs.write {\"to\":\"/tmp/x\"}: denied"),
        "{screen}"
    );
    assert!(
        screen.contains("runs fs.read {\"path\":\"/tmp/y\"}"),
        "{screen}"
    );
    // The rounds there are one answer here, without calls.
    let answers = attached.here.records_of("assistant");
    assert_eq!(answers.len(), 1);
    assert_eq!(
        answers[0]["text"],
        "I write it.\nI read it.\nAll is done.\n"
    );
    assert!(attached.here.records_of("tool").is_empty());
    assert_eq!(attached.there.records_of("tool").len(), 2);
}

#[test]
fn over_tls_the_certificate_must_be_trusted() {
    let there = Helper::new([Script::tokens(["Over TLS.\n"])]);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (there.path("cert.pem"), there.path("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    there.config(&format!(
        "[server]\ncertificate = {cert:?}\ncertificate_key = {key:?}\n"
    ));
    let port = free_port().to_string();
    let serve = ["serve", "--hostname", "localhost", "--port", &port];
    there.call(serve).run().ok();
    let token = there.call(["serve", "token", "show"]).run().ok();
    let here = Helper::new([]);
    let origin = format!("https://localhost:{port}");
    let attach = || {
        here.call(["launch", "attach", "--token-stdin", &origin])
            .stdin(token.clone())
    };
    let error = attach().run().fails(1);
    assert!(error.contains("not trusted"), "{error}");
    attach().env("SSL_CERT_FILE", &cert).run().ok();
    let command = PtyCommand::new("aish")
        .args(["attach", &origin])
        .env_clear()
        .envs(here.home.env())
        .env("SSL_CERT_FILE", &cert);
    let mut zsh = Zsh::spawn(&here.home, command);
    zsh.prompt();
    zsh.run("llm hello");
    zsh.wait_text("Over TLS.");
}

#[test]
fn only_what_the_user_gives_is_sent() {
    let attached = Attached::new([Script::tokens(["Seen.\n"])]);
    let secret = concat!("ghp_", "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX");
    let mut zsh = attached.shell();
    fs::write(attached.here.home.path("notes.txt"), "line of the file\n").unwrap();
    zsh.run("export VIRTUAL_ENV=/tmp/venv; ls /no-such-directory");
    zsh.run(&format!("llm what about @notes.txt and {secret}"));
    zsh.wait_text("Seen.");
    let content = attached.there.content();
    for part in ["no-such-directory", "VIRTUAL_ENV", "<git>", secret] {
        assert!(!content.contains(part), "{part}: {content}");
    }
    assert!(
        content.contains("<file name=\"notes.txt\">\nline of the file\n</file>"),
        "{content}"
    );
    assert!(content.contains("what about"), "{content}");
    // The system prompt is that of the other side; nothing of it comes from here.
    let preview = attached.here.call([
        "ask",
        "--shell",
        "s9",
        "--dry-run",
        "--json",
        "-m",
        &attached.origin(),
        "--",
        "try",
    ]);
    let preview = preview.run().json();
    assert_eq!(
        preview["body"],
        serde_json::json!({ "content": "try" }),
        "{preview}"
    );
    let url = preview["url"].as_str().unwrap();
    assert!(
        url.starts_with(&attached.origin()) && url.ends_with("/messages"),
        "{url}"
    );
}

#[test]
fn a_prompt_about_a_failure_says_that_the_output_stays_here() {
    let attached = Attached::new([Script::tokens(["First.\n"]), Script::tokens(["Second.\n"])]);
    let mut zsh = attached.shell();
    zsh.run("ls /nowhere-at-all");
    zsh.run("llm fix it");
    zsh.wait_text("First.");
    let line = "[aish] without the output of ls /nowhere-at-all: another server gets your words only; llm --output sends it too";
    assert!(
        zsh.screen().replace('\n', "").contains(line),
        "{}",
        zsh.screen()
    );
    assert_eq!(attached.there.content(), "fix it");
    // A prompt about something else has nothing to say.
    zsh.run("clear");
    zsh.run("ls /nowhere-at-all");
    zsh.run("llm what is a monad");
    zsh.wait_text("Second.");
    assert!(
        !zsh.screen().contains("without the output"),
        "{}",
        zsh.screen()
    );
}

#[test]
fn the_title_at_the_server_is_what_was_typed() {
    let attached = Attached::new([Script::tokens(["First.\n"]), Script::tokens(["Second.\n"])]);
    attached.store_token();
    let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let words = format!("what does {secret} in this file mean");
    let piped = attached.ask(&words).stdin("line of the file\n");
    assert_eq!(piped.run().ok(), "First.\n");
    let content = attached.there.content();
    assert!(content.starts_with("<file name="), "{content}");
    let title = || attached.server.get("/v1/sessions")["sessions"][0]["title"].clone();
    let shown = title();
    let shown = shown.as_str().expect("a title");
    assert!(
        shown.starts_with("what does [REDACTED:") && shown.ends_with(" in this file mean"),
        "{shown}"
    );
    assert_eq!(attached.ask("go on").run().ok(), "Second.\n");
    assert_eq!(title(), shown, "the session keeps its title");
}

#[test]
fn a_session_of_a_shell_is_attached_and_detached() {
    let attached = Attached::with(Helper::saying("From there.\n"));
    let here = Helper::saying("From here.\n");
    let origin = attached.origin();
    let mut zsh = Zsh::start(&here.home);
    zsh.run("llm hello");
    zsh.wait_text("From here.");
    zsh.send(format!("llm :attach {origin}\r"));
    zsh.wait_text(&format!("Token of {origin} (hidden):"));
    zsh.send(format!("{}\r", attached.server.token));
    zsh.wait_text(&format!("{origin} is now the model of this session"));
    zsh.prompt();
    zsh.run("llm and now");
    zsh.wait_text("From there.");
    assert_eq!(attached.there.content(), "and now");
    assert_eq!(here.provider.requests().len(), 1);
    let status = zsh.eval("llm :status");
    assert!(
        status.contains(&origin) && status.contains("answers"),
        "{status}"
    );
    zsh.run("llm :set model=; clear; llm back");
    zsh.wait_text("From here.");
    assert_eq!(here.provider.requests().len(), 2);
}
