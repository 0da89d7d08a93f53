//! Recordings for unit tests, written as the format says.

use std::fs;

use tempfile::TempDir;

use super::event::{
    EVENTS_FILE, OUTPUT_FILE, RecordingEvent, RecordingLine, RecordingSource, RecordingStart,
    VERSION,
};
use super::reader::Recording;

/// Writes a recording.
pub struct TestRecording {
    dir: TempDir,
    events: String,
    output: Vec<u8>,
    us: u64,
}

impl TestRecording {
    /// Starts a recording of a terminal of this size.
    pub fn new(cols: u16, rows: u16) -> TestRecording {
        let mut recording = TestRecording {
            dir: tempfile::tempdir().unwrap(),
            events: String::new(),
            output: Vec::new(),
            us: 0,
        };
        recording.event(RecordingEvent::Start(RecordingStart {
            version: VERSION,
            id: "test".into(),
            ms: 1_700_000_000_000,
            cols,
            rows,
            term: "xterm-256color".into(),
            shell: None,
            source: RecordingSource::Relay,
            tty: "/dev/pts/9".into(),
            relay_tty: String::new(),
            command: None,
        }));
        recording
    }

    /// Lets time pass.
    pub fn wait(&mut self, us: u64) -> &mut Self {
        self.us += us;
        self
    }

    /// Adds an event.
    pub fn event(&mut self, event: RecordingEvent) -> &mut Self {
        let line = RecordingLine {
            us: self.us,
            offset: self.output.len() as u64,
            event,
        };
        self.events.push_str(&serde_json::to_string(&line).unwrap());
        self.events.push('\n');
        self
    }

    /// Adds output that came without a pause.
    pub fn output(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.event(RecordingEvent::Output {
            bytes: bytes.len() as u64,
        });
        self.output.extend_from_slice(bytes);
        self
    }

    /// Adds a command with its output.
    pub fn command(&mut self, id: &str, text: &str, output: impl AsRef<[u8]>) -> &mut Self {
        self.event(RecordingEvent::CommandStart {
            command_id: id.into(),
            text: Some(text.into()),
        });
        self.output(output);
        self.event(RecordingEvent::CommandEnd {
            command_id: id.into(),
            exit: 0,
        });
        self.event(RecordingEvent::Prompt)
    }

    /// Writes the files and opens them.
    pub fn open(&self) -> Recording {
        fs::write(self.dir.path().join(EVENTS_FILE), &self.events).unwrap();
        fs::write(self.dir.path().join(OUTPUT_FILE), &self.output).unwrap();
        Recording::open(self.dir.path()).unwrap()
    }
}

mod hostile {
    use std::fs;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::TestRecording;
    use crate::recording::event::{EVENTS_FILE, OUTPUT_FILE};
    use crate::recording::part::RecordingPart;
    use crate::recording::player::Player;
    use crate::recording::replay_index::ReplayIndex;
    use crate::recording::secrets::RecordingSecrets;
    use crate::recording::{asciicast, command_output, commands, transcript};
    use crate::safety::own_names::OwnNames;
    use crate::safety::redact::Redactor;

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            "[0-9]{1,3}",
            Just("18446744073709551615".into()),
            Just("-1".into()),
            Just("1e9".into()),
            Just("65535".into()),
            Just("null".into()),
        ]
    }

    fn line() -> impl Strategy<Value = String> {
        let kind = prop_oneof![
            number().prop_map(|n| format!(r#""type":"output","bytes":{n}"#)),
            (number(), number())
                .prop_map(|(c, r)| format!(r#""type":"resize","cols":{c},"rows":{r}"#)),
            number().prop_map(|n| format!(r#""type":"gap","reason":"limit","bytes":{n}"#)),
            Just(r#""type":"command_start","command_id":"a@1","text":"\u001b[2Jx""#.into()),
            number().prop_map(|n| format!(r#""type":"command_end","command_id":"a@1","exit":{n}"#)),
            Just(r#""type":"alternate_screen","on":true"#.into()),
            number().prop_map(|n| format!(r#""type":"end","exit":{n}"#)),
            "[ -~]{0,20}",
        ];
        (number(), number(), kind)
            .prop_map(|(us, offset, kind)| format!(r#"{{"us":{us},"offset":{offset},{kind}}}"#))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn recordings_of_any_content_can_be_read_exported_and_played(
            lines in prop::collection::vec(line(), 0..12),
            output in prop::collection::vec(prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                "\x1b\\[[0-9;?]{0,7}[@-~]".prop_map(String::into_bytes),
                Just(b"password=hunter2hunter2 ".to_vec()),
            ], 0..60),
        ) {
            let fixture = TestRecording::new(30, 8);
            let recording = fixture.open();
            let start = fs::read_to_string(recording.dir.join(EVENTS_FILE)).unwrap();
            fs::write(recording.dir.join(EVENTS_FILE), start + &lines.join("\n") + "\n").unwrap();
            fs::write(recording.dir.join(OUTPUT_FILE), output.concat()).unwrap();
            recording.summary().unwrap();
            if let Some(bytes) = command_output::find(&recording, |id, _| id == "a@1", None).unwrap() {
                bytes.rendered(&recording, Duration::from_millis(300)).unwrap();
            }
            let secrets = RecordingSecrets::find(&recording, &Redactor::default(), &OwnNames::default()).unwrap();
            let all = commands::commands(&recording).unwrap();
            let mut parts = vec![RecordingPart::whole(&recording)];
            if let (Some(first), Some(last)) = (all.first(), all.last()) {
                parts.push(RecordingPart::of_commands(&recording, first, last).unwrap());
            }
            for part in parts {
                let (mut cast, mut text) = (Vec::new(), Vec::new());
                asciicast::export(&recording, &part, &secrets, &mut cast).unwrap();
                transcript::export(&recording, &part, &secrets, &mut text).unwrap();
                for line in std::str::from_utf8(&cast).unwrap().lines() {
                    let _: serde_json::Value = serde_json::from_str(line).unwrap();
                }
                prop_assert!(!text.iter().any(|b| b.is_ascii_control() && *b != b'\n'));
            }
            let recording = Arc::new(recording);
            let index = ReplayIndex::build(&recording);
            let mut player = Player::new(Arc::clone(&recording), Arc::clone(&index)).unwrap().unwrap();
            for us in [u64::MAX, 0, 500] {
                player.seek(us).unwrap();
                player.advance(us, Instant::now() + Duration::from_secs(5)).unwrap();
            }
            index.stop();
        }
    }
}
