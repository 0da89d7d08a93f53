//! Recordings of a session's terminals, and its records as lines of JSON.

use serde_json::Value;

use super::Server;
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const SECRET: &str = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";

/// A session that was used in a recorded shell, which showed a secret.
fn recorded() -> (Helper, Server, String) {
    let helper = Helper::saying("the answer");
    let mut zsh = Zsh::record(&helper.home);
    zsh.run(&format!("print -r token={SECRET}"));
    zsh.run("llm one");
    zsh.run("(exit 3)");
    // Longer than what is shown of a line, with a secret where it is cut.
    zsh.run(&format!("(true {} {SECRET})", "x".repeat(4080)));
    zsh.exit();
    // In terminals that have nothing to do with the session.
    let mut other = Zsh::record(&helper.home);
    other.run("print elsewhere");
    other.exit();
    let server = Server::start(&helper);
    let session = server.last_session();
    (helper, server, session)
}

fn ranged(server: &Server, path: &str, range: &str) -> super::Response {
    let token = &server.token;
    let headers = format!("authorization: Bearer {token}\r\n{range}\r\n");
    server.send_with("GET", path, &headers, None)
}

fn field(head: &str, name: &str) -> String {
    let value = head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
    value
        .unwrap_or_else(|| panic!("{name} in {head}"))
        .to_owned()
}

#[test]
fn a_recording_of_a_session_is_sent_without_secrets_and_in_parts() {
    let (_helper, server, session) = recorded();
    let path = format!("/v1/sessions/{session}");
    let list = server.get(&format!("{path}/recordings"));
    let recordings = list["recordings"].as_array().unwrap();
    assert_eq!(recordings.len(), 1, "{list}");
    let texts: Vec<&str> = recordings[0]["commands"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|command| command["text"].as_str())
        .collect();
    assert!(texts.contains(&"llm one"), "{texts:?}");
    assert!(!list.to_string().contains(&SECRET[..8]), "{list}");
    let failed = &recordings[0]["commands"][texts.iter().position(|t| *t == "(exit 3)").unwrap()];
    assert_eq!(failed["exit"], 3);
    let raw = format!("{path}/logs/raw");
    let whole = server.send("GET", &raw, None);
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert!(whole.head.contains("content-type: application/x-asciicast"));
    assert_eq!(field(&whole.head, "accept-ranges"), "bytes");
    let text = whole.text();
    assert!(
        text.contains("the answer") && text.contains("[REDACTED"),
        "{text}"
    );
    assert!(
        !text.contains(SECRET) && !text.contains("elsewhere"),
        "{text}"
    );
    for line in text.lines() {
        let _: Value = serde_json::from_str(line).expect(line);
    }
    // In parts.
    let length = whole.body.len();
    let etag = field(&whole.head, "etag");
    let mut joined = Vec::new();
    while joined.len() < length {
        let from = joined.len();
        let part = ranged(
            &server,
            &raw,
            &format!("range: bytes={from}-{}\r\nif-range: {etag}", from + 699),
        );
        assert_eq!(part.status, 206, "{}", part.head);
        let last = (from + 699).min(length - 1);
        assert_eq!(
            field(&part.head, "content-range"),
            format!("bytes {from}-{last}/{length}")
        );
        joined.extend(part.body);
    }
    assert!(joined == whole.body);
    let end = ranged(&server, &raw, "range: bytes=-5");
    assert_eq!(
        (end.status, &end.body[..]),
        (206, &whole.body[length - 5..])
    );
    let other = ranged(&server, &raw, "range: bytes=0-5\r\nif-range: \"other\"");
    assert_eq!((other.status, other.body.len()), (200, length));
    ranged(&server, &raw, "range: bytes=0-5\r\nrange: bytes=7-9").problem(400);
    let beyond = ranged(&server, &raw, &format!("range: bytes={length}-"));
    beyond.problem(416);
    assert_eq!(
        field(&beyond.head, "content-range"),
        format!("bytes */{length}")
    );
    let head = server.send_with(
        "HEAD",
        &raw,
        &format!(
            "authorization: Bearer {}\r\nrange: bytes=0-5\r\n",
            server.token
        ),
        None,
    );
    assert_eq!(
        (head.status, field(&head.head, "content-length")),
        (200, length.to_string())
    );
    for (condition, status) in [
        (format!("if-none-match: {etag}"), 304),
        (format!("if-none-match: \"x\", W/{etag}"), 304),
        ("if-none-match: *".to_owned(), 304),
        ("if-none-match: \"x\"".to_owned(), 206),
        (format!("if-match: {etag}"), 206),
        ("if-match: *".to_owned(), 206),
        (format!("if-match: W/{etag}"), 412),
        (format!("if-match: \"x\"\r\nif-none-match: {etag}"), 412),
    ] {
        let response = ranged(&server, &raw, &format!("range: BYTES=0-5\r\n{condition}"));
        assert_eq!(response.status, status, "{condition}");
        assert_eq!(field(&response.head, "etag"), etag, "{condition}");
    }
    let id = recordings[0]["id"].as_str().unwrap();
    let chosen = server.send("GET", &format!("{raw}?recording={id}"), None);
    assert_eq!(chosen.status, 200);
    for hostile in ["..%2f..", "none", "%00", &id[..8]] {
        let path = format!("{raw}?recording={hostile}");
        server.send("GET", &path, None).problem(404);
    }
}

#[test]
fn a_session_without_recordings_says_so() {
    let helper = Helper::saying("yes");
    helper.ask("x");
    let server = Server::start(&helper);
    let path = format!("/v1/sessions/{}", server.last_session());
    assert_eq!(
        server.get(&format!("{path}/recordings"))["recordings"],
        serde_json::json!([])
    );
    let problem = server.send("GET", &format!("{path}/logs/raw"), None);
    let problem = problem.problem(404);
    assert!(problem["hint"].as_str().unwrap().contains("/recordings"));
}

#[test]
fn all_records_come_as_lines_of_json() {
    let helper = Helper::saying("the answer");
    for word in ["one", "two", SECRET] {
        helper.ask(word);
    }
    let server = Server::start(&helper);
    let session = server.last_session();
    let response = server.send("GET", &format!("/v1/sessions/{session}/logs/events"), None);
    assert_eq!(response.status, 200);
    assert!(response.head.contains("content-type: application/jsonl"));
    let text = response.text();
    assert!(!text.contains(SECRET), "{text}");
    let sent: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let file = helper.path(&format!("data/journal/{session}.jsonl"));
    let recorded = crate::support::helper::records(&file);
    let ids =
        |records: &[Value]| -> Vec<Value> { records.iter().map(|r| r["id"].clone()).collect() };
    assert_eq!(ids(&sent), ids(&recorded));
}
