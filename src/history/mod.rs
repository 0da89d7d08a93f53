//! The record of everything: what was said, proposed, decided and run.

pub mod journal;
pub mod record;
mod redacted;
