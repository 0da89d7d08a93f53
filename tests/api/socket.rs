use std::io::{BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use super::Response;
use crate::support::PATIENCE;
use crate::support::helper::Helper;

#[test]
fn the_unix_socket_needs_no_token_and_is_the_users_alone() {
    let helper = Helper::saying("yes");
    helper.call(["serve", "--port", "0"]).run().ok();
    let path = helper.path("run/api.sock");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"GET /v1/sessions HTTP/1.1\r\nhost: aish\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let response = Response::read(&mut BufReader::new(stream));
    assert_eq!(response.json(200)["sessions"], serde_json::json!([]));
    let status = helper.call(["serve", "status", "--json"]).run().json();
    assert_eq!(status["server"]["port"], 0);
    assert_eq!(status["server"]["url"], serde_json::Value::Null);
    let error = helper.call(["web", "--print"]).run().fails(2);
    assert!(error.contains("no port"), "{error}");
}
