//! What runs in the person's terminal: small, synchronous, without a runtime, TLS or config.

pub mod ask;
pub mod capture;
pub mod connect;
pub mod line;
pub mod output;
pub mod propose;
pub mod render;
pub mod signals;
pub mod terminal;
