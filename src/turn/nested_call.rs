//! A call that a running call makes: of a helper by code, or of a command that the sandbox blocked.

use std::pin::Pin;

/// A call that another one makes. Completes with whether the user stopped the turn. Boxed, because such a call is made while the other
/// one runs; the depth is one, because neither a helper nor a command outside of the sandbox makes calls.
pub type NestedCall<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Waits for the end of a call; pending forever if none runs. Cancel-safe.
pub async fn ended(nested: &mut Option<NestedCall<'_>>) -> bool {
    match nested {
        Some(nested) => nested.await,
        None => std::future::pending().await,
    }
}
