//! A call of a helper that code makes while the call of the code runs.

use std::pin::Pin;

/// A call that code makes. Completes with whether the user stopped the turn. Boxed, because such a call is made while another one
/// runs; the depth is one, because a helper cannot run code.
pub type NestedCall<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Waits for the end of a call; pending forever if none runs. Cancel-safe.
pub async fn ended(nested: &mut Option<NestedCall<'_>>) -> bool {
    match nested {
        Some(nested) => nested.await,
        None => std::future::pending().await,
    }
}
