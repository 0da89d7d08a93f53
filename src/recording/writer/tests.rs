use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::protocol::ShellId;
use crate::recording::event::{RecordingSource, VERSION};

struct Recording {
    home: tempfile::TempDir,
    writer: RecordingWriter,
    us: u64,
}

fn recording(max_bytes: u64) -> Recording {
    let home = tempfile::tempdir().unwrap();
    let start = RecordingStart {
        version: VERSION,
        id: "one".into(),
        ms: 5,
        cols: 80,
        rows: 24,
        term: "xterm".into(),
        shell: None,
        source: RecordingSource::Relay,
        tty: "/dev/pts/0".into(),
        relay_tty: String::new(),
        command: None,
    };
    let writer = RecordingWriter::create(&home.path().join("all"), &start, max_bytes).unwrap();
    Recording {
        home,
        writer,
        us: 0,
    }
}

impl Recording {
    fn seen(&mut self, seen: Seen) {
        self.us += 1;
        self.writer.record(&[(self.us, seen)], b"");
    }

    fn mark(&mut self, mark: Mark) {
        self.seen(Seen::Mark(mark));
    }

    fn output(&mut self, text: &str) {
        self.left_out(text, None);
    }

    fn left_out(&mut self, text: &str, left_out: Option<GapReason>) {
        self.us += 1;
        let bytes = text.len();
        let seen = Seen::Output { bytes, left_out };
        self.writer.record(&[(self.us, seen)], text.as_bytes());
    }

    fn command(&mut self, text: Option<&str>) {
        self.mark(Mark::CommandStart {
            command_id: "1-1@2".into(),
            text: text.map(str::to_owned),
        });
    }

    fn end(&mut self, hung_up: bool) {
        self.seen(Seen::End {
            exit: Some(0),
            hung_up,
        });
    }

    fn text(&self) -> String {
        fs::read_to_string(self.writer.dir().join(OUTPUT_FILE)).unwrap()
    }

    /// The events after the start, as `offset type …`.
    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.writer.dir().join(EVENTS_FILE)).unwrap();
        let lines = text.lines().skip(1);
        let lines = lines.map(|line| serde_json::from_str::<RecordingLine>(line).unwrap());
        let shown = |line: RecordingLine| match line.event {
            RecordingEvent::Output { bytes } => format!("{} output {bytes}", line.offset),
            RecordingEvent::Gap { reason, bytes } => {
                format!("{} gap {reason:?} {bytes}", line.offset)
            }
            RecordingEvent::Resize { cols, rows } => {
                format!("{} resize {cols} {rows}", line.offset)
            }
            RecordingEvent::AlternateScreen { on } => format!("{} screen {on}", line.offset),
            RecordingEvent::CommandStart { text, .. } => format!("{} start {text:?}", line.offset),
            RecordingEvent::CommandEnd { exit, .. } => format!("{} end {exit}", line.offset),
            RecordingEvent::Prompt => format!("{} prompt", line.offset),
            RecordingEvent::End { .. } => format!("{} the end", line.offset),
            event => format!("{event:?}"),
        };
        lines.map(shown).collect()
    }
}

#[test]
fn only_the_user_can_read_a_recording() {
    let recording = recording(1 << 20);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = recording.writer.dir();
    let all = dir.parent().unwrap();
    assert_eq!((mode(all), mode(dir)), (0o700, 0o700));
    assert_eq!(mode(&dir.join(OUTPUT_FILE)), 0o600);
    assert_eq!(mode(&dir.join(EVENTS_FILE)), 0o600);
    // No temporary directory stays.
    assert_eq!(fs::read_dir(all).unwrap().count(), 1);
    assert!(recording.home.path().exists());
}

#[test]
fn a_forgotten_command_is_cut_off_with_its_line() {
    let mut recording = recording(1 << 20);
    recording.output("start\n");
    recording.mark(Mark::Prompt);
    recording.output("$ ");
    recording.seen(Seen::Resize(90, 20));
    recording.output(" secret\n");
    recording.command(None);
    recording.output("its output\x1b[?1049h");
    recording.mark(Mark::CommandEnd { exit: 4 });
    recording.mark(Mark::Prompt);
    recording.output("$ true\n");
    recording.command(Some("true"));
    recording.mark(Mark::CommandEnd { exit: 0 });
    assert_eq!(recording.text(), "start\n$ true\n");
    let expected = [
        "0 output 6",
        "6 prompt",
        "6 resize 90 20",
        "6 start None",
        "6 gap NotInHistory 28",
        "6 screen true",
        "6 end 4",
        "6 prompt",
        "6 output 7",
        "13 start Some(\"true\")",
        "13 end 0",
    ];
    assert_eq!(recording.events(), expected);
}

#[test]
fn a_line_that_is_being_typed_when_the_terminal_closes_is_cut_off() {
    for (hung_up, text) in [(true, "x"), (false, "x$ half")] {
        let mut recording = recording(1 << 20);
        recording.output("x");
        recording.mark(Mark::Prompt);
        recording.output("$ half");
        recording.end(hung_up);
        assert_eq!(recording.text(), text);
        let gap = recording
            .events()
            .contains(&"1 gap NotInHistory 6".to_owned());
        assert_eq!(gap, hung_up);
    }
}

#[test]
fn what_is_left_out_is_counted_where_it_ends() {
    let mut recording = recording(1 << 20);
    recording.output("a");
    recording.left_out("bcd", Some(GapReason::EchoOff));
    recording.left_out("ef\x1b[?47h", Some(GapReason::EchoOff));
    recording.seen(Seen::Dropped(100));
    recording.output("g");
    recording.end(false);
    assert_eq!(recording.text(), "ag");
    let expected = [
        "0 output 1",
        "1 gap EchoOff 11",
        "1 screen true",
        "1 gap Dropped 100",
        "1 output 1",
        "2 the end",
    ];
    assert_eq!(recording.events(), expected);
}

#[test]
fn of_the_line_ends_in_a_gap_without_echo_one_stays() {
    let mut recording = recording(1 << 20);
    recording.output("password: ");
    recording.left_out("\r\n", Some(GapReason::EchoOff));
    recording.output("one\r\n");
    recording.left_out("again:", Some(GapReason::EchoOff));
    recording.left_out(" got\r\nit\r\n\x1b[?1049h", Some(GapReason::EchoOff));
    recording.output("two\r\n");
    // Of what the history forgets nothing stays.
    recording.mark(Mark::Prompt);
    recording.command(None);
    recording.left_out("\r\n", Some(GapReason::EchoOff));
    recording.mark(Mark::CommandEnd { exit: 0 });
    recording.left_out("none", Some(GapReason::EchoOff));
    recording.output("three");
    assert_eq!(recording.text(), "password: \r\none\r\n\r\ntwo\r\nthree");
    let expected = [
        "0 output 10",
        "10 output 2",
        "12 output 5",
        "17 gap EchoOff 22",
        "17 output 2",
        "19 screen true",
        "19 output 5",
        "24 prompt",
        "24 start None",
        "24 gap NotInHistory 2",
        "24 end 0",
        "24 gap EchoOff 4",
        "24 output 5",
    ];
    assert_eq!(recording.events(), expected);
}

#[test]
fn a_recording_stops_at_its_maximum_size() {
    let mut recording = recording(1000);
    recording.output(&"x".repeat(400));
    recording.output(&"y".repeat(600));
    recording.output(&"z".repeat(50));
    recording.mark(Mark::Prompt);
    recording.output("more");
    recording.end(false);
    assert_eq!(recording.text(), "x".repeat(400));
    let expected = [
        "0 output 400",
        "400 gap Limit 600",
        // Events go on while there is space for them.
        "400 gap Limit 50",
        "400 prompt",
        "400 gap Limit 4",
        "400 the end",
    ];
    assert_eq!(recording.events(), expected);
}

#[test]
fn a_disk_that_fails_for_a_while_costs_only_output() {
    let mut recording = recording(1 << 20);
    recording.output("a");
    // Any write fails.
    let output = std::mem::replace(&mut recording.writer.output, read_only());
    recording.output("bcd");
    recording.command(Some("true"));
    recording.output("ef");
    recording.output("gh");
    recording.writer.output = output;
    recording.output("i");
    // `cut` on the other file fails too: the recording has ended.
    assert!(recording.writer.broken);
    assert_eq!(recording.text(), "a");

    let mut recording = self::recording(1 << 20);
    recording.output("a");
    recording.writer.plan = vec![
        (1, RecordingEvent::Output { bytes: 2 }),
        (2, RecordingEvent::Prompt),
        (3, RecordingEvent::Output { bytes: 3 }),
        (4, RecordingEvent::Output { bytes: 4 }),
    ];
    recording.writer.lose_output(GapReason::DiskFull);
    recording.output("i");
    let expected = [
        "0 output 1",
        "1 gap DiskFull 2",
        "1 prompt",
        "1 gap DiskFull 7",
        "1 output 1",
    ];
    assert_eq!(recording.events(), expected);
}

fn read_only() -> File {
    File::open("/dev/null").unwrap()
}

#[test]
fn waiting_events_are_bounded() {
    let mut recording = recording(1 << 20);
    for n in 0..3 * MAX_WAITING as u64 {
        let event = match n % 2 {
            0 => RecordingEvent::Prompt,
            _ => RecordingEvent::Output { bytes: 1 },
        };
        recording.writer.plan.push((n, event));
    }
    recording.writer.lose_output(GapReason::DiskFull);
    let plan = &recording.writer.plan;
    assert!(plan.len() <= MAX_WAITING + 1, "{}", plan.len());
    let bytes = plan.iter().map(|(_, event)| match event {
        RecordingEvent::Gap { bytes, .. } => *bytes,
        _ => 0,
    });
    assert_eq!(bytes.sum::<u64>(), 3 * MAX_WAITING as u64 / 2);
}

#[test]
fn a_command_ends_after_the_nested_shell_that_it_started() {
    let ends = |marks: &str| -> Vec<String> {
        let mut recording = recording(1 << 20);
        for mark in marks.split(' ') {
            recording.mark(match mark {
                "prompt" => Mark::Prompt,
                "bye" => Mark::Bye,
                "hello" => Mark::Hello(ShellId::parse("2-2").unwrap()),
                mark => match mark.parse() {
                    Ok(exit) => Mark::CommandEnd { exit },
                    Err(_) => Mark::CommandStart {
                        command_id: mark.into(),
                        text: Some("x".into()),
                    },
                },
            });
        }
        recording.end(false);
        let text = fs::read_to_string(recording.writer.dir().join(EVENTS_FILE)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let end = |line: RecordingLine| match line.event {
            RecordingEvent::CommandEnd { command_id, exit } => Some(format!("{command_id}={exit}")),
            _ => None,
        };
        lines.filter_map(end).collect()
    };
    for (marks, wanted) in [
        // Left by Ctrl-D, after a command and an empty line.
        (
            "a@1 hello b@2 3 prompt 0 prompt bye 5 prompt",
            "b@2=3 a@1=5",
        ),
        ("a@1 hello 0 prompt bye 5 prompt", "a@1=5"),
        // Left by a command.
        ("a@1 hello b@2 bye 5 prompt a@6 7", "b@2=5 a@1=5 a@6=7"),
        // Killed, and told by the outer shell.
        ("a@1 hello b@2 137 prompt a@3 4 prompt", "b@2=137 a@3=4"),
        (
            "a@1 hello b@2 hello c@3 bye 1 prompt bye 2",
            "c@3=1 b@2=1 a@1=2",
        ),
        ("a@1 2 prompt 2 prompt", "a@1=2"),
    ] {
        assert_eq!(ends(marks).join(" "), wanted, "{marks}");
    }
}
