//! Scripted servers.

pub mod aish_server;
pub mod daemon;
pub mod file_server;
pub mod lmcp;
pub mod mcp_http;
pub mod oauth;
pub mod provider;
pub mod request_head;
pub mod s3;
pub mod s3s_fs;
pub mod steady;
pub mod tls;
