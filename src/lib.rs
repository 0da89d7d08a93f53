//! aish: an AI companion for the ordinary zsh. One binary with three faces:
//! the per-user [`daemon`], the [`client`] that the zsh function `llm` runs, and
//! the admin commands in [`cli`].
//!
//! A prompt goes from `client::ask` over the socket ([`protocol`]) to
//! `daemon::connection` and on to `daemon::driver`, which finds the session and
//! the model, lets [`context`] say what the model sees, and performs the effects
//! of the pure `daemon::turn` with the [`broker`] and the journal ([`history`]).
//! What comes back is shown by `client::output` through [`safety`]'s text sink.
//! Commands that the model proposes are asked about by `client::propose`,
//! recorded by `daemon::approval`, and run by the zsh function.
//!
//! Imports point down: `error`, `chat`, `address`, `secret`, `paths`, `safety`;
//! then `config`, `protocol` and the pure parts; then `broker`, `history`, `mcp` and
//! `tools`; then `daemon`; then `client` and `cli`, which know `protocol` and never the
//! daemon's insides. `ARCHITECTURE.md` has the invariants and their reasons, and
//! `tests/tidy` reads the sources to keep them.

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
pub mod mcp;
pub mod paths;
pub mod protocol;
pub mod safety;
pub mod secret;
pub mod session;
pub mod tools;
pub mod turn;
