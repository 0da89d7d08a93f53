//! aish: an AI companion for the ordinary zsh. One binary with three roles: the per-user [`daemon`], the [`client`] that
//! the zsh function `llm` runs, and the admin commands in [`cli`].
//!
//! A prompt travels from the client over a Unix socket ([`protocol`]) to the daemon, which finds the session and the
//! model and builds the request with [`context`]. A pure state machine decides each step of the turn; the daemon
//! performs its effects with the [`broker`] (providers), [`tools`] and [`mcp`] (tool calls) and [`history`] (the
//! journal). The answer is shown by the client through the text sink in [`safety`]. A tool call needs an approval from
//! the policy in [`safety`]; a command that the model proposes needs one from the user and then runs in the zsh
//! function.
//!
//! Imports point down. From the bottom: `error`, `chat`, `address`, `secret`, `paths`, `child_group`; then [`safety`], [`config`],
//! [`protocol`] and [`context`]; then [`broker`], [`history`], [`tools`], [`mcp`],
//! [`python`] and [`recording`]; then [`session`], [`services`],
//! [`turn`] and [`daemon`]; then [`client`] and [`cli`], which use [`protocol`] and nothing inside the daemon.
//! `ARCHITECTURE.md` has the invariants and their reasons; `tests/tidy` checks the imports.

mod address;
pub mod api;
pub mod broker;
pub mod chat;
mod child_group;
pub mod cli;
pub mod client;
pub mod config;
pub mod context;
pub mod daemon;
pub mod error;
pub mod history;
pub mod http_client;
pub mod mcp;
pub mod paths;
pub mod protocol;
pub mod python;
pub mod recording;
pub mod requests;
pub mod safety;
pub mod sandbox;
pub mod secret;
pub mod services;
pub mod session;
pub mod share;
pub mod terminal;
pub mod tools;
pub mod turn;
pub mod web;
pub mod workspace;
