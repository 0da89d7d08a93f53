//! Connections that break, and servers that are restarted.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Attached;
use crate::fakes::provider::{Part, Script, finish_event, text_event};
use crate::fakes::request_head::RequestHead;

/// Stands between client and server, and cuts streams of events.
struct Proxy {
    port: u16,
    /// Number of streams that were opened.
    streams: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts a proxy that cuts a stream after each of these texts, in order.
    fn start(server: u16, cuts: impl IntoIterator<Item = &'static str>) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut cuts: Vec<&str> = cuts.into_iter().collect();
        cuts.reverse();
        let (cuts, streams) = (Arc::new(Mutex::new(cuts)), Arc::new(AtomicUsize::new(0)));
        let count = streams.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (cuts, count) = (cuts.clone(), count.clone());
                // Either side may leave at any time.
                thread::spawn(move || drop(forward(client, server, &cuts, &count)));
            }
        });
        Proxy { port, streams }
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn forward(
    mut client: TcpStream,
    server: u16,
    cuts: &Mutex<Vec<&'static str>>,
    streams: &AtomicUsize,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let head = RequestHead::read(&mut reader)?;
    let length = head.headers.get("content-length");
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    reader.read_exact(&mut body)?;
    let mut request = format!("{} {} HTTP/1.1\r\n", head.method, head.target);
    for (name, value) in &head.headers {
        if name != "host" && name != "connection" {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    request.push_str(&format!(
        "host: 127.0.0.1:{server}\r\nconnection: close\r\n\r\n"
    ));
    let mut upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    upstream.write_all(request.as_bytes())?;
    upstream.write_all(&body)?;
    let is_stream = head.target.contains("/events");
    if is_stream {
        streams.fetch_add(1, Ordering::SeqCst);
    }
    let mut sent = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = upstream.read(&mut buffer)?;
        if n == 0 {
            return client.shutdown(Shutdown::Both);
        }
        let from = sent.len();
        sent.extend_from_slice(&buffer[..n]);
        let mut cuts = cuts.lock().expect("cuts");
        let found = cuts.last().filter(|_| is_stream).and_then(|cut| {
            let mut windows = sent.windows(cut.len());
            Some(windows.position(|w| w == cut.as_bytes())? + cut.len())
        });
        match found {
            Some(end) => {
                cuts.pop();
                client.write_all(&sent[from..end.max(from)])?;
                client.shutdown(Shutdown::Both)?;
                return upstream.shutdown(Shutdown::Both);
            }
            None => client.write_all(&buffer[..n])?,
        }
    }
}

fn part(n: usize) -> String {
    format!("Part {n} of the answer has these words, and enough of them to be certain at once. ")
}

/// An answer that stops before each part but the first.
fn in_parts() -> Script {
    let mut parts = vec![Part::from(&*text_event(&part(0)))];
    for (n, gate) in ["first", "second", "third"].into_iter().enumerate() {
        parts.push(Part::Gate(gate));
        parts.push(Part::from(&*text_event(&part(n + 1))));
    }
    parts.push(Part::from(&*finish_event("stop")));
    Script::events(parts)
}

#[test]
fn an_answer_that_is_cut_goes_on_and_has_every_word_once() {
    let attached = Attached::new([in_parts()]);
    // Within an event, after one, and in the head of a response.
    let cuts = ["Part 1 of the", "certain at once. \"}}\n\n", "HTTP/1.1 2"];
    let proxy = Proxy::start(attached.server.port, cuts);
    attached
        .token(&proxy.origin(), &attached.server.token)
        .run()
        .ok();
    let ask = ["ask", "--shell", "s1", "-m", &proxy.origin(), "--", "tell"];
    let asked = attached.here.call(ask).start();
    asked.stdout.wait_text("Part 0");
    attached.there.provider.open("first");
    asked.stdout.wait_text("Part 1");
    attached.there.provider.open("second");
    asked.stdout.wait_text("Part 2");
    attached.there.provider.open("third");
    let ended = asked.finish();
    let whole: String = (0..4).map(part).collect();
    // The line about the second failure in a row ends the line of the text.
    let text = ended.stdout.replace('\n', "");
    assert_eq!((ended.code, &*text), (0, &*whole), "{ended:?}");
    assert_eq!(
        ended.stderr.matches("connecting again").count(),
        1,
        "{ended:?}"
    );
    assert!(proxy.streams.load(Ordering::SeqCst) >= 4);
    let answers = attached.here.records_of("assistant");
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["text"], whole.as_str());
}

#[test]
fn an_answer_ends_with_the_daemon_that_gives_it() {
    let attached = Attached::new([in_parts(), Script::tokens(["Here again.\n"])]);
    attached.store_token();
    let asked = attached.ask("tell").start();
    asked.stdout.wait_text("Part 0");
    attached.there.kill_daemon();
    let port = attached.server.port.to_string();
    attached.there.call(["serve", "--port", &port]).run().ok();
    let ended = asked.finish();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("Part 0"), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("cut off, because the server there was stopped"),
        "{ended:?}"
    );
    assert_eq!(attached.ask("again").run().ok(), "Here again.\n");
    assert_eq!(attached.sessions_there().len(), 1);
}
