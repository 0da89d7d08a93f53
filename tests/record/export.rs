//! `aish-helper recording`: the list, the commands of a recording, exports and deletion.

use std::fs;

use serde_json::Value;

use super::recordings::RecordingFixture;
use crate::support::helper::Helper;
use crate::support::home::Home;
use crate::support::pty::Zsh;

const ID: &str = "0193a000-0000-7000-8000-0000000000a1";
const OTHER: &str = "0193a001-0000-7000-8000-0000000000b2";

/// A session with a build that fails, a resize, and a full-screen program.
fn session() -> RecordingFixture {
    let mut recording = RecordingFixture::new(ID, 80, 24);
    recording.wait_ms(500).command(1, "make");
    recording.wait_ms(250).output("cc -c ma");
    recording
        .wait_ms(1)
        .output("in.c\r\n\x1b[31merror\x1b[0m: ä");
    recording
        .wait_ms(1000)
        .output("\r\x1b[Kdone\r\n")
        .command_end(1, 2);
    recording.event(serde_json::json!({ "type": "resize", "cols": 100, "rows": 30 }));
    recording.wait_ms(61_000).command(2, "vi x");
    recording.output(
        "\x1b[?1049h\x1b[Halternate\x1b]0;title\x07\x1b]52;c;c2VjcmV0\x07\x1b[6n\x1b[?1049l",
    );
    recording.wait_ms(2000).command_end(2, 0).end(0);
    recording
}

fn saved(recording: &RecordingFixture) -> Helper {
    let helper = Helper::new([]);
    recording.save(&helper.path(""));
    helper
}

/// Checks a cast as a reader of asciicast version 3 does, and returns its header and events.
pub fn parse_cast(cast: &str) -> (Value, Vec<(f64, String, String)>) {
    let mut lines = cast.split_terminator('\n');
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["version"], 3);
    assert!(
        header["term"]["cols"].as_u64().unwrap() > 0
            && header["term"]["rows"].as_u64().unwrap() > 0
    );
    assert!(header["timestamp"].is_u64());
    let events = lines.map(|line| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let [interval, code, data] = &event.as_array().unwrap()[..] else {
            panic!("{line}");
        };
        let interval = interval.as_f64().unwrap();
        assert!(interval >= 0.0);
        let (code, data) = (code.as_str().unwrap(), data.as_str().unwrap());
        match code {
            "o" | "m" => {}
            "r" => {
                let (cols, rows) = data.split_once('x').unwrap();
                assert!(cols.parse::<u16>().is_ok() && rows.parse::<u16>().is_ok());
            }
            "x" => assert!(data.parse::<i32>().is_ok()),
            other => panic!("event {other}"),
        }
        (interval, code.to_owned(), data.to_owned())
    });
    (header.clone(), events.collect())
}

/// Output of a cast, put together.
pub fn cast_output(cast: &str) -> String {
    let (_, events) = parse_cast(cast);
    let output = events.into_iter().filter(|(_, code, _)| code == "o");
    output.map(|(_, _, data)| data).collect()
}

#[test]
fn list_and_show_tell_what_was_recorded() {
    let helper = saved(&session());
    let mut open = RecordingFixture::new(OTHER, 90, 20);
    open.output("x").save(&helper.path(""));
    let list = helper.call(["recording", "list"]).run().ok();
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[0].starts_with("id "), "{list}");
    assert!(
        lines[1].starts_with("000000a1") && lines[1].contains(" 1:04 "),
        "{list}"
    );
    assert!(
        lines[1].contains(" 80×24 ")
            && lines[1].contains(" relay ")
            && lines[1].contains("  exit 0 ")
            && lines[1].ends_with("77-abc")
    );
    assert!(
        lines[2].starts_with("000000b2") && lines[2].contains("  cut off  "),
        "{list}"
    );
    let json = helper.call(["recording", "list", "--json"]).run().ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["id"], ID);
    assert_eq!(json[0]["length_ms"], 64_751);
    assert_eq!(
        (&json[0]["ended"], &json[1]["ended"]),
        (&true.into(), &false.into())
    );
    // By a part of the id.
    let shown = helper.call(["recording", "show", "000000a1"]).run().ok();
    assert!(shown.contains("2 commands\n1  0:00"), "{shown}");
    assert!(shown.contains("1.2 s  exit 2  make\n"), "{shown}");
    let json = helper
        .call(["recording", "show", "3a000", "--json"])
        .run()
        .ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["commands"][1]["text"], "vi x");
    assert_eq!(json["commands"][1]["duration_ms"], 2000);
    assert_eq!(json["commands"][0]["exit"], 2);
    assert!(
        helper
            .call(["recording", "show", "0193a"])
            .run()
            .fails(2)
            .contains("several")
    );
    assert!(
        helper
            .call(["recording", "show", "nothing"])
            .run()
            .fails(2)
            .contains("no recording")
    );
    assert!(helper.listener().is_none(), "no daemon was started");
}

#[test]
fn what_an_export_redacts_is_not_shown_with_the_commands() {
    // The output shows that the word is secret; the command line alone does not.
    let mut recording = RecordingFixture::new(ID, 80, 24);
    recording.command(1, "cat token");
    recording
        .output("export API_TOKEN=Xq7vTz19LmWe4Kd8\r\n")
        .command_end(1, 0);
    recording.command(2, "login Xq7vTz19LmWe4Kd8");
    recording.output("ok\r\n").command_end(2, 0).end(0);
    let helper = saved(&recording);
    let run = |args: &[&str]| helper.call(["recording"]).args(args).run().ok();
    for args in [
        &["export", ID, "--format", "text"][..],
        &["show", ID],
        &["show", ID, "--json"],
    ] {
        let text = run(args);
        assert!(
            text.contains("login ") && !text.contains("Xq7vTz"),
            "{text}"
        );
    }
}

/// A recorder locks the events while it writes.
#[test]
fn a_recording_that_is_written_says_so_and_is_not_deleted() {
    let helper = Helper::new([]);
    let mut open = RecordingFixture::new(ID, 90, 20);
    let dir = open.output("x").save(&helper.path(""));
    let events = fs::File::open(dir.join("events.jsonl")).unwrap();
    let lock = nix::fcntl::Flock::lock(events, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let list = helper.call(["recording", "list"]).run().ok();
    assert!(list.contains("  recording  "), "{list}");
    let refused = helper.call(["recording", "delete", "--yes", ID]).run();
    assert!(refused.fails(2).contains("is still recording"));
    drop(lock);
    let list = helper.call(["recording", "list"]).run().ok();
    assert!(list.contains("  cut off  "), "{list}");
    helper.call(["recording", "delete", "--yes", ID]).run().ok();
    assert!(!dir.exists());
}

#[test]
fn no_recordings_are_no_error() {
    let helper = Helper::new([]);
    assert_eq!(
        helper.call(["recording", "list"]).run().ok(),
        "no recordings yet\n"
    );
    assert_eq!(
        helper.call(["recording", "list", "--json"]).run().ok(),
        "[]\n"
    );
}

#[test]
fn a_cast_has_the_events_in_order() {
    let helper = saved(&session());
    let cast = helper
        .call(["recording", "export", ID, "--format", "cast"])
        .run()
        .ok();
    let (header, events) = parse_cast(&cast);
    assert_eq!(header["term"]["type"], "xterm-256color");
    assert_eq!(header["timestamp"], 1_763_956_800);
    let codes: String = events.iter().map(|(_, code, _)| code.as_str()).collect();
    assert_eq!(codes, "omooorom".to_owned() + "ox");
    let total: f64 = events.iter().map(|(interval, ..)| interval).sum();
    assert!((total - 64.751).abs() < 1e-6, "{total}");
    let data: Vec<_> = events.iter().map(|(_, _, data)| data.as_str()).collect();
    assert_eq!(
        (data[1], data[5], data[7], data[9]),
        ("make", "100x30", "vi x", "0")
    );
    assert_eq!(data[3], "in.c\r\n\x1b[31merror\x1b[0m: ä");
    // Nothing but what draws.
    for absent in ["title", "c2VjcmV0", "\u{1b}]", "\x1b[6n"] {
        assert!(!cast_output(&cast).contains(absent), "{absent:?}");
    }
    assert!(data[8].contains("alternate"));
}

#[test]
fn characters_that_are_split_over_writes_are_joined_and_invalid_bytes_replaced() {
    let mut recording = RecordingFixture::new(ID, 80, 24);
    for byte in "日ä".bytes() {
        recording.wait_ms(10).output([byte]);
    }
    recording
        .output(b"\xff\x1b[3")
        .output(b"1mred\xe6")
        .output("x")
        .end(0);
    let helper = saved(&recording);
    let cast = helper
        .call(["recording", "export", ID, "--format", "cast"])
        .run()
        .ok();
    assert_eq!(cast_output(&cast), "日ä\u{fffd}\x1b[31mred\u{fffd}x");
}

/// The screen after a cast is the screen after the recording.
#[test]
fn a_cast_draws_what_the_terminal_showed() {
    let mut recording = RecordingFixture::new(ID, 60, 12);
    recording.output("\x1b[1;38;5;208mcolors\x1b[48;2;1;2;3m rgb\x1b[0m \x1b[4munder\x1b[24m\r\n");
    recording.output("\x1b(0lqqk\x1b(B\r\n\x1b[5;8r\x1b[6;1Hregion\x1b[3Mx\x1b[r\x1b[10;3Hat\x1b7\x1b[1;1H\x1b8 10");
    recording
        .output("日本\x1b[4D!\x1b[2;5H\x1b[2@ab\x1b[3X\x1b[?7l")
        .end(0);
    let helper = saved(&recording);
    let cast = helper
        .call(["recording", "export", ID, "--format", "cast"])
        .run()
        .ok();
    let screen = |output: &[u8]| {
        let size = |n| std::num::NonZeroU16::new(n).unwrap();
        let mut parser = vt100::Parser::new(size(12), size(60), 0);
        parser.process(output);
        parser.screen().contents_formatted()
    };
    assert_eq!(
        screen(cast_output(&cast).as_bytes()),
        screen(&recording.output)
    );
}

#[test]
fn text_is_what_a_person_saw_and_raw_what_the_terminal_got() {
    let recording = session();
    let helper = saved(&recording);
    let text = helper
        .call(["recording", "export", ID, "--format", "text"])
        .run()
        .ok();
    assert_eq!(text, "$ make\ncc -c main.c\ndone\n$ vi x\n");
    let file = helper.home.path("raw");
    let file = file.to_str().unwrap();
    let exported = helper
        .call([
            "recording",
            "export",
            ID,
            "--format",
            "raw",
            "--output",
            file,
        ])
        .run();
    assert!(exported.stderr.contains("not redacted"), "{exported:?}");
    assert_eq!(fs::read(file).unwrap(), recording.output);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // A second export does not replace it without being told to.
    fs::write(file, "mine").unwrap();
    let args = ["recording", "export", ID, "--format", "text", "--output"];
    let refused = helper.call(args).args([file]).run().fails(2);
    assert!(
        refused.contains("exists already") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    helper.call(args).args([file, "--force"]).run().ok();
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    helper.call(args).args(["/dev/null"]).run().ok();
}

#[test]
fn raw_output_is_kept_from_a_terminal_and_text_is_safe_on_it() {
    let home = Home::new();
    let mut recording = RecordingFixture::new(ID, 80, 24);
    recording
        .output("\x1b]0;owned\x07plain \u{202e}text\r\n")
        .end(0);
    recording.save(&home.path("aish"));
    let mut zsh = Zsh::start(&home);
    zsh.run(&format!("aish-helper recording export {ID} --format raw"));
    zsh.wait_text("raw output is not written to a terminal");
    zsh.run(&format!("aish-helper recording export {ID} --format text"));
    zsh.wait_text("plain \\u{202e}text");
    assert!(!String::from_utf8_lossy(&zsh.raw()).contains("owned"));
    zsh.exit();
}

#[test]
fn deletion_is_asked_about() {
    let home = Home::new();
    let dir = session().save(&home.path("aish"));
    let mut zsh = Zsh::start(&home);
    zsh.send("aish-helper recording delete 000000a1\r");
    zsh.wait_text("Delete it for good? [y/N]");
    zsh.send("n\r");
    zsh.prompt();
    zsh.wait_text("nothing was deleted");
    assert!(dir.exists());
    zsh.send("aish-helper recording delete 000000a1\r");
    zsh.wait_for("the second question", |s| {
        s.contents().matches("[y/N]").count() == 2
    });
    zsh.send("y\r");
    zsh.prompt();
    zsh.wait_text("deleted 1 recording");
    assert!(!dir.exists());
    zsh.exit();
}

#[test]
fn scripts_delete_with_an_option_only() {
    let helper = saved(&session());
    let other = RecordingFixture::new(OTHER, 80, 24);
    other.save(&helper.path(""));
    // No terminal to ask on.
    helper.call(["recording", "delete", ID]).run().fails(4);
    let deleted = helper
        .call(["recording", "delete", "--yes", ID, OTHER, "000000b2"])
        .run()
        .ok();
    assert_eq!(deleted, "deleted 2 recordings\n");
    assert_eq!(
        helper.call(["recording", "list"]).run().ok(),
        "no recordings yet\n"
    );
}
