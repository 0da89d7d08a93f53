//! aish: an AI companion for the ordinary zsh. One binary with three faces:
//! the per-user daemon, the client that the zsh function `llm` runs, and the
//! admin commands.

mod address;
pub mod broker;
pub mod chat;
pub mod cli;
pub mod client;
pub mod config;
pub mod context;
pub mod daemon;
pub mod error;
pub mod history;
pub mod paths;
pub mod protocol;
pub mod safety;
pub mod secret;
