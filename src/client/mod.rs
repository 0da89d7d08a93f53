//! What runs in the person's terminal: small, synchronous, without a runtime, TLS or config.

pub mod approve;
pub mod ask;
mod asking;
pub mod capture;
pub mod command;
pub mod connect;
pub mod elicit;
pub mod frame;
pub mod gather;
pub mod line;
mod news;
pub mod operation;
pub mod output;
pub mod propose;
pub mod render;
pub mod serve;
pub mod signals;
pub mod terminal;
pub mod tools;
