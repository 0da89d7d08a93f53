//! Tests with shell scripts as children; `tests/mcp/stdio.rs` tests with a complete server.

use super::*;
use nix::unistd::Pid;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::Transport as _;
use std::path::PathBuf;

/// Time limit of a wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

struct Sh {
    dir: tempfile::TempDir,
    server: ServerSettings,
}

impl Sh {
    fn new(script: &str) -> Sh {
        let mut server = ServerSettings::with_url("sh", "");
        server.transport = TransportConfig::Stdio {
            command: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Vec::new(),
        };
        Sh {
            dir: tempfile::tempdir().expect("a scratch directory"),
            server,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn spawn(&self) -> StdioTransport {
        let path = std::env::var("PATH").expect("a PATH");
        let dir = self.dir.path().to_str().expect("a name");
        let env = [("PATH", path.as_str()), ("DIR", dir)];
        let env = env.map(|(n, v)| (n.to_owned(), Secret::new(v)));
        spawn(&self.server, &env, &self.path("log")).expect("it starts")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).expect("a log")
    }

    /// Waits until the script has written a process id to the file `name`.
    async fn pid(&self, name: &str) -> Pid {
        let read = || std::fs::read_to_string(self.path(name)).unwrap_or_default();
        until("the pid is written", || read().ends_with('\n')).await;
        Pid::from_raw(read().trim().parse().expect("a pid"))
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn lives(pid: Pid) -> bool {
    // A zombie that init has not reaped yet counts as dead.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match stat.rsplit_once(") ") {
        Some((_, state)) => !state.starts_with('Z'),
        None => nix::sys::signal::kill(pid, None).is_ok() && !Path::new("/proc/self/stat").exists(),
    }
}

async fn receive(transport: &mut StdioTransport) -> Option<RxJsonRpcMessage<RoleClient>> {
    timeout(PATIENCE, transport.receive())
        .await
        .expect("something comes")
}

async fn end(transport: &mut StdioTransport) -> Option<String> {
    let received = receive(transport).await;
    assert!(received.is_none(), "{received:?}");
    transport.exit_reason().text()
}

fn request() -> ClientJsonRpcMessage {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    serde_json::from_str(ping).expect("a message")
}

#[tokio::test]
async fn exchanges_messages_and_skips_other_output() {
    let sh = Sh::new(
        r#"echo hello; echo '{"level":30}'; read -r line
        case $line in *'"method":"ping"'*) echo '{"jsonrpc":"2.0","id":1,"result":{}}';; esac
        read -r line; echo bye >&2"#,
    );
    let mut transport = sh.spawn();
    transport.send(request()).await.expect("sent");
    let answer = receive(&mut transport).await;
    assert!(
        matches!(&answer, Some(JsonRpcMessage::Response(r)) if r.id == RequestId::Number(1)),
        "{answer:?}"
    );
    assert_eq!(transport.exit_reason().text(), None);
    transport.close().await.expect("closed");
    assert_eq!(sh.log(), "hello\n{\"level\":30}\nbye\n");
    assert_eq!(transport.exit_reason().text(), None, "it was our wish");
}

/// File descriptors inherited by this process, which its children inherit as well. Those opened here are close-on-exec.
#[cfg(target_os = "linux")]
fn inherited() -> Vec<String> {
    let fds = std::fs::read_dir("/proc/self/fdinfo").expect("descriptors");
    fds.filter_map(|fd| {
        let fd = fd.ok()?;
        let info = std::fs::read_to_string(fd.path()).ok()?;
        let flags = info.lines().find_map(|l| l.strip_prefix("flags:"))?;
        let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
        (flags & nix::libc::O_CLOEXEC == 0).then(|| fd.file_name().to_string_lossy().into_owned())
    })
    .collect()
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn child_gets_only_the_listed_environment_and_three_descriptors() {
    let sh = Sh::new(
        "env >&2; ls /proc/self/fd >$DIR/fds; ps -o pgid= -p $$ >$DIR/group; echo $$ >$DIR/child",
    );
    let open = std::fs::File::open("/dev/null").expect("a descriptor");
    let mut transport = sh.spawn();
    let child = sh.pid("child").await;
    assert!(end(&mut transport).await.is_some());
    drop(open);
    let log = sh.log();
    let names = log.lines().filter_map(|l| Some(l.split_once('=')?.0));
    // Shells add variables of their own.
    let mut names: Vec<&str> = names
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["AISH_CHILD", "DIR", "PATH"], "{log}");
    let mut expected = inherited();
    expected.extend(["0", "1", "2"].map(str::to_owned));
    let fds = std::fs::read_to_string(sh.path("fds")).expect("descriptors");
    let more: Vec<&str> = fds
        .lines()
        .filter(|fd| !expected.iter().any(|e| e == fd))
        .collect();
    // Listing the directory opens one descriptor.
    assert_eq!(more.len(), 1, "{fds} {expected:?}");
    assert_eq!(sh.pid("group").await, child, "it leads a group of its own");
}

#[tokio::test]
async fn command_is_looked_up_in_the_given_path() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut sh = Sh::new("");
    let TransportConfig::Stdio { command, .. } = &mut sh.server.transport else {
        unreachable!()
    };
    *command = "only-here".into();
    let program = sh.path("only-here");
    std::fs::write(&program, "#!/bin/sh\necho found >&2\nexit 4\n").expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = sh.dir.path().to_str().expect("a name").to_owned();
    let spawned = |env: &[(String, Secret)]| spawn(&sh.server, env, &sh.path("log"));
    let mut transport = spawned(&[("PATH".into(), Secret::new(path))]).expect("the program starts");
    assert_eq!(
        end(&mut transport).await.as_deref(),
        Some("exited with 4; last output: found")
    );
    let error = spawned(&[]).err().expect("it is nowhere else");
    assert!(
        error
            .message
            .starts_with("cannot start only-here: No such file"),
        "{error}"
    );
    assert!(error.hint.is_some());
}

#[tokio::test]
async fn exit_reason_is_one_line() {
    for (script, reason) in [
        ("exit 0", "exited with 0"),
        (
            "echo one >&2; printf 'two\\033[2J' >&2; exit 3",
            "exited with 3; last output: two",
        ),
        ("echo usage; exit 1", "exited with 1; last output: usage"),
        ("kill -9 $$", "was killed by signal 9"),
        (
            "exec >&-; echo mute >&2; exec sleep 1000",
            "closed its output; last output: mute",
        ),
        ("exec >&-; exit 5", "exited with 5"),
        (
            "exec <&-; echo '{}'; exec sleep 1000",
            "closed its input; last output: {}",
        ),
        // A grandchild that keeps the pipes open.
        ("sleep 1000 & exit 6", "exited with 6"),
    ] {
        let mut transport = Sh::new(script).spawn();
        if script.contains("<&-") {
            until("it is closed", || {
                transport.write_failed.is_cancelled() || {
                    tokio::spawn(transport.send(request()));
                    false
                }
            })
            .await;
        }
        assert_eq!(
            end(&mut transport).await.as_deref(),
            Some(reason),
            "{script}"
        );
        assert!(transport.receive().await.is_none(), "it stays so");
        let _ = timeout(PATIENCE, transport.close()).await.expect("closed");
    }
}

#[tokio::test]
async fn output_before_the_exit_is_received() {
    let sh = Sh::new(
        r#"for i in 1 2 3; do echo '{"jsonrpc":"2.0","id":'$i',"result":{}}'; done; exit 2"#,
    );
    let mut transport = sh.spawn();
    for _ in 0..3 {
        assert!(receive(&mut transport).await.is_some());
    }
    assert_eq!(end(&mut transport).await.as_deref(), Some("exited with 2"));
}

#[tokio::test]
async fn line_of_64_mb_ends_the_child_without_buffering_it() {
    let sh = Sh::new("head -c 67108864 /dev/zero | tr '\\0' x; sleep 1000");
    let mut transport = sh.spawn();
    assert_eq!(
        end(&mut transport).await.as_deref(),
        Some("sent a line of more than 16 MB")
    );
    assert!(transport.lines.line().len() <= json_lines::MAX_LINE_BYTES);
    transport.close().await.expect("closed");
}

#[tokio::test]
async fn output_without_messages_ends_the_child() {
    let mut transport = Sh::new("exec yes").spawn();
    let reason = end(&mut transport).await.expect("an end");
    assert!(
        reason.starts_with("prints only lines that are not messages"),
        "{reason}"
    );
}

#[tokio::test]
async fn child_that_ignores_signals_is_killed_within_a_second_with_its_group() {
    let sh = Sh::new(
        "trap '' TERM INT HUP; (trap '' TERM; sleep 1000 & echo $! >$DIR/grandchild; wait) &
        echo $$ >$DIR/child; while :; do sleep 1000; done",
    );
    let mut transport = sh.spawn();
    let (child, grandchild) = (sh.pid("child").await, sh.pid("grandchild").await);
    let start = std::time::Instant::now();
    transport.close().await.expect("closed");
    assert!(
        start.elapsed() < Duration::from_millis(1300),
        "{:?}",
        start.elapsed()
    );
    assert!(!lives(child));
    until("the grandchild is dead", || !lives(grandchild)).await;
    assert_eq!(
        nix::sys::signal::kill(child, None),
        Err(nix::errno::Errno::ESRCH),
        "it is reaped"
    );
}

#[tokio::test]
async fn child_exits_when_stdin_is_closed() {
    let sh = Sh::new("trap 'echo term >&2' TERM; cat >/dev/null; echo polite >&2");
    let mut transport = sh.spawn();
    transport.close().await.expect("closed");
    assert_eq!(sh.log(), "polite\n");
}

#[tokio::test]
async fn dropped_child_is_killed_and_reaped() {
    let sh =
        Sh::new("trap '' TERM; sleep 1000 & echo $! >$DIR/grandchild; echo $$ >$DIR/child; wait");
    let transport = sh.spawn();
    let (child, grandchild) = (sh.pid("child").await, sh.pid("grandchild").await);
    drop(transport);
    until("both are gone", || {
        !lives(grandchild) && nix::sys::signal::kill(child, None).is_err()
    })
    .await;
}

#[tokio::test]
async fn close_does_not_wait_for_a_child_that_does_not_read() {
    let sh = Sh::new("exec sleep 1000");
    let mut transport = sh.spawn();
    let text = "x".repeat(1 << 20);
    let long =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{text}"}}}}"#);
    let message: ClientJsonRpcMessage = serde_json::from_str(&long).expect("a message");
    let stuck = tokio::spawn(transport.send(message));
    until("the pipe is full", || transport.stdin.try_lock().is_err()).await;
    let waiting = tokio::spawn(transport.send(request()));
    timeout(PATIENCE, transport.close())
        .await
        .expect("closed in time")
        .expect("closed");
    for send in [stuck, waiting] {
        let error = send.await.expect("no panic").expect_err("never sent");
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}
