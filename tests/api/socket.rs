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
    // A server that runs does not take another port.
    assert!(error.contains("aish-helper serve stop &&"), "{error}");
}

/// The permissions keep others out; should they be changed, the uid of the peer does.
#[test]
#[cfg(target_os = "linux")]
fn the_unix_socket_serves_no_other_user() {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    // Only root can be another user too.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let helper = Helper::saying("yes");
    helper.call(["serve", "--port", "0"]).run().ok();
    let path = helper.path("run/api.sock");
    let script = format!(
        r#"import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect({path:?})
s.sendall(b"GET /v1/sessions HTTP/1.1\r\nhost: aish\r\nconnection: close\r\n\r\n")
print(s.recv(65536))"#
    );
    let ask = |uid| {
        let mut python = Command::new("python3");
        python.arg("-c").arg(&script).uid(uid).gid(uid);
        python.output().expect("python3")
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let refused = ask(65534);
    assert!(
        text(&refused.stderr).contains("PermissionError"),
        "{refused:?}"
    );
    let is_open = |dir: &std::path::Path| {
        std::fs::metadata(dir).is_ok_and(|dir| dir.permissions().mode() & 0o001 != 0)
    };
    for dir in path.ancestors().skip(1).filter(|dir| !is_open(dir)) {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = ask(65534);
    assert!(
        text(&refused.stdout) == "b''\n" || text(&refused.stderr).contains("Error: [Errno"),
        "{refused:?}"
    );
    assert!(
        !text(&refused.stderr).contains("PermissionError"),
        "{refused:?}"
    );
    assert!(text(&ask(0).stdout).contains("200 OK"));
}
