//! The journal of prompts, answers, decisions and actions, and the index over it.

pub mod index;
pub mod journal;
pub mod partial_answer;
pub mod record;
mod redacted;
pub mod retention;
pub mod session_list;
mod writer;
