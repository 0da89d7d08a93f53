//! Files as the body of a response, read while they are sent: a client that takes nothing costs one piece.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::stream;

/// Bytes in one piece.
pub const PIECE: u64 = 64 << 10;

/// Returns the bytes of a file from `from` up to `to`.
pub fn file_body(file: Arc<File>, from: u64, to: u64) -> Body {
    let pieces = stream::unfold((file, from), move |(file, at)| async move {
        if at >= to {
            return None;
        }
        // At most 64 KiB.
        let size = (to - at).min(PIECE) as usize;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; size];
            let read = file.read_exact_at(&mut piece, at);
            (read.map(|()| Bytes::from(piece)), file)
        });
        let (piece, file) = match read.await {
            Ok(read) => read,
            Err(_) => return None,
        };
        Some((piece, (file, at + size as u64)))
    });
    Body::from_stream(pieces)
}
