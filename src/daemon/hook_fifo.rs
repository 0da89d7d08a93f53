//! The FIFO through which the hooks of the shells report events.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::panes::PaneRecordings;
use super::shell_events::ShellEventDecoder;
use crate::protocol::ShellId;
use crate::services::SharedServices;
use crate::session::lock;
use crate::session::shell_registry::ShellEvent;

/// Time until a FIFO that cannot be read is opened again.
const RETRY: Duration = Duration::from_secs(1);

/// Reads events from the FIFO until the future is dropped. Does nothing slow, so that no shell waits.
pub async fn listen(path: &Path, services: &Arc<SharedServices>) {
    // A writer of our own: without one, every read would end when the last shell closes the FIFO.
    let open = || {
        let reader = pipe::OpenOptions::new().open_receiver(path)?;
        Ok((reader, pipe::OpenOptions::new().open_sender(path)?))
    };
    let panes = PaneRecordings::default();
    let take = |shell: &ShellId, event: ShellEvent| {
        if let ShellEvent::ActionEnded { number, outcome } = &event {
            services.driven_shells.ended(shell, *number, outcome);
            return;
        }
        let session = services.sessions.session_for_shell(shell);
        let greeted = matches!(event, ShellEvent::Hello { .. }).then(|| shell.clone());
        lock(&services.shells).take(shell, event, session);
        panes.update(services, greeted);
    };
    read_events(open, take).await;
}

/// Passes the events on that are read from what `open` returns, together with something to hold meanwhile. It is opened again
/// after a failure.
async fn read_events<R: AsyncRead + Unpin, H>(
    open: impl Fn() -> io::Result<(R, H)>,
    mut take: impl FnMut(&ShellId, ShellEvent),
) {
    let mut last_failure = None;
    loop {
        let failure = match open() {
            Ok((reader, _held)) => {
                let mut take = |shell: &ShellId, event| {
                    last_failure = None;
                    take(shell, event);
                };
                read_to_failure(reader, &mut take).await
            }
            Err(e) => e,
        };
        let failure = failure.to_string();
        // Once, since it may last.
        if last_failure.as_ref() != Some(&failure) {
            tracing::warn!("cannot read the FIFO of the hooks: {failure}");
        }
        last_failure = Some(failure);
        sleep(RETRY).await;
    }
}

async fn read_to_failure(
    mut reader: impl AsyncRead + Unpin,
    take: &mut impl FnMut(&ShellId, ShellEvent),
) -> io::Error {
    let mut decoder = ShellEventDecoder::default();
    let mut buffer = vec![0; 16 << 10];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(length) => decoder.push(&buffer[..length], &mut *take),
            Err(e) => return e,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Gives the bytes of one event, then the error.
    struct Failing(&'static [u8], Option<io::ErrorKind>);

    impl AsyncRead for Failing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match (std::mem::take(&mut self.0), self.1) {
                (b"", Some(kind)) => return Poll::Ready(Err(kind.into())),
                (bytes, _) => buffer.put_slice(bytes),
            }
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_fifo_is_opened_again_after_a_failure() {
        let opened = Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            let failure = Some(io::ErrorKind::Other);
            match opened.get() {
                1 => Err(io::ErrorKind::NotFound.into()),
                2 => Ok((Failing(b"aish1 a 1 1 1 5\nbye\x007", failure), ())),
                3 => Ok((Failing(b"aish1 b 1 1 1 5\nbye\x007", None), ())),
                _ => Ok((Failing(b"aish1 c 1 1 1 5\nbye\x007", failure), ())),
            }
        };
        let (send, mut events) = tokio::sync::mpsc::unbounded_channel();
        let take = |shell: &ShellId, event: ShellEvent| {
            assert_eq!(event, ShellEvent::Bye);
            send.send(shell.to_string()).unwrap();
        };
        tokio::select! {
            () = read_events(open, take) => unreachable!(),
            () = async {
                for shell in ["a", "b", "c"] {
                    assert_eq!(events.recv().await.as_deref(), Some(shell));
                }
            } => {}
        }
    }
}
