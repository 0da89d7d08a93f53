//! A scripted daemon: implements the frames of the protocol and leaves every decision to the test.

use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aish::protocol::tools::Reaction;
use aish::protocol::{
    AnswerSummary, AskAccepted, AskRequest, AttachRequest, Event, FrameDecoder, Hello, Request,
    ServerRequest, ShownCost, Transcript, json_frame, kind, parse, text_frame,
};
use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::home::Home;

/// The daemon; listens in a home.
pub struct Daemon {
    socket: PathBuf,
    prompts: Receiver<Prompt>,
    records: Arc<Mutex<Vec<Value>>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Listens at the socket of this home.
    pub fn listen(home: &Home) -> Daemon {
        let run = home.path("aish/run");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&run)
            .expect("run");
        let socket = run.join("sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (send, prompts) = channel();
        let records = Arc::new(Mutex::new(Vec::new()));
        let thread = std::thread::spawn({
            let records = Arc::clone(&records);
            move || {
                for stream in listener.incoming() {
                    let wire = Wire::new(stream.expect("a client"));
                    if !wire.greet(&send, &records) {
                        return;
                    }
                }
            }
        });
        Daemon {
            socket,
            prompts,
            records,
            thread: Some(thread),
        }
    }

    /// Waits for the next prompt of a client.
    pub fn prompt(&self) -> Prompt {
        self.prompts.recv_timeout(PATIENCE).expect("a prompt")
    }

    /// Sets the content of the conversation.
    pub fn remembers(&self, records: Vec<Value>) {
        *self.records.lock().expect("records") = records;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A connection without a hello ends the thread.
        let stream = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
        if let Ok(mut stream) = stream {
            let _ = stream.write_all(&[1, 0, 0, 0, b'!']);
            if let Some(thread) = self.thread.take() {
                let ended = thread.join();
                if !std::thread::panicking() {
                    ended.expect("every client spoke the protocol");
                }
            }
        }
    }
}

struct Wire {
    stream: UnixStream,
    decoder: FrameDecoder,
}

impl Wire {
    fn new(stream: UnixStream) -> Wire {
        Wire {
            stream,
            decoder: FrameDecoder::default(),
        }
    }

    /// Reads the next frame; `None` after a disconnect or the time limit.
    fn frame(&mut self, patience: Duration) -> Option<(u8, Vec<u8>)> {
        let deadline = Instant::now() + patience;
        let mut buffer = [0; 65536];
        loop {
            if let Some((kind, body)) = self.decoder.next_frame().expect("frames") {
                return Some((kind, body.to_vec()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream.set_read_timeout(Some(left)).expect("a timeout");
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.decoder.push(&buffer[..n]),
            }
        }
    }

    fn send(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).expect("the client listens");
    }

    /// Handles requests other than prompts. Returns whether to continue.
    fn greet(mut self, prompts: &Sender<Prompt>, records: &Arc<Mutex<Vec<Value>>>) -> bool {
        let Some((kind, body)) = self.frame(PATIENCE) else {
            return true;
        };
        if kind == b'!' {
            return false;
        }
        assert_eq!(kind, kind::HELLO);
        let _: Hello = parse(&body).expect("a hello");
        self.send(&json_frame(kind::HELLO, &Hello::current()).expect("a frame"));
        // A client that only checks for a daemon sends no request.
        let Some((kind, body)) = self.frame(PATIENCE) else {
            return true;
        };
        assert_eq!(kind, kind::REQUEST);
        match parse(&body).expect("a request") {
            Request::Ask(ask) => {
                let wire = self;
                // Fails if the test has ended already.
                let _ = prompts.send(Prompt {
                    ask: *ask,
                    attach: None,
                    wire,
                });
            }
            Request::Attach(attach) => {
                let wire = self;
                // Fails if the test has ended already.
                let _ = prompts.send(Prompt {
                    ask: AskRequest::default(),
                    attach: Some(attach),
                    wire,
                });
            }
            Request::Transcript { .. } => {
                let records = records.lock().expect("records").clone();
                let reply = Transcript {
                    session: "s".into(),
                    records,
                };
                self.send(&json_frame(kind::REPLY, &reply).expect("a frame"));
            }
            // Only checks that the daemon answers.
            Request::Sessions { .. } => {
                let none: [Value; 0] = [];
                self.send(&json_frame(kind::REPLY, &none).expect("a frame"));
            }
            // Likewise.
            Request::Server(ServerRequest::Status) => {}
            other => panic!("unexpected request: {other:?}"),
        }
        true
    }
}

/// A prompt that is being answered.
pub struct Prompt {
    pub ask: AskRequest,
    /// Set for a client that follows a turn.
    pub attach: Option<AttachRequest>,
    wire: Wire,
}

impl Prompt {
    /// Sends an event.
    pub fn event(&mut self, event: &Event) {
        self.wire
            .send(&json_frame(kind::EVENT, event).expect("a frame"));
    }

    /// Sends several events in one write, as in the replay of a turn.
    pub fn events(&mut self, events: &[Event]) {
        let frames: Vec<u8> = events
            .iter()
            .flat_map(|event| json_frame(kind::EVENT, event).expect("a frame"))
            .collect();
        self.wire.send(&frames);
    }

    /// Accepts a prompt that continues in the background.
    pub fn accept(&mut self) {
        let accepted = AskAccepted {
            session: "2026-session-1a2b3c4d".into(),
            prompt_id: "p".into(),
        };
        self.wire
            .send(&json_frame(kind::REPLY, &accepted).expect("a frame"));
    }

    /// Waits until the client has closed the connection without sending a frame.
    pub fn left(&mut self) {
        assert_eq!(self.wire.frame(PATIENCE), None);
    }

    /// Sends a part of the answer.
    pub fn text(&mut self, text: &str) {
        self.wire.send(&text_frame(text).expect("a frame"));
    }

    /// Ends the turn.
    pub fn reply(&mut self, finish: &str) {
        let answer = AnswerSummary {
            session: "s".into(),
            model: "fake".into(),
            finish: parse(format!("\"{finish}\"").as_bytes()).expect("a finish"),
            prompt_tokens: None,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            completion_tokens: None,
            seconds: 0.1,
            cost: None,
            cost_estimated: false,
            session_cost: None,
            session_cost_partial: false,
            show_cost: ShownCost::Nothing,
            proposals: 0,
        };
        self.wire
            .send(&json_frame(kind::REPLY, &answer).expect("a frame"));
    }

    /// Returns the client's next reaction, or `None` after `patience`.
    pub fn reaction_within(&mut self, patience: Duration) -> Option<Reaction> {
        let (kind, body) = self.wire.frame(patience)?;
        assert_eq!(kind, kind::REACTION, "{}", String::from_utf8_lossy(&body));
        Some(parse(&body).expect("a reaction"))
    }

    /// Waits for the client's next reaction.
    pub fn reaction(&mut self) -> Reaction {
        self.reaction_within(PATIENCE).expect("a reaction")
    }

    /// Waits until the client ends the turn.
    pub fn cancelled(&mut self) {
        let (kind, _) = self.wire.frame(PATIENCE).expect("a frame");
        assert_eq!(kind, kind::CANCEL);
    }
}
