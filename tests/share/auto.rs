use std::fs;

use super::{listed, pages, session, with_keys};
use crate::api::Server;
use crate::fakes::s3::S3Server;
use crate::support::helper::Helper;

const AUTO: &str = "[share]\nmode = \"auto\"\n";

fn url(helper: &Helper) -> String {
    let url = &listed(helper)[0]["url"];
    url.as_str().expect("an address").to_owned()
}

#[test]
fn a_session_is_shared_after_each_answer_until_it_is_unshared() {
    let helper = Helper::saying("grey");
    helper.config(AUTO);
    let server = Server::start(&helper);
    helper.ask("cats");
    helper.until("the session is shared", || !pages(&helper).is_empty());
    helper.until("the register says so", || {
        listed(&helper)[0]["phase"] == "published"
    });
    assert_eq!(listed(&helper)[0]["is_automatic"], true);
    let first = url(&helper);
    let path = &first[first.find("/share/").expect("a path")..];
    let page = || server.send_with("GET", path, "", None);
    assert!(page().text().contains("cats"));
    // One line at the next prompt says where, and how to stop.
    let notice = helper.path("run/notices/s1");
    helper.until("the shell is told", || notice.exists());
    let line = fs::read_to_string(&notice).unwrap();
    assert!(
        line.contains("llm :unshare") && line.contains(&first),
        "{line}"
    );
    fs::remove_file(&notice).unwrap();
    // The address stays.
    helper.ask("dogs");
    helper.until("the page has the second prompt", || {
        page().text().contains("dogs")
    });
    assert_eq!(url(&helper), first);
    assert!(!notice.exists());
    let shares = helper.call(["session", "shares"]).run().ok();
    assert!(shares.contains("after each answer"), "{shares}");
    let status = helper.call(["status"]).run().ok();
    assert!(status.contains("shares    1;"), "{status}");
    helper
        .call(["session", "unshare", &session(&helper)])
        .run()
        .ok();
    assert_eq!(page().status, 404);
    helper.ask("birds");
    helper.ask("bees");
    assert_stays_private(&helper);
    // The decision is kept.
    helper.call(["stop"]).run().ok();
    helper.ask("ants");
    assert_stays_private(&helper);
    // By hand it can be shared again, and that page does not change.
    let session = session(&helper);
    helper
        .call(["session", "share", &session, "--yes"])
        .run()
        .ok();
    let by_hand = listed(&helper);
    assert_eq!(by_hand[0]["is_automatic"], false);
    helper.ask("wasps");
    drain(&helper);
    assert_eq!(listed(&helper), by_hand);
    let text = fs::read_to_string(helper.path(&format!("data/shares/{}", pages(&helper)[0])));
    assert!(!text.unwrap().contains("wasps"));
}

/// Ends the daemon, which completes its work first.
fn drain(helper: &Helper) {
    helper.until_finish("stop");
    helper.call(["stop"]).run().ok();
}

fn assert_stays_private(helper: &Helper) {
    drain(helper);
    assert!(pages(helper).is_empty());
    assert!(listed(helper).is_empty());
}

#[test]
fn automatic_pages_go_to_the_bucket_that_the_configuration_of_the_user_names() {
    let helper = Helper::saying("grey");
    let server = S3Server::start();
    helper.config(&server.settings("mode = \"auto\"\n"));
    with_keys(&helper, ["ask", "--shell", "s1", "--", "cats"])
        .run()
        .ok();
    helper.until("the page is in the bucket", || server.objects().len() == 1);
    let (key, _) = server.objects().pop_first().unwrap();
    with_keys(&helper, ["ask", "--shell", "s1", "--", "dogs"])
        .run()
        .ok();
    helper.until("the page is replaced", || {
        server
            .objects()
            .get(&key)
            .is_some_and(|o| o.body.contains("dogs"))
    });
    assert_eq!(server.objects().len(), 1);
    assert!(pages(&helper).is_empty());
    with_keys(&helper, ["session", "unshare", &session(&helper)])
        .run()
        .ok();
    assert!(server.objects().is_empty());
}

#[test]
fn automatic_sharing_and_a_bucket_count_only_after_they_were_seen() {
    let helper = Helper::saying("grey");
    let server = S3Server::start();
    helper.ask("cats");
    let file = helper.path("config/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = format!("{text}{}", server.settings("mode = \"auto\"\n"));
    helper.change_config(&text);
    with_keys(&helper, ["ask", "--shell", "s1", "--", "dogs"])
        .run()
        .ok();
    assert_stays_private(&helper);
    assert!(server.take_requests().is_empty());
    // By hand, the page stays here.
    let session = session(&helper);
    let shared = with_keys(&helper, ["session", "share", &session, "--yes"]);
    shared.run().ok();
    assert_eq!(listed(&helper)[0]["place"], "on this machine");
    assert!(server.take_requests().is_empty());
}

#[test]
fn a_project_can_disable_sharing_and_nothing_else() {
    let helper = Helper::saying("grey");
    helper.config(AUTO);
    let project = helper.home.path("project");
    let inside = project.join("src");
    fs::create_dir_all(&inside).unwrap();
    let file = project.join(".aish.toml");
    fs::write(&file, "[share]\nmode = \"disabled\"\n").unwrap();
    let ask = || helper.call(["ask", "--shell", "s1", "--", "cats"]);
    ask().dir(inside.clone()).run().ok();
    assert_stays_private(&helper);
    let session = session(&helper);
    let share = || helper.call(["session", "share", &session, "--yes"]).run();
    let error = share().fails(4);
    assert!(
        error.contains("sharing is disabled") && error.contains(".aish.toml:2: share.mode"),
        "{error}"
    );
    // A project cannot choose where pages go, or that there are any.
    helper.config("[tools]\nbuiltin = true\n[share]\nmode = \"disabled\"\n");
    fs::write(
        &file,
        "[share]\nmode = \"auto\"\ntarget = \"s3\"\nbucket = \"evil\"\n",
    )
    .unwrap();
    let asked = ask().dir(inside).run();
    let ignored = asked.stderr.matches("can only disable sharing").count();
    assert_eq!(ignored, 3, "{}", asked.stderr);
    assert_stays_private(&helper);
    share().fails(4);
    helper.config("");
    share().ok();
    assert_eq!(listed(&helper)[0]["place"], "on this machine");
}
