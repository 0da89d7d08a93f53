//! The harness: a home of its own, a real zsh on a real terminal, and the reading end of the event channel.

pub mod events;
pub mod helper;
pub mod home;
pub mod pty;

use std::time::Duration;

/// How long anything may take before a test gives up. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(30);
