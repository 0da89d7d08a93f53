//! Checks whether a server on loopback is ready, with a plain request that needs neither proxy settings nor TLS.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Maximum time of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum pause between two requests; the first pause is 10 ms.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Waits until the server reports that it is ready. A server without `/health` (404) counts as ready.
pub(super) async fn wait_until_ready(port: u16) {
    let mut pause = Duration::from_millis(10);
    loop {
        if let Ok(Ok(code)) = timeout(ANSWER_TIMEOUT, status(port)).await
            && (200..500).contains(&code)
        {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

async fn status(port: u16) -> io::Result<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .await?;
    let mut line = [0; 12];
    stream.read_exact(&mut line).await?;
    parse(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads the status code in `HTTP/1.1 200`.
fn parse(line: &[u8; 12]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let (version, code) = line.split_once(' ')?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    code.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_a_status_line_has_a_code() {
        assert_eq!(parse(b"HTTP/1.1 200"), Some(200));
        assert_eq!(parse(b"HTTP/1.0 503"), Some(503));
        assert_eq!(parse(b"SSH-2.0-Open"), None);
        assert_eq!(parse(b"HTTP/1.1 2x0"), None);
        assert_eq!(parse(b"\xffTTP/1.1 200"), None);
    }
}
