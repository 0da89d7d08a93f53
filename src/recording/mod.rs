//! Recordings of terminals: the raw output, and beside it when it came, the terminal's size, the commands, and what was
//! left out.

pub mod alternate_screen;
pub mod asciicast;
pub mod command_output;
pub mod commands;
pub mod event;
mod functions;
pub mod list;
pub mod marks;
mod origin_screen;
pub mod part;
pub mod player;
mod prompt_mark;
pub mod reader;
pub mod recorder;
pub mod replay_index;
pub mod retention;
pub mod screen;
pub mod secrets;
pub mod transcript;
pub mod writer;

#[cfg(test)]
mod tests;
