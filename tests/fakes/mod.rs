//! Servers that behave as they are told.

pub mod oauth;
pub mod provider;
pub mod tls;
