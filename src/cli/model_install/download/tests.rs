use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use super::*;

/// A server that sends `answer` to one request and then nothing, until the client goes.
fn silent(answer: &'static [u8]) -> Url {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        // The client sends its whole request at once.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(answer);
        while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {}
    });
    Url::parse(&format!("http://{address}/x.gguf")).expect("a URL")
}

async fn failure(answer: &'static [u8]) -> (Error, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let url = silent(answer);
    let download = Download {
        url: &url,
        dir: &dir.path().join("x.download"),
        sha256: None,
        idle_timeout: Duration::from_millis(300),
    };
    let e = download.run(&mut |_, _| {}).await.expect_err("silent");
    let part = dir.path().join("x.download/model.gguf.part");
    (e, std::fs::metadata(part).map_or(0, |meta| meta.len()))
}

#[tokio::test]
async fn a_silent_server_is_an_error_that_keeps_what_is_there() {
    let (e, kept) = failure(b"").await;
    assert!(e.message.contains("the server sent nothing for"), "{e}");
    assert_eq!(kept, 0);
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\netag: \"a\"\r\n\r\nGGUF and so on";
    let (e, kept) = failure(answer).await;
    assert!(e.message.contains("the server sent nothing for"), "{e}");
    assert_eq!(e.hint.as_deref(), Some(CONTINUE_HINT));
    assert_eq!(kept, 14);
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\netag: W/\"a\"\r\n\r\nGGUF and so on";
    let (e, _) = failure(answer).await;
    assert_eq!(e.hint.as_deref(), Some(AGAIN_HINT));
}

#[tokio::test]
async fn a_compressed_file_is_refused() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\n";
    let (e, _) = failure(answer).await;
    assert!(e.message.contains("compressed"), "{e}");
}

#[test]
fn headers_are_read_strictly() {
    let headers = |name: HeaderName, value: &str| {
        HeaderMap::from_iter([(name, value.parse().expect("a value"))])
    };
    let range = |value| content_range(&headers(CONTENT_RANGE, value));
    assert_eq!(range("bytes 5-9/10"), Some((5, 9, 10)));
    for value in [
        "bytes */10",
        "bytes 5-9/*",
        "5-9/10",
        "bytes -9/10",
        "items 5-9/10",
    ] {
        assert_eq!(range(value), None, "{value}");
    }
    let digest = |value: &str| linked_digest(&headers(LINKED_ETAG, value));
    let hex = "AB".repeat(32);
    assert_eq!(digest(&format!("\"{hex}\"")), Some("ab".repeat(32)));
    for value in [
        &hex,
        "\"ab\"",
        &format!("W/\"{hex}\""),
        &format!("\"{}\"", "x".repeat(64)),
    ] {
        assert_eq!(digest(value), None, "{value}");
    }
}
