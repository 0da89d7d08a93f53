//! The admin commands, a file each.

pub mod config;
