use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::Server;
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const SECRET: &str = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";

#[test]
fn a_session_is_shared_after_a_preview_and_removed_again() {
    let helper = Helper::saying("**grey** <script>alert(1)</script> [x](javascript:alert(1))");
    let server = Server::start(&helper);
    let home = helper.home.path("").display().to_string();
    let home = home.trim_end_matches('/');
    helper.ask(&format!("what is in {home}/x with {SECRET}"));
    let session = server.last_session();
    let path = format!("/v1/sessions/{session}");
    let preview = server.post(&format!("{path}/share"), &json!({}), 200);
    assert_eq!(preview["messages"], 2);
    let removed = preview["removed"].to_string();
    assert!(
        removed.contains("secret") && removed.contains("of yours"),
        "{removed}"
    );
    assert!(preview.get("share").is_none());
    assert_eq!(server.get("/v1/shares")["shares"], json!([]));
    let digest = &preview["digest"];
    let share = server.post(&format!("{path}/share"), &json!({ "digest": digest }), 201);
    let page_path = share["share"]["path"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&path)["share_state"], "shared");
    // The address is the proof.
    let page = server.send_with("GET", &page_path, "", None);
    assert_eq!(page.status, 200);
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'"),
        "{}",
        page.head
    );
    assert!(page.head.contains("sandbox"), "{}", page.head);
    let text = page.text();
    assert!(text.contains("<strong>grey</strong>"), "{text}");
    assert!(text.contains("what is in ~/x"), "{text}");
    for absent in [SECRET, home, "<script", "href=\"javascript", &session] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    let file = fs::read_dir(helper.path("data/shares"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // What was previewed is what is published.
    helper.ask("more");
    server
        .send(
            "POST",
            &format!("{path}/share"),
            Some(&json!({ "digest": digest })),
        )
        .problem(409);
    for wrong in [
        "/share/",
        "/share/none",
        "/share/..%2f..%2fconfig",
        &page_path[..page_path.len() - 1],
    ] {
        assert_eq!(
            server.send_with("GET", wrong, "", None).status,
            404,
            "{wrong}"
        );
    }
    let removed = server
        .send("POST", &format!("{path}/unshare"), None)
        .json(200);
    assert_eq!(removed["removed"], 1);
    server.send_with("GET", &page_path, "", None).problem(404);
    assert!(
        fs::read_dir(helper.path("data/shares"))
            .unwrap()
            .next()
            .is_none()
    );
    assert_eq!(server.get(&path)["share_state"], "private");
}

#[test]
fn a_session_that_another_client_reads_is_deleted_with_its_page() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    for _ in 0..20 {
        helper.ask("cats");
        let session = server.last_session();
        let path = format!("/v1/sessions/{session}");
        let share = format!("{path}/share");
        let preview = server.post(&share, &json!({}), 200);
        server.post(&share, &json!({ "digest": preview["digest"] }), 201);
        let read = |of: &&str| {
            let mut stream = server.connect();
            let request = format!(
                "GET {path}{of} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
                server.port, server.token
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        let readers: Vec<_> = ["", "/recordings", "", "/recordings"]
            .iter()
            .map(read)
            .collect();
        let deleted = server.send("DELETE", &path, None);
        assert_eq!(deleted.status, 204, "{}", deleted.text());
        for mut reader in readers {
            let mut reply = String::new();
            reader.read_to_string(&mut reply).unwrap();
            let status = reply.split(' ').nth(1);
            assert!(matches!(status, Some("200" | "404")), "{reply}");
        }
    }
    assert_eq!(server.get("/v1/shares")["shares"], json!([]));
}

#[test]
fn a_deleted_session_takes_its_page_with_it_and_a_new_share_replaces_the_old_one() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    helper.ask("cats");
    let session = server.last_session();
    let share = || {
        let shared = helper
            .call(["session", "share", &session, "--yes"])
            .run()
            .ok();
        let (_, path) = shared.trim().rsplit_once("/share/").unwrap();
        format!("/share/{path}")
    };
    let first = share();
    let second = share();
    assert_ne!(first, second);
    assert_eq!(server.send_with("GET", &first, "", None).status, 404);
    assert_eq!(server.send_with("GET", &second, "", None).status, 200);
    let listed = helper.call(["session", "shares"]).run().ok();
    assert!(listed.contains(&second), "{listed}");
    assert_eq!(
        server
            .send("DELETE", &format!("/v1/sessions/{session}"), None)
            .status,
        204
    );
    assert_eq!(server.send_with("GET", &second, "", None).status, 404);
    assert_eq!(
        helper.call(["session", "shares"]).run().ok(),
        "nothing is shared\n"
    );
}

#[test]
fn a_change_whose_page_cannot_be_removed_changes_nothing() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    helper.ask("what are cats?");
    let session = server.last_session();
    let path = format!("/v1/sessions/{session}");
    let preview = server.post(&format!("{path}/share"), &json!({}), 200);
    let digest = &preview["digest"];
    server.post(&format!("{path}/share"), &json!({ "digest": digest }), 201);
    let shares = helper.path("data/shares");
    let page = fs::read_dir(&shares)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_file(&page).unwrap();
    fs::create_dir(&page).unwrap();
    let before = server.get(&path);
    let change = json!({ "title": "new", "cwd": "/", "share_state": "private" });
    server.send("PATCH", &path, Some(&change)).problem(500);
    let after = server.get(&path);
    for field in ["title", "cwd", "records", "share_state"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    fs::remove_dir(&page).unwrap();
    let changed = server.send("PATCH", &path, Some(&change)).json(200);
    assert_eq!(changed["title"], "new");
    assert_eq!(changed["share_state"], "private");
}

#[test]
fn a_share_that_was_interrupted_is_listed_and_can_be_removed() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    helper.ask("cats");
    let session = server.last_session();
    helper
        .call(["session", "share", &session, "--yes"])
        .run()
        .ok();
    // As after a kill between the register and the page, or between the page and the register.
    for phase in ["publishing", "removing"] {
        let register = helper.path("data/shares.json");
        let text = fs::read_to_string(&register).unwrap();
        let mut shares: serde_json::Value = serde_json::from_str(&text).unwrap();
        let share = &mut shares["shares"][0];
        let id = share["id"].as_str().unwrap().to_owned();
        share["phase"] = json!(phase);
        fs::write(&register, shares.to_string()).unwrap();
        assert_eq!(
            server
                .send_with("GET", &format!("/share/{id}"), "", None)
                .status,
            404
        );
        let listed = helper.call(["session", "shares"]).run().ok();
        assert!(listed.contains("interrupted"), "{listed}");
        helper.call(["session", "unshare", &session]).run().ok();
        assert!(!helper.path(&format!("data/shares/{id}.html")).exists());
        assert_eq!(server.get("/v1/shares")["shares"], json!([]));
        helper
            .call(["session", "share", &session, "--yes"])
            .run()
            .ok();
    }
}

#[test]
fn sharing_in_a_shell_asks_first_and_can_be_disabled() {
    let helper = Helper::saying("grey");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm cats");
    zsh.send("clear; llm :share\r");
    zsh.wait_text("Share it? [y/N]");
    let screen = zsh.screen();
    assert!(screen.contains("“cats”: 2 messages"), "{screen}");
    zsh.send("n\r");
    zsh.wait_text("nothing was shared");
    zsh.prompt();
    zsh.send("clear; llm :share\r");
    zsh.wait_text("Share it? [y/N]");
    zsh.send("y\r");
    zsh.wait_text("start the server");
    zsh.prompt();
    zsh.run("llm :unshare");
    assert!(zsh.screen().contains("the page is removed"));
    helper.config("[share]\nmode = \"disabled\"\n");
    let error = helper
        .call(["session", "share", "--yes", &session(&helper)])
        .run()
        .fails(4);
    assert!(error.contains("sharing is disabled"), "{error}");
}

#[test]
fn shares_at_the_same_time_are_all_listed() {
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    let sessions: Vec<String> = (0..6).map(|_| server.session()).collect();
    std::thread::scope(|scope| {
        for session in sessions.iter().chain(&sessions) {
            let server = &server;
            scope.spawn(move || {
                let path = format!("/v1/sessions/{session}/share");
                let preview = server.post(&path, &json!({}), 200);
                server.post(&path, &json!({ "digest": preview["digest"] }), 201);
            });
        }
    });
    let shares = server.get("/v1/shares");
    let shares = shares["shares"].as_array().unwrap();
    assert_eq!(shares.len(), sessions.len());
    let files = fs::read_dir(helper.path("data/shares")).unwrap().count();
    assert_eq!(files, sessions.len());
    for share in shares {
        let path = share["path"].as_str().unwrap();
        assert_eq!(server.send_with("GET", path, "", None).status, 200);
    }
    helper.call(["session", "unshare", ""]).run().fails(2);
    helper.call(["session", "unshare", "0"]).run().fails(2);
    assert_eq!(
        fs::read_dir(helper.path("data/shares")).unwrap().count(),
        sessions.len()
    );
}

/// The private memory of a process, in bytes.
fn private_memory(pid: nix::unistd::Pid) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the daemon runs");
    // What it has written. Pages of the program count as private too once no other process maps them.
    let written = rollup
        .lines()
        .filter(|line| line.starts_with("Private_Dirty:"));
    written
        .map(|line| line.split_whitespace().nth(1).expect("a value"))
        .map(|value| value.parse::<usize>().expect("a number") << 10)
        .sum()
}

#[test]
fn readers_that_take_nothing_of_a_large_page_cost_little() {
    const READERS: usize = 20;
    const SIZE: usize = 60 << 20;
    let helper = Helper::saying("grey");
    let server = Server::start(&helper);
    helper.ask("cats");
    let session = session(&helper);
    helper
        .call(["session", "share", &session, "--yes"])
        .run()
        .ok();
    let shares = server.get("/v1/shares");
    let path = shares["shares"][0]["path"].as_str().unwrap().to_owned();
    let id = shares["shares"][0]["id"].as_str().unwrap();
    let large: Vec<u8> = (0..SIZE).map(|at| b'a' + (at % 23) as u8).collect();
    fs::write(helper.path(&format!("data/shares/{id}.html")), &large).unwrap();
    let before = private_memory(helper.daemon());
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = server.connect();
        let port = server.port;
        let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
        reader.write_all(request.as_bytes()).unwrap();
        // The response has begun.
        reader.read_exact(&mut [0]).unwrap();
        readers.push(reader);
    }
    // Meanwhile others are served, also with the page.
    let whole = server.send_with("GET", &path, "", None);
    assert!(
        whole.head.contains(&format!("content-length: {SIZE}")),
        "{}",
        whole.head
    );
    assert!(whole.body == large);
    let used = private_memory(helper.daemon()).saturating_sub(before);
    assert!(used < READERS << 20, "{used} bytes for {READERS} readers");
}

fn session(helper: &Helper) -> String {
    let sessions = helper.sessions();
    let name = sessions[0].file_stem().unwrap();
    name.to_string_lossy().into_owned()
}
