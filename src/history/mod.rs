//! The history of everything: what was said, proposed, decided and run.

pub mod index;
pub mod journal;
pub mod partial_answer;
pub mod record;
mod redacted;
pub mod retention;
mod writer;
