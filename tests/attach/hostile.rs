//! Servers that are hostile, or none of aish, and addresses that are refused.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Attached;
use crate::fakes::aish_server::{
    FakeServer, SeenRequest, answer, begin_answer, begin_events, event, reply,
};
use crate::support::helper::{Helper, ProgramResult};
use crate::support::pty::Zsh;

/// A token for servers that accept any.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A home that has the token of a server.
fn home(server: &FakeServer) -> Helper {
    let here = Helper::new([]);
    let stored = here.call(["launch", "attach", "--token-stdin", &server.origin()]);
    stored.stdin(TOKEN).run().ok();
    here
}

fn ask(here: &Helper, model: &str) -> ProgramResult {
    here.call(["ask", "--shell", "s1", "-m", model, "--", "hello"])
        .run()
}

/// A server that sends these bytes as the events of every prompt.
fn streaming(events: impl Into<Vec<u8>>) -> FakeServer {
    let events = events.into();
    FakeServer::start(move |request, stream| {
        let is_stream = request.target.contains("/events");
        if is_stream {
            begin_events(stream);
            let _ = stream.write_all(&events);
        }
        is_stream
    })
}

#[test]
fn only_an_origin_is_an_address() {
    let server = FakeServer::start(|_, _| false);
    let here = home(&server);
    let port = server.origin().rsplit(':').next().unwrap().to_owned();
    let before = server.seen().len();
    for url in [
        format!("http://user:secret@127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/secret"),
        format!("http://127.0.0.1:{port}?secret"),
        format!("http://127.0.0.1:{port}#secret"),
        format!("http://127.0.0.1.secret.example:{port}"),
        "http://10.0.0.1:4096".to_owned(),
        "ftp://127.0.0.1".to_owned(),
    ] {
        let attach = here.call(["launch", "attach", "--token-stdin", &url]);
        let error = attach.stdin(TOKEN).run().fails(2);
        assert!(!error.contains("secret"), "{url}: {error}");
        let error = ask(&here, &url).fails(3);
        assert!(!error.contains("secret"), "{url}: {error}");
        assert!(
            error.contains("the URL of the other aish server"),
            "{error}"
        );
    }
    assert_eq!(server.seen().len(), before);
    // With a slash at the end it is the same origin.
    let said = ask(&here, &format!("{}/", server.origin())).ok();
    assert_eq!(said, "Fine.\n");
}

#[test]
fn a_token_is_sent_to_its_own_server_only() {
    let (own, other) = (
        FakeServer::start(|_, _| false),
        FakeServer::start(|_, _| false),
    );
    let here = home(&own);
    let error = ask(&here, &other.origin()).fails(3);
    assert!(error.contains("no token is stored"), "{error}");
    assert!(error.contains("aish attach"), "{error}");
    assert!(other.seen().is_empty(), "{:?}", other.seen());
    ask(&here, &own.origin()).ok();
    let requests = own.seen();
    let (anonymous, known): (Vec<_>, Vec<_>) = requests
        .iter()
        .partition(|request| request.authorization.is_none());
    assert!(anonymous.iter().all(|request| request.target == "/version"));
    let bearer = format!("Bearer {TOKEN}");
    assert!(
        known
            .iter()
            .all(|r| r.authorization.as_ref() == Some(&bearer))
    );
    let sent = known.iter().find(|r| r.target.ends_with("/messages"));
    let body: Value = serde_json::from_str(&sent.unwrap().body).unwrap();
    assert_eq!(body, json!({ "content": "hello" }));
}

#[test]
fn a_redirect_is_never_followed() {
    let elsewhere = FakeServer::start(|_, _| false);
    let target = elsewhere.origin();
    let redirects = Arc::new(AtomicBool::new(false));
    let server = FakeServer::start({
        let (target, redirects) = (target.clone(), redirects.clone());
        move |_, stream| {
            let redirects = redirects.load(Ordering::SeqCst);
            if redirects {
                let location = format!("location: {target}/secret-path\r\n");
                reply(stream, 307, &location, &json!({}));
            }
            redirects
        }
    });
    let here = home(&server);
    redirects.store(true, Ordering::SeqCst);
    let attach = here.call(["launch", "attach", "--token-stdin", &server.origin()]);
    for error in [
        attach.stdin(TOKEN).run().fails(1),
        ask(&here, &server.origin()).fails(1),
    ] {
        assert!(
            error.contains(&format!("redirects to {target};")),
            "{error}"
        );
        assert!(!error.contains("secret-path"), "{error}");
    }
    assert!(elsewhere.seen().is_empty(), "{:?}", elsewhere.seen());
}

#[test]
fn a_refused_token_is_named_and_not_stored() {
    let attached = Attached::new([]);
    let origin = attached.origin();
    let error = attached.token(&origin, "wrong-token").run().fails(3);
    assert!(
        error.contains("refuses the token") && !error.contains("wrong-token"),
        "{error}"
    );
    assert!(!attached.here.path("data/servers").exists());
    attached.token(&origin, "two words").run().fails(2);
    attached.store_token();
    attached.there.call(["serve", "token", "rotate"]).run().ok();
    let error = attached.ask("hello").run().fails(3);
    assert!(
        error.contains("refuses the token") && error.contains(&format!("aish attach {origin}")),
        "{error}"
    );
    assert!(!error.contains(&attached.server.token));
    // It is asked for again.
    let zsh = attached.launch(&origin);
    zsh.wait_text(&format!("Token of {origin} (hidden):"));
    assert!(zsh.screen().contains("refuses the token"));
    zsh.send("\x03");
    assert_eq!(zsh.ended(), Some(130));
}

#[test]
fn nothing_of_a_hostile_answer_controls_the_terminal() {
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}";
    let call = json!({ "call_id": evil, "message_id": "r-1", "name": evil, "arguments": evil });
    let facts = json!([["Arguments", evil], [evil, evil]]);
    let question =
        json!({ "kind": "approval", "answers": [evil], "view": { "tool": evil, "facts": facts } });
    let refused = json!({ "call_id": evil, "name": evil, "status": evil, "reason": evil });
    let events = [
        begin_answer(&format!("Before{evil}after.\nCMD: print {evil} x\n")),
        event("tool.start", &call),
        event("x.tool.running", &json!({ "call_id": evil, "name": evil })),
        event("x.question.open", &question),
        event("tool.end", &refused),
        event("x.notice", &json!({ "text": evil })),
        event(
            "message.end",
            &json!({ "message_id": "r-1", "finish": "stop", "model": evil }),
        ),
        event(
            "agent.status",
            &json!({ "status": "idle", "failure": { "message_id": "p-1", "message": evil, "hint": evil } }),
        ),
    ];
    let server = streaming(events.concat());
    let here = home(&server);
    let mut zsh = Zsh::start(&here.home);
    zsh.run("stty -echo; print -r -- ready");
    let from = zsh.raw().len();
    zsh.run(&format!("llm -m {} hello", server.origin()));
    let raw = zsh.raw()[from..].to_vec();
    let raw = String::from_utf8_lossy(&raw);
    assert!(raw.contains("Before"), "{raw:?}");
    for control in ["\u{1b}]0;", "\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{7}"] {
        assert!(!raw.contains(control), "{control:?} in {raw:?}");
    }
}

#[test]
fn other_things_than_events_are_errors() {
    let begin = begin_answer("A beginning.\n");
    let endless = format!("data: {}", "x".repeat(9 << 20));
    for (events, message) in [
        ("data: nothing\n\n".to_owned(), "events of aish"),
        (
            begin.clone() + "id: 3\ndata: {\"type\":7}\n\n",
            "events of aish",
        ),
        (
            begin.clone() + &event("message.delta", &json!({ "message_id": "r-1", "text": 7 })),
            "events of aish",
        ),
        (
            begin.clone() + &event("x.notice", &json!([])),
            "events of aish",
        ),
        // Without a cursor, or with one that is none.
        (
            "data: {\"type\":\"x.heartbeat\",\"payload\":{}}\n\n".to_owned(),
            "events of aish",
        ),
        (
            "id: a b\ndata: {\"type\":\"x.heartbeat\"}\n\n".to_owned(),
            "events of aish",
        ),
        (
            begin.clone() + &event("x.notice", &json!({ "text": "x".repeat(2 << 20) })),
            "events of aish",
        ),
        (begin + &endless, "events of aish"),
    ] {
        let server = streaming(events.clone());
        let here = home(&server);
        let error = ask(&here, &server.origin());
        assert_eq!(error.code, 1, "{error:?}");
        assert!(error.stderr.contains(message), "{error:?}");
        let is_begun = events.contains("A beginning.");
        assert_eq!(error.stdout.contains("A beginning."), is_begun, "{error:?}");
        here.call(["status"]).run().ok();
    }
}

#[test]
fn an_endless_answer_is_cut() {
    let server = FakeServer::start(|request, stream| {
        let is_stream = request.target.contains("/events");
        if is_stream {
            begin_events(stream);
            let _ = stream.write_all(begin_answer("begin\n").as_bytes());
            let text = "all work and no play ".repeat(20_000);
            let delta = event(
                "message.delta",
                &json!({ "message_id": "r-1", "text": text }),
            );
            while stream.write_all(delta.as_bytes()).is_ok() {}
        }
        is_stream
    });
    let here = home(&server);
    let ended = ask(&here, &server.origin());
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("sent more than 64 MiB"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.len() <= (4 << 20) + 1000,
        "{}",
        ended.stdout.len()
    );
}

#[test]
fn replies_of_another_form_are_errors() {
    type Special = fn(&SeenRequest, &mut TcpStream) -> bool;
    let cases: [Special; 6] = [
        |request, stream| {
            let is_it = request.method == "POST" && request.target == "/v1/sessions";
            if is_it {
                let id = json!({ "id": "../../v1/evil", "next_cursor": "0.0.0..0..0.0.0" });
                reply(stream, 201, "", &id);
            }
            is_it
        },
        |request, stream| {
            let is_it = request.method == "POST" && request.target == "/v1/sessions";
            if is_it {
                reply(
                    stream,
                    201,
                    "",
                    &json!({ "id": "s-1", "next_cursor": "a\nb" }),
                );
            }
            is_it
        },
        |request, stream| {
            let is_it = request.target.ends_with("/messages");
            if is_it {
                reply(stream, 202, "", &json!({ "message_id": 7 }));
            }
            is_it
        },
        |request, stream| {
            let is_it = request.target.ends_with("/messages");
            if is_it {
                reply(
                    stream,
                    202,
                    "",
                    &json!({ "message_id": "x".repeat(1 << 20) }),
                );
            }
            is_it
        },
        |request, stream| {
            let is_it = request.target.ends_with("/messages");
            if is_it {
                let problem = json!({ "message": "\u{1b}[2Jno\nmodel", "hint": "do\u{7}" });
                reply(stream, 409, "", &problem);
            }
            is_it
        },
        |request, stream| {
            let is_it = request.target.ends_with("/messages");
            if is_it {
                let _ = stream.write_all(b"HTTP/1.1 500 no\r\ncontent-length: 3\r\n\r\n<p>");
            }
            is_it
        },
    ];
    for special in cases {
        let server = FakeServer::start(special);
        let here = home(&server);
        let error = ask(&here, &server.origin()).fails(1);
        assert!(
            !error.contains('\u{1b}') && !error.contains('\u{7}'),
            "{error:?}"
        );
        assert!(error.contains(&server.origin()), "{error}");
        let evil = server
            .seen()
            .into_iter()
            .find(|r| r.target.contains("evil"));
        assert!(evil.is_none(), "{evil:?}");
    }
    let other = FakeServer::start(|request, stream| {
        let is_it = request.target == "/version";
        if is_it {
            reply(stream, 200, "", &json!({ "name": "other", "version": "1" }));
        }
        is_it
    });
    let here = Helper::new([]);
    let attach = here.call(["launch", "attach", "--token-stdin", &other.origin()]);
    let error = attach.stdin(TOKEN).run().fails(1);
    assert!(
        error.contains("does not answer as an aish server"),
        "{error}"
    );
    // The token was not sent to a server that is none of aish.
    assert!(
        other
            .seen()
            .iter()
            .all(|request| request.authorization.is_none())
    );
}

#[test]
fn what_is_not_a_prompt_is_refused() {
    let server = streaming(answer("CMD: ls\n"));
    let here = home(&server);
    let origin = server.origin();
    ask(&here, &origin);
    let before = server.seen().len();
    for words in [
        &["session", "compact", "--shell", "s1", "-m", &origin][..],
        &[
            "ask",
            "--shell",
            "s1",
            "-m",
            &origin,
            "--command",
            "--",
            "list files",
        ],
    ] {
        let error = here.call(words).run().fails(2);
        assert!(error.contains("only answers prompts"), "{error}");
    }
    assert_eq!(server.seen().len(), before);
}
