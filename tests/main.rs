//! Everything that is tested against the outside, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod broker;
mod cli;
mod completions;
mod docs;
mod doctor;
mod fakes;
mod guide;
mod mcp;
mod real;
mod record;
mod support;
mod tidy;
mod tools;
mod tools_prompt;
mod unseen;
mod zsh;
