//! map

pub mod client;
