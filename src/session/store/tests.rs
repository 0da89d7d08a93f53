use tokio_util::sync::CancellationToken;

use super::*;
use crate::safety::policy::RuleEffect;
use crate::safety::policy::{ApprovalScope, CallRequest, ExactCall, GRANT_TTL_MS, approve};
use crate::session::feed::{FeedOrigin, TurnFeed};

fn store(dir: &Path) -> SessionStore {
    SessionStore::new(Journal::new(dir.join("history")), dir.join("shells"))
}

fn asked() -> (RuleEffect, String) {
    (RuleEffect::Ask, "policy.default".to_owned())
}

fn shell(id: &str) -> ShellId {
    ShellId::parse(id).expect("a shell id")
}

#[test]
fn proposals_of_a_live_shell_survive_tidy_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    // A new daemon: the shell's session is known from its file alone.
    let sessions = store(dir.path());
    let (live, ended) = (format!("{}-1", std::process::id()), "2147483646-1");
    for id in [&*live, ended, "script"] {
        let commands = vec!["ls".into()];
        sessions.offer(
            &shell(id),
            "s",
            &RecordIds::default(),
            commands,
            None,
            asked(),
        );
    }
    sessions.tidy();
    let waits = |id| sessions.next_waiting(&shell(id)).is_some();
    assert_eq!(
        [waits(&*live), waits(ended), waits("script")],
        [true, false, true]
    );
}

#[test]
fn an_answer_replaces_only_the_proposals_of_its_own_session() {
    let dir = tempfile::tempdir().expect("a directory");
    let (sessions, shell) = (store(dir.path()), shell("a"));
    let offer = |session: &str, commands: &[&str]| {
        let commands = commands.iter().map(|c| (*c).to_owned()).collect();
        sessions.offer(
            &shell,
            session,
            &RecordIds::default(),
            commands,
            None,
            asked(),
        );
    };
    offer("foreground", &["one", "two"]);
    let shown = sessions.next_waiting(&shell).expect("a proposal");
    offer("background", &["three", "four"]);
    let taken = sessions.take_waiting(&shell, &shown.token, true);
    assert_eq!(taken.expect("it waits"), shown);
    // The rest of the foreground answer went with it; the background answer is offered when it is shown.
    assert_eq!(sessions.next_waiting(&shell), None);
    assert_eq!(sessions.show_waiting(&shell, "background"), 2);
    let next = sessions.next_waiting(&shell).expect("a proposal");
    assert_eq!((&*next.command, next.number, next.of), ("three", 1, 2));
    assert_eq!(sessions.count_waiting(&shell), 2);
    assert!(sessions.take_waiting(&shell, &shown.token, false).is_err());
    // An answer that arrives while the last command of the shown one runs waits too.
    offer("foreground", &["last"]);
    sessions.show_waiting(&shell, "foreground");
    let last = sessions.next_waiting(&shell).expect("a proposal");
    let taken = sessions.take_waiting(&shell, &last.token, false);
    assert_eq!(taken.expect("it waits"), last);
    offer("background", &["five"]);
    assert_eq!(sessions.next_waiting(&shell), None);
    assert_eq!(sessions.count_waiting(&shell), 0);
    assert!(sessions.take_waiting(&shell, &next.token, false).is_err());
    assert_eq!(sessions.show_waiting(&shell, "background"), 1);
}

#[test]
fn a_shell_file_that_is_not_a_small_regular_file_is_ignored() {
    let dir = tempfile::tempdir().expect("a directory");
    let sessions = store(dir.path());
    let path = |name: &str| dir.path().join("shells").join(name);
    fs::create_dir(dir.path().join("shells")).expect("the directory");
    let id = uuid::Uuid::now_v7().to_string();
    fs::write(path("regular"), &id).expect("a file");
    fs::write(path("long"), id.clone() + &" ".repeat(64)).expect("a file");
    std::os::unix::fs::symlink(path("regular"), path("link")).expect("a symlink");
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for name in ["long", "link", "fifo", "missing"] {
        assert_eq!(sessions.session_for_shell(&shell(name)), None, "{name}");
    }
    assert_eq!(sessions.session_for_shell(&shell("regular")), Some(id));
}

#[tokio::test]
async fn concurrent_requests_share_one_load_of_a_session() {
    let dir = tempfile::tempdir().expect("a directory");
    let sessions = store(dir.path());
    let session = sessions.create(Some(&shell("a")), &RecordIds::default());
    session
        .log_handle()
        .expect("a file")
        .written()
        .await
        .expect("it is written");
    sessions.shell_file_written(&shell("a")).await;
    let id = session.id.clone();
    drop((session, sessions));
    let sessions = Arc::new(store(dir.path()));
    let loads = (0..8).map(|_| {
        let (sessions, id) = (sessions.clone(), id.clone());
        tokio::spawn(async move { sessions.get(&id).await.expect("the session") })
    });
    let mut loaded = Vec::new();
    for load in loads.collect::<Vec<_>>() {
        loaded.push(load.await.expect("the task"));
    }
    assert!(
        loaded
            .iter()
            .all(|session| Arc::ptr_eq(session, &loaded[0]))
    );
    // The session of a shell was written to its file.
    assert_eq!(sessions.session_for_shell(&shell("a")), Some(id));
}

#[tokio::test]
async fn a_session_stays_open_while_a_grant_is_in_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let sessions = store(dir.path());
    let mut ids = Vec::new();
    for at_ms in [now_ms() - GRANT_TTL_MS, now_ms(), 1] {
        let session = sessions.create(None, &RecordIds::default());
        let call = ExactCall {
            server: "fs",
            tool: "read",
            identity: "",
            arguments: "{}",
        };
        let mut grants = lock(&session.grants);
        let request = CallRequest::new(call);
        approve(&request, ApprovalScope::Tool, [], &mut grants, at_ms, "");
        drop(grants);
        ids.push(session.id.clone());
    }
    let used = sessions.get(&ids[2]).await.expect("the session");
    sessions.tidy();
    let open: HashSet<String> = sessions.open().iter().map(|s| s.id.clone()).collect();
    assert_eq!(open, HashSet::from([ids[1].clone(), ids[2].clone()]));
    assert!(lock(&used.grants).is_empty());
}

#[tokio::test]
async fn a_session_is_not_deleted_while_it_is_used_and_the_error_says_by_what() {
    let dir = tempfile::tempdir().expect("a directory");
    let sessions = store(dir.path());
    let session = sessions.create(None, &RecordIds::default());
    let id = session.id.clone();
    let user = || {
        let error = sessions.delete(&id).expect_err("it is used");
        error.message.rsplit(": ").next().map(str::to_owned)
    };
    assert_eq!(user().as_deref(), Some("another request uses it"));
    let feed = TurnFeed::new(FeedOrigin::of_request(None, None), CancellationToken::new());
    session.hub.install(feed);
    assert_eq!(user().as_deref(), Some("an answer is running"));
    drop(session);
    sessions.delete(&id).expect("nothing uses it");
}
