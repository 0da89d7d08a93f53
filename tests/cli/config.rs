//! Mistakes in the configuration, and daemons of an older version.

use std::io::{Read, Write};

use aish::protocol::{self, FrameDecoder, Hello, PROTOCOL, kind};

use crate::support::helper::Helper;

#[test]
fn check_and_doctor_find_names_that_lead_nowhere() {
    let helper = Helper::new([]);
    helper.config(
        "[mcp.servers.a]\ncommand = \"npx -y foo\"\n[policy.rules]\n\"b.write\" = \"deny\"\n",
    );
    let messages = [
        "command = \"npx\", args = [\"-y\", \"foo\"]",
        "no server b is configured",
    ];
    let check = helper.call(["config", "check"]).run();
    assert_eq!(check.code, 3, "{check:?}");
    let doctor = helper.call(["doctor"]).run();
    for message in messages {
        assert!(
            check.stdout.contains(message),
            "{message}: {}",
            check.stdout
        );
        assert!(
            doctor.stdout.contains(message),
            "{message}: {}",
            doctor.stdout
        );
    }
    // The file can still be used.
    helper.call(["config", "show"]).run().ok();
}

#[test]
fn status_names_the_error_of_a_broken_configuration() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    helper.config_file("[shell]\nconfirm_cmd = 7\n");
    let status = helper.call(["status"]).run().ok();
    let line = status
        .lines()
        .find(|l| l.starts_with("config"))
        .expect("config");
    assert!(
        line.contains("not usable: ") && line.contains("config.toml:2: shell.confirm_cmd"),
        "{line}"
    );
    assert!(!status.contains("none"), "{status}");
    let status = helper.call(["status", "--json"]).run().json();
    assert!(
        status["config_error"]
            .as_str()
            .is_some_and(|e| e.contains("confirm_cmd")),
        "{status}"
    );
}

#[test]
fn a_daemon_with_an_older_protocol_is_replaced_after_its_turns() {
    let helper = Helper::saying("ok");
    let (listener, lock) = (helper.listen(), helper.lock());
    let ask = helper.call(["ask", "--shell", "s1", "x"]).start();
    let older = Hello {
        protocol: PROTOCOL - 1,
        ..Hello::current()
    };
    let reply = protocol::json_frame(kind::HELLO, &older).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(&reply).unwrap();
    ask.stderr.wait_text("is older than this aish-helper");
    // The second connection is that of a newer version: the daemon leaves after its turns.
    let (mut second, _) = listener.accept().unwrap();
    let (mut decoder, mut buffer) = (FrameDecoder::default(), [0; 4096]);
    let hello: Hello = loop {
        if let Some((_, body)) = decoder.next_frame().unwrap() {
            break protocol::parse(body).unwrap();
        }
        let n = second.read(&mut buffer).unwrap();
        decoder.push(&buffer[..n]);
    };
    assert!(
        hello.is_newer(&older.version) && !hello.read_only,
        "{hello:?}"
    );
    let leaving = Hello {
        leaving: true,
        ..older
    };
    second
        .write_all(&protocol::json_frame(kind::HELLO, &leaving).unwrap())
        .unwrap();
    drop((socket, second, listener));
    std::fs::remove_file(helper.path("run/sock")).unwrap();
    drop(lock);
    assert_eq!(ask.finish().ok(), "ok\n");
}
