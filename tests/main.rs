//! Everything that is tested against the outside, in one binary.

mod broker;
mod fakes;
mod support;
mod zsh;
