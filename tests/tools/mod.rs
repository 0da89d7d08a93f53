//! Tool calls, end to end: the real daemon with a scripted provider, an MCP server and a scripted client.

mod attach;
mod first_answer;
mod gate;
mod identity;
mod many;
mod native;
mod peers;
mod protected;
mod resume;
pub mod rounds;
mod secrets;
mod seen;
mod selection;
mod split;
mod whole;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use aish::protocol::tools::{ApprovalRequest, ApprovalVerdict, Reaction};
use aish::protocol::{
    self, AnswerSummary, AskAccepted, AskRequest, AttachRequest, Event, FrameDecoder, Hello,
    Request, RequestFailure, kind,
};
use serde_json::{Value, json};

use crate::fakes::mcp_http::{self, FakeMcpServer};
use crate::fakes::provider::Script;
use crate::support::PATIENCE;
use crate::support::helper::{Helper, records};
use crate::support::shell_id;
use crate::support::terminal::{self, TerminalSocket};

/// A provider, an MCP server `fs` with the tools `read` and `write`, and a daemon.
pub struct Tools {
    pub helper: Helper,
    pub server: FakeMcpServer,
    /// Content of the journal at each call of the server.
    journals: Arc<Mutex<Vec<Vec<Value>>>>,
}

impl Tools {
    /// Starts with these answers of the model, and `more` appended to the config.
    pub fn new(queue: impl IntoIterator<Item = Script>, more: &str) -> Tools {
        Tools::with(Helper::new(queue), more)
    }

    /// Starts with the provider of this helper.
    pub fn with(helper: Helper, more: &str) -> Tools {
        let server = FakeMcpServer::start();
        server.set_tools(json!([mcp_http::tool("read"), mcp_http::tool("write")]));
        let tools = Tools {
            helper,
            server,
            journals: Arc::default(),
        };
        tools.behave(|_| None);
        tools.config(more);
        tools.helper.call(["start"]).run().ok();
        tools
    }

    /// Writes the config: the server, then `more`.
    pub fn config(&self, more: &str) {
        let url = self.server.url();
        self.helper
            .config(&format!("[mcp.servers.fs]\nurl = \"{url}\"\n{more}"));
    }

    /// Scripts the results of calls. By default a tool returns its arguments.
    pub fn behave(
        &self,
        mut answer: impl FnMut(&mcp_http::Request) -> Option<mcp_http::McpResponse> + Send + 'static,
    ) {
        let (journals, dir) = (Arc::clone(&self.journals), self.helper.path("data/journal"));
        self.server.script(move |request| {
            if request.method() != "tools/call" {
                return None;
            }
            let entries = std::fs::read_dir(&dir).expect("the journal");
            let files = entries.map(|e| e.expect("an entry").path());
            let shared_files = ["shells.jsonl", "audit.jsonl"];
            let session_files =
                files.filter(|p| !shared_files.iter().any(|name| p.ends_with(name)));
            let session_records = session_files.flat_map(|file| records(&file)).collect();
            journals.lock().expect("journals").push(session_records);
            answer(request)
        });
    }

    /// Calls that the server received: tool and arguments.
    pub fn called(&self) -> Vec<(String, Value)> {
        let requests = self.server.requests();
        let calls = requests.iter().filter(|r| r.method() == "tools/call");
        calls
            .map(|r| {
                let params = &r.json["params"];
                let name = params["name"].as_str().unwrap_or_default();
                (name.to_owned(), params["arguments"].clone())
            })
            .collect()
    }

    /// Approvals in the journal at the `n`th call of the server, from 0.
    pub fn approved_at(&self, n: usize) -> Vec<(String, String)> {
        let journals = self.journals.lock().expect("journals");
        let approvals = journals[n].iter().filter(|r| r["type"] == "approval");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        approvals
            .map(|r| (text(&r["decision"]), text(&r["arguments"])))
            .collect()
    }

    /// Results in the journal: status and text.
    pub fn results(&self) -> Vec<(String, String)> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let results = self.helper.records_of("tool");
        results
            .iter()
            .map(|r| (text(&r["status"]), text(&r["text"])))
            .collect()
    }

    /// Texts of the tool results in a request to the model.
    pub fn results_in_request(&self, request: usize) -> Vec<String> {
        let requests = self.helper.provider.requests();
        let messages = requests[request].json["messages"].as_array();
        let results = messages.expect("messages").iter();
        results
            .filter(|m| m["role"] == "tool")
            .map(|m| m["content"].as_str().expect("text").to_owned())
            .collect()
    }

    /// Sends a prompt of the shell `s1` from a scripted client.
    pub fn ask(&self, words: &str) -> Client {
        self.ask_as(AskRequest {
            shell: Some(shell_id("s1")),
            text: words.to_owned(),
            ..AskRequest::default()
        })
    }

    pub fn ask_as(&self, ask: AskRequest) -> Client {
        Client::ask(&self.helper, ask)
    }
}

/// Runs a blocking wait of a fake server.
pub fn wait<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(what)
}

/// A scripted client.
pub struct Client {
    pub socket: UnixStream,
    /// The process with a terminal, if the client has one.
    _terminal: Option<TerminalSocket>,
    decoder: FrameDecoder,
    seen: Vec<Frame>,
}

/// Frames received from the daemon.
#[derive(Debug, Clone)]
pub enum Frame {
    Text(String),
    Event(Event),
    Reply(AnswerSummary),
    Failure(RequestFailure),
}

impl Client {
    /// Sends a prompt to the daemon of this helper.
    pub fn ask(helper: &Helper, mut ask: AskRequest) -> Client {
        ask.cwd = "/".to_owned();
        ask.can_answer = true;
        Client::request(helper, &Request::Ask(Box::new(ask)))
    }

    /// Attaches to the turn of the shell `s1`, on this terminal.
    pub fn attach(helper: &Helper, tty: &str) -> Client {
        let attach = AttachRequest {
            session: None,
            shell: Some(shell_id("s1")),
            can_answer: true,
            tty: Some(tty.to_owned()),
        };
        Client::request(helper, &Request::Attach(attach))
    }

    /// Sends a request to the daemon of this helper, from a terminal.
    pub fn request(helper: &Helper, request: &Request) -> Client {
        let terminal = terminal::connect(&helper.path("run/sock"));
        let socket = terminal.stream.try_clone().expect("a descriptor");
        Client::on(socket, Some(terminal), request)
    }

    /// Sends a request on a connection.
    pub fn on(socket: UnixStream, terminal: Option<TerminalSocket>, request: &Request) -> Client {
        Client::greet(socket, terminal, &Hello::current(), request)
    }

    /// Sends this hello and a request on a connection.
    pub fn greet(
        mut socket: UnixStream,
        terminal: Option<TerminalSocket>,
        hello: &Hello,
        request: &Request,
    ) -> Client {
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        let hello = protocol::json_frame(kind::HELLO, hello).expect("a frame");
        let request = protocol::json_frame(kind::REQUEST, request);
        socket.write_all(&hello).expect("a hello");
        socket
            .write_all(&request.expect("a frame"))
            .expect("a request");
        Client {
            socket,
            _terminal: terminal,
            decoder: FrameDecoder::default(),
            seen: Vec::new(),
        }
    }

    /// Reads the next frame; `None` after the daemon has closed the connection.
    pub fn next(&mut self) -> Option<Frame> {
        let mut buffer = [0; 65536];
        loop {
            if let Some((kind, body)) = self.decoder.next_frame().expect("frames") {
                let frame = match kind {
                    kind::HELLO => continue,
                    kind::TEXT => Frame::Text(String::from_utf8(body.to_vec()).expect("text")),
                    kind::EVENT => Frame::Event(protocol::parse(body).expect("an event")),
                    kind::REPLY => Frame::Reply(protocol::parse(body).expect("an answer")),
                    kind::FAILURE => Frame::Failure(protocol::parse(body).expect("a failure")),
                    other => panic!("a frame of kind {other}"),
                };
                self.seen.push(frame.clone());
                return Some(frame);
            }
            let n = read_available(&mut self.socket, &mut buffer);
            if n == 0 {
                return None;
            }
            self.decoder.push(&buffer[..n]);
        }
    }

    /// Waits until the daemon asks for variables, and sends those of the helper's home.
    pub fn send_environment(&mut self, helper: &Helper) {
        self.until(|frame| matches!(frame, Frame::Event(Event::EnvRequested { .. })).then_some(()));
        let variables: std::collections::BTreeMap<_, _> = helper.home.env().into_iter().collect();
        self.send(kind::ENV, &variables);
    }

    /// Reads until `find` returns a value.
    pub fn until<T>(&mut self, find: impl Fn(&Frame) -> Option<T>) -> T {
        while let Some(frame) = self.next() {
            if let Some(found) = find(&frame) {
                return found;
            }
            let over = matches!(frame, Frame::Reply(_) | Frame::Failure(_));
            assert!(!over, "it never came: {:#?}", self.seen);
        }
        panic!("the daemon hung up: {:#?}", self.seen);
    }

    /// The message of the failure that ends the request.
    pub fn failure(&mut self) -> String {
        self.until(|frame| match frame {
            Frame::Failure(failure) => Some(failure.message.clone()),
            _ => None,
        })
    }

    /// Waits for the next question.
    pub fn question(&mut self) -> ApprovalRequest {
        self.until(|frame| match frame {
            Frame::Event(Event::ApprovalRequested(question)) => Some((**question).clone()),
            _ => None,
        })
    }

    /// Waits for the next question; `None` if the turn ends before one.
    pub fn next_question(&mut self) -> Option<ApprovalRequest> {
        while let Some(frame) = self.next() {
            match frame {
                Frame::Event(Event::ApprovalRequested(question)) => return Some(*question),
                Frame::Reply(_) => return None,
                Frame::Failure(failure) => panic!("{failure:?}\n{:#?}", self.seen),
                _ => {}
            }
        }
        panic!("the daemon hung up: {:#?}", self.seen);
    }

    /// The latest question.
    pub fn last_question(&self) -> ApprovalRequest {
        let question = self.seen.iter().rev().find_map(|frame| match frame {
            Frame::Event(Event::ApprovalRequested(question)) => Some((**question).clone()),
            _ => None,
        });
        question.expect("a question")
    }

    /// Answers a question, with unchanged arguments.
    pub fn say(&mut self, question: &ApprovalRequest, verdict: ApprovalVerdict) {
        self.say_of(question, verdict, &question.arguments);
    }

    /// Answers a question, with these arguments.
    pub fn say_of(
        &mut self,
        question: &ApprovalRequest,
        verdict: ApprovalVerdict,
        arguments: &str,
    ) {
        self.send(
            kind::REACTION,
            &Reaction::Call {
                id: question.id.clone(),
                digest: question.shown_digest(),
                verdict,
                arguments: arguments.to_owned(),
            },
        );
    }

    pub fn send(&mut self, kind: u8, body: &impl serde::Serialize) {
        let frame = protocol::json_frame(kind, body).expect("a frame");
        self.socket.write_all(&frame).expect("the daemon listens");
    }

    /// The reply to a prompt in the background.
    pub fn accepted(&mut self) -> AskAccepted {
        self.reply()
    }

    /// The reply to a request other than a prompt.
    pub fn reply<T: serde::de::DeserializeOwned>(&mut self) -> T {
        let mut buffer = [0; 4096];
        loop {
            while let Some((kind, body)) = self.decoder.next_frame().expect("frames") {
                match kind {
                    kind::REPLY => return protocol::parse(body).expect("a reply"),
                    kind::FAILURE => panic!("{}", String::from_utf8_lossy(body)),
                    _ => {}
                }
            }
            let n = read_available(&mut self.socket, &mut buffer);
            assert!(n > 0, "the daemon hung up");
            self.decoder.push(&buffer[..n]);
        }
    }

    /// Presses Ctrl-C.
    pub fn cancel(&mut self) {
        self.send(kind::CANCEL, &());
    }

    /// Reads to the end of the turn, which must succeed.
    pub fn end(mut self) -> Seen {
        while let Some(frame) = self.next() {
            match frame {
                Frame::Reply(answer) => {
                    return Seen {
                        answer,
                        frames: self.seen,
                    };
                }
                Frame::Failure(failure) => panic!("{failure:?}\n{:#?}", self.seen),
                _ => {}
            }
        }
        panic!("the daemon hung up: {:#?}", self.seen);
    }
}

/// A turn as seen by its client.
#[derive(Debug)]
pub struct Seen {
    pub answer: AnswerSummary,
    pub frames: Vec<Frame>,
}

impl Seen {
    pub fn text(&self) -> String {
        let text = |f: &Frame| match f {
            Frame::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.frames.iter().filter_map(text).collect()
    }

    pub fn notices(&self) -> Vec<String> {
        let text = |e: &Event| match e {
            Event::Notice { text } => Some(text.clone()),
            _ => None,
        };
        self.events(text)
    }

    pub fn events<T>(&self, find: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let events = self.frames.iter().filter_map(|f| match f {
            Frame::Event(event) => find(event),
            _ => None,
        });
        events.collect()
    }

    /// Calls that started and finished, in order.
    pub fn calls(&self) -> Vec<String> {
        self.events(|e| match e {
            Event::ToolCallStarted(b) => Some(format!("begin {}", b.id)),
            Event::ToolCallFinished(e) => Some(format!("end {} {}", e.id, e.status.as_str())),
            _ => None,
        })
    }
}

/// Reads what there is, or waits. With a time limit, a signal such as SIGCHLD interrupts the call.
fn read_available(socket: &mut impl Read, buffer: &mut [u8]) -> usize {
    loop {
        match socket.read(buffer) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            read => return read.expect("the daemon sends frames"),
        }
    }
}
