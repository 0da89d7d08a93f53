use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Server;
use crate::support::helper::Helper;

fn document() -> Value {
    aish::api::routes::document()
}

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    let text = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
    if std::env::var_os("AISH_UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/openapi.json differs from the routes; write it anew: AISH_UPDATE_DOCS=1 cargo test --test it api::document"
    );
}

/// Returns method and path of every operation, with its declared statuses and whether it needs a token.
pub fn operations() -> Vec<(String, String, Vec<u16>, bool)> {
    let document = document();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses = operation["responses"].as_object().unwrap().keys();
            let statuses = statuses.map(|status| status.parse().unwrap()).collect();
            let is_public = operation["security"]
                .as_array()
                .is_some_and(|security| security.iter().any(|s| s.as_object().unwrap().is_empty()));
            operations.push((method.to_uppercase(), path.clone(), statuses, !is_public));
        }
    }
    operations
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let document = document();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|methods| methods.as_object().unwrap().values());
    let mut ids = std::collections::BTreeSet::new();
    for operation in operations {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} is the id of two operations");
    }
}

#[test]
fn every_operation_answers_with_a_documented_status() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let session = server.session();
    for (method, path, statuses, _) in operations() {
        let path = path
            .replace("{session_id}", &session)
            .replace("{record_id}", &session)
            .replace("{name}", "none.such");
        if method == "DELETE" {
            continue;
        }
        let path = match path.ends_with("/events") {
            true => format!("{path}?follow=false"),
            false => path,
        };
        let body = (method != "GET").then(|| match path.rsplit('/').next() {
            Some("messages") => serde_json::json!({ "content": "hello" }),
            Some("tickets") => serde_json::json!({ "ticket": "none" }),
            Some("call") => serde_json::json!({ "arguments": {} }),
            _ => serde_json::json!({}),
        });
        let response = server.send(&method, &path, body.as_ref());
        assert!(
            statuses.contains(&response.status),
            "{method} {path}: {} {}",
            response.status,
            response.text()
        );
        if response.status >= 400 {
            response.problem(response.status);
        }
    }
}

#[test]
fn a_browser_that_asks_for_what_there_is_not_gets_the_page() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let (html, problem) = ("text/html", "application/problem+json");
    for (method, path, accept, encoding, kind) in [
        ("GET", "/nope/x", "text/html,*/*;q=0.8", "gzip", html),
        ("GET", "/nope/x", "TEXT/HTML", "gzip", html),
        ("HEAD", "/nope/x", "text/html", "gzip", html),
        ("GET", "/nope/x", "text/html;q=0, */*", "gzip", problem),
        ("GET", "/nope/x", "text/html", "identity", problem),
        ("GET", "/nope/x", "*/*", "gzip", problem),
        ("GET", "/doc/nope", "*/*", "gzip", problem),
    ] {
        let headers = format!("accept: {accept}\r\naccept-encoding: {encoding}\r\n");
        let reply = server.send_with(method, path, &headers, None);
        assert_eq!(reply.status, 404, "{method} {path} {accept}");
        let kind = format!("content-type: {kind}");
        assert!(
            reply.head.contains(&kind),
            "{method} {path}: {}",
            reply.head
        );
    }
}

#[test]
fn the_document_is_served_as_json_and_as_a_page() {
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let plain = server.send_with("GET", "/doc", "", None).json(200);
    assert_eq!(plain, document());
    assert_eq!(plain["openapi"], "3.1.0");
    let refused = server.send_with("GET", "/doc", "accept: text/html;q=0\r\n", None);
    assert_eq!(refused.json(200), document());
    let page = server.send_with("GET", "/doc", "accept: Text/HTML\r\n", None);
    assert_eq!(page.status, 200);
    assert!(
        page.head.contains("content-type: text/html"),
        "{}",
        page.head
    );
    for (method, path, _, _) in operations() {
        assert!(
            page.text().contains(&format!("{method} {path}")),
            "{method} {path}"
        );
    }
    assert!(page.text().contains("The request has no valid token"));
    assert!(!page.text().contains("<dd></dd>"));
}
