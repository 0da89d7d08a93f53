//! Servers that behave as they are told.

pub mod provider;
pub mod steady;
pub mod tls;
