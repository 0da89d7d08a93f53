use super::*;
use crate::recording::event::RecordingEvent;
use crate::recording::tests::TestRecording;
use std::time::Instant;

fn rendered(output: impl AsRef<[u8]>) -> RenderedOutput {
    let mut recording = TestRecording::new(40, 10);
    recording.output("~ $ earlier\r\nearlier output\r\n~ $ make\r\n");
    recording.command("1-a@5", "make", output);
    recording.output("~ $ ");
    let found = rendered_output(&recording.open(), "1-a@5").unwrap();
    found.unwrap()
}

fn text(output: impl AsRef<[u8]>) -> String {
    rendered(output).text
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
        // The alternate screen.
        (
            "before\r\n\x1b[?1049h\x1b[Hvim\r\n\x1b[?1049lafter\r\n",
            "before\nafter\n",
        ),
        // A screen that is drawn anew.
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
        ("\r\n\r\nmiddle\r\n\r\n\r\n", "middle\n"),
    ] {
        assert_eq!(text(output), left, "{output:?}");
    }
    assert_eq!(text(b"a\xff\xfeb\r\n"), "a\u{fffd}\u{fffd}b\n");
}

#[test]
fn wrapped_rows_are_one_line() {
    let long = "0123456789".repeat(9);
    assert_eq!(text(format!("{long}\r\nx\r\n")), format!("{long}\nx\n"));
    // Also when they have scrolled away.
    let lines: String = (0..50).map(|n| format!("{n} {long}\r\n")).collect();
    let found = rendered(&lines);
    assert_eq!(found.text, lines.replace('\r', ""));
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
    let found = rendered_output(&recording.open(), "1-a@5")
        .unwrap()
        .unwrap();
    assert_eq!(
        found.text,
        format!("{}\n{}\n", "x".repeat(30), "y".repeat(30))
    );
    assert!(found.is_running);
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
    // Its end was lost: the next command ends it.
    recording.command("1-a@4", "four", "fourth\r\n");
    let recording = recording.open();
    let text = |id| {
        rendered_output(&recording, id)
            .unwrap()
            .map(|found| found.text)
    };
    assert_eq!(text("1-a@1").unwrap(), "first\n");
    assert_eq!(text("1-a@2").unwrap(), "second\n");
    assert_eq!(text("1-a@3").unwrap(), "third\n");
    assert_eq!(text("1-a@4").unwrap(), "fourth\n");
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
    recording.output("\r\nok\r\n");
    let found = rendered_output(&recording.open(), "1-a@1")
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.text.as_str(), found.omitted),
        ("Password:\nok\n", 12)
    );
}

#[test]
fn of_long_output_both_ends_are_rendered() {
    let lines: String = (0..400_000).map(|n| format!("line {n}\r\n")).collect();
    assert!(lines.len() > 4 << 20);
    let started = Instant::now();
    let found = rendered(&lines);
    assert!(started.elapsed().as_secs() < 5);
    assert!(found.text.starts_with("line 0\nline 1\n"));
    assert!(found.text.ends_with("line 399998\nline 399999\n"));
    assert!(found.text.contains(" bytes left out]\n"));
    assert!(found.text.len() < 512 << 10);
    assert_eq!(found.lines, 400_000);
    let whole = lines.len() - 400_000;
    let kept = found.text.len() as u64 + found.omitted;
    // Line ends count twice in the output.
    assert!(
        kept.abs_diff(whole as u64) < whole as u64 / 8,
        "{kept} {whole}"
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
        let found = rendered("x".to_owned() + &hostile.repeat((3 << 20) / hostile.len()));
        assert!(started.elapsed().as_secs() < 8, "{hostile:?}");
        assert!(found.text.len() < 1 << 20, "{hostile:?}");
    }
}

#[test]
fn a_dump_restores_the_screen() {
    let mut screen = ScreenEmulator::new(30, 6).unwrap();
    screen.feed("one\r\n\x1b[31mred \x1b[2;4r\x1b[?1049haltern\x1b[5".as_bytes());
    let mut restored = ScreenEmulator::restored(30, 6, &screen.dump().unwrap()).unwrap();
    for screen in [&mut screen, &mut restored] {
        screen.feed(b"Ax\xe6\x97");
        assert_eq!(screen.dump(), None, "within a character");
        screen.feed(b"\xa5\x1b[?1049l!\r\n\n\n\nlast");
    }
    let lines = |screen: &ScreenEmulator| -> Vec<_> {
        let lines = screen.terminal().screen().visible_lines();
        lines.map(|line| line.cells().to_vec()).collect()
    };
    assert_eq!(lines(&screen), lines(&restored));
    assert_eq!(screen.dump(), restored.dump());
}
