//! Integration tests, in one binary: they drive the real binary, a real zsh and real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation fails the test"
)]

mod api;
mod attach;
mod broker;
mod cli;
mod completions;
mod docs;
mod doctor;
mod fakes;
mod fuzz;
mod fuzz_corpus;
mod mcp;
mod onboarding;
mod picture;
mod python;
mod real;
mod record;
#[cfg(target_os = "linux")]
mod sandbox;
mod settings;
mod share;
mod support;
mod terminal;
mod tidy;
mod tools;
mod tools_prompt;
mod unseen_failure;
mod work;
mod workspace;
mod zsh;
