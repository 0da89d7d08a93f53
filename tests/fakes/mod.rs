//! Servers that behave as they are told.

pub mod daemon;
pub mod provider;
pub mod tls;
