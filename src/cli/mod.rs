//! The admin commands, a file each.

pub mod model_install;
