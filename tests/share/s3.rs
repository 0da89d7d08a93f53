use std::fs;

use serde_json::json;

use super::{assert_no_secret, listed, session, with_keys};
use crate::api::Server;
use crate::fakes::s3::{ACCESS_KEY, BUCKET, Fault, S3Server, SECRET_KEY};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

/// A helper with one session, and the server of its bucket.
fn world(more: &str) -> (Helper, S3Server, String) {
    let helper = Helper::saying("**grey** <script>alert(1)</script>");
    let server = S3Server::start();
    helper.config(&server.settings(more));
    with_keys(&helper, ["ask", "--shell", "s1", "--", "cats"])
        .run()
        .ok();
    let session = session(&helper);
    (helper, server, session)
}

#[test]
fn a_page_is_put_into_the_bucket_and_removed_after_the_configuration_has_changed() {
    let (helper, server, session) = world("");
    let shared = with_keys(&helper, ["session", "share", &session, "--yes"]);
    let shared = shared.run().ok();
    let (_, url) = shared.trim().rsplit_once(": ").unwrap();
    assert!(
        shared.starts_with(&format!("shared in the bucket {BUCKET} at 127.0.0.1: ")),
        "{shared}"
    );
    let objects = server.objects();
    let (key, object) = objects.first_key_value().unwrap();
    assert_eq!(url, format!("{}/{BUCKET}/{key}", server.url()));
    let name = key.strip_prefix("shares/").unwrap();
    let id = name.strip_suffix(".html").unwrap();
    assert!(
        id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(object.content_type, "text/html; charset=utf-8");
    assert!(object.body.contains("<strong>grey</strong>"));
    assert!(!object.body.contains("<script"));
    for request in server.take_requests() {
        assert!(!request.headers.contains_key("x-amz-acl"), "{request:?}");
        assert!(!request.target.contains("acl"), "{request:?}");
    }
    let shares = helper.call(["session", "shares"]).run().ok();
    assert!(shares.contains(url), "{shares}");
    // A new share has a new address, and the old one is gone.
    with_keys(&helper, ["session", "share", &session, "--yes"])
        .run()
        .ok();
    let objects = server.objects();
    assert!(objects.len() == 1 && !objects.contains_key(key));
    // The bucket and its variables are no longer in the configuration.
    helper.config("");
    let removed = with_keys(&helper, ["session", "unshare", &session]);
    assert_eq!(removed.run().ok(), "the page is removed\n");
    assert!(server.objects().is_empty());
    assert!(listed(&helper).is_empty());
    let methods: Vec<String> = server
        .take_requests()
        .into_iter()
        .map(|request| request.method)
        .collect();
    assert_eq!(methods, ["PUT", "DELETE", "HEAD", "DELETE", "HEAD"]);
    assert_no_secret(&helper);
}

#[test]
fn the_preview_says_where_the_page_goes() {
    let (helper, server, _) = world("");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run(&format!(
        "export TEST_ACCESS={ACCESS_KEY} TEST_SECRET={SECRET_KEY}"
    ));
    zsh.run("llm cats");
    zsh.send("clear; llm :share\r");
    zsh.wait_text("Share it? [y/N]");
    assert!(server.objects().is_empty());
    let screen = zsh.screen();
    assert!(
        screen.contains(&format!("in the bucket {BUCKET} at 127.0.0.1")),
        "{screen}"
    );
    zsh.send("y\r");
    zsh.wait_text("shared in the bucket");
    zsh.prompt();
    assert_eq!(server.objects().len(), 1);
    zsh.run("llm :unshare");
    assert!(zsh.screen().contains("the page is removed"));
    assert!(server.objects().is_empty());
}

#[test]
fn a_wrong_secret_is_reported_and_the_share_stays_listed() {
    let (helper, server, session) = world("");
    let share = ["session", "share", &session, "--yes"];
    let wrong = "wrongwrongwrongwrongwrongwrongwrong12345";
    let call = with_keys(&helper, share).env("TEST_SECRET", wrong);
    let error = call.run().fails(1);
    for part in [
        "HTTP 403",
        "SignatureDoesNotMatch",
        "TEST_SECRET",
        "stays listed",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(
        !error.contains(wrong) && !error.contains("X-Amz-"),
        "{error}"
    );
    assert!(server.objects().is_empty());
    let shares = helper.call(["session", "shares"]).run().ok();
    assert!(shares.contains("interrupted, in the bucket"), "{shares}");
    let unshare = ["session", "unshare", &session];
    let call = with_keys(&helper, unshare).env("TEST_SECRET", wrong);
    let error = call.run().fails(1);
    assert!(error.contains("HTTP 403"), "{error}");
    assert_eq!(listed(&helper).len(), 1);
    with_keys(&helper, unshare).run().ok();
    assert!(listed(&helper).is_empty());
    let log = fs::read_to_string(helper.path("state/daemon.log")).unwrap_or_default();
    assert!(!log.contains(wrong), "{log}");
}

#[test]
fn credentials_that_are_missing_send_nothing_and_forget_nothing() {
    let (helper, server, session) = world("");
    server.take_requests();
    let call = helper.call(["session", "share", &session, "--yes"]);
    let error = call.env("TEST_ACCESS", ACCESS_KEY).run().fails(3);
    assert!(error.contains("the variable TEST_SECRET"), "{error}");
    assert!(listed(&helper).is_empty() && server.take_requests().is_empty());
    with_keys(&helper, ["session", "share", &session, "--yes"])
        .run()
        .ok();
    let error = helper.call(["session", "unshare", &session]).run().fails(3);
    assert!(
        error.contains("the variable TEST_") && error.contains("stays listed"),
        "{error}"
    );
    assert_eq!(listed(&helper)[0]["phase"], "published");
    assert_eq!(server.objects().len(), 1);
}

#[test]
fn failures_of_the_server_are_reported_as_text_and_leave_the_share_listed() {
    let (helper, server, session) = world("");
    let elsewhere = S3Server::start();
    let redirect = format!("location: {}/{BUCKET}/x\r\n", elsewhere.url());
    let body = b"<Code>Bad\x1b[31m</Code><Message>no\nway</Message>".to_vec();
    let faults = [
        (
            Fault::Answer("500 Internal Server Error", String::new(), body),
            "HTTP 500: Bad",
        ),
        (
            Fault::Answer(
                "403 Forbidden",
                String::new(),
                b"<!DOCTYPE html>no".to_vec(),
            ),
            "HTTP 403: <!DOCTYPE html>no",
        ),
        (
            Fault::Answer("307 Temporary Redirect", redirect, Vec::new()),
            "redirects are not followed",
        ),
        (Fault::Endless("503 Busy"), "HTTP 503: xxx"),
    ];
    for (fault, expected) in faults {
        for method in ["PUT", "DELETE", "HEAD"] {
            // The text of an error is the body, which a HEAD has not.
            let expected = match method {
                "HEAD" => "HTTP ",
                _ => expected,
            };
            server.fault(method, fault.clone());
            let share = ["session", "share", &session, "--yes"];
            let error = match method {
                "PUT" => with_keys(&helper, share).run().fails(1),
                _ => {
                    with_keys(&helper, share).run().ok();
                    with_keys(&helper, ["session", "unshare", &session])
                        .run()
                        .fails(1)
                }
            };
            assert!(error.contains(expected), "{method} {expected}: {error}");
            assert!(error.contains("stays listed"), "{error}");
            assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
            assert!(!error.contains("X-Amz-"), "{error}");
            assert_eq!(listed(&helper).len(), 1, "{method} {expected}");
            server.fault(method, Fault::None);
            with_keys(&helper, ["session", "unshare", &session])
                .run()
                .ok();
            assert!(listed(&helper).is_empty() && server.objects().is_empty());
        }
    }
    assert!(elsewhere.take_requests().is_empty());
}

#[test]
fn a_page_that_stays_although_the_server_has_acknowledged_its_removal_is_reported() {
    let (helper, server, session) = world("");
    with_keys(&helper, ["session", "share", &session, "--yes"])
        .run()
        .ok();
    server.fault("DELETE", Fault::Lie);
    let unshare = ["session", "unshare", &session];
    let error = with_keys(&helper, unshare).run().fails(1);
    assert!(
        error.contains("the page is still there: http://") && error.contains("stays listed"),
        "{error}"
    );
    assert_eq!(listed(&helper)[0]["phase"], "removing");
    // A session whose page stays is not deleted.
    with_keys(&helper, ["session", "delete", &session, "--yes"])
        .run()
        .fails(1);
    assert_eq!(helper.sessions().len(), 1);
    server.fault("DELETE", Fault::None);
    with_keys(&helper, ["session", "delete", &session, "--yes"])
        .run()
        .ok();
    assert!(helper.sessions().is_empty() && server.objects().is_empty());
    assert!(listed(&helper).is_empty());
}

#[test]
fn temporary_credentials_and_a_public_address_are_used() {
    let (helper, server, session) =
        world("session_token_env = \"TEST_TOKEN\"\npublic_url = \"https://pages.example.com/a\"\n");
    server.require_token("tok/en+1=");
    let share = ["session", "share", &session, "--yes"];
    let error = with_keys(&helper, share)
        .env("TEST_TOKEN", "other")
        .run()
        .fails(1);
    assert!(error.contains("InvalidToken"), "{error}");
    let shared = with_keys(&helper, share)
        .env("TEST_TOKEN", "tok/en+1=")
        .run()
        .ok();
    let objects = server.objects();
    let (key, _) = objects.first_key_value().unwrap();
    assert!(
        shared.ends_with(&format!(": https://pages.example.com/a/{key}\n")),
        "{shared}"
    );
}

#[test]
fn the_page_shares_with_the_credentials_of_the_last_prompt() {
    let (helper, server, _) = world("");
    let http = Server::start(&helper);
    let session = http.last_session();
    let path = format!("/v1/sessions/{session}/share");
    let preview = http.post(&path, &json!({}), 200);
    assert_eq!(
        preview["place"],
        format!("in the bucket {BUCKET} at 127.0.0.1")
    );
    let shared = http.post(&path, &json!({ "digest": preview["digest"] }), 201);
    let share = &shared["share"];
    let objects = server.objects();
    let (key, _) = objects.first_key_value().unwrap();
    assert_eq!(share["url"], format!("{}/{BUCKET}/{key}", server.url()));
    assert!(share.get("path").is_none(), "{share}");
    let id = share["id"].as_str().unwrap();
    let local = format!("/share/{id}");
    assert_eq!(http.send_with("GET", &local, "", None).status, 404);
    // Without the credentials of a shell nothing is forgotten.
    helper.ask("more");
    let unshare = format!("/v1/sessions/{session}/unshare");
    let problem = http.send("POST", &unshare, None).problem(409);
    let hint = problem["hint"].as_str().unwrap();
    assert!(
        hint.contains("send a prompt from a shell") && hint.contains("stays listed"),
        "{hint}"
    );
    with_keys(&helper, ["ask", "--shell", "s1", "--", "dogs"])
        .run()
        .ok();
    // The session is unshared before it is deleted.
    let deleted = http.send("DELETE", &format!("/v1/sessions/{session}"), None);
    assert_eq!(deleted.status, 204);
    assert!(server.objects().is_empty());
}

#[test]
fn the_endpoint_must_be_encrypted_and_complete() {
    let helper = Helper::saying("grey");
    for (settings, expected) in [
        ("target = \"s3\"\n", "needs endpoint and bucket"),
        ("endpoint = \"http://s3.example.com\"\n", "https://"),
        ("endpoint = \"https://a:b@s3.example.com\"\n", "user name"),
        ("bucket = \"a/b\"\n", "bucket"),
        ("prefix = \"../x\"\n", "names with /"),
        ("prefix = \"a//b\"\n", "names with /"),
        ("prefix = 'a\\b'\n", "names with /"),
        ("prefix = \"a\\u0007\"\n", "names with /"),
        ("secret_key_env = \"a b\"\n", "environment variable"),
    ] {
        helper.config(&format!("[share]\n{settings}"));
        let error = helper.call(["config", "check"]).run();
        let text = format!("{}{}", error.stdout, error.stderr);
        assert!(
            error.code != 0 && text.contains(expected),
            "{settings}: {text}"
        );
    }
}
