//! The FIFO through which the hooks of the shells report events.

use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::panes::PaneRecordings;
use super::shell_events::ShellEventDecoder;
use crate::error::{ErrorContext, Result};
use crate::services::SharedServices;
use crate::session::lock;
use crate::session::shell_registry::ShellEvent;

/// Reads events from the FIFO until the future is dropped. Does nothing slow, so that no shell waits.
///
/// # Errors
/// The FIFO cannot be opened.
pub async fn listen(path: &Path, services: &Arc<SharedServices>) -> Result<()> {
    let what = || format!("cannot read the FIFO {}", path.display());
    let mut reader = pipe::OpenOptions::new().open_receiver(path).context(what)?;
    // A writer of our own: without one, every read would end when the last shell closes the FIFO.
    let _writer = pipe::OpenOptions::new().open_sender(path).context(what)?;
    let mut decoder = ShellEventDecoder::default();
    let mut buffer = vec![0; 16 << 10];
    let panes = PaneRecordings::default();
    loop {
        let length = reader.read(&mut buffer).await.context(what)?;
        decoder.push(&buffer[..length], &mut |shell, event| {
            if let ShellEvent::ActionEnded { number, outcome } = &event {
                services.driven_shells.ended(shell, *number, outcome);
                return;
            }
            let session = services.sessions.session_for_shell(shell);
            let greeted = matches!(event, ShellEvent::Hello { .. }).then(|| shell.clone());
            lock(&services.shells).take(shell, event, session);
            panes.update(services, greeted);
        });
    }
}
