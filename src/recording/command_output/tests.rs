use std::time::Instant;

use super::*;
use crate::recording::event::{RecordingSource, RecordingStart};
use crate::recording::marks::Mark;
use crate::recording::tests::TestRecording;
use crate::recording::writer::{RecordingWriter, Seen};

/// Enough for a debug build.
const ENOUGH: Duration = Duration::from_secs(2);

fn rendered(output: impl AsRef<[u8]>, limit: Duration) -> RenderedOutput {
    let mut recording = TestRecording::new(40, 10);
    recording.output("~ $ earlier\r\nearlier output\r\n~ $ make\r\n");
    recording.command("1-a@5", "make", output);
    recording.output("~ $ ");
    of(&recording, "1-a@5", limit).unwrap()
}

fn of(recording: &TestRecording, id: &str, limit: Duration) -> Option<RenderedOutput> {
    let recording = recording.open();
    let bytes = find(&recording, |found, _| found == id, None).unwrap()?;
    Some(bytes.rendered(&recording, limit).unwrap())
}

fn text(output: impl AsRef<[u8]>) -> String {
    let found = rendered(output, ENOUGH);
    assert_eq!(found.tail, "");
    match found.head.as_str() {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

#[test]
fn output_is_what_is_left_on_the_screen() {
    for (output, left) in [
        ("", ""),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("\x1b[31mred\x1b[0m\tx\r\n", "red     x\n"),
        // A progress bar, and one of two lines.
        (
            "\r[#  ] 1%\r[## ] 50%\r[###] 100%\r\ndone\r\n",
            "[###] 100%\ndone\n",
        ),
        (
            "a 1\r\nb 1\r\n\x1b[2A\x1b[Ka 2\r\n\x1b[Kb 2\r\n",
            "a 2\nb 2\n",
        ),
        ("abc\x08\x08X\r\n", "aXc\n"),
        // Up from its first row, and back.
        ("abc\x1b[A\x1b[Bdef\r\n", "abcdef\n"),
        ("below\r\x1b[Aabove\r\n\n", "above\nbelow\n"),
        // The alternate screen.
        (
            "before\r\n\x1b[?1049h\x1b[Hvim\r\n\x1b[?1049lafter\r\n",
            "before\nafter\n",
        ),
        // A screen that is redrawn.
        (
            "\x1b[H\x1b[2Jframe 1\r\n\x1b[H\x1b[2Jframe 2\r\n",
            "frame 2\n",
        ),
        // Titles, clipboard, and text beyond UTF-8.
        (
            "\x1b]0;title\x07a\x1b]52;c;eHg=\x1b\\b\x1b]8;;http://x\x07link\x1b]8;;\x07\r\n",
            "ablink\n",
        ),
        ("e\u{301} 日本 \u{1f680}\r\n", "e\u{301} 日本 \u{1f680}\n"),
        // Blank lines before a text are output too.
        ("\r\n\r\nmiddle\r\n\r\n\r\n", "\n\nmiddle\n"),
    ] {
        assert_eq!(text(output), left, "{output:?}");
    }
    assert_eq!(text(b"a\xff\xfeb\r\n"), "a\u{fffd}\u{fffd}b\n");
}

#[test]
fn wrapped_rows_are_one_line() {
    let long = "0123456789".repeat(9);
    assert_eq!(text(format!("{long}\r\nx\r\n")), format!("{long}\nx\n"));
    // A wide character does not fit into the last column.
    let wide = format!("x{}", "漢".repeat(60));
    assert_eq!(text(format!("{wide}\r\n")), format!("{wide}\n"));
    // Also when they have scrolled away.
    let lines: String = (0..50).map(|n| format!("{n} {long}\r\n")).collect();
    let found = rendered(&lines, ENOUGH);
    assert_eq!(found.head + "\n", lines.replace('\r', ""));
    assert_eq!((found.lines, found.omitted), (50, 0));
}

#[test]
fn the_mark_of_zsh_for_open_lines_is_left_out() {
    let mark = format!(
        "\x1b[1m\x1b[7m%\x1b[27m\x1b[1m\x1b[0m{}\r \r",
        " ".repeat(39)
    );
    assert_eq!(text(format!("open{mark}")), "open\n");
    assert_eq!(text(format!("closed\r\n{mark}")), "closed\n");
}

#[test]
fn a_resize_within_a_command_wraps_anew() {
    let mut recording = TestRecording::new(40, 10);
    recording.event(RecordingEvent::CommandStart {
        command_id: "1-a@5".into(),
        text: None,
    });
    recording.output("x".repeat(30) + "\r\n");
    recording.event(RecordingEvent::Resize { cols: 20, rows: 10 });
    recording.output("y".repeat(30) + "\r\n");
    // It has not ended.
    assert_eq!(of(&recording, "1-a@5", ENOUGH), None);
    recording.event(RecordingEvent::CommandEnd {
        command_id: "1-a@5".into(),
        exit: 0,
    });
    let found = of(&recording, "1-a@5", ENOUGH).unwrap();
    assert_eq!(
        found.head,
        format!("{}\n{}", "x".repeat(30), "y".repeat(30))
    );
}

#[test]
fn only_the_command_that_was_asked_for_counts() {
    let mut recording = TestRecording::new(40, 10);
    recording.command("1-a@1", "one", "first\r\n");
    recording.output("$ two\r\n");
    recording.command("1-a@2", "two", "second\r\n");
    recording.event(RecordingEvent::CommandStart {
        command_id: "1-a@3".into(),
        text: None,
    });
    recording.output("third");
    // Its end was lost: what follows may be of the next command.
    recording.command("1-a@4", "four", "fourth\r\n");
    recording.event(RecordingEvent::CommandStart {
        command_id: "1-a@5".into(),
        text: None,
    });
    recording.output("fifth");
    recording.event(RecordingEvent::CommandEnd {
        command_id: "1-a@6".into(),
        exit: 0,
    });
    let text = |id| of(&recording, id, ENOUGH).map(|found| found.head);
    assert_eq!(text("1-a@1").unwrap(), "first");
    assert_eq!(text("1-a@2").unwrap(), "second");
    assert_eq!(text("1-a@3"), None);
    assert_eq!(text("1-a@4").unwrap(), "fourth");
    assert_eq!(text("1-a@5"), None);
    assert_eq!(text("1-a@9"), None);
    assert_eq!(text(""), None);
}

#[test]
fn gaps_are_counted() {
    let mut recording = TestRecording::new(40, 10);
    recording.event(RecordingEvent::CommandStart {
        command_id: "1-a@1".into(),
        text: None,
    });
    recording.output("Password:");
    recording.event(RecordingEvent::Gap {
        reason: crate::recording::event::GapReason::EchoOff,
        bytes: 12,
    });
    recording.event(RecordingEvent::Gap {
        reason: crate::recording::event::GapReason::Dropped,
        bytes: 7,
    });
    recording.output("\r\nok\r\n");
    recording.event(RecordingEvent::CommandEnd {
        command_id: "1-a@1".into(),
        exit: 0,
    });
    let found = of(&recording, "1-a@1", ENOUGH).unwrap();
    assert_eq!((found.head.as_str(), found.omitted), ("Password:\nok", 7));
    assert_eq!(found.lacking, Some(GapReason::Dropped));
}

#[test]
fn an_output_with_gaps_says_why_it_is_not_whole() {
    let gap = |reason| RecordingEvent::Gap { reason, bytes: 9 };
    let limit = GapReason::Limit;
    for (reasons, lacking, omitted) in [
        (vec![], None, 0),
        (vec![GapReason::EchoOff], None, 0),
        (vec![limit], Some(limit), 9),
        (
            vec![GapReason::DiskFull, limit],
            Some(GapReason::DiskFull),
            18,
        ),
        (
            vec![limit, GapReason::NotInHistory, limit],
            Some(GapReason::NotInHistory),
            27,
        ),
    ] {
        let mut recording = TestRecording::new(40, 10);
        recording.event(RecordingEvent::CommandStart {
            command_id: "1-a@1".into(),
            text: None,
        });
        for reason in reasons {
            recording.event(gap(reason));
        }
        recording.event(RecordingEvent::CommandEnd {
            command_id: "1-a@1".into(),
            exit: 0,
        });
        let found = of(&recording, "1-a@1", ENOUGH).unwrap();
        assert_eq!((found.lacking, found.omitted), (lacking, omitted));
        assert_eq!(found.head, "");
    }
}

#[test]
fn of_long_output_both_ends_are_rendered() {
    let lines: String = (0..400_000).map(|n| format!("line {n}\r\n")).collect();
    assert!(lines.len() > 4 << 20);
    let started = Instant::now();
    let found = rendered(&lines, ENOUGH);
    assert!(started.elapsed().as_secs() < 5);
    assert!(found.head.starts_with("line 0\nline 1\n"));
    assert!(found.tail.ends_with("line 399998\nline 399999"));
    for end in [&found.head, &found.tail] {
        assert!(
            (MAX_TEXT - 20..=MAX_TEXT).contains(&end.len()),
            "{}",
            end.len()
        );
    }
    assert_eq!(found.lines, 400_000);
    let whole = lines.len() - 400_000;
    let kept = (found.head.len() + found.tail.len()) as u64 + found.omitted;
    // Line ends count twice in the output.
    assert!(
        kept.abs_diff(whole as u64) < whole as u64 / 8,
        "{kept} {whole}"
    );
}

#[test]
fn output_that_takes_too_long_is_counted() {
    let mut recording = TestRecording::new(40, 10);
    let lines: String = (0..50_000).map(|n| format!("line {n}\r\n")).collect();
    recording.command("1-a@5", "make", &lines);
    let recording = recording.open();
    let bytes = find(&recording, |_, _| true, None).unwrap().unwrap();
    let rendered = bytes.rendered(&recording, Duration::ZERO).unwrap();
    assert_eq!((rendered.head.as_str(), rendered.tail.as_str()), ("", ""));
    assert_eq!(
        (rendered.lines, rendered.omitted),
        (50_000, lines.len() as u64)
    );
}

#[test]
fn hostile_output_costs_bounded_time_and_memory() {
    for hostile in [
        "\x1b[65535b",
        "\x1b#8",
        "\x1b[?1049h\x1b[?1049l",
        "\x1b[9999L",
        "\x1bc",
        "\x1b[2J",
    ] {
        let started = Instant::now();
        let output = "x".to_owned() + &hostile.repeat((3 << 20) / hostile.len());
        let found = rendered(output, Duration::from_millis(300));
        assert!(started.elapsed().as_secs() < 8, "{hostile:?}");
        let kept = found.head.len() + found.tail.len();
        assert!(kept < 1 << 20, "{hostile:?}");
    }
}

#[test]
fn commands_with_the_same_id_are_told_apart_by_their_text() {
    let dir = tempfile::tempdir().unwrap();
    let start: RecordingStart = serde_json::from_str(
        r#"{"version":1,"id":"01a20c0f-8c6e-7353-b130-fab675e05f2b","ms":5,"cols":80,"rows":24,"term":"xterm","shell":null,"source":"relay","tty":"/dev/pts/3","command":null}"#,
    )
    .unwrap();
    assert_eq!(start.source, RecordingSource::Relay);
    let mut writer = RecordingWriter::create(dir.path(), &start, 1 << 20).unwrap();
    let command = |text: &str| {
        Seen::Mark(Mark::CommandStart {
            command_id: "shell@7".to_owned(),
            text: Some(text.to_owned()),
        })
    };
    let end = || Seen::Mark(Mark::CommandEnd { exit: 0 });
    let output = |bytes| Seen::Output {
        bytes,
        left_out: None,
    };
    let seen = [
        command("cd adder"),
        end(),
        command("cargo build"),
        output(5),
        end(),
    ];
    let seen: Vec<(u64, Seen)> = seen.into_iter().map(|seen| (1, seen)).collect();
    writer.record(&seen, b"error");
    let of = |wanted: &str| {
        let is_command = |id: &str, text: Option<&str>| id == "shell@7" && text == Some(wanted);
        let found = of_command(dir.path(), "/dev/pts/3", 7, is_command).unwrap();
        found.map(|found| found.head)
    };
    assert_eq!(of("cargo build"), Some("error".to_owned()));
    assert_eq!(of("cd adder"), Some(String::new()));
    assert_eq!(of("cargo test"), None);
}
