//! The pure parts of a turn: its state machine, the outcomes of its calls, and the commands in its answer.

pub mod command_extractor;
pub mod machine;
pub mod outcome;
