use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::recordings::recording_of;
use super::{listed, pages, session, with_keys};
use crate::api::Server;
use crate::fakes::s3::{Fault, S3Server};
use crate::support::helper::Helper;
use crate::support::tracer::{KillPoint, Traced};

/// A session in a home whose pages go to a bucket.
fn in_bucket() -> (Helper, S3Server, String) {
    let helper = Helper::saying("grey");
    let server = S3Server::start();
    helper.config(&server.settings(""));
    helper.ask("cats");
    let session = session(&helper);
    (helper, server, session)
}

#[test]
fn a_daemon_that_is_killed_at_any_request_to_the_bucket_leaves_a_share_that_can_be_removed() {
    let (helper, server, session) = in_bucket();
    recording_of(&helper).save(&helper.path("."));
    let share = ["session", "share", &session, "--recordings", "--yes"];
    let unshare = ["session", "unshare", &session];
    let mut held = 0;
    // The recording is sent and removed before the page.
    for (method, served, fault, phase, objects) in [
        ("PUT", 0, Fault::HoldBefore, "publishing", 0),
        ("PUT", 0, Fault::HoldAfter, "publishing", 1),
        ("PUT", 1, Fault::HoldBefore, "publishing", 1),
        ("PUT", 1, Fault::HoldAfter, "publishing", 2),
        ("DELETE", 0, Fault::HoldBefore, "removing", 2),
        ("DELETE", 0, Fault::HoldAfter, "removing", 1),
        ("HEAD", 0, Fault::HoldAfter, "removing", 1),
        ("DELETE", 1, Fault::HoldBefore, "removing", 1),
        ("DELETE", 1, Fault::HoldAfter, "removing", 0),
        ("HEAD", 1, Fault::HoldAfter, "removing", 0),
    ] {
        if method != "PUT" {
            with_keys(&helper, share).run().ok();
        }
        let what = format!("{method} {served} {fault:?}");
        server.fault_behind(method, served, fault);
        held += 1;
        let call = match method {
            "PUT" => with_keys(&helper, share).start(),
            _ => with_keys(&helper, unshare).start(),
        };
        server.until_held(held);
        // Before the request, the register says what is being done.
        let register = std::fs::read_to_string(helper.path("data/shares.json")).unwrap();
        assert!(register.contains(phase), "{what}: {register}");
        helper.kill_daemon();
        call.finish().fails(1);
        server.fault(method, Fault::None);
        assert_eq!(server.objects().len(), objects, "{what}");
        let shares = listed(&helper);
        assert!(
            shares.len() == 1 && shares[0]["phase"] == phase,
            "{what}: {shares:?}"
        );
        with_keys(&helper, unshare).run().ok();
        assert!(
            server.objects().is_empty() && listed(&helper).is_empty(),
            "{what}"
        );
    }
}

#[test]
fn a_new_page_is_there_before_the_old_one_is_removed() {
    let (helper, server, session) = in_bucket();
    let share = ["session", "share", &session, "--yes"];
    with_keys(&helper, share).run().ok();
    server.fault("DELETE", Fault::HoldBefore);
    let call = with_keys(&helper, share).start();
    server.until_held(1);
    assert_eq!(server.objects().len(), 2);
    helper.kill_daemon();
    call.finish().fails(1);
    let shares = listed(&helper);
    let phases: Vec<&str> = shares.iter().flat_map(|s| s["phase"].as_str()).collect();
    assert_eq!(phases, ["removing", "published"]);
    // The next share tidies up.
    server.fault("DELETE", Fault::None);
    with_keys(&helper, share).run().ok();
    assert_eq!((server.objects().len(), listed(&helper).len()), (1, 1));
}

#[test]
fn a_stop_at_once_does_not_wait_for_the_bucket() {
    let (helper, server, session) = in_bucket();
    server.fault("PUT", Fault::HoldBefore);
    let call = with_keys(&helper, ["session", "share", &session, "--yes"]).start();
    server.until_held(1);
    let since = std::time::Instant::now();
    helper.call(["stop", "--now"]).run().ok();
    call.finish().fails(1);
    helper.until("the daemon has ended", || helper.listener().is_none());
    assert!(since.elapsed() < std::time::Duration::from_secs(15));
    assert_eq!(listed(&helper)[0]["phase"], "publishing");
}

/// The words that share a session, share it again, and unshare it.
fn steps(session: &str) -> [Vec<&str>; 3] {
    let share = vec!["session", "share", session, "--recordings", "--yes"];
    [share.clone(), share, vec!["session", "unshare", session]]
}

#[test]
fn a_daemon_that_is_killed_at_any_system_call_leaves_no_page_that_is_not_listed() {
    let run = |at: KillPoint| {
        let helper = Helper::saying("grey");
        let daemon = Traced::start(&helper, at);
        helper.ask("cats");
        let session = session(&helper);
        recording_of(&helper).save(&helper.path("."));
        daemon.arm();
        if at == KillPoint::Never {
            for words in steps(&session) {
                helper.call(words).run();
            }
            helper.call(["stop", "--now"]).run();
            return daemon.end().system_calls;
        }
        for words in steps(&session) {
            // The files that the daemon has left behind are checked before another one starts.
            if helper.listener().is_none() || helper.call(words).run().code != 0 {
                break;
            }
        }
        helper.call(["stop", "--now"]).run();
        let calls = daemon.end().system_calls;
        // A page or a recording begins with the id of its share.
        let id = |name: &String| name[..32].to_owned();
        let on_disk: BTreeSet<String> = pages(&helper).iter().map(id).collect();
        let server = Server::start(&helper);
        let shares = listed(&helper);
        let known = |share: &serde_json::Value| {
            let id = share["id"].as_str().expect("an id");
            id.to_owned()
        };
        let known: BTreeSet<String> = shares.iter().map(known).collect();
        assert!(on_disk.is_subset(&known), "{at:?}: {on_disk:?} {shares:?}");
        for share in &shares {
            let path = format!("/share/{}", share["id"].as_str().expect("an id"));
            let is_published = share["phase"] == "published";
            for path in [path.clone(), format!("{path}/1.cast")] {
                let status = server.send_with("GET", &path, "", None).status;
                assert_eq!(status, if is_published { 200 } else { 404 }, "{at:?}");
            }
        }
        helper.call(["session", "unshare", &session]).run().ok();
        assert!(
            pages(&helper).is_empty() && listed(&helper).is_empty(),
            "{at:?}"
        );
        calls
    };
    let total = run(KillPoint::Never);
    assert!(total > 100, "{total}");
    // AISH_TEST_KILLS=all tries every one.
    let stride = match std::env::var("AISH_TEST_KILLS").as_deref() {
        Ok("all") => 1,
        _ => total / 24,
    };
    let points: Vec<usize> = (1..=total).step_by(stride).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(n) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(KillPoint::SystemCall(*n));
                }
            });
        }
    });
}

#[test]
fn a_session_that_is_deleted_while_it_is_shared_leaves_no_page() {
    let (helper, server, session) = in_bucket();
    let share = ["session", "share", &session, "--yes"];
    let delete = ["session", "delete", &session, "--yes"];
    // The server is slow with the page: the deletion waits for it, and removes it then.
    server.fault("PUT", Fault::Slow);
    let sharing = with_keys(&helper, share).start();
    server.until_held(1);
    let mut deleting = with_keys(&helper, delete).start();
    // The daemon has served later clients, and would have deleted the session meanwhile.
    for _ in 0..3 {
        helper.call(["session", "list"]).run().ok();
    }
    assert!(deleting.runs());
    assert_eq!(helper.sessions().len(), 1);
    server.fault("PUT", Fault::None);
    sharing.finish().ok();
    deleting.finish().ok();
    assert!(helper.sessions().is_empty() && server.objects().is_empty());
    assert!(listed(&helper).is_empty());
}

#[test]
fn a_session_is_not_shared_while_it_is_being_deleted() {
    let (helper, server, session) = in_bucket();
    let share = ["session", "share", &session, "--yes"];
    let delete = ["session", "delete", &session, "--yes"];
    with_keys(&helper, share).run().ok();
    // The deletion waits for the server, and the publisher for the deletion.
    server.fault("DELETE", Fault::Slow);
    let deleting = with_keys(&helper, delete).start();
    server.until_held(1);
    server.take_requests();
    let sharing = with_keys(&helper, share).start();
    server.fault("DELETE", Fault::None);
    deleting.finish().ok();
    assert_ne!(sharing.finish().code, 0);
    assert!(helper.sessions().is_empty() && server.objects().is_empty());
    assert!(listed(&helper).is_empty());
    assert!(
        server
            .take_requests()
            .iter()
            .all(|request| request.method != "PUT")
    );
}
