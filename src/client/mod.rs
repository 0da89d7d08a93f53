//! The client: what runs inside the shell's `llm` and talks to the daemon.

pub mod render;
