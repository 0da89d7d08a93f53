use std::cell::RefCell;
use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

use super::{Response, Server};
use crate::support::helper::Helper;

#[test]
fn malformed_requests_are_refused() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let (port, token) = (server.port, &server.token);
    let head =
        format!("host: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n");
    let post = format!("POST /v1/sessions HTTP/1.1\r\n{head}content-type: application/json\r\n");
    let get = format!("GET /v1/sessions HTTP/1.1\r\n{head}");
    for request in [
        format!(
            "{post}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/sessions HTTP/1.1\r\n\r\n"
        ),
        format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
        format!("{post}content-length: +2\r\n\r\n{{}}"),
        format!("{post}content-length: -1\r\n\r\n{{}}"),
        format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: identity, chunked, identity\r\n\r\n{{}}"),
        format!("{get} folded: a\r\n\r\n"),
        format!("{get}x-space : a\r\n\r\n"),
        format!("{get}x-nul: a\0b\r\n\r\n"),
        format!("{get}x-many: {}\r\n\r\n", "a".repeat(64 << 10)),
        format!("{get}{}\r\n", "x-a: b\r\n".repeat(200)),
        format!("GET /{} HTTP/1.1\r\n{head}\r\n", "a".repeat(64 << 10)),
        format!("GET /v1/sessions HTTP/3.7\r\n{head}\r\n"),
        "\r\n\r\n\0\0\0\r\n".to_owned(),
    ] {
        let response = server.raw(&request);
        let start = &request[..request.len().min(300)];
        assert!(
            [400, 405, 414, 431].contains(&response.status),
            "{start:?}: {}",
            response.status
        );
        response.problem(response.status);
    }
    // The version of a refusal is that of the request before.
    let mut old = BufReader::new(server.connect());
    let first =
        format!("GET /health HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\nconnection: keep-alive\r\n\r\n");
    old.get_mut().write_all(first.as_bytes()).unwrap();
    assert_eq!(Response::read(&mut old).status, 200);
    old.get_mut()
        .write_all(b"GET\0 / HTTP/1.0\r\n\r\n")
        .unwrap();
    Response::read(&mut old).problem(400);
    // HTTP/2 without TLS: its answer would not be understood.
    assert_eq!(server.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 0);
    for (method, path, status) in [
        ("PUT", "/v1/sessions", 405),
        ("TRACE", "/v1/sessions", 405),
        ("DELETE", "/v1/sessions", 405),
        ("POST", "/health", 405),
        ("POST", "/", 405),
        ("POST", "/app.css", 405),
        ("DELETE", "/s/none", 405),
        ("POST", "/none", 404),
        ("DELETE", "/v1/none", 404),
        ("OPTIONS", "*", 405),
        ("CONNECT", "127.0.0.1:{port}", 405),
        ("GET", "/v1", 404),
        ("GET", "/v1/sessions/", 404),
        ("GET", "/v1/none", 404),
        ("GET", "/v1/sessions/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/v1/sessions/%2e%2e", 404),
        ("GET", "/v1/sessions/../../etc/passwd", 404),
        ("GET", "/v1/sessions/shells", 404),
        ("GET", "/v1/sessions/%00", 404),
        ("GET", "/v1/sessions/%ff", 400),
        ("GET", "/v1/sessions?limit=0", 400),
        ("GET", "/v1/sessions?limit=201", 400),
        ("GET", "/v1/sessions?limit=-1", 400),
        ("GET", "/v1/sessions?limit=x", 400),
        ("GET", "/v1/sessions?none=1", 400),
        ("GET", "/v1/sessions?offset=99999999", 400),
        ("GET", "/v1/sessions?search=%ff", 400),
        // What nobody would read.
        ("DELETE", "/v1/sessions/{session}?dry_run=1", 400),
        ("POST", "/v1/sessions/{session}/unshare?x", 400),
        ("GET", "/v1/sessions/{session}?limit=1", 400),
        ("GET", "/app.js.map", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "//etc/passwd", 404),
    ] {
        let path = &path.replace("{port}", &port.to_string());
        let path = &path.replace("{session}", &session);
        let response = server.send(method, path, None);
        assert_eq!(
            response.status,
            status,
            "{method} {path}: {}",
            response.text()
        );
        response.problem(status);
    }
    let upper = session.to_uppercase();
    server
        .send("GET", &format!("/v1/sessions/{upper}"), None)
        .problem(404);
    server
        .send("GET", &format!("/v1/sessions/{session}%20"), None)
        .problem(404);
    for operation in ["cancel", "unshare"] {
        let path = format!("/v1/sessions/{session}/{operation}");
        let body = serde_json::json!({ "message_id": "x" });
        let problem = server.send("POST", &path, Some(&body)).problem(400);
        assert_eq!(problem["message"], "this operation takes no body");
        assert!(
            server
                .send("POST", &path, Some(&serde_json::json!({})))
                .status
                == 400
        );
    }
    // In chunks, of which there may be none.
    let cancel = format!(
        "POST /v1/sessions/{session}/cancel HTTP/1.1\r\n{head}transfer-encoding: chunked\r\n\r\n"
    );
    let response = server.raw(&format!("{cancel}0\r\n\r\n"));
    let without = server.send("POST", &format!("/v1/sessions/{session}/cancel"), None);
    assert_eq!(response.status, without.status, "{}", response.text());
    let problem = server
        .raw(&format!("{cancel}2\r\n{{}}\r\n0\r\n\r\n"))
        .problem(400);
    assert_eq!(problem["message"], "this operation takes no body");
    let events = format!("GET /v1/events?follow=false HTTP/1.1\r\n{head}");
    let twice = format!("{events}last-event-id: x\r\nlast-event-id: y\r\n\r\n");
    let problem = server.raw(&twice).problem(400);
    assert_eq!(
        problem["message"],
        "the header last-event-id is given twice"
    );
    // Bodies of another kind, and none.
    let with = |headers: &str, body: &str| {
        server.raw(&format!(
            "POST /v1/sessions HTTP/1.1\r\n{head}{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    with("", "{}").problem(415);
    with("content-type: text/plain\r\n", "{}").problem(415);
    with(
        "content-type: application/x-www-form-urlencoded\r\n",
        "title=a",
    )
    .problem(415);
    let twice = "content-type: application/json\r\ncontent-type: text/plain\r\n";
    with(twice, "{}").problem(400);
    with("content-type: application/json\r\n", "").problem(400);
    with("content-type: application/json\r\n", "{").problem(400);
    with(
        "content-type: application/json\r\n",
        "{\"title\":\"\\ud800\"}",
    )
    .problem(400);
    with("content-type: application/json\r\n", &"[".repeat(100_000)).problem(400);
    let deep = format!("{{\"title\":{}{}}}", "{\"a\":".repeat(500), "}".repeat(500));
    let problem = with("content-type: application/vnd.x+json; a=b\r\n", &deep).problem(400);
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("recursion limit exceeded"), "{message}");
    with(
        "content-type: application/json; charset=iso-8859-1\r\n",
        "{}",
    )
    .problem(415);
    let huge = format!("{{\"title\":\"{}\"}}", "x".repeat(3 << 20));
    let problem = with("content-type: application/json\r\n", &huge).problem(413);
    assert_eq!(problem["kind"], "limit");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("2097152 bytes"), "{message}");
    // Most of this body arrives after the refusal.
    let larger = format!("{{\"title\":\"{}\"}}", "x".repeat(12 << 20));
    for _ in 0..4 {
        let refused = with("content-type: application/json\r\n", &larger);
        assert_eq!(refused.problem(413), problem);
    }
    // Without its body: the server does not ask for it.
    let waiting = server.raw(&format!(
        "{post}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        huge.len()
    ));
    assert_eq!(waiting.problem(413), problem);
    with(
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
        "{}",
    )
    .problem(415);
    for (coding, status) in [
        ("gzip, chunked", 501),
        ("chunked, chunked", 400),
        ("chunked\r\ntransfer-encoding: chunked", 400),
        ("Chunked", 201),
    ] {
        let response = server.raw(&format!(
            "{post}transfer-encoding: {coding}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        ));
        assert_eq!(response.status, status, "{coding}: {}", response.text());
    }
    // Each character of the longest prompt may be escaped.
    let path = format!("/v1/sessions/{session}/messages");
    let escaped = format!("{{\"content\":\"{}\"}}", "\\ud83d\\ude00".repeat(1_000_000));
    let long = server.raw(&format!(
        "POST {path} HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{escaped}",
        escaped.len()
    ));
    assert_eq!(long.status, 202, "{}", long.text());
    for (accepted, status) in [
        ("gzip;q=0", 406),
        ("br, gzip;q=0.5", 200),
        ("*;q=0", 406),
        ("gzip;q=0, *", 406),
        ("*", 200),
        ("x-gzipped", 406),
        ("", 406),
    ] {
        let headers = format!("accept-encoding: {accepted}\r\n");
        let response = server.send_with("GET", "/", &headers, None);
        assert_eq!(response.status, status, "{accepted:?}");
    }
    // Three headers are in `get`.
    let many = |number: usize| server.raw(&format!("{get}{}\r\n", "x-a: b\r\n".repeat(number - 3)));
    assert_eq!(many(64).status, 200);
    assert_eq!(many(65).problem(431)["kind"], "limit");
    assert_eq!(server.send("GET", "/health", None).status, 200);
}

#[test]
fn a_thousand_idle_connections_keep_nobody_out() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let mut stream = server.events("/v1/events");
    stream.until("x.caught_up");
    let idle: Vec<_> = (0..1000)
        .map(|n| {
            let mut connection = server.connect();
            // Some begin a request, and never end it.
            if n % 2 == 0 {
                let _ = connection.write_all(b"GET /v1/sessions HTTP/1.1\r\nhost:");
            }
            connection
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.send("GET", "/v1/sessions", None).status, 200);
    }
    // A stream that was served stays.
    server.session();
    stream.until("log.append");
    helper.ask("prompts are answered meanwhile");
    drop(idle);
}

#[test]
fn clients_that_connect_before_they_send_are_all_served() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let mut connections: Vec<_> = (0..200).map(|_| server.connect()).collect();
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\r\n",
        server.port, server.token
    );
    for connection in &mut connections {
        connection.write_all(request.as_bytes()).unwrap();
    }
    for connection in &mut connections {
        let mut head = [0; 15];
        connection.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
    }
    // Those that have a token keep their places, until no place is left.
    for _ in connections.len()..256 {
        let mut connection = server.connect();
        connection.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 15];
        connection.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        connections.push(connection);
    }
    assert_eq!(server.raw(&request).problem(503)["kind"], "limit");
}

#[test]
fn a_slow_head_is_cut_off() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let connect = |start: &[u8]| {
        let mut connection = server.connect();
        let limit = Some(Duration::from_secs(20));
        connection.set_read_timeout(limit).unwrap();
        connection.write_all(start).unwrap();
        connection
    };
    let mut slow = connect(b"GET /health HTTP/1.1\r\nhost: ");
    let stops = slow.try_clone().unwrap();
    let mut idle = connect(b"");
    let host = format!("host: 127.0.0.1:{}", server.port);
    // Some clients send one line end too many after a request.
    let kept = connect(format!("GET /health HTTP/1.1\r\n{host}\r\n\r\n\r\n").as_bytes());
    let mut kept = BufReader::new(kept);
    assert_eq!(Response::read(&mut kept).status, 200);
    let trickle = std::thread::spawn(move || {
        while slow.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // All end long before the time limit of the test.
    let late = Response::read(&mut BufReader::new(stops)).problem(408);
    assert_eq!(late["kind"], "limit");
    for silent in [&mut idle as &mut dyn Read, &mut kept] {
        let mut rest = Vec::new();
        silent.read_to_end(&mut rest).unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "", "a word to an idle one");
    }
    trickle.join().unwrap();
}

#[test]
fn refused_connections_that_stay_open_keep_nobody_out() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let end = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = std::collections::VecDeque::new();
            while Instant::now() < end {
                let mut connection = server.connect();
                let _ = connection.write_all(b"GET\0 / HTTP/1.1\r\n\r\n");
                open.push_back(connection);
                if open.len() > 600 {
                    open.pop_front();
                }
                // Twice as many as have a place come before the first is let go for its time.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut answers = Vec::new();
        while Instant::now() < end {
            answers.push(server.send("GET", "/v1/sessions", None).status);
        }
        assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    });
}

#[test]
fn streams_are_limited_and_a_reader_that_stops_harms_nobody() {
    let long = "word ".repeat(200_000);
    let helper = Helper::with(crate::fakes::provider::Provider::answering(move |_| {
        crate::fakes::provider::Script::tokens([long.clone()])
    }));
    let server = Server::start(&helper);
    let session = server.session();
    let path = format!("/v1/sessions/{session}/events");
    // They have the head of the answer, and stop reading.
    let stopped: Vec<_> = (0..50).map(|_| server.events(&path)).collect();
    let mut reading = server.events(&path);
    reading.until("x.caught_up");
    server.prompt(&session, "go");
    reading.until("message.end");
    let (end, deltas) = reading.until("message.end");
    assert_eq!(end.data["payload"]["length"], 1_000_000);
    assert!(deltas.len() > 200);
    let mut more = Vec::new();
    let full = loop {
        let response = server.connect();
        more.push(response);
        let connection = more.last_mut().unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\r\n",
            server.port, server.token
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 64];
        let read = connection.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        if !head.contains(" 200 ") {
            break head;
        }
        assert!(more.len() < 200, "there is no limit");
    };
    assert!(full.contains(" 503 "), "{full}");
    // What the refusal recommends.
    assert!(!server.all_events(&session, "").is_empty());
    drop((stopped, more));
}

#[test]
fn strangers_do_not_break_off_a_request_that_has_a_token() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let mut slow = server.connect();
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{",
        server.port, server.token
    );
    slow.write_all(head.as_bytes()).unwrap();
    // Connections are accepted in order, and this answer comes after the head above was read.
    server.get("/v1/sessions");
    let idle: Vec<_> = (0..300).map(|_| server.connect()).collect();
    // The oldest of the idle ones are dropped.
    let mut oldest = &idle[0];
    assert_eq!(oldest.read(&mut [0; 1]).unwrap(), 0);
    slow.write_all(b"}").unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    drop(idle);
}

#[test]
fn large_bodies_that_are_kept_back_leave_space_for_others() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let body = format!("{{\"content\":\"{}\"}}", "\\ud83d\\ude00".repeat(900_000));
    let post = |length: &str| {
        format!(
            "POST /v1/sessions/{session}/messages HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{length}\r\n\r\n",
            server.port, server.token
        )
    };
    let declared = post(&format!("content-length: {}", body.len()));
    let mut kept_back = Vec::new();
    for head in [&declared, &post("transfer-encoding: chunked")] {
        let mut connection = server.connect();
        connection.write_all(head.as_bytes()).unwrap();
        if head.contains("chunked") {
            write!(connection, "{:x}\r\n", body.len()).unwrap();
        }
        connection
            .write_all(&body.as_bytes()[..body.len() - 1])
            .unwrap();
        kept_back.push(connection);
    }
    // The one in chunks takes its space only when the server has read more than 2 MiB of it.
    let answer = RefCell::new(None);
    helper.until("there is no space", || {
        let response = server.raw(&format!("{declared}{body}"));
        let is_refused = response.status != 202;
        answer.replace(Some(response));
        is_refused
    });
    let refused = answer.take().unwrap().problem(503);
    assert_eq!(refused["kind"], "limit");
    assert_eq!(refused["message"], "too many large bodies are being read");
    // Small ones need no space.
    server.session();
    drop(kept_back);
    let accepted = server.raw(&format!("{declared}{body}"));
    assert_eq!(accepted.status, 202, "{}", accepted.text());
}
