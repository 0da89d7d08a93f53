//! Recordings of terminals: the raw output, and beside it when it came, the terminal's size, the commands, and what was
//! left out.

pub mod asciicast;
pub mod commands;
pub mod event;
mod functions;
mod origin_screen;
pub mod player;
pub mod reader;
pub mod replay_index;
pub mod screen;
pub mod secrets;
pub mod transcript;

#[cfg(test)]
mod tests;
