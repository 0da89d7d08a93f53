//! Tools of our own, through which a model finds and calls those of servers.

pub mod split;
