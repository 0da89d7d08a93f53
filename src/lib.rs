//! aish: an AI companion for the ordinary zsh. One binary with three faces:
//! the per-user daemon, the client that the zsh function `llm` runs, and the
//! admin commands.

pub mod broker;
pub mod chat;
pub mod cli;
pub mod error;
pub mod paths;
