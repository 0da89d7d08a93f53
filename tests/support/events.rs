//! Reader of the shell event FIFO, implemented independently of the daemon's reader from the description of the format, to
//! check the plugin's writer.

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

/// A received event: shell, sequence number, fields.
#[derive(Debug, Clone)]
pub struct Event {
    pub shell: String,
    pub seq: u64,
    pub fields: Vec<Vec<u8>>,
}

impl Event {
    /// Returns a field as text.
    pub fn text(&self, n: usize) -> String {
        String::from_utf8_lossy(&self.fields[n]).into_owned()
    }
}

/// Listens at the daemon's FIFO.
pub struct Events {
    path: PathBuf,
    received: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

/// Creates the FIFO and its directory, as the daemon does.
pub fn make_fifo(home: &Home) -> PathBuf {
    let dir = home.path("aish/run");
    std::fs::create_dir_all(&dir).expect("run");
    let path = dir.join("events");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    path
}

/// Opens the FIFO for reading and writing, so that opening never blocks and reading never ends.
pub fn open_fifo(path: &PathBuf) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("the FIFO")
}

impl Events {
    /// Starts listening. Call this before the shell starts.
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
                    // Fails if the test has ended already.
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

    /// Waits for the next event.
    pub fn next(&self) -> Event {
        self.received.recv_timeout(PATIENCE).expect("an event")
    }

    /// Writes an event of the shell `mark`, which arrives after all events sent before. Unlike a shell, blocks while the FIFO
    /// is full.
    pub fn mark(&self) {
        open_fifo(&self.path)
            .write_all(b"aish1 mark 1 1 1 4\nmark")
            .expect("a mark");
    }

    /// Waits for the next event, which must be `hello`.
    pub fn hello(&self) -> Event {
        let event = self.next();
        assert_eq!(event.text(0), "hello", "{event:?}");
        event
    }

    /// Waits for the next event, which must be `cmd`.
    pub fn cmd(&self) -> Event {
        let mut event = self.next();
        // A line that is not recorded, as an empty one: only its fingerprint is sent.
        while event.text(0) == "unrecorded" {
            assert_eq!(event.fields.len(), 2, "{event:?}");
            event = self.next();
        }
        assert_eq!(event.text(0), "cmd", "{event:?}");
        assert_eq!(event.fields.len(), 10, "{event:?}");
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
