//! Answers to questions over HTTP: a browser is paired in a real terminal, and nothing else can answer.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::{EventStream, Response, Server, ServerEvent};
use crate::fakes::mcp_http::{self, BodyPart, McpResponse};
use crate::fakes::provider::{Call, Script};
use crate::support::PATIENCE;
use crate::support::pty::Zsh;
use crate::tools::Tools;
use crate::tools_prompt::KEYS;

/// The beginning of the keys of the question about a code.
const PAIRING_KEYS: &str = "[y] it is this code";

/// Answers of a model that calls `fs.write` with these arguments, then ends.
fn calling(arguments: &[&str]) -> Vec<Script> {
    let script = |arguments: &&str| {
        let call: Call<'_> = ("a", "fs.write", arguments);
        [Script::calls("", &[call]), Script::tokens(["All done."])]
    };
    arguments.iter().flat_map(script).collect()
}

fn bearer(value: &str) -> String {
    format!("authorization: Bearer {value}\r\n")
}

/// A browser that has used the ticket of `aish-helper web --approve`.
struct Browser {
    ticket: String,
    bearer: String,
    code: String,
}

/// Runs `aish-helper web --approve` in the terminal and returns the ticket.
fn ticket(zsh: &Zsh<'_>) -> String {
    let seen = zsh.raw().len();
    zsh.send("clear; aish-helper web --approve --print\r");
    let ticket = || {
        let raw = String::from_utf8_lossy(&zsh.raw()[seen..]).into_owned();
        let (_, rest) = raw.split_once("#p=")?;
        let (ticket, _) = rest.split_once('\r')?;
        Some(ticket.to_owned())
    };
    zsh.wait_for("the address", |screen| screen.contents().contains("#p="));
    loop {
        if let Some(ticket) = ticket() {
            return ticket;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Opens the page for a pairing: the terminal then shows the code and asks.
fn open_page(server: &Server, zsh: &Zsh<'_>) -> Browser {
    let ticket = ticket(zsh);
    let body = json!({ "ticket": ticket });
    let new = server.send_with("POST", "/v1/pairing", "", Some(&body));
    let new = new.json(200);
    let text = |name: &str| new[name].as_str().expect("a text").to_owned();
    let browser = Browser {
        ticket,
        bearer: text("bearer"),
        code: text("code"),
    };
    zsh.wait_text(&browser.code);
    zsh.wait_text(PAIRING_KEYS);
    browser
}

/// Pairs a browser.
fn pair(server: &Server, zsh: &mut Zsh<'_>) -> Browser {
    let browser = open_page(server, zsh);
    zsh.press_until("y", "the browser is paired");
    zsh.prompt();
    browser
}

/// Sends a prompt and waits for its question.
fn ask(server: &Server, session: &str) -> (EventStream, Value) {
    let mut stream = server.events(&format!("/v1/sessions/{session}/events"));
    stream.until("x.caught_up");
    server.prompt(session, "write it");
    let (question, _) = stream.until("x.question.open");
    let question = question.data["payload"].clone();
    (stream, question)
}

fn path(session: &str, question: &Value) -> String {
    let id = question["question_id"].as_str().expect("an id");
    format!("/v1/sessions/{session}/questions/{id}")
}

fn answer(question: &Value, word: &str) -> Value {
    json!({ "digest": question["digest"], "answer": word })
}

fn send(server: &Server, value: &str, path: &str, body: &Value) -> Response {
    server.send_with("POST", path, &bearer(value), Some(body))
}

/// Sends an answer that must count.
fn accept(server: &Server, browser: &Browser, session: &str, question: &Value, word: &str) {
    let path = path(session, question);
    let sent = send(server, &browser.bearer, &path, &answer(question, word));
    assert_eq!(sent.status, 204, "{}", sent.text());
}

fn payload<'e>(event: &'e ServerEvent, name: &str) -> &'e Value {
    &event.data["payload"][name]
}

#[test]
fn a_paired_browser_approves_and_denies() {
    let scripts = calling(&["{\"to\":\"/tmp/x\"}", "{\"to\":\"/tmp/y\"}"]);
    let tools = Tools::new(scripts, "");
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let browser = open_page(&server, &zsh);
    let with = |value: &str, path: &str| server.send_with("GET", path, &bearer(value), None);
    // Before the person has decided, the bearer is worth nothing.
    with(&browser.bearer, "/v1/sessions").problem(401);
    let paired = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| with(&browser.bearer, "/v1/pairing").json(200));
        zsh.press_until("y", "the browser is paired");
        waiting.join().expect("a response")
    });
    zsh.prompt();
    assert_eq!(paired["state"], "paired");
    let shared = paired["bearer"].as_str().expect("the shared bearer");
    assert_ne!(shared, browser.bearer);
    assert_eq!(with(shared, "/v1/sessions").status, 200);
    assert_eq!(with(shared, "/v1/pairing").json(200)["state"], "none");
    let call = tools.helper.call(["serve", "status", "--json"]);
    assert_eq!(call.run().json()["server"]["paired_browsers"], 1);
    let status = tools.helper.call(["serve", "status"]).run().ok();
    assert!(status.contains("paired browsers"), "{status}");

    let session = server.session();
    let (mut stream, question) = ask(&server, &session);
    assert_eq!(question["answers"], json!(["yes", "no"]));
    assert_eq!(question["view"]["tool"], "fs.write");
    let facts = question["view"]["facts"].as_array().expect("facts");
    let arguments = json!(["Arguments", "{\"to\":\"/tmp/x\"}"]);
    assert!(facts.contains(&arguments), "{facts:?}");
    accept(&server, &browser, &session, &question, "yes");
    let (close, _) = stream.until("x.question.close");
    assert_eq!(payload(&close, "outcome"), "allowed_once");
    assert_eq!(payload(&close, "answered_in"), "the page");
    let (end, _) = stream.until("tool.end");
    assert_eq!(payload(&end, "status"), "success");
    assert_eq!(payload(&end, "decided_by"), "person");
    stream.until("message.end");
    // An answer counts once, also after the end of the turn.
    for word in ["yes", "no"] {
        let again = send(
            &server,
            &browser.bearer,
            &path(&session, &question),
            &answer(&question, word),
        );
        let message = again.problem(409)["message"].clone();
        assert_eq!(
            message,
            "the question was answered in the page: allowed once"
        );
    }

    let (mut stream, question) = ask(&server, &session);
    let mut no = answer(&question, "no");
    no["value"] = json!(" not there ");
    let denied = path(&session, &question);
    let sent = send(&server, &browser.bearer, &denied, &no);
    assert_eq!(sent.status, 204, "{}", sent.text());
    let (end, _) = stream.until("tool.end");
    assert_eq!(payload(&end, "status"), "denied");
    assert!(
        payload(&end, "text")
            .as_str()
            .unwrap()
            .contains("not there"),
        "{end:?}"
    );
    stream.until("message.end");
    let again = send(&server, &browser.bearer, &denied, &no).problem(409);
    assert_eq!(
        again["message"],
        "the question was answered in the page: denied"
    );
    let write = ("write".to_owned(), json!({ "to": "/tmp/x" }));
    assert_eq!(tools.called(), [write]);
    assert_eq!(
        tools.approved_at(0),
        [("once".to_owned(), "{\"to\":\"/tmp/x\"}".to_owned())]
    );
    let audit = tools.helper.audit_records();
    let granted = audit.iter().find(|record| record["change"] == "granted");
    let id = &granted.expect("the pairing")["grant"];
    for (record, decision) in tools
        .helper
        .records_of("approval")
        .iter()
        .zip(["once", "no"])
    {
        assert_eq!(
            (&record["decision"], &record["browser"]),
            (&json!(decision), id)
        );
        assert_eq!(record["terminal"], Value::Null);
    }

    // The browser itself ends its pairing.
    let end = server.send_with("DELETE", "/v1/pairing", &bearer(&browser.bearer), None);
    assert_eq!(end.status, 204);
    with(&browser.bearer, "/v1/sessions").problem(401);
}

#[test]
fn nothing_but_a_paired_browser_answers() {
    let tools = Tools::new(
        calling(&["{\"to\":\"/tmp/x\"}"]),
        "[server]\npassword = \"correct horse battery\"\n",
    );
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let other = server.session();
    // A browser that the person has refused.
    let refused = open_page(&server, &zsh);
    zsh.press_until("n", "is not paired");
    zsh.prompt();
    let told = server.send_with("GET", "/v1/pairing", &bearer(&refused.bearer), None);
    assert_eq!(told.problem(403)["kind"], "approval");
    let url = tools.helper.call(["web", "--print"]).run().ok();
    let (_, plain) = url.trim().split_once("#t=").expect("a ticket");
    // A ticket is valid only for its purpose.
    let body = json!({ "ticket": plain });
    server
        .send_with("POST", "/v1/pairing", "", Some(&body))
        .problem(401);
    let shared = server
        .send_with("POST", "/v1/tickets", "", Some(&body))
        .json(200);
    let shared = shared["bearer"].as_str().expect("a bearer");
    let browser = open_page(&server, &zsh);
    for ticket in [
        &browser.ticket,
        &refused.ticket,
        &browser.ticket[1..].to_owned(),
    ] {
        let body = json!({ "ticket": ticket });
        server
            .send_with("POST", "/v1/pairing", "", Some(&body))
            .problem(401);
        server
            .send_with("POST", "/v1/tickets", "", Some(&body))
            .problem(401);
    }
    zsh.press_until("y", "the browser is paired");
    zsh.prompt();

    let session = server.session();
    let (mut stream, question) = ask(&server, &session);
    let (path, yes) = (path(&session, &question), answer(&question, "yes"));
    let password = {
        use base64::Engine;
        base64::prelude::BASE64_STANDARD.encode("me:correct horse battery")
    };
    for headers in [
        bearer(&server.token),
        bearer(shared),
        format!("authorization: Basic {password}\r\n"),
    ] {
        let response = server.send_with("POST", &path, &headers, Some(&yes));
        assert_eq!(response.problem(403)["kind"], "approval", "{headers}");
        // Nothing is revealed about the question either.
        let none = path.replace(&session, &other);
        server
            .send_with("POST", &none, &headers, Some(&json!({})))
            .problem(403);
    }
    let is_refused = |record: &&Value| {
        record["change"] == "refused" && record["rule"] == "an answer to a question over HTTP"
    };
    tools.helper.until("the refusals are recorded", || {
        let audit = tools.helper.audit_records();
        audit.iter().filter(is_refused).count() == 6
    });
    let paired = &browser.bearer;
    for headers in [
        String::new(),
        bearer(&refused.bearer),
        bearer(&refused.ticket),
        bearer(&browser.ticket),
        bearer(&browser.code),
        bearer(&paired[1..]),
        bearer(&format!("{paired}{paired}")),
    ] {
        server
            .send_with("POST", &path, &headers, Some(&yes))
            .problem(401);
    }
    let twice = format!("{}{}", bearer(&server.token), bearer(paired));
    server
        .send_with("POST", &path, &twice, Some(&yes))
        .problem(400);
    let foreign = format!("{}origin: https://evil.example\r\n", bearer(paired));
    server
        .send_with("POST", &path, &foreign, Some(&yes))
        .problem(403);
    let mut socket = UnixStream::connect(tools.helper.path("run/api.sock")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let text = yes.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: aish\r\nconnection: close\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
        bearer(paired),
        text.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    Response::read(&mut BufReader::new(socket)).problem(403);

    let digest = question["digest"].as_str().expect("a digest");
    let last = if digest.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{last}", &digest[..63]);
    for (digest, status) in [
        (changed.as_str(), 409),
        (&digest.to_uppercase(), 409),
        (&digest[..63], 422),
        (&format!("{digest}{digest}"), 422),
        ("", 422),
        (&"é".repeat(32), 422),
    ] {
        let body = json!({ "digest": digest, "answer": "yes" });
        // Ids without a letter have no other form.
        if digest != question["digest"] {
            send(&server, paired, &path, &body).problem(status);
        }
    }
    for body in [
        json!({ "answer": "yes" }),
        json!({ "digest": digest }),
        json!({ "digest": digest, "answer": "always" }),
        json!({ "digest": digest, "answer": "tool" }),
        json!({ "digest": digest, "answer": true }),
        json!({ "digest": digest, "answer": "yes", "value": "x" }),
        json!({ "digest": digest, "answer": "yes", "arguments": "{}" }),
        json!({ "digest": digest, "answer": "no", "value": "x".repeat(2001) }),
    ] {
        send(&server, paired, &path, &body).problem(422);
    }
    send(&server, paired, &path.replace(&session, &other), &yes).problem(404);
    let unknown = format!("/v1/sessions/{session}/questions/{}", uuid::Uuid::now_v7());
    send(&server, paired, &unknown, &yes).problem(404);
    for id in ["..%2f..", "%00", "x%0d%0ay"] {
        let path = format!("/v1/sessions/{session}/questions/{id}");
        let status = send(&server, paired, &path, &yes).status;
        assert!(matches!(status, 400 | 404), "{id}: {status}");
    }
    assert_eq!(tools.called(), []);
    assert_eq!(
        server.get(&format!("/v1/sessions/{session}"))["status"],
        "waiting"
    );

    // The terminal answers; the page comes too late.
    zsh.send(format!(
        "clear; llm --attach {}\r",
        &session[session.len() - 8..]
    ));
    zsh.wait_text(KEYS);
    zsh.press_until("n", "no\r\n");
    stream.until("message.end");
    let late = send(&server, paired, &path, &yes).problem(409);
    let message = late["message"].as_str().expect("a message");
    assert!(
        message.starts_with("the question was answered in pts/"),
        "{message}"
    );
    assert!(message.ends_with(": denied"), "{message}");
    assert_eq!(tools.called(), []);
}

#[test]
fn a_terminal_is_told_that_the_page_has_answered() {
    let tools = Tools::new(calling(&["{\"to\":\"/tmp/x\"}"]), "");
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let browser = pair(&server, &mut zsh);
    // A prompt of the terminal itself.
    zsh.send("clear; llm write it\r");
    zsh.wait_text(KEYS);
    let session = server.last_session();
    let events = server.all_events(&session, "");
    let status = events.iter().find(|event| event.kind == "agent.status");
    let question = payload(status.expect("the state"), "questions")[0].clone();
    accept(&server, &browser, &session, &question, "yes");
    zsh.wait_text("answered in the page: allowed once");
    zsh.wait_text("All done.");
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn a_pairing_ends_with_rotation_unpair_stop_and_restart() {
    let tools = Tools::new([], "");
    let mut server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let status = |server: &Server, browser: &Browser| {
        let headers = bearer(&browser.bearer);
        server
            .send_with("GET", "/v1/pairing", &headers, None)
            .status
    };
    let port = server.port.to_string();
    let ends: [&[&[&str]]; 4] = [
        &[&["serve", "token", "rotate"]],
        &[&["serve", "unpair"]],
        &[&["serve", "stop"], &["serve", "--port", &port]],
        &[&["restart", "--now"]],
    ];
    for commands in ends {
        let browser = pair(&server, &mut zsh);
        assert_eq!(status(&server, &browser), 200);
        // One that waits for its decision ends too.
        let waiting = open_page(&server, &zsh);
        for command in commands {
            tools.helper.call(*command).run().ok();
        }
        let listens = || std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok();
        tools.helper.until("the server listens again", listens);
        assert_eq!(status(&server, &browser), 401, "{commands:?}");
        zsh.press_until("y", "aish-helper web --approve");
        zsh.prompt();
        assert_eq!(status(&server, &waiting), 401, "{commands:?}");
        let token = tools.helper.call(["serve", "token", "show"]).run().ok();
        token.trim().clone_into(&mut server.token);
    }
    let call = tools.helper.call(["serve", "status", "--json"]);
    assert_eq!(call.run().json()["server"]["paired_browsers"], 0);
    let none = tools.helper.call(["serve", "unpair"]).run().ok();
    assert!(none.contains("no browser was paired"), "{none}");
}

#[test]
fn pairing_needs_a_person_at_a_terminal() {
    let tools = Tools::new([], "");
    let server = Server::start(&tools.helper);
    let error = tools
        .helper
        .call(["web", "--approve", "--print"])
        .run()
        .fails(4);
    assert!(error.contains("terminal"), "{error}");
    let zsh = Zsh::start(&tools.helper.home);
    // In the background of the terminal, as a program that waits for its moment.
    zsh.send("clear; aish-helper web --approve --print &!\r");
    zsh.wait_text("not in the foreground");
    let call = tools.helper.call(["serve", "status", "--json"]);
    assert_eq!(call.run().json()["server"]["port"], server.port);
}

#[test]
fn a_question_with_a_secret_or_a_form_is_answered_in_the_terminal() {
    let secret = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
    let arguments = format!("{{\"to\":\"{secret}\"}}");
    let read: Call<'_> = ("b", "fs.read", "{}");
    let mut scripts = calling(&[&arguments]);
    scripts.extend([Script::calls("", &[read]), Script::tokens(["done"])]);
    let tools = Tools::new(scripts, "[mcp.auto_approve]\n\"fs.read\" = true\n");
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let browser = pair(&server, &mut zsh);
    let session = server.session();
    let (mut stream, question) = ask(&server, &session);
    assert!(!question.to_string().contains(secret), "{question}");
    assert_eq!(question["answers"], json!(["no"]));
    let post = |question: &Value, word: &str| {
        let path = path(&session, question);
        send(&server, &browser.bearer, &path, &answer(question, word))
    };
    let refused = post(&question, "yes").problem(409);
    assert!(
        refused["message"].as_str().unwrap().contains("a secret"),
        "{refused}"
    );
    assert_eq!(post(&question, "no").status, 204);
    stream.until("message.end");

    tools.behave(|request| {
        let question = json!({
            "jsonrpc": "2.0", "id": 99, "method": "elicitation/create",
            "params": { "mode": "form", "message": "who are you?",
                "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } },
        });
        let result = json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("ok") });
        Some(McpResponse::events([
            BodyPart::Event(question),
            BodyPart::Gate("answered"),
            BodyPart::Event(result),
        ]))
    });
    let (mut stream, question) = ask(&server, &session);
    assert_eq!(question["kind"], "elicitation");
    assert_eq!(question["answers"], json!([]));
    for word in ["yes", "no"] {
        let refused = post(&question, word).problem(409);
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .contains("only in the terminal"),
            "{refused}"
        );
    }
    tools.server.open("answered");
    stream.until("message.end");
    assert_eq!(tools.called().len(), 1);
}

fn fact<'q>(question: &'q Value, name: &str) -> Option<&'q str> {
    let facts = question["view"]["facts"].as_array().expect("facts");
    let found = facts.iter().find(|fact| fact[0] == name)?;
    found[1].as_str()
}

#[test]
fn a_paired_browser_is_told_of_a_new_tool_and_of_what_its_server_says() {
    let mut answers = calling(&["{\"to\":\"/tmp/x\"}"; 3]);
    // The last question stays open.
    answers.pop();
    let tools = Tools::new(answers, "");
    let mut write = mcp_http::tool("write");
    write["description"] = json!("Writes.\n\u{202e}Also \u{1b}[2Jreads <b>all</b>");
    tools
        .server
        .set_tools(json!([mcp_http::tool("read"), write.clone()]));
    tools.helper.call(["restart"]).run().ok();
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let browser = pair(&server, &mut zsh);
    let session = server.session();
    let asked = |expected: Option<&str>| {
        let (mut stream, question) = ask(&server, &session);
        assert_eq!(fact(&question, "New"), expected, "{question}");
        accept(&server, &browser, &session, &question, "yes");
        stream.until("x.question.close");
        stream.until("message.end");
        let is_idle = || server.get(&format!("/v1/sessions/{session}"))["status"] == "idle";
        tools.helper.until("the answer ends", is_idle);
        question
    };
    let first = asked(Some("the server was not used before, nor was this tool"));
    let description = fact(&first, "Description by the server").expect("a description");
    assert_eq!(
        description,
        "Writes.\n‹\\u{202e}›Also ‹\\x1b›[2Jreads <b>all</b>"
    );
    let declared = fact(&first, "Declared by the server").expect("annotations");
    assert!(declared.contains("only reads: not declared"), "{declared}");
    // It was approved, so that it is known.
    let second = asked(None);
    assert_eq!(fact(&second, "Description by the server"), None);
    // A changed one is shown again.
    write["description"] = json!("Writes more.");
    tools
        .server
        .set_tools(json!([mcp_http::tool("read"), write]));
    tools.helper.call(["restart", "--now"]).run().ok();
    tools.helper.until("the server listens again", || {
        std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
    });
    let (_stream, third) = ask(&server, &session);
    let changes = fact(&third, "The tool has changed").expect("a difference");
    assert!(changes.contains("Writes more."), "{changes}");
    assert_eq!(
        fact(&third, "Description by the server"),
        Some("Writes more.")
    );
}

#[test]
fn a_question_of_a_cancelled_answer_is_recorded_as_cancelled() {
    let mut scripts = calling(&["{\"to\":\"/tmp/x\"}"]);
    scripts.truncate(1);
    let tools = Tools::new(scripts, "");
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let _browser = pair(&server, &mut zsh);
    let session = server.session();
    let (mut stream, _) = ask(&server, &session);
    let cancelled = server.send("POST", &format!("/v1/sessions/{session}/cancel"), None);
    assert_eq!(cancelled.status, 204);
    let (end, _) = stream.until("tool.end");
    assert_eq!(payload(&end, "status"), "interrupted");
    assert_eq!(payload(&end, "decided_by"), &Value::Null);
    assert!(tools.called().is_empty());
    tools.helper.until("the decision is recorded", || {
        !tools.helper.records_of("approval").is_empty()
    });
    let decisions = tools.helper.records_of("approval");
    assert_eq!(decisions[0]["decision"], "cancelled");
}

/// Runs a prompt of the shell `s1` without a terminal.
fn without_terminal(tools: &Tools) -> crate::support::helper::RunningProgram {
    let setsid = tools.helper.program("setsid");
    let args = [
        "-w",
        "aish-helper",
        "ask",
        "--shell",
        "s1",
        "--",
        "write it",
    ];
    setsid.args(args).start()
}

#[test]
fn a_question_without_a_terminal_waits_for_a_paired_browser_that_is_there() {
    let tools = Tools::new(calling(&["{\"to\":\"/tmp/x\"}"; 6]), "");
    let server = Server::start(&tools.helper);
    let mut zsh = Zsh::start(&tools.helper.home);
    let browser = pair(&server, &mut zsh);
    let denied = |run: crate::support::helper::ProgramResult| {
        assert_eq!(run.code, 4, "{run:?}");
        let expected = "fs.write: denied: no terminal to ask on";
        assert!(run.stderr.contains(expected), "{run:?}");
    };
    // No terminal means "no" where no paired browser follows the session, even if other clients do.
    denied(without_terminal(&tools).finish());
    let session = server.last_session();
    let events = format!("/v1/sessions/{session}/events");
    let other = server.session();
    {
        let mut strangers = server.events(&events);
        strangers.until("x.caught_up");
        let elsewhere = format!("/v1/sessions/{other}/events");
        let mut elsewhere = server.events_with(&elsewhere, &browser.bearer);
        elsewhere.until("x.caught_up");
        denied(without_terminal(&tools).finish());
    }
    // It waits for the answer.
    for (word, code, called) in [("yes", 0, 1), ("no", 0, 1)] {
        let mut page = server.events_with(&events, &browser.bearer);
        page.until("x.caught_up");
        let run = without_terminal(&tools);
        let (question, _) = page.until("x.question.open");
        let question = question.data["payload"].clone();
        // The client has said that it has no terminal.
        page.until("x.notice");
        accept(&server, &browser, &session, &question, word);
        let run = run.finish();
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.stdout.contains("All done."), "{run:?}");
        assert!(
            run.stderr
                .contains("waits for an answer in the paired browser")
                && run.stderr.contains("fs.write: answered in the page: "),
            "{run:?}"
        );
        assert_eq!(tools.called().len(), called);
    }
    // The page goes away.
    let mut page = server.events_with(&events, &browser.bearer);
    page.until("x.caught_up");
    let run = without_terminal(&tools);
    page.until("x.question.open");
    drop(page);
    denied(run.finish());
    // The pairing ends, and the streams with it.
    let mut page = server.events_with(&events, &browser.bearer);
    page.until("x.caught_up");
    let mut all = server.events_with("/v1/events", &browser.bearer);
    all.until("x.caught_up");
    let run = without_terminal(&tools);
    page.until("x.question.open");
    tools.helper.call(["serve", "unpair"]).run().ok();
    while page.next().is_some() {}
    while all.next().is_some() {}
    denied(run.finish());
    assert_eq!(tools.called().len(), 1);
}
