//! What runs in the person's terminal: small, synchronous, without a runtime, TLS or config.

pub mod ask;
pub mod connect;
pub mod output;
pub mod propose;
pub mod terminal;
