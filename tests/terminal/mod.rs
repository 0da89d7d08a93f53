//! The output of the user's commands, read from real terminal multiplexers and from programs that print what other terminals do.

mod fakes;
mod matrix;
mod multiplexer;
mod situations;
