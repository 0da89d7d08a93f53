//! The FIFO through which the hooks of the shells report events.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::panes::PaneRecordings;
use super::shell_events::ShellEventDecoder;
use crate::error::{Error, ErrorContext, Result};
use crate::services::SharedServices;
use crate::session::lock;
use crate::session::shell_registry::ShellEvent;

/// Creates the FIFO, or reuses that of an earlier daemon.
///
/// # Errors
/// Another file exists at the path, or the FIFO cannot be created.
pub fn make_fifo(path: &Path) -> Result<()> {
    use nix::sys::stat::Mode;
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_fifo() && meta.uid() == nix::unistd::getuid().as_raw() => {
            return Ok(());
        }
        Ok(_) => {
            return Err(Error::runtime(format!(
                "{} is in the way: it is not a FIFO of yours",
                path.display()
            ))
            .hint("remove it"));
        }
        Err(_) => {}
    }
    nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)
        .context(|| format!("cannot create the FIFO {}", path.display()))
}

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
            let session = services.sessions.session_for_shell(shell);
            let greeted = matches!(event, ShellEvent::Hello { .. }).then(|| shell.clone());
            lock(&services.shells).take(shell, event, session);
            panes.update(services, greeted);
        });
    }
}
