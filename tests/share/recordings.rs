//! Recordings in shares.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{listed, pages, session, with_keys};
use crate::api::Server;
use crate::fakes::s3::S3Server;
use crate::record::recordings::RecordingFixture;
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const SECRET: &str = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
/// The shell of the fixtures.
const SHELL: &str = "77-abc";

/// A recording of the shell `s1`, which has just run the prompt of a session. The end of its earlier command was lost.
pub fn recording_of(helper: &Helper) -> RecordingFixture {
    let record = &helper.records_of("user")[0];
    let at_ms = record["timestamp_ms"].as_u64().expect("a time");
    let mut recording = RecordingFixture::started(&id(1), 80, 24, at_ms - 60_000);
    let command = format!("s1@{}", at_ms - 60_000);
    recording.event(json!({ "type": "command_start", "command_id": command, "text": "make" }));
    recording.output("before-the-session\r\n");
    recording.wait_ms(59_000);
    recording.event(json!({ "type": "prompt" }));
    recording.output("$ llm cats\r\n");
    recording.wait_ms(900);
    let command = format!("s1@{}", at_ms - 100);
    recording.event(json!({ "type": "command_start", "command_id": command, "text": "llm cats" }));
    recording.wait_ms(60_000).output("grey\r\n");
    recording.event(json!({ "type": "command_end", "command_id": command, "exit": 0 }));
    recording.end(0);
    recording
}

fn id(number: u32) -> String {
    format!("01a202df-0e40-7077-9523-{number:012x}")
}

/// A session that was used in a recorded shell, and what the page and the recording of its share must not have.
fn recorded() -> (Helper, String, Vec<String>) {
    let helper = Helper::saying("the answer");
    let home = helper.home.path("").display().to_string();
    let home = home.trim_end_matches('/').to_owned();
    let mut zsh = Zsh::record(&helper.home);
    zsh.run("print -r before-the-session");
    zsh.run("llm one");
    zsh.run(&format!("print -r -- {home}/x token={SECRET}"));
    zsh.run(&format!(
        "print -rn {}; sleep 0.1; print -r {}",
        &SECRET[..9],
        &SECRET[9..]
    ));
    zsh.run("llm two");
    zsh.run("print -r behind-the-session");
    zsh.exit();
    let session = session(&helper);
    let absent = [SECRET, &home, "before-the-session", "behind-the-session"];
    (helper, session, absent.map(str::to_owned).to_vec())
}

#[test]
fn a_command_whose_end_was_lost_is_no_part_of_a_later_session() {
    let helper = Helper::saying("grey");
    helper.ask("cats");
    let session = session(&helper);
    recording_of(&helper).save(&helper.path("."));
    let share = ["session", "share", &session, "--recordings", "--yes"];
    helper.call(share).run().ok();
    let casts: Vec<String> = pages(&helper)
        .iter()
        .filter(|name| name.ends_with(".cast"))
        .map(|name| std::fs::read_to_string(helper.path("data/shares").join(name)).unwrap())
        .collect();
    let [cast] = &casts[..] else {
        panic!("one recording: {casts:?}");
    };
    assert!(cast.contains("llm cats"), "{cast}");
    assert!(!cast.contains("before-the-session"), "{cast}");
}

#[test]
fn a_recording_with_a_command_of_a_project_that_disables_sharing_is_left_out() {
    let helper = Helper::saying("grey");
    helper.ask("cats");
    let session = session(&helper);
    recording_of(&helper).save(&helper.path("."));
    let at_ms = helper.records_of("user")[0]["timestamp_ms"].as_u64();
    let start_ms = at_ms.expect("a time") - 100;
    let project = helper.home.path("project");
    std::fs::create_dir(&project).unwrap();
    // Of another session: the records of this one do not name the project.
    let command = json!({
        "v": 2, "id": id(2), "timestamp_ms": start_ms, "type": "shell_command", "shell": "s1",
        "command": "cat plans", "cwd": project, "tty": "/dev/pts/3", "start_ms": start_ms,
        "duration_ms": 8, "exit": 0, "session": null, "size": [80, 24],
        "ids": { "user": "u", "shell": "s1", "command": format!("s1@{start_ms}") },
    });
    let shells = helper.path("data/journal/shells.jsonl");
    let earlier = std::fs::read_to_string(&shells).unwrap_or_default();
    std::fs::write(&shells, format!("{earlier}{command}\n")).unwrap();
    let server = Server::start(&helper);
    let path = format!("/v1/sessions/{session}/share");
    let shown = || server.post(&path, &json!({ "recordings": true }), 200);
    assert_eq!(shown()["recordings"], 1);
    std::fs::write(project.join(".aish.toml"), "[share]\nmode = \"disabled\"\n").unwrap();
    assert_eq!(shown()["recordings"], 0);
    assert_eq!(shown()["recordings_ms"], 0);
    let removed = shown()["removed"].to_string();
    assert!(
        removed.contains("1 recording that is too large or from a project"),
        "{removed}"
    );
}

fn assert_clean(what: &str, text: &str, absent: &[String]) {
    for absent in absent {
        assert!(!text.contains(absent), "{absent} in the {what}: {text}");
    }
}

#[test]
fn recordings_are_shared_only_if_asked_for_and_removed_with_the_page() {
    let (helper, session, absent) = recorded();
    let server = Server::start(&helper);
    let path = format!("/v1/sessions/{session}/share");
    let plain = server.post(&path, &json!({}), 200);
    assert!(plain.get("recordings").is_none(), "{plain}");
    let asked = json!({ "recordings": true });
    let preview = server.post(&path, &asked, 200);
    assert_eq!(preview["recordings"], 1);
    assert!(preview["recordings_ms"].as_u64() > Some(0), "{preview}");
    assert!(
        preview["removed"].to_string().contains("secret"),
        "{preview}"
    );
    assert_ne!(plain["digest"], preview["digest"]);
    // The digest of another preview does not count.
    let mixed = json!({ "recordings": true, "digest": plain["digest"] });
    server.send("POST", &path, Some(&mixed)).problem(409);
    let confirmed = json!({ "recordings": true, "digest": preview["digest"] });
    let share = server.post(&path, &confirmed, 201);
    let page_path = share["share"]["path"].as_str().expect("a path").to_owned();
    let page = server.send_with("GET", &page_path, "", None);
    let page_text = page.text();
    assert_clean("page", &page_text, &absent);
    assert!(!page_text.contains("<script"), "{page_text}");
    let (_, name) = page_path.rsplit_once('/').expect("an id");
    let link = format!("href=\"{name}/1.cast\"");
    for part in [
        &*link,
        "asciinema play",
        "<details>",
        "llm one",
        "the answer",
        "[REDACTED",
    ] {
        assert!(page_text.contains(part), "{part}: {page_text}");
    }
    // A link within the page leads there.
    let cast_path = format!("{page_path}/1.cast");
    let cast = server.send_with("GET", &cast_path, "", None);
    assert_eq!(cast.status, 200, "{}", cast.text());
    for header in [
        "content-type: application/x-asciicast",
        "x-content-type-options: nosniff",
        "content-disposition: attachment; filename=\"recording-1.cast\"",
    ] {
        assert!(cast.head.contains(header), "{header}: {}", cast.head);
    }
    let text = cast.text();
    assert_clean("recording", &text, &absent);
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().expect("a header")).unwrap();
    assert_eq!(header["version"], 3);
    assert!(header.get("command").is_none(), "{header}");
    for line in lines {
        let _: (f64, String, String) = serde_json::from_str(line).expect(line);
    }
    assert!(
        text.contains("\"llm one\"") && text.contains("the answer"),
        "{text}"
    );
    for wrong in [
        "0.cast",
        "2.cast",
        "1",
        "-1.cast",
        "1.cast/",
        "..%2f1.cast",
        "1.html",
    ] {
        let path = format!("{page_path}/{wrong}");
        assert_eq!(
            server.send_with("GET", &path, "", None).status,
            404,
            "{wrong}"
        );
    }
    assert_eq!(pages(&helper).len(), 2);
    // Another share replaces both, and deleting the session removes all.
    let shared = helper.call(["session", "share", &session, "--recordings", "--yes"]);
    shared.run().ok();
    assert_eq!(pages(&helper).len(), 2);
    assert_eq!(server.send_with("GET", &cast_path, "", None).status, 404);
    let deleted = server.send("DELETE", &format!("/v1/sessions/{session}"), None);
    assert_eq!(deleted.status, 204);
    assert!(pages(&helper).is_empty() && listed(&helper).is_empty());
}

#[test]
fn the_preview_in_a_shell_counts_the_recordings() {
    let (helper, session, _) = recorded();
    let mut zsh = Zsh::start(&helper.home);
    zsh.send(format!("clear; llm :share {session} --recordings\r"));
    zsh.wait_text("Share it? [y/N]");
    let screen = zsh.screen();
    assert!(screen.contains("messages, 1 recording ("), "{screen}");
    zsh.send("y\r");
    zsh.wait_text("start the server");
    zsh.prompt();
    assert_eq!(pages(&helper).len(), 2);
    // A session that no recorded shell has used has none.
    zsh.run("llm cats");
    zsh.send("clear; llm :share --recordings\r");
    zsh.wait_text("messages, no recordings, as a page");
    zsh.wait_text("Share it? [y/N]");
    zsh.send("n\r");
    zsh.wait_text("nothing was shared");
}

/// A secret and the names of the user, each cut at every byte into two writes, in colours, and over two rows.
#[test]
fn what_is_split_anywhere_in_a_recording_is_in_no_object_of_a_bucket() {
    let helper = Helper::saying("grey");
    let server = S3Server::start();
    helper.config(&server.settings(""));
    let home = helper.home.path("").display().to_string();
    let home = home.trim_end_matches('/');
    let ms = || {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a time");
        u64::try_from(now.as_millis()).expect("a time")
    };
    let started = ms();
    let ask = || {
        let ask = ["ask", "--shell", SHELL, "--", "cats"];
        with_keys(&helper, ask).run().ok();
    };
    ask();
    let mut recording = RecordingFixture::started(&id(2), 60, 24, started - 1000);
    recording.command(started, "cat file");
    for text in [SECRET, home] {
        for at in 1..text.len() {
            let (one, two) = text.split_at(at);
            recording.output(format!("= {one}")).wait_ms(10);
            recording.output(format!("{two}\r\n"));
            recording.output(format!("= {one}\x1b[3{}m{two}\x1b[m\r\n", at % 8));
            let fill = "x".repeat(60 - at - 1);
            recording.output(format!("{fill} {one}{two}\r\n"));
        }
    }
    recording.wait_ms(60_000).command_end(started, 0);
    ask();
    recording.end(0);
    recording.save(&helper.path("."));
    let session = session(&helper);
    let share = ["session", "share", &session, "--recordings", "--yes"];
    server.take_requests();
    with_keys(&helper, share).run().ok();
    let objects = server.objects();
    assert_eq!(objects.len(), 2);
    for (key, object) in &objects {
        let is_cast = key.ends_with("/1.cast");
        let kind = match is_cast {
            true => "application/x-asciicast",
            false => "text/html; charset=utf-8",
        };
        assert_eq!(object.content_type, kind);
        assert!(object.body.contains("[REDACTED:github-token]"), "{key}");
        // Neither as it is, nor with the text between its parts removed.
        let mut drawn = String::new();
        for line in object.body.lines().skip(1).filter(|_| is_cast) {
            let (_, _, data): (f64, String, String) = serde_json::from_str(line).expect(line);
            drawn.push_str(&strip_ansi_escapes::strip_str(&data).replace(['\r', '\n'], ""));
        }
        for text in [&object.body, &drawn] {
            for start in 4..SECRET.len() - 12 {
                let part = &SECRET[start..start + 12];
                assert!(!text.contains(part), "{part} in {key}");
            }
            assert!(!text.contains(home), "{home} in {key}");
        }
        if !is_cast {
            let url = format!("asciinema play {}/", server.url());
            assert!(object.body.contains(&url), "{}", object.body);
        }
    }
    // The page comes last, and each object is removed and asked for.
    with_keys(&helper, ["session", "unshare", &session])
        .run()
        .ok();
    assert!(server.objects().is_empty() && listed(&helper).is_empty());
    let requests = server.take_requests();
    let steps: Vec<(&str, bool)> = requests
        .iter()
        .map(|request| (request.method.as_str(), request.target.contains("1.cast")))
        .collect();
    let expected = [
        ("PUT", true),
        ("PUT", false),
        ("DELETE", true),
        ("HEAD", true),
        ("DELETE", false),
        ("HEAD", false),
    ];
    assert_eq!(steps, expected);
}
