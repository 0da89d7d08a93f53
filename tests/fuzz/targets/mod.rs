//! The targets, a file each.

pub mod assessment;
pub mod command;
pub mod config;
pub mod fifo;
pub mod mcp;
pub mod redact;
pub mod sink;
pub mod socket;
pub mod sse;
