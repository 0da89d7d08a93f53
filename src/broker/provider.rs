//! The wire formats of model providers. Pure: each format converts a conversation to a request body and the
//! events of an answer to `StreamItem`s; all formats share transport, retries and limits.

pub mod chat;
