//! With real children of the shell; `tests/mcp/stdio.rs` has whole servers.

use super::*;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::Transport as _;
use std::path::PathBuf;

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(20);

struct Sh {
    dir: tempfile::TempDir,
    server: Server,
}

impl Sh {
    fn new(script: &str) -> Sh {
        let mut server = Server::at("sh", "");
        server.transport = Target::Stdio {
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

    fn spawn(&self) -> Transport {
        let path = std::env::var("PATH").expect("a PATH");
        let dir = self.dir.path().to_str().expect("a name");
        let env = [("PATH", path.as_str()), ("DIR", dir)];
        let env = env.map(|(n, v)| (n.to_owned(), Secret::new(v)));
        spawn(&self.server, &env, &self.path("log")).expect("it starts")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).expect("a log")
    }

    /// Waits until the script has written a number there.
    async fn pid(&self, name: &str) -> Pid {
        let read = || std::fs::read_to_string(self.path(name)).unwrap_or_default();
        until("the pid is there", || read().ends_with('\n')).await;
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
    // One that is dead and not reaped by init yet does not live.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match stat.rsplit_once(") ") {
        Some((_, state)) => !state.starts_with('Z'),
        None => nix::sys::signal::kill(pid, None).is_ok() && !Path::new("/proc/self/stat").exists(),
    }
}

async fn receive(transport: &mut Transport) -> Option<RxJsonRpcMessage<RoleClient>> {
    timeout(PATIENCE, transport.receive())
        .await
        .expect("something comes")
}

async fn end(transport: &mut Transport) -> Option<String> {
    let received = receive(transport).await;
    assert!(received.is_none(), "{received:?}");
    transport.end_note().text()
}

fn request() -> ClientJsonRpcMessage {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    serde_json::from_str(ping).expect("a message")
}

#[tokio::test]
async fn a_message_goes_there_and_an_answer_comes_back_through_noise() {
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
    assert_eq!(transport.end_note().text(), None);
    transport.close().await.expect("closed");
    assert_eq!(sh.log(), "hello\n{\"level\":30}\nbye\n");
    assert_eq!(transport.end_note().text(), None, "it was our wish");
}

/// What this process got from whoever started it, and so passes on: all that is opened here is closed.
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
async fn its_environment_is_what_is_listed_and_its_descriptors_are_three() {
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
    // Shells add some of their own.
    let mut names: Vec<&str> = names
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["DIR", "PATH"], "{log}");
    let mut expected = inherited();
    expected.extend(["0", "1", "2"].map(str::to_owned));
    let fds = std::fs::read_to_string(sh.path("fds")).expect("descriptors");
    let more: Vec<&str> = fds
        .lines()
        .filter(|fd| !expected.iter().any(|e| e == fd))
        .collect();
    // The listing has one open itself.
    assert_eq!(more.len(), 1, "{fds} {expected:?}");
    assert_eq!(sh.pid("group").await, child, "it leads a group of its own");
}

#[tokio::test]
async fn the_command_is_looked_up_in_the_path_it_gets() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut sh = Sh::new("");
    let Target::Stdio { command, .. } = &mut sh.server.transport else {
        unreachable!()
    };
    *command = "only-here".into();
    let program = sh.path("only-here");
    std::fs::write(&program, "#!/bin/sh\necho found >&2\nexit 4\n").expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = sh.dir.path().to_str().expect("a name").to_owned();
    let spawned = |env: &[(String, Secret)]| spawn(&sh.server, env, &sh.path("log"));
    let mut transport = spawned(&[("PATH".into(), Secret::new(path))]).expect("it is there");
    assert_eq!(
        end(&mut transport).await.as_deref(),
        Some("exited with 4; its last words: found")
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
async fn how_it_ended_is_known_in_a_line() {
    for (script, why) in [
        ("exit 0", "exited with 0"),
        (
            "echo one >&2; printf 'two\\033[2J' >&2; exit 3",
            "exited with 3; its last words: two",
        ),
        ("echo usage; exit 1", "exited with 1; its last words: usage"),
        ("kill -9 $$", "was ended by signal 9"),
        (
            "exec >&-; echo mute >&2; exec sleep 1000",
            "closed its output; its last words: mute",
        ),
        ("exec >&-; sleep 0.05; exit 5", "exited with 5"),
        (
            "exec <&-; echo '{}'; exec sleep 1000",
            "closed its input; its last words: {}",
        ),
        // A grandchild that holds the pipes open.
        ("sleep 1000 & exit 6", "exited with 6"),
    ] {
        let mut transport = Sh::new(script).spawn();
        if script.contains("<&-") {
            until("it is closed", || {
                transport.deaf.is_cancelled() || {
                    tokio::spawn(transport.send(request()));
                    false
                }
            })
            .await;
        }
        assert_eq!(end(&mut transport).await.as_deref(), Some(why), "{script}");
        assert!(transport.receive().await.is_none(), "it stays so");
        let _ = timeout(PATIENCE, transport.close()).await.expect("closed");
    }
}

#[tokio::test]
async fn what_it_said_before_its_end_is_received() {
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
async fn a_line_of_64_mb_ends_it_and_takes_no_such_memory() {
    let sh = Sh::new("head -c 67108864 /dev/zero | tr '\\0' x; sleep 1000");
    let mut transport = sh.spawn();
    assert_eq!(
        end(&mut transport).await.as_deref(),
        Some("sent a line of more than 16 MB")
    );
    assert!(transport.lines.line().len() <= line::MAX_LINE);
    transport.close().await.expect("closed");
}

#[tokio::test]
async fn nothing_but_noise_ends_it() {
    let mut transport = Sh::new("exec yes").spawn();
    let why = end(&mut transport).await.expect("an end");
    assert!(
        why.starts_with("prints on its output what is no message"),
        "{why}"
    );
}

#[tokio::test]
async fn one_that_ignores_everything_is_gone_within_a_second_with_its_children() {
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
async fn one_that_minds_its_input_ends_by_itself() {
    let sh = Sh::new("trap 'echo term >&2' TERM; cat >/dev/null; echo polite >&2");
    let mut transport = sh.spawn();
    transport.close().await.expect("closed");
    assert_eq!(sh.log(), "polite\n");
}

#[tokio::test]
async fn one_that_is_dropped_is_killed_and_reaped() {
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
async fn a_child_that_does_not_read_does_not_hold_up_the_close() {
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
