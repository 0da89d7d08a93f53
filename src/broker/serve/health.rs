//! Asks a server on loopback whether it is ready: a request of our own, so that no proxy setting
//! and no TLS stands between.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long one answer may take.
const ONE: Duration = Duration::from_secs(1);

/// The longest pause between two questions; the first is 10 ms.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks until the server answers that it is ready. A server that does not know `/health` (404) is.
pub(super) async fn answers(port: u16) {
    let mut pause = Duration::from_millis(10);
    loop {
        if let Ok(Ok(code)) = timeout(ONE, status(port)).await
            && (200..500).contains(&code)
        {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
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

/// The code in `HTTP/1.1 200`.
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
    fn only_a_status_line_is_an_answer() {
        assert_eq!(parse(b"HTTP/1.1 200"), Some(200));
        assert_eq!(parse(b"HTTP/1.0 503"), Some(503));
        assert_eq!(parse(b"SSH-2.0-Open"), None);
        assert_eq!(parse(b"HTTP/1.1 2x0"), None);
        assert_eq!(parse(b"\xffTTP/1.1 200"), None);
    }
}
