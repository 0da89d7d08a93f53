//! Model providers.
pub mod serve;
