//! A web server with one file: ranges, entity tags, redirects, and the faults of each.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::request_head::RequestHead;

/// What the server does.
#[derive(Debug, Clone, Default)]
pub struct ServedFile {
    /// The file.
    pub body: Vec<u8>,
    /// Its `ETag`, with quotes.
    pub etag: Option<String>,
    /// The `X-Linked-Etag` of redirects.
    pub linked_etag: Option<String>,
    /// Paths that lead elsewhere.
    pub redirects: HashMap<String, String>,
    /// Ignores `Range`.
    pub without_ranges: bool,
    /// Answers with this status and no file.
    pub status: Option<&'static str>,
    /// Replaces `Content-Range`.
    pub content_range: Option<String>,
    /// Sends no `Content-Length`.
    pub chunked: bool,
    /// Sends only this many bytes of the body.
    pub cut: Option<usize>,
    /// Keeps the connection open after a cut.
    pub hold: bool,
}

/// A request: its path, and its headers in lower case.
#[derive(Debug, Clone)]
pub struct FileRequest {
    pub path: String,
    pub headers: HashMap<String, String>,
}

#[derive(Default)]
struct Shared {
    file: Mutex<ServedFile>,
    requests: Mutex<Vec<FileRequest>>,
}

/// The server; its threads end with the test.
pub struct FileServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl FileServer {
    /// Starts a server.
    pub fn start(file: ServedFile) -> FileServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            file: Mutex::new(file),
            requests: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                // Fails if the client has gone.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        FileServer { addr, shared }
    }

    /// URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Changes what the server does.
    pub fn change(&self, change: impl FnOnce(&mut ServedFile)) {
        change(&mut lock(&self.shared.file));
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<FileRequest> {
        std::mem::take(&mut lock(&self.shared.requests))
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let RequestHead {
            target: path,
            headers,
            ..
        } = RequestHead::read(&mut reader)?;
        let file = lock(&self.file).clone();
        let range = headers.get("range").cloned();
        let if_range = headers.get("if-range").cloned();
        lock(&self.requests).push(FileRequest {
            path: path.clone(),
            headers,
        });
        let mut head = "connection: close\r\n".to_owned();
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if let Some(target) = file.redirects.get(&path) {
            add("location", target);
            add("content-length", "0");
            if let Some(digest) = &file.linked_etag {
                add("x-linked-etag", &format!("\"{digest}\""));
            }
            return write!(stream, "HTTP/1.1 302 Found\r\n{head}\r\n");
        }
        if let Some(status) = file.status {
            add("content-length", "0");
            return write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n");
        }
        if let Some(etag) = &file.etag {
            add("etag", etag);
        }
        let start = range
            .filter(|_| !file.without_ranges && if_range.is_none_or(|tag| Some(tag) == file.etag))
            .and_then(|range| {
                range
                    .strip_prefix("bytes=")?
                    .strip_suffix('-')?
                    .parse()
                    .ok()
            });
        let (status, start) = match start {
            Some(start) if start >= file.body.len() => {
                add("content-range", &format!("bytes */{}", file.body.len()));
                add("content-length", "0");
                return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\n{head}\r\n");
            }
            Some(start) => {
                let range = format!("bytes {start}-{}/{}", file.body.len() - 1, file.body.len());
                add(
                    "content-range",
                    file.content_range.as_ref().unwrap_or(&range),
                );
                ("206 Partial Content", start)
            }
            None => ("200 OK", 0),
        };
        let rest = &file.body[start..];
        let sent = &rest[..file.cut.unwrap_or(rest.len()).min(rest.len())];
        match file.chunked {
            true => add("transfer-encoding", "chunked"),
            false => add("content-length", &rest.len().to_string()),
        }
        write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n")?;
        match file.chunked {
            true => {
                write!(stream, "{:x}\r\n", rest.len())?;
                stream.write_all(sent)?;
                if sent.len() == rest.len() {
                    write!(stream, "\r\n0\r\n\r\n")?;
                }
            }
            false => stream.write_all(sent)?,
        }
        if file.hold {
            // Until the client goes.
            let _ = reader.read(&mut [0])?;
        }
        Ok(())
    }
}

/// A file with a header of GGUF, `size` bytes long.
pub fn gguf(context_length: u32, size: usize) -> Vec<u8> {
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    let add_text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    out.extend(0u64.to_le_bytes());
    out.extend(2u64.to_le_bytes());
    add_text(&mut out, "general.architecture");
    out.extend(8u32.to_le_bytes());
    add_text(&mut out, "llama");
    add_text(&mut out, "llama.context_length");
    out.extend(4u32.to_le_bytes());
    out.extend(context_length.to_le_bytes());
    let mut byte = 0u8;
    out.resize_with(size.max(out.len()), || {
        byte = byte.wrapping_mul(31).wrapping_add(7);
        byte
    });
    out
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
