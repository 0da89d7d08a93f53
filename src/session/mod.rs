//! Sessions: the store of conversations, and the feed of the turn that runs in each.

pub mod conversation;
pub mod feed;
pub mod hub;
pub mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A holder that panicked leaves whole data here, because every change is one call.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a process exists.
pub fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}
