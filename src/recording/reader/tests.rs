use std::fs;

use super::*;
use crate::recording::event::GapReason;

const START: &str = r#"{"us":0,"offset":0,"type":"start","version":1,"id":"a","ms":1700000000000,"cols":80,"rows":24,"term":"xterm","shell":null,"source":"relay","tty":"/dev/pts/3","command":null}"#;

fn recording(events: &str, output: &[u8]) -> (tempfile::TempDir, Result<Recording>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(EVENTS_FILE), events).unwrap();
    fs::write(dir.path().join(OUTPUT_FILE), output).unwrap();
    let opened = Recording::open(dir.path());
    (dir, opened)
}

fn events(text: &str, output: &[u8]) -> Vec<RecordingLine> {
    let (_dir, recording) = recording(&format!("{START}\n{text}"), output);
    let mut reader = recording.unwrap().events().unwrap();
    std::iter::from_fn(|| reader.next_event().unwrap()).collect()
}

fn output(us: u64, offset: u64, bytes: u64) -> RecordingLine {
    RecordingLine {
        us,
        offset,
        event: RecordingEvent::Output { bytes },
    }
}

#[test]
fn output_that_is_written_after_reading_began_is_not_lost() {
    let (dir, recording) = recording(&format!("{START}\n"), b"");
    let mut reader = recording.unwrap().events().unwrap();
    let append = |name: &str, text: &str| {
        let file = fs::OpenOptions::new()
            .append(true)
            .open(dir.path().join(name));
        std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
    };
    append(OUTPUT_FILE, "abc");
    append(
        EVENTS_FILE,
        "{\"us\":10,\"offset\":0,\"type\":\"output\",\"bytes\":3}\n",
    );
    assert_eq!(reader.next_event().unwrap(), Some(output(10, 0, 3)));
    assert_eq!(reader.next_event().unwrap(), None);
}

#[test]
fn events_come_in_order_with_their_output() {
    let found = events(
        "{\"us\":10,\"offset\":0,\"type\":\"output\",\"bytes\":3}\n\
         {\"us\":20,\"offset\":3,\"type\":\"resize\",\"cols\":100,\"rows\":30}\n\
         {\"us\":30,\"offset\":3,\"type\":\"gap\",\"reason\":\"echo_off\",\"bytes\":9}\n\
         {\"bytes\":2,\"type\":\"output\",\"offset\":3,\"us\":40,\"new\":[1]}\n\
         {\"us\":50,\"offset\":5,\"type\":\"end\",\"exit\":0}\n",
        b"abcde",
    );
    let other = |us, event| RecordingLine {
        us,
        offset: if us == 50 { 5 } else { 3 },
        event,
    };
    assert_eq!(
        found,
        [
            output(10, 0, 3),
            other(
                20,
                RecordingEvent::Resize {
                    cols: 100,
                    rows: 30
                }
            ),
            other(
                30,
                RecordingEvent::Gap {
                    reason: GapReason::EchoOff,
                    bytes: 9
                }
            ),
            output(40, 3, 2),
            other(50, RecordingEvent::End { exit: Some(0) }),
        ]
    );
}

#[test]
fn unknown_and_torn_lines_are_skipped() {
    let found = events(
        "{\"us\":10,\"offset\":0,\"type\":\"bell\"}\nnot json\n\n\
         {\"us\":20,\"offset\":0,\"type\":\"output\",\"bytes\":3}\n{\"us\":30,\"offset\":3,\"ty",
        b"abc",
    );
    assert_eq!(
        found,
        [
            RecordingLine {
                us: 10,
                offset: 0,
                event: RecordingEvent::Unknown
            },
            output(20, 0, 3)
        ]
    );
}

#[test]
fn numbers_are_brought_within_limits() {
    let found = events(
        "{\"us\":100,\"offset\":0,\"type\":\"output\",\"bytes\":2}\n\
         {\"us\":50,\"offset\":0,\"type\":\"output\",\"bytes\":1}\n\
         {\"us\":60,\"offset\":18446744073709551615,\"type\":\"output\",\"bytes\":18446744073709551615}\n\
         {\"us\":-5,\"offset\":1,\"type\":\"output\",\"bytes\":1}\n\
         {\"us\":99999999999999999999999,\"offset\":1,\"type\":\"output\",\"bytes\":1}\n\
         {\"us\":18446744073709551615,\"offset\":0,\"type\":\"resize\",\"cols\":0,\"rows\":65535}\n",
        b"abcd",
    );
    // The second output is that of the first again; the third has everything that is left.
    assert_eq!(
        found,
        [
            output(100, 0, 2),
            output(100, 2, 0),
            output(100, 2, 2),
            RecordingLine {
                us: u64::MAX,
                offset: 4,
                event: RecordingEvent::Resize {
                    cols: 1,
                    rows: MAX_ROWS
                }
            },
        ]
    );
}

#[test]
fn output_that_no_event_mentions_is_not_lost() {
    let found = events(
        "{\"us\":10,\"offset\":0,\"type\":\"output\",\"bytes\":1}\n\
         {\"us\":20,\"offset\":3,\"type\":\"output\",\"bytes\":1}\n",
        b"abcdef",
    );
    assert_eq!(
        found,
        [output(10, 0, 1), output(20, 1, 3), output(20, 4, 2)]
    );
    // More than the output has.
    let found = events(
        "{\"us\":10,\"offset\":0,\"type\":\"output\",\"bytes\":100}\n",
        b"ab",
    );
    assert_eq!(found, [output(10, 0, 2)]);
}

#[test]
fn a_line_without_end_is_skipped_with_bounded_memory() {
    let long = "x".repeat(3 * MAX_LINE);
    let found = events(
        &format!("{long}\n{{\"us\":20,\"offset\":0,\"type\":\"output\",\"bytes\":3}}\n{long}"),
        b"abc",
    );
    assert_eq!(found, [output(20, 0, 3)]);
}

#[test]
fn reading_goes_on_at_a_position() {
    let text: String = (1..=50)
        .map(|n| format!("{{\"us\":{n},\"offset\":{n},\"type\":\"output\",\"bytes\":1}}\n"))
        .collect();
    let (_dir, recording) = recording(&format!("{START}\n{text}"), &[b'x'; 51]);
    let recording = recording.unwrap();
    let mut reader = recording.events().unwrap();
    let mut all = Vec::new();
    let mut positions = Vec::new();
    loop {
        positions.push(reader.position());
        let Some(line) = reader.next_event().unwrap() else {
            break;
        };
        all.push(line);
    }
    assert_eq!(all.len(), 50);
    for (at, position) in positions.into_iter().enumerate() {
        let mut reader = recording.events_from(position).unwrap();
        let rest: Vec<_> = std::iter::from_fn(|| reader.next_event().unwrap()).collect();
        assert_eq!(rest, all[at..]);
    }
}

#[test]
fn only_a_start_opens_a_recording() {
    for text in [
        "",
        "\n",
        "{}\n",
        "{\"us\":0,\"offset\":0,\"type\":\"prompt\"}\n",
    ] {
        let (_dir, opened) = recording(text, b"");
        assert!(opened.unwrap_err().message.contains("is not a recording"));
    }
    let (dir, opened) = recording(&format!("{START}\n"), b"");
    assert_eq!(opened.unwrap().start.cols, 80);
    fs::remove_file(dir.path().join(OUTPUT_FILE)).unwrap();
    assert!(Recording::open(dir.path()).is_err());
}

#[test]
fn a_summary_needs_only_both_ends() {
    let middle = "{\"us\":10,\"offset\":0,\"type\":\"prompt\"}\n".repeat(10_000);
    let (_dir, opened) = recording(
        &format!(
            "{START}\n{middle}{{\"us\":5000000,\"offset\":3,\"type\":\"end\",\"exit\":3}}\n{{\"torn"
        ),
        b"abc",
    );
    let summary = opened.unwrap().summary().unwrap();
    assert_eq!(
        (summary.length_us, summary.has_ended, summary.exit),
        (5_000_000, true, Some(3))
    );
    let gap = "{\"us\":9,\"offset\":3,\"type\":\"gap\",\"reason\":\"limit\",\"bytes\":7}\n";
    for (events, is_full) in [
        (middle.clone(), false),
        (format!("{middle}{gap}"), true),
        (
            format!("{middle}{gap}{{\"us\":10,\"offset\":3,\"type\":\"prompt\"}}\n"),
            true,
        ),
        (gap.replace("limit", "disk_full"), false),
    ] {
        let (_dir, opened) = recording(&format!("{START}\n{events}"), b"abc");
        assert_eq!(
            opened.unwrap().summary().unwrap().is_full,
            is_full,
            "{events}"
        );
    }
    let (_dir, opened) = recording(&format!("{START}\n{middle}"), b"abc");
    let summary = opened.unwrap().summary().unwrap();
    assert_eq!((summary.length_us, summary.has_ended), (10, false));
}

#[test]
fn ids_are_found_by_any_unique_part() {
    let dir = tempfile::tempdir().unwrap();
    let first = "0190aaaa-0000-7000-8000-000000001111";
    let second = "0190aaaa-0000-7000-8000-000000002222";
    let third = "0190bbbb-0000-7000-8000-000000003333";
    // A recording that is not complete yet has a point before its id.
    let other = format!(".{third}");
    for name in [first, second, third, &other, "0190bbbb"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let found = |part| find(dir.path(), part).map(|path| path.file_name().unwrap().to_owned());
    assert_eq!(found("0190b").unwrap(), third);
    assert_eq!(found("2222").unwrap(), second);
    assert!(found("0190a").unwrap_err().message.contains("several"));
    assert_eq!(found("bbb").unwrap(), third);
    assert!(found("aaaa").unwrap_err().message.contains("several"));
    assert!(found("cccc").unwrap_err().message.contains("no recording"));
    assert!(found("").is_err());
    assert!(found("..").is_err());
    let missing = dir.path().join("none");
    assert!(list::directories(&missing).unwrap().is_empty());
}
