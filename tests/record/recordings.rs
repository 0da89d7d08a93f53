//! Recordings for tests, written as the format says, independent of the code that reads them.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Writes a recording event by event.
pub struct RecordingFixture {
    pub id: String,
    pub output: Vec<u8>,
    events: String,
    us: u64,
}

impl RecordingFixture {
    /// Starts a recording with this id.
    pub fn new(id: &str, cols: u16, rows: u16) -> RecordingFixture {
        RecordingFixture::started(id, cols, rows, 1_763_956_800_000)
    }

    /// Starts a recording at a time, in milliseconds since 1970.
    pub fn started(id: &str, cols: u16, rows: u16, ms: u64) -> RecordingFixture {
        let mut recording = RecordingFixture {
            id: id.to_owned(),
            output: Vec::new(),
            events: String::new(),
            us: 0,
        };
        recording.event(json!({
            "type": "start", "version": 1, "id": id, "ms": ms, "cols": cols, "rows": rows,
            "term": "xterm-256color", "shell": "77-abc", "source": "relay", "tty": "/dev/pts/9", "command": null,
        }));
        recording
    }

    /// Lets time pass.
    pub fn wait_ms(&mut self, ms: u64) -> &mut Self {
        self.us += ms * 1000;
        self
    }

    /// Adds an event.
    pub fn event(&mut self, fields: Value) -> &mut Self {
        let mut line = json!({ "us": self.us, "offset": self.output.len() });
        for (key, value) in fields.as_object().unwrap() {
            line[key] = value.clone();
        }
        self.events.push_str(&line.to_string());
        self.events.push('\n');
        self
    }

    /// Adds output that came without a pause.
    pub fn output(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.event(json!({ "type": "output", "bytes": bytes.len() }));
        self.output.extend_from_slice(bytes);
        self
    }

    /// Begins a command that was typed at a prompt.
    pub fn command(&mut self, number: u64, text: &str) -> &mut Self {
        self.event(json!({ "type": "prompt" }));
        self.output(format!("$ {text}\r\n"));
        let id = format!("77-abc@{number}");
        self.event(json!({ "type": "command_start", "command_id": id, "text": text }))
    }

    /// Ends a command.
    pub fn command_end(&mut self, number: u64, exit: i32) -> &mut Self {
        let id = format!("77-abc@{number}");
        self.event(json!({ "type": "command_end", "command_id": id, "exit": exit }))
    }

    /// Ends the recording.
    pub fn end(&mut self, exit: i32) -> &mut Self {
        self.event(json!({ "type": "end", "exit": exit }))
    }

    /// Writes the files below `AISH_HOME`, and returns their directory.
    pub fn save(&self, aish_home: &Path) -> PathBuf {
        let dir = aish_home.join("data/recordings").join(&self.id);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&dir).unwrap();
        for (name, text) in [
            ("output", &*self.output),
            ("events.jsonl", self.events.as_bytes()),
        ] {
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600);
            use std::io::Write;
            file.open(dir.join(name)).unwrap().write_all(text).unwrap();
        }
        dir
    }
}
