use std::io::Write;
use std::net::TcpStream;

use serde_json::json;

use super::document::operations;
use super::{Server, free_port};
use crate::support::helper::Helper;

#[test]
fn every_operation_needs_the_token() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    let token = &server.token;
    let cut = &token[..token.len() - 1];
    let wrong = [
        String::new(),
        "authorization: Bearer\r\n".to_owned(),
        "authorization: Bearer \r\n".to_owned(),
        format!("authorization: Bearer {cut}\r\n"),
        format!("authorization: Bearer {token}x\r\n"),
        format!("authorization: Bearer {}\r\n", token.to_uppercase()),
        format!("authorization: {token}\r\n"),
        format!("authorization: Basic {token}\r\n"),
        "authorization: Basic OnBhc3N3b3Jk\r\n".to_owned(),
        format!("authorization: Negotiate {token}\r\n"),
        format!("cookie: token={token}\r\n"),
        format!("x-api-key: {token}\r\n"),
    ];
    let doubled = format!("authorization: Bearer {token}\r\nauthorization: Bearer {token}\r\n");
    for (method, path, _, needs_token) in operations() {
        let path = path.replace("{session_id}", &session);
        for headers in wrong.iter().filter(|_| needs_token) {
            let response = server.send_with(&method, &path, headers, None);
            response.problem(401);
            assert!(response.head.contains("www-authenticate: bearer"));
        }
        if needs_token {
            server
                .send_with(&method, &path, &doubled, None)
                .problem(400);
            let in_query = format!("{path}?token={token}&access_token={token}");
            server.send_with(&method, &in_query, "", None).problem(401);
        }
    }
    // Nor do nonexistent paths reveal anything.
    server.send_with("GET", "/v1/none", "", None).problem(401);
}

#[test]
fn other_hosts_origins_and_sites_are_refused() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let (port, token) = (server.port, &server.token);
    let send = |host: &str, headers: &str| {
        server.raw(&format!(
            "GET /v1/sessions HTTP/1.1\r\n{host}connection: close\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
        ))
    };
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        assert_eq!(
            send(&format!("host: {host}:{port}\r\n"), "").status,
            200,
            "{host}"
        );
    }
    let other = port.wrapping_add(1);
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        format!("127.0.0.1:{other}"),
        format!("localhost.:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("127.1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("user@127.0.0.1:{port}"),
        String::new(),
    ] {
        send(&format!("host: {host}\r\n"), "").problem(421);
    }
    // The address of the request counts before Host.
    for (target, status) in [
        (format!("http://127.0.0.1:{port}/v1/sessions"), 200),
        ("http://evil.example/v1/sessions".to_owned(), 421),
        (format!("http://evil.example:{port}/v1/sessions"), 421),
        (format!("https://127.0.0.1:{port}/v1/sessions"), 421),
        (format!("http://a:b@127.0.0.1:{port}/v1/sessions"), 421),
    ] {
        let response = server.raw(&format!(
            "GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\nauthorization: Bearer  {token}\r\n\r\n"
        ));
        assert_eq!(response.status, status, "{target}");
    }
    assert!(matches!(send("", "").status, 400));
    let twice = format!("host: 127.0.0.1:{port}\r\nhost: evil.example\r\n");
    assert!(matches!(send(&twice, "").status, 400));
    let host = format!("host: 127.0.0.1:{port}\r\n");
    for (headers, status) in [
        (
            format!("origin: http://127.0.0.1:{port}\r\nsec-fetch-site: same-origin\r\n"),
            200,
        ),
        (format!("origin: http://localhost:{port}\r\n"), 200),
        ("sec-fetch-site: none\r\n".to_owned(), 200),
        (format!("origin: http://127.0.0.1:{other}\r\n"), 403),
        ("origin: null\r\n".to_owned(), 403),
        ("origin: file://\r\n".to_owned(), 403),
        ("origin: https://evil.example\r\n".to_owned(), 403),
        (
            format!("origin: http://127.0.0.1:{port}.evil.example\r\n"),
            403,
        ),
        ("sec-fetch-site: cross-site\r\n".to_owned(), 403),
        ("sec-fetch-site: same-site\r\n".to_owned(), 403),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n".to_owned(),
            403,
        ),
        ("sec-fetch-site: nonsense\r\n".to_owned(), 403),
    ] {
        let response = send(&host, &headers);
        assert_eq!(response.status, status, "{headers} {}", response.text());
        assert!(
            !response.head.contains("access-control-allow-origin"),
            "{}",
            response.head
        );
        if status == 403 {
            response.problem(403);
        }
    }
    // A link to the page is followed, but nothing of another site may load its files.
    let page = |headers: &str| server.send_with("GET", "/", headers, None).status;
    assert_eq!(
        page("sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n"),
        200
    );
    assert_eq!(
        page("sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n"),
        403
    );
}

#[test]
fn a_page_of_a_configured_origin_may_use_the_api() {
    let helper = Helper::saying("yes");
    helper.config("[server]\ncors = [\"http://localhost:5173\"]\n");
    let server = Server::start(&helper);
    let token = format!("authorization: Bearer {}\r\n", server.token);
    let own = "origin: http://localhost:5173\r\nsec-fetch-site: same-site\r\n";
    let response = server.send_with("GET", "/v1/sessions", &format!("{token}{own}"), None);
    assert_eq!(response.status, 200);
    assert!(
        response
            .head
            .contains("access-control-allow-origin: http://localhost:5173\n")
    );
    assert!(response.head.contains("vary: origin"), "{}", response.head);
    let preflight = server.send_with("OPTIONS", "/v1/sessions", own, None);
    assert_eq!(preflight.status, 204);
    assert!(
        preflight
            .head
            .contains("access-control-allow-headers: authorization")
    );
    // The page may read why it was refused, and the headers that the document names.
    let refusal = server.send_with("GET", "/v1/sessions", own, None);
    refusal.problem(401);
    for head in [&refusal.head, &response.head] {
        assert!(
            head.contains("access-control-allow-origin: http://localhost:5173\n")
                && head.contains("cross-origin-resource-policy: cross-origin")
                && head.contains("access-control-expose-headers: accept-ranges"),
            "{head}"
        );
    }
    let many = "x-a: b\r\n".repeat(70);
    for (headers, status) in [(format!("{own}{many}"), 431), (own.to_owned(), 421)] {
        let host = match status {
            421 => "evil.example".to_owned(),
            _ => format!("127.0.0.1:{}", server.port),
        };
        let refusal = server.raw(&format!(
            "GET /v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"
        ));
        refusal.problem(status);
        let allowed = "access-control-allow-origin: http://localhost:5173\n";
        assert!(refusal.head.contains(allowed), "{}", refusal.head);
    }
    for other in [
        "http://localhost:5174",
        "https://localhost:5173",
        "http://LOCALHOST:5173",
    ] {
        let headers = format!("{token}origin: {other}\r\n");
        server
            .send_with("GET", "/v1/sessions", &headers, None)
            .problem(403);
        let preflight = server.send_with("OPTIONS", "/v1/sessions", &headers, None);
        preflight.problem(403);
    }
}

#[test]
fn a_ticket_is_used_once_and_rotation_voids_everything() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let url = helper.call(["web", "--print"]).run().ok();
    let (page, ticket) = url.trim().split_once("#t=").expect("a ticket");
    assert_eq!(page, format!("http://127.0.0.1:{}/", server.port));
    let redeem = |ticket: &str| {
        server.send_with(
            "POST",
            "/v1/tickets",
            "",
            Some(&json!({ "ticket": ticket })),
        )
    };
    redeem("").problem(401);
    redeem(&ticket[1..]).problem(401);
    let bearer = redeem(ticket).json(200)["bearer"]
        .as_str()
        .unwrap()
        .to_owned();
    redeem(ticket).problem(401);
    let with = |bearer: &str| {
        let headers = format!("authorization: Bearer {bearer}\r\n");
        server
            .send_with("GET", "/v1/sessions", &headers, None)
            .status
    };
    assert_eq!(with(&bearer), 200);
    let session = server.session();
    let url = helper.call(["web", "--print", &session[24..]]).run().ok();
    assert!(url.contains(&format!("/s/{session}#t=")), "{url}");
    helper.call(["web", "--print", "none-such"]).run().fails(2);
    // Only the browser's own bearer survives a restart of the daemon; tickets do not.
    let unused = helper.call(["web", "--print"]).run().ok();
    helper.call(["restart", "--now"]).run().ok();
    helper.until("the server listens again", || with(&bearer) == 200);
    redeem(unused.trim().split_once("#t=").unwrap().1).problem(401);
    let mut stream = server.events("/v1/events");
    stream.until("x.caught_up");
    // A rotation that fails changes nothing.
    let file = helper.path("state/server-token");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir_all(file.join("in the way")).unwrap();
    let failed = helper.call(["serve", "token", "rotate"]).run();
    assert_ne!(failed.code, 0, "{}", failed.stderr);
    assert_eq!(with(&server.token), 200);
    std::fs::remove_dir_all(&file).unwrap();
    helper.call(["serve", "token", "rotate"]).run().ok();
    assert_eq!(stream.next(), None);
    assert_eq!(with(&bearer), 401);
    assert_eq!(with(&server.token), 401);
    let token = helper.call(["serve", "token", "show"]).run().ok();
    assert_eq!(with(token.trim()), 200);
}

#[test]
fn a_password_is_accepted_only_where_one_is_set() {
    let helper = Helper::saying("yes");
    helper.config("[server]\npassword = \"correct horse battery\"\n");
    let server = Server::start(&helper);
    let basic = |pair: &str| {
        use base64::Engine;
        let pair = base64::prelude::BASE64_STANDARD.encode(pair);
        format!("authorization: Basic {pair}\r\n")
    };
    let with = |pair: &str| {
        server
            .send_with("GET", "/v1/sessions", &basic(pair), None)
            .status
    };
    assert_eq!(with("me:correct horse battery"), 200);
    assert_eq!(with(":correct horse battery"), 200);
    let refusal = server.send_with(
        "GET",
        "/v1/sessions",
        &basic("me:correct horse batter"),
        None,
    );
    assert_eq!(refusal.problem(401)["message"], "the password is wrong");
    let schemes = |headers: &str| {
        let head = server.send_with("GET", "/v1/sessions", headers, None).head;
        (
            head.contains("www-authenticate: bearer"),
            head.contains("www-authenticate: basic"),
        )
    };
    assert_eq!(schemes(""), (true, true));
    // The browser would ask for a password in the place of the page.
    assert_eq!(schemes("sec-fetch-mode: cors\r\n"), (true, false));
    for wrong in ["me:", "correct horse battery", ""] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    // Guessing ends soon, for the right one too; the token is not concerned.
    for wrong in 0..8 {
        assert_eq!(with(&format!("me:{wrong}")), 401);
    }
    assert_eq!(with("me:one more"), 429);
    assert_eq!(with("me:correct horse battery"), 429);
    server.get("/v1/sessions");
    let shown = helper.call(["config", "show"]).run().ok();
    assert!(
        shown.contains("server.password") && !shown.contains("correct horse"),
        "{shown}"
    );
}

#[test]
fn a_refused_password_and_one_that_waits_are_named() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let message = |pair: &str| {
        use base64::Engine;
        let pair = base64::prelude::BASE64_STANDARD.encode(pair);
        let headers = format!("authorization: Basic {pair}\r\n");
        let answer = server.send_with("GET", "/v1/sessions", &headers, None);
        answer.problem(401)["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message("me:some password"), "this server has no password");
    let check = || helper.call(["config", "check"]).run().ok();
    assert!(!check().contains("not in force"));
    // Any program can write it, so it waits until a person has seen it.
    let path = helper.path("config/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    helper.change_config(&format!(
        "{text}[server]\npassword = \"correct horse battery\"\n"
    ));
    assert_eq!(
        message("me:correct horse battery"),
        "this server has no password"
    );
    let line = "not in force: + server.password; to see and confirm them, run llm in a terminal";
    let checked = check();
    assert!(
        checked.contains("no problem found") && checked.contains(line),
        "{checked}"
    );
    let json = helper.call(["config", "check", "--json"]).run().json();
    assert_eq!(json["not_in_force"][0], "+ server.password");
    let port = server.port.to_string();
    let said = helper.call(["serve", "--port", &port]).run().ok();
    assert!(
        said.contains(&format!("{line}, then start the server again\n")),
        "{said}"
    );
    assert!(!(said + &checked).contains("correct horse"));
}

#[test]
fn nothing_listens_until_it_is_told_to_and_only_on_this_machine() {
    let helper = Helper::saying("yes");
    helper.ask("start the daemon");
    assert!(!helper.path("run/api.sock").exists());
    let status = helper.call(["serve", "status", "--json"]).run().json();
    assert_eq!(status["running"], false);
    for address in ["0.0.0.0", "::", "192.0.2.1", "example.com"] {
        helper.call(["serve", "--hostname", address]).run().fails(3);
    }
    let port = free_port();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let error = helper
        .call(["serve", "--port", &port.to_string()])
        .run()
        .fails(1);
    assert!(error.contains("another program uses the port"), "{error}");
    drop(taken);
    let server = Server::start(&helper);
    let status = helper.call(["serve", "status", "--json"]).run().json();
    assert_eq!(status["server"]["port"], server.port);
    let error = helper.call(["serve", "--port", "0"]).run().fails(2);
    assert!(
        error.contains(&format!("already running on 127.0.0.1:{}", server.port)),
        "{error}"
    );
    let stopped = helper.call(["serve", "stop"]).run().ok();
    assert!(stopped.contains("has stopped"), "{stopped}");
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err());
    assert!(!helper.path("run/api.sock").exists());
    helper.call(["restart", "--now"]).run().ok();
    let status = helper.call(["serve", "status", "--json"]).run().json();
    assert_eq!(status["running"], false);
}

#[test]
fn a_token_is_replaced_although_the_server_is_started_meanwhile() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    // Its end is waited for, for a while.
    let mut unfinished = server.connect();
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{",
        server.port, server.token
    );
    unfinished.write_all(head.as_bytes()).unwrap();
    helper.until("the request is served", || {
        server.get("/v1/sessions").is_object()
    });
    let rotation = helper.call(["serve", "token", "rotate"]).start();
    let port = server.port.to_string();
    let closed = || TcpStream::connect(("127.0.0.1", server.port)).is_err();
    helper.until("the server stops listening", closed);
    helper.call(["serve", "--port", &port]).run().ok();
    rotation.finish().ok();
    let token = helper.call(["serve", "token", "show"]).run().ok();
    assert_ne!(token.trim(), server.token);
    server.send("GET", "/v1/sessions", None).problem(401);
    let headers = format!("authorization: Bearer {}\r\n", token.trim());
    server
        .send_with("GET", "/v1/sessions", &headers, None)
        .json(200);
}

#[test]
fn what_needs_no_token_takes_little_and_tells_little() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    for path in ["/v1/tickets", "/v1/pairing"] {
        let body = json!({ "ticket": "x".repeat(2000) });
        server.send_with("POST", path, "", Some(&body)).problem(413);
    }
    helper.change_config("this is no TOML");
    let path = "/share/0123456789abcdef0123456789abcdef";
    let answer = server.send_with("GET", path, "", None);
    let problem = answer.problem(404).to_string();
    assert!(
        !problem.contains("TOML") && !problem.contains("config"),
        "{problem}"
    );
}
