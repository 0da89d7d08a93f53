//! The reading end of the event channel, written from the description of the format alone: the check
//! on the plugin's writer that shares no line with the daemon's reader.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::PATIENCE;
use super::home::Home;

/// One event as it came: whose, which, and its fields.
#[derive(Debug, Clone)]
pub struct Event {
    pub shell: String,
    pub seq: u64,
    pub fields: Vec<Vec<u8>>,
}

impl Event {
    /// A field as text.
    pub fn text(&self, n: usize) -> String {
        String::from_utf8_lossy(&self.fields[n]).into_owned()
    }
}

/// Listens where the daemon would.
pub struct Events {
    path: PathBuf,
    received: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

/// Makes the FIFO and its directory, as the daemon does.
pub fn make_fifo(home: &Home) -> PathBuf {
    let dir = home.path("aish/run");
    std::fs::create_dir_all(&dir).expect("run");
    let path = dir.join("events");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    path
}

/// Opens it for reading and writing: the open never waits and the reading never ends.
pub fn open_fifo(path: &PathBuf) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("the FIFO")
}

impl Events {
    /// Starts listening; must come before the shell.
    pub fn listen(home: &Home) -> Events {
        let path = make_fifo(home);
        let file = open_fifo(&path);
        let (send, received) = channel();
        let thread = std::thread::spawn(move || {
            let mut input = BufReader::new(file);
            let mut torn: BTreeMap<(String, u64), Vec<u8>> = BTreeMap::new();
            loop {
                let mut header = Vec::new();
                input.read_until(b'\n', &mut header).expect("a header");
                let header = String::from_utf8(header).expect("a header is ASCII");
                if header == "stop\n" {
                    return;
                }
                let words: Vec<&str> = header.trim_end_matches('\n').split(' ').collect();
                let [magic, shell, seq, part, parts, len] = words[..] else {
                    panic!("six words in a header: {header:?}");
                };
                assert_eq!(magic, "aish1");
                let number = |w: &str| w.parse::<u64>().expect("a number");
                let (seq, part, parts, len) =
                    (number(seq), number(part), number(parts), number(len));
                assert!(
                    header.len() as u64 + len <= 4096,
                    "a chunk is atomic: {header:?}"
                );
                let mut body = vec![0; usize::try_from(len).expect("a length")];
                input.read_exact(&mut body).expect("the body of a chunk");
                let key = (shell.to_owned(), seq);
                if part == 1 {
                    torn.insert(key.clone(), Vec::new());
                }
                let event = torn.get_mut(&key).expect("part 1 comes first");
                event.extend(body);
                if part == parts {
                    let fields = torn.remove(&key).expect("just seen");
                    let event = Event {
                        shell: key.0,
                        seq,
                        fields: fields.split(|b| *b == 0).map(<[u8]>::to_vec).collect(),
                    };
                    // The test may have ended with events still to come.
                    let _ = send.send(event);
                }
            }
        });
        Events {
            path,
            received,
            thread: Some(thread),
        }
    }

    /// The next event; fails when none comes.
    pub fn next(&self) -> Event {
        self.received.recv_timeout(PATIENCE).expect("an event")
    }

    /// Writes an event of the shell `mark`: what was sent before it has been received before it.
    /// Unlike a shell, it waits for room.
    pub fn mark(&self) {
        open_fifo(&self.path)
            .write_all(b"aish1 mark 1 1 1 4\nmark")
            .expect("a mark");
    }

    /// The next event, which is a `hello`.
    pub fn hello(&self) -> Event {
        let event = self.next();
        assert_eq!(event.text(0), "hello", "{event:?}");
        event
    }

    /// The next event, which is a `cmd`.
    pub fn cmd(&self) -> Event {
        let event = self.next();
        assert_eq!(event.text(0), "cmd", "{event:?}");
        assert_eq!(event.fields.len(), 9, "{event:?}");
        event
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        open_fifo(&self.path).write_all(b"stop\n").expect("a stop");
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("every chunk was right");
            }
        }
    }
}
