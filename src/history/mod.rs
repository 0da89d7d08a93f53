//! The record of everything: what was said, proposed, decided and run.

pub mod index;
pub mod journal;
pub mod record;
mod redacted;
pub mod retention;
