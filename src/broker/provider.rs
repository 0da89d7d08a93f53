//! The wire formats of model providers. Pure: each provider turns a conversation into a request body and the
//! events of an answer into chunks; transport, retries and limits are shared by all.

pub mod chat;
