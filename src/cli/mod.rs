//! The admin commands, a file each.

pub mod config;
pub mod model_install;
