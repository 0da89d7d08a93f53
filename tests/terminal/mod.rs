//! The output of the user's commands, read from real terminal multiplexers and from programs that print what other terminals do.

mod fakes;
#[cfg(target_os = "linux")]
mod lost;
mod matrix;
mod multiplexer;
mod secrets;
mod situations;
