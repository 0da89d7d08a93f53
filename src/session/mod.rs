//! Sessions and shells: the session store, the feed of each session's running turn, and the commands of the shells.

pub mod changes;
pub mod conversation;
pub mod feed;
pub mod hub;
pub mod pages;
pub mod shell_registry;
pub mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, ignoring poisoning: every change of the guarded data is a single call, so a panic leaves it consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a process exists.
pub fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}

/// Returns the end of a session's id, its random part, which names the session in messages.
pub fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}
